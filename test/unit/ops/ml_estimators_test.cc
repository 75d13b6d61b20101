// Linear models, support vectors, features and encodings of ai.onnx.ml, against numbers worked out by hand.
#include "test/unit/ops/one_node.h"

namespace isomer {
namespace {

using Ints = std::vector<int64_t>;
using Reals = std::vector<double>;
using Strings = std::vector<std::string>;

TEST(LinearClassifier, ScoresAndChooses) {
  const Tensor x = f32({2, 2}, {1, 2, 3, -4});
  const ir::Attrs attrs{{"coefficients", Reals{1, 0, 0, 1, -1, -1}},
                        {"intercepts", Reals{0.5, 0, 1}},
                        {"classlabels_ints", Ints{5, 6, 7}}};
  const auto out = run_one("ml_linear_classifier", {x}, attrs, 2);
  ASSERT_TRUE(out.ok()) << out.error().to_string();
  EXPECT_EQ(out->at(0).to_ints(), (Ints{6, 5}));
  expect_near(out->at(1), {1.5, 2, -2, 3.5, -4, 2});
  const ir::Attrs two{{"coefficients", Reals{1, 1}},
                      {"intercepts", Reals{0}},
                      {"classlabels_ints", Ints{5, 6}},
                      {"post_transform", std::string("LOGISTIC")}};
  const auto binary = run_one("ml_linear_classifier", {x}, two, 2);
  ASSERT_TRUE(binary.ok()) << binary.error().to_string();
  EXPECT_EQ(binary->at(0).to_ints(), (Ints{6, 5}));
  expect_near(binary->at(1), {sigmoid(-3), sigmoid(3), sigmoid(1), sigmoid(-1)});
}

// The scores can be computed; the strings are another operator's, which is carried.
TEST(LinearClassifier, StringsAreMadeOfNumbersBehindIt) {
  const auto entry = ops::table().find_onnx("ai.onnx.ml", "LinearClassifier");
  ASSERT_TRUE(entry);
  ir::GraphBuilder b(ops::table(), "g");
  const ir::Value x = *b.input("x", {DType::F32, Shape::of({2, 2}), nullptr});
  ir::ForeignNode node{.op = entry->op,
                       .type = "LinearClassifier",
                       .domain = "ai.onnx.ml",
                       .version = 1,
                       .inputs = {x},
                       .attrs = {{"coefficients", Reals{1, 0, 0, 1}},
                                 {"intercepts", Reals{0.5, 0}},
                                 {"classlabels_strings", Strings{"cat", "dog"}}},
                       .info = {},
                       .outputs = 2};
  const auto made = entry->form->import(node, b);
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  EXPECT_EQ(b.type((*made)[0]).dtype, DType::Opaque);
  EXPECT_EQ(b.type((*made)[1]).to_string(), "f32[2,2]");
  const ir::Node& encoder = b.graph().node((*made)[0].node);
  EXPECT_EQ(*encoder.attrs.get<Strings>("values_strings"), (Strings{"cat", "dog"}));
  EXPECT_EQ(*b.graph().node(encoder.inputs[0].node).attrs.get<Ints>("classlabels_ints"), (Ints{0, 1}));
}

TEST(LinearClassifier, RefusesCoefficientsThatDoNotFit) {
  const Tensor x = f32({1, 2}, {1, 2});
  EXPECT_FALSE(
      run_one("ml_linear_classifier", {x}, {{"coefficients", Reals{1, 2, 3}}, {"classlabels_ints", Ints{0, 1}}}, 2)
          .ok());
  EXPECT_FALSE(
      run_one("ml_linear_classifier", {x}, {{"coefficients", Reals{1, 2}}, {"classlabels_strings", Strings{"a"}}}, 2)
          .ok());
  EXPECT_FALSE(run_one("ml_linear_regressor", {x}, {{"coefficients", Reals{1, 2}}, {"targets", INT64_MAX}}).ok());
  EXPECT_FALSE(run_one("ml_linear_regressor", {x}, {{"coefficients", Reals{1, 2}}, {"targets", int64_t{0}}}).ok());
}

TEST(LinearRegressor, ComputesTargets) {
  const auto y = run_one("ml_linear_regressor", {f32({2, 2}, {1, 2, 3, 4})},
                         {{"coefficients", Reals{1, 2, 3, 4}}, {"intercepts", Reals{10, 20}}, {"targets", int64_t{2}}});
  ASSERT_TRUE(y.ok()) << y.error().to_string();
  expect_near(y->at(0), {15, 31, 21, 45});
}

TEST(SvmRegressor, KnowsItsKernels) {
  const Tensor x = f32({1, 2}, {1, 2});
  const Reals vectors = {1, 0, 2, 2};  // dot products 1 and 6, squared distances 4 and 1
  const auto run = [&](const std::string& kernel) {
    return run_one("ml_svm_regressor", {x},
                   {{"coefficients", Reals{2, -1}},
                    {"rho", Reals{0.5}},
                    {"support_vectors", vectors},
                    {"n_supports", int64_t{2}},
                    {"kernel_type", kernel},
                    {"kernel_params", Reals{0.5, 1, 2}}});
  };
  expect_near(run("LINEAR")->at(0), {2 * 1 - 6 + 0.5});
  expect_near(run("POLY")->at(0), {2 * 2.25 - 16 + 0.5});
  expect_near(run("RBF")->at(0), {2 * std::exp(-2) - std::exp(-0.5) + 0.5});
  expect_near(run("SIGMOID")->at(0), {2 * std::tanh(1.5) - std::tanh(4) + 0.5});
  EXPECT_FALSE(run("CUBE").ok());
  const auto linear =
      run_one("ml_svm_regressor", {x}, {{"coefficients", Reals{3, 4}}, {"rho", Reals{-20}}, {"one_class", int64_t{1}}});
  ASSERT_TRUE(linear.ok()) << linear.error().to_string();
  EXPECT_EQ(linear->at(0).to_reals(), Reals{-1});
}

// Three classes of one vector each on a line: every pair has its own line.
ir::Attrs three_classes() {
  return {{"coefficients", Reals{1, -1, -1, 1, 1, -1}},
          {"rho", Reals{1, 2, 3}},
          {"support_vectors", Reals{1, 2, 3}},
          {"vectors_per_class", Ints{1, 1, 1}},
          {"classlabels_ints", Ints{7, 8, 9}}};
}

TEST(SvmClassifier, LetsPairsOfClassesDuel) {
  const auto out = run_one("ml_svm_classifier", {f32({1, 1}, {1})}, three_classes(), 2);
  ASSERT_TRUE(out.ok()) << out.error().to_string();
  // 01: 1*1 - 1*2 + 1 = 0; 02: 1*1 - 1*3 + 2 = 0; 12: 1*2 - 1*3 + 3 = 2
  expect_near(out->at(1), {0, 0, 2});
  EXPECT_EQ(out->at(0).to_ints(), Ints{8});
}

TEST(SvmClassifier, CouplesProbabilities) {
  ir::Attrs attrs = three_classes();
  attrs.set("prob_a", Reals{-1, -1, -1});
  attrs.set("prob_b", Reals{0, 0, 0});
  const auto out = run_one("ml_svm_classifier", {f32({1, 1}, {1})}, attrs, 2);
  ASSERT_TRUE(out.ok()) << out.error().to_string();
  const std::vector<double> p = out->at(1).to_reals();
  ASSERT_EQ(p.size(), 3u);
  EXPECT_NEAR(p[0] + p[1] + p[2], 1, 1e-5);
  EXPECT_GT(p[1], p[2]);
  attrs.set("prob_b", Reals{0});
  EXPECT_FALSE(run_one("ml_svm_classifier", {f32({1, 1}, {1})}, attrs, 2).ok());
}

TEST(SvmClassifier, RefusesHostileCounts) {
  for (const Ints& counts : {Ints{1, 1}, Ints{-1, 2, 2}, Ints{INT64_MAX, INT64_MAX, 1}, Ints{4, 4, 4}}) {
    ir::Attrs attrs = three_classes();
    attrs.set("vectors_per_class", counts);
    EXPECT_FALSE(run_one("ml_svm_classifier", {f32({1, 1}, {1})}, attrs, 2).ok());
  }
}

TEST(Normalizer, DividesByEachNorm) {
  const Tensor x = f32({2, 2}, {3, -4, 0, 0});
  expect_near(run_one("ml_normalizer", {x}, {{"norm", std::string("L1")}})->at(0), {3 / 7.0, -4 / 7.0, 0, 0});
  expect_near(run_one("ml_normalizer", {x}, {{"norm", std::string("L2")}})->at(0), {0.6, -0.8, 0, 0});
  expect_near(run_one("ml_normalizer", {x}, {{"norm", std::string("MAX")}})->at(0), {1, -4 / 3.0, 0, 0});
  EXPECT_FALSE(run_one("ml_normalizer", {x}, {{"norm", std::string("L3")}}).ok());
}

TEST(Features, AreBinarizedVectorizedAndExtracted) {
  expect_near(run_one("ml_binarizer", {f32({3}, {0.5, 1, 2})}, {{"threshold", 1.0}})->at(0), {0, 0, 1});
  const auto v = run_one("ml_feature_vectorizer", {f32({2, 2}, {1, 2, 3, 4}), f32({2, 1}, {5, 6})},
                         {{"inputdimensions", Ints{1, 2}}});
  ASSERT_TRUE(v.ok()) << v.error().to_string();
  expect_near(v->at(0), {1, 5, 0, 3, 6, 0});
  EXPECT_FALSE(run_one("ml_feature_vectorizer", {f32({2}, {1, 2})}, {{"inputdimensions", Ints{-1}}}).ok());
  const auto z = run_one("ml_array_feature_extractor", {f32({2, 3}, {1, 2, 3, 4, 5, 6}), Tensor::ints({2, 0})});
  ASSERT_TRUE(z.ok()) << z.error().to_string();
  expect_near(z->at(0), {3, 1, 6, 4});
  EXPECT_FALSE(run_one("ml_array_feature_extractor", {f32({2, 3}, {1, 2, 3, 4, 5, 6}), Tensor::ints({3})}).ok());
}

TEST(LabelEncoder, MapsNumbers) {
  const auto y = run_one("ml_label_encoder", {Tensor::ints({3, 1, 2})},
                         {{"keys_int64s", Ints{1, 2}}, {"values_floats", Reals{0.5, 1.5}}, {"default_float", -1.0}});
  ASSERT_TRUE(y.ok()) << y.error().to_string();
  expect_near(y->at(0), {-1, 0.5, 1.5});
  const auto t = run_one("ml_label_encoder", {f32({2}, {NAN, 1})},
                         {{"keys_tensor", f32({1}, {NAN})},
                          {"values_tensor", Tensor::of<int64_t>(DType::I16, {1}, {7})},
                          {"default_tensor", Tensor::of<int64_t>(DType::I16, {1}, {-3})}});
  ASSERT_TRUE(t.ok()) << t.error().to_string();
  EXPECT_EQ(t->at(0).dtype(), DType::I16);
  EXPECT_EQ(t->at(0).to_ints(), (Ints{7, -3}));
  EXPECT_FALSE(
      run_one("ml_label_encoder", {Tensor::ints({3})}, {{"keys_int64s", Ints{1}}, {"values_floats", Reals{}}}).ok());
  EXPECT_FALSE(
      run_one("ml_label_encoder", {Tensor::ints({3})}, {{"keys_int64s", Ints{1}}, {"values_strings", Strings{"a"}}})
          .ok());
}

TEST(OneHotEncoder, MarksCategories) {
  const auto y = run_one("ml_one_hot_encoder", {Tensor::ints({4, 9})}, {{"cats_int64s", Ints{1, 4}}});
  ASSERT_TRUE(y.ok()) << y.error().to_string();
  EXPECT_EQ(y->at(0).dims(), (Ints{2, 2}));
  expect_near(y->at(0), {0, 1, 0, 0});
  EXPECT_FALSE(
      run_one("ml_one_hot_encoder", {Tensor::ints({4, 9})}, {{"cats_int64s", Ints{1, 4}}, {"zeros", int64_t{0}}}).ok());
}

}  // namespace
}  // namespace isomer
