// Broken graph texts are refused or read, never more: no crash, no hang, no allocation beyond their scale.
#include <gtest/gtest.h>

#include "ir/text.h"
#include "test/mutation/damage.h"
#include "test/random_graph.h"

namespace isomer {
namespace {

void mutate(std::string& text, Random& r) {
  static const char* const kPieces[] = {
      "%",    "\"",     "(",   ")",    "{",       "}",       "[",    "]",  ",",
      "=",    "$a",     "#0.", "_",    "graph @", "const ",  "nan(", "-",  "999999999999999999999",
      "1e99", "return", "//",  "else", "f32[*]",  "opaque(", "@",    "\\", "splat("};
  damage(text, kPieces, r);
}

TEST(GraphTextMutation, IsReadOrRefused) {
  const testing::RandomGraph random;
  size_t read = 0;
  for (uint64_t seed = 1; seed <= 6000; ++seed) {
    Random r(seed);
    std::string text = ir::print(random.make(seed, 4));
    mutate(text, r);
    const auto g = ir::parse(text, ops::table());
    if (!g.ok()) {
      EXPECT_FALSE(g.error().code.empty());
      continue;
    }
    ++read;
    const auto back = ir::parse(ir::print(*g), ops::table());
    ASSERT_TRUE(back.ok() && ir::identical(*g, *back)) << "seed " << seed << "\n" << text;
  }
  EXPECT_GT(read, 0u);
}

}  // namespace
}  // namespace isomer
