#include "verify/linear_solver.h"

#include <z3++.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>

namespace isomer::verify {
namespace {

// With more products of guards than this, only those over known monomials are told.
constexpr size_t kMaxProducts = 400, kManyFacts = 16;

// What Z3 is told.
class Encoding {
 public:
  Encoding(const Atoms& atoms, z3::context& context, z3::solver& solver)
      : atoms_(atoms), context_(context), solver_(solver) {}

  void add(const Guards& s);
  const std::map<Monomial, z3::expr>& variables() const { return variables_; }

 private:
  const z3::expr& variable(const Monomial& m);
  z3::expr term(const Poly& p);
  // g * h >= 0 for pairs of facts. A product may bring in a monomial when another one speaks of it too.
  void products(const Guards& facts);
  // m = v * rest with rest a product of sizes: the integer v is positive, negative or zero, and m follows it.
  void signs(const Monomial& m);

  const Atoms& atoms_;
  z3::context& context_;
  z3::solver& solver_;
  std::map<Monomial, z3::expr> variables_;
  size_t degree_ = 0;
};

void Encoding::add(const Guards& s) {
  for (const Poly& p : s)
    for (const auto& [m, c] : p.terms())
      if (!m.empty()) variable(m), degree_ = std::max(degree_, m.size());
  std::set<AtomId> plain;
  for (const auto& [m, v] : variables_) plain.insert(m.begin(), m.end());
  Guards facts = s;
  for (AtomId a : plain) {
    if (atoms_[a].kind != AtomKind::Size) continue;
    variable({a});
    facts.push_back(Poly::atom(a) - Poly(atoms_[a].lower));
  }
  for (AtomId a : plain) variable({a});
  for (const Poly& p : facts) solver_.add(term(p) >= 0);
  if (degree_ < 2) return;
  // Products of sizes that occur count as factors too: 0 <= r < b gives C * b * r < C * b * b.
  std::set<Monomial> of_sizes;
  for (const auto& [m, v] : variables_) {
    Monomial part;
    for (AtomId a : m)
      if (atoms_[a].kind == AtomKind::Size && atoms_[a].lower >= 0) part.push_back(a);
    if (part.size() >= 2 && part.size() < degree_) of_sizes.insert(std::move(part));
  }
  for (const Monomial& m : of_sizes) {
    Poly p;
    p.add_term(m, 1);
    facts.push_back(std::move(p));
  }
  products(facts);
  std::vector<Monomial> known;
  for (const auto& [m, v] : variables_) known.push_back(m);
  for (const Monomial& m : known)
    if (m.size() >= 2) signs(m);
}

const z3::expr& Encoding::variable(const Monomial& m) {
  auto it = variables_.find(m);
  if (it == variables_.end()) {
    std::string name = "m";
    for (AtomId a : m) name += "_" + std::to_string(a);
    it = variables_.emplace(m, context_.real_const(name.c_str())).first;
  }
  return it->second;
}

z3::expr Encoding::term(const Poly& p) {
  z3::expr_vector parts(context_);
  for (const auto& [m, c] : p.terms()) {
    const z3::expr k = context_.real_val(c);
    parts.push_back(m.empty() ? k : c == 1 ? variable(m) : k * variable(m));
  }
  if (parts.empty()) return context_.real_val(0);
  return parts.size() == 1 ? parts[0] : z3::sum(parts);
}

void Encoding::products(const Guards& facts) {
  std::vector<Poly> all;
  const auto brings_new = [&](const Poly& p) {
    return std::any_of(p.terms().begin(), p.terms().end(),
                       [&](const auto& t) { return !t.first.empty() && !variables_.contains(t.first); });
  };
  const bool many = facts.size() > kManyFacts;
  for (size_t i = 0; i < facts.size(); ++i)
    for (size_t j = i; j < facts.size(); ++j) {
      const size_t degree = facts[i].degree() + facts[j].degree();
      if (degree > degree_ || degree < 2 || facts[i].terms().size() * facts[j].terms().size() > 64) continue;
      Poly p = facts[i] * facts[j];
      // Among many facts, a guard is multiplied into new monomials by sizes alone.
      if (many && !atoms_.sizes_only(facts[i]) && !atoms_.sizes_only(facts[j]) && brings_new(p)) continue;
      all.push_back(std::move(p));
    }
  for (bool shrunk = true; shrunk;) {
    shrunk = false;
    std::map<Monomial, int> uses;
    for (const Poly& p : all)
      for (const auto& [m, c] : p.terms()) ++uses[m];
    const size_t before = all.size();
    std::erase_if(all, [&](const Poly& p) {
      return std::any_of(p.terms().begin(), p.terms().end(), [&](const auto& t) {
        return !t.first.empty() && !variables_.contains(t.first) && uses[t.first] < 2;
      });
    });
    shrunk = all.size() < before;
  }
  if (all.size() > kMaxProducts) std::erase_if(all, brings_new);
  for (const Poly& p : all) solver_.add(term(p) >= 0);
}

void Encoding::signs(const Monomial& m) {
  for (size_t i = 0; i < m.size(); ++i) {
    if (atoms_[m[i]].kind == AtomKind::Size) continue;
    Monomial rest = m;
    rest.erase(rest.begin() + static_cast<ptrdiff_t>(i));
    const bool sizes = std::all_of(rest.begin(), rest.end(),
                                   [&](AtomId a) { return atoms_[a].kind == AtomKind::Size && atoms_[a].lower >= 0; });
    if (!sizes) continue;
    const z3::expr v = variable({m[i]}), r = variable(rest), x = variable(m);
    solver_.add((v >= 1 && x >= r) || (v <= -1 && x <= -r) || (v == 0 && x == 0));
    if (!rest.empty()) solver_.add(r >= 0);
  }
  const bool all = std::all_of(m.begin(), m.end(),
                               [&](AtomId a) { return atoms_[a].kind == AtomKind::Size && atoms_[a].lower >= 0; });
  if (!all) return;
  for (size_t i = 0; i < m.size(); ++i) {
    if (atoms_[m[i]].lower < 1) continue;
    Monomial rest = m;
    rest.erase(rest.begin() + static_cast<ptrdiff_t>(i));
    if (variables_.contains(rest)) solver_.add(variable(m) >= variable(rest));
  }
  solver_.add(variable(m) >= (std::all_of(m.begin(), m.end(), [&](AtomId a) { return atoms_[a].lower >= 1; }) ? 1 : 0));
}

}  // namespace

struct LinearSolver::Z3 {
  z3::context context;
};

LinearSolver::LinearSolver() : z3_(std::make_unique<Z3>()) {}
LinearSolver::~LinearSolver() = default;

LinearSolver::Answer LinearSolver::ask(const Atoms& atoms, const Guards& guards) {
  try {
    z3::context& context = z3_->context;
    z3::solver solver(context, "QF_LRA");
    z3::params params(context);
    params.set("rlimit", 2000000U);
    solver.set(params);
    Encoding encoding(atoms, context, solver);
    encoding.add(guards);
    const z3::check_result result = solver.check();
    if (result == z3::unsat) return {true, std::nullopt};
    if (result != z3::sat) return {};
    const z3::model model = solver.get_model();
    Values values;
    for (const auto& [m, v] : encoding.variables())
      if (m.size() == 1) values[m[0]] = std::strtod(model.eval(v, true).get_decimal_string(12).c_str(), nullptr);
    return {false, std::move(values)};
  } catch (const z3::exception&) {
    return {};
  }
}

}  // namespace isomer::verify
