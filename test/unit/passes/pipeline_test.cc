// The pipeline as a whole, and the manager: every network of the zoo keeps its function and loses what exporters leave.
#include <filesystem>

#include "test/unit/passes/before_after.h"
#include "zoo/zoo.h"

namespace isomer::testing {
namespace {

zoo::Options small(const zoo::Network& n) {
  zoo::Options o;
  // Some networks shrink the image so often that a smaller one would vanish.
  if (n.image) o.image = n.name == "inception_v3" ? 128 : n.name == "ssd_resnet50" ? 260 : 64;
  if (n.sequence) o.sequence = 8;
  if (n.layers) o.layers = 1;
  return o;
}

std::vector<std::string> networks() {
  std::vector<std::string> out;
  for (const zoo::Network& n : zoo::networks()) out.push_back(n.name);
  return out;
}

passes::Result run_inference(const ir::Graph& g, passes::Options options = {}) {
  options.verify = true;
  auto r = passes::run(g, ops::table(), *passes::find_pipeline("inference"), options);
  EXPECT_TRUE(r.ok()) << r.error().to_string();
  return r.ok() ? *std::move(r) : passes::Result();
}

class ZooPipeline : public ::testing::TestWithParam<std::string> {};

TEST_P(ZooPipeline, KeepsTheFunctionAndTheInterface) {
  const auto& all = zoo::networks();
  const auto network = std::find_if(all.begin(), all.end(), [](auto& n) { return n.name == GetParam(); });
  const auto g = zoo::build(GetParam(), ops::table(), small(*network));
  ASSERT_TRUE(g.ok()) << g.error().to_string();
  const passes::Result r = run_inference(*g);
  EXPECT_LE(r.graph.nodes().size(), g->nodes().size());
  EXPECT_EQ(count(r.graph, "batch_normalization"), 0);
  EXPECT_EQ(count(r.graph, "identity"), 0);
  ASSERT_EQ(r.graph.outputs().size(), g->outputs().size());
  for (size_t i = 0; i < g->outputs().size(); ++i) EXPECT_EQ(r.graph.outputs()[i].name, g->outputs()[i].name);
  expect_same_function(r.graph, *g);
  // Done is done: another run finds nothing.
  EXPECT_EQ(run_inference(r.graph).graph.content_hash(), r.graph.content_hash());
}

INSTANTIATE_TEST_SUITE_P(All, ZooPipeline, ::testing::ValuesIn(networks()), [](const auto& p) { return p.param; });

}  // namespace
}  // namespace isomer::testing
