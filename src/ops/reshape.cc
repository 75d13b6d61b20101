#include <fmt/format.h>

#include "ops/legacy_inputs.h"
#include "ops/reindex.h"
#include "ops/shape_operand.h"

namespace isomer::ops {
namespace {

// The dim written -1: what the others leave. Dims that were copied from the input cancel, so that an empty tensor has
// an answer too.
Expected<Dim> rest(const ir::OpContext& c, const std::vector<Dim>& dims, size_t open, const std::vector<bool>& copied) {
  Dim have(1), taken(1);
  for (size_t i = 0; i < c.rank(0); ++i)
    if (!(i < copied.size() && copied[i])) have = have * c.dim(0, i);
  for (size_t i = 0; i < dims.size(); ++i)
    if (i != open && !copied[i]) taken = taken * dims[i];
  if (have.is_const() && taken.is_const() && (taken.value() == 0 || have.value() % taken.value() != 0))
    return c.error(fmt::format("{} elements of {} cannot fill a shape whose other dims hold {}", have.value(),
                               c.shape(0).to_string(), taken.value()));
  return floor_div(have, taken);
}

Expected<Shape> reshape_result(const ir::OpContext& c) {
  ISOMER_TRY(const Shape wanted, shape_operand(c, 1));
  if (!wanted.has_rank()) return wanted;
  std::vector<Dim> dims = wanted.dims();
  std::vector<bool> copied(dims.size(), false);
  std::optional<size_t> open;
  bool zero = false;
  for (size_t i = 0; i < dims.size(); ++i) {
    const auto v = dims[i].constant();
    if (!v || *v > 0) continue;
    if (*v == 0 && c.flag("allowzero")) {
      zero = true;
    } else if (*v == 0) {
      if (i >= c.rank(0))
        return c.error(fmt::format("dim {} of the shape is copied from an input of rank {}", i, c.rank(0)));
      dims[i] = c.dim(0, i);
      copied[i] = true;
    } else if (*v == -1) {
      if (open) return c.error(fmt::format("the shape has -1 at {} and at {}, one is allowed", *open, i));
      open = i;
    } else {
      return c.error(fmt::format("the shape holds {}, expected -1 or more", *v));
    }
  }
  if (open && zero) return c.error("with allowzero a shape cannot hold both 0 and -1");
  if (open) {
    ISOMER_TRY(dims[*open], rest(c, dims, *open, copied));
  }
  const Dim before = c.shape(0).elements(), after = Shape(dims).elements();
  if (before.is_const() && after.is_const() && !(before == after))
    return c.error(fmt::format("{} elements of {} do not fit shape {}", before.value(), c.shape(0).to_string(),
                               Shape(dims).to_string()));
  return Shape(std::move(dims));
}

Expected<std::vector<ir::Value>> import_reshape(ir::ForeignNode& node, ir::GraphBuilder& builder) {
  node.attrs.erase("consumed_inputs");
  if (node.version < 5) ints_to_input(node, builder, "shape", 1);
  return ir::add_as_is(node, builder);
}

Expected<std::vector<Dim>> flattened(const ir::OpContext& c) {
  const auto rank = static_cast<int64_t>(c.rank(0));
  int64_t axis = c.integer("axis");
  if (axis < -rank || axis > rank) return c.error(fmt::format("axis {} is out of range for rank {}", axis, rank));
  if (axis < 0) axis += rank;
  const std::vector<Dim>& dims = c.shape(0).dims();
  const Shape rows(std::vector<Dim>(dims.begin(), dims.begin() + axis));
  const Shape columns(std::vector<Dim>(dims.begin() + axis, dims.end()));
  return std::vector{rows.elements(), columns.elements()};
}

}  // namespace

ir::OpDef op_reshape() {
  ir::OpDef op;
  op.name = "reshape";
  op.doc = "The same elements in row-major order at another shape; 0 copies a dim, -1 takes what is left.";
  op.inputs = {{"data", "T", kAllTypes}, {"shape", "S", DType::I64}};
  op.outputs = {{"reshaped", "T"}};
  op.attrs = {{"allowzero", ir::AttrKind::Int, int64_t{0}}};
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    ISOMER_TRY(Shape shape, reshape_result(c));
    return std::vector{c.out(0, std::move(shape))};
  };
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    ISOMER_TRY(const Shape shape, reshape_result(c));
    ISOMER_TRY(const std::vector<Dim> dims, known_dims(c, shape, 1));
    return reshaped(c, dims);
  };
  op.laws = {"reshape(reshape(?x, ?a), ?b) == reshape(?x, ?b)"};
  op.samples = {"reshape(f32[2,3,4], [6,4])", "reshape(f32[2,3,4], [0,-1])", "reshape(i32[6], [2,1,3])",
                "reshape(f32[0,3], [3,0]){allowzero=1}"};
  op.onnx = {{.type = "Reshape", .since = {1, 5, 13, 14, 19, 21, 23}, .stable = 14, .import = import_reshape}};
  return op;
}

ir::OpDef op_flatten() {
  ir::OpDef op;
  op.name = "flatten";
  op.doc = "A matrix whose rows are the axes before `axis` and whose columns are the others.";
  op.inputs = {{"input", "T", kAllTypes}};
  op.outputs = {{"output", "T"}};
  op.attrs = {{"axis", ir::AttrKind::Int, int64_t{1}}};
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    ISOMER_TRY(const std::vector<Dim> dims, flattened(c));
    return reshaped(c, dims);
  };
  op.samples = {"flatten(f32[2,3,4])", "flatten(f32[2,3,4]){axis=0}", "flatten(i32[2,3,4]){axis=-1}"};
  op.onnx = {{.type = "Flatten", .since = {1, 9, 11, 13, 21, 23}, .stable = 11}};
  return op;
}

}  // namespace isomer::ops
