// Channel-wise constants: nodes that multiply and shift each channel of a value by constants, and weights scaled by them.
// Everything is computed in double and rounded once.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "passes/editor.h"

namespace isomer::passes {

// y = scale * x + shift, one number each per position of `axis`; one for all when there is no axis.
struct Affine {
  Value x;
  std::optional<size_t> axis;
  std::vector<double> scale, shift;  // of one length: the channels', or 1

  bool finite() const;
  bool scales() const;  // some scale is not 1
  bool shifts() const;  // some shift is not 0
  // The same with one number per channel, for an axis of this extent.
  Affine spread(size_t channels) const;
};

// A constant that multiplies or is added along one axis of a value, without changing its shape: the axis and the numbers.
struct Channels {
  std::optional<size_t> axis;
  std::vector<double> values;
};
std::optional<Channels> channels(const Tensor& constant, const Shape& of);

// The node as an Affine: mul, div, add, sub with a constant, neg, batch_normalization by given statistics.
std::optional<Affine> affine(const Editor& editor, uint32_t node);
std::optional<Affine> batch_norm_affine(const Editor& editor, uint32_t node);

// w with position c of `axis` multiplied by factors[c]; none when a result is not finite.
std::optional<Tensor> scaled(const Tensor& w, size_t axis, std::span<const double> factors);
// w with [i, j, ...] multiplied by factors[i * dims[1] + j].
std::optional<Tensor> scaled_pairs(const Tensor& w, std::span<const double> factors);

}  // namespace isomer::passes
