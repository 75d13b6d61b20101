#include <fmt/format.h>

#include "ir/op.h"

namespace isomer::ops {
namespace {

Expected<te::Program> write(const ir::OpContext& c) {
  ISOMER_TRY(const size_t axis, c.axis(c.integer("axis"), c.rank(0)));
  const std::string& mode = c.text("mode");
  if (mode != "linear" && mode != "circular")
    return c.error(fmt::format("mode {} is none of linear, circular", quoted(mode)));
  if (axis == 0) return c.error("axis 0 is the batch, along which nothing is written");
  if (c.rank(1) != c.rank(0))
    return c.error(fmt::format("the update {} must have the rank of the cache {}", c.shape(1).to_string(),
                               c.shape(0).to_string()));
  if (c.has(2) && c.rank(2) != 1) return c.error("'write_indices' must have rank 1");
  te::Builder b;
  const auto in = c.declare(b);
  const te::Expr cache(c.dim(0, axis)), fresh(c.dim(1, axis));
  return b.finish({b.map("present_cache", c.dtype(0), in[0].dims(), [&](auto i) {
    // How far behind the place of the first new element this one lies.
    const te::Expr from = c.has(2) ? te::cast(DType::I64, in[2](i[0])) : te::Expr(0);
    const te::Expr place = mode == "circular" ? te::floor_mod(i[axis] - from, cache) : i[axis] - from;
    std::vector<te::Expr> old(i.begin(), i.end()), index = old;
    index[axis] = place;
    return te::select(te::in_range(place, fresh), in[1].at(std::move(index)), in[0].at(std::move(old)));
  })});
}

}  // namespace

ir::OpDef op_tensor_scatter() {
  ir::OpDef op;
  op.name = "tensor_scatter";
  op.doc = "A cache with new elements written along an axis, each sequence of the batch from its own place on.";
  op.inputs = {{"past_cache", "T", kAllTypes},
               {"update", "T", kAllTypes},
               {"write_indices", "W", DType::I64, ir::Arity::Optional}};
  op.outputs = {{"present_cache", "T"}};
  op.attrs = {{"axis", ir::AttrKind::Int, int64_t{-2}}, {"mode", ir::AttrKind::String, std::string("linear")}};
  op.compute = write;
  op.samples = {"tensor_scatter(f32[2,5,3], f32[2,2,3], i64[2] in 0..4)", "tensor_scatter(f32[2,1,4,2], f32[2,1,3,2])",
                "tensor_scatter(f32[2,4,3], f32[2,2,3], i64[2] in 0..9){mode=\"circular\"}"};
  op.onnx = {{.type = "TensorScatter", .since = {24}, .stable = 24}};
  return op;
}

}  // namespace isomer::ops
