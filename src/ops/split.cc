#include <fmt/format.h>

#include <algorithm>

#include "ops/legacy_inputs.h"
#include "ops/shape_operand.h"

namespace isomer::ops {
namespace {

// Extents along the axis given one by one.
Expected<std::vector<Dim>> listed_parts(const ir::OpContext& c, const Dim& whole) {
  if (c.rank(1) != 1) return c.error("input 'split' must be a vector");
  const size_t n = c.output_count();
  if (c.dim(1, 0).is_const() && c.dim(1, 0).value() != static_cast<int64_t>(n))
    return c.error(fmt::format("input 'split' has {} entries for {} outputs", c.dim(1, 0).value(), n));
  const auto sizes = c.sizes(1);
  if (!sizes || sizes->size() != n) return std::vector<Dim>(n, Dim::invalid());
  Dim total(0);
  for (const Dim& d : *sizes) {
    if (d.is_const() && d.value() < 0)
      return c.error(fmt::format("input 'split' holds the size {}, expected 0 or more", d.value()));
    total = total + d;
  }
  if (total.is_const() && whole.is_const() && !(total == whole))
    return c.error(fmt::format("the parts hold {} in all, the axis has extent {}", total.value(), whole.value()));
  return *sizes;
}

// Equal parts; with num_outputs the last ones may be smaller.
Expected<std::vector<Dim>> even_parts(const ir::OpContext& c, const Dim& whole) {
  const auto n = static_cast<int64_t>(c.output_count());
  if (!c.has_attr("num_outputs")) {
    if (whole.is_const() && whole.value() % n != 0)
      return c.error(fmt::format("an axis of extent {} does not split into {} equal parts", whole.value(), n));
    return std::vector<Dim>(static_cast<size_t>(n), floor_div(whole, Dim(n)));
  }
  if (c.integer("num_outputs") != n)
    return c.error(fmt::format("attribute 'num_outputs' is {} for {} outputs", c.integer("num_outputs"), n));
  const Dim part = ceil_div(whole, Dim(n));
  std::vector<Dim> parts;
  for (int64_t k = 0; k < n; ++k) {
    if (whole.is_const())
      parts.push_back(max(Dim(0), min(part, whole - part * Dim(k))));
    else
      parts.push_back(k + 1 < n ? part : whole - part * Dim(k));
  }
  return parts;
}

Expected<std::vector<Dim>> parts(const ir::OpContext& c, size_t axis) {
  if (c.output_count() == 0) return c.error("expected at least one output");
  if (c.has(1) && c.has_attr("num_outputs"))
    return c.error("input 'split' and attribute 'num_outputs' exclude each other");
  return c.has(1) ? listed_parts(c, c.dim(0, axis)) : even_parts(c, c.dim(0, axis));
}

Expected<std::vector<ir::Value>> import_split(ir::ForeignNode& node, ir::GraphBuilder& builder) {
  if (node.version < 13) ints_to_input(node, builder, "split", 1);
  const bool listed = node.inputs.size() > 1 && !node.inputs[1].is_none();
  if (node.version < 18 && !listed && node.outputs > 0 && !node.inputs.empty() && !node.inputs[0].is_none()) {
    const auto n = static_cast<int64_t>(node.outputs);
    const Shape& shape = builder.type(node.inputs[0]).shape;
    const int64_t* given = node.attrs.get<int64_t>("axis");
    const int64_t rank = shape.has_rank() ? static_cast<int64_t>(shape.rank()) : 0;
    const int64_t axis = given ? *given : 0;
    if (axis >= -rank && axis < rank) {
      const auto whole = shape[static_cast<size_t>(axis < 0 ? axis + rank : axis)].constant();
      if (whole && *whole % n != 0)
        return Diagnostic("E-op",
                          fmt::format("split: an axis of extent {} does not split into {} equal parts", *whole, n));
    }
    node.attrs.set("num_outputs", n);
  }
  return ir::add_as_is(node, builder);
}

}  // namespace

ir::OpDef op_split() {
  ir::OpDef op;
  op.name = "split";
  op.doc = "Pieces of a tensor along an axis: of the given sizes, or num_outputs equal ones with a smaller last.";
  op.inputs = {{"input", "T", kAllTypes}, {"split", "S", DType::I64, ir::Arity::Optional}};
  op.outputs = {{"outputs", "T", ir::Arity::Variadic}};
  op.attrs = {{"axis", ir::AttrKind::Int, int64_t{0}}, {"num_outputs", ir::AttrKind::Int}};
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    ISOMER_TRY(const size_t axis, c.axis(c.integer("axis"), c.rank(0)));
    ISOMER_TRY(const std::vector<Dim> extents, parts(c, axis));
    std::vector<Type> types;
    for (size_t k = 0; k < extents.size(); ++k) {
      std::vector<Dim> dims = c.shape(0).dims();
      dims[axis] = extents[k];
      types.push_back(c.out(k, Shape(std::move(dims))));
    }
    return types;
  };
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    ISOMER_TRY(const size_t axis, c.axis(c.integer("axis"), c.rank(0)));
    ISOMER_TRY(const std::vector<Dim> extents, parts(c, axis));
    ISOMER_TRY(const std::vector<Dim> known, known_dims(c, Shape(extents), 1));
    te::Builder b;
    const auto in = c.declare(b);
    std::vector<te::Handle> outputs;
    Dim start(0);
    for (size_t k = 0; k < known.size(); ++k) {
      std::vector<Dim> dims = c.shape(0).dims();
      dims[axis] = known[k];
      outputs.push_back(b.map(fmt::format("output{}", k), c.dtype(0), dims, [&](auto i) {
        std::vector<te::Expr> index(i.begin(), i.end());
        if (!(start == Dim(0))) index[axis] = index[axis] + te::Expr(start);
        return in[0].at(std::move(index));
      }));
      start = start + known[k];
    }
    return b.finish(std::move(outputs));
  };
  op.samples = {"split(f32[6,2], [1,2,3]){axis=0} -> 3", "split(f32[2,5]){axis=1, num_outputs=2} -> 2",
                "split(i32[4]) -> 2"};
  op.onnx = {{.type = "Split", .since = {1, 2, 11, 13, 18}, .stable = 18, .import = import_split}};
  return op;
}

}  // namespace isomer::ops
