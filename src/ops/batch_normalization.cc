#include <fmt/format.h>

#include "ir/op.h"
#include "ops/elementwise.h"
#include "ops/legacy.h"
#include "ops/reduction.h"

namespace isomer::ops {
namespace {

using te::Expr;

// The channel axis; a vector counts as one channel.
std::optional<size_t> channel_axis(const ir::OpContext& c) {
  return c.rank(0) < 2 ? std::nullopt : std::optional<size_t>(1);
}

Expected<void> check_parameters(const ir::OpContext& c) {
  if (c.rank(0) == 0) return c.error("expected a batch of channels, found a scalar");
  const Dim channels = channel_axis(c) ? c.dim(0, 1) : Dim(1);
  for (size_t i = 1; i < 5; ++i) {
    const bool vector = c.rank(i) == 1;
    if (!vector || (channels.is_const() && c.dim(i, 0).is_const() && !(channels == c.dim(i, 0))))
      return c.error(fmt::format("expected the shape [{}] for '{}', found {}", channels.to_string(),
                                 c.op().inputs[i].name, c.shape(i).to_string()));
  }
  if (!c.flag("training_mode") && c.output_count() > 1)
    return c.error("only training_mode=1 gives running statistics, found training_mode=0 with more than one output");
  return {};
}

// Widest of the types at play.
DType working_type(const ir::OpContext& c) {
  for (size_t i : {0, 1, 3})
    if (c.dtype(i) == DType::F64) return DType::F64;
  return DType::F32;
}

struct Statistics {
  std::function<Expr(const Expr& channel)> mean, variance;
};

Expected<te::Program> normalise(const ir::OpContext& c) {
  ISOMER_CHECK_OK(check_parameters(c));
  te::Builder b;
  const auto in = c.declare(b);
  const DType work = working_type(c);
  const auto parameter = [&](size_t i, const Expr& channel) { return cast(work, in[i](channel)); };
  Statistics s{[&](const Expr& ch) { return parameter(3, ch); }, [&](const Expr& ch) { return parameter(4, ch); }};
  std::vector<te::Handle> running;
  if (c.flag("training_mode")) {
    AxisMask mask(c.rank(0), true);
    if (channel_axis(c)) mask[1] = false;
    const Moments m = moments(b, in[0], mask, work);
    const auto at = [](const te::Handle& h, const Expr& ch) {
      std::vector<Expr> index(h.rank(), Expr(0));
      if (h.rank() > 1) index[1] = ch;
      return h.at(std::move(index));
    };
    s = {[at, m](const Expr& ch) { return at(m.mean, ch); }, [at, m](const Expr& ch) { return at(m.variance, ch); }};
    const Expr keep = Expr::real(work, c.real("momentum")), take = Expr::real(work, 1 - c.real("momentum"));
    for (size_t k = 1; k < c.output_count(); ++k)
      running.push_back(b.map(c.op().outputs[k].name, c.dtype(3), in[3].dims(), [&](auto i) {
        const Expr now = k == 1 ? s.mean(i[0]) : s.variance(i[0]);
        return cast(c.dtype(3), parameter(k + 2, i[0]) * keep + now * take);
      }));
  }
  const te::Handle y = b.map("y", c.dtype(0), in[0].dims(), [&](auto i) {
    const Expr ch = channel_axis(c) ? i[1] : Expr(0);
    const Expr deviation = sqrt(s.variance(ch) + Expr::real(work, c.real("epsilon")));
    const Expr unit = (cast(work, in[0].at({i.begin(), i.end()})) - s.mean(ch)) / deviation;
    return cast(c.dtype(0), unit * parameter(1, ch) + parameter(2, ch));
  });
  running.insert(running.begin(), y);
  return b.finish(std::move(running));
}

// spatial=0: statistics for every place of a channel, so all parameters broadcast as they are.
Imported import_per_place(ir::ForeignNode& node, ir::GraphBuilder& g) {
  if (node.inputs.size() != 5) return Diagnostic("E-onnx-form", "BatchNormalization: expected 5 inputs");
  const auto& v = node.inputs;
  for (const ir::Value& value : v)
    if (value.is_none()) return Diagnostic("E-onnx-form", "BatchNormalization: expected 5 inputs, one is absent");
  const double* given = node.attrs.get<double>("epsilon");
  const ir::Value epsilon = g.constant(Tensor::scalar(g.type(v[4]).dtype, given ? *given : 1e-5));
  ISOMER_TRY(const ir::Value centred, g.add1("sub", {v[0], v[3]}));
  ISOMER_TRY(const ir::Value variance, g.add1("add", {v[4], epsilon}));
  ISOMER_TRY(const ir::Value deviation, g.add1("sqrt", {variance}));
  ISOMER_TRY(const ir::Value unit, g.add1("div", {centred, deviation}));
  ISOMER_TRY(const ir::Value scaled, g.add1("mul", {unit, v[1]}));
  return g.add("add", {scaled, v[2]}, {}, std::move(node.info));
}

Imported import_batch_normalization(ir::ForeignNode& node, ir::GraphBuilder& g) {
  if (node.version >= 14) return add_as_is(node, g);
  node.attrs.erase("consumed_inputs");
  const bool spatial = take_int(node, "spatial").value_or(1) != 0;
  // Below opset 7 an attribute says that statistics are given; from then on further outputs ask for training.
  const bool test = take_int(node, "is_test").value_or(0) != 0;
  const bool training = node.version < 7 ? !test : node.outputs > 1;
  if (training && (!spatial || node.outputs > 3))
    return Diagnostic("E-onnx-form", fmt::format("BatchNormalization of opset {} asks for training outputs that newer "
                                                 "opsets do not have; export the model for inference",
                                                 node.version));
  if (!spatial) return import_per_place(node, g);
  if (training) node.attrs.set("training_mode", int64_t{1});
  return add_as_is(node, g);
}

}  // namespace

ir::OpDef op_batch_normalization() {
  ir::OpDef op;
  op.name = "batch_normalization";
  op.doc = "Every channel normalised by its given (in training: its own) mean and variance, then scaled and shifted.";
  op.inputs = {{"x", "T", kFloats},
               {"scale", "T1", kFloats},
               {"b", "T1", kFloats},
               {"input_mean", "T2", kFloats},
               {"input_var", "T2", kFloats}};
  op.outputs = {{"y", "T"}, {"running_mean", "T2", ir::Arity::Optional}, {"running_var", "T2", ir::Arity::Optional}};
  op.attrs = {{"epsilon", ir::AttrKind::Real, 1e-5},
              {"momentum", ir::AttrKind::Real, 0.9},
              {"training_mode", ir::AttrKind::Int, int64_t{0}}};
  op.compute = normalise;
  op.samples = {"batch_normalization(f32[2,3,4], f32[3], f32[3], f32[3], f32[3] [0.5,1,2])",
                "batch_normalization(f32[2,3], f32[3], f32[3], f32[3], f32[3] [0.5,1,2]){epsilon=0.01}",
                "batch_normalization(f32[2,3,4], f32[3], f32[3], f32[3], f32[3]){training_mode=1} -> 3"};
  op.onnx = {{.type = "BatchNormalization",
              .since = {1, 6, 7, 9, 14, 15},
              .stable = 14,
              .import = import_batch_normalization}};
  return op;
}

}  // namespace isomer::ops
