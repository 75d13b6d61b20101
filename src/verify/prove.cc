#include "verify/prove.h"

#include <fmt/format.h>

#include "verify/bounded.h"
#include "verify/meaning.h"
#include "verify/sample.h"
#include "verify/zero.h"

namespace isomer::verify {

const char* name(ProofKind kind) {
  switch (kind) {
    case ProofKind::AllSizes: return "all sizes";
    case ProofKind::Bounded: return "bounded";
    case ProofKind::Field: return "field";
  }
  return "";
}

std::string Counterexample::to_string() const {
  std::vector<std::string> at;
  for (const auto& [name, v] : sizes) at.push_back(fmt::format("{}={}", name, v));
  if (element == "shape")
    return fmt::format("at {}: output {} is {} on the left and {} on the right", fmt::join(at, " "), output, left,
                       right);
  if (element == "type")
    return fmt::format("at {}: the left side is well typed and the right is not: {}", fmt::join(at, " "), right);
  return fmt::format("at {}, inputs {} from seed {}: element {} of output {} is {} on the left and {} on the right",
                     fmt::join(at, " "), inputs, seed, element, output, left, right);
}

std::string Verdict::to_string() const {
  switch (kind) {
    case Kind::Proved: return fmt::format("proved ({}){}", verify::name(proof), details.empty() ? "" : ": " + details);
    case Kind::Refuted:
      return "refuted: " + details + (details.empty() || !counterexample ? "" : ": ") +
             (counterexample ? counterexample->to_string() : "");
    case Kind::Unknown: return "unknown: " + details;
    case Kind::Unsupported: return "unsupported: " + details;
  }
  return "";
}

namespace {

// One attempt at a proof; what it throws is handled by its caller.
class Proof {
 public:
  Proof(const ir::Graph& left, const ir::Graph& right, const Conditions& conditions, const ir::OpTable& table,
        const Options& options)
      : left_(left), right_(right), conditions_(conditions), table_(table), options_(options) {}

  // Nothing: proved. Otherwise why not. `cases` are differences of sizes that are taken to be 0 or more.
  std::optional<std::string> run(const Guards& cases, bool unroll, Verdict& verdict) {
    Atoms& atoms = atoms_;
    Solver solver(atoms, options_.queries);
    Heads heads;
    for (const auto* inputs : {&conditions_.positive_inputs, &conditions_.not_negative_inputs})
      for (const std::string& name : *inputs) heads.set_not_negative(heads.of(name));
    Sizes sizes{&atoms, &solver, cases, conditions_.at_least};
    for (const Dim& d : conditions_.not_negative) sizes.side.push_back(sizes.poly(d));
    for (const Dim& d : conditions_.zero) {
      const Poly p = sizes.poly(d);
      sizes.side.push_back(p);
      sizes.side.push_back(-p);
    }
    if (!tidy(atoms, sizes.side) || solver.infeasible(sizes.side)) return std::nullopt;
    Meaning left(sizes, heads), right(sizes, heads);
    if (const auto ok = left.load(left_, table_); !ok.ok()) return "left side: " + ok.error().message;
    if (const auto ok = right.load(right_, table_); !ok.ok()) return "right side: " + ok.error().message;
    // A match is well typed: no extent of the left side is below 0.
    for (const Poly& e : left.all_extents()) sizes.side.push_back(e);
    if (!tidy(atoms, sizes.side)) return std::nullopt;
    if (verdict.basis.empty()) verdict.basis = hash_bytes_of(left.programs() + right.programs());
    ZeroTest test(solver, heads);
    test.set_unroll(unroll);
    std::optional<std::string> why;
    for (size_t k = 0; k < left.outputs() && !why; ++k) why = output(k, left, right, sizes, heads, test, verdict);
    verdict.queries += solver.stats().queries;
    return why;
  }

 private:
  static std::string hash_bytes_of(const std::string& s) { return hash_bytes(s.data(), s.size()).hex(); }

  std::optional<std::string> output(size_t k, Meaning& left, Meaning& right, Sizes& sizes, Heads& heads, ZeroTest& test,
                                    Verdict& verdict) {
    Atoms& atoms = *sizes.atoms;
    const std::vector<Poly> a = left.dims(k), b = right.dims(k);
    if (a.size() != b.size()) return fmt::format("output {} has two ranks", k);
    for (size_t i = 0; i < a.size(); ++i)
      if (!sizes.solver->entails_zero(sizes.side, a[i] - b[i]))
        return fmt::format("output {}: extents {} and {} of axis {} are not seen to be equal", k, atoms.to_string(a[i]),
                           atoms.to_string(b[i]), i);
    Guards context = sizes.side;
    std::vector<Poly> index;
    for (size_t i = 0; i < a.size(); ++i) {
      index.push_back(Poly::atom(atoms.fresh(AtomKind::Free, fmt::format("o{}", i))));
      context.push_back(index.back());
      context.push_back(a[i] - Poly(1) - index.back());
    }
    test.simplifier().tighten(context);
    const Form l = left.element(k, index, context), r = right.element(k, index, context);
    if (options_.keep_forms) {
      verdict.forms.push_back(to_string(atoms, heads, test.simplifier().form(l, context)));
      verdict.forms.push_back(to_string(atoms, heads, test.simplifier().form(r, context)));
    }
    const Form difference = add(l, scale(r, -1));
    if (test.zero(difference, context)) return std::nullopt;
    if (!heads.wrapping() && by_order(difference, context, heads, test, 0)) return std::nullopt;
    return fmt::format("output {}: the two sides do not cancel: {}", k, test.leftover());
  }

  // By cases of the order of values, where maxima, absolute values and selections stand in the way.
  bool by_order(const Form& difference, const Guards& context, const Heads& heads, ZeroTest& test, int depth) {
    constexpr int kMostDepth = 5;
    if (depth > 0 && (test.simplifier().order().impossible() || test.zero(difference, context))) return true;
    Order& order = test.simplifier().order();
    const Form simpler = test.simplifier().form(difference, context);
    // Two values that a case takes to be equal need not be written alike.
    if (depth > 0 && order.not_negative(simpler) && order.not_negative(scale(simpler, -1))) return true;
    if (depth == kMostDepth) return false;
    const auto question = order_question(atoms_, heads, simpler);
    if (!question) return false;
    const size_t mark = order.mark();
    enum class Case : uint8_t { Above, Below, Zero };
    for (const Case c : {Case::Above, Case::Below, Case::Zero}) {
      if (c == Case::Zero && !question->touching) continue;
      if (c != Case::Below) order.assume(question->of, c == Case::Above && question->touching);
      if (c != Case::Above) order.assume(scale(question->of, -1), c == Case::Below && question->touching);
      const bool held = by_order(c == Case::Zero ? where_zero(difference, question->of) : difference, context, heads,
                                 test, depth + 1);
      order.restore(mark);
      if (!held) return false;
    }
    return true;
  }

  const ir::Graph &left_, &right_;
  const Conditions& conditions_;
  const ir::OpTable& table_;
  const Options& options_;
  Atoms atoms_;
};

// Proves by cases where a size is the larger or smaller of two.
std::optional<std::string> by_cases(Proof& proof, const Guards& cases, bool unroll, Verdict& verdict) {
  try {
    return proof.run(cases, unroll, verdict);
  } catch (const NeedsCase& c) {
    if (cases.size() >= 5) return "too many cases of sizes";
    for (const bool more : {true, false}) {
      Guards one = cases;
      one.push_back(more ? c.difference : -c.difference - Poly(1));
      if (auto why = by_cases(proof, one, unroll, verdict)) return why;
    }
    return std::nullopt;
  } catch (const GiveUp& g) {
    return g.reason;
  }
}

void attempt(const ir::Graph& left, const ir::Graph& right, const Conditions& conditions, const ir::OpTable& table,
             const Options& options, Verdict& verdict) {
  try {
    Proof proof(left, right, conditions, table, options);
    for (const bool unroll : {false, true}) {
      const auto why = by_cases(proof, {}, unroll, verdict);
      if (!why) {
        verdict.kind = Verdict::Kind::Proved;
        verdict.details.clear();
        return;
      }
      if (verdict.details.empty()) verdict.details = *why;
      verdict.kind = Verdict::Kind::Unknown;
      if (options.keep_forms && verdict.forms.size() > 2 * left.outputs().size())
        verdict.forms.resize(2 * left.outputs().size());
    }
  } catch (const Unsupported& u) {
    verdict.kind = Verdict::Kind::Unsupported;
    verdict.details = u.op + ": " + u.reason;
  }
}

// What the proof for all sizes did not reach: a longer search for a counterexample, then the weaker proofs.
void fall_back(const ir::Graph& left, const ir::Graph& right, const Conditions& conditions, const ir::OpTable& table,
               const Options& options, Verdict& verdict) {
  constexpr int kTrials = 120;
  constexpr int64_t kReach = 8;
  Sampled sampled = sample(left, right, conditions, table, kTrials, options.seed + 1000, kReach);
  if (sampled.counterexample) {
    verdict.kind = Verdict::Kind::Refuted;
    verdict.details.clear();
    verdict.counterexample = std::move(sampled.counterexample);
    return;
  }
  if (sampled.compared == 0) return;
  prove_bounded(left, right, conditions, table, verdict);
  if (!verdict.proved()) prove_over_field(left, right, conditions, table, options.seed + 2000, verdict);
}

}  // namespace

Verdict prove_equal(const ir::Graph& left, const ir::Graph& right, const Conditions& conditions,
                    const ir::OpTable& table, const Options& options) {
  Verdict verdict;
  const auto unknown = [&](std::string why) {
    verdict.kind = Verdict::Kind::Unknown;
    verdict.details = std::move(why);
    return verdict;
  };
  if (left.outputs().size() != right.outputs().size()) return unknown("the sides have different numbers of outputs");
  for (const ir::Node& n : right.inputs())
    for (const ir::Node& m : left.inputs())
      if (n.names[0] == m.names[0] && !(n.types[0] == m.types[0]))
        return unknown(fmt::format("input {} has two types", n.names[0]));
  for (size_t k = 0; k < left.outputs().size(); ++k)
    if (left.type(left.outputs()[k].value).dtype != right.type(right.outputs()[k].value).dtype)
      return unknown(fmt::format("output {} has two element types", k));
  if (options.refute) {
    Sampled sampled = sample(left, right, conditions, table, options.trials, options.seed);
    if (sampled.counterexample) {
      verdict.kind = Verdict::Kind::Refuted;
      verdict.counterexample = std::move(sampled.counterexample);
      return verdict;
    }
    if (options.same_arithmetic && sampled.rounded) {
      verdict.kind = Verdict::Kind::Refuted;
      verdict.details = "not the same arithmetic ('reassociating' may be meant)";
      verdict.counterexample = std::move(sampled.rounded);
      return verdict;
    }
    // Conditions that nothing meets would prove anything.
    if (sampled.tried == 0) return unknown("no sizes were found that meet the conditions: " + sampled.why_not);
  }
  if (!options.prove) return unknown("no proof was asked for");
  const Solved solved = solve_equations(conditions);
  const auto l = at_sizes(left, solved.bindings, table), r = at_sizes(right, solved.bindings, table);
  if (!l.ok()) return unknown("left side: " + l.error().message);
  if (!r.ok()) return unknown("right side: " + r.error().message);
  attempt(*l, *r, solved.rest, table, options, verdict);
  if (!verdict.proved() && options.weaker && options.refute)
    fall_back(left, right, conditions, table, options, verdict);
  return verdict;
}

}  // namespace isomer::verify
