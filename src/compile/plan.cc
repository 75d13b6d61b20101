#include "compile/plan.h"

#include <algorithm>

namespace isomer::compile {

uint64_t Port::byte_size() const {
  uint64_t bytes = size_of(dtype);
  for (const int64_t dim : dims) bytes *= static_cast<uint64_t>(dim);
  return bytes;
}

uint64_t Plan::scratch_bytes() const {
  uint64_t most = 0;
  for (const Step& step : steps) most = std::max(most, step.scratch_bytes);
  return most;
}

uint64_t Plan::weight_bytes() const {
  uint64_t sum = 0;
  for (const Weight& weight : weights) sum += weight.size;
  return sum;
}

int32_t onnx_number(DType type) {
  switch (type) {
    case DType::F32: return 1;
    case DType::U8: return 2;
    case DType::I8: return 3;
    case DType::U16: return 4;
    case DType::I16: return 5;
    case DType::I32: return 6;
    case DType::I64: return 7;
    case DType::Bool: return 9;
    case DType::F16: return 10;
    case DType::F64: return 11;
    case DType::U32: return 12;
    case DType::U64: return 13;
    case DType::BF16: return 16;
    case DType::Opaque: break;
  }
  return 0;
}

}  // namespace isomer::compile
