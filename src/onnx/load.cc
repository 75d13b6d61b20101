// Files: from bytes to a ModelProto, and the sentences for files that are none.
#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>

#include "base/mapped_file.h"
#include "onnx/import_proto.h"
#include "onnx/onnx.h"
#include "onnx/tensor_proto.h"
#include "onnx/wire.h"

namespace isomer::onnx {
namespace {

// Messages inside messages: three for each nesting of graphs, and the model round them.
constexpr int kMaxMessageDepth = 4 * kMaxNesting;

template <class Proto>
bool parse_message(const std::string& bytes, Proto& proto) {
  if (bytes.size() > INT32_MAX) return false;
  ::google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t*>(bytes.data()),
                                                  static_cast<int>(bytes.size()));
  stream.SetRecursionLimit(kMaxMessageDepth);
  return proto.ParseFromCodedStream(&stream) && stream.ConsumedEntireMessage();
}

// Why bytes are no model, as well as their first ones tell.
Diagnostic not_a_model(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 512));
  const size_t first = text.find_first_not_of(" \t\r\n");
  const std::string_view start = first == std::string_view::npos ? "" : text.substr(first);
  const auto is = [](const char* what) { return Diagnostic("E-onnx-file", what); };
  if (bytes.empty()) return is("the file is empty");
  if (start.starts_with("version https://git-lfs"))
    return is("the file is a git-lfs pointer, not the model itself; fetch it with `git lfs pull`");
  if (start.starts_with("<")) return is("the file is an HTML or XML page, not a model; a download probably went wrong");
  if (text.starts_with("PK\x03\x04")) return is("the file is a zip archive, not a model; unpack it first");
  return is("the file is no ONNX model, or it is damaged or cut off");
}

// `file`: what keeps the bytes alive, null when nothing does.
Expected<Model> load_model(std::span<const std::byte> bytes, std::shared_ptr<const MappedFile> file,
                           const ir::OpTable& table, const std::string& folder) {
  auto cut = cut_tensor_data(bytes, Message::Model);
  if (!cut.ok() && cut.error().code == "E-nesting") return std::move(cut).error();
  ::onnx::ModelProto proto;
  if (!cut.ok() || bytes.empty() || !parse_message(cut->rest, proto)) return not_a_model(bytes);
  if (!proto.has_graph() && !proto.has_ir_version()) return not_a_model(bytes);
  cut->rest = {};
  TensorReader tensors(std::move(cut->blobs), std::move(file), folder);
  return Importer(proto, tensors, table).run();
}

}  // namespace

Expected<Model> load_bytes(std::span<const std::byte> bytes, const ir::OpTable& table, const std::string& folder) {
  return load_model(bytes, nullptr, table, folder);
}

Expected<Model> load(const std::string& path, const ir::OpTable& table) {
  ISOMER_TRY(const std::shared_ptr<const MappedFile> file, MappedFile::open(path));
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  auto model = load_model(file->bytes(), file, table, folder);
  if (!model.ok()) return std::move(model).error().at({path, 0, 0});
  return model;
}

Expected<Tensor> load_tensor(const std::string& path) {
  ISOMER_TRY(const std::shared_ptr<const MappedFile> file, MappedFile::open(path));
  auto cut = cut_tensor_data(file->bytes(), Message::Tensor);
  ::onnx::TensorProto proto;
  if (!cut.ok() || !parse_message(cut->rest, proto))
    return Diagnostic("E-onnx-file", "the file holds no tensor").at({path, 0, 0});
  auto tensor = TensorReader(std::move(cut->blobs), file, "").read(proto);
  if (!tensor.ok()) return std::move(tensor).error().at({path, 0, 0});
  if (!*tensor)
    return Diagnostic("E-unsupported", "the tensor has an element type Isomer does not compute with").at({path, 0, 0});
  return **std::move(tensor);
}

}  // namespace isomer::onnx
