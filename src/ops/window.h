// Sliding windows: the geometry that every convolution and pool shares. Along each spatial axis a window of `kernel`
// taps, `dilation` apart, starts at o * stride - begin for output position o.
// Invariant of a Window: strides and dilations are positive, pads are not negative, no extent overflows, and a tap
// that may fall outside the input has a guard; taps that cannot have none.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ir/op.h"

namespace isomer::ops {

enum class AutoPad : uint8_t { NotSet, SameUpper, SameLower, Valid };

// The window attributes of a node, checked against the number of spatial axes, with their standard values filled in.
struct WindowAttrs {
  std::vector<Dim> stride, dilation;
  std::vector<Dim> begin, end;  // the attribute pads; zeros unless auto_pad is NotSet
  AutoPad auto_pad = AutoPad::NotSet;
  bool ceil_mode = false;
};
Expected<WindowAttrs> window_attrs(const ir::OpContext& context, size_t spatial);

struct Window {
  std::vector<Dim> input, kernel, begin, end, out;
  std::vector<Dim> stride, dilation;
  std::vector<bool> low, high;  // whether a tap may lie before the input's start, after its end
  bool ceil_mode = false;

  size_t rank() const { return input.size(); }
  // Where tap k of window o reads on an axis, counted from the start of the input.
  te::Expr position(size_t axis, const te::Expr& o, const te::Expr& k) const;
  std::vector<te::Expr> positions(std::span<const te::Expr> o, std::span<const te::Expr> k) const;
  // That all positions are inside the input: a conjunction of linear inequalities, empty when it always holds.
  te::Expr guard(std::span<const te::Expr> o, std::span<const te::Expr> k) const;
  // The same for the input with its padding: only windows that ceil_mode adds can leave it.
  te::Expr padded_guard(std::span<const te::Expr> o, std::span<const te::Expr> k) const;
};

// The window of a convolution or pool over spatial extents `input`.
Expected<Window> make_window(const ir::OpContext& context, std::span<const Dim> input, std::span<const Dim> kernel);

// Extent of a dilated kernel, (kernel - 1) * dilation + 1; a diagnostic when it is not positive or overflows.
Expected<Dim> dilated(const ir::OpContext& context, const Dim& kernel, const Dim& dilation);

// The kernel_shape of a pool as extents: one per spatial axis of input 0, positive, of a sane volume.
Expected<std::vector<Dim>> pool_kernel(const ir::OpContext& context, size_t spatial);
// Pads of a pool must be smaller than its window, else some window would see padding alone.
Expected<void> check_pool_pads(const ir::OpContext& context, const Window& window);

// The spatial extents of an [N, C, ...] shape; a diagnostic when there is none.
Expected<std::vector<Dim>> spatial_dims(const ir::OpContext& context, size_t input);

// a * x + b without the parts that change nothing, so that the common cases stay short to read.
te::Expr affine(const te::Expr& x, const Dim& scale, const te::Expr& y, const Dim& y_scale, const Dim& minus);

}  // namespace isomer::ops
