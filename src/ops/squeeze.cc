// Axes of extent 1, taken away and put in.
#include <fmt/format.h>

#include <algorithm>

#include "ops/legacy_inputs.h"
#include "ops/reindex.h"
#include "ops/shape_operand.h"

namespace isomer::ops {
namespace {

Expected<Shape> squeezed(const ir::OpContext& c) {
  std::vector<bool> drop(c.rank(0), false);
  if (c.has(1)) {
    ISOMER_TRY(const auto axes, axes_operand(c, 1, c.rank(0)));
    if (!axes) {
      const auto n = c.rank(1) == 1 ? c.dim(1, 0).constant() : std::nullopt;
      if (!n || *n < 0 || *n > static_cast<int64_t>(c.rank(0))) return Shape::unknown();
      return Shape(std::vector<Dim>(c.rank(0) - static_cast<size_t>(*n), Dim::invalid()));
    }
    for (size_t a : *axes) {
      if (c.dim(0, a).is_const() && c.dim(0, a).value() != 1)
        return c.error(fmt::format("axis {} has extent {}, only axes of extent 1 can go", a, c.dim(0, a).value()));
      drop[a] = true;
    }
  } else {
    for (size_t a = 0; a < c.rank(0); ++a) {
      if (!c.dim(0, a).is_const()) return Shape::unknown();
      drop[a] = c.dim(0, a).value() == 1;
    }
  }
  std::vector<Dim> dims;
  for (size_t a = 0; a < c.rank(0); ++a)
    if (!drop[a]) dims.push_back(c.dim(0, a));
  return Shape(std::move(dims));
}

Expected<Shape> unsqueezed(const ir::OpContext& c) {
  const auto count = c.rank(1) == 0 ? std::optional<int64_t>(1) : c.dim(1, 0).constant();
  if (!count) return Shape::unknown();
  const size_t rank = c.rank(0) + static_cast<size_t>(*count);
  if (*count < 0 || rank > kMaxRank) return c.error(fmt::format("{} axes are more than {}", rank, kMaxRank));
  ISOMER_TRY(const auto axes, axes_operand(c, 1, rank));
  if (!axes) return Shape(std::vector<Dim>(rank, Dim::invalid()));
  std::vector<Dim> dims;
  for (size_t a = 0, from = 0; a < rank; ++a)
    dims.push_back(std::find(axes->begin(), axes->end(), a) != axes->end() ? Dim(1) : c.dim(0, from++));
  return Shape(std::move(dims));
}

Expected<std::vector<ir::Value>> import_squeeze_axes(ir::ForeignNode& node, ir::GraphBuilder& builder) {
  if (node.version < 13) ints_to_input(node, builder, "axes", 1);
  return ir::add_as_is(node, builder);
}

ir::OpDef squeeze_record(Expected<Shape> (*result)(const ir::OpContext&)) {
  ir::OpDef op;
  op.outputs = {{"y", "T"}};
  op.infer = [result](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    ISOMER_TRY(Shape shape, result(c));
    return std::vector{c.out(0, std::move(shape))};
  };
  op.compute = [result](const ir::OpContext& c) -> Expected<te::Program> {
    ISOMER_TRY(const Shape shape, result(c));
    ISOMER_TRY(const std::vector<Dim> dims, known_dims(c, shape, 1));
    return reshaped(c, dims);
  };
  return op;
}

}  // namespace

ir::OpDef op_squeeze() {
  ir::OpDef op = squeeze_record(squeezed);
  op.name = "squeeze";
  op.doc = "Takes away the given axes, or all axes, of extent 1.";
  op.inputs = {{"data", "T", kAllTypes}, {"axes", "A", DType::I64, ir::Arity::Optional}};
  op.outputs = {{"squeezed", "T"}};
  op.samples = {"squeeze(f32[1,3,1])", "squeeze(f32[1,3,1], [0])", "squeeze(i32[2,1], [-1])"};
  op.onnx = {{.type = "Squeeze", .since = {1, 11, 13, 21, 23}, .stable = 13, .import = import_squeeze_axes}};
  return op;
}

ir::OpDef op_unsqueeze() {
  ir::OpDef op = squeeze_record(unsqueezed);
  op.name = "unsqueeze";
  op.doc = "Puts in axes of extent 1 at the given places of the result.";
  op.inputs = {{"data", "T", kAllTypes}, {"axes", "A", DType::I64}};
  op.outputs = {{"expanded", "T"}};
  op.samples = {"unsqueeze(f32[2,3], [0])", "unsqueeze(f32[2,3], [1,-1])", "unsqueeze(i32[], [0])"};
  op.onnx = {{.type = "Unsqueeze", .since = {1, 11, 13, 21, 23}, .stable = 13, .import = import_squeeze_axes}};
  return op;
}

}  // namespace isomer::ops
