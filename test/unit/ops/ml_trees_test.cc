// Decision trees: branch modes, aggregates, labels, and structures that are no trees.
#include "test/unit/ops/one_node.h"

namespace isomer {
namespace {

using Ints = std::vector<int64_t>;
using Reals = std::vector<double>;
using Strings = std::vector<std::string>;

// Two trees: [x0 MODE 0.5 ? a : b] with the weights 1 and 2, and [x1 <= 0 ? a : b] with 10 and -20.
ir::Attrs two_trees(const std::string& prefix, const std::string& mode) {
  return {{"nodes_treeids", Ints{0, 0, 0, 1, 1, 1}},
          {"nodes_nodeids", Ints{0, 1, 2, 0, 1, 2}},
          {"nodes_featureids", Ints{0, 0, 0, 1, 0, 0}},
          {"nodes_truenodeids", Ints{1, 0, 0, 1, 0, 0}},
          {"nodes_falsenodeids", Ints{2, 0, 0, 2, 0, 0}},
          {"nodes_values", Reals{0.5, 0, 0, 0, 0, 0}},
          {"nodes_modes", Strings{mode, "LEAF", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF"}},
          {prefix + "_treeids", Ints{0, 0, 1, 1}},
          {prefix + "_nodeids", Ints{1, 2, 1, 2}},
          {prefix + "_ids", Ints{0, 0, 0, 0}},
          {prefix + "_weights", Reals{1, 2, 10, -20}}};
}

TEST(TreeEnsembleRegressor, KnowsEveryBranchMode) {
  const Tensor x = f32({3, 2}, {0.25, -1, 0.5, -1, 0.75, -1});
  const std::vector<std::pair<std::string, Reals>> cases = {{"BRANCH_LEQ", {11, 11, 12}}, {"BRANCH_LT", {11, 12, 12}},
                                                            {"BRANCH_GTE", {12, 11, 11}}, {"BRANCH_GT", {12, 12, 11}},
                                                            {"BRANCH_EQ", {12, 11, 12}},  {"BRANCH_NEQ", {11, 12, 11}}};
  for (const auto& [mode, expected] : cases) {
    const auto y = run_one("ml_tree_ensemble_regressor", {x}, two_trees("target", mode));
    ASSERT_TRUE(y.ok()) << y.error().to_string();
    EXPECT_EQ(y->at(0).dims(), (Ints{3, 1}));
    EXPECT_EQ(y->at(0).to_reals(), expected) << mode;
  }
}

TEST(TreeEnsembleRegressor, AggregatesAndAddsBaseValues) {
  const Tensor x = f32({2, 2}, {0, 0, 1, 1});
  const std::vector<std::pair<std::string, Reals>> cases = {
      {"SUM", {111, 82}}, {"AVERAGE", {105.5, 91}}, {"MIN", {101, 80}}, {"MAX", {110, 102}}};
  for (const auto& [how, expected] : cases) {
    ir::Attrs attrs = two_trees("target", "BRANCH_LEQ");
    attrs.set("aggregate_function", how);
    attrs.set("base_values", Reals{100});
    const auto y = run_one("ml_tree_ensemble_regressor", {x}, attrs);
    ASSERT_TRUE(y.ok()) << y.error().to_string();
    EXPECT_EQ(y->at(0).to_reals(), expected) << how;
  }
}

TEST(TreeEnsembleRegressor, SendsMissingValuesWhereTheNodeSays) {
  const Tensor x = f32({1, 2}, {NAN, 0});
  ir::Attrs attrs = two_trees("target", "BRANCH_LEQ");
  EXPECT_EQ(run_one("ml_tree_ensemble_regressor", {x}, attrs)->at(0).to_reals(), Reals{12});
  attrs.set("nodes_missing_value_tracks_true", Ints{1, 0, 0, 0, 0, 0});
  EXPECT_EQ(run_one("ml_tree_ensemble_regressor", {x}, attrs)->at(0).to_reals(), Reals{11});
}

TEST(TreeEnsembleRegressor, RefusesWhatIsNoForest) {
  const Tensor x = f32({1, 2}, {0, 0});
  const auto fails = [&](const std::string& key, ir::AttrValue v) {
    ir::Attrs attrs = two_trees("target", "BRANCH_LEQ");
    attrs.set(key, std::move(v));
    return !run_one("ml_tree_ensemble_regressor", {x}, attrs).ok();
  };
  EXPECT_TRUE(fails("nodes_truenodeids", Ints{0, 0, 0, 1, 0, 0}));  // a node below itself
  EXPECT_TRUE(fails("nodes_truenodeids", Ints{9, 0, 0, 1, 0, 0}));
  EXPECT_TRUE(fails("nodes_nodeids", Ints{0, 1, 1, 0, 1, 2}));  // twice
  EXPECT_TRUE(fails("nodes_featureids", Ints{-1, 0, 0, 1, 0, 0}));
  EXPECT_TRUE(fails("nodes_featureids", Ints{2, 0, 0, 1, 0, 0}));
  EXPECT_TRUE(fails("nodes_featureids", Ints{INT64_MAX, 0, 0, 1, 0, 0}));
  EXPECT_TRUE(fails("nodes_values", Reals{0.5}));
  EXPECT_TRUE(fails("nodes_modes", Strings{"LEFT", "LEAF", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF"}));
  EXPECT_TRUE(fails("target_ids", Ints{0, 1, 0, 0}));
  EXPECT_TRUE(fails("target_nodeids", Ints{0, 2, 1, 2}));  // a weight at a branch
  EXPECT_TRUE(fails("n_targets", int64_t{0}));
  EXPECT_TRUE(fails("n_targets", int64_t{1} << 60));
  EXPECT_TRUE(fails("base_values", Reals{1, 2}));
  EXPECT_TRUE(fails("post_transform", std::string("NOPE")));
  EXPECT_TRUE(fails("aggregate_function", std::string("NOPE")));
}

TEST(TreeEnsembleRegressor, SurvivesAChainAsLongAsTheFile) {
  const int64_t n = 5000;
  Ints trees(2 * n + 1, 0), ids, features(2 * n + 1, 0), yes(2 * n + 1, 0), no(2 * n + 1, 0);
  Strings modes(2 * n + 1, "LEAF");
  for (int64_t i = 0; i <= 2 * n; ++i) ids.push_back(i);
  for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
    modes[i] = "BRANCH_LEQ";
    yes[i] = static_cast<int64_t>(i) + 1 < n ? static_cast<int64_t>(i) + 1 : 2 * n;
    no[i] = n + static_cast<int64_t>(i);
  }
  const ir::Attrs attrs{{"nodes_treeids", trees},   {"nodes_nodeids", ids},      {"nodes_featureids", features},
                        {"nodes_truenodeids", yes}, {"nodes_falsenodeids", no},  {"nodes_values", Reals(2 * n + 1, 1)},
                        {"nodes_modes", modes},     {"target_treeids", Ints{0}}, {"target_nodeids", Ints{2 * n}},
                        {"target_ids", Ints{0}},    {"target_weights", Reals{5}}};
  const auto y = run_one("ml_tree_ensemble_regressor", {f32({1, 1}, {0})}, attrs);
  ASSERT_TRUE(y.ok()) << y.error().to_string();
  EXPECT_EQ(y->at(0).to_reals(), Reals{5});
}

TEST(TreeEnsembleClassifier, DecidesBetweenTwoClassesByOneScore) {
  ir::Attrs attrs = two_trees("class", "BRANCH_LEQ");
  attrs.set("classlabels_int64s", Ints{3, 8});
  attrs.set("post_transform", std::string("LOGISTIC"));
  const auto out = run_one("ml_tree_ensemble_classifier", {f32({2, 2}, {0, 0, 1, 1})}, attrs, 2);
  ASSERT_TRUE(out.ok()) << out.error().to_string();
  EXPECT_EQ(out->at(0).to_ints(), (Ints{8, 3}));
  const auto s = [](double v) { return 1 / (1 + std::exp(-v)); };
  expect_near(out->at(1), {s(-11), s(11), s(18), s(-18)});
  attrs.set("class_weights", Reals{0.25, 0.5, 0.5, 0.125});
  attrs.set("post_transform", std::string("NONE"));
  const auto p = run_one("ml_tree_ensemble_classifier", {f32({2, 2}, {0, 0, 0, 1})}, attrs, 2);
  ASSERT_TRUE(p.ok()) << p.error().to_string();
  EXPECT_EQ(p->at(0).to_ints(), (Ints{8, 3}));
  expect_near(p->at(1), {0.25, 0.75, 0.625, 0.375});
  attrs.set("post_transform", std::string("LOGISTIC"));
  const auto l = run_one("ml_tree_ensemble_classifier", {f32({2, 2}, {0, 0, 0, 1})}, attrs, 2);
  ASSERT_TRUE(l.ok()) << l.error().to_string();
  EXPECT_EQ(l->at(0).to_ints(), (Ints{8, 3}));
  expect_near(l->at(1), {s(-0.75), s(0.75), s(-0.375), s(0.375)});
}

TEST(TreeEnsembleClassifier, TakesTheClassOfTheHighestScore) {
  ir::Attrs attrs = two_trees("class", "BRANCH_LEQ");
  attrs.set("class_ids", Ints{0, 1, 2, 0});
  attrs.set("class_weights", Reals{1, 2, 3, 4});
  attrs.set("classlabels_int64s", Ints{10, 20, 30});
  attrs.set("post_transform", std::string("SOFTMAX"));
  const auto out = run_one("ml_tree_ensemble_classifier", {f32({2, 2}, {0, 0, 1, 1})}, attrs, 2);
  ASSERT_TRUE(out.ok()) << out.error().to_string();
  EXPECT_EQ(out->at(0).to_ints(), (Ints{30, 10}));
  const double a = std::exp(1) + 1 + std::exp(3), b = std::exp(4) + std::exp(2) + 1;
  expect_near(out->at(1), {std::exp(1) / a, 1 / a, std::exp(3) / a, std::exp(4) / b, std::exp(2) / b, 1 / b});
}

TEST(TreeEnsembleClassifier, SaysThatLabelsAreStrings) {
  ir::Attrs attrs = two_trees("class", "BRANCH_LEQ");
  attrs.set("classlabels_strings", Strings{"a", "b"});
  const auto out = run_one("ml_tree_ensemble_classifier", {f32({1, 2}, {0, 0})}, attrs, 2);
  ASSERT_FALSE(out.ok());
  EXPECT_NE(out.error().message.find("labels are strings"), std::string::npos);
}

// x0 in {1, 3} ? 1 : (x0 > 5 ? 2 : 4), of two targets
ir::Attrs membership() {
  return {{"nodes_modes", Tensor::of<int64_t>(DType::U8, {2}, {6, 3})},
          {"nodes_splits", f32({2}, {0, 5})},
          {"membership_values", f32({3}, {1, 3, NAN})},
          {"nodes_featureids", Ints{0, 0}},
          {"nodes_truenodeids", Ints{0, 1}},
          {"nodes_trueleafs", Ints{1, 1}},
          {"nodes_falsenodeids", Ints{1, 2}},
          {"nodes_falseleafs", Ints{0, 1}},
          {"leaf_targetids", Ints{0, 1, 0}},
          {"leaf_weights", f32({3}, {1, 2, 4})},
          {"n_targets", int64_t{2}},
          {"tree_roots", Ints{0}}};
}

TEST(TreeEnsemble, TestsMembership) {
  const auto y = run_one("ml_tree_ensemble", {f32({4, 1}, {1, 2, 3, 6})}, membership());
  ASSERT_TRUE(y.ok()) << y.error().to_string();
  EXPECT_EQ(y->at(0).to_reals(), (Reals{1, 0, 4, 0, 1, 0, 0, 2}));
}

TEST(TreeEnsemble, RefusesWhatIsNoForest) {
  const auto fails = [&](const std::string& key, ir::AttrValue v) {
    ir::Attrs attrs = membership();
    attrs.set(key, std::move(v));
    return !run_one("ml_tree_ensemble", {f32({1, 1}, {1})}, attrs).ok();
  };
  EXPECT_TRUE(fails("nodes_falsenodeids", Ints{0, 2}));
  EXPECT_TRUE(fails("nodes_falsenodeids", Ints{1, 3}));
  EXPECT_TRUE(fails("nodes_falsenodeids", Ints{-1, 2}));
  EXPECT_TRUE(fails("nodes_modes", Tensor::of<int64_t>(DType::U8, {2}, {7, 3})));
  EXPECT_TRUE(fails("nodes_modes", Tensor::of<int64_t>(DType::U8, {2}, {6, 6})));
  EXPECT_TRUE(fails("tree_roots", Ints{2}));
  EXPECT_TRUE(fails("tree_roots", Ints{-1}));
  EXPECT_TRUE(fails("n_targets", int64_t{1}));
  EXPECT_TRUE(fails("leaf_targetids", Ints{0, 1}));
}

}  // namespace
}  // namespace isomer
