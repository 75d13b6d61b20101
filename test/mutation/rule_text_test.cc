// Broken rule texts are refused or read, never more: no crash, no hang, no allocation beyond their scale. One that is
// read comes back from its print, and a small instance of it can be matched.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/random.h"
#include "ops/table.h"
#include "rewrite/apply.h"
#include "rewrite/instantiate.h"
#include "rewrite/proof.h"
#include "rewrite/taso.h"
#include "test/mutation/damage.h"

namespace isomer::rewrite {
namespace {

void mutate(std::string& text, Random& r) {
  static const char* const kPieces[] = {
      "%",   "?x",    "(",    ")",      "{",     "}",      "[",        "]",     ",",    "=",    "=>",
      "...", "S...",  "_",    "rule ",  "where", "proof ", "len(S)",   "seq(0", "-",    "*",    "9999999999999999999",
      "1e9", "type ", "let ", "real ?", "#",     "\"",     "compose(", "T[",    "in {", "mod(", "1000000000000"};
  damage(text, kPieces, r);
}

// The library's texts, one rule each.
std::vector<std::string> rules() {
  std::vector<std::string> out;
  for (const char* family : {"activation", "arithmetic", "conv", "layout", "matmul", "norm", "pool", "spatial"}) {
    std::ifstream in(std::string(ISOMER_SOURCE_DIR "/rules/") + family + ".rules");
    std::stringstream all;
    all << in.rdbuf();
    const std::string text = all.str();
    for (size_t at = text.find("\nrule "); at != std::string::npos;) {
      const size_t next = text.find("\nrule ", at + 1);
      out.push_back(text.substr(at + 1, next == std::string::npos ? next : next - at));
      at = next;
    }
  }
  return out;
}

void use(const Rule& rule, Random& random) {
  AttrHabitTable habits(ops::table());
  const Matcher matcher({&rule}, habits);
  const auto all = cases(rule);
  const auto b = sample(rule, all[random.below(all.size())], random);
  if (!b) return;
  const auto graph = instantiate_side(rule, rule.lhs, *b, ops::table());
  if (!graph.ok()) return;
  EditGraph edit(*graph, ops::table(), habits);
  for (const Match& m : matcher.all(edit)) {
    const bool applied = apply(edit, rule, m).ok();
    EXPECT_TRUE(!applied || edit.graph().ok());
    break;
  }
}

TEST(RuleTextMutation, IsReadOrRefused) {
  const std::vector<std::string> texts = rules();
  ASSERT_GT(texts.size(), 100u);
  size_t read = 0;
  for (uint64_t seed = 1; seed <= 4000; ++seed) {
    Random r(seed);
    std::string text = texts[r.below(texts.size())];
    mutate(text, r);
    const auto parsed = parse_rules(text, ops::table(), "m.rules");
    if (!parsed.ok()) {
      EXPECT_FALSE(parsed.error().code.empty());
      continue;
    }
    for (const Rule& rule : *parsed) {
      ++read;
      const auto back = parse_rules(print(rule), ops::table());
      ASSERT_TRUE(back.ok()) << "seed " << seed << ": " << back.error().to_string() << "\n" << print(rule);
      ASSERT_EQ(print(back->front()), print(rule)) << "seed " << seed;
      if (seed % 8 == 0) use(rule, r);
    }
  }
  EXPECT_GT(read, 100u);
}

TEST(RuleTextMutation, TasoTextIsReadOrRefused) {
  const std::string good =
      "rule 1\n %0 = matmul(?a, ?d); %1 = concat(?d, %0) {rank=2, axis=0}; %2 = matmul(%1, ?e); return %2\n"
      " => %0 = matmul(?d, ?e); %1 = matmul(?a, %0); %2 = concat(%0, %1) {rank=2, axis=0}; return %2\n"
      "rule 2\n %0 = relu(?g); %1 = relu(?h); return %0, %1\n"
      " => %0 = concat(?g, ?h) {rank=4, axis=0}; %1 = relu(%0); %2 = split(%1) {axis=0}; return %2.0, %2.1\n";
  for (uint64_t seed = 1; seed <= 4000; ++seed) {
    Random r(seed);
    std::string text = good;
    mutate(text, r);
    const auto rules = read_taso(text, ops::table());
    EXPECT_TRUE(rules.ok() || !rules.error().code.empty());
  }
}

}  // namespace
}  // namespace isomer::rewrite
