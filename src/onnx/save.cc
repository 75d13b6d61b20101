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
#include <map>

#include "onnx/export_proto.h"
#include "onnx/onnx.h"
#include "onnx/tensor_proto.h"

namespace isomer::onnx {
namespace {

// A message may have 2 GiB; names and nodes need some of it.
constexpr size_t kMaxMessageBytes = (size_t{1} << 31) - 1;
constexpr size_t kHeadBytes = 32;  // at most, of the lengths that the data of an initializer changes
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

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
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

std::string_view bytes_of(const Tensor& t) { return {reinterpret_cast<const char*>(t.bytes()), t.byte_size()}; }

using Data = std::map<int, Tensor>;  // of initializers, by their number

// The data of initializers into a file of their own.
Expected<void> move_data(::onnx::GraphProto& graph, const Data& data, const std::string& path,
                         const std::string& location) {
  return write_atomically(path, [&](int fd) {
    int64_t at = 0;
    for (const auto& [number, tensor] : data) {
      const int64_t padding = (kDataAlignment - at % kDataAlignment) % kDataAlignment;
      if (!write_all(fd, std::string(static_cast<size_t>(padding), '\0')) || !write_all(fd, bytes_of(tensor)))
        return false;
      at += padding;
      ::onnx::TensorProto& t = *graph.mutable_initializer(number);
      const std::pair<const char*, std::string> entries[] = {
          {"location", location}, {"offset", std::to_string(at)}, {"length", std::to_string(tensor.byte_size())}};
      for (const auto& [key, value] : entries) {
        auto& entry = *t.add_external_data();
        entry.set_key(key);
        entry.set_value(value);
      }
      at += static_cast<int64_t>(tensor.byte_size());
      t.set_data_location(::onnx::TensorProto::EXTERNAL);
    }
    return true;
  });
}

// What stands before the contents of a field that has a length.
std::string head_of(int field, size_t length) {
  std::string out;
  for (uint64_t number : {static_cast<uint64_t>(field) << 3 | 2, static_cast<uint64_t>(length)}) {
    for (; number >= 0x80; number >>= 7) out.push_back(static_cast<char>(number | 0x80));
    out.push_back(static_cast<char>(number));
  }
  return out;
}

// The message as protobuf would write it, fields in the order of their numbers, with the data in their places.
struct Layout {
  std::string before, after;       // of the initializers
  std::vector<std::string> heads;  // of each, all but its data
  size_t size = 0;
};
Layout layout_of(::onnx::ModelProto model, const Data& data) {
  Layout out;
  ::onnx::GraphProto graph = std::move(*model.mutable_graph());
  const auto initializers = std::move(*graph.mutable_initializer());
  size_t size = 0;
  for (int i = 0; i < initializers.size(); ++i) {
    const auto it = data.find(i);
    const size_t bytes = it == data.end() ? 0 : it->second.byte_size();
    std::string own = initializers[i].SerializeAsString();
    if (bytes > 0) own += head_of(::onnx::TensorProto::kRawDataFieldNumber, bytes);
    out.heads.push_back(head_of(::onnx::GraphProto::kInitializerFieldNumber, own.size() + bytes) + own);
    size += out.heads.back().size() + bytes;
  }
  graph.clear_initializer();
  ::onnx::GraphProto first;
  first.mutable_node()->Swap(graph.mutable_node());
  if (graph.has_name()) first.set_name(graph.name());
  graph.clear_name();
  const std::string start = first.SerializeAsString(), rest = graph.SerializeAsString();
  model.clear_graph();
  ::onnx::ModelProto last;
  last.mutable_opset_import()->Swap(model.mutable_opset_import());
  last.mutable_metadata_props()->Swap(model.mutable_metadata_props());
  const size_t contents = start.size() + size + rest.size();
  out.before = model.SerializeAsString() + head_of(::onnx::ModelProto::kGraphFieldNumber, contents) + start;
  out.after = rest + last.SerializeAsString();
  out.size = out.before.size() + size + out.after.size();
  return out;
}

// All of it in pieces, as long as they are taken.
bool for_each_piece(const Layout& layout, const Data& data, const std::function<bool(std::string_view)>& take) {
  bool ok = take(layout.before);
  for (size_t i = 0; ok && i < layout.heads.size(); ++i) {
    ok = take(layout.heads[i]);
    if (const auto it = data.find(static_cast<int>(i)); ok && it != data.end()) ok = take(bytes_of(it->second));
  }
  return ok && take(layout.after);
}

Diagnostic too_large() {
  return Diagnostic("E-onnx-export", "the model is larger than the 2 GiB that one ONNX file can hold");
}

}  // namespace

Expected<std::string> save_bytes(const ir::Graph& graph) {
  Exporter exporter;
  ISOMER_TRY(::onnx::ModelProto model, exporter.run(graph));
  const Layout layout = layout_of(std::move(model), exporter.data());
  if (layout.size > kMaxMessageBytes) return too_large();
  std::string bytes;
  bytes.reserve(layout.size);
  for_each_piece(layout, exporter.data(), [&](std::string_view piece) {
    bytes += piece;
    return true;
  });
  return bytes;
}

Expected<void> save(const ir::Graph& graph, const std::string& path, const SaveOptions& options) {
  Exporter exporter;
  ISOMER_TRY(::onnx::ModelProto model, exporter.run(graph));
  Data data = exporter.data();
  size_t all = model.ByteSizeLong() + kHeadBytes;
  for (const auto& [number, tensor] : data) all += tensor.byte_size() + kHeadBytes;
  if (options.external_data || all > kMaxMessageBytes) {
    const std::string file = path + ".data";
    const size_t slash = file.rfind('/');
    ISOMER_CHECK_OK(
        move_data(*model.mutable_graph(), data, file, slash == std::string::npos ? file : file.substr(slash + 1)));
    data.clear();
  }
  if (model.ByteSizeLong() > kMaxMessageBytes) return too_large();
  const Layout layout = layout_of(std::move(model), data);
  return write_atomically(path, [&](int fd) {
    return for_each_piece(layout, data, [&](std::string_view piece) { return write_all(fd, piece); });
  });
}

Expected<void> save_tensor(const Tensor& tensor, const std::string& path, const std::string& name) {
  if (tensor.byte_size() + name.size() + 4096 > kMaxMessageBytes) return too_large();
  ::onnx::TensorProto proto;
  write_tensor(tensor, proto);
  if (!name.empty()) proto.set_name(name);
  return write_message(proto, path);
}

}  // namespace isomer::onnx
