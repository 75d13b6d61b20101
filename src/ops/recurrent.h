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
  bool by_column = false;                // weights are [directions, inputs, gates*hidden], not their transpose
};

// Where the inputs of every layer stand; those that one kind alone has begin at Own.
struct RecurrentInput {
  enum Place : size_t { X, W, R, B, Lengths, InitialH, InitialC, P, Own };
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
  ir::Value recurrent;  // [hidden, gates*hidden]; none where products are not those of reals
  std::function<ir::Value(Compose&, ir::Value state)> carry;  // the product of a state with the recurrent weights
  ir::Value recurrent_bias;                                   // [gates*hidden], when the cell asked for it
  ir::Value peepholes;                                        // [3*hidden]
  std::vector<Activation> activations;
  double clip = 0;  // 0: none
  int64_t hidden = 0;

  // Activation k of a value, which is clipped first.
  ir::Value activate(Compose& f, size_t k, ir::Value x) const;
};

// The product of a value with the weights of one direction; `weights` is the place of these among the inputs.
using Product = std::function<ir::Value(Compose&, ir::Value x, size_t weights, int64_t direction)>;

// One step: `x` is [1,batch,gates*hidden], its product with the input weights and the biases.
using Cell = std::function<State(Compose&, const Direction&, ir::Value x, const State&)>;

std::vector<ir::InputDef> recurrent_inputs(const CellKind& kind);
std::vector<ir::AttrDef> recurrent_attrs();
std::vector<ir::OutputDef> recurrent_outputs(const CellKind& kind);
std::vector<ir::OnnxForm> recurrent_onnx(std::string type, std::vector<int> since);
Expected<std::vector<Type>> infer_recurrent(const ir::OpContext& c, const CellKind& kind);
// A parameter's part for one direction, [directions,...] -> [...]; none stays none.
ir::Value pick(Compose& f, ir::Value parameter, int64_t direction);
// `own_bias`: the cell adds the recurrent bias itself. `product`: none for matrix products of reals.
Expected<std::vector<ir::Value>> expand_recurrent(const ir::OpContext& c, ir::GraphBuilder& b,
                                                  std::span<const ir::Value> in, const CellKind& kind, bool own_bias,
                                                  const Cell& cell, const Product& product = nullptr);
// The cell of a long short-term memory; `coupled`: what is not taken in is kept.
CellKind lstm_kind(std::string name);
Cell lstm_cell(bool coupled);

}  // namespace isomer::ops
