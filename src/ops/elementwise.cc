#include "ops/elementwise.h"

#include <fmt/format.h>

#include "ops/broadcast.h"
#include "ops/legacy.h"

namespace isomer::ops {
namespace {

std::string first_type(DTypeSet types) {
  for (DType t : {DType::F32, DType::I32, DType::U8, DType::Bool})
    if (types.contains(t)) return std::string(name(t));
  return "f32";
}

ir::OpDef record(Elementwise e) {
  ir::OpDef op;
  op.name = std::move(e.name);
  op.doc = std::move(e.doc);
  op.attrs = std::move(e.attrs);
  op.onnx = std::move(e.onnx);
  op.laws = std::move(e.laws);
  op.samples = std::move(e.samples);
  return op;
}

void import_old_forms(ir::OpDef& op, Imported (*import)(ir::ForeignNode&, ir::GraphBuilder&)) {
  for (ir::OnnxForm& form : op.onnx)
    if (!form.import && form.since[0] < form.stable) form.import = import;
}

}  // namespace

ir::OpDef unary(Elementwise e, UnaryBody f) {
  const DTypeSet types = e.types;
  const std::string result = e.result;
  const auto check = e.check;
  const std::string x = e.inputs.empty() ? "x" : e.inputs.at(0), y = e.output.empty() ? "y" : e.output;
  ir::OpDef op = record(std::move(e));
  op.inputs = {{x, "T", types}};
  op.outputs = {{y, result}};
  import_old_forms(op, import_without_consumed);
  if (op.samples.empty())
    op.samples = {fmt::format("{}({}[2,3])", op.name, first_type(types)),
                  fmt::format("{}({}[])", op.name, first_type(types))};
  op.infer = [check](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    if (check) ISOMER_CHECK_OK(check(c));
    return std::vector{c.out(0, c.shape(0))};
  };
  op.infer_unranked = true;
  op.compute = [f = std::move(f), y](const ir::OpContext& c) -> Expected<te::Program> {
    te::Builder b;
    const auto in = c.declare(b);
    const DType out = c.out(0, {}).dtype;
    return b.finish({b.map(y, out, in[0].dims(), [&](auto i) { return f(in[0].at({i.begin(), i.end()}), c); })});
  };
  return op;
}

ir::OpDef binary(Elementwise e, BinaryBody f) {
  const DTypeSet types = e.types;
  const std::string result = e.result;
  const auto check = e.check;
  const std::vector<std::string> names = e.inputs.empty() ? std::vector<std::string>{"a", "b"} : e.inputs;
  const std::string y = e.output.empty() ? "c" : e.output;
  ir::OpDef op = record(std::move(e));
  op.inputs = {{names.at(0), "T", types}, {names.at(1), "T", types}};
  op.outputs = {{y, result}};
  import_old_forms(op, import_broadcast);
  const std::string t = first_type(types);
  if (op.samples.empty())
    op.samples = {fmt::format("{}({}[2,3], {}[2,3])", op.name, t, t),
                  fmt::format("{}({}[2,1,3], {}[4,1])", op.name, t, t)};
  op.infer = [check](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    ISOMER_TRY(std::vector<Dim> dims, broadcast_inputs(c));
    if (check) ISOMER_CHECK_OK(check(c));
    return std::vector{c.out(0, Shape(std::move(dims)))};
  };
  op.compute = [f = std::move(f), y](const ir::OpContext& c) -> Expected<te::Program> {
    te::Builder b;
    const auto in = c.declare(b);
    ISOMER_TRY(const std::vector<Dim> dims, broadcast_inputs(c));
    const DType out = c.out(0, {}).dtype;
    return b.finish({b.map(y, out, dims, [&](auto i) { return f(in[0].broadcast(i), in[1].broadcast(i), c); })});
  };
  return op;
}

}  // namespace isomer::ops
