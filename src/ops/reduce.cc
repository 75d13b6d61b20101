// Reductions over axes: one family, whose members differ in what they combine and in a function before and after.
#include <fmt/format.h>

#include "ir/op.h"
#include "ops/elementwise.h"
#include "ops/legacy.h"
#include "ops/reduction.h"

namespace isomer::ops {
namespace {

using te::Combiner;
using te::Expr;

constexpr DTypeSet kReducible = kFloats | DType::I32 | DType::I64 | DType::U32 | DType::U64;

// The axes to reduce, when they are known: all when none are given, or none at all by `noop_with_empty_axes`; then every
// element is a set of its own, and what the operator does before and after the reduction still happens.
Expected<std::optional<AxisMask>> reduced_axes(const ir::OpContext& c) {
  std::vector<int64_t> axes;
  if (c.has(1)) {
    if (c.shape(1).has_rank() && c.rank(1) != 1)
      return c.error(fmt::format("expected a vector as 'axes', found the shape {}", c.shape(1).to_string()));
    const auto known = c.ints_value(1);
    if (!known) return std::optional<AxisMask>();
    axes = *known;
  }
  const size_t rank = c.rank(0);
  if (axes.empty()) return std::optional(AxisMask(rank, !c.flag("noop_with_empty_axes")));
  ISOMER_TRY(AxisMask mask, axis_mask(c, axes, rank));
  return std::optional(std::move(mask));
}

Expected<std::vector<Type>> reduce_types(const ir::OpContext& c) {
  ISOMER_TRY(const std::optional<AxisMask> axes, reduced_axes(c));
  const bool keep = c.flag("keepdims");
  if (!axes) {
    if (keep) return std::vector{c.out(0, Shape(std::vector<Dim>(c.rank(0), Dim::invalid())))};
    const auto count = c.dim(1, 0).constant();
    if (!count || *count == 0 || *count > static_cast<int64_t>(c.rank(0)))
      return std::vector{c.out(0, Shape::unknown())};
    return std::vector{c.out(0, Shape(std::vector<Dim>(c.rank(0) - static_cast<size_t>(*count), Dim::invalid())))};
  }
  std::vector<Dim> dims;
  for (size_t i = 0; i < c.rank(0); ++i) {
    if (!(*axes)[i]) dims.push_back(c.dim(0, i));
    if ((*axes)[i] && keep) dims.emplace_back(1);
  }
  return std::vector{c.out(0, Shape(std::move(dims)))};
}

// A member: after(reduce(combiner, before(x)), count), computed in real numbers when `real`.
struct Member {
  std::string name, doc, onnx;
  Combiner combiner = Combiner::Sum;
  std::function<Expr(const Expr&)> before = [](const Expr& x) { return x; };
  std::function<Expr(const Expr&, const Dim& count)> after = [](const Expr& x, const Dim&) { return x; };
  bool real = false;       // integers pass through doubles
  bool stabilise = false;  // subtract the maximum first and add it last, for sums of exponentials
  DTypeSet types = kReducible;
  std::vector<int> since = {1, 11, 13, 18};
  int stable = 18;
  std::vector<std::string> laws = {};
};

// The maximum over the axes, 0 where it is infinite: what exponents are shifted by.
te::Handle shift_stage(te::Builder& b, const te::Handle& x, const AxisMask& mask, DType work) {
  const te::Handle top = reduce_stage(b, "top", Combiner::Max, x.dims(), mask,
                                      [&](auto i) { return cast(work, x.at({i.begin(), i.end()})); });
  return b.map("shift", work, top.dims(), [&](auto i) {
    const Expr m = top.broadcast(i);
    return select(te::unary(te::UnaryOp::IsInf, m), 0, m);
  });
}

Expected<te::Program> reduce_program(const ir::OpContext& c, const Member& m) {
  ISOMER_TRY(const std::optional<AxisMask> axes, reduced_axes(c));
  if (!axes) return c.error("needs the value of input 'axes'");
  ISOMER_TRY(const std::vector<Type> types, reduce_types(c));
  te::Builder b;
  const auto in = c.declare(b);
  const te::Handle& x = in[0];
  const DType dtype = c.dtype(0);
  const auto whole = [&](auto i) { return x.at({i.begin(), i.end()}); };
  const DType work = m.real ? real_type(dtype) : accumulator(dtype);
  te::Handle shift;
  if (m.stabilise) shift = shift_stage(b, x, *axes, work);
  const te::Handle all = reduce_stage(b, "all", m.combiner, x.dims(), *axes, [&](auto i) {
    const Expr v = cast(work, whole(i));
    return m.before(m.stabilise ? v - shift.broadcast(i) : v);
  });
  const Dim count = reduced_elements(x.dims(), *axes);
  return b.finish({b.map("reduced", dtype, types[0].shape.dims(), [&](auto i) {
    std::vector<Expr> at;
    for (size_t k = 0, next = 0; k < x.rank(); ++k) {
      const bool gone = (*axes)[k] && !c.flag("keepdims");
      at.push_back((*axes)[k] ? Expr(0) : i[next]);
      if (!gone) ++next;
    }
    const Expr y = m.after(all.at(at), count);
    return cast(dtype, m.stabilise ? y + shift.at(at) : y);
  })});
}

ir::OpDef reduction(Member m) {
  ir::OpDef op;
  op.name = m.name;
  op.doc = m.doc;
  op.inputs = {{"data", "T", m.types}, {"axes", "", DType::I64, ir::Arity::Optional}};
  op.outputs = {{"reduced", "T"}};
  op.attrs = {{"keepdims", ir::AttrKind::Int, int64_t{1}}, {"noop_with_empty_axes", ir::AttrKind::Int, int64_t{0}}};
  op.infer = reduce_types;
  op.laws = m.laws;
  for (const char* call : {"(f32[2,3,4], [1])", "(f32[2,3,4], [-1,0]){keepdims=0}", "(f32[2,3]){keepdims=0}",
                           "(f32[2,3]){noop_with_empty_axes=1}", "(i32[2,3], [0])"})
    op.samples.push_back(m.name + call);
  op.onnx = {{.type = m.onnx, .since = m.since, .stable = m.stable, .import = import_axes}};
  op.compute = [m = std::move(m)](const ir::OpContext& c) { return reduce_program(c, m); };
  return op;
}

Expr square(const Expr& x) { return x * x; }

}  // namespace

ir::OpDef op_reduce_sum() {
  return reduction({.name = "reduce_sum",
                    .doc = "Sum over axes.",
                    .onnx = "ReduceSum",
                    .since = {1, 11, 13},
                    .stable = 13,
                    .laws = {"reduce_sum(add(?x, ?x), ?a) == add(reduce_sum(?x, ?a), reduce_sum(?x, ?a))"}});
}

ir::OpDef op_reduce_mean() {
  return reduction({.name = "reduce_mean",
                    .doc = "Mean over axes; of integers, truncated to zero.",
                    .onnx = "ReduceMean",
                    .after = [](const Expr& x, const Dim& count) { return x / cast(x.dtype(), Expr(count)); }});
}

ir::OpDef op_reduce_max() {
  return reduction({.name = "reduce_max",
                    .doc = "Largest value over axes; the lowest value of the type when there is none.",
                    .onnx = "ReduceMax",
                    .combiner = Combiner::Max,
                    .types = kReducible | DType::I8 | DType::U8 | DType::Bool,
                    .since = {1, 11, 12, 13, 18, 20}});
}

ir::OpDef op_reduce_min() {
  return reduction({.name = "reduce_min",
                    .doc = "Smallest value over axes; the highest value of the type when there is none.",
                    .onnx = "ReduceMin",
                    .combiner = Combiner::Min,
                    .types = kReducible | DType::I8 | DType::U8 | DType::Bool,
                    .since = {1, 11, 12, 13, 18, 20},
                    .laws = {"reduce_min(?x, ?a) == neg(reduce_max(neg(?x), ?a))"}});
}

ir::OpDef op_reduce_prod() {
  return reduction(
      {.name = "reduce_prod", .doc = "Product over axes.", .onnx = "ReduceProd", .combiner = Combiner::Product});
}

ir::OpDef op_reduce_l1() {
  return reduction({.name = "reduce_l1",
                    .doc = "Sum of absolute values over axes.",
                    .onnx = "ReduceL1",
                    .before = [](const Expr& x) { return abs(x); },
                    .laws = {"reduce_l1(?x, ?a) == reduce_sum(abs(?x), ?a)"}});
}

ir::OpDef op_reduce_l2() {
  return reduction({.name = "reduce_l2",
                    .doc = "Root of the sum of squares over axes.",
                    .onnx = "ReduceL2",
                    .before = square,
                    .after = [](const Expr& x, const Dim&) { return sqrt(x); },
                    .real = true});
}

ir::OpDef op_reduce_log_sum() {
  return reduction({.name = "reduce_log_sum",
                    .doc = "Logarithm of the sum over axes.",
                    .onnx = "ReduceLogSum",
                    .after = [](const Expr& x, const Dim&) { return log(x); },
                    .real = true});
}

ir::OpDef op_reduce_log_sum_exp() {
  return reduction({.name = "reduce_log_sum_exp",
                    .doc = "Logarithm of the sum of exponentials over axes.",
                    .onnx = "ReduceLogSumExp",
                    .before = [](const Expr& x) { return exp(x); },
                    .after = [](const Expr& x, const Dim&) { return log(x); },
                    .real = true,
                    .stabilise = true});
}

ir::OpDef op_reduce_sum_square() {
  return reduction({.name = "reduce_sum_square",
                    .doc = "Sum of squares over axes.",
                    .onnx = "ReduceSumSquare",
                    .before = square,
                    .laws = {"reduce_sum_square(?x, ?a) == reduce_sum(mul(?x, ?x), ?a)"}});
}

}  // namespace isomer::ops
