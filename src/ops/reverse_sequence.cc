#include <fmt/format.h>

#include "ir/op.h"

namespace isomer::ops {

ir::OpDef op_reverse_sequence() {
  ir::OpDef op;
  op.name = "reverse_sequence";
  op.doc = "Reverses the first sequence_lens[b] elements of the time axis for each b of the batch axis.";
  op.inputs = {{"input", "T", kAllTypes}, {"sequence_lens", "L", DType::I64}};
  op.outputs = {{"y", "T"}};
  op.attrs = {{"batch_axis", ir::AttrKind::Int, int64_t{1}}, {"time_axis", ir::AttrKind::Int, int64_t{0}}};
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    ISOMER_TRY(const size_t batch, c.axis(c.integer("batch_axis"), c.rank(0)));
    ISOMER_TRY(const size_t time, c.axis(c.integer("time_axis"), c.rank(0)));
    if (batch == time) return c.error(fmt::format("batch_axis and time_axis are both {}", batch));
    const bool fits =
        c.rank(1) == 1 && !(c.dim(1, 0).is_const() && c.dim(0, batch).is_const() && !(c.dim(1, 0) == c.dim(0, batch)));
    if (!fits)
      return c.error(fmt::format("input 'sequence_lens' must be a vector of {} lengths, found {}",
                                 c.dim(0, batch).to_string(), c.type(1).to_string()));
    te::Builder b;
    const auto in = c.declare(b);
    return b.finish({b.map("y", c.dtype(0), in[0].dims(), [&](auto i) {
      std::vector<te::Expr> index(i.begin(), i.end());
      const te::Expr length = in[1](i[batch]);
      index[time] = te::select(i[time] < length, length - 1 - i[time], i[time]);
      return in[0].at(std::move(index));
    })});
  };
  op.samples = {"reverse_sequence(f32[4,3], i64[3] in 0..5)",
                "reverse_sequence(f32[2,3,2], i64[2] in 0..4){batch_axis=0, time_axis=1}"};
  op.onnx = {{.type = "ReverseSequence", .since = {10}, .stable = 10}};
  return op;
}

}  // namespace isomer::ops
