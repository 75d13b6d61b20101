#include <fmt/format.h>

#include "ir/op.h"
#include "ops/window.h"

namespace isomer::ops {
namespace {

// The shape that a max_pool with this window had as its input, as far as the window tells.
Expected<std::vector<Dim>> pooled_from(const ir::OpContext& c) {
  ISOMER_TRY(const std::vector<Dim> input, spatial_dims(c, 0));
  if (c.rank(1) != c.rank(0))
    return c.error(
        fmt::format("indices have shape {}, expected {} as x has", c.shape(1).to_string(), c.shape(0).to_string()));
  for (size_t i = 0; i < c.rank(0); ++i)
    if (c.dim(0, i).is_const() && c.dim(1, i).is_const() && !(c.dim(0, i) == c.dim(1, i)))
      return c.error(
          fmt::format("indices have shape {}, expected {} as x has", c.shape(1).to_string(), c.shape(0).to_string()));
  ISOMER_TRY(const std::vector<Dim> kernel, pool_kernel(c, input.size()));
  ISOMER_TRY(const WindowAttrs a, window_attrs(c, input.size()));
  std::vector<Dim> dims = {c.dim(0, 0), c.dim(0, 1)};
  for (size_t i = 0; i < input.size(); ++i) {
    const Dim d = (input[i] - Dim(1)) * a.stride[i] + kernel[i] - a.begin[i] - a.end[i];
    if ((d.is_invalid() && !input[i].is_invalid()) || (d.is_const() && d.value() < 1))
      return c.error(fmt::format("spatial axis {} of the output would have extent {}", i, d.to_string()));
    dims.push_back(d);
  }
  return dims;
}

Expected<std::vector<Dim>> output_dims(const ir::OpContext& c, const std::vector<Dim>& natural) {
  if (!c.has(2)) return natural;
  const auto given = c.sizes(2);
  if (!given) return std::vector<Dim>(natural.size(), Dim::invalid());
  if (given->size() != natural.size())
    return c.error(fmt::format("expected an output_shape of {} extents, found {}", natural.size(), given->size()));
  for (const Dim& d : *given)
    if (d.is_const() && d.value() < 0) return c.error(fmt::format("output_shape has the extent {}", d.value()));
  return *given;
}

// Indices count in the shape the window implies; an output_shape that differs from it crops or extends at the end.
Expected<std::vector<Tensor>> scatter(const ir::OpContext& c) {
  ISOMER_TRY(const std::vector<Dim> natural, pooled_from(c));
  ISOMER_TRY(const std::vector<Dim> out, output_dims(c, natural));
  const std::vector<int64_t> from = Shape(natural).values(), to = Shape(out).values();
  ISOMER_TRY(const int64_t places, checked_elements(c.dtype(0), from));
  ISOMER_TRY(const int64_t elements, checked_elements(c.dtype(0), to));
  static_cast<void>(elements);
  Tensor y(c.dtype(0), to);
  const Tensor &x = *c.value(0), &indices = *c.value(1);
  for (int64_t i = 0; i < x.size(); ++i) {
    int64_t rest = indices.integer(i), at = 0, step = 1;
    if (rest < 0 || rest >= places)
      return c.error(fmt::format("index {} is out of range for the {} elements that were pooled", rest, places));
    bool inside = true;
    for (size_t a = from.size(); a-- > 0; rest /= from[a]) {
      const int64_t p = rest % from[a];
      inside &= p < to[a];
      if (inside) at += p * step, step *= to[a];
    }
    if (inside) y.set_real(at, x.real(i));
  }
  return std::vector<Tensor>{std::move(y)};
}

}  // namespace

ir::OpDef op_max_unpool() {
  ir::OpDef op;
  op.name = "max_unpool";
  op.doc = "Puts the elements that a max_pool kept back where its indices say, and zeros elsewhere.";
  op.inputs = {{"x", "T", kFloats}, {"i", "I", DType::I64}, {"output_shape", "S", DType::I64, ir::Arity::Optional}};
  op.outputs = {{"output", "T"}};
  op.attrs = {{"kernel_shape", ir::AttrKind::Ints, std::nullopt, true},
              {"pads", ir::AttrKind::Ints},
              {"strides", ir::AttrKind::Ints}};
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    ISOMER_TRY(const std::vector<Dim> natural, pooled_from(c));
    ISOMER_TRY(std::vector<Dim> out, output_dims(c, natural));
    return std::vector{c.out(0, Shape(std::move(out)))};
  };
  op.kernel = scatter;
  op.samples = {"max_unpool(f32[1,1,2,2], i64[1,1,2,2] in 0..16){kernel_shape=[2,2], strides=[2,2]}",
                "max_unpool(f32[1,2,3], i64[1,2,3] in 0..8, [1,2,5]){kernel_shape=[2]}"};
  op.onnx = {{.type = "MaxUnpool", .since = {9, 11, 22}, .stable = 9}};
  return op;
}

}  // namespace isomer::ops
