// Losses of a classification: scores [N, C, D...] against class numbers [N, D...].
#include <fmt/format.h>

#include "ir/op.h"
#include "ops/elementwise.h"
#include "ops/reduction.h"

namespace isomer::ops {
namespace {

using te::Combiner;
using te::Expr;

Expected<void> check_loss(const ir::OpContext& c) {
  const auto misfit = [](const Dim& a, const Dim& b) { return a.is_const() && b.is_const() && !(a == b); };
  const auto wrong = [&](size_t i, std::string_view expected) {
    return c.error(fmt::format("expected the shape {} for '{}' beside scores {}, found {}", expected,
                               c.op().inputs[i].name, c.shape(0).to_string(), c.shape(i).to_string()));
  };
  if (c.rank(0) < 2) return c.error(fmt::format("expected scores [N,C,...], found {}", c.shape(0).to_string()));
  bool fits = c.rank(1) + 1 == c.rank(0);
  for (size_t i = 0; fits && i < c.rank(1); ++i) fits = !misfit(c.dim(1, i), c.dim(0, i == 0 ? 0 : i + 1));
  if (!fits) return wrong(1, "[N,...]");
  if (c.has(2) && (c.rank(2) != 1 || misfit(c.dim(2, 0), c.dim(0, 1)))) return wrong(2, "[C]");
  const std::string& r = c.text("reduction");
  if (r != "none" && r != "sum" && r != "mean")
    return c.error(fmt::format("reduction is {}, expected \"none\", \"sum\" or \"mean\"", quoted(r)));
  return {};
}

// The loss over log-probabilities; labels and weights are inputs 1 and 2.
te::Handle likelihood_loss(const ir::OpContext& c, te::Builder& b, const std::vector<te::Handle>& in,
                           const te::Handle& log_prob, const std::string& name) {
  const DType dtype = c.dtype(0), work = log_prob.dtype();
  const te::Handle& labels = in[1];
  const auto zero = Expr::real(work, 0);
  // `value` where the label counts, else 0: an ignored label may be no class at all.
  const auto counted = [&](const Expr& label, const Expr& value) {
    if (!c.has_attr("ignore_index")) return value;
    return select(ne(label, Expr::integer(DType::I64, c.integer("ignore_index"))), value, zero);
  };
  const auto weight = [&](const Expr& label) { return c.has(2) ? cast(work, in[2](label)) : Expr::real(work, 1); };
  const auto label_at = [&](std::span<const Expr> i) {
    return cast(DType::I64, labels.at(std::vector<Expr>(i.begin(), i.end())));
  };
  const te::Handle each = b.map("each", work, labels.dims(), [&](auto i) {
    const Expr label = label_at(i);
    std::vector<Expr> at(i.begin(), i.end());
    at.insert(at.begin() + 1, label);
    return counted(label, -(log_prob.at(std::move(at)) * weight(label)));
  });
  const std::string& reduction = c.text("reduction");
  if (reduction == "none")
    return b.map(name, dtype, each.dims(), [&](auto i) { return cast(dtype, each.at({i.begin(), i.end()})); });
  const AxisMask all(labels.rank(), true);
  const std::vector<Expr> origin(labels.rank(), Expr(0));
  const te::Handle total =
      reduce_stage(b, "total", Combiner::Sum, each.dims(), all, [&](auto i) { return each.at({i.begin(), i.end()}); });
  if (reduction == "sum") return b.stage(name, dtype, {}, cast(dtype, total.at(origin)));
  const te::Handle weights = reduce_stage(b, "weights", Combiner::Sum, each.dims(), all, [&](auto i) {
    const Expr label = label_at(i);
    return counted(label, weight(label));
  });
  return b.stage(name, dtype, {}, cast(dtype, total.at(origin) / weights.at(origin)));
}

std::vector<ir::AttrDef> loss_attrs() {
  return {{.name = "ignore_index", .kind = ir::AttrKind::Int},
          {"reduction", ir::AttrKind::String, std::string("mean")}};
}

// x with the logarithm of the sum of exponentials over the classes subtracted.
te::Handle log_softmax_stage(te::Builder& b, const te::Handle& x, DType work) {
  AxisMask mask(x.rank(), false);
  mask[1] = true;
  const te::Handle top =
      reduce_stage(b, "top", Combiner::Max, x.dims(), mask, [&](auto i) { return cast(work, x.broadcast(i)); });
  const auto shifted = [&](std::span<const Expr> i) { return cast(work, x.broadcast(i)) - top.broadcast(i); };
  const te::Handle total =
      reduce_stage(b, "sum", Combiner::Sum, x.dims(), mask, [&](auto i) { return exp(shifted(i)); });
  return b.map("log_softmax", work, x.dims(), [&](auto i) { return shifted(i) - log(total.broadcast(i)); });
}

}  // namespace

ir::OpDef op_negative_log_likelihood_loss() {
  ir::OpDef op;
  op.name = "negative_log_likelihood_loss";
  op.doc = "Minus the log-probability of the true class, weighted by class, summed or averaged where asked.";
  op.inputs = {{"input", "T", kFloats}, {"target", "Tind", kIndexInts}, {"weight", "T", kFloats, ir::Arity::Optional}};
  op.outputs = {{"loss", "T"}};
  op.attrs = loss_attrs();
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    ISOMER_CHECK_OK(check_loss(c));
    te::Builder b;
    const auto in = c.declare(b);
    const DType work = accumulator(c.dtype(0));
    const te::Handle wide =
        work == c.dtype(0) ? in[0]
                           : b.map("wide", work, in[0].dims(), [&](auto i) { return cast(work, in[0].broadcast(i)); });
    return b.finish({likelihood_loss(c, b, in, wide, "loss")});
  };
  op.samples = {"negative_log_likelihood_loss(f32[3,4], i64[3] in 0..4)",
                "negative_log_likelihood_loss(f32[3,4,2], i64[3,2] in 0..4, f32[4]){reduction=\"none\"}",
                "negative_log_likelihood_loss(f32[3,4], i32[3] in 0..4){ignore_index=1,reduction=\"sum\"}"};
  op.onnx = {{.type = "NegativeLogLikelihoodLoss", .since = {12, 13, 22}, .stable = 12}};
  return op;
}

ir::OpDef op_softmax_cross_entropy_loss() {
  ir::OpDef op;
  op.name = "softmax_cross_entropy_loss";
  op.doc = "The negative log likelihood loss of the softmax of the scores over the classes.";
  op.inputs = {
      {"scores", "T", kFloats}, {"labels", "Tind", kIndexInts}, {"weights", "T", kFloats, ir::Arity::Optional}};
  op.outputs = {{"output", "T"}, {"log_prob", "T", ir::Arity::Optional}};
  op.attrs = loss_attrs();
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    ISOMER_CHECK_OK(check_loss(c));
    te::Builder b;
    const auto in = c.declare(b);
    const te::Handle p = log_softmax_stage(b, in[0], accumulator(c.dtype(0)));
    const te::Handle loss = likelihood_loss(c, b, in, p, "output");
    if (c.output_count() < 2) return b.finish({loss});
    return b.finish({loss, b.map("log_prob", c.dtype(0), p.dims(),
                                 [&](auto i) { return cast(c.dtype(0), p.at({i.begin(), i.end()})); })});
  };
  op.samples = {"softmax_cross_entropy_loss(f32[3,4], i64[3] in 0..4) -> 2",
                "softmax_cross_entropy_loss(f32[3,4,2], i64[3,2] in 0..4, f32[4]){reduction=\"none\"}",
                "softmax_cross_entropy_loss(f32[3,4], i32[3] in 0..4){ignore_index=1,reduction=\"sum\"}"};
  op.onnx = {{.type = "SoftmaxCrossEntropyLoss", .since = {12, 13}, .stable = 12}};
  return op;
}

}  // namespace isomer::ops
