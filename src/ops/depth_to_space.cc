// Blocks of channels laid out in the plane, and back.
#include <fmt/format.h>

#include "ir/op.h"

namespace isomer::ops {
namespace {

Expected<Dim> block(const ir::OpContext& c) {
  const Dim n = c.size_attr("blocksize");
  if (c.rank(0) != 4) return c.error(fmt::format("expected an input of rank 4, found {}", c.type(0).to_string()));
  if (n.is_const() && (n.value() < 1 || n.value() > 1 << 20))
    return c.error(fmt::format("blocksize is {}, expected 1 or more", n.value()));
  return n;
}

// Whether the places of a block follow each other within a channel, or the channels within a place.
Expected<bool> channels_first(const ir::OpContext& c) {
  const std::string& mode = c.text("mode");
  if (mode != "DCR" && mode != "CRD") return c.error(fmt::format("mode {} is none of DCR, CRD", quoted(mode)));
  return mode == "CRD";
}

Expected<te::Program> depth_to_space(const ir::OpContext& c) {
  ISOMER_TRY(const Dim n, block(c));
  ISOMER_TRY(const bool first, channels_first(c));
  const Dim &channels = c.dim(0, 1), area = n * n;
  if (channels.is_const() && area.is_const() && channels.value() % area.value() != 0)
    return c.error(fmt::format("{} channels do not divide into blocks of {}", channels.value(), area.value()));
  te::Builder b;
  const auto in = c.declare(b);
  const Dim depth = floor_div(channels, area);
  const Dim dims[] = {c.dim(0, 0), depth, c.dim(0, 2) * n, c.dim(0, 3) * n};
  const te::Expr size(n);
  return b.finish({b.map("output", c.dtype(0), dims, [&](auto i) {
    const te::Expr part = te::floor_mod(i[2], size) * size + te::floor_mod(i[3], size);
    const te::Expr channel = first ? i[1] * te::Expr(area) + part : part * te::Expr(depth) + i[1];
    return in[0](i[0], channel, te::floor_div(i[2], size), te::floor_div(i[3], size));
  })});
}

Expected<te::Program> space_to_depth(const ir::OpContext& c) {
  ISOMER_TRY(const Dim n, block(c));
  ISOMER_TRY(const bool first, channels_first(c));
  for (size_t a : {2, 3})
    if (c.dim(0, a).is_const() && n.is_const() && c.dim(0, a).value() % n.value() != 0)
      return c.error(
          fmt::format("axis {} of extent {} does not divide into blocks of {}", a, c.dim(0, a).value(), n.value()));
  te::Builder b;
  const auto in = c.declare(b);
  const Dim dims[] = {c.dim(0, 0), c.dim(0, 1) * n * n, floor_div(c.dim(0, 2), n), floor_div(c.dim(0, 3), n)};
  const te::Expr size(n);
  return b.finish({b.map("output", c.dtype(0), dims, [&](auto i) {
    const te::Expr divisor(first ? n * n : c.dim(0, 1));
    const te::Expr whole = te::floor_div(i[1], divisor), rest = te::floor_mod(i[1], divisor);
    const te::Expr part = first ? rest : whole, channel = first ? whole : rest;
    return in[0](i[0], channel, i[2] * size + te::floor_div(part, size), i[3] * size + te::floor_mod(part, size));
  })});
}

}  // namespace

ir::OpDef op_depth_to_space() {
  ir::OpDef op;
  op.name = "depth_to_space";
  op.doc = "Moves blocks of channels into the plane: depth-column-row or column-row-depth order.";
  op.inputs = {{"input", "T", kAllTypes}};
  op.outputs = {{"output", "T"}};
  op.attrs = {{.name = "blocksize", .kind = ir::AttrKind::Int, .required = true, .symbolic = true},
              {"mode", ir::AttrKind::String, std::string("DCR")}};
  op.compute = depth_to_space;
  op.samples = {"depth_to_space(f32[1,8,2,3]){blocksize=2}", "depth_to_space(f32[1,8,2,3]){blocksize=2, mode=\"CRD\"}"};
  op.onnx = {{.type = "DepthToSpace", .since = {1, 11, 13}, .stable = 11}};
  return op;
}

ir::OpDef op_space_to_depth() {
  ir::OpDef op;
  op.name = "space_to_depth";
  op.doc = "Moves blocks of the plane into channels: depth-column-row or column-row-depth order.";
  op.inputs = {{"input", "T", kAllTypes}};
  op.outputs = {{"output", "T"}};
  op.attrs = {{.name = "blocksize", .kind = ir::AttrKind::Int, .required = true, .symbolic = true},
              {.name = "mode", .kind = ir::AttrKind::String, .standard = std::string("DCR"), .since = 28}};
  op.compute = space_to_depth;
  op.laws = {"depth_to_space(space_to_depth(?x){blocksize=2}){blocksize=2} == ?x",
             "depth_to_space(space_to_depth(?x){blocksize=2, mode=\"CRD\"}){blocksize=2, mode=\"CRD\"} == ?x"};
  op.samples = {"space_to_depth(f32[1,2,4,6]){blocksize=2}", "space_to_depth(f32[1,2,4,6]){blocksize=2, mode=\"CRD\"}"};
  op.onnx = {{.type = "SpaceToDepth", .since = {1, 13, 28}, .stable = 1}};
  return op;
}

}  // namespace isomer::ops
