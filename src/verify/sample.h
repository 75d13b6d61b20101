// Sampling: graphs at concrete sizes, evaluated element by element. What refutes a pair, and what shows that the
// conditions of a rule can be met at all.
#pragma once

#include "base/random.h"
#include "ir/graph.h"
#include "verify/verdict.h"

namespace isomer::verify {

using Bindings = std::map<std::string, Dim>;

// The graph with symbols replaced in types, attributes and constants, typed anew.
Expected<ir::Graph> at_sizes(const ir::Graph& graph, const Bindings& bindings, const ir::OpTable& table);
// All symbols of the inputs' types, of attributes and of constants, in order of names.
std::vector<std::string> symbols(const ir::Graph& graph);

// Equations that name a symbol outright are solved: the symbol is replaced everywhere, and its bound becomes an
// inequality. The conditions that are left come back.
struct Solved {
  Bindings bindings;
  Conditions rest;
};
Solved solve_equations(const Conditions& conditions);

// The sizes of a pair of graphs: the symbols that may be chosen, and what a choice of them makes of the others.
class SizeSpace {
 public:
  SizeSpace(const ir::Graph& left, const ir::Graph& right, const Conditions& conditions);
  const std::vector<std::string>& free() const { return free_; }
  int64_t lower(const std::string& symbol) const;
  // All sizes, when they meet the conditions.
  std::optional<std::map<std::string, int64_t>> complete(std::map<std::string, int64_t> chosen) const;

 private:
  Conditions conditions_;
  Solved solved_;
  std::vector<std::string> free_;
};

struct Sampled {
  std::optional<Counterexample> counterexample;
  int tried = 0;     // sizes that met the conditions and were well typed on both sides
  int compared = 0;  // of them, evaluations of both sides that gave numbers to compare
  // Equal as real numbers, but other bits: the sides do not do the same arithmetic.
  std::optional<Counterexample> rounded;
  std::string why_not;  // the last reason why sizes could not be used
};

// Draws sizes and inputs; stops at the first difference, which the reference interpreter has confirmed. `reach`: how
// far above the least values sizes go at most.
Sampled sample(const ir::Graph& left, const ir::Graph& right, const Conditions& conditions, const ir::OpTable& table,
               int trials, uint64_t seed, int64_t reach = 5);

}  // namespace isomer::verify
