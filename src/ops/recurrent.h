// What RNN, GRU and LSTM share: shapes, activations, and the unrolling of a cell over the steps of a sequence.
// The products of the inputs of all steps with the input weights are one contraction per direction; only what depends
// on the state is computed step by step, so that an expansion is linear in the number of steps.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ops/compose.h"

namespace isomer::ops {

struct CellKind {
  std::string name;
  size_t gates = 1;
  bool has_cell = false;                 // a second state, and peepholes
  std::vector<std::string> activations;  // by default, for one direction
};

struct Activation {
  std::string name;  // in lower case
  double alpha = 0, beta = 0;
  ir::Value apply(Compose& f, ir::Value x) const;
};

struct State {
  ir::Value h = ir::Value::none(), c = ir::Value::none();  // none: zero
};

// The parameters of one direction, ready for use; absent ones are none.
struct Direction {
  ir::Value recurrent;       // [hidden, gates*hidden]
  ir::Value recurrent_bias;  // [gates*hidden], when the cell asked for it
  ir::Value peepholes;       // [3*hidden]
  std::vector<Activation> activations;
  double clip = 0;  // 0: none
  int64_t hidden = 0;

  // Activation k of a value, which is clipped first.
  ir::Value activate(Compose& f, size_t k, ir::Value x) const;
};

// One step: `x` is [1,batch,gates*hidden], its product with the input weights and the biases.
using Cell = std::function<State(Compose&, const Direction&, ir::Value x, const State&)>;

std::vector<ir::InputDef> recurrent_inputs(const CellKind& kind);
std::vector<ir::AttrDef> recurrent_attrs();
std::vector<ir::OutputDef> recurrent_outputs(const CellKind& kind);
std::vector<ir::OnnxForm> recurrent_onnx(std::string type, std::vector<int> since);
Expected<std::vector<Type>> infer_recurrent(const ir::OpContext& c, const CellKind& kind);
// `own_bias`: the cell adds the recurrent bias itself.
Expected<std::vector<ir::Value>> expand_recurrent(const ir::OpContext& c, ir::GraphBuilder& b,
                                                  std::span<const ir::Value> in, const CellKind& kind, bool own_bias,
                                                  const Cell& cell);

}  // namespace isomer::ops
