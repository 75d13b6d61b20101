// Linear models: ai.onnx.ml's LinearClassifier and LinearRegressor.
#include <fmt/format.h>

#include <algorithm>

#include "ir/op.h"
#include "ops/ml_scores.h"

namespace isomer::ops {
namespace {

using Results = Expected<std::vector<ir::Value>>;

struct Linear {
  std::vector<double> weights, offsets;  // one row of weights per output
  size_t outputs = 1;
  PostTransform transform = PostTransform::None;
  Rows rows;
};

Expected<Linear> linear_of(const ir::OpContext& c, int64_t outputs) {
  Linear l;
  l.weights = c.reals("coefficients");
  l.offsets = c.reals("intercepts");
  if (outputs < 1 || static_cast<uint64_t>(outputs) > std::max<size_t>(1, l.weights.size()))
    return c.error(fmt::format("{} outputs are asked of {} coefficients", outputs, l.weights.size()));
  l.outputs = static_cast<size_t>(outputs);
  if (l.offsets.empty()) l.offsets.assign(l.outputs, 0);
  if (l.offsets.size() != l.outputs)
    return c.error(fmt::format("{} intercepts are given for {} outputs", l.offsets.size(), l.outputs));
  ISOMER_TRY(l.transform, post_transform_of(c));
  ISOMER_TRY(l.rows, rows_of(c));
  if (l.weights.size() % l.outputs != 0 ||
      (l.rows.features.is_const() && l.rows.features.value() != static_cast<int64_t>(l.weights.size() / l.outputs)))
    return c.error(fmt::format("{} coefficients do not fit {} outputs of rows of {} features", l.weights.size(),
                               l.outputs, l.rows.features.to_string()));
  return l;
}

// Scores of rows in f64.
ir::Value scores(Compose& g, const Linear& l, ir::Value x) {
  const auto outputs = static_cast<int64_t>(l.outputs), features = static_cast<int64_t>(l.weights.size()) / outputs;
  const ir::Value weights = reals(g, l.weights, {outputs, features});
  const ir::Value sums = g.matmul(g.cast(as_rows(g, x), DType::F64), g.transpose(weights, {1, 0}));
  return g.add(sums, reals(g, l.offsets, {outputs}));
}

struct LinearClassifier {
  Linear linear;
  std::vector<int64_t> labels;
  bool one_sided = false;  // two classes, one score
  int64_t columns() const { return one_sided ? 2 : static_cast<int64_t>(linear.outputs); }
};

Expected<LinearClassifier> linear_classifier_of(const ir::OpContext& c) {
  LinearClassifier r;
  ISOMER_TRY(r.labels, int_labels(c, "classlabels_ints", "classlabels_strings"));
  const size_t given = c.reals("intercepts").size();
  ISOMER_TRY(r.linear, linear_of(c, static_cast<int64_t>(given == 0 ? r.labels.size() : given)));
  r.one_sided = r.linear.outputs == 1 && r.labels.size() == 2;
  if (!r.one_sided && r.linear.outputs != r.labels.size())
    return c.error(fmt::format("{} scores are computed for {} class labels", r.linear.outputs, r.labels.size()));
  return r;
}

Results classify_linear(const ir::OpContext& c, ir::GraphBuilder& b, std::span<const ir::Value> in) {
  ISOMER_TRY(const LinearClassifier r, linear_classifier_of(c));
  Compose g(b);
  const ir::Value raw = scores(g, r.linear, in[0]), s = transformed(g, r.linear.transform, raw);
  if (!r.one_sided) return g.finish({largest_label(g, raw, r.labels), g.cast(s, DType::F32)});
  const ir::Value both = g.concat({g.sub(g.scalar(DType::F64, 1), s), s}, 1);
  const ir::Value label = label_of(g, g("greater", {raw, g.scalar(DType::F64, 0)}), r.labels);
  return g.finish({label, g.cast(both, DType::F32)});
}

std::vector<ir::AttrDef> linear_attrs(bool required) {
  return {{.name = "coefficients", .kind = ir::AttrKind::Reals, .required = required},
          {.name = "intercepts", .kind = ir::AttrKind::Reals},
          post_transform_attr()};
}

}  // namespace

ir::OpDef op_ml_linear_classifier() {
  ir::OpDef op;
  op.name = "ml_linear_classifier";
  op.doc = "The class of each row of features and its scores, by a linear model.";
  op.inputs = {{"x", "T", kFeatures}};
  op.outputs = {{"y", "i64"}, {"z", "f32", ir::Arity::Optional}};
  op.attrs = linear_attrs(true);
  op.attrs.push_back({.name = "classlabels_ints", .kind = ir::AttrKind::Ints});
  op.attrs.push_back({.name = "classlabels_strings", .kind = ir::AttrKind::Strings});
  op.attrs.push_back({.name = "multi_class", .kind = ir::AttrKind::Int, .standard = ir::AttrValue(int64_t{0})});
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    ISOMER_TRY(const LinearClassifier r, linear_classifier_of(c));
    std::vector<Type> types = {c.out(0, {r.linear.rows.count}), c.out(1, {r.linear.rows.count, Dim(r.columns())})};
    types.resize(c.output_count());
    return types;
  };
  op.expand = classify_linear;
  op.samples = {
      "ml_linear_classifier(f32[3,2]){coefficients=[0.5,-1.0,2.0,0.25], intercepts=[0.5,0.0], "
      "classlabels_ints=[4,7]}"};
  op.onnx = {classifier_form("LinearClassifier", {1}, 1, "classlabels_ints")};
  return op;
}

ir::OpDef op_ml_linear_regressor() {
  ir::OpDef op;
  op.name = "ml_linear_regressor";
  op.doc = "Linear functions of rows of features.";
  op.inputs = {{"x", "T", kFeatures}};
  op.outputs = {{"y", "f32"}};
  op.attrs = linear_attrs(true);
  op.attrs.push_back({.name = "targets", .kind = ir::AttrKind::Int, .standard = ir::AttrValue(int64_t{1})});
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    ISOMER_TRY(const Linear l, linear_of(c, c.integer("targets")));
    return std::vector<Type>{c.out(0, {l.rows.count, Dim(c.integer("targets"))})};
  };
  op.expand = [](const ir::OpContext& c, ir::GraphBuilder& b, std::span<const ir::Value> in) -> Results {
    ISOMER_TRY(const Linear l, linear_of(c, c.integer("targets")));
    Compose g(b);
    return g.finish({g.cast(transformed(g, l.transform, scores(g, l, in[0])), DType::F32)});
  };
  op.samples = {"ml_linear_regressor(f32[3,2]){coefficients=[0.5,-1.0], intercepts=[0.5]}",
                "ml_linear_regressor(f64[3,1]){coefficients=[0.5,-1.0], targets=2, post_transform=\"SOFTMAX\"}"};
  op.onnx = {{.type = "LinearRegressor", .since = {1}, .domain = "ai.onnx.ml"}};
  return op;
}

}  // namespace isomer::ops
