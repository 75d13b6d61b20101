#include <fmt/format.h>

#include "ir/graph.h"
#include "ops/shape_operand.h"

namespace isomer::ops {
namespace {

// The result's dims; `starts` gets the place along the axis where each input begins.
Expected<std::vector<Dim>> joined(const ir::OpContext& c, size_t axis, std::vector<Dim>& starts) {
  std::vector<Dim> dims = c.shape(0).dims();
  Dim total(0);
  for (size_t k = 0; k < c.input_count(); ++k) {
    if (!c.has(k)) return c.error(fmt::format("input {} is missing", k));
    if (c.rank(k) != dims.size())
      return c.error(
          fmt::format("inputs must have one rank, found {} and {}", c.shape(0).to_string(), c.shape(k).to_string()));
    for (size_t a = 0; a < dims.size(); ++a)
      if (a != axis) {
        ISOMER_TRY(dims[a], same_dim(c, dims[a], c.dim(k, a), "extents beside the concatenated axis"));
      }
    starts.push_back(total);
    total = total + c.dim(k, axis);
  }
  dims[axis] = total;
  return dims;
}

Expected<std::vector<ir::Value>> import_concat(ir::ForeignNode& node, ir::GraphBuilder& builder) {
  if (node.version < 4 && !node.attrs.has("axis")) node.attrs.set("axis", int64_t{1});
  return ir::add_as_is(node, builder);
}

}  // namespace

ir::OpDef op_concat() {
  ir::OpDef op;
  op.name = "concat";
  op.doc = "Tensors one after another along an axis.";
  op.inputs = {{"inputs", "T", kAllTypes, ir::Arity::Variadic, 1}};
  op.outputs = {{"concat_result", "T"}};
  op.attrs = {{"axis", ir::AttrKind::Int, std::nullopt, true}};
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    if (!c.has(0)) return c.error("input 0 is missing");
    ISOMER_TRY(const size_t axis, c.axis(c.integer("axis"), c.rank(0)));
    std::vector<Dim> starts;
    ISOMER_TRY(const std::vector<Dim> dims, joined(c, axis, starts));
    te::Builder b;
    const auto in = c.declare(b);
    return b.finish({b.map("concat_result", c.dtype(0), dims, [&](auto i) {
      // Balanced, so that the depth stays small however many inputs there are.
      const std::function<te::Expr(size_t, size_t)> pick = [&](size_t from, size_t to) -> te::Expr {
        if (to - from > 1) {
          const size_t middle = from + (to - from) / 2;
          return te::select(i[axis] < te::Expr(starts[middle]), pick(from, middle), pick(middle, to));
        }
        std::vector<te::Expr> index(i.begin(), i.end());
        if (!(starts[from] == Dim(0))) index[axis] = index[axis] - te::Expr(starts[from]);
        return in[from].at(std::move(index));
      };
      return pick(0, in.size());
    })});
  };
  op.samples = {"concat(f32[2,3], f32[2,2]){axis=1}", "concat(i32[1], i32[2], i32[3]){axis=0}",
                "concat(f32[2,3]){axis=-1}", "concat(bool[2,1], bool[2,0], bool[2,2]){axis=1}"};
  op.onnx = {{.type = "Concat", .since = {1, 4, 11, 13}, .stable = 4, .import = import_concat}};
  return op;
}

}  // namespace isomer::ops
