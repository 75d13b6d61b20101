#include "ir/op.h"
#include "ops/recurrent.h"

namespace isomer::ops {
namespace {

// Gates z, r, h. The candidate resets the state before its product with the weights, or after.
State gru_step(Compose& f, const Direction& d, ir::Value x, const State& s, bool reset_after) {
  const int64_t n = d.hidden;
  const auto xs = f.split(x, 2, std::vector<int64_t>{2 * n, n});
  const bool has_bias = reset_after && !d.recurrent_bias.is_none();
  std::vector<ir::Value> weights, biases;
  if (!s.h.is_none()) weights = f.split(d.recurrent, 1, std::vector<int64_t>{2 * n, n});
  if (has_bias) biases = f.split(d.recurrent_bias, 0, std::vector<int64_t>{2 * n, n});
  ir::Value zr = xs[0], h = xs[1];
  if (!s.h.is_none()) zr = f.add(zr, f.matmul(s.h, weights[0]));
  if (has_bias) zr = f.add(zr, biases[0]);
  const ir::Value gates = d.activate(f, 0, zr);
  const auto halves = f.split(gates, 2, std::vector<int64_t>{n, n});
  const ir::Value z = halves[0], r = halves[1];
  if (reset_after) {
    const ir::Value product = s.h.is_none() ? s.h : f.matmul(s.h, weights[1]);
    const ir::Value inner = f.sum(product, has_bias ? biases[1] : ir::Value::none());
    if (!inner.is_none()) h = f.add(h, f.mul(r, inner));
  } else if (!s.h.is_none()) {
    h = f.add(h, f.matmul(f.mul(r, s.h), weights[1]));
  }
  h = d.activate(f, 1, h);
  const ir::Value kept = s.h.is_none() ? s.h : f.mul(z, s.h);
  return {f.sum(f.mul(f.sub(f.scalar(f.type(z).dtype, 1), z), h), kept), ir::Value::none()};
}

}  // namespace

ir::OpDef op_gru() {
  static const CellKind kind{"gru", 3, false, {"Sigmoid", "Tanh"}};
  ir::OpDef op;
  op.name = kind.name;
  op.doc = "Gated recurrent layer over the steps of a sequence; gates in the order update, reset, hidden.";
  op.inputs = recurrent_inputs(kind);
  op.outputs = recurrent_outputs(kind);
  op.attrs = recurrent_attrs();
  op.attrs.push_back({.name = "linear_before_reset", .kind = ir::AttrKind::Int, .standard = ir::AttrValue(int64_t{0})});
  op.infer = [](const ir::OpContext& c) { return infer_recurrent(c, kind); };
  op.expand = [](const ir::OpContext& c, ir::GraphBuilder& b, std::span<const ir::Value> in) {
    const bool reset_after = c.flag("linear_before_reset");
    return expand_recurrent(c, b, in, kind, reset_after,
                            [reset_after](Compose& f, const Direction& d, ir::Value x, const State& s) {
                              return gru_step(f, d, x, s, reset_after);
                            });
  };
  op.samples = {"gru(f32[3,2,4], f32[1,6,4], f32[1,6,2])",
                "gru(f32[2,2,3], f32[2,3,3], f32[2,3,1], f32[2,6], i32[2] [2,1], f32[2,2,1])"
                "{direction=\"bidirectional\", linear_before_reset=1, hidden_size=1} -> 2",
                "gru(f32[2,3,2], f32[1,6,2], f32[1,6,2], f32[1,12]){layout=1, direction=\"reverse\", clip=0.5} -> 2"};
  op.onnx = recurrent_onnx("GRU", {1, 3, 7, 14, 22});
  return op;
}

}  // namespace isomer::ops
