#include "onnx/wire.h"

#include <fmt/format.h>

#include <cstring>
#include <optional>

namespace isomer::onnx {
namespace {

// Graph, node and attribute for each of the 64 nestings of bodies, and the model, tensors and types round them.
constexpr int kMaxDepth = 3 * 64 + 8;
constexpr uint32_t kRawData = 9;  // in a tensor

// The message a field of a message holds, for those on the way to a tensor.
std::optional<Message> inside(Message kind, uint32_t field) {
  switch (kind) {
    case Message::Model:
      if (field == 7) return Message::Graph;
      if (field == 25) return Message::Function;
      return std::nullopt;
    case Message::Graph:
      if (field == 1) return Message::Node;
      if (field == 5) return Message::Tensor;
      if (field == 15) return Message::SparseTensor;
      return std::nullopt;
    case Message::Node: return field == 5 ? std::optional(Message::Attribute) : std::nullopt;
    case Message::Attribute:
      if (field == 5 || field == 10) return Message::Tensor;
      if (field == 6 || field == 11) return Message::Graph;
      if (field == 22 || field == 23) return Message::SparseTensor;
      return std::nullopt;
    case Message::SparseTensor: return field == 1 || field == 2 ? std::optional(Message::Tensor) : std::nullopt;
    case Message::Function:
      if (field == 7) return Message::Node;
      if (field == 11) return Message::Attribute;
      return std::nullopt;
    case Message::Tensor: break;
  }
  return std::nullopt;
}

// Training state is never read, and may be large.
bool is_left_out(Message kind, uint32_t field) { return kind == Message::Model && field == 20; }

void append_varint(std::string& out, uint64_t v) {
  for (; v >= 0x80; v >>= 7) out.push_back(static_cast<char>(v | 0x80));
  out.push_back(static_cast<char>(v));
}

std::optional<uint64_t> varint(std::span<const std::byte> bytes, size_t& at) {
  uint64_t v = 0;
  for (int shift = 0; shift < 70 && at < bytes.size(); shift += 7) {
    const auto b = static_cast<uint64_t>(bytes[at++]);
    if (shift < 64) v |= (b & 0x7f) << shift;
    if (b < 0x80) return v;
  }
  return std::nullopt;
}

// Moves past a field's value; the contents of one with a length.
std::optional<std::span<const std::byte>> skip(std::span<const std::byte> bytes, size_t& at, uint32_t type) {
  const auto take = [&](uint64_t n) -> std::optional<std::span<const std::byte>> {
    if (n > bytes.size() - at) return std::nullopt;
    at += n;
    return bytes.subspan(at - n, n);
  };
  switch (type) {
    case 0: return varint(bytes, at) ? std::optional(std::span<const std::byte>()) : std::nullopt;
    case 1: return take(8);
    case 2: {
      const auto n = varint(bytes, at);
      return n ? take(*n) : std::nullopt;
    }
    case 5: return take(4);
    default: return std::nullopt;  // groups: no message of ONNX has them
  }
}

class Cutter {
 public:
  explicit Cutter(std::vector<std::span<const std::byte>>& blobs) : blobs_(blobs) {}

  Expected<void> cut(std::span<const std::byte> bytes, Message kind, int depth, std::string& out) {
    if (depth > kMaxDepth) return Diagnostic("E-nesting", "graphs are nested more than 64 deep");
    size_t at = 0;
    while (at < bytes.size()) {
      const size_t start = at;
      const auto tag = varint(bytes, at);
      if (!tag || *tag > UINT32_MAX || (*tag >> 3) == 0) return broken();
      const auto field = static_cast<uint32_t>(*tag >> 3);
      const auto body = skip(bytes, at, static_cast<uint32_t>(*tag & 7));
      if (!body) return broken();
      if (is_left_out(kind, field)) continue;
      const bool is_bytes = (*tag & 7) == 2;
      if (is_bytes && kind == Message::Tensor && field == kRawData) {
        const auto index = static_cast<uint64_t>(blobs_.size());
        blobs_.push_back(*body);
        append_varint(out, *tag);
        append_varint(out, sizeof(index));
        out.append(reinterpret_cast<const char*>(&index), sizeof(index));
      } else if (const auto inner = inside(kind, field); is_bytes && inner) {
        std::string child;
        ISOMER_CHECK_OK(cut(*body, *inner, depth + 1, child));
        append_varint(out, *tag);
        append_varint(out, child.size());
        out += child;
      } else {
        out.append(reinterpret_cast<const char*>(bytes.data() + start), at - start);
      }
    }
    return {};
  }

 private:
  static Diagnostic broken() { return Diagnostic("E-onnx-file", "the bytes are no protobuf message"); }

  std::vector<std::span<const std::byte>>& blobs_;
};

}  // namespace

std::vector<std::string_view> fields_with_length(std::span<const std::byte> bytes, uint32_t field) {
  std::vector<std::string_view> out;
  size_t at = 0;
  while (at < bytes.size()) {
    const auto tag = varint(bytes, at);
    const auto body = tag ? skip(bytes, at, static_cast<uint32_t>(*tag & 7)) : std::nullopt;
    if (!body) break;
    if ((*tag & 7) == 2 && *tag >> 3 == field)
      out.emplace_back(reinterpret_cast<const char*>(body->data()), body->size());
  }
  return out;
}

Expected<Cut> cut_tensor_data(std::span<const std::byte> bytes, Message kind) {
  Cut cut;
  ISOMER_CHECK_OK(Cutter(cut.blobs).cut(bytes, kind, 0, cut.rest));
  return cut;
}

}  // namespace isomer::onnx
