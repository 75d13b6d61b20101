// Broken graph texts are refused or read, never more: no crash, no hang, no allocation beyond their scale.
#include <gtest/gtest.h>

#include "ir/text.h"
#include "test/random_graph.h"

namespace isomer {
namespace {

void mutate(std::string& text, Random& r) {
  static const char* const kPieces[] = {
      "%",    "\"",     "(",   ")",    "{",       "}",       "[",    "]",  ",",
      "=",    "$a",     "#0.", "_",    "graph @", "const ",  "nan(", "-",  "999999999999999999999",
      "1e99", "return", "//",  "else", "f32[*]",  "opaque(", "@",    "\\", "splat("};
  for (uint64_t n = 1 + r.below(3); n > 0; --n) {
    const size_t at = r.below(text.size() + 1);
    switch (r.below(5)) {
      case 0: text.insert(at, kPieces[r.below(std::size(kPieces))]); break;
      case 1: text.erase(at, 1 + r.below(8)); break;
      case 2:
        if (at < text.size()) text[at] = static_cast<char>(r.below(256));
        break;
      case 3: text.resize(at); break;
      default: text.insert(at, text.substr(r.below(text.size() + 1), r.below(30))); break;
    }
  }
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
