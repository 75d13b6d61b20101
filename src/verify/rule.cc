#include "verify/rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <mutex>

#include "base/thread_pool.h"
#include "rewrite/instantiate.h"
#include "rewrite/proof.h"
#include "verify/sample.h"

namespace isomer::verify {
namespace {

Conditions conditions_of(const rewrite::Rule& rule, const rewrite::Instance& instance) {
  Conditions c;
  for (const rewrite::Symbol& s : rule.symbols) c.at_least[s.name] = s.at_least;
  for (const rewrite::Fact& f : instance.facts) {
    const Dim difference = f.right - f.left;
    switch (f.relation) {
      case rewrite::Relation::Equal: c.zero.push_back(difference); break;
      case rewrite::Relation::NotEqual: c.not_zero.push_back(difference); break;
      case rewrite::Relation::Less: c.not_negative.push_back(difference - Dim(1)); break;
      case rewrite::Relation::LessEqual: c.not_negative.push_back(difference); break;
    }
  }
  for (const rewrite::Input& i : rule.inputs) {
    if (i.content == rewrite::Content::Positive) c.positive_inputs.push_back(i.name);
    if (i.content == rewrite::Content::NonNegative) c.not_negative_inputs.push_back(i.name);
  }
  return c;
}

// A case at every kind of element type that the rule allows: reals, integers that wrap, truth values.
std::vector<rewrite::Bindings> typed_cases(const rewrite::Rule& rule) {
  const std::vector<std::vector<DType>> kinds = {{DType::F32, DType::F64, DType::F16, DType::BF16},
                                                 {DType::I64, DType::I32, DType::I16, DType::I8},
                                                 {DType::U8, DType::U16, DType::U32, DType::U64},
                                                 {DType::Bool}};
  std::vector<rewrite::Bindings> out;
  for (const rewrite::Bindings& b : rewrite::cases(rule)) {
    if (rule.types.empty()) out.push_back(b);
    for (const rewrite::TypeVariable& t : rule.types)
      for (const std::vector<DType>& kind : kinds) {
        const auto d = std::find_if(kind.begin(), kind.end(), [&](DType x) { return t.types.contains(x); });
        if (d == kind.end()) continue;
        rewrite::Bindings one = b;
        one.types[t.name] = *d;
        out.push_back(std::move(one));
      }
  }
  return out;
}

// A case with a size where only a number will do has no graph with open sizes, so it cannot be proved. At numbers it can be
// refuted.
Verdict at_numbers(const rewrite::Rule& rule, const rewrite::Bindings& chosen, const ir::OpTable& table,
                   const Options& options, std::string why) {
  Verdict v;
  v.details = std::move(why);
  constexpr int kTries = 60;
  Random random(options.seed);
  for (int i = 0; options.refute && i < kTries && !v.refuted(); ++i) {
    const auto sizes = rewrite::sample(rule, chosen, random, 1 + i % 5);
    if (!sizes) continue;
    const auto left = rewrite::instantiate_side(rule, rule.lhs, *sizes, table);
    if (!left.ok()) continue;
    const auto right = rewrite::instantiate_side(rule, rule.rhs, *sizes, table);
    Sampled sampled;
    if (right.ok())
      sampled = sample(*left, *right, conditions_of(rule, {}), table, 1, options.seed);
    else
      sampled.counterexample = Counterexample{{}, options.seed, "", 0, "type", "", right.error().message};
    if (!sampled.counterexample) continue;
    v.kind = Verdict::Kind::Refuted;
    v.details.clear();
    v.counterexample = std::move(sampled.counterexample);
    v.counterexample->sizes = sizes->sizes;
  }
  return v;
}

// Of two proofs of one kind.
bool weaker(const Verdict& a, const Verdict& b) {
  return a.proof == ProofKind::AllSizes || (a.proof == ProofKind::Bounded ? a.bound < b.bound : a.error > b.error);
}

rewrite::Proof::Kind kind_of(ProofKind kind) {
  switch (kind) {
    case ProofKind::AllSizes: return rewrite::Proof::Kind::AllSizes;
    case ProofKind::Bounded: return rewrite::Proof::Kind::Bounded;
    case ProofKind::Field: return rewrite::Proof::Kind::Field;
  }
  return rewrite::Proof::Kind::Field;
}

}  // namespace

RuleVerdict verify_rule(const rewrite::Rule& rule, const ir::OpTable& table, const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  RuleVerdict out;
  out.rule = rule.name;
  Hasher basis;
  const std::vector<rewrite::Bindings> all = typed_cases(rule);
  out.cases = all.size();
  out.verdict.kind = Verdict::Kind::Proved;
  uint64_t queries = 0;
  Options claimed = options;
  claimed.same_arithmetic = rule.numeric == rewrite::NumericClass::Exact;
  for (const rewrite::Bindings& b : all) {
    Verdict v;
    const auto instance = rewrite::instantiate(rule, b, table);
    if (instance.ok()) {
      v = prove_equal(instance->lhs, instance->rhs, conditions_of(rule, *instance), table, claimed);
    } else {
      v = at_numbers(rule, b, table, options, instance.error().to_string());
    }
    queries += v.queries;
    basis.add(v.basis);
    const bool proved = v.proved();
    // The whole is as strong as its weakest case.
    if (!proved || v.proof > out.verdict.proof || (v.proof == out.verdict.proof && weaker(v, out.verdict))) {
      out.verdict = std::move(v);
      if (all.size() > 1) out.where = b.to_string();
    }
    if (!proved) break;
  }
  out.verdict.queries = queries;
  out.verdict.basis = basis.digest().hex();
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return out;
}

std::vector<RuleVerdict> verify_rules(const std::vector<rewrite::Rule>& rules, const ir::OpTable& table,
                                      const Options& options, int threads,
                                      const std::function<void(const RuleVerdict&)>& done) {
  std::vector<RuleVerdict> out(rules.size());
  std::mutex mutex;
  ThreadPool pool(threads);
  pool.run(static_cast<int>(rules.size()), [&](int i) {
    const auto k = static_cast<size_t>(i);
    out[k] = verify_rule(rules[k], table, options);
    if (!done) return;
    const std::lock_guard lock(mutex);
    done(out[k]);
  });
  return out;
}

std::optional<rewrite::Proof> proof_of(const rewrite::Rule& rule, const RuleVerdict& v, const ir::OpTable& table) {
  if (!v.verdict.proved()) return std::nullopt;
  rewrite::Proof p;
  p.kind = kind_of(v.verdict.proof);
  p.bound = v.verdict.bound;
  p.error = v.verdict.error;
  p.rule = rewrite::rule_hash(rule).hex();
  rewrite::OperatorHashes operators(table);
  p.operators = operators.of(rule).hex();
  p.prover = fmt::format("{}", kProverVersion);
  return p;
}

}  // namespace isomer::verify
