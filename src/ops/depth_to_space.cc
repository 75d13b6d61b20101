// Blocks of channels laid out in the plane, and back.
#include <fmt/format.h>

#include "ir/op.h"

namespace isomer::ops {
namespace {

Expected<int64_t> block(const ir::OpContext& c) {
  const int64_t n = c.integer("blocksize");
  if (c.rank(0) != 4) return c.error(fmt::format("expected an input of rank 4, found {}", c.type(0).to_string()));
  if (n < 1 || n > 1 << 20) return c.error(fmt::format("blocksize is {}, expected 1 or more", n));
  return n;
}

Expected<te::Program> depth_to_space(const ir::OpContext& c) {
  ISOMER_TRY(const int64_t n, block(c));
  const std::string& mode = c.text("mode");
  if (mode != "DCR" && mode != "CRD") return c.error(fmt::format("mode {} is none of DCR, CRD", quoted(mode)));
  const Dim& channels = c.dim(0, 1);
  if (channels.is_const() && channels.value() % (n * n) != 0)
    return c.error(fmt::format("{} channels do not divide into blocks of {}", channels.value(), n * n));
  te::Builder b;
  const auto in = c.declare(b);
  const Dim depth = floor_div(channels, Dim(n * n));
  const Dim dims[] = {c.dim(0, 0), depth, c.dim(0, 2) * Dim(n), c.dim(0, 3) * Dim(n)};
  return b.finish({b.map("output", c.dtype(0), dims, [&](auto i) {
    const te::Expr part = te::floor_mod(i[2], n) * te::Expr(n) + te::floor_mod(i[3], n);
    const te::Expr channel = mode == "DCR" ? part * te::Expr(depth) + i[1] : i[1] * te::Expr(n * n) + part;
    return in[0](i[0], channel, te::floor_div(i[2], n), te::floor_div(i[3], n));
  })});
}

Expected<te::Program> space_to_depth(const ir::OpContext& c) {
  ISOMER_TRY(const int64_t n, block(c));
  for (size_t a : {2, 3})
    if (c.dim(0, a).is_const() && c.dim(0, a).value() % n != 0)
      return c.error(fmt::format("axis {} of extent {} does not divide into blocks of {}", a, c.dim(0, a).value(), n));
  te::Builder b;
  const auto in = c.declare(b);
  const Dim dims[] = {c.dim(0, 0), c.dim(0, 1) * Dim(n * n), floor_div(c.dim(0, 2), Dim(n)),
                      floor_div(c.dim(0, 3), Dim(n))};
  return b.finish({b.map("output", c.dtype(0), dims, [&](auto i) {
    const te::Expr part = te::floor_div(i[1], te::Expr(c.dim(0, 1)));
    return in[0](i[0], te::floor_mod(i[1], te::Expr(c.dim(0, 1))), i[2] * te::Expr(n) + te::floor_div(part, n),
                 i[3] * te::Expr(n) + te::floor_mod(part, n));
  })});
}

}  // namespace

ir::OpDef op_depth_to_space() {
  ir::OpDef op;
  op.name = "depth_to_space";
  op.doc = "Moves blocks of channels into the plane: depth-column-row or column-row-depth order.";
  op.inputs = {{"input", "T", kAllTypes}};
  op.outputs = {{"output", "T"}};
  op.attrs = {{"blocksize", ir::AttrKind::Int, std::nullopt, true}, {"mode", ir::AttrKind::String, std::string("DCR")}};
  op.compute = depth_to_space;
  op.samples = {"depth_to_space(f32[1,8,2,3]){blocksize=2}", "depth_to_space(f32[1,8,2,3]){blocksize=2, mode=\"CRD\"}"};
  op.onnx = {{.type = "DepthToSpace", .since = {1, 11, 13}, .stable = 11}};
  return op;
}

ir::OpDef op_space_to_depth() {
  ir::OpDef op;
  op.name = "space_to_depth";
  op.doc = "Moves blocks of the plane into channels.";
  op.inputs = {{"input", "T", kAllTypes}};
  op.outputs = {{"output", "T"}};
  op.attrs = {{"blocksize", ir::AttrKind::Int, std::nullopt, true}};
  op.compute = space_to_depth;
  op.laws = {"depth_to_space(space_to_depth(?x){blocksize=2}){blocksize=2} == ?x"};
  op.samples = {"space_to_depth(f32[1,2,4,6]){blocksize=2}"};
  op.onnx = {{.type = "SpaceToDepth", .since = {1, 13}, .stable = 1}};
  return op;
}

}  // namespace isomer::ops
