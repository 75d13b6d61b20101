// Normalisations as exporters write them: x, or x less its mean, divided by the root of its mean square plus epsilon.
#pragma once

#include <optional>

#include "passes/editor.h"

namespace isomer::passes {

struct Normal {
  Value x;          // what is divided
  size_t axis = 0;  // the mean is over the axes from here on
  double epsilon = 0;
};
// The node as x / sqrt(mean(x^2) + epsilon), also written with a reciprocal or a power.
std::optional<Normal> normal(const Editor& editor, uint32_t node);

// The value whose mean over the axes from `axis` on, kept as axes of extent 1, v is; none when v is no such mean.
Value mean_of(const Editor& editor, Value v, size_t axis);

// A constant of ones for the axes from `axis` on; none when an extent is open.
Value ones(Editor& editor, Value x, size_t axis);

// The node multiplies (adds) a constant over the normalised axes to what `op` gives, which has no scale (no bias) yet:
// the operator takes it.
bool take_scale(Editor& editor, uint32_t node, std::string_view op);
bool take_bias(Editor& editor, uint32_t node, std::string_view op);

}  // namespace isomer::passes
