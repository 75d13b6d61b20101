// ZeroTest: is a form zero wherever a context holds? The context is split until no guard speaks of free variables
// alone; then terms are put side by side by renaming their binders one to one, and cancel point by point.
// "true" is a proof; "false" says nothing.
#pragma once

#include "verify/simplifier.h"

namespace isomer::verify {

class ZeroTest {
 public:
  ZeroTest(Solver& solver, Heads& heads);

  bool zero(const Form& f, const Guards& context);
  bool equal(const Form& a, const Form& b, const Guards& context) { return zero(add(a, scale(b, -1)), context); }
  // Expands sums over few values before comparing; what Winograd's transforms need.
  void set_unroll(bool on) { unroll_ = on; }
  // The first group of terms that would not cancel, as text.
  const std::string& leftover() const { return leftover_; }
  Simplifier& simplifier() { return simplifier_; }

 private:
  // A renaming of u's binders in terms of t's under which the factors of both are equal.
  struct Alignment {
    Substitution map;
    Guards guards;  // of u, renamed
  };
  struct Item {
    Coef coef;
    Guards guards;
  };

  bool settle_free_quotients(Form& f, Guards& context);
  bool split(const Form& f, const Guards& context, const Poly& guard);
  bool cancel(Form f, const Guards& context, int budget);
  bool cancel_all(const Form& f, size_t first, const Guards& context, int budget);
  bool sums_to_zero(std::vector<Item> items, const Guards& context, int depth);
  std::optional<Form> unrolled(const Form& f, const Guards& context);

  std::optional<Alignment> align(const Term& t, const Term& u, const Guards& context);
  std::optional<Alignment> align_by(const Term& t, const Term& u, const std::vector<size_t>& order,
                                    const Guards& context);
  bool same_factors(const Term& t, const std::vector<Factor>& other, const Guards& context);
  bool same_factor(const Factor& a, const Factor& b, const Guards& context);
  bool same_max(const Form& a, const Form& b, const Guards& context);
  bool covered(const Term& candidate, const Form& by, const Guards& context);
  void equations(const Factor& a, const Factor& b, std::vector<Poly>& out);
  Substitution solve(std::vector<Poly> equations, const std::vector<AtomId>& unknowns, const Guards& context);
  bool invertible(const Substitution& map, const std::vector<AtomId>& from, const std::vector<AtomId>& to);
  std::vector<Substitution> completions(Substitution map, const std::vector<AtomId>& unknowns,
                                        const std::vector<AtomId>& targets);

  Atoms& atoms_;
  Solver& solver_;
  Heads& heads_;
  Simplifier simplifier_;
  std::string leftover_;
  bool unroll_ = false;
  int depth_ = 0;
};

}  // namespace isomer::verify
