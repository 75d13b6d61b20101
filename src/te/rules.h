// The simplifier's rules as data: text in te's own notation, in one table (rules.cc), read by the rewriter and by the
// property test that instantiates every rule with random values. docs/te.md says how to add one.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "te/expr.h"

namespace isomer::te {

// What x, y, z, w and the constants c0, c1, c2 of a rule stand for; p, q, r are always Bool.
// Index: i64 arithmetic over axes and sizes that does not overflow. Int: any integer type, right under wrapping.
// Real: any float type, right for every double, NaN, infinities and both zeros included. Any: all types.
enum class RuleClass { Index, Int, Real, Bool, Any };

struct RuleText {
  RuleClass kind;
  std::string_view text;  // "LHS => RHS" or "LHS => RHS if CONDITION"
};
std::span<const RuleText> rule_table();

// A rule at one element type. Its variables are Var nodes numbered by Wild; the condition is a Bool expression which the
// rewriter must prove and a test may evaluate.
struct Rule {
  RuleClass kind;
  std::string_view text;
  DType dtype;
  Expr left, right, condition;
};
enum Wild : int { kFirstExpr = 0, kFirstBool = 4, kFirstConstant = 7, kWilds = 10 };
constexpr bool is_constant_wild(int id) { return id >= kFirstConstant; }

// Every rule at every type of its class, in the table's order.
std::vector<Rule> read_rules();

}  // namespace isomer::te
