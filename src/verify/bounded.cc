#include "verify/bounded.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "verify/evaluation.h"
#include "verify/sample.h"
#include "verify/terms.h"

namespace isomer::verify {
namespace {

using Numbers = std::map<std::string, int64_t>;

constexpr double kMostChoices = 640;  // of sizes that are executed
constexpr int64_t kLeastBound = 3, kMostBound = 6;
constexpr int64_t kMostWork = 20000;    // scalar operations of a stage
constexpr size_t kTermBudget = 500000;  // terms that one execution handles
constexpr int kFieldSizes = 24;

double choices(const SizeSpace& space, int64_t bound) {
  double all = 1;
  for (const std::string& s : space.free())
    all *= static_cast<double>(std::max<int64_t>(0, bound - space.lower(s) + 1));
  return all;
}

// Both sides at the sizes.
struct Pair {
  enum class State : uint8_t {
    Ready,
    NoMatch,   // the left side is not well typed there, so nothing is claimed
    TooLarge,  // or rounds on the way, which neither terms nor a field can say
    Differs,   // the right side is not well typed, or has other shapes
  } state = State::Ready;
  Evaluation left, right;
};

Pair at(const Numbers& sizes, const ir::Graph& left, const ir::Graph& right, const ir::OpTable& table) {
  Bindings numbers;
  for (const auto& [name, v] : sizes) numbers[name] = Dim(v);
  Pair p;
  const auto l = at_sizes(left, numbers, table);
  const auto r = at_sizes(right, numbers, table);
  if (!l.ok())
    p.state = Pair::State::NoMatch;
  else if (!r.ok())
    p.state = Pair::State::Differs;
  else if (!p.left.load(*l, table, kMostWork).ok() || !p.right.load(*r, table, kMostWork).ok())
    p.state = Pair::State::TooLarge;
  else if (p.left.float_types().size() > 1 || p.left.float_types() != p.right.float_types())
    p.state = Pair::State::TooLarge;
  for (size_t k = 0; p.state == Pair::State::Ready && k < l->outputs().size(); ++k)
    if (p.left.dims(k) != p.right.dims(k)) p.state = Pair::State::Differs;
  return p;
}

bool real_inputs(const ir::Graph& g) {
  for (const ir::Node& n : g.inputs())
    if (!is_float(n.types[0].dtype)) return false;
  return true;
}

// The elements of all inputs, made by f(tensor, element).
template <class D, class F>
std::map<std::string, te::Array<D>> inputs_of(const Pair& p, F make) {
  std::map<std::string, te::Array<D>> out;
  for (const Evaluation* side : {&p.left, &p.right})
    for (const ir::Node& n : side->graph().inputs()) {
      if (out.contains(n.names[0])) continue;
      te::Array<D> a;
      a.dtype = n.types[0].dtype;
      a.dims = n.types[0].shape.values();
      int64_t count = 1;
      for (const int64_t d : a.dims) count *= d;
      const auto tensor = static_cast<int64_t>(out.size());
      for (int64_t i = 0; i < count; ++i) a.reals.push_back(make(tensor, i));
      out.emplace(n.names[0], std::move(a));
    }
  return out;
}

// Executes one choice of sizes on symbols. Nothing: not equal, or out of reach. Otherwise how many elements were equal.
std::optional<size_t> executed(const Pair& p, TermTable& terms) {
  TermDomain domain;
  domain.terms = &terms;
  const auto inputs = inputs_of<TermDomain>(
      p, [&](int64_t tensor, int64_t element) { return TermDomain::Real{terms.input(tensor, element)}; });
  const auto a = p.left.run(domain, inputs), b = p.right.run(domain, inputs);
  if (!a.ok() || !b.ok()) return std::nullopt;
  size_t equal = 0;
  for (size_t k = 0; k < a->size(); ++k) {
    const auto &x = (*a)[k], &y = (*b)[k];
    if (x.reals.size() != y.reals.size() || x.ints != y.ints) return std::nullopt;
    for (size_t i = 0; i < x.reals.size(); ++i)
      if (x.reals[i].id != y.reals[i].id) return std::nullopt;
    equal += x.reals.size() + x.ints.size();
  }
  return equal;
}

// Elements of the field with their degrees as polynomials of the inputs and of the results of functions, each of which is
// one more variable. A reciprocal is such a function too: x / x is 1 nowhere but where x is not 0.
struct DegreeDomain : te::FieldDomain {
  struct Real {
    te::FieldElement value;
    double degree = 0;
  };
  struct Seen {
    double degree = 0, functions = 0;
  };
  Seen* seen = nullptr;
  te::FieldDomain field = {};

  Real kept(Real r) const {
    seen->degree = std::max(seen->degree, r.degree);
    return r;
  }
  Real real(DType t, double v) const { return {field.real(t, v), 0}; }
  Real round(DType, const Real& v) const { return v; }
  std::optional<Real> to_real(DType from, const Int& v) const { return Real{*field.to_real(from, v), 0}; }
  std::optional<Int> to_int(DType, const Real&) const { return std::nullopt; }
  std::optional<Int> test(te::UnaryOp, const Real&) const { return std::nullopt; }
  std::optional<Int> compare(te::BinaryOp, const Real&, const Real&) const { return std::nullopt; }
  std::optional<Real> function(uint64_t key, const Real& a, const Real& b) const {
    ++seen->functions;
    return kept({te::scrambled(key, a.value, b.value), 1});
  }
  std::optional<Real> unary(te::UnaryOp op, const Real& x) const {
    if (op == te::UnaryOp::Neg) return Real{-x.value, x.degree};
    if (op == te::UnaryOp::Abs) return std::nullopt;
    return function(static_cast<uint64_t>(op), x, {});
  }
  std::optional<Real> binary(te::BinaryOp op, const Real& a, const Real& b) const {
    switch (op) {
      case te::BinaryOp::Add: return kept({a.value + b.value, std::max(a.degree, b.degree)});
      case te::BinaryOp::Sub: return kept({a.value - b.value, std::max(a.degree, b.degree)});
      case te::BinaryOp::Mul: return kept({a.value * b.value, a.degree + b.degree});
      case te::BinaryOp::Div: {
        if (b.degree == 0 && !b.value.is_zero()) return kept({a.value * b.value.inverse(), a.degree});
        const auto inverse = function(100 + static_cast<uint64_t>(op), b, {});
        return kept({a.value * inverse->value, a.degree + inverse->degree});
      }
      case te::BinaryOp::Max:
      case te::BinaryOp::Min: return std::nullopt;
      default: return function(100 + static_cast<uint64_t>(op), a, b);
    }
  }
};

}  // namespace

void prove_bounded(const ir::Graph& left, const ir::Graph& right, const Conditions& conditions,
                   const ir::OpTable& table, Verdict& verdict) {
  if (!real_inputs(left) || !real_inputs(right)) return;
  const SizeSpace space(left, right, conditions);
  int64_t bound = kMostBound;
  while (bound >= kLeastBound && choices(space, bound) > kMostChoices) --bound;
  if (bound < kLeastBound) return;
  const std::vector<std::string>& names = space.free();
  Numbers chosen;
  for (const std::string& s : names) {
    chosen[s] = space.lower(s);
    if (chosen[s] > bound) return;
  }
  size_t met = 0, elements = 0;
  for (bool more = true; more;) {
    if (const auto sizes = space.complete(chosen)) {
      const Pair pair = at(*sizes, left, right, table);
      if (pair.state == Pair::State::Differs || pair.state == Pair::State::TooLarge) return;
      if (pair.state == Pair::State::Ready) {
        TermTable terms(kTermBudget);
        const auto equal = executed(pair, terms);
        if (!equal) return;
        ++met;
        elements += *equal;
      }
    }
    more = false;
    for (size_t i = 0; i < names.size() && !more; ++i) {
      more = chosen[names[i]] < bound;
      chosen[names[i]] = more ? chosen[names[i]] + 1 : space.lower(names[i]);
    }
  }
  if (elements == 0) return;
  verdict.kind = Verdict::Kind::Proved;
  verdict.proof = ProofKind::Bounded;
  verdict.bound = bound;
  verdict.details = fmt::format("executed on symbols at all {} choices of sizes up to {}; for all sizes: {}", met,
                                bound, verdict.details);
}

void prove_over_field(const ir::Graph& left, const ir::Graph& right, const Conditions& conditions,
                      const ir::OpTable& table, uint64_t seed, Verdict& verdict) {
  if (!real_inputs(left) || !real_inputs(right)) return;
  const SizeSpace space(left, right, conditions);
  Random random(seed);
  DegreeDomain::Seen worst;
  int tried = 0;
  double elements = 0;
  for (int draw = 0; draw < 400 * kFieldSizes && tried < kFieldSizes; ++draw) {
    Numbers chosen;
    for (const std::string& s : space.free()) chosen[s] = space.lower(s) + random.between(0, 1 + draw % 6);
    const auto sizes = space.complete(std::move(chosen));
    if (!sizes) continue;
    const Pair pair = at(*sizes, left, right, table);
    if (pair.state == Pair::State::Differs) return;
    if (pair.state != Pair::State::Ready) continue;
    DegreeDomain domain;
    DegreeDomain::Seen seen;
    domain.seen = &seen;
    const auto inputs = inputs_of<DegreeDomain>(pair, [&](int64_t, int64_t) {
      return DegreeDomain::Real{te::FieldElement(random.below(te::FieldElement::kPrime)), 1};
    });
    const auto a = pair.left.run(domain, inputs), b = pair.right.run(domain, inputs);
    if (!a.ok() || !b.ok()) return;
    for (size_t k = 0; k < a->size(); ++k) {
      if ((*a)[k].reals.size() != (*b)[k].reals.size() || (*a)[k].ints != (*b)[k].ints) return;
      for (size_t i = 0; i < (*a)[k].reals.size(); ++i)
        if (!((*a)[k].reals[i].value == (*b)[k].reals[i].value)) return;
      elements += static_cast<double>((*a)[k].reals.size());
    }
    worst.degree = std::max(worst.degree, seen.degree);
    worst.functions = std::max(worst.functions, seen.functions);
    ++tried;
  }
  if (tried < kFieldSizes || elements == 0) return;
  // Two different elements agree at a root of their difference, or where two arguments of functions that differ agree, or
  // two results do, in one of F^2 pairs.
  verdict.error = (worst.degree + worst.functions * worst.functions * (worst.degree + 1)) /
                  static_cast<double>(te::FieldElement::kPrime);
  if (verdict.error > 1e-6) return;
  verdict.kind = Verdict::Kind::Proved;
  verdict.proof = ProofKind::Field;
  verdict.details = fmt::format(
      "equal on random elements of the field at {} random sizes; a pair that differs at one of them passes with a "
      "chance of "
      "at most {:.1e}; for all sizes: {}",
      tried, verdict.error, verdict.details);
}

}  // namespace isomer::verify
