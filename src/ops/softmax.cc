// Softmax and its relatives along one axis.
#include "ir/op.h"
#include "ops/elementwise.h"
#include "ops/legacy.h"
#include "ops/reduction.h"

namespace isomer::ops {
namespace {

using te::Combiner;
using te::Expr;

using AlongAxis = std::function<te::Program(te::Builder&, const te::Handle& x, size_t axis)>;

ir::OpDef along_axis(std::string name, std::string doc, std::string onnx, AlongAxis program) {
  ir::OpDef op;
  op.name = name;
  op.doc = std::move(doc);
  op.inputs = {{"input", "T", kFloats}};
  op.outputs = {{"output", "T"}};
  op.attrs = {{"axis", ir::AttrKind::Int, int64_t{-1}}};
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    ISOMER_CHECK_OK(c.axis(c.integer("axis"), c.rank(0)));
    return std::vector{c.out(0, c.shape(0))};
  };
  op.compute = [program = std::move(program)](const ir::OpContext& c) -> Expected<te::Program> {
    ISOMER_TRY(const size_t axis, c.axis(c.integer("axis"), c.rank(0)));
    te::Builder b;
    const auto in = c.declare(b);
    return program(b, in[0], axis);
  };
  op.samples = {name + "(f32[2,3])", name + "(f32[2,3,4]){axis=1}", name + "(f32[3]){axis=0}"};
  op.onnx = {{.type = std::move(onnx), .since = {1, 11, 13}, .stable = 13, .import = import_rows}};
  return op;
}

AxisMask only(size_t axis, size_t rank) {
  AxisMask mask(rank, false);
  mask[axis] = true;
  return mask;
}

// x with the maximum along the axis subtracted, which no exponential overflows on.
te::Handle shifted(te::Builder& b, const te::Handle& x, const AxisMask& mask) {
  const DType work = accumulator(x.dtype());
  const te::Handle top =
      reduce_stage(b, "top", Combiner::Max, x.dims(), mask, [&](auto i) { return cast(work, x.broadcast(i)); });
  return b.map("shifted", work, x.dims(), [&](auto i) { return cast(work, x.broadcast(i)) - top.broadcast(i); });
}

}  // namespace

ir::OpDef op_softmax() {
  ir::OpDef op = along_axis(
      "softmax", "exp(x) divided by its sum along the axis.", "Softmax",
      [](te::Builder& b, const te::Handle& x, size_t axis) {
        const AxisMask mask = only(axis, x.rank());
        const te::Handle s = shifted(b, x, mask);
        const te::Handle e = b.map("exponential", s.dtype(), x.dims(), [&](auto i) { return exp(s.broadcast(i)); });
        const te::Handle total =
            reduce_stage(b, "total", Combiner::Sum, x.dims(), mask, [&](auto i) { return e.broadcast(i); });
        return b.finish({b.map("output", x.dtype(), x.dims(),
                               [&](auto i) { return cast(x.dtype(), e.broadcast(i) / total.broadcast(i)); })});
      });
  op.laws = {"softmax(?x) == exp(log_softmax(?x))"};
  return op;
}

ir::OpDef op_log_softmax() {
  return along_axis("log_softmax", "x minus the logarithm of the sum of exp(x) along the axis.", "LogSoftmax",
                    [](te::Builder& b, const te::Handle& x, size_t axis) {
                      const AxisMask mask = only(axis, x.rank());
                      const te::Handle s = shifted(b, x, mask);
                      const te::Handle total = reduce_stage(b, "total", Combiner::Sum, x.dims(), mask,
                                                            [&](auto i) { return exp(s.broadcast(i)); });
                      return b.finish({b.map("output", x.dtype(), x.dims(), [&](auto i) {
                        return cast(x.dtype(), s.broadcast(i) - log(total.broadcast(i)));
                      })});
                    });
}

ir::OpDef op_hardmax() {
  return along_axis("hardmax", "1 at the first maximum along the axis, 0 elsewhere.", "Hardmax",
                    [](te::Builder& b, const te::Handle& x, size_t axis) {
                      const te::Handle at = reduce_stage(b, "at", Combiner::ArgMax, x.dims(), only(axis, x.rank()),
                                                         [&](auto i) { return x.broadcast(i); });
                      return b.finish({b.map("output", x.dtype(), x.dims(),
                                             [&](auto i) { return cast(x.dtype(), eq(i[axis], at.broadcast(i))); })});
                    });
}

}  // namespace isomer::ops
