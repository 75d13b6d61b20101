// Estimators of classical machine learning as compiled code: the interpreter's results, poisoned memory, any number of threads.
#include <fmt/format.h>

#include <cmath>

#include "base/random.h"
#include "test/unit/compile/compiled.h"

namespace isomer {
namespace {

// Random trees with all kinds of tests, as the attributes of a node.
class Trees {
 public:
  Trees(uint64_t seed, int trees, int depth, int features, int targets, int votes, bool every_mode)
      : random_(seed), features_(features), targets_(targets), votes_(votes), every_mode_(every_mode) {
    for (int t = 0; t < trees; ++t) {
      next_ = 0;
      grow(t, depth);
    }
  }

  std::string attrs(const std::string& prefix) const {
    return fmt::format(
        "nodes_treeids=[{}], nodes_nodeids=[{}], nodes_featureids=[{}], nodes_truenodeids=[{}], "
        "nodes_falsenodeids=[{}], "
        "nodes_values=[{}], nodes_modes=[{}], nodes_missing_value_tracks_true=[{}], {}_treeids=[{}], {}_nodeids=[{}], "
        "{}_ids=[{}], {}_weights=[{}]",
        tree_, node_, feature_, yes_, no_, value_, mode_, missing_, prefix, leaf_tree_, prefix, leaf_node_, prefix,
        leaf_target_, prefix, leaf_weight_);
  }

 private:
  static void add(std::string& list, const std::string& s) { list += (list.empty() ? "" : ",") + s; }
  int64_t below(int64_t n) { return static_cast<int64_t>(random_.below(static_cast<uint64_t>(n))); }
  std::string real() { return fmt::format("{:.4f}", static_cast<double>(below(64) - 32) / 16); }

  int grow(int tree, int depth) {
    const int id = next_++;
    const bool leaf = depth == 0 || below(6) == 0;
    int yes = 0, no = 0;
    if (!leaf) {
      yes = grow(tree, depth - 1);
      no = grow(tree, depth - 1);
    }
    static const char* modes[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"};
    add(tree_, std::to_string(tree));
    add(node_, std::to_string(id));
    add(feature_, std::to_string(leaf ? 0 : below(features_)));
    add(yes_, std::to_string(yes));
    add(no_, std::to_string(no));
    add(value_, real());
    add(mode_, fmt::format("\"{}\"", leaf ? "LEAF" : modes[every_mode_ ? below(6) : 0]));
    add(missing_, every_mode_ ? std::to_string(below(2)) : "0");
    for (int v = 0; leaf && v < votes_; ++v) {
      add(leaf_tree_, std::to_string(tree));
      add(leaf_node_, std::to_string(id));
      add(leaf_target_, std::to_string(votes_ == targets_ ? v : below(targets_)));
      add(leaf_weight_, real());
    }
    return id;
  }

  Random random_;
  int features_, targets_, votes_;
  bool every_mode_;
  int next_ = 0;
  std::string tree_, node_, feature_, yes_, no_, value_, mode_, missing_, leaf_tree_, leaf_node_, leaf_target_,
      leaf_weight_;
};

// Features in sixteenths, so that they often are a threshold; some are missing where the type has such.
std::string features(const char* type, int rows, int columns) {
  const std::string whole = fmt::format("%w = round(mul(%x, const f32[] 16.0))\n", rows, columns);
  if (std::string(type) != "f32" && std::string(type) != "f64")
    return whole + fmt::format("%f = cast(%w){{to={}}}\n", type);
  return whole + fmt::format(
                     "%m = where(equal(%w, const f32[] 5.0), const f32[] nan, div(%w, const f32[] 16.0))\n"
                     "%f = cast(%m){{to={}}}\n",
                     type);
}

TEST(Estimators, TreesOfAllKinds) {
  uint64_t seed = 1;
  for (const char* type : {"f32", "f64", "i64", "i32"})
    for (const int rows : {1, 7, 8, 100})
      for (const char* how : {"SUM", "MIN", "AVERAGE"}) {
        ++seed;
        const Trees trees(seed, 11, 5, 5, 3, 1 + static_cast<int>(seed % 3), seed % 2 == 0);
        expect_compiles(fmt::format("graph @g(%x: f32[{0},5]) {{\n{1} return ml_tree_ensemble_regressor(%f){{{2}, "
                                    "n_targets=3, aggregate_function=\"{3}\", base_values=[0.5,1.0,-1.0]}} }}",
                                    rows, features(type, rows, 5), trees.attrs("target"), how),
                        1e-6, {}, false);
      }
}

TEST(Estimators, ClassesByTrees) {
  uint64_t seed = 100;
  for (const char* transform : {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"})
    for (const int rows : {3, 40})
      for (const int votes : {1, 3}) {
        const Trees trees(++seed, 6, 4, 4, 3, votes, true);
        expect_compiles(fmt::format("graph @g(%x: f32[{0},4]) {{\n{1} %y, %z = ml_tree_ensemble_classifier(%f){{{2}, "
                                    "classlabels_int64s=[4,9,-2], post_transform=\"{3}\"}} return %y, %z }}",
                                    rows, features("f32", rows, 4), trees.attrs("class"), transform),
                        1e-6, {}, false);
        const Trees one(++seed, 6, 4, 4, 1, 1, true);
        expect_compiles(fmt::format("graph @g(%x: f32[{0},4]) {{\n{1} %y, %z = ml_tree_ensemble_classifier(%f){{{2}, "
                                    "classlabels_int64s=[4,9], post_transform=\"{3}\"}} return %y, %z }}",
                                    rows, features("f32", rows, 4), one.attrs("class"), transform),
                        1e-6, {}, false);
      }
}

TEST(Estimators, RowsWithMoreFeaturesThanAreBroughtTogether) {
  const Trees trees(7, 9, 6, 300, 1, 1, false);
  for (const int rows : {2, 33})
    expect_compiles(fmt::format("graph @g(%x: f32[{0},300]) {{\n{1} return ml_tree_ensemble_regressor(%f){{{2}}} }}",
                                rows, features("f32", rows, 300), trees.attrs("target")),
                    1e-6, {}, false);
}

TEST(Estimators, SupportVectorsWithProbabilities) {
  for (const char* kernel : {"LINEAR", "RBF", "POLY", "SIGMOID"})
    expect_compiles(
        fmt::format(
            "graph @g(%x: f32[9,2]) {{ %y, %z = ml_svm_classifier(%x){{coefficients=[1.0,-1.0,-1.0,1.0,0.5,1.0,-0.5,"
            "-1.0,2.0,-1.0], rho=[0.1,0.2,-0.3], support_vectors=[1.0,2.0,0.5,-1.0,-0.5,0.25,0.0,1.0,-1.0,-1.0], "
            "vectors_per_class=[2,1,2], classlabels_ints=[3,5,8], prob_a=[-1.0,-0.5,-2.0], prob_b=[0.1,0.0,-0.2], "
            "kernel_type=\"{}\", kernel_params=[0.5,0.25,2.0]}} return %y, %z }}",
            kernel),
        1e-5, {}, false);
}

TEST(Estimators, KeysAmongMany) {
  std::string keys, values;
  for (int i = 0; i < 37; ++i) {
    keys += fmt::format("{}{}", i ? "," : "", (i * 17) % 40);
    values += fmt::format("{}{}.5", i ? "," : "", i);
  }
  expect_compiles(fmt::format("graph @g(%x: f32[90]) {{ %i = cast(mul(%x, const f32[] 60.0)){{to=i64}}\n"
                              "return ml_label_encoder(%i){{keys_int64s=[{0}], values_floats=[{1}]}}, "
                              "ml_one_hot_encoder(%i){{cats_int64s=[{0}]}} }}",
                              keys, values),
                  0, {}, false);
  expect_compiles(
      "graph @g(%x: f32[30]) { %m = where(less(%x, const f32[] 0.0), const f32[] nan, round(mul(%x, const f32[] "
      "3.0)))\n"
      "return ml_label_encoder(%m){keys_tensor=const f32[3] [1,nan,0], values_int64s=[7,8,9]} }",
      0, {}, false);
}

TEST(Estimators, DrawsByChancesThatARunTells) {
  expect_compiles("graph @g(%x: f32[40]) { return bernoulli(sigmoid(%x)){seed=3.0} }", 0, {}, false);
  expect_compiles("graph @g(%x: f32[4,7]) { return multinomial(%x){sample_size=20, seed=5.0} }", 0, {}, false);
}

TEST(Estimators, Determinants) {
  for (const int n : {1, 2, 3, 7})
    expect_compiles(fmt::format("graph @g(%x: f32[5,{0},{0}]) {{ return det(%x), det(mul(%x, const f32[] 0.0)) }}", n),
                    1e-5);
}

TEST(Estimators, GramsOfRows) {
  expect_compiles(
      "graph @g(%x: f32[3,40]) { %i = cast(mul(%x, const f32[] 4.0)){to=i64}\n"
      "return tf_idf_vectorizer(%i){max_gram_length=3, max_skip_count=2, min_gram_length=1, mode=\"TFIDF\", "
      "ngram_counts=[0,3,9], ngram_indexes=[0,5,2,3,8,1,4,7], pool_int64s=[1,0,-2,0,1,-1,2,0,0,0,0,0,1,2,0], "
      "weights=[0.5,2.0,1.0,3.0,0.25,4.0,1.5,8.0]} }",
      0, {}, false);
}

}  // namespace
}  // namespace isomer
