#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "ops/legacy_inputs.h"
#include "ops/shape_operand.h"

namespace isomer::ops {
namespace {

// One axis of a slice: result index i reads start + step * i.
struct Cut {
  Dim start = 0;
  Dim step = 1;
  Dim extent = Dim::invalid();
};

bool never_negative(const Dim& d) { return d.at_least().value_or(-1) >= 0; }

// A bound as written, with what ONNX documents as "to the end" brought to the end.
std::optional<Dim> bound(const Dim& written, const Dim& extent) {
  constexpr int64_t kFar = std::numeric_limits<int32_t>::max();
  if (const auto v = written.constant()) {
    if (*v >= kFar && !extent.is_const()) return extent;
    if (*v <= -kFar && !extent.is_const()) return Dim(-1) - extent;
    if (*v >= 0) return written;
    if (extent.is_const() && *v < -extent.value()) return Dim(-1);
    return extent + written;
  }
  return never_negative(written) ? std::optional(written) : std::nullopt;
}

Cut forward(const Dim& n, const Dim& from, const Dim& to, const Dim& step) {
  const Dim start = max(from, Dim(0));
  // With the end at the end, the length of x[-k:] is min(n, k), which says more than n - max(n - k, 0).
  const Dim length = max(to == n && (n - from).is_const() ? min(n, n - from) : min(to, n) - start, Dim(0));
  return {start, step, step == Dim(1) ? length : ceil_div(length, step)};
}

Cut backward(const Dim& n, const Dim& from, const Dim& to, const Dim& step) {
  const Dim start = min(from, n - Dim(1));
  const Dim length = max(start - max(to, Dim(-1)), Dim(0));
  return {start, step, step == Dim(-1) ? length : ceil_div(length, Dim(0) - step)};
}

Cut cut(const Dim& n, const Dim& start, const Dim& end, const Dim& step) {
  const auto from = bound(start, n), to = bound(end, n);
  if (!from || !to) return {};
  if (!step.is_const() && !never_negative(step)) return {};
  return !step.is_const() || step.value() > 0 ? forward(n, *from, *to, step) : backward(n, *from, *to, step);
}

struct Bounds {
  std::vector<Dim> starts, ends;  // invalid where not known
  std::vector<Dim> steps;         // invalid where not known
  std::optional<std::vector<size_t>> axes;
};

// Operands 1 to 4, which must be vectors of one length.
Expected<Bounds> bounds(const ir::OpContext& c) {
  Bounds out;
  std::optional<size_t> count;
  for (size_t i = 1; i < 5; ++i) {
    if (!c.has(i)) continue;
    ISOMER_TRY(const Shape s, shape_operand(c, i));
    if (!s.has_rank()) continue;
    if (count && *count != s.rank())
      return c.error(
          fmt::format("starts, ends, axes and steps must have one length, found {} and {}", *count, s.rank()));
    count = s.rank();
  }
  if (!count) return out;
  if (*count > c.rank(0)) return c.error(fmt::format("{} axes are cut of an input of rank {}", *count, c.rank(0)));
  const auto contents = [&](size_t i) { return c.sizes(i).value_or(std::vector<Dim>(*count, Dim::invalid())); };
  out.starts = contents(1);
  out.ends = contents(2);
  out.steps = c.has(4) ? contents(4) : std::vector<Dim>(*count, Dim(1));
  for (Dim& s : out.steps) {
    if (!s.is_const()) continue;
    if (s.value() == 0) return c.error("a step is 0, expected any other number");
    s = Dim(std::clamp(s.value(), -kMaxTensorBytes, kMaxTensorBytes));  // no axis is longer: a longer step is the same
  }
  if (c.has(3)) {
    ISOMER_TRY(out.axes, axes_operand(c, 3, c.rank(0)));
  } else {
    out.axes.emplace(*count);
    std::iota(out.axes->begin(), out.axes->end(), size_t{0});
  }
  return out;
}

// One Cut per axis of the input, or nothing when the axes are not known.
Expected<std::optional<std::vector<Cut>>> cuts(const ir::OpContext& c) {
  ISOMER_TRY(const Bounds given, bounds(c));
  if (!given.axes) return std::optional<std::vector<Cut>>();
  std::vector<Cut> out;
  for (const Dim& d : c.shape(0).dims()) out.push_back({Dim(0), Dim(1), d});
  for (size_t k = 0; k < given.axes->size(); ++k) {
    const size_t a = (*given.axes)[k];
    const Dim &start = given.starts[k], &end = given.ends[k];
    const bool known = !start.is_invalid() && !end.is_invalid() && !given.steps[k].is_invalid();
    out[a] = known ? cut(c.dim(0, a), start, end, given.steps[k]) : Cut{};
  }
  return std::optional(std::move(out));
}

Expected<std::vector<ir::Value>> import_slice(ir::ForeignNode& node, ir::GraphBuilder& builder) {
  if (node.version < 10) {
    ints_to_input(node, builder, "starts", 1);
    ints_to_input(node, builder, "ends", 2);
    ints_to_input(node, builder, "axes", 3);
  }
  return ir::add_as_is(node, builder);
}

}  // namespace

ir::OpDef op_slice() {
  ir::OpDef op;
  op.name = "slice";
  op.doc = "Every step-th element from start to end along the given axes, counted as Python's slices do.";
  op.inputs = {{"data", "T", kAllTypes},
               {"starts", "I", kIndexInts},
               {"ends", "I", kIndexInts},
               {"axes", "I", kIndexInts, ir::Arity::Optional},
               {"steps", "I", kIndexInts, ir::Arity::Optional}};
  op.outputs = {{"output", "T"}};
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    ISOMER_TRY(const auto all, cuts(c));
    std::vector<Dim> dims(c.rank(0), Dim::invalid());
    for (size_t a = 0; all && a < dims.size(); ++a) dims[a] = (*all)[a].extent;
    return std::vector{c.out(0, Shape(std::move(dims)))};
  };
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    ISOMER_TRY(const auto all, cuts(c));
    if (!all) return needs_value(c, 3);
    std::vector<Dim> dims;
    for (const Cut& k : *all) {
      if (k.extent.is_invalid()) return needs_value(c, 1);
      dims.push_back(k.extent);
    }
    te::Builder b;
    const auto in = c.declare(b);
    return b.finish({b.map("output", c.dtype(0), dims, [&](auto i) {
      std::vector<te::Expr> index(i.begin(), i.end());
      for (size_t a = 0; a < index.size(); ++a) {
        const Cut& k = (*all)[a];
        if (!(k.step == Dim(1))) index[a] = index[a] * te::Expr(k.step);
        if (!(k.start == Dim(0))) index[a] = index[a] + te::Expr(k.start);
      }
      return in[0].at(std::move(index));
    })});
  };
  op.samples = {"slice(f32[5,4], [1], [4])", "slice(f32[5,4], [0,1], [5,-1], [0,1], [2,1])",
                "slice(f32[5,4], [9], [-9], [0], [-2])", "slice(i32[6], [2], [1])"};
  op.onnx = {{.type = "Slice", .since = {1, 10, 11, 13}, .stable = 10, .import = import_slice}};
  return op;
}

}  // namespace isomer::ops
