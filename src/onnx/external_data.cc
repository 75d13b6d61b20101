#include "onnx/external_data.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

namespace isomer::onnx {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  void reset(int fd) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_;
};

Diagnostic refused(const std::string& location, const std::string& why) {
  return Diagnostic("E-onnx-external", fmt::format("external data {} {}", quoted(location), why));
}

// The parts of a relative path, or nothing when it could lead out of its folder.
std::vector<std::string> parts_of(const std::string& location) {
  std::vector<std::string> parts;
  size_t from = 0;
  while (from <= location.size()) {
    const size_t to = std::min(location.find('/', from), location.size());
    const std::string part = location.substr(from, to - from);
    if (part == "..") return {};
    if (!part.empty() && part != ".") parts.push_back(part);
    from = to + 1;
  }
  return parts;
}

}  // namespace

Expected<std::shared_ptr<const MappedFile>> ExternalFiles::open(const std::string& location) {
  if (const auto it = files_.find(location); it != files_.end()) return it->second;
  if (folder_.empty()) return refused(location, "cannot be read: the model is not in a folder");
  if (location.empty() || location.size() > 4096) return refused(location, "is no file name");
  if (location[0] == '/' || location.find('\0') != std::string::npos || location.find('\\') != std::string::npos)
    return refused(location, "is refused: only paths below the model's folder are taken");
  const std::vector<std::string> parts = parts_of(location);
  if (parts.empty()) return refused(location, "is refused: only paths below the model's folder are taken");
  Descriptor at(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (size_t i = 0; i < parts.size(); ++i) {
    if (at.get() < 0) break;
    const bool last = i + 1 == parts.size();
    // Without O_NONBLOCK a pipe would stop us here.
    const int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | (last ? O_NONBLOCK : O_DIRECTORY);
    at.reset(::openat(at.get(), parts[i].c_str(), flags));
  }
  if (at.get() < 0) {
    if (errno == ELOOP || errno == ENOTDIR) return refused(location, "is refused: it leads through a link");
    return refused(location, fmt::format("cannot be opened: {}", std::strerror(errno)));
  }
  struct stat info{};
  if (::fstat(at.get(), &info) != 0 || !S_ISREG(info.st_mode)) return refused(location, "is no regular file");
  if (info.st_nlink > 1) return refused(location, "is refused: the file has a second name elsewhere; copy it");
  ISOMER_TRY(std::shared_ptr<const MappedFile> file, MappedFile::of_descriptor(at.get(), location));
  files_.emplace(location, file);
  return file;
}

}  // namespace isomer::onnx
