// The tensor intrinsics there are: one record for each register tile that a machine's instructions make worth while.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "loop/intrinsic.h"
#include "loop/target.h"

namespace isomer::loop {

using IntrinsicPtr = std::shared_ptr<const Intrinsic>;

// C[m,n] += A[m,k] * B[k,n] for m <= rows, n <= columns and any k: "fma_12x32_f32". `needs` a feature.
IntrinsicPtr outer_product(int rows, int columns, DType dtype, std::string needs);

// What the target can use for products of this element type, the best for large products first.
std::vector<IntrinsicPtr> intrinsics_for(const Target& target, DType dtype);

// The one of this name among all of them, of any target.
std::optional<IntrinsicPtr> find_intrinsic(std::string_view name);

}  // namespace isomer::loop
