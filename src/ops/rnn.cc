#include "ir/op.h"
#include "ops/recurrent.h"

namespace isomer::ops {

ir::OpDef op_rnn() {
  static const CellKind kind{"rnn", 1, false, {"Tanh"}};
  ir::OpDef op;
  op.name = kind.name;
  op.doc = "Recurrent layer: h' = f(x W + h R + b) over the steps of a sequence.";
  op.inputs = recurrent_inputs(kind);
  op.outputs = recurrent_outputs(kind);
  op.attrs = recurrent_attrs();
  op.infer = [](const ir::OpContext& c) { return infer_recurrent(c, kind); };
  op.expand = [](const ir::OpContext& c, ir::GraphBuilder& b, std::span<const ir::Value> in) {
    return expand_recurrent(c, b, in, kind, false,
                            [](Compose& f, const Direction& d, ir::Value x, const State& s) -> State {
                              if (!s.h.is_none()) x = f.add(x, d.carry(f, s.h));
                              return {d.activate(f, 0, x), ir::Value::none()};
                            });
  };
  op.samples = {"rnn(f32[3,2,4], f32[1,2,4], f32[1,2,2])",
                "rnn(f32[2,2,3], f32[2,1,3], f32[2,1,1], f32[2,2], i32[2] [2,1], f32[2,2,1])"
                "{direction=\"bidirectional\", activations=[\"Relu\",\"Tanh\"], hidden_size=1} -> 2",
                "rnn(f32[2,3,2], f32[1,2,2], f32[1,2,2]){layout=1, direction=\"reverse\"} -> 2"};
  op.onnx = recurrent_onnx("RNN", {1, 7, 14, 22});
  return op;
}

}  // namespace isomer::ops
