// Every rule of the library on random graphs: the pattern at random sizes that meet the conditions is matched, rewritten
// and run before and after in the interpreter. With conditions violated the matcher declines and says why.
//   ISOMER_SEED=n   starts from another seed; a failure prints the one to give
//   ISOMER_CASES=n  instances per rule
//   ISOMER_RULE=s   only the rule of this name
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "interp/interp.h"
#include "ir/text.h"
#include "ops/table.h"
#include "rewrite/apply.h"
#include "rewrite/instantiate.h"
#include "rewrite/library.h"
#include "tensor/random_fill.h"
#include "test/setting.h"

namespace isomer::rewrite {
namespace {

const RuleLibrary& library() {
  static const RuleLibrary rules = [] {
    auto loaded = load_rules(ISOMER_SOURCE_DIR "/rules", ops::table(), Trust::AsWritten);
    EXPECT_TRUE(loaded.ok()) << loaded.error().to_string();
    return loaded.ok() ? *std::move(loaded) : RuleLibrary();
  }();
  return rules;
}

bool wanted(const Rule& rule) {
  const char* only = std::getenv("ISOMER_RULE");
  return !only || rule.name == only;
}

Tensor contents(const Type& type, Content content, Random& random) {
  FillRange range;
  if (content == Content::Positive || content == Content::NonZero) range.low = 0.25;
  if (content == Content::NonNegative) range.low = 0;
  range.int_low = -5;
  return random_tensor(type.dtype, type.shape.values(), random, range);
}

// The pattern as a graph of its own; inputs whose contents the rule asks about are constants unless `open`.
Expected<ir::Graph> host(const Rule& rule, const Bindings& b, Random& random, bool open = false) {
  ISOMER_TRY(const ir::Graph plain, instantiate_side(rule, rule.lhs, b, ops::table()));
  ir::GraphBuilder builder(ops::table(), "host");
  builder.set_verbatim(true);
  std::vector<uint32_t> at(plain.nodes().size());
  const auto constant = [&](uint32_t id) { return !open && rule.inputs[id].content != Content::Any; };
  for (uint32_t id = 0; id < plain.input_count(); ++id) {
    if (constant(id)) continue;
    ISOMER_TRY(const ir::Value v, builder.input(plain.node(id).names[0], plain.node(id).types[0]));
    at[id] = v.node;
  }
  for (uint32_t id = 0; id < plain.nodes().size(); ++id) {
    const ir::Node& n = plain.node(id);
    if (n.op == &ir::input_op()) {
      if (constant(id))
        at[id] = builder.constant(contents(n.types[0], rule.inputs[id].content, random), n.names[0]).node;
    } else if (n.op == &ir::const_op()) {
      at[id] = builder.constant(*n.attrs.get<Tensor>("value"), n.names[0]).node;
    } else {
      std::vector<ir::Value> inputs;
      for (const ir::Value& v : n.inputs) inputs.push_back(v.is_none() ? v : ir::Value{at[v.node], v.index});
      ISOMER_TRY(const auto results, builder.add(*n.op, inputs, n.attrs, {n.names, "", {}}, n.types.size()));
      at[id] = results[0].node;
    }
  }
  for (const ir::Output& o : plain.outputs()) builder.output(o.name, {at[o.value.node], o.value.index});
  return std::move(builder).finish();
}

// "" when both graphs give the same values on random inputs.
std::string difference(const ir::Graph& a, const ir::Graph& b, Random& random) {
  std::vector<Tensor> inputs;
  for (const ir::Node& n : a.inputs()) inputs.push_back(contents(n.types[0], Content::Any, random));
  interp::Options wide;
  wide.wide = true;
  wide.threads = 1;
  const auto x = interp::run(a, ops::table(), inputs, wide), y = interp::run(b, ops::table(), inputs, wide);
  if (!x.ok()) return "the pattern cannot be run: " + x.error().to_string();
  if (!y.ok()) return "the replacement cannot be run: " + y.error().to_string();
  for (size_t k = 0; k < x->size(); ++k) {
    const Tensor &p = (*x)[k], &q = (*y)[k];
    if (p.dims() != q.dims() || p.dtype() != q.dtype()) return "an output has another type";
    for (int64_t e = 0; e < p.size(); ++e) {
      const double u = p.real(e), v = q.real(e);
      if (u == v || (std::isnan(u) && std::isnan(v))) continue;
      if (!(std::abs(u - v) <= 1e-9 * (1 + std::abs(u))))
        return fmt::format("output {} at {}: {} against {}", k, e, u, v);
    }
  }
  return "";
}

// One instance; "" when all is well, "skip" when the sizes make no graph.
std::string run_instance(const Rule& rule, const Matcher& matcher, AttrHabitTable& habits, const Bindings& b,
                         uint64_t seed) {
  Random random(seed);
  const auto before = host(rule, b, random);
  if (!before.ok()) return "skip";
  EditGraph edit(*before, ops::table(), habits);
  const auto matches = matcher.all(edit);
  if (matches.empty()) {
    const auto why = matcher.explain(edit, 0);
    return "no match: " + (why.empty() ? std::string("no node of the last operator") : why[0].reason);
  }
  const auto done = apply(edit, rule, matches[random.below(matches.size())]);
  if (!done.ok()) return done.error().to_string();
  const auto after = edit.graph();
  if (!after.ok()) return after.error().to_string();
  const std::string why = difference(*before, *after, random);
  return why.empty() ? "" : why + "\n" + ir::print(*before) + ir::print(*after);
}

TEST(Rules, HoldOnRandomInstances) {
  const uint64_t seed = testing::setting("ISOMER_SEED", 20260714), count = testing::setting("ISOMER_CASES", 24);
  std::printf("seed %llu, %llu instances of %zu rules\n", static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(count), library().rules.size());
  AttrHabitTable habits(ops::table());
  for (const Rule& rule : library().rules) {
    if (!wanted(rule)) continue;
    const Matcher matcher({&rule}, habits);
    const std::vector<Bindings> all = cases(rule);
    Random random(seed);
    uint64_t done = 0;
    for (uint64_t i = 0; i < 40 * count && done < count; ++i) {
      Bindings chosen = all[random.below(all.size())];
      for (const TypeVariable& t : rule.types)
        if (random.flip(0.2) && t.types.contains(DType::F64)) chosen.types[t.name] = DType::F64;
      for (const AttrVariable& a : rule.attributes)
        if (a.domain.empty())
          chosen.attributes[a.name] = 0.125 * static_cast<double>(random.between(1, 8));  // exact in f32
      const auto b = sample(rule, chosen, random);
      if (!b) continue;
      const std::string why = run_instance(rule, matcher, habits, *b, seed + i);
      if (why == "skip") continue;
      ++done;
      ASSERT_EQ(why, "") << "rule " << rule.name << " at " << b->to_string() << ", ISOMER_SEED=" << seed;
    }
    EXPECT_GE(done, std::min<uint64_t>(count, 10)) << "rule " << rule.name << " has too few instances";
  }
}

TEST(Rules, AreDeclinedWhereAConditionFails) {
  AttrHabitTable habits(ops::table());
  size_t checked = 0;
  for (const Rule& rule : library().rules) {
    if (!wanted(rule)) continue;
    const Matcher matcher({&rule}, habits);
    const std::vector<Bindings> all = cases(rule);
    Random random(7);
    // The rule without its conditions gives sizes that may break them.
    Rule loose = rule;
    loose.conditions.clear();
    for (int i = 0; i < 20 && !rule.conditions.empty(); ++i) {
      const auto b = sample(loose, all[random.below(all.size())], random);
      if (!b) continue;
      SizeValues v;
      for (const Symbol& s : rule.symbols) v.symbols.push_back(b->sizes.at(s.name));
      for (const ListSymbol& l : rule.lists) v.lists.emplace_back(std::vector<int64_t>(b->lengths.at(l.name), 1));
      if (admits(rule, v)) continue;
      const auto graph = host(rule, *b, random);
      if (!graph.ok()) continue;
      EditGraph edit(*graph, ops::table(), habits);
      ASSERT_TRUE(matcher.all(edit).empty()) << rule.name << " at " << b->to_string();
      const auto why = matcher.explain(edit, 0);
      ASSERT_FALSE(why.empty()) << rule.name;
      EXPECT_FALSE(why[0].reason.empty()) << rule.name;
      ++checked;
    }
    const bool asks =
        std::any_of(rule.inputs.begin(), rule.inputs.end(), [](const Input& i) { return i.content != Content::Any; });
    for (int i = 0; i < 20 && asks; ++i) {
      const auto b = sample(rule, all[random.below(all.size())], random);
      const auto graph = b ? host(rule, *b, random, true) : Expected<ir::Graph>(Diagnostic("E-rule-open", ""));
      if (!graph.ok()) continue;
      EditGraph edit(*graph, ops::table(), habits);
      ASSERT_TRUE(matcher.all(edit).empty()) << rule.name << " takes inputs for constants";
      const auto why = matcher.explain(edit, 0);
      ASSERT_FALSE(why.empty()) << rule.name;
      EXPECT_NE(why[0].reason.find("is no constant"), std::string::npos) << rule.name << ": " << why[0].reason;
      ++checked;
    }
  }
  EXPECT_GT(checked, std::getenv("ISOMER_RULE") ? 0u : 100u);
}

TEST(Rules, ComeBackFromTheirText) {
  for (const Rule& rule : library().rules) {
    const std::string text = print(rule);
    const auto back = parse_rules(text, ops::table());
    ASSERT_TRUE(back.ok()) << back.error().to_string() << "\n" << text;
    EXPECT_EQ(print(back->front()), text);
  }
}

}  // namespace
}  // namespace isomer::rewrite
