#include "ops/reduction.h"

#include <fmt/format.h>

namespace isomer::ops {

Expected<AxisMask> axis_mask(const ir::OpContext& c, std::span<const int64_t> axes, size_t rank) {
  AxisMask mask(rank, false);
  for (int64_t a : axes) {
    ISOMER_TRY(const size_t axis, c.axis(a, rank));
    if (mask[axis]) return c.error(fmt::format("axis {} is named twice", a));
    mask[axis] = true;
  }
  return mask;
}

AxisMask trailing_axes(size_t first, size_t rank) {
  AxisMask mask(rank, false);
  for (size_t i = first; i < rank; ++i) mask[i] = true;
  return mask;
}

std::vector<Dim> kept_dims(std::span<const Dim> dims, const AxisMask& mask) {
  std::vector<Dim> out(dims.begin(), dims.end());
  for (size_t i = 0; i < out.size(); ++i)
    if (mask[i]) out[i] = Dim(1);
  return out;
}

Dim reduced_elements(std::span<const Dim> dims, const AxisMask& mask) {
  Dim n(1);
  for (size_t i = 0; i < dims.size(); ++i)
    if (mask[i]) n = n * dims[i];
  return n;
}

te::Handle reduce_stage(te::Builder& b, std::string name, te::Combiner combiner, std::span<const Dim> dims,
                        const AxisMask& mask, const te::Builder::Body& body) {
  std::vector<te::Axis> outer, inner;
  std::vector<te::Expr> index;
  for (size_t i = 0; i < dims.size(); ++i) {
    outer.push_back(b.axis(fmt::format("i{}", i), mask[i] ? Dim(1) : dims[i]));
    if (mask[i]) inner.push_back(b.axis(fmt::format("r{}", i), dims[i]));
    index.emplace_back(mask[i] ? inner.back() : outer.back());
  }
  const te::Expr element = body(index);
  const te::Expr all = inner.empty() && !te::is_arg(combiner) ? element : te::reduce(combiner, inner, element);
  return b.stage(std::move(name), all.dtype(), std::move(outer), all);
}

Moments moments(te::Builder& b, const te::Handle& x, const AxisMask& mask, DType work) {
  const te::Expr count = cast(work, te::Expr(reduced_elements(x.dims(), mask)));
  const auto total = [&](std::string name, const te::Builder::Body& body) {
    const te::Handle sum = reduce_stage(b, name + "_sum", te::Combiner::Sum, x.dims(), mask, body);
    return b.map(std::move(name), work, sum.dims(), [&](auto i) { return sum.broadcast(i) / count; });
  };
  const te::Handle mean = total("mean", [&](auto i) { return cast(work, x.broadcast(i)); });
  const te::Handle variance = total("variance", [&](auto i) {
    const te::Expr d = cast(work, x.broadcast(i)) - mean.broadcast(i);
    return d * d;
  });
  return {mean, variance};
}

}  // namespace isomer::ops
