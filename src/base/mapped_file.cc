#include "base/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace isomer {
namespace {

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "something else";
}

Diagnostic cannot(const char* what, const std::string& path) {
  return Diagnostic("E-file", fmt::format("cannot {} {}: {}", what, quoted(path), std::strerror(errno)));
}

}  // namespace

Expected<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
  if (path.find('\0') != std::string::npos)
    return Diagnostic("E-file", fmt::format("the file name {} holds a zero byte", quoted(path)));
  // O_NONBLOCK: opening a pipe that nobody writes to must not wait.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  if (file.fd < 0) return cannot("open", path);
  return of_descriptor(file.fd, path);
}

Expected<std::shared_ptr<const MappedFile>> MappedFile::of_descriptor(int descriptor, const std::string& path) {
  struct stat info{};
  if (::fstat(descriptor, &info) != 0) return cannot("look at", path);
  if (!S_ISREG(info.st_mode))
    return Diagnostic("E-not-a-file",
                      fmt::format("expected a regular file, found {}: {}", kind_of(info.st_mode), quoted(path)));
  if (static_cast<uint64_t>(info.st_size) > SIZE_MAX)
    return Diagnostic("E-file", fmt::format("{} is too large for this machine", quoted(path)));
  const auto size = static_cast<size_t>(info.st_size);
  void* data = nullptr;
  if (size != 0) {
    data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (data == MAP_FAILED) return cannot("map", path);
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(path, data, size));
}

void MappedFile::forget(std::span<const std::byte> part) const {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(part.data()), end = begin + part.size();
  const uintptr_t first = (begin + page - 1) / page * page, last = end / page * page;
  // Advice alone: a failure leaves the pages where they are.
  if (first < last) (void)::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace isomer
