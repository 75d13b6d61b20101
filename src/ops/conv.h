// The shape of a convolution, shared by its float, integer and quantised forms.
#pragma once

#include "ops/window.h"

namespace isomer::ops {

struct Convolution {
  Window window;
  Dim group = 1;
  Dim batch, channels, channels_per_group, out_channels;
  std::vector<Dim> out;  // [N, O, spatial...]
};

// Of input `x` [N, C, ...] with weights `w` [O, C / group, ...] and, when present, `bias` [O].
Expected<Convolution> convolution(const ir::OpContext& context, size_t x, size_t w, size_t bias);

// sum(ic, k...) x * w over the taps inside the input, at output index i.
te::Expr convolve(te::Builder& builder, const Convolution& conv, const te::Handle& x, const te::Handle& w,
                  std::span<const te::Expr> i);

// The attributes that convolutions have.
std::vector<ir::AttrDef> conv_attrs();

}  // namespace isomer::ops
