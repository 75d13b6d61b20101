// Constants in the order in which kernels read them, rearranged when the model is compiled.
#pragma once

#include "compile/kernel.h"
#include "tensor/tensor.h"

namespace isomer::compile {

// The packed array, flat.
Tensor packed(const Tensor& source, const Packing& packing);

}  // namespace isomer::compile
