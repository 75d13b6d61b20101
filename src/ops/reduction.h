// Stages that reduce some axes of a tensor and keep them with extent 1, so that later stages read them by broadcasting:
// the common part of reductions, softmax and the normalisations.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ir/op.h"

namespace isomer::ops {

// Which axes of a tensor are reduced; one flag each.
using AxisMask = std::vector<bool>;

// The axes of the list, which may count from the end; a diagnostic for one out of range or named twice.
Expected<AxisMask> axis_mask(const ir::OpContext& context, std::span<const int64_t> axes, size_t rank);
// The axes from `first` on.
AxisMask trailing_axes(size_t first, size_t rank);

// `dims` with extent 1 on the masked axes.
std::vector<Dim> kept_dims(std::span<const Dim> dims, const AxisMask& mask);
// Number of elements that one result is made from.
Dim reduced_elements(std::span<const Dim> dims, const AxisMask& mask);

// The combination over the masked axes of body(index into `dims`).
te::Handle reduce_stage(te::Builder& builder, std::string name, te::Combiner combiner, std::span<const Dim> dims,
                        const AxisMask& mask, const te::Builder::Body& body);

struct Moments {
  te::Handle mean, variance;  // of the whole population
};
// Mean and variance over the masked axes, in the type `work`.
Moments moments(te::Builder& builder, const te::Handle& x, const AxisMask& mask, DType work);

}  // namespace isomer::ops
