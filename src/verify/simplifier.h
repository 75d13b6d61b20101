// Simplifier: brings forms to simpler ones of the same value wherever a context of guards holds. Each step is an
// equality by itself and uses only guards that it does not touch, so that no step justifies another in a circle.
#pragma once

#include <functional>

#include "verify/order.h"

namespace isomer::verify {

// How the terms of a form are put together: added, or the candidates of a maximum, where repetition does not count.
enum class Mode : uint8_t { Sum, Candidates };

class Simplifier {
 public:
  // Says whether two forms are equal in a context; used to cancel exp(a) / exp(a). May be left out.
  using Equal = std::function<bool(const Form&, const Form&, const Guards&)>;

  Simplifier(Solver& solver, Heads& heads) : atoms_(solver.atoms()), solver_(solver), heads_(heads), order_(heads) {}
  void set_equal(Equal equal) { equal_ = std::move(equal); }

  Form form(const Form& f, const Guards& context, Mode mode = Mode::Sum);
  // The order of values that a case of the proof assumes.
  Order& order() { return order_; }
  // The floor rule on guards that stand alone: d * P + R >= 0 with 0 <= R < d is P >= 0.
  void tighten(Guards& guards);

 private:
  bool term(Term& t, const Guards& context, Mode mode);  // false: it is zero
  bool quotients(Term& t, const Guards& context);
  bool settle_quotient(Term& t, const Guards& context, AtomId q);
  bool bind_quotient(Term& t, const Guards& context, AtomId q);
  bool equalities(Term& t);
  bool floor_rule(Guards& guards, const Guards& context);
  bool drop_entailed(Term& t, const Guards& context);
  bool unit_width(Term& t, const Guards& context);
  bool merge(Term& t);
  bool merge_pair(Term& t, AtomId outer, AtomId inner);
  bool dangling(Term& t, const Guards& context, Mode mode);
  bool inside(Term& t, const Guards& context);
  bool cancel(Term& t, const Guards& context);
  void replace(Term& t, AtomId binder, const Poly& value);  // and forget the binder

  std::optional<Poly> liftable(const Term& t) const;
  std::optional<Form> expand(const Factor& f);
  std::optional<Form> expand_exp(const Factor& f);
  std::optional<Form> expand_recip(const Factor& f);
  std::optional<Form> expand_log(const Factor& f);
  std::optional<Form> expand_comparison(const Factor& f);
  bool is_truth(const Factor& f) const;
  std::optional<Form> by_order(const Factor& f) const;
  bool drop_smaller(Form& candidates) const;
  std::optional<Form> expand_max(const Factor& f);
  bool not_negative(const Factor& f) const;
  Term common_factor(Form& candidates);

  Atoms& atoms_;
  Solver& solver_;
  Heads& heads_;
  Order order_;
  Equal equal_;
  int depth_ = 0;
};

// Products of forms; operands keep binders of their own.
Form multiply(Atoms& atoms, const Form& a, const Form& b);
// Names of the functions that the simplifier knows something about.
inline const std::string kWrap, kExp = "exp", kLog = "log", kRecip = "recip", kLess = "less_than_0", kZero = "is_0",
                                kLowest = "-inf";

}  // namespace isomer::verify
