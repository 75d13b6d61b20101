#include "zoo/zoo.h"

#include <gtest/gtest.h>

#include <set>

#include "driver/summary.h"
#include "ops/table.h"

namespace isomer {
namespace {

// What papers call parameters: real constants of rank 1 or more, without the statistics of batch normalisation.
int64_t learned(const ir::Graph& g) {
  std::set<uint32_t> statistics;
  for (const ir::Node& n : g.nodes())
    if (n.op->name == "batch_normalization") statistics.insert({n.inputs[3].node, n.inputs[4].node});
  int64_t total = 0;
  for (uint32_t i = 0; i < g.nodes().size(); ++i) {
    const ir::Node& n = g.node(i);
    if (n.op != &ir::const_op() || statistics.contains(i)) continue;
    const Tensor& t = *n.attrs.get<Tensor>("value");
    if (t.dtype() == DType::F32 && t.rank() > 0) total += t.size();
  }
  return total;
}

struct Figures {
  const char* name;
  int64_t parameters, macs;
};

class PublishedFigures : public testing::TestWithParam<Figures> {};

TEST_P(PublishedFigures, AreThoseOfTheNetworkAtItsOwnSize) {
  const Figures& f = GetParam();
  const auto g = zoo::build(f.name, ops::table());
  ASSERT_TRUE(g.ok()) << g.error().to_string();
  EXPECT_EQ(learned(*g), f.parameters);
  const driver::Summary s = driver::summarise(*g);
  ASSERT_TRUE(s.macs.has_value());
  EXPECT_EQ(*s.macs, f.macs);
  EXPECT_TRUE(s.unsupported.empty());
}

// Parameters are exact; multiply-accumulates count every product of a contraction, matrix products of attention too.
INSTANTIATE_TEST_SUITE_P(
    Zoo, PublishedFigures,
    testing::Values(Figures{"bert_base", 109482240, 11174215680}, Figures{"context_net", 18457, 80248832},
                    Figures{"csrnet", 16263489, 20722336768}, Figures{"densenet121", 7978856, 2834161664},
                    Figures{"efficientnet_b0", 5288548, 385814752}, Figures{"gpt2_small", 124439808, 7981547520},
                    Figures{"inception_v3", 23834568, 5713216096}, Figures{"mobilenet_v2", 3504872, 300774272},
                    Figures{"mobileone_s0", 5293272, 1051935232}, Figures{"repvgg_a0", 9108968, 1512581120},
                    Figures{"resnet18", 11689512, 1814073344}, Figures{"resnet3d_18", 33371472, 40696553472},
                    Figures{"resnet50", 25557032, 4089184256}, Figures{"resnext50_32x4d", 25028904, 4230479872},
                    Figures{"squeezenet1_1", 1235496, 349151936}, Figures{"vgg16", 138357544, 15470264320},
                    Figures{"vit_b_16", 86567656, 17563828224}),
    [](const auto& i) { return std::string(i.param.name); });

// Small settings: the whole list is built three times.
zoo::Options small(const zoo::Network& n) {
  zoo::Options o;
  if (n.image > 0) o.image = n.name == "ssd_resnet50" ? 0 : n.name == "inception_v3" ? 128 : 64;
  if (n.sequence > 0) o.sequence = 4;
  if (n.layers > 0) o.layers = 1;
  return o;
}

TEST(Zoo, TheSameSeedGivesTheSameNetworkAndAnotherSeedAnother) {
  for (const zoo::Network& n : zoo::networks()) {
    if (n.name == "vgg16") continue;  // hundreds of megabytes at any size
    SCOPED_TRACE(n.name);
    zoo::Options o = small(n);
    const auto first = zoo::build(n.name, ops::table(), o), again = zoo::build(n.name, ops::table(), o);
    ASSERT_TRUE(first.ok()) << first.error().to_string();
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(first->content_hash(), again->content_hash());
    o.seed = 2;
    const auto other = zoo::build(n.name, ops::table(), o);
    ASSERT_TRUE(other.ok());
    EXPECT_NE(first->content_hash(), other->content_hash());
  }
}

}  // namespace
}  // namespace isomer
