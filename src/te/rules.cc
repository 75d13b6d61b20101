#include "te/rules.h"

#include <string>

#include "base/check.h"
#include "te/parse.h"

namespace isomer::te {
namespace {

using enum RuleClass;

// Sums and products of integers match in any order, and a plain variable in them takes all that is left over; integer
// rules therefore write differences with + alone. A rule that matches must bring the expression nearer to its end:
// fewer nodes, smaller constants, or an operator further down this list's preferences.
constexpr RuleText kTable[] = {
    // Choice. The branch that is not taken may be undefined, so nothing moves out of a select.
    {Any, "select(true, x, y) => x"},
    {Any, "select(false, x, y) => y"},
    {Any, "select(p, x, x) => x"},
    {Any, "select(!p, x, y) => select(p, y, x)"},
    {Any, "select(p, select(p, x, y), z) => select(p, x, z)"},
    {Any, "select(p, x, select(p, y, z)) => select(p, x, z)"},
    {Bool, "select(p, true, false) => p"},
    {Bool, "select(p, false, true) => !p"},

    // Booleans.
    {Bool, "p && true => p"},
    {Bool, "p && false => false"},
    {Bool, "p && p => p"},
    {Bool, "p && !p => false"},
    {Bool, "p && (p && q) => p && q"},
    {Bool, "p && (p || q) => p"},
    {Bool, "p || true => true"},
    {Bool, "p || false => p"},
    {Bool, "p || p => p"},
    {Bool, "p || !p => true"},
    {Bool, "p || (p || q) => p || q"},
    {Bool, "p || p && q => p"},
    {Bool, "!!p => p"},
    {Bool, "p == true => p"},
    {Bool, "p == false => !p"},
    {Bool, "p != true => !p"},
    {Bool, "p != false => p"},
    {Bool, "xor(p, true) => !p"},
    {Bool, "xor(p, false) => p"},
    {Bool, "xor(p, p) => false"},

    // Comparisons: decided by bounds, then brought to the form "variable against constant".
    {Int, "x < y => true if x < y"},
    {Int, "x < y => false if y <= x"},
    {Int, "x <= y => true if x <= y"},
    {Int, "x <= y => false if y < x"},
    {Int, "x == y => true if x == y"},
    {Int, "x == y => false if x != y"},
    {Int, "x != y => true if x != y"},
    {Int, "x != y => false if x == y"},
    {Real, "x < x => false"},
    {Int, "!(x < y) => y <= x"},
    {Int, "!(x <= y) => y < x"},
    {Any, "!(x == y) => x != y"},
    {Any, "!(x != y) => x == y"},
    {Int, "x < c0 && x < c1 => x < min(c0, c1)"},
    {Int, "x < c0 || x < c1 => x < max(c0, c1)"},
    {Int, "x <= c0 && x <= c1 => x <= min(c0, c1)"},
    {Int, "c0 < x && c1 < x => max(c0, c1) < x"},
    {Int, "c0 <= x && c1 <= x => max(c0, c1) <= x"},
    {Index, "x + c0 < c1 => x < c1 - c0"},
    {Index, "x + c0 <= c1 => x <= c1 - c0"},
    {Index, "x + c0 == c1 => x == c1 - c0"},
    {Index, "x + c0 != c1 => x != c1 - c0"},
    {Index, "c0 < x + c1 => c0 - c1 < x"},
    {Index, "c0 <= x + c1 => c0 - c1 <= x"},
    {Index, "-x < c0 => -c0 < x"},
    {Index, "-x <= c0 => -c0 <= x"},
    {Index, "c0 < -x => x < -c0"},
    {Index, "c0 <= -x => x <= -c0"},
    {Index, "-x == c0 => x == -c0"},
    {Index, "-x != c0 => x != -c0"},
    {Index, "x*c0 < c1 => x < floordiv(c1 + c0 - 1, c0) if 1 < c0"},
    {Index, "x*c0 <= c1 => x <= floordiv(c1, c0) if 1 < c0"},
    {Index, "c1 < x*c0 => floordiv(c1, c0) < x if 1 < c0"},
    {Index, "c1 <= x*c0 => floordiv(c1 + c0 - 1, c0) <= x if 1 < c0"},
    {Index, "x*c0 < c1 => -c1 < x*(-c0) if c0 < -1"},
    {Index, "x*c0 <= c1 => -c1 <= x*(-c0) if c0 < -1"},
    {Index, "c1 < x*c0 => x*(-c0) < -c1 if c0 < -1"},
    {Index, "c1 <= x*c0 => x*(-c0) <= -c1 if c0 < -1"},
    {Index, "x*c0 == c1 => x == floordiv(c1, c0) if c0 != 0 && mod(c1, c0) == 0"},
    {Index, "x*c0 == c1 => false if c0 != 0 && mod(c1, c0) != 0"},
    {Index, "x*c0 != c1 => x != floordiv(c1, c0) if c0 != 0 && mod(c1, c0) == 0"},
    {Index, "x*c0 != c1 => true if c0 != 0 && mod(c1, c0) != 0"},

    // Minimum and maximum.
    {Int, "min(x, y) => x if x <= y"},
    {Int, "max(x, y) => x if y <= x"},
    {Int, "min(min(x, c0), c1) => min(x, min(c0, c1))"},
    {Int, "max(max(x, c0), c1) => max(x, max(c0, c1))"},
    {Int, "min(min(x, y), y) => min(x, y)"},
    {Int, "max(max(x, y), y) => max(x, y)"},
    {Int, "max(min(x, y), y) => y"},
    {Int, "min(max(x, y), y) => y"},
    {Real, "min(x, x) => x"},
    {Real, "max(x, x) => x"},
    {Real, "min(x, inf) => x"},
    {Real, "max(x, -inf) => x"},
    {Real, "min(min(x, c0), c1) => min(x, min(c0, c1))"},
    {Real, "max(max(x, c0), c1) => max(x, max(c0, c1))"},

    // Division with rounding to minus infinity is the one that indices use.
    {Int, "x / 1 => x"},
    {Int, "rem(x, 1) => 0"},
    {Int, "floordiv(x, 1) => x"},
    {Int, "mod(x, 1) => 0"},
    {Int, "x / y => floordiv(x, y) if 0 <= x && 0 < y"},
    {Int, "rem(x, y) => mod(x, y) if 0 <= x && 0 < y"},
    {Int, "floordiv(x, y) => 0 if 0 <= x && x < y"},
    {Int, "mod(x, y) => x if 0 <= x && x < y"},
    {Int, "mod(mod(x, y), y) => mod(x, y)"},
    {Int, "mod(mod(x, c0), c1) => mod(x, c1) if 0 < c0 && 0 < c1 && mod(c0, c1) == 0"},
    {Index, "floordiv(floordiv(x, c0), c1) => floordiv(x, c0*c1) if 0 < c0 && c0 < 1048576 && 0 < c1 && c1 < 1048576"},
    {Index, "floordiv(x*c0, c1) => x*floordiv(c0, c1) if 0 < c1 && mod(c0, c1) == 0"},
    {Index, "floordiv(x*c0 + y, c1) => x*floordiv(c0, c1) + floordiv(y, c1) if 0 < c1 && mod(c0, c1) == 0"},
    {Index, "mod(x*c0, c1) => 0 if 0 < c1 && mod(c0, c1) == 0"},
    {Index, "mod(x*c0 + y, c1) => mod(y, c1) if 0 < c1 && mod(c0, c1) == 0"},
    {Index, "floordiv(x*c0, c1) => floordiv(x, floordiv(c1, c0)) if 1 < c0 && 0 < c1 && mod(c1, c0) == 0"},
    {Index, "mod(x*c0, c1) => mod(x, floordiv(c1, c0))*c0 if 1 < c0 && 0 < c1 && mod(c1, c0) == 0"},
    {Index,
     "floordiv(x*c0 + y, c1) => floordiv(x, floordiv(c1, c0))"
     " if 1 < c0 && 0 < c1 && mod(c1, c0) == 0 && 0 <= y && y < c0"},
    {Index,
     "mod(x*c0 + y, c1) => mod(x, floordiv(c1, c0))*c0 + y"
     " if 1 < c0 && 0 < c1 && mod(c1, c0) == 0 && 0 <= y && y < c0"},
    {Index,
     "floordiv(x + c0, c1) => floordiv(x + mod(c0, c1), c1) + floordiv(c0, c1) if 0 < c1 && (c0 < 0 || c1 <= c0)"},
    {Index, "mod(x + c0, c1) => mod(x + mod(c0, c1), c1) if 0 < c1 && (c0 < 0 || c1 <= c0)"},
    {Index, "floordiv(x*y, y) => x"},
    {Index, "mod(x*y, y) => 0"},
    {Index, "floordiv(x*y + z, y) => x if 0 <= z && z < y"},
    {Index, "mod(x*y + z, y) => z if 0 <= z && z < y"},
    {Int, "floordiv(x, y)*y + mod(x, y) => x"},
    {Int, "floordiv(x, y)*y + mod(x, y) + z => x + z"},
    {Int, "floordiv(x, c0)*c1 + mod(x, c0)*c2 => x*c2 if c1 == c0*c2"},
    {Int, "floordiv(x, c0)*c1 + mod(x, c0)*c2 + y => x*c2 + y if c1 == c0*c2"},

    // Other integer operations. What + - * do to integers is the affine normal form's work.
    {Int, "abs(x) => x if 0 <= x"},
    {Int, "abs(abs(x)) => abs(x)"},
    {Index, "abs(-x) => abs(x)"},
    {Int, "floor(x) => x"},
    {Int, "ceil(x) => x"},
    {Int, "round(x) => x"},
    {Int, "trunc(x) => x"},
    {Int, "pow(x, 0) => 1"},
    {Int, "pow(x, 1) => x"},
    {Int, "pow(x, 2) => x*x"},
    {Int, "x && 0 => 0"},
    {Int, "x && x => x"},
    {Int, "x || 0 => x"},
    {Int, "x || x => x"},
    {Int, "xor(x, 0) => x"},
    {Int, "xor(x, x) => 0"},
    {Int, "!!x => x"},
    {Int, "shl(x, 0) => x"},
    {Int, "shr(x, 0) => x"},

    // Reals: only what holds for every double. x + 0 and x*0 are missing because of -0, NaN and infinity.
    {Real, "x - 0 => x"},
    {Real, "x + -0 => x"},
    {Real, "x*1 => x"},
    {Real, "x*-1 => -x"},
    {Real, "x / 1 => x"},
    {Real, "x / -1 => -x"},
    {Real, "-(-x) => x"},
    {Real, "x + (-y) => x - y"},
    {Real, "x - (-y) => x + y"},
    {Real, "(-x)*(-y) => x*y"},
    {Real, "(-x)*c0 => x*(-c0)"},
    {Real, "(-x)/(-y) => x/y"},
    {Real, "abs(abs(x)) => abs(x)"},
    {Real, "abs(-x) => abs(x)"},
    {Real, "floor(floor(x)) => floor(x)"},
    {Real, "ceil(ceil(x)) => ceil(x)"},
    {Real, "round(round(x)) => round(x)"},
    {Real, "trunc(trunc(x)) => trunc(x)"},
    {Real, "pow(x, 0) => 1"},
    {Real, "pow(x, 1) => x"},
    {Real, "isnan(-x) => isnan(x)"},
    {Real, "isnan(abs(x)) => isnan(x)"},
    {Real, "isinf(-x) => isinf(x)"},
    {Real, "isinf(abs(x)) => isinf(x)"},
};

DTypeSet types_of(RuleClass kind) {
  switch (kind) {
    case Index: return DType::I64;
    case Int: return kInts;
    case Real: return kFloats;
    case Bool: return DType::Bool;
    case Any: return kAllTypes;
  }
  return {};
}

Expr wild(int id, DType dtype, const std::string& name) {
  Node n{.kind = Kind::Var, .dtype = dtype};
  n.var = id;
  n.var_name = name;
  return Expr::make(std::move(n));
}

Expr read_side(std::string_view text, const ExprContext& context) {
  auto e = parse_expr(text, context);
  ISOMER_ASSERT(e.ok(), std::string(text) + ": " + e.error().to_string());
  return *e;
}

Rule read_rule(const RuleText& entry, DType dtype) {
  ExprContext context;
  context.alone = dtype == DType::Bool ? std::nullopt : std::optional(dtype);
  const char* const names[kWilds] = {"x", "y", "z", "w", "p", "q", "r", "c0", "c1", "c2"};
  for (int i = 0; i < kWilds; ++i)
    context.names.emplace_back(names[i],
                               wild(i, i >= kFirstBool && i < kFirstConstant ? DType::Bool : dtype, names[i]));
  const size_t arrow = entry.text.find("=>"), cond = entry.text.find(" if ");
  ISOMER_ASSERT(arrow != std::string_view::npos, std::string(entry.text));
  const bool guarded = cond != std::string_view::npos;
  Rule rule{entry.kind, entry.text, dtype, {}, {}, {}};
  rule.left = read_side(entry.text.substr(0, arrow), context);
  rule.right = read_side(entry.text.substr(arrow + 2, guarded ? cond - arrow - 2 : cond), context);
  rule.condition = guarded ? read_side(entry.text.substr(cond + 4), context) : truth(true);
  ISOMER_ASSERT(rule.left.dtype() == rule.right.dtype() && rule.condition.dtype() == DType::Bool,
                std::string(entry.text));
  return rule;
}

}  // namespace

std::span<const RuleText> rule_table() { return kTable; }

std::vector<Rule> read_rules() {
  std::vector<Rule> rules;
  for (const RuleText& entry : kTable)
    for (const DType t : kAllDTypes)
      if (types_of(entry.kind).contains(t)) rules.push_back(read_rule(entry, t));
  return rules;
}

}  // namespace isomer::te
