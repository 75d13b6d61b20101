// Decision trees: ai.onnx.ml's TreeEnsemble, TreeEnsembleRegressor, TreeEnsembleClassifier.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ir/op.h"
#include "ops/ml_forest.h"

namespace isomer::ops {
namespace {

using Results = Expected<std::vector<ir::Value>>;

Expected<void> check_features(const ir::OpContext& c, const Forest& f, const Rows& rows) {
  if (rows.features.is_const() && rows.features.value() < f.features)
    return c.error(fmt::format("the trees test {} features, rows have {}", f.features, rows.features.value()));
  return {};
}

struct Regressor {
  Forest forest;
  Aggregate aggregate = Aggregate::Sum;
  PostTransform transform = PostTransform::None;
  std::vector<double> base;
  Rows rows;
};

Expected<Regressor> regressor_of(const ir::OpContext& c) {
  Regressor r;
  constexpr const char* names[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  const std::string& how = c.text("aggregate_function");
  const auto found = std::find(std::begin(names), std::end(names), how);
  if (found == std::end(names)) return c.error(fmt::format("unknown aggregate_function {}", quoted(how)));
  r.aggregate = static_cast<Aggregate>(found - std::begin(names));
  ISOMER_TRY(r.transform, post_transform_of(c));
  ISOMER_TRY(r.forest, forest_of_lists(c, "target", c.has_attr("n_targets") ? c.integer("n_targets") : 1));
  ISOMER_TRY(r.base, reals_or_tensor(c, "base_values"));
  if (!r.base.empty() && static_cast<int64_t>(r.base.size()) != r.forest.targets)
    return c.error(fmt::format("{} base values are given for {} targets", r.base.size(), r.forest.targets));
  return r;
}

Expected<Regressor> ensemble_of(const ir::OpContext& c) {
  Regressor r;
  const int64_t how = c.integer("aggregate_function"), transform = c.integer("post_transform");
  if (how < 0 || how > 3) return c.error(fmt::format("aggregate_function is {}, expected 0 to 3", how));
  if (transform < 0 || transform > 4) return c.error(fmt::format("post_transform is {}, expected 0 to 4", transform));
  r.aggregate = static_cast<Aggregate>(how);
  r.transform = static_cast<PostTransform>(transform);
  ISOMER_TRY(r.forest, forest_of_tensors(c));
  return r;
}

using Reader = Expected<Regressor> (*)(const ir::OpContext&);

void make_regressor(ir::OpDef& op, Reader read) {
  const auto checked = [read](const ir::OpContext& c) -> Expected<Regressor> {
    ISOMER_TRY(Regressor r, read(c));
    ISOMER_TRY(r.rows, rows_of(c));
    ISOMER_CHECK_OK(check_features(c, r.forest, r.rows));
    return r;
  };
  op.infer = [checked](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    ISOMER_TRY(const Regressor r, checked(c));
    return std::vector<Type>{c.out(0, {r.rows.count, Dim(r.forest.targets)})};
  };
  op.expand = [checked](const ir::OpContext& c, ir::GraphBuilder& b, std::span<const ir::Value> in) -> Results {
    ISOMER_TRY(const Regressor r, checked(c));
    Compose g(b);
    ir::Value s = forest_scores(g, r.forest, r.aggregate, as_rows(g, in[0]));
    if (!r.base.empty()) s = g.add(s, reals(g, r.base, {static_cast<int64_t>(r.base.size())}));
    return g.finish({g.cast(transformed(g, r.transform, s), c.out(0, {}).dtype)});
  };
}

struct TreeClassifier {
  Forest forest;
  PostTransform transform = PostTransform::None;
  std::vector<double> base;
  std::vector<int64_t> labels;
  Rows rows;
  bool one_sided = false;  // two classes, of which the trees vote for one
  bool positive = true;    // no weight is negative: scores are probabilities
};

Expected<TreeClassifier> tree_classifier_of(const ir::OpContext& c) {
  TreeClassifier r;
  ISOMER_TRY(r.labels, int_labels(c, "classlabels_int64s", "classlabels_strings"));
  ISOMER_TRY(r.transform, post_transform_of(c));
  ISOMER_TRY(r.forest, forest_of_lists(c, "class", static_cast<int64_t>(r.labels.size())));
  ISOMER_TRY(r.base, reals_or_tensor(c, "base_values"));
  ISOMER_TRY(r.rows, rows_of(c));
  ISOMER_CHECK_OK(check_features(c, r.forest, r.rows));
  const auto ids = c.ints("class_ids");
  r.one_sided = r.labels.size() == 2 && !ids.empty() &&
                std::all_of(ids.begin(), ids.end(), [&](int64_t id) { return id == ids[0]; });
  for (const auto& leaf : r.forest.leaves)
    for (const Forest::Vote& v : leaf) r.positive = r.positive && v.weight >= 0;
  if (!r.base.empty() && r.base.size() != r.labels.size() && !(r.one_sided && r.base.size() == 1))
    return c.error(fmt::format("{} base values are given for {} classes", r.base.size(), r.labels.size()));
  return r;
}

// Two classes and one score: the trees vote for one of them.
Results choose_of_two(Compose& g, const TreeClassifier& r, ir::Value votes) {
  ir::Value score = g("reduce_sum", {votes, g.ints({1})});  // all but one of them are 0
  if (!r.base.empty()) score = g.add(score, g.scalar(DType::F64, r.base.back()));
  const ir::Value second = g("greater", {score, g.scalar(DType::F64, r.positive ? 0.5 : 0)});
  // The logistic of a score and of its opposite make 1; a positive score is a probability already for the others.
  const bool share = r.positive && r.transform != PostTransform::Logistic;
  const ir::Value other = share ? g.sub(g.scalar(DType::F64, 1), score) : g("neg", {score});
  ir::Value both = g.concat({other, score}, 1);
  if (!share || r.transform == PostTransform::Probit) both = transformed(g, r.transform, both);
  return g.finish({label_of(g, second, r.labels), g.cast(both, DType::F32)});
}

// A target without a vote is chosen only where none has one.
ir::Value candidates(Compose& g, ir::Value scores, ir::Value voted) {
  const ir::Value any = g("reduce_max", {g.cast(voted, DType::I32), g.ints({1})});
  const ir::Value may = g("or", {voted, g("equal", {any, g.scalar(DType::I32, 0)})});
  return g.where(may, scores, g.scalar(DType::F64, -std::numeric_limits<double>::infinity()));
}

Results classify_by_trees(const ir::OpContext& c, ir::GraphBuilder& b, std::span<const ir::Value> in) {
  ISOMER_TRY(const TreeClassifier r, tree_classifier_of(c));
  Compose g(b);
  const bool all = r.one_sided || !r.base.empty() || r.forest.votes_for_all();
  ir::Value voted;
  ir::Value s = forest_scores(g, r.forest, Aggregate::Sum, as_rows(g, in[0]), all ? nullptr : &voted);
  if (g.failed()) return g.finish({});
  if (r.one_sided) return choose_of_two(g, r, s);
  if (!r.base.empty()) s = g.add(s, reals(g, r.base, {static_cast<int64_t>(r.base.size())}));
  const ir::Value label = largest_label(g, all ? s : candidates(g, s, voted), r.labels);
  return g.finish({label, g.cast(transformed(g, r.transform, s), DType::F32)});
}

}  // namespace

ir::OpDef op_ml_tree_ensemble() {
  using enum ir::AttrKind;
  ir::OpDef op;
  op.name = "ml_tree_ensemble";
  op.doc = "Scores of rows of features by decision trees given as tensors.";
  op.inputs = {{"x", "T", DTypeSet(DType::F32) | DType::F64 | DType::F16}};
  op.outputs = {{"y", "T"}};
  op.attrs = {{.name = "aggregate_function", .kind = Int, .standard = ir::AttrValue(int64_t{1})},
              {.name = "leaf_targetids", .kind = Ints, .required = true},
              {.name = "leaf_weights", .kind = Tensor, .required = true},
              {.name = "membership_values", .kind = Tensor},
              {.name = "n_targets", .kind = Int},
              {.name = "nodes_falseleafs", .kind = Ints, .required = true},
              {.name = "nodes_falsenodeids", .kind = Ints, .required = true},
              {.name = "nodes_featureids", .kind = Ints, .required = true},
              {.name = "nodes_hitrates", .kind = Tensor},
              {.name = "nodes_missing_value_tracks_true", .kind = Ints},
              {.name = "nodes_modes", .kind = Tensor, .required = true},
              {.name = "nodes_splits", .kind = Tensor, .required = true},
              {.name = "nodes_trueleafs", .kind = Ints, .required = true},
              {.name = "nodes_truenodeids", .kind = Ints, .required = true},
              {.name = "post_transform", .kind = Int, .standard = ir::AttrValue(int64_t{0})},
              {.name = "tree_roots", .kind = Ints, .required = true}};
  make_regressor(op, ensemble_of);
  op.samples = {
      "ml_tree_ensemble(f32[4,1] in 0..6){nodes_modes=const u8[2] [6,3], nodes_splits=const f32[2] [0,5], "
      "membership_values=const f32[3] [1,3,nan], nodes_featureids=[0,0], nodes_truenodeids=[0,1], "
      "nodes_trueleafs=[1,1], "
      "nodes_falsenodeids=[1,2], nodes_falseleafs=[0,1], leaf_targetids=[0,1,0], leaf_weights=const f32[3] [1,2,4], "
      "n_targets=2, tree_roots=[0]}",
      "ml_tree_ensemble(f64[2,3]){nodes_modes=const u8[1] [0], nodes_splits=const f64[1] [0.25], nodes_featureids=[2], "
      "nodes_truenodeids=[0], nodes_trueleafs=[1], nodes_falsenodeids=[1], nodes_falseleafs=[1], leaf_targetids=[0,0], "
      "leaf_weights=const f64[2] [1,2], tree_roots=[0], aggregate_function=3}"};
  op.onnx = {{.type = "TreeEnsemble", .since = {5}, .stable = 5, .domain = "ai.onnx.ml"}};
  return op;
}

ir::OpDef op_ml_tree_ensemble_regressor() {
  ir::OpDef op;
  op.name = "ml_tree_ensemble_regressor";
  op.doc = "Scores of rows of features by decision trees given as lists.";
  op.inputs = {{"x", "T", kFeatures}};
  op.outputs = {{"y", "f32"}};
  op.attrs = forest_attrs("target");
  op.attrs.push_back(
      {.name = "aggregate_function", .kind = ir::AttrKind::String, .standard = ir::AttrValue(std::string("SUM"))});
  op.attrs.push_back({.name = "n_targets", .kind = ir::AttrKind::Int});
  make_regressor(op, regressor_of);
  op.samples = {
      "ml_tree_ensemble_regressor(f32[3,2]){nodes_treeids=[0,0,0,1,1,1], nodes_nodeids=[0,1,2,0,1,2], "
      "nodes_featureids=[0,0,0,1,0,0], nodes_truenodeids=[1,0,0,1,0,0], nodes_falsenodeids=[2,0,0,2,0,0], "
      "nodes_values=[0.5,0.0,0.0,0.0,0.0,0.0], "
      "nodes_modes=[\"BRANCH_LEQ\",\"LEAF\",\"LEAF\",\"BRANCH_GT\",\"LEAF\",\"LEAF\"], "
      "target_treeids=[0,0,1,1], target_nodeids=[1,2,1,2], target_ids=[0,0,0,0], target_weights=[1.0,2.0,10.0,-20.0]}",
      "ml_tree_ensemble_regressor(i64[3,2]){nodes_treeids=[0,0,0,1,1,1], nodes_nodeids=[0,1,2,0,1,2], "
      "nodes_featureids=[0,0,0,1,0,0], nodes_truenodeids=[1,0,0,1,0,0], nodes_falsenodeids=[2,0,0,2,0,0], "
      "nodes_values=[0.5,0.0,0.0,0.0,0.0,0.0], "
      "nodes_modes=[\"BRANCH_LEQ\",\"LEAF\",\"LEAF\",\"BRANCH_EQ\",\"LEAF\",\"LEAF\"], "
      "target_treeids=[0,0,1,1], target_nodeids=[1,2,1,2], target_ids=[0,1,0,1], target_weights=[1.0,2.0,10.0,-20.0], "
      "n_targets=2, aggregate_function=\"AVERAGE\", base_values=[0.5,-0.5], post_transform=\"SOFTMAX\"}"};
  op.onnx = {{.type = "TreeEnsembleRegressor", .since = {1, 3, 5}, .stable = 3, .domain = "ai.onnx.ml"}};
  return op;
}

ir::OpDef op_ml_tree_ensemble_classifier() {
  ir::OpDef op;
  op.name = "ml_tree_ensemble_classifier";
  op.doc = "The class of each row of features and its scores, by decision trees given as lists.";
  op.inputs = {{"x", "T", kFeatures}};
  op.outputs = {{"y", "i64"}, {"z", "f32", ir::Arity::Optional}};
  op.attrs = forest_attrs("class");
  op.attrs.push_back({.name = "classlabels_int64s", .kind = ir::AttrKind::Ints});
  op.attrs.push_back({.name = "classlabels_strings", .kind = ir::AttrKind::Strings});
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    ISOMER_TRY(const TreeClassifier r, tree_classifier_of(c));
    std::vector<Type> types = {c.out(0, {r.rows.count}), c.out(1, {r.rows.count, Dim(r.forest.targets)})};
    types.resize(c.output_count());
    return types;
  };
  op.expand = classify_by_trees;
  op.samples = {
      "ml_tree_ensemble_classifier(f32[3,2]){nodes_treeids=[0,0,0,1,1,1], nodes_nodeids=[0,1,2,0,1,2], "
      "nodes_featureids=[0,0,0,1,0,0], nodes_truenodeids=[1,0,0,1,0,0], nodes_falsenodeids=[2,0,0,2,0,0], "
      "nodes_values=[0.5,0.0,0.0,0.0,0.0,0.0], "
      "nodes_modes=[\"BRANCH_LEQ\",\"LEAF\",\"LEAF\",\"BRANCH_LT\",\"LEAF\",\"LEAF\"], "
      "class_treeids=[0,0,1,1], class_nodeids=[1,2,1,2], class_ids=[0,1,2,0], class_weights=[1.0,2.0,3.0,4.0], "
      "classlabels_int64s=[10,20,30], post_transform=\"SOFTMAX\"} -> 2",
      "ml_tree_ensemble_classifier(f32[3,2]){nodes_treeids=[0,0,0,1,1,1], nodes_nodeids=[0,1,2,0,1,2], "
      "nodes_featureids=[0,0,0,1,0,0], nodes_truenodeids=[1,0,0,1,0,0], nodes_falsenodeids=[2,0,0,2,0,0], "
      "nodes_values=[0.5,0.0,0.0,0.0,0.0,0.0], "
      "nodes_modes=[\"BRANCH_LEQ\",\"LEAF\",\"LEAF\",\"BRANCH_NEQ\",\"LEAF\",\"LEAF\"], "
      "class_treeids=[0,0,1,1], class_nodeids=[1,2,1,2], class_ids=[0,0,0,0], class_weights=[1.0,2.0,3.0,-4.0], "
      "classlabels_int64s=[3,8], post_transform=\"LOGISTIC\"} -> 2"};
  op.onnx = {classifier_form("TreeEnsembleClassifier", {1, 3, 5}, 3, "classlabels_int64s")};
  return op;
}

}  // namespace isomer::ops
