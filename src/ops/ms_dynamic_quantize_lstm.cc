#include <fmt/format.h>

#include "ops/recurrent.h"

namespace isomer::ops {
namespace {

using ir::Arity;
using ir::AttrKind;
using ir::Value;

enum : size_t { WScale = RecurrentInput::Own, WZero, RScale, RZero };

const CellKind& quantised_lstm() {
  static const CellKind kind = [] {
    CellKind k = lstm_kind("ms_dynamic_quantize_lstm");
    k.by_column = true;
    return k;
  }();
  return kind;
}

// One number for a direction, or one for each column of it.
Expected<void> check_parameter(const ir::OpContext& c, size_t i) {
  if (c.rank(i) == 1 || c.rank(i) == 2) return {};
  return c.error(fmt::format("input '{}' is {}, expected rank 1 or 2", c.op().inputs[i].name, c.shape(i).to_string()));
}

}  // namespace

ir::OpDef op_ms_dynamic_quantize_lstm() {
  ir::OpDef op;
  op.name = "ms_dynamic_quantize_lstm";
  op.doc =
      "lstm with weights of 8 bits; what they are multiplied with, all inputs at once and the state of each step, is "
      "rounded to 8 bits by its own range.";
  const DTypeSet bytes = DTypeSet(DType::U8) | DType::I8;
  op.inputs = {{"x", "T", DType::F32},
               {"w", "T2", bytes},
               {"r", "T2", bytes},
               {"b", "T", DType::F32, Arity::Optional},
               {"sequence_lens", "T1", DType::I32, Arity::Optional},
               {"initial_h", "T", DType::F32, Arity::Optional},
               {"initial_c", "T", DType::F32, Arity::Optional},
               {"p", "T", DType::F32, Arity::Optional},
               {"w_scale", "T", DType::F32},
               {"w_zero_point", "T2", bytes},
               {"r_scale", "T", DType::F32},
               {"r_zero_point", "T2", bytes}};
  op.outputs = {{"y", "T", Arity::Optional}, {"y_h", "T", Arity::Optional}, {"y_c", "T", Arity::Optional}};
  op.attrs = {{.name = "activation_alpha", .kind = AttrKind::Reals},
              {.name = "activation_beta", .kind = AttrKind::Reals},
              {.name = "activations", .kind = AttrKind::Strings},
              {.name = "clip", .kind = AttrKind::Real},
              {.name = "direction", .kind = AttrKind::String, .standard = ir::AttrValue(std::string("forward"))},
              {.name = "hidden_size", .kind = AttrKind::Int},
              {.name = "input_forget", .kind = AttrKind::Int, .standard = ir::AttrValue(int64_t{0})}};
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    for (size_t i : {WScale, WZero, RScale, RZero}) ISOMER_CHECK_OK(check_parameter(c, i));
    return infer_recurrent(c, quantised_lstm());
  };
  op.expand = [](const ir::OpContext& c, ir::GraphBuilder& b, std::span<const Value> in) {
    const Product product = [&in](Compose& f, Value x, size_t weights, int64_t d) {
      const bool of_input = weights == RecurrentInput::W;
      const size_t scale = of_input ? WScale : RScale, zero = of_input ? WZero : RZero;
      return f("ms_dynamic_quantize_matmul", {x, pick(f, in[weights], d), pick(f, in[scale], d), pick(f, in[zero], d)});
    };
    return expand_recurrent(c, b, in, quantised_lstm(), false, lstm_cell(c.flag("input_forget")), product);
  };
  op.samples = {
      "ms_dynamic_quantize_lstm(f32[2,1,3], i8[1,3,8], i8[1,2,8], _, _, _, _, _, f32[1] [0.1], i8[1] [3], f32[1] "
      "[0.2], "
      "i8[1] [-1]){hidden_size=2} -> 3",
      "ms_dynamic_quantize_lstm(f32[2,1,3], u8[2,3,4], u8[2,1,4], f32[2,8], _, _, _, _, f32[2,4] in 0..1, u8[2,4], "
      "f32[2,4] in 0..1, u8[2,4]){hidden_size=1, direction=\"bidirectional\"} -> 1"};
  op.onnx = {{.type = "DynamicQuantizeLSTM", .domain = "com.microsoft"}};
  return op;
}

}  // namespace isomer::ops
