// MappedFile: the bytes of a regular file, mapped read-only; pages are read when touched. The span stays valid as
// long as the object lives. A file that another process shortens meanwhile is outside what a mapping can defend.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/expected.h"

namespace isomer {

class MappedFile {
 public:
  // Refuses everything that is no regular file: folders, pipes, sockets, devices.
  static Expected<std::shared_ptr<const MappedFile>> open(const std::string& path);
  // The same for a file that is open already; the descriptor stays the caller's, `path` is for messages.
  static Expected<std::shared_ptr<const MappedFile>> of_descriptor(int descriptor, const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }
  const std::string& path() const { return path_; }
  // Gives the pages of a part that has been read back to the system; reading it again is possible and costs again.
  void forget(std::span<const std::byte> part) const;

 private:
  MappedFile(std::string path, void* data, size_t size) : path_(std::move(path)), data_(data), size_(size) {}
  std::string path_;
  void* data_;
  size_t size_;
};

}  // namespace isomer
