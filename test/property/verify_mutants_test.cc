// Soundness of the prover: right rules with a change at random. A mutant may stay right or become wrong, but none may be
// proved and refuted at once. The seed is printed; a failure prints the rule.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "base/random.h"
#include "ops/table.h"
#include "rewrite/instantiate.h"
#include "rewrite/library.h"
#include "test/setting.h"
#include "verify/rule.h"

namespace isomer::verify {
namespace {

using rewrite::Operand;
using rewrite::Rule;
using rewrite::Size;

// Every size that a side writes: attributes and operands.
std::vector<Size*> sizes(rewrite::Side& side) {
  std::vector<Size*> out;
  for (rewrite::Call& c : side.calls) {
    for (auto& [name, term] : c.attrs) {
      if (auto* one = std::get_if<Size>(&term)) out.push_back(one);
      if (auto* list = std::get_if<rewrite::SizeList>(&term))
        for (rewrite::SizeItem& i : *list)
          if (i.kind == rewrite::SizeItem::Kind::One) out.push_back(&i.size);
    }
    for (Operand& o : c.inputs)
      for (rewrite::SizeItem& i : o.sizes)
        if (i.kind == rewrite::SizeItem::Kind::One) out.push_back(&i.size);
  }
  return out;
}

bool change_size(Rule& r, Random& random) {
  const auto all = sizes(r.rhs);
  if (all.empty()) return false;
  Size& s = *all[random.below(all.size())];
  s = Size::binary(random.flip() ? Size::Kind::Add : Size::Kind::Sub, s, Size(1));
  return true;
}

// Moves one from a size of a list to another of the same list, so that shapes often stay as they are.
bool shift_size(Rule& r, Random& random) {
  const auto all = sizes(r.rhs);
  if (all.size() < 2) return false;
  const size_t i = random.below(all.size()), j = random.below(all.size());
  if (i == j) return false;
  *all[i] = Size::binary(Size::Kind::Add, *all[i], Size(1));
  *all[j] = Size::binary(Size::Kind::Sub, *all[j], Size(1));
  return true;
}

bool swap_sizes(Rule& r, Random& random) {
  const auto all = sizes(r.rhs);
  if (all.size() < 2) return false;
  const size_t i = random.below(all.size()), j = random.below(all.size());
  if (*all[i] == *all[j]) return false;
  std::swap(*all[i], *all[j]);
  return true;
}

bool swap_operands(Rule& r, Random& random) {
  rewrite::Call& c = r.rhs.calls[random.below(r.rhs.calls.size())];
  if (c.inputs.size() < 2) return false;
  const size_t i = random.below(c.inputs.size()), j = random.below(c.inputs.size());
  if (c.inputs[i] == c.inputs[j]) return false;
  std::swap(c.inputs[i], c.inputs[j]);
  return true;
}

bool other_input(Rule& r, Random& random) {
  rewrite::Call& c = r.rhs.calls[random.below(r.rhs.calls.size())];
  if (c.inputs.empty()) return false;
  Operand& o = c.inputs[random.below(c.inputs.size())];
  if (o.kind != Operand::Kind::Input || r.inputs.size() < 2) return false;
  o.id = (o.id + 1) % static_cast<uint32_t>(r.inputs.size());
  return true;
}

bool other_operator(Rule& r, Random& random) {
  static constexpr std::string_view kFamilies[][5] = {
      {"add", "sub", "mul", "max", "div"},
      {"relu", "tanh", "sigmoid", "exp", "abs"},
      {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_sum"},
      {"max_pool", "average_pool", "max_pool", "average_pool", "lp_pool"}};
  rewrite::Call& c = r.rhs.calls[random.below(r.rhs.calls.size())];
  for (const auto& family : kFamilies)
    for (const std::string_view member : family)
      if (c.op->name == member) {
        const std::string_view other = family[random.below(5)];
        if (other == member) return false;
        c.op = ops::table().find(other);
        return true;
      }
  return false;
}

bool other_axis(Rule& r, Random& random) {
  rewrite::Call& c = r.rhs.calls[random.below(r.rhs.calls.size())];
  for (auto& [name, term] : c.attrs) {
    auto* value = std::get_if<ir::AttrValue>(&term);
    if (!value) continue;
    if (auto* axis = std::get_if<int64_t>(value); axis && name == "axis") {
      *axis = *axis == 0 ? 1 : 0;
      return true;
    }
    if (auto* perm = std::get_if<std::vector<int64_t>>(value); perm && name == "perm") {
      std::swap((*perm)[random.below(perm->size())], (*perm)[random.below(perm->size())]);
      return true;
    }
  }
  return false;
}

bool drop_condition(Rule& r, Random& random) {
  if (r.conditions.empty()) return false;
  r.conditions.erase(r.conditions.begin() + static_cast<ptrdiff_t>(random.below(r.conditions.size())));
  return true;
}

std::optional<Rule> mutant(const Rule& rule, Random& random) {
  using Mutator = bool (*)(Rule&, Random&);
  static constexpr Mutator kAll[] = {change_size,    shift_size,  swap_sizes, swap_operands,
                                     other_operator, other_input, other_axis, drop_condition};
  for (int tries = 0; tries < 60; ++tries) {
    Rule r = rule;
    if (!kAll[random.below(std::size(kAll))](r, random)) continue;
    if (!rewrite::check_types(r, ops::table()).ok()) continue;
    return r;
  }
  return std::nullopt;
}

TEST(VerifyMutants, NoneIsProvedAndRefuted) {
  const uint64_t seed = testing::setting("ISOMER_SEED", 20240611);
  const size_t per_rule = testing::setting("ISOMER_MUTANTS", 4);
  const auto library =
      rewrite::load_rules(ISOMER_SOURCE_DIR "/test/rules/right.rules", ops::table(), rewrite::Trust::AsWritten);
  ASSERT_TRUE(library.ok());
  std::vector<Rule> mutants;
  Random random(seed);
  for (const Rule& r : library->rules)
    for (size_t k = 0; k < per_rule; ++k)
      if (auto m = mutant(r, random)) {
        m->name += fmt::format("-{}", k);
        mutants.push_back(*std::move(m));
      }
  Options refute, prove;
  refute.prove = false;
  prove.refute = false;
  const auto refuted = verify_rules(mutants, ops::table(), refute);
  const auto proved = verify_rules(mutants, ops::table(), prove);
  size_t wrong = 0, right = 0;
  std::vector<Rule> open;
  for (size_t i = 0; i < mutants.size(); ++i) {
    EXPECT_FALSE(refuted[i].verdict.refuted() && proved[i].verdict.proved())
        << "seed " << seed << "\n"
        << rewrite::print(mutants[i]) << refuted[i].verdict.to_string();
    wrong += refuted[i].verdict.refuted();
    right += proved[i].verdict.proved();
    if (!refuted[i].verdict.refuted() && !proved[i].verdict.proved()) open.push_back(mutants[i]);
  }
  fmt::print("seed {}: {} mutants, {} refuted, {} proved for all sizes, {} neither\n", seed, mutants.size(), wrong,
             right, open.size());
  // What the first search and the proof for all sizes leave open, the longer search or a weaker proof decides.
  std::map<std::string, size_t> kinds;
  std::string undecided;
  const auto decided = verify_rules(open, ops::table());
  for (size_t i = 0; i < open.size(); ++i) {
    const RuleVerdict& v = decided[i];
    if (v.verdict.proved()) fmt::print("{}{}\n", rewrite::print(open[i]), v.verdict.to_string());
    const std::string word = v.verdict.proved() ? name(v.verdict.proof) : v.verdict.refuted() ? "refuted" : "undecided";
    ++kinds[word];
    if (word == "undecided") undecided += v.rule + ": " + v.verdict.to_string() + "\n";
  }
  for (const auto& [word, n] : kinds) fmt::print("  of these {}: {}\n", word, n);
  EXPECT_EQ(kinds["undecided"], 0U) << undecided;
  EXPECT_GE(wrong, std::min<size_t>(100, mutants.size() / 2));
}

}  // namespace
}  // namespace isomer::verify
