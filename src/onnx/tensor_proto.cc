#include "onnx/tensor_proto.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>

namespace isomer::onnx {

using ::onnx::TensorProto;

namespace {

Diagnostic wrong(const TensorProto& t, std::string message) {
  return Diagnostic("E-onnx-tensor", fmt::format("tensor {}: {}", quoted(t.name()), std::move(message)));
}

// Types of the format that Isomer carries without computing: strings, complex numbers, 8-, 4- and 2-bit types.
bool is_carried(int32_t type) {
  return type == TensorProto::STRING || type == TensorProto::COMPLEX64 || type == TensorProto::COMPLEX128 ||
         (type >= 17 && type <= 26);
}

Tensor copy_raw(DType dtype, std::vector<int64_t> dims, const void* from) {
  Tensor out(dtype, std::move(dims));
  if (out.byte_size() > 0) std::memcpy(out.mutable_bytes(), from, out.byte_size());
  if (dtype == DType::Bool)
    for (int64_t i = 0; i < out.size(); ++i) out.set_integer(i, out.integer(i));
  return out;
}

// Number of elements in the typed fields together: only the one that belongs to the element type may hold any.
struct TypedData {
  int64_t fitting = 0;
  int64_t other = 0;
};

TypedData typed_data(const TensorProto& t, DType dtype) {
  const bool in_i32 = (is_int(dtype) && size_of(dtype) <= 2) || dtype == DType::I32 || dtype == DType::Bool ||
                      dtype == DType::F16 || dtype == DType::BF16;
  TypedData n;
  (dtype == DType::F32 ? n.fitting : n.other) += t.float_data_size();
  (in_i32 ? n.fitting : n.other) += t.int32_data_size();
  (dtype == DType::I64 ? n.fitting : n.other) += t.int64_data_size();
  (dtype == DType::F64 ? n.fitting : n.other) += t.double_data_size();
  (dtype == DType::U32 || dtype == DType::U64 ? n.fitting : n.other) += t.uint64_data_size();
  n.other += t.string_data_size();
  return n;
}

Tensor copy_typed(const TensorProto& t, DType dtype, std::vector<int64_t> dims) {
  switch (dtype) {
    case DType::F32: return copy_raw(dtype, std::move(dims), t.float_data().data());
    case DType::F64: return copy_raw(dtype, std::move(dims), t.double_data().data());
    case DType::I64: return copy_raw(dtype, std::move(dims), t.int64_data().data());
    case DType::U64: return copy_raw(dtype, std::move(dims), t.uint64_data().data());
    default: break;
  }
  Tensor out(dtype, std::move(dims));
  for (int i = 0; i < out.size(); ++i) {
    if (dtype == DType::U32)
      out.set_integer(i, static_cast<int64_t>(t.uint64_data(i)));
    else if (dtype == DType::F16 || dtype == DType::BF16)
      out.mutable_as<uint16_t>()[i] = static_cast<uint16_t>(t.int32_data(i));  // the bits, not the number
    else
      out.set_integer(i, t.int32_data(i));
  }
  return out;
}

}  // namespace

Expected<std::optional<DType>> dtype_of(int32_t type) {
  switch (type) {
    case TensorProto::FLOAT: return std::optional(DType::F32);
    case TensorProto::UINT8: return std::optional(DType::U8);
    case TensorProto::INT8: return std::optional(DType::I8);
    case TensorProto::UINT16: return std::optional(DType::U16);
    case TensorProto::INT16: return std::optional(DType::I16);
    case TensorProto::INT32: return std::optional(DType::I32);
    case TensorProto::INT64: return std::optional(DType::I64);
    case TensorProto::BOOL: return std::optional(DType::Bool);
    case TensorProto::FLOAT16: return std::optional(DType::F16);
    case TensorProto::DOUBLE: return std::optional(DType::F64);
    case TensorProto::UINT32: return std::optional(DType::U32);
    case TensorProto::UINT64: return std::optional(DType::U64);
    case TensorProto::BFLOAT16: return std::optional(DType::BF16);
    default: break;
  }
  if (is_carried(type)) return std::optional<DType>();
  return Diagnostic("E-onnx-type", fmt::format("{} is no element type of ONNX", type));
}

int32_t onnx_type_of(DType type) {
  switch (type) {
    case DType::F32: return TensorProto::FLOAT;
    case DType::F64: return TensorProto::DOUBLE;
    case DType::F16: return TensorProto::FLOAT16;
    case DType::BF16: return TensorProto::BFLOAT16;
    case DType::I64: return TensorProto::INT64;
    case DType::I32: return TensorProto::INT32;
    case DType::I16: return TensorProto::INT16;
    case DType::I8: return TensorProto::INT8;
    case DType::U64: return TensorProto::UINT64;
    case DType::U32: return TensorProto::UINT32;
    case DType::U16: return TensorProto::UINT16;
    case DType::U8: return TensorProto::UINT8;
    case DType::Bool: return TensorProto::BOOL;
    case DType::Opaque: break;
  }
  return TensorProto::UNDEFINED;
}

std::optional<DType> dtype_of_name(std::string_view name) {
  TensorProto::DataType type;
  if (!TensorProto::DataType_Parse(std::string(name), &type)) return std::nullopt;
  const auto found = dtype_of(type);
  return found.ok() ? *found : std::nullopt;
}

namespace {

// A tensor over bytes of a mapped file: shared when large and aligned for its type, else copied.
Tensor share_or_copy(DType dtype, std::vector<int64_t> dims, std::span<const std::byte> bytes,
                     const std::shared_ptr<const MappedFile>& file) {
  constexpr size_t kWorthSharing = 4096;
  const bool aligned = reinterpret_cast<uintptr_t>(bytes.data()) % size_of(dtype) == 0;
  if (file && aligned && bytes.size() >= kWorthSharing && dtype != DType::Bool)
    return Tensor(dtype, std::move(dims), bytes.data(), file);
  Tensor copy = copy_raw(dtype, std::move(dims), bytes.data());
  if (file) file->forget(bytes);  // or every byte of the model would be in memory twice
  return copy;
}

// A decimal number that is not negative; nothing else.
std::optional<uint64_t> parse_count(const std::string& text) {
  uint64_t v = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  return error == std::errc() && end == text.data() + text.size() && !text.empty() ? std::optional(v) : std::nullopt;
}

}  // namespace

Expected<std::optional<Tensor>> TensorReader::read(const TensorProto& t) {
  const auto known = dtype_of(t.data_type());
  if (!known.ok()) return wrong(t, known.error().message);
  if (t.dims_size() > kMaxRank)
    return wrong(t, fmt::format("it has {} axes, at most {} are taken", t.dims_size(), kMaxRank));
  if (!*known) return std::optional<Tensor>();
  const DType dtype = **known;
  std::vector<int64_t> dims(t.dims().begin(), t.dims().end());
  const auto elements = checked_elements(dtype, dims);
  if (!elements.ok()) return wrong(t, elements.error().message);
  if (t.has_segment()) return wrong(t, "segments of a tensor in several pieces are not supported");
  const TypedData typed = typed_data(t, dtype);
  if (typed.other > 0) return wrong(t, fmt::format("it holds data in a field that does not belong to {}", name(dtype)));
  if (t.data_location() == TensorProto::EXTERNAL) {
    if (t.has_raw_data() || typed.fitting > 0) return wrong(t, "it holds data both in the model and in another file");
    ISOMER_TRY(Tensor external, read_external(t, dtype, std::move(dims)));
    return std::optional(std::move(external));
  }
  if (t.has_raw_data() && typed.fitting > 0) return wrong(t, "it holds both raw_data and typed data");
  if (t.has_raw_data()) {
    const std::span<const std::byte> bytes = blob(t);
    const size_t expected = static_cast<size_t>(*elements) * size_of(dtype);
    if (bytes.size() != expected)
      return wrong(t, fmt::format("raw_data has {} bytes, its shape asks for {}", bytes.size(), expected));
    return std::optional(share_or_copy(dtype, std::move(dims), bytes, file_));
  }
  if (typed.fitting != *elements)
    return wrong(t, fmt::format("it holds {} elements, its shape asks for {}", typed.fitting, *elements));
  return std::optional(copy_typed(t, dtype, std::move(dims)));
}

std::span<const std::byte> TensorReader::blob(const TensorProto& t) const {
  uint64_t index = 0;
  ISOMER_ASSERT(t.raw_data().size() == sizeof(index), "raw data was cut out of the message");
  std::memcpy(&index, t.raw_data().data(), sizeof(index));
  return blobs_.at(index);
}

Expected<Tensor> TensorReader::read_external(const TensorProto& t, DType dtype, std::vector<int64_t> dims) {
  std::optional<std::string> location, offset_text, length_text;
  for (const auto& entry : t.external_data()) {
    auto* known = entry.key() == "location" ? &location
                  : entry.key() == "offset" ? &offset_text
                  : entry.key() == "length" ? &length_text
                                            : nullptr;
    if (!known) continue;
    if (*known) return wrong(t, fmt::format("its external data gives {} twice", entry.key()));
    *known = entry.value();
  }
  if (!location) return wrong(t, "its external data names no location");
  ISOMER_TRY(const int64_t elements, checked_elements(dtype, dims));
  const uint64_t expected = static_cast<uint64_t>(elements) * size_of(dtype);
  const auto offset = offset_text ? parse_count(*offset_text) : std::optional<uint64_t>(0);
  const auto length = length_text ? parse_count(*length_text) : std::optional<uint64_t>(expected);
  if (!offset) return wrong(t, fmt::format("the offset {} of its external data is no number", quoted(*offset_text)));
  if (!length) return wrong(t, fmt::format("the length {} of its external data is no number", quoted(*length_text)));
  if (*length != expected)
    return wrong(t, fmt::format("its external data has {} bytes, its shape asks for {}", *length, expected));
  const auto file = external_.open(*location);
  if (!file.ok()) return Diagnostic(file.error()).note("for tensor " + quoted(t.name()));
  const std::span<const std::byte> bytes = (*file)->bytes();
  if (*offset > bytes.size() || *length > bytes.size() - *offset)
    return wrong(t, fmt::format("its external data is bytes {} to {} + {} of {}, which has {}", *offset, *offset,
                                *length, quoted(*location), bytes.size()));
  return share_or_copy(dtype, std::move(dims), bytes.subspan(*offset, *length), *file);
}

void TensorReader::restore(TensorProto& t) const {
  if (!t.has_raw_data()) return;
  const std::span<const std::byte> bytes = blob(t);
  t.set_raw_data(bytes.data(), bytes.size());
}

std::string TensorReader::bytes_of(const ::onnx::AttributeProto& attribute) const {
  ::onnx::AttributeProto copy = attribute;
  const auto restore_sparse = [&](::onnx::SparseTensorProto& s) {
    if (s.has_values()) restore(*s.mutable_values());
    if (s.has_indices()) restore(*s.mutable_indices());
  };
  if (copy.has_t()) restore(*copy.mutable_t());
  for (auto& t : *copy.mutable_tensors()) restore(t);
  if (copy.has_sparse_tensor()) restore_sparse(*copy.mutable_sparse_tensor());
  for (auto& s : *copy.mutable_sparse_tensors()) restore_sparse(s);
  copy.clear_g();
  copy.clear_graphs();
  return copy.SerializeAsString();
}

void write_type(const Tensor& tensor, TensorProto& t) {
  t.set_data_type(onnx_type_of(tensor.dtype()));
  for (int64_t d : tensor.dims()) t.add_dims(d);
}

void write_data(const Tensor& tensor, TensorProto& t) { t.set_raw_data(tensor.bytes(), tensor.byte_size()); }

void write_tensor(const Tensor& tensor, TensorProto& t) {
  write_type(tensor, t);
  write_data(tensor, t);
}

}  // namespace isomer::onnx
