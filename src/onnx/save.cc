// Files: written beside their place and renamed, so that a reader never sees half of one.
#include <fcntl.h>
#include <fmt/format.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "onnx/export_proto.h"
#include "onnx/onnx.h"
#include "onnx/tensor_proto.h"

namespace isomer::onnx {
namespace {

// A message may have 2 GiB; names and nodes need some of it.
constexpr int64_t kMaxMessageBytes = (int64_t{1} << 31) - 1;
constexpr size_t kWorthExternal = 1024;
constexpr int64_t kDataAlignment = 64;

Diagnostic cannot_write(const std::string& path) {
  return Diagnostic("E-file", fmt::format("cannot write {}: {}", quoted(path), std::strerror(errno)));
}

Expected<void> write_atomically(const std::string& path, const std::function<bool(int)>& write) {
  std::string temporary = path + ".XXXXXX";
  const int fd = ::mkstemp(temporary.data());
  if (fd < 0) return cannot_write(path);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  bool ok = write(fd) && ::fchmod(fd, 0666 & ~mask) == 0;
  ok = ::close(fd) == 0 && ok;
  ok = ok && ::rename(temporary.c_str(), path.c_str()) == 0;
  if (ok) return {};
  Diagnostic d = cannot_write(path);
  ::unlink(temporary.c_str());
  return d;
}

bool write_all(int fd, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t n = ::write(fd, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    data += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

template <class Proto>
Expected<void> write_message(const Proto& proto, const std::string& path) {
  return write_atomically(path, [&](int fd) {
    ::google::protobuf::io::FileOutputStream stream(fd);
    return proto.SerializeToZeroCopyStream(&stream) && stream.Flush();
  });
}

// Moves the large initializers of a graph into a data file.
Expected<void> move_data(::onnx::GraphProto& graph, const std::string& path, const std::string& location) {
  return write_atomically(path, [&](int fd) {
    int64_t at = 0;
    for (auto& t : *graph.mutable_initializer()) {
      if (t.raw_data().size() < kWorthExternal) continue;
      const int64_t padding = (kDataAlignment - at % kDataAlignment) % kDataAlignment;
      const std::string zeros(static_cast<size_t>(padding), '\0');
      if (!write_all(fd, zeros.data(), zeros.size()) || !write_all(fd, t.raw_data().data(), t.raw_data().size()))
        return false;
      at += padding;
      const std::pair<const char*, std::string> entries[] = {
          {"location", location}, {"offset", std::to_string(at)}, {"length", std::to_string(t.raw_data().size())}};
      for (const auto& [key, value] : entries) {
        auto& entry = *t.add_external_data();
        entry.set_key(key);
        entry.set_value(value);
      }
      at += static_cast<int64_t>(t.raw_data().size());
      t.set_data_location(::onnx::TensorProto::EXTERNAL);
      t.clear_raw_data();
    }
    return true;
  });
}

Diagnostic too_large() {
  return Diagnostic("E-onnx-export", "the model is larger than the 2 GiB that one ONNX file can hold");
}

}  // namespace

Expected<std::string> save_bytes(const ir::Graph& graph) {
  ISOMER_TRY(const ::onnx::ModelProto model, Exporter().run(graph));
  std::string bytes;
  if (static_cast<int64_t>(model.ByteSizeLong()) > kMaxMessageBytes || !model.SerializeToString(&bytes))
    return too_large();
  return bytes;
}

Expected<void> save(const ir::Graph& graph, const std::string& path, const SaveOptions& options) {
  ISOMER_TRY(::onnx::ModelProto model, Exporter().run(graph));
  if (options.external_data || static_cast<int64_t>(model.ByteSizeLong()) > kMaxMessageBytes) {
    const std::string data = path + ".data";
    const size_t slash = data.rfind('/');
    ISOMER_CHECK_OK(
        move_data(*model.mutable_graph(), data, slash == std::string::npos ? data : data.substr(slash + 1)));
  }
  if (static_cast<int64_t>(model.ByteSizeLong()) > kMaxMessageBytes) return too_large();
  return write_message(model, path);
}

Expected<void> save_tensor(const Tensor& tensor, const std::string& path, const std::string& name) {
  if (tensor.byte_size() + name.size() + 4096 > static_cast<size_t>(kMaxMessageBytes)) return too_large();
  ::onnx::TensorProto proto;
  write_tensor(tensor, proto);
  if (!name.empty()) proto.set_name(name);
  return write_message(proto, path);
}

}  // namespace isomer::onnx
