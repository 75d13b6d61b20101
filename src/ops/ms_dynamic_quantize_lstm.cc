#include <fmt/format.h>

#include "ops/compose.h"

namespace isomer::ops {
namespace {

using ir::Arity;
using ir::AttrKind;
using ir::Value;

enum Input : size_t { X, W, R, B, Lengths, InitialH, InitialC, P, WScale, WZero, RScale, RZero };

// One number for a direction, or one for each column of it, as a tensor that broadcasts over [directions, rows, columns].
Value spread(Compose& f, const ir::OpContext& c, Value v, size_t i) {
  if (c.rank(i) == 1) return f.unsqueeze(v, {1, 2});
  if (c.rank(i) == 2) return f.unsqueeze(v, {1});
  f.fail(c.error(fmt::format("input '{}' is {}, expected rank 1 or 2", c.op().inputs[i].name, c.shape(i).to_string())));
  return Value::none();
}

// The weights as reals, [directions, gates, rows] as lstm has them.
Value weights(Compose& f, const ir::OpContext& c, std::span<const Value> in, size_t i, size_t scale, size_t zero) {
  if (c.rank(i) != 3) {
    f.fail(c.error(fmt::format("input '{}' is {}, expected rank 3", c.op().inputs[i].name, c.shape(i).to_string())));
    return Value::none();
  }
  const Value centred = f.sub(f.cast(in[i], DType::I32), f.cast(spread(f, c, in[zero], zero), DType::I32));
  return f.transpose(f.mul(f.cast(centred, DType::F32), spread(f, c, in[scale], scale)), {0, 2, 1});
}

}  // namespace

ir::OpDef op_ms_dynamic_quantize_lstm() {
  ir::OpDef op;
  op.name = "ms_dynamic_quantize_lstm";
  op.doc =
      "lstm with weights of 8 bits, which become reals before use; a runtime that rounds the other factors to 8 bits "
      "as "
      "well differs by that rounding.";
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
  op.expand = [](const ir::OpContext& c, ir::GraphBuilder& b,
                 std::span<const Value> in) -> Expected<std::vector<Value>> {
    Compose f(b);
    const Value w = weights(f, c, in, W, WScale, WZero), r = weights(f, c, in, R, RScale, RZero);
    return f.finish(f.many("lstm", {in[X], w, r, in[B], in[Lengths], in[InitialH], in[InitialC], in[P]}, c.attrs(),
                           c.output_count()));
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
