// Recognises sums of products of two affine reads, plain or guarded by affine inequalities, whatever operator they
// come from. A match promises that no read leaves its tensor where the guards hold, and that leaving out the points
// where they do not hold changes no bit of the sum.
#pragma once

#include <optional>
#include <vector>

#include "interp/affine.h"
#include "tensor/tensor.h"

namespace isomer::interp {

struct ContractionMatch {
  std::vector<te::Axis> axes;  // extents above 1, in order
  std::vector<int> unit_axes;  // ids of the others, which are always 0
  const Tensor *a = nullptr, *b = nullptr;
  Affine a_address, b_address;            // in elements
  std::vector<Affine> guards;             // all >= 0
  std::vector<Affine> a_needs, b_needs;   // guards without which the read might leave its tensor
  bool a_finite = true, b_finite = true;  // known when there are guards
};

std::optional<ContractionMatch> match_contraction(const te::Node& reduce, const std::vector<const Tensor*>& tensors,
                                                  AffineReader& affine, const Extents& extents);

}  // namespace isomer::interp
