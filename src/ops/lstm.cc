#include "ir/op.h"
#include "ops/recurrent.h"

namespace isomer::ops {
namespace {

// Gates i, o, f, c; peepholes i, o, f.
State lstm_step(Compose& f, const Direction& d, ir::Value x, const State& s, bool coupled) {
  if (!s.h.is_none()) x = f.add(x, d.carry(f, s.h));
  auto gates = f.split(x, 2, size_t{4});
  const bool peeps = !d.peepholes.is_none();
  const auto p = peeps ? f.split(d.peepholes, 0, size_t{3}) : std::vector<ir::Value>(3, ir::Value::none());
  const auto peep = [&](size_t gate, size_t which, ir::Value cell) {
    return peeps && !cell.is_none() ? f.add(gates[gate], f.mul(p[which], cell)) : gates[gate];
  };
  const ir::Value i = d.activate(f, 0, peep(0, 0, s.c));
  const ir::Value candidate = f.mul(i, d.activate(f, 1, gates[3]));
  ir::Value kept = ir::Value::none();
  if (!s.c.is_none()) {
    const ir::Value forget = coupled ? f.sub(f.scalar(f.type(i).dtype, 1), i) : d.activate(f, 0, peep(2, 2, s.c));
    kept = f.mul(forget, s.c);
  }
  const ir::Value cell = f.sum(kept, candidate);
  const ir::Value o = d.activate(f, 0, peep(1, 1, cell));
  return {f.mul(o, d.activate(f, 2, cell)), cell};
}

}  // namespace

CellKind lstm_kind(std::string name) { return {std::move(name), 4, true, {"Sigmoid", "Tanh", "Tanh"}}; }

Cell lstm_cell(bool coupled) {
  return
      [coupled](Compose& f, const Direction& d, ir::Value x, const State& s) { return lstm_step(f, d, x, s, coupled); };
}

ir::OpDef op_lstm() {
  static const CellKind kind = lstm_kind("lstm");
  ir::OpDef op;
  op.name = kind.name;
  op.doc = "Long short-term memory layer over the steps of a sequence; gates in the order input, output, forget, cell.";
  op.inputs = recurrent_inputs(kind);
  op.outputs = recurrent_outputs(kind);
  op.attrs = recurrent_attrs();
  op.attrs.push_back({.name = "input_forget", .kind = ir::AttrKind::Int, .standard = ir::AttrValue(int64_t{0})});
  op.infer = [](const ir::OpContext& c) { return infer_recurrent(c, kind); };
  op.expand = [](const ir::OpContext& c, ir::GraphBuilder& b, std::span<const ir::Value> in) {
    return expand_recurrent(c, b, in, kind, false, lstm_cell(c.flag("input_forget")));
  };
  op.samples = {"lstm(f32[3,2,4], f32[1,8,4], f32[1,8,2])",
                "lstm(f32[2,2,3], f32[2,4,3], f32[2,4,1], f32[2,8], i32[2] [2,1], f32[2,2,1], f32[2,2,1], f32[2,3])"
                "{direction=\"bidirectional\", hidden_size=1, clip=0.5} -> 3",
                "lstm(f32[2,3,2], f32[1,8,2], f32[1,8,2], f32[1,16], _, f32[2,1,2])"
                "{layout=1, direction=\"reverse\", input_forget=1} -> 2",
                "lstm(f32[2,1,2], f32[1,4,2], f32[1,4,1]){activations=[\"HardSigmoid\",\"Relu\",\"Affine\"], "
                "activation_alpha=[0.25,2.0], activation_beta=[0.5,0.125]}"};
  op.onnx = recurrent_onnx("LSTM", {1, 7, 14, 22});
  return op;
}

}  // namespace isomer::ops
