// How resize maps each axis of its result to its input: sizes, scales and positions. resize.cc has the record.
#pragma once

#include <optional>
#include <vector>

#include "ir/op.h"

namespace isomer::ops {

// One axis of a resize.
struct Resampling {
  Dim in, out;
  bool by_size = false;         // the scale is out / in
  std::optional<double> scale;  // as a number, when known
  std::optional<size_t> place;  // position among the axes that scales, sizes and roi list
  size_t listed = 0;            // how many they list

  bool same() const { return scale && *scale == 1 && in == out; }
};

// One per axis of input 0. `out` is invalid where it is not known.
Expected<std::vector<Resampling>> resamplings(const ir::OpContext& context);

// Where result index i lies in the input, as a real of type `real`; `roi` is the region input when there is one.
te::Expr position(const ir::OpContext& context, const Resampling& axis, const te::Expr& i, const te::Handle* roi,
                  DType real);

}  // namespace isomer::ops
