// Order: what one case of a proof takes for granted of real numbers, and what follows from it by linear arithmetic over
// the rationals, in which every distinct product of factors is a variable. Only "yes" carries weight. An assumption is about
// values at free indices, so a case is left by forgetting it and never by changing it.
#pragma once

#include <optional>
#include <vector>

#include "verify/form.h"

namespace isomer::verify {

class Order {
 public:
  explicit Order(const Heads& heads) : heads_(heads) {}

  bool empty() const { return facts_.empty(); }
  size_t mark() const { return facts_.size(); }
  void restore(size_t mark) { facts_.resize(mark); }
  void assume(Form f, bool strict) { facts_.push_back({std::move(f), strict}); }

  bool not_negative(const Form& f) const { return entails(f, false); }
  bool positive(const Form& f) const { return entails(f, true); }
  bool impossible() const { return entails({}, true); }

 private:
  struct Fact {
    Form form;
    bool strict;  // above 0, not only 0 or more
  };
  bool entails(const Form& f, bool strict) const;

  const Heads& heads_;
  std::vector<Fact> facts_;
};

// A number whose sign would settle a maximum, an absolute value or a selection in a form.
struct OrderQuestion {
  Form of;
  bool touching;  // whether 0 is a case of its own
};
std::optional<OrderQuestion> order_question(const Atoms& atoms, const Heads& heads, const Form& f);

// The form where a value is 0 that is one factor; as it was when the value is more than that.
Form where_zero(const Form& f, const Form& value);

}  // namespace isomer::verify
