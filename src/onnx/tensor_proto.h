// Tensors as ONNX files write them. A tensor whose element type Isomer does not compute with (strings, float8, complex)
// is no error: it reads as nothing, and its user carries the bytes.
#pragma once

#include <onnx.pb.h>

#include <optional>

#include "base/expected.h"
#include "tensor/tensor.h"

namespace isomer::onnx {

// The most axes a tensor or a declared type may have; real models stay below ten.
inline constexpr int kMaxRank = 64;

// Nothing for the types that are carried only; a diagnostic for a number that is no ONNX type at all.
Expected<std::optional<DType>> dtype_of(int32_t onnx_type);
int32_t onnx_type_of(DType type);
// "FLOAT", as the first opset wrote types in attributes.
std::optional<DType> dtype_of_name(std::string_view name);

Expected<std::optional<Tensor>> read_tensor(const ::onnx::TensorProto& proto);
void write_tensor(const Tensor& tensor, ::onnx::TensorProto& proto);

}  // namespace isomer::onnx
