// Every network of the zoo: it verifies, is the same each time it is built, survives the graph text and an ONNX file,
// and the graph that comes back from the file computes the same bits.
#include "zoo/zoo.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "driver/executor.h"
#include "interp/interp.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "onnx/onnx.h"
#include "ops/table.h"
#include "tensor/compare.h"
#include "tensor/random_fill.h"

namespace isomer {
namespace {

constexpr int64_t kLargestExported = int64_t{150} << 20;  // bytes of constants; bounds the time of the whole-size test

zoo::Options small(const zoo::Network& n) {
  zoo::Options o;
  // Some networks shrink the image so often that a smaller one would vanish.
  if (n.image) o.image = n.name == "inception_v3" ? 128 : n.name == "ssd_resnet50" ? 260 : 64;
  if (n.sequence) o.sequence = 8;
  if (n.layers) o.layers = 1;
  return o;
}

std::vector<Tensor> inputs_of(const ir::Graph& g) {
  Random random(3);
  std::vector<Tensor> out;
  for (const ir::Node& n : g.inputs())
    out.push_back(random_tensor(n.types[0].dtype, n.types[0].shape.values(), random, {.int_low = 0, .int_high = 1}));
  return out;
}

int64_t constant_bytes(const ir::Graph& g) {
  int64_t total = 0;
  for (const ir::Node& n : g.nodes())
    if (const Tensor* t = n.attrs.get<Tensor>("value"); t && n.op == &ir::const_op())
      total += static_cast<int64_t>(t->byte_size());
  return total;
}

void expect_survives_text(const ir::Graph& g) {
  ir::ConstantPool pool;
  const std::string text = ir::print(g, &pool);
  const auto back = ir::parse(text, ops::table(), &pool);
  ASSERT_TRUE(back.ok()) << back.error().to_string();
  EXPECT_TRUE(ir::identical(g, *back));
}

Expected<ir::Graph> through_file(const ir::Graph& g) {
  ISOMER_TRY(const std::string bytes, onnx::save_bytes(g));
  ISOMER_TRY(onnx::Model model, onnx::load_bytes(std::as_bytes(std::span(bytes)), ops::table()));
  if (!model.warnings.empty()) return Diagnostic("E-test", "the file is read with a warning: " + model.warnings[0]);
  return std::move(model.graph);
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const zoo::Network& n : zoo::networks()) out.push_back(n.name);
  return out;
}

class Zoo : public ::testing::TestWithParam<std::string> {
 protected:
  const zoo::Network& network() const {
    return *std::find_if(zoo::networks().begin(), zoo::networks().end(), [](auto& n) { return n.name == GetParam(); });
  }
};

TEST_P(Zoo, SmallNetworkMeansTheSameInEveryForm) {
  const zoo::Options options = small(network());
  const auto g = zoo::build(GetParam(), ops::table(), options);
  ASSERT_TRUE(g.ok()) << g.error().to_string();
  const auto verified = ir::verify(*g, ops::table());
  ASSERT_TRUE(verified.ok()) << verified.error().to_string();
  const auto again = zoo::build(GetParam(), ops::table(), options);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(g->content_hash(), again->content_hash());
  expect_survives_text(*g);

  const auto back = through_file(*g);
  ASSERT_TRUE(back.ok()) << back.error().to_string();
  EXPECT_TRUE(ir::equal(*g, *back));
  const std::vector<Tensor> inputs = inputs_of(*g);
  const auto expected = interp::run(*g, ops::table(), inputs), found = interp::run(*back, ops::table(), inputs);
  ASSERT_TRUE(expected.ok()) << expected.error().to_string();
  ASSERT_TRUE(found.ok()) << found.error().to_string();
  ASSERT_EQ(expected->size(), found->size());
  for (size_t i = 0; i < found->size(); ++i) {
    EXPECT_EQ((*expected)[i].content_hash(), (*found)[i].content_hash()) << "output " << i;
    for (int64_t k = 0; k < (*found)[i].size(); ++k)
      ASSERT_TRUE(std::isfinite((*found)[i].real(k))) << "output " << i << ", element " << k;
  }
}

TEST_P(Zoo, SmallNetworkCompiledAgreesWithTheInterpreter) {
  const auto g = zoo::build(GetParam(), ops::table(), small(network()));
  ASSERT_TRUE(g.ok()) << g.error().to_string();
  const std::vector<Tensor> inputs = inputs_of(*g);
  interp::Options wide;
  wide.wide = true;
  const auto expected = interp::run(*g, ops::table(), inputs, wide);
  ASSERT_TRUE(expected.ok()) << expected.error().to_string();
  for (const bool naive : {false, true}) {
    driver::ExecutorOptions o;
    o.native.naive = naive;
    o.native.poison = true;
    o.native.accuracy = driver::Accuracy::Unchecked;  // the fast algorithms themselves are tested
    o.optimise = !naive;
    auto executor = driver::Executor::make(*g, o);
    ASSERT_TRUE(executor.ok()) << executor.error().to_string();
    const auto found = executor->run(inputs);
    ASSERT_TRUE(found.ok()) << found.error().to_string();
    if (!naive) {
      EXPECT_TRUE(executor->report().empty()) << executor->report()[0].reason;
    }
    for (size_t i = 0; i < found->size(); ++i) {
      const Comparison c = compare((*found)[i], (*expected)[i], {.absolute = 1e30});
      EXPECT_TRUE(c.ok()) << c.to_string();
      EXPECT_LT(c.error_of_largest, naive ? 1e-5 : 1e-4) << "output " << i << (naive ? ", naive" : "");
    }
  }
}

TEST_P(Zoo, WholeNetworkSurvivesTextAndFile) {
  const auto g = zoo::build(GetParam(), ops::table());
  ASSERT_TRUE(g.ok()) << g.error().to_string();
  const auto verified = ir::verify(*g, ops::table());
  ASSERT_TRUE(verified.ok()) << verified.error().to_string();
  expect_survives_text(*g);
  if (constant_bytes(*g) > kLargestExported) return;
  const auto back = through_file(*g);
  ASSERT_TRUE(back.ok()) << back.error().to_string();
  EXPECT_TRUE(ir::equal(*g, *back));
}

INSTANTIATE_TEST_SUITE_P(All, Zoo, ::testing::ValuesIn(names()), [](const auto& p) { return p.param; });

}  // namespace
}  // namespace isomer
