#include <fmt/format.h>

#include <numeric>

#include "ops/legacy_inputs.h"
#include "ops/shape_operand.h"

namespace isomer::ops {
namespace {

struct Padding {
  Dim before = 0, after = 0;  // negative: taken away
};

// One Padding per axis; nothing when the axes are not known; invalid dims where a number is not known.
Expected<std::optional<std::vector<Padding>>> paddings(const ir::OpContext& c) {
  using Result = std::optional<std::vector<Padding>>;
  std::vector<size_t> axes(c.rank(0));
  std::iota(axes.begin(), axes.end(), size_t{0});
  if (c.has(3)) {
    ISOMER_TRY(auto given, axes_operand(c, 3, c.rank(0)));
    if (!given) return Result();
    axes = *std::move(given);
  }
  if (c.rank(1) != 1) return c.error("input 'pads' must be a vector");
  const Dim length(static_cast<int64_t>(2 * axes.size()));
  if (c.dim(1, 0).is_const() && !(c.dim(1, 0) == length))
    return c.error(
        fmt::format("input 'pads' has {} entries, expected {}, two per axis", c.dim(1, 0).value(), length.value()));
  const auto pads = c.sizes(1);
  const bool known = pads && pads->size() == 2 * axes.size();
  std::vector<Padding> out(c.rank(0));
  for (size_t k = 0; k < axes.size(); ++k) {
    out[axes[k]] = known ? Padding{(*pads)[k], (*pads)[axes.size() + k]} : Padding{Dim::invalid(), Dim::invalid()};
    const Padding& p = out[axes[k]];
    // Beyond this no size could be right, and sums of such numbers are not worth forming.
    for (const Dim& d : {p.before, p.after})
      if (d.is_const() && (d.value() > kMaxTensorBytes || d.value() < -kMaxTensorBytes))
        return c.error(fmt::format("a padding of {} on axis {} is out of range", d.value(), axes[k]));
  }
  return Result(std::move(out));
}

// Where position `src` (counted from the first kept element) reads among n kept ones.
te::Expr source(const std::string& mode, const te::Expr& src, const te::Expr& n) {
  if (mode == "edge") return te::min(te::max(src, 0), n - 1);
  if (mode == "wrap") return te::floor_mod(src, n);
  const te::Expr period = te::max((n - 1) * 2, 1), at = te::floor_mod(src, period);
  return te::min(at, period - at);
}

Expected<std::vector<Dim>> padded_dims(const ir::OpContext& c, const std::vector<Padding>& all) {
  const std::string& mode = c.text("mode");
  std::vector<Dim> dims;
  for (size_t a = 0; a < all.size(); ++a) {
    const Dim &n = c.dim(0, a), &p = all[a].before, &q = all[a].after;
    dims.push_back(n + p + q);
    if (dims[a].is_const() && dims[a].value() < 0)
      return c.error(fmt::format("pads {} and {} take more than the {} elements of axis {}", p.to_string(),
                                 q.to_string(), n.to_string(), a));
    const Dim kept = n + min(p, Dim(0)) + min(q, Dim(0));
    if (mode != "constant" && kept.is_const() && dims[a].is_const() && kept.value() <= 0 && dims[a].value() > 0)
      return c.error(fmt::format("mode '{}' needs an element to copy on axis {}, which is empty", mode, a));
  }
  return dims;
}

te::Expr padded(const ir::OpContext& c, const std::vector<te::Handle>& in, const std::vector<Padding>& all,
                std::span<const te::Expr> i) {
  const std::string& mode = c.text("mode");
  std::vector<te::Expr> index(i.begin(), i.end()), inside;
  for (size_t a = 0; a < all.size(); ++a) {
    const Dim &n = c.dim(0, a), &p = all[a].before, &q = all[a].after;
    if (p == Dim(0) && q == Dim(0)) continue;
    const bool grows_before = !(p.is_const() && p.value() <= 0), grows_after = !(q.is_const() && q.value() <= 0);
    if (mode != "constant" && (grows_before || grows_after)) {
      const Dim cut = max(Dim(0) - p, Dim(0)), kept = n - cut + min(q, Dim(0));
      const te::Expr at = source(mode, index[a] - te::Expr(max(p, Dim(0))), te::Expr(kept));
      index[a] = cut == Dim(0) ? at : at + te::Expr(cut);
      continue;
    }
    if (!(p == Dim(0))) index[a] = index[a] - te::Expr(p);
    if (grows_before) inside.push_back(te::Expr(0) <= index[a]);
    if (grows_after) inside.push_back(index[a] < te::Expr(n));
  }
  const te::Expr value = in[0].at(index);
  if (inside.empty()) return value;
  te::Expr fill = te::Expr::literal(c.dtype(0), 0);
  if (c.has(2)) fill = c.rank(2) == 0 ? in[2]() : in[2](0);
  return te::select(te::all_of(inside), value, fill);
}

Expected<std::vector<ir::Value>> import_pad(ir::ForeignNode& node, ir::GraphBuilder& builder) {
  if (node.version >= 11) return ir::add_as_is(node, builder);
  ints_to_input(node, builder, node.version < 2 ? "paddings" : "pads", 1);
  const double value = take_real(node, "value").value_or(0);
  if (value != 0 && !node.inputs.empty() && !node.inputs[0].is_none())
    put_input(node, 2, builder.constant(Tensor::scalar(builder.type(node.inputs[0]).dtype, value)));
  return ir::add_as_is(node, builder);
}

Expected<void> check_mode(const ir::OpContext& c) {
  const std::string& mode = c.text("mode");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap")
    return c.error(fmt::format("mode {} is none of constant, reflect, edge, wrap", quoted(mode)));
  if (c.has(2) && !(c.rank(2) == 0 || (c.rank(2) == 1 && c.dim(2, 0) == Dim(1))))
    return c.error(fmt::format("input 'constant_value' must be a scalar, found {}", c.type(2).to_string()));
  return {};
}

}  // namespace

ir::OpDef op_pad() {
  ir::OpDef op;
  op.name = "pad";
  op.doc = "Adds elements before and after each axis (a constant, or copies by mode); negative pads take them away.";
  op.inputs = {{"data", "T", kAllTypes},
               {"pads", "P", DType::I64},
               {"constant_value", "T", kAllTypes, ir::Arity::Optional},
               {"axes", "A", kIndexInts, ir::Arity::Optional}};
  op.outputs = {{"output", "T"}};
  op.attrs = {{"mode", ir::AttrKind::String, std::string("constant")}};
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    ISOMER_CHECK_OK(check_mode(c));
    ISOMER_TRY(const auto all, paddings(c));
    if (!all) return std::vector{c.out(0, Shape(std::vector<Dim>(c.rank(0), Dim::invalid())))};
    ISOMER_TRY(std::vector<Dim> dims, padded_dims(c, *all));
    return std::vector{c.out(0, Shape(std::move(dims)))};
  };
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    ISOMER_CHECK_OK(check_mode(c));
    ISOMER_TRY(const auto all, paddings(c));
    if (!all) return needs_value(c, 3);
    ISOMER_TRY(const std::vector<Dim> dims, padded_dims(c, *all));
    ISOMER_TRY(const std::vector<Dim> known, known_dims(c, Shape(dims), 1));
    te::Builder b;
    const auto in = c.declare(b);
    return b.finish({b.map("output", c.dtype(0), known, [&](auto i) { return padded(c, in, *all, i); })});
  };
  op.samples = {"pad(f32[2,3], [1,0,0,2])", "pad(f32[2,3], [0,1,0,-1], f32 2.5)",
                "pad(f32[4], [2,3]){mode=\"reflect\"}", "pad(f32[2,3], [2,1], _, [-1]){mode=\"edge\"}",
                "pad(i32[3], [2,4]){mode=\"wrap\"}"};
  op.onnx = {{.type = "Pad", .since = {1, 2, 11, 13, 18, 19, 21, 23}, .stable = 19, .import = import_pad}};
  return op;
}

}  // namespace isomer::ops
