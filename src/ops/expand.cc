// Operators that repeat a tensor: along axes of extent 1, or as a whole.
#include <fmt/format.h>

#include "ops/broadcast.h"
#include "ops/legacy_inputs.h"
#include "ops/shape_operand.h"

namespace isomer::ops {
namespace {

Expected<Shape> expanded(const ir::OpContext& c) {
  ISOMER_TRY(const Shape wanted, size_operand(c, 1));
  if (!wanted.has_rank()) return wanted;
  const std::vector<Dim> shapes[] = {c.shape(0).dims(), wanted.dims()};
  ISOMER_TRY(std::vector<Dim> dims, broadcast_dims(c, shapes));
  return Shape(std::move(dims));
}

Expected<Shape> tiled(const ir::OpContext& c) {
  ISOMER_TRY(const Shape repeats, size_operand(c, 1));
  if (!repeats.has_rank()) return Shape(std::vector<Dim>(c.rank(0), Dim::invalid()));
  if (repeats.rank() != c.rank(0))
    return c.error(fmt::format("input 'repeats' has {} entries for an input of rank {}", repeats.rank(), c.rank(0)));
  std::vector<Dim> dims;
  for (size_t a = 0; a < c.rank(0); ++a) dims.push_back(c.dim(0, a) * repeats[a]);
  return Shape(std::move(dims));
}

// Opset 1 gave one axis and how often to repeat along it.
Expected<std::vector<ir::Value>> import_tile(ir::ForeignNode& node, ir::GraphBuilder& builder) {
  if (node.version >= 6 || node.inputs.size() != 3) return ir::add_as_is(node, builder);
  const Tensor* tiles = builder.known(node.inputs[1]);
  const Tensor* axis = builder.known(node.inputs[2]);
  const Shape* shape = node.inputs[0].is_none() ? nullptr : &builder.type(node.inputs[0]).shape;
  if (!tiles || !axis || tiles->size() != 1 || axis->size() != 1 || !shape || !shape->has_rank())
    return Diagnostic("E-op", "tile: inputs 'tiles' and 'axis' of opset 1 must be constant scalars");
  const auto rank = static_cast<int64_t>(shape->rank());
  const int64_t a = axis->integer(0);
  if (a < -rank || a >= rank)
    return Diagnostic("E-op", fmt::format("tile: axis {} is out of range for rank {}", a, rank));
  std::vector<int64_t> repeats(static_cast<size_t>(rank), 1);
  repeats[static_cast<size_t>(a < 0 ? a + rank : a)] = tiles->integer(0);
  node.inputs.resize(1);
  put_input(node, 1, builder.constant(Tensor::ints(repeats)));
  return ir::add_as_is(node, builder);
}

}  // namespace

ir::OpDef op_expand() {
  ir::OpDef op;
  op.name = "expand";
  op.doc = "Broadcasts a tensor together with a shape.";
  op.inputs = {{"input", "T", kAllTypes}, {"shape", "S", DType::I64}};
  op.outputs = {{"output", "T"}};
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    ISOMER_TRY(Shape shape, expanded(c));
    return std::vector{c.out(0, std::move(shape))};
  };
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    ISOMER_TRY(const Shape shape, expanded(c));
    ISOMER_TRY(const std::vector<Dim> dims, known_dims(c, shape, 1));
    te::Builder b;
    const auto in = c.declare(b);
    return b.finish({b.map("output", c.dtype(0), dims, [&](auto i) { return in[0].broadcast(i); })});
  };
  op.samples = {"expand(f32[3,1], [2,1,6])", "expand(f32[3,1], [3,4])", "expand(i32[], [2])"};
  op.onnx = {{.type = "Expand", .since = {8, 13}, .stable = 8}};
  return op;
}

ir::OpDef op_tile() {
  ir::OpDef op;
  op.name = "tile";
  op.doc = "The tensor repeated along each axis.";
  op.inputs = {{"input", "T", kAllTypes}, {"repeats", "R", DType::I64}};
  op.outputs = {{"output", "T"}};
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    ISOMER_TRY(Shape shape, tiled(c));
    return std::vector{c.out(0, std::move(shape))};
  };
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    ISOMER_TRY(const Shape shape, tiled(c));
    ISOMER_TRY(const std::vector<Dim> dims, known_dims(c, shape, 1));
    te::Builder b;
    const auto in = c.declare(b);
    return b.finish({b.map("output", c.dtype(0), dims, [&](auto i) {
      std::vector<te::Expr> index(i.begin(), i.end());
      for (size_t a = 0; a < index.size(); ++a) {
        if (dims[a] == in[0].dim(a)) continue;
        index[a] = in[0].dim(a) == Dim(1) ? te::Expr(0) : te::floor_mod(index[a], te::Expr(in[0].dim(a)));
      }
      return in[0].at(std::move(index));
    })});
  };
  op.samples = {"tile(f32[2,3], [2,1])", "tile(i32[2], [3])", "tile(f32[1,2], [3,0])"};
  op.onnx = {{.type = "Tile", .since = {1, 6, 13}, .stable = 6, .import = import_tile}};
  return op;
}

}  // namespace isomer::ops
