#include <fmt/format.h>

#include "ir/op.h"
#include "ops/body.h"

namespace isomer::ops {
namespace {

// A loop node: its inputs are the trip count, the first condition, the states, the captures; its body takes the
// iteration number, the condition, the states, the captures, and gives the condition, the states, the scanned values.
struct LoopParts {
  ir::GraphRef body;
  size_t captures = 0, states = 0, scans = 0;

  const Type& state_in(size_t k) const { return body->inputs()[2 + k].types[0]; }
  const Type& result(size_t k) const { return body->type(body->outputs()[1 + k].value); }
};

Expected<LoopParts> loop_parts(const ir::OpContext& c) {
  LoopParts p;
  ISOMER_TRY(p.captures, capture_count(c));
  const size_t own = std::max<size_t>(2, c.input_count()) - 2;
  if (own < p.captures) return c.error("the trip count and the condition cannot be captured values");
  p.states = own - p.captures;
  for (size_t k = 0; k < p.states; ++k)
    if (!c.has(2 + k)) return c.error(fmt::format("the initial value of state {} is missing", k));
  ISOMER_TRY(p.body, body_of(c, "body", 2 + p.states, p.captures, 1 + p.states));
  p.scans = p.body->outputs().size() - 1 - p.states;
  if (c.output_count() > p.states + p.scans)
    return c.error(fmt::format("has {} outputs, its body gives {}", c.output_count(), p.states + p.scans));
  return p;
}

// The condition the body hands on is always true, or the one it was given.
bool cannot_end(const ir::OpContext& c, const LoopParts& p) {
  const ir::Value v = source_of(*p.body, p.body->outputs()[0].value, c.table());
  if (v.node == 1 && v.index == 0) return true;
  const ir::Node& n = p.body->node(v.node);
  const Tensor* t = n.op == &ir::const_op() ? n.attrs.get<Tensor>("value") : nullptr;
  return t && t->size() == 1 && t->integer(0) != 0;
}

// How often the body runs, when that is known before it does.
Dim trips(const ir::OpContext& c, const LoopParts& p) {
  const Tensor* first = c.value(1);
  if (first && first->size() == 1 && first->integer(0) == 0) return 0;
  const auto count = c.sizes(0);
  if (!count || count->size() != 1 || (c.has(1) && !first) || !cannot_end(c, p)) return Dim::invalid();
  const Dim& n = count->front();
  return n.is_const() ? Dim(std::max<int64_t>(0, n.value())) : max(n, Dim(0));
}

Expected<void> check_first(const ir::OpContext& c, const LoopParts& p) {
  for (size_t i : {0, 1})
    if (c.has(i) && c.shape(i).has_rank())
      for (const Dim& d : c.shape(i).dims())
        if (d.is_const() && d.value() != 1)
          return c.error(fmt::format("input '{}' has more than one element", c.op().inputs[i].name));
  if (p.body->inputs()[0].types[0].dtype != DType::I64 || p.body->inputs()[1].types[0].dtype != DType::Bool)
    return c.error("the body's first two inputs must be the iteration number (i64) and the condition (bool)");
  if (p.body->type(p.body->outputs()[0].value).dtype != DType::Bool)
    return c.error("the body's first output must be the condition (bool)");
  return {};
}

Expected<std::vector<Type>> infer_loop(const ir::OpContext& c) {
  ISOMER_TRY(const LoopParts p, loop_parts(c));
  ISOMER_CHECK_OK(check_first(c, p));
  BodySizes sizes;
  for (size_t k = 0; k < p.captures; ++k)
    ISOMER_CHECK_OK(
        check_passes(c, "a captured value", p.body->inputs()[2 + p.states + k].types[0], c.type(2 + p.states + k)));
  sizes.bind_captures(c, *p.body, p.captures);
  for (size_t k = 0; k < p.states; ++k) {
    ISOMER_CHECK_OK(check_passes(c, fmt::format("state {}", k), p.state_in(k), c.type(2 + k)));
    ISOMER_CHECK_OK(check_passes(c, fmt::format("state {}", k), p.state_in(k), p.result(k)));
    // A state whose shape the body keeps has its first shape for ever.
    if (p.state_in(k).shape == p.result(k).shape) sizes.bind(p.state_in(k), c.type(2 + k));
  }
  std::vector<Type> types;
  for (size_t k = 0; k < c.output_count(); ++k) {
    Type t = sizes.outside(p.result(k));
    if (k < p.states) {
      ISOMER_TRY(t, join(c, c.type(2 + k), t));
    } else {
      t.shape = with_axis(t.shape, 0, trips(c, p));
    }
    types.push_back(std::move(t));
  }
  return types;
}

Expected<std::vector<Tensor>> run_loop(const ir::OpContext& c) {
  ISOMER_TRY(const LoopParts p, loop_parts(c));
  const int64_t most = c.has(0) ? c.value(0)->integer(0) : std::numeric_limits<int64_t>::max();
  bool go = true;
  if (c.has(1)) {
    ISOMER_TRY(go, truth_of(c, *c.value(1), "the condition"));
  }
  const auto endless = [&](std::string count) {
    return Diagnostic("E-loop-limit",
                      fmt::format("loop: runs {} times, the limit is {} iterations", count, c.loop_limit()));
  };
  if (go && most > c.loop_limit() && cannot_end(c, p)) return endless(c.has(0) ? fmt::format("{}", most) : "endless");
  const std::vector<Tensor> captured = captured_values(c, p.captures);
  std::vector<Tensor> states;
  for (size_t k = 0; k < p.states; ++k) states.push_back(*c.value(2 + k));
  std::vector<Stacker> scans(p.scans);
  for (int64_t i = 0; go && i < most; ++i) {
    if (i >= c.loop_limit()) return endless(fmt::format("more than {}", i));
    std::vector<Tensor> in = {single(Tensor::int_scalar(DType::I64, i), p.body->inputs()[0].types[0]),
                              single(Tensor::int_scalar(DType::Bool, 1), p.body->inputs()[1].types[0])};
    in.insert(in.end(), states.begin(), states.end());
    in.insert(in.end(), captured.begin(), captured.end());
    ISOMER_TRY(std::vector<Tensor> out, c.run(*p.body, std::move(in)));
    ISOMER_TRY(go, truth_of(c, out[0], "the condition"));
    for (size_t k = 0; k < p.states; ++k) states[k] = std::move(out[1 + k]);
    for (size_t k = 0; k < p.scans; ++k) ISOMER_CHECK_OK(scans[k].push(c, out[1 + p.states + k]));
  }
  std::vector<Tensor> results = std::move(states);
  ISOMER_TRY(const std::vector<Type> types, infer_loop(c));
  for (size_t k = 0; k < p.scans && p.states + k < c.output_count(); ++k) {
    Type element = types[p.states + k];
    if (element.shape.has_rank())
      element.shape = Shape(std::vector<Dim>(element.shape.dims().begin() + 1, element.shape.dims().end()));
    ISOMER_TRY(Tensor t, scans[k].stack(c, 0, false, element));
    results.push_back(std::move(t));
  }
  results.resize(c.output_count());
  return results;
}

}  // namespace

ir::OpDef op_loop() {
  ir::OpDef op;
  op.name = "loop";
  op.doc = "Runs a body up to a number of times and while a condition holds, handing states on and stacking results.";
  op.inputs = {{"m", "I", DType::I64, ir::Arity::Optional},
               {"cond", "B", DType::Bool, ir::Arity::Optional},
               {"v_initial", "", kCarried, ir::Arity::Variadic}};
  op.outputs = {{"v_final_and_scan_outputs", "V", ir::Arity::Variadic}};
  op.attrs = {{.name = "body", .kind = ir::AttrKind::Graph, .required = true}, captures_attr()};
  op.infer = infer_loop;
  op.infer_unranked = true;
  op.kernel = run_loop;
  op.samples = {
      R"(loop(i64 3, _, f32[2]){body=graph @b(%i: i64[], %c: bool[], %v: f32[2]) { return %c, %v, "each"=%i }} -> 2)",
      R"(loop(i64 2, bool true, f32[2], i64[2]){captures=1, body=graph @b(%i: i64[], %c: bool[], %v: f32[2], %k: i64[2]) { return %c, %v, "each"=%k }} -> 2)"};
  op.onnx = {{.type = "Loop", .since = {1, 11, 13, 16, 19, 21, 23}, .stable = 1}};
  return op;
}

}  // namespace isomer::ops
