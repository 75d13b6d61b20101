#include "onnx/tensor_proto.h"

#include <fmt/format.h>

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

Expected<std::optional<Tensor>> read_tensor(const TensorProto& t) {
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
  if (t.has_raw_data() && typed.fitting > 0) return wrong(t, "it holds both raw_data and typed data");
  if (t.has_raw_data()) {
    const size_t expected = static_cast<size_t>(*elements) * size_of(dtype);
    if (t.raw_data().size() != expected)
      return wrong(t, fmt::format("raw_data has {} bytes, its shape asks for {}", t.raw_data().size(), expected));
    return std::optional(copy_raw(dtype, std::move(dims), t.raw_data().data()));
  }
  if (typed.fitting != *elements)
    return wrong(t, fmt::format("it holds {} elements, its shape asks for {}", typed.fitting, *elements));
  return std::optional(copy_typed(t, dtype, std::move(dims)));
}

void write_tensor(const Tensor& tensor, TensorProto& t) {
  t.set_data_type(onnx_type_of(tensor.dtype()));
  for (int64_t d : tensor.dims()) t.add_dims(d);
  t.set_raw_data(tensor.bytes(), tensor.byte_size());
}

}  // namespace isomer::onnx
