// Whole networks after a walk of random rewrites: the same function, valid graphs, and matches that stay exact.
//   ISOMER_SEED=n   another walk
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "interp/interp.h"
#include "ir/verify.h"
#include "ops/table.h"
#include "rewrite/apply.h"
#include "rewrite/library.h"
#include "tensor/random_fill.h"
#include "test/setting.h"
#include "zoo/zoo.h"

namespace isomer::rewrite {
namespace {

struct Walk {
  const char* network;
  zoo::Options options;
  int steps;
};

void expect_same_function(const ir::Graph& a, const ir::Graph& b, uint64_t seed) {
  Random random(seed);
  FillRange small;
  small.int_high = 1;  // token kinds are 0 and 1
  std::vector<Tensor> inputs;
  for (const ir::Node& n : a.inputs())
    inputs.push_back(random_tensor(n.types[0].dtype, n.types[0].shape.values(), random, small));
  interp::Options wide;
  wide.wide = true;
  const auto x = interp::run(a, ops::table(), inputs, wide), y = interp::run(b, ops::table(), inputs, wide);
  ASSERT_TRUE(x.ok() && y.ok()) << (x.ok() ? y.error().to_string() : x.error().to_string());
  for (size_t k = 0; k < x->size(); ++k) {
    double largest = 0, error = 0;
    for (int64_t e = 0; e < (*x)[k].size(); ++e) {
      largest = std::max(largest, std::abs((*x)[k].real(e)));
      error = std::max(error, std::abs((*x)[k].real(e) - (*y)[k].real(e)));
    }
    EXPECT_LE(error, 1e-6 * largest) << "output " << k;
  }
}

TEST(RewrittenNetworks, StayTheSameFunction) {
  const uint64_t seed = testing::setting("ISOMER_SEED", 11);
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  const auto library = load_rules(ISOMER_SOURCE_DIR "/rules", ops::table(), Trust::AsWritten);
  ASSERT_TRUE(library.ok()) << library.error().to_string();
  AttrHabitTable habits(ops::table());
  std::vector<const Rule*> rules;
  for (const Rule& r : library->rules) rules.push_back(&r);
  const Matcher matcher(rules, habits);
  const Walk walks[] = {{"tiny", {}, 60},
                        {"squeezenet1_1", {.image = 32}, 40},
                        {"nasnet_a", {.image = 32, .layers = 1}, 60},
                        {"bert_base", {.sequence = 4, .layers = 1}, 40},
                        {"nasrnn", {.sequence = 2}, 40}};
  for (const Walk& walk : walks) {
    const auto network = zoo::build(walk.network, ops::table(), walk.options);
    ASSERT_TRUE(network.ok()) << network.error().to_string();
    EditGraph edit(*network, ops::table(), habits);
    MatchSet set(matcher, edit);
    Random random(seed);
    int applied = 0;
    for (int i = 0; i < walk.steps && !set.matches().empty(); ++i) {
      const Match m = set.matches()[random.below(set.matches().size())];
      if (!matcher.holds(edit, m)) continue;
      const auto done = apply(edit, matcher.rule(m.rule), m);
      if (!done.ok()) continue;
      ++applied;
      set.update(edit, *done);
      if (i % 10 != 0) continue;
      const auto fresh = matcher.all(edit);
      ASSERT_EQ(fresh.size(), set.matches().size()) << walk.network << " after " << matcher.rule(m.rule).name;
    }
    EXPECT_GT(applied, 10) << walk.network;
    const auto after = edit.graph();
    ASSERT_TRUE(after.ok()) << walk.network << ": " << after.error().to_string();
    ASSERT_TRUE(ir::verify(*after, ops::table()).ok()) << walk.network;
    SCOPED_TRACE(walk.network);
    expect_same_function(*network, *after, seed);
  }
}

}  // namespace
}  // namespace isomer::rewrite
