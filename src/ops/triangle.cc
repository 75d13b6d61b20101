// Operators that look at where an element lies relative to a diagonal.
#include <fmt/format.h>

#include "ir/op.h"

namespace isomer::ops {

ir::OpDef op_eye_like() {
  ir::OpDef op;
  op.name = "eye_like";
  op.doc = "A matrix of the input's shape with ones on its k-th diagonal and zeros elsewhere.";
  op.inputs = {{"input", "T", kAllTypes}};
  op.outputs = {{"output", "$dtype|T"}};
  op.attrs = {{"dtype", ir::AttrKind::DType}, {"k", ir::AttrKind::Int, int64_t{0}}};
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    if (c.rank(0) != 2) return c.error(fmt::format("expected a matrix, found {}", c.type(0).to_string()));
    te::Builder b;
    c.declare(b);
    const DType t = c.out(0, {}).dtype;
    return b.finish({b.map("output", t, c.shape(0).dims(), [&](auto i) {
      return te::select(te::eq(i[1] - i[0], te::Expr(c.integer("k"))), te::Expr::literal(t, 1),
                        te::Expr::literal(t, 0));
    })});
  };
  op.samples = {"eye_like(i32[3,4])", "eye_like(f32[3,2]){k=-1}", "eye_like(f32[2,2]){dtype=i64}"};
  op.onnx = {{.type = "EyeLike", .since = {9, 22}, .stable = 9}};
  return op;
}

ir::OpDef op_trilu() {
  ir::OpDef op;
  op.name = "trilu";
  op.doc = "The upper or lower triangle of each matrix from diagonal k on, zeros elsewhere.";
  op.inputs = {{"input", "T", kAllTypes}, {"k", "K", DType::I64, ir::Arity::Optional}};
  op.outputs = {{"output", "T"}};
  op.attrs = {{"upper", ir::AttrKind::Int, int64_t{1}}};
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    if (c.rank(0) < 2) return c.error(fmt::format("expected matrices, found {}", c.type(0).to_string()));
    if (c.has(1) && !(c.rank(1) == 0 || (c.rank(1) == 1 && c.dim(1, 0) == Dim(1))))
      return c.error(fmt::format("input 'k' must be a scalar, found {}", c.type(1).to_string()));
    te::Builder b;
    const auto in = c.declare(b);
    const te::Expr k = !c.has(1) ? te::Expr(0) : c.rank(1) == 0 ? in[1]() : in[1](0);
    return b.finish({b.map("output", c.dtype(0), c.shape(0).dims(), [&](auto i) {
      const te::Expr diagonal = i[i.size() - 1] - i[i.size() - 2];
      return te::select(c.flag("upper") ? k <= diagonal : diagonal <= k, in[0].at({i.begin(), i.end()}),
                        te::Expr::literal(c.dtype(0), 0));
    })});
  };
  op.samples = {"trilu(f32[3,4])", "trilu(f32[2,3,3], i64 1){upper=0}", "trilu(i32[3,3], i64 -1)"};
  op.onnx = {{.type = "Trilu", .since = {14}, .stable = 14}};
  return op;
}

}  // namespace isomer::ops
