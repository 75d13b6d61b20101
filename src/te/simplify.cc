#include "te/simplify.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "te/affine.h"
#include "te/match.h"
#include "te/rules.h"
#include "te/scalar.h"
#include "te/substitute.h"
#include "tensor/tensor.h"

namespace isomer::te {
namespace {

// Root operator and operand type: which rules can apply at all. A difference of integers is a sum.
int root_key(const Node& n) {
  const int kind = static_cast<int>(n.kind) << 16;
  if (n.kind == Kind::Unary) return kind | static_cast<int>(n.unary) << 8 | static_cast<int>(n.args[0].dtype());
  if (n.kind != Kind::Binary) return kind | static_cast<int>(n.dtype);
  const DType t = n.args[0].dtype();
  const BinaryOp op = n.binary == BinaryOp::Sub && is_int(t) ? BinaryOp::Add : n.binary;
  return kind | static_cast<int>(op) << 8 | static_cast<int>(t);
}

struct Indexed {
  Rule rule;
  uint64_t operations = 0;  // without one of them there is no match
};

uint64_t all_operations(const Expr& pattern) {
  uint64_t all = operations_of(*pattern);
  for (const Expr& x : pattern->args) all |= all_operations(x);
  return all;
}

const std::map<int, std::vector<Indexed>>& rules_by_root() {
  static const auto table = [] {
    std::map<int, std::vector<Indexed>> by_root;
    for (Rule& r : read_rules()) {
      const int key = root_key(*r.left);
      const uint64_t operations = all_operations(r.left);
      by_root[key].push_back({std::move(r), operations});
    }
    return by_root;
  }();
  return table;
}

bool is_arithmetic(const Node& n) {
  if (!is_int(n.dtype)) return false;
  if (n.kind == Kind::Unary) return n.unary == UnaryOp::Neg;
  return n.kind == Kind::Binary && n.binary <= BinaryOp::Mul;
}

// Functions whose value depends on the machine's library are left to run time.
bool folds(UnaryOp op) {
  return op == UnaryOp::Neg || op == UnaryOp::Abs || op == UnaryOp::Sqrt ||
         (op >= UnaryOp::Floor && op <= UnaryOp::Trunc);
}
bool folds_real(BinaryOp op) { return op <= BinaryOp::Div || op == BinaryOp::Min || op == BinaryOp::Max; }

class Simplifier {
 public:
  Facts facts;

  // Every axis that the expression binds; to be called for all of a program before the first simplification.
  void add_axes(const Expr& root) {
    std::vector<const Node*> todo = {&*root};
    while (!todo.empty()) {
      const Node* n = todo.back();
      todo.pop_back();
      if (!seen_.insert(n).second) continue;
      for (const Axis& a : n->axes) facts.add_axis(a);
      for (const Expr& x : n->args) todo.push_back(&*x);
    }
  }

  Expr run(const Expr& root) {
    std::unordered_map<const void*, Expr> done;
    for_each_node(root, [&](const Expr& e) {
      Node n = *e;
      for (Expr& x : n.args) x = done.at(x.identity());
      done.emplace(e.identity(), normal(facts.intern(std::move(n))));
    });
    return done.at(root.identity());
  }

 private:
  static constexpr int kMaxSteps = 100;    // at one node, against rules that undo each other
  static constexpr int kMaxNesting = 100;  // of rewriting inside rewriting

  Expr normal(const Expr& e) {
    if (const auto it = memo_.find(e.identity()); it != memo_.end()) return it->second;
    if (nesting_ >= kMaxNesting) return e;
    ++nesting_;
    Expr now = with_normal_operands(e);
    for (int i = 0; i < kMaxSteps; ++i) {
      if (const auto it = memo_.find(now.identity()); it != memo_.end()) {
        now = it->second;
        break;
      }
      const Expr next = step(now);
      if (next.same_node(now)) break;
      now = with_normal_operands(next);
    }
    --nesting_;
    memo_.insert_or_assign(e.identity(), now);
    memo_.insert_or_assign(now.identity(), now);
    return now;
  }

  Expr with_normal_operands(const Expr& e) {
    std::optional<Node> changed;
    for (size_t i = 0; i < e->args.size(); ++i) {
      const Expr x = normal(e->args[i]);
      if (x.same_node(e->args[i])) continue;
      if (!changed) changed = *e;
      changed->args[i] = x;
    }
    return changed ? facts.intern(std::move(*changed)) : e;
  }

  Expr step(const Expr& e) {
    if (is_literal(e)) return e;
    if (!is_float(e.dtype()) && facts[e].bounds.point())
      return integer(e.dtype(), static_cast<int64_t>(facts[e].bounds.low));
    if (const Expr v = folded(*e); v.identity() != nullptr) return v;
    if (is_arithmetic(*e)) {
      const Expr v = from_affine(facts, affine(facts, e));
      if (!v.same_node(e)) return v;
    }
    if (const Expr v = ordered(*e); v.identity() != nullptr) return v;
    if (e->kind == Kind::Reduce) return reduction(e);
    return by_rules(e);
  }

  Expr integer(DType t, int64_t v) { return facts.intern(*Expr::integer(t, v)); }
  Expr real(DType t, double v) { return facts.intern(*Expr::real(t, v)); }

  // The literal that an operation on literals gives; nothing when it is none or has no value.
  Expr folded(const Node& n) {
    if (n.args.empty() || !std::all_of(n.args.begin(), n.args.end(), is_literal)) return {};
    const Node& a = *n.args[0];
    const bool reals = is_float(a.dtype);
    switch (n.kind) {
      case Kind::Unary:
        if (reals && (n.unary == UnaryOp::IsNan || n.unary == UnaryOp::IsInf))
          return integer(DType::Bool, real_test(n.unary, a.real));
        if (reals) return folds(n.unary) ? real(n.dtype, real_unary(n.unary, a.real)) : Expr();
        if (n.unary != UnaryOp::Not && (!folds(n.unary) || n.unary == UnaryOp::Sqrt)) return {};
        return integer(n.dtype, int_unary(n.unary, n.dtype, a.integer));
      case Kind::Binary: {
        const Node& b = *n.args[1];
        if (reals && is_compare(n.binary)) return integer(DType::Bool, real_compare(n.binary, a.real, b.real));
        if (reals) return folds_real(n.binary) ? real(n.dtype, real_binary(n.binary, a.real, b.real)) : Expr();
        const auto v = int_binary(n.binary, a.dtype, a.integer, b.integer);
        return v ? integer(n.dtype, *v) : Expr();
      }
      case Kind::Cast:
        if (is_float(n.dtype))
          return real(n.dtype, round_to(n.dtype, reals ? a.real : real_from_int(a.dtype, a.integer)));
        return integer(n.dtype, reals ? int_from_real(n.dtype, a.real) : a.integer);
      default: return {};
    }
  }

  // Operands of a commutative operation in content order; of reals and booleans only a literal moves, to the right.
  Expr ordered(const Node& n) {
    if (n.kind != Kind::Binary || is_arithmetic(n) || !is_commutative(n.binary, n.args[0].dtype())) return {};
    const bool swap = is_int(n.args[0].dtype()) ? facts.before(n.args[1], n.args[0])
                                                : is_literal(n.args[0]) && !is_literal(n.args[1]);
    if (!swap) return {};
    Node swapped = n;
    std::swap(swapped.args[0], swapped.args[1]);
    return facts.intern(std::move(swapped));
  }

  Expr identity_of(const Node& n) {
    return is_float(n.dtype) ? real(n.dtype, real_identity(n.combiner))
                             : integer(n.dtype, int_identity(n.combiner, n.dtype));
  }

  Expr reduction(const Expr& e) {
    Node n = *e;
    const Expr body = n.args[0], where = n.args[1];
    const bool arg = is_arg(n.combiner);
    const auto empty = [](const Axis& a) { return a.extent.is_const() && a.extent.value() <= 0; };
    if ((is_literal(where) && !where->integer) || std::any_of(n.axes.begin(), n.axes.end(), empty))
      return arg ? integer(DType::I64, 0) : identity_of(n);
    if (std::erase_if(n.axes, [](const Axis& a) { return a.extent == Dim(1); }) != 0) return facts.intern(std::move(n));
    if (n.axes.empty()) return single_point(n);
    if (arg || !is_literal(body)) return e;
    const bool sum = n.combiner == Combiner::Sum, product = n.combiner == Combiner::Product;
    const double value = is_float(n.dtype) ? body->real : static_cast<double>(body->integer);
    if ((sum && value == 0) || (product && value == 1)) return identity_of(n);
    const bool counted = std::all_of(n.axes.begin(), n.axes.end(), [](const Axis& a) { return a.extent.is_const(); });
    if (!sum || !is_int(n.dtype) || !is_literal(where) || !counted) return e;
    auto total = static_cast<uint64_t>(body->integer);
    for (const Axis& a : n.axes) total *= static_cast<uint64_t>(a.extent.value());
    return integer(n.dtype, static_cast<int64_t>(total));
  }

  // A reduction over no axes. A sum of reals starts from 0, which turns -0 into 0.
  Expr single_point(const Node& n) {
    if (is_arg(n.combiner)) return integer(DType::I64, 0);
    Expr value = n.args[0];
    if (n.combiner == Combiner::Sum && is_float(n.dtype)) {
      Node add{.kind = Kind::Binary, .dtype = n.dtype};
      add.binary = BinaryOp::Add;
      add.args = {value, real(n.dtype, 0)};
      value = facts.intern(std::move(add));
    }
    if (is_literal(n.args[1])) return value;
    Node choice{.kind = Kind::Select, .dtype = n.dtype};
    choice.args = {n.args[1], value, identity_of(n)};
    return facts.intern(std::move(choice));
  }

  Expr by_rules(const Expr& e) {
    if (e->kind != Kind::Unary && e->kind != Kind::Binary && e->kind != Kind::Select) return e;
    const auto it = rules_by_root().find(root_key(*e));
    if (it == rules_by_root().end()) return e;
    const uint64_t missing = ~facts[e].operations;
    for (const auto& [rule, operations] : it->second) {
      if ((operations & missing) != 0 || (rule.kind == RuleClass::Index && !is_index(e))) continue;
      Expr result;
      Matcher matcher(facts);
      const bool matched = matcher.match(rule.left, e, [&](const Binding& b) {
        if (!proved(rule.condition, b)) return false;
        result = instantiate(rule.right, b);
        return !result.same_node(e);
      });
      if (matched) return result;
    }
    return e;
  }

  // All integers in a comparison or connective, or the integer itself, are index arithmetic.
  bool is_index(const Expr& e) {
    if (e.dtype() == DType::I64) return facts[e].index;
    if (e->kind != Kind::Binary && e->kind != Kind::Unary) return false;
    return std::all_of(e->args.begin(), e->args.end(), [&](const Expr& x) { return is_index(x); });
  }

  Expr instantiate(const Expr& pattern, const Binding& b) {
    if (pattern->kind == Kind::Var) return b[static_cast<size_t>(pattern->var)];
    Node n = *pattern;
    for (Expr& x : n.args) x = instantiate(x, b);
    return normal(facts.intern(std::move(n)));
  }

  bool proved(const Expr& condition, const Binding& b) {
    const Node& n = *condition;
    if (n.kind == Kind::Int) return n.integer != 0;
    if (n.kind != Kind::Binary) return false;
    if (n.binary == BinaryOp::And) return proved(n.args[0], b) && proved(n.args[1], b);
    if (n.binary == BinaryOp::Or) return proved(n.args[0], b) || proved(n.args[1], b);
    const Expr x = instantiate(n.args[0], b), y = instantiate(n.args[1], b);
    if (is_float(x.dtype())) return is_literal(x) && is_literal(y) && real_compare(n.binary, x->real, y->real);
    return holds(n.binary, x, y);
  }

  bool holds(BinaryOp op, const Expr& x, const Expr& y) {
    const Bounds &a = facts[x].bounds, &b = facts[y].bounds;
    const bool both_index = is_index(x) && is_index(y);
    const auto at_least = [&](const Expr& from, const Expr& what, int distance) {
      if (!both_index) return false;
      const auto low = least(facts, difference(facts, what, from));
      return low && *low >= distance;
    };
    switch (op) {
      case BinaryOp::Lt: return a.high < b.low || at_least(x, y, 1);
      case BinaryOp::Le: return x.same_node(y) || a.high <= b.low || at_least(x, y, 0);
      case BinaryOp::Ne: return a.high < b.low || b.high < a.low || at_least(x, y, 1) || at_least(y, x, 1);
      case BinaryOp::Eq: {
        if (x.same_node(y)) return true;
        if (!is_int(x.dtype())) return false;
        const Affine d = difference(facts, x, y);
        return d.terms.empty() && d.constant == 0;
      }
      default: return false;
    }
  }

  std::unordered_map<const void*, Expr> memo_;
  std::unordered_set<const Node*> seen_;
  int nesting_ = 0;
};

}  // namespace

Program simplify(const Program& program) {
  Simplifier s;
  for (const Stage& stage : program.stages) {
    for (const Axis& a : stage.axes) s.facts.add_axis(a);
    s.add_axes(stage.body);
  }
  Program out = program;
  for (Stage& stage : out.stages) stage.body = s.run(stage.body);
  return out;
}

Expr simplify(const Expr& e, std::span<const Axis> axes) {
  Simplifier s;
  for (const Axis& a : axes) s.facts.add_axis(a);
  s.add_axes(e);
  return s.run(e);
}

Expr moved(const Expr& e, int64_t by) {
  if (by == 0) return e;
  if (e->kind == Kind::Int) return Expr(e->integer + by);
  const bool more = e->kind == Kind::Binary && e->binary == BinaryOp::Add;
  const bool less = e->kind == Kind::Binary && e->binary == BinaryOp::Sub;
  if (!(more || less) || e->args[1]->kind != Kind::Int) return by > 0 ? e + Expr(by) : e - Expr(-by);
  return moved(e->args[0], more ? by + e->args[1]->integer : by - e->args[1]->integer);
}

}  // namespace isomer::te
