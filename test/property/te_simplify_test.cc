// The simplifier and the text form against random programs, and every rule of the table against random values.
// ISOMER_SEED and ISOMER_CASES override the seed and the number of programs.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "base/random.h"
#include "te/eval.h"
#include "te/parse.h"
#include "te/print.h"
#include "te/rules.h"
#include "te/simplify.h"
#include "test/setting.h"

namespace isomer::te {
namespace {

using Doubles = Array<DoubleDomain>;

bool same_real(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

double random_real(Random& r) {
  static constexpr double kSpecial[] = {0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 5e-324, 1e300, -1e300};
  switch (r.below(4)) {
    case 0: return kSpecial[r.below(std::size(kSpecial))];
    case 1: return r.flip(0.4) ? std::nan("") : r.flip() ? INFINITY : -INFINITY;
    case 2: return static_cast<double>(r.between(-3, 3));
    default: return r.uniform(-4, 4);
  }
}

int64_t random_int(Random& r, DType t) {
  const int64_t low = lowest_int(t), high = highest_int(t);
  switch (r.below(4)) {
    case 0: return wrap_to(t, r.flip() ? low + r.between(0, 1) : high - r.between(0, 1));
    case 1: return wrap_to(t, static_cast<int64_t>(r.next()));
    default: return wrap_to(t, is_unsigned_int(t) ? r.between(0, 9) : r.between(-9, 9));
  }
}

Expr rebuilt(const Expr& e, std::vector<Expr> args) {
  Node n = *e;
  n.args = std::move(args);
  return Expr::make(std::move(n));
}

// Programs of one stage over i < 3, j < 4 and l < 1 that read small tensors of several types.
class Generator {
 public:
  explicit Generator(Random& r) : r_(r) {
    for (const DType t : kTypes)
      handles_.push_back(builder_.input("in_" + std::string(isomer::name(t)), t, {Dim(3), Dim(4)}));
    axes_ = {builder_.axis("i", Dim(3)), builder_.axis("j", Dim(4)), builder_.axis("l", Dim(1))};
  }

  Program program() {
    scope_ = axes_;
    const DType t = kTypes[r_.below(std::size(kTypes))];
    const Handle y = builder_.stage("y", t, axes_, any(t, 2 + static_cast<int>(r_.below(3))));
    return builder_.finish({y});
  }

  static std::vector<Doubles> inputs(Random& r) {
    std::vector<Doubles> out;
    for (const DType t : kTypes) {
      Doubles a{t, {3, 4}, {}, {}};
      for (int i = 0; i < 12; ++i)
        if (is_float(t))
          a.reals.push_back(round_to(t, random_real(r)));
        else
          a.ints.push_back(random_int(r, t));
      out.push_back(std::move(a));
    }
    return out;
  }

 private:
  static constexpr DType kTypes[] = {DType::F32, DType::F64, DType::I64, DType::I32,
                                     DType::I8,  DType::U8,  DType::U64, DType::Bool};

  Expr any(DType t, int depth) {
    if (r_.flip(0.12) && depth > 0) return select(condition(depth - 1), any(t, depth - 1), any(t, depth - 1));
    if (r_.flip(0.08) && depth > 0 && scope_.size() < 5) return reduction(t, depth - 1);
    if (is_float(t)) return real(t, depth);
    if (t == DType::Bool) return condition(depth);
    return t == DType::I64 && r_.flip(0.7) ? index(depth) : integer(t, depth);
  }

  Expr reduction(DType t, int depth) {
    std::vector<Axis> own;
    for (uint64_t n = r_.below(3); n-- > 0;) {
      own.push_back(builder_.axis("k", Dim(r_.between(0, 3))));
      scope_.push_back(own.back());
    }
    const Expr where = r_.flip() ? condition(depth) : truth(true);
    const auto c = static_cast<Combiner>(r_.below(4));
    const Expr e = t == DType::I64 && r_.flip(0.3)
                       ? reduce(static_cast<Combiner>(4 + r_.below(4)), own, any(DType::F32, depth), where)
                       : reduce(c, own, any(t, depth), where);
    scope_.resize(scope_.size() - own.size());
    return e;
  }

  Expr read(DType t, int depth) {
    for (const Handle& h : handles_)
      if (h.dtype() == t)
        return h(floor_mod(index(depth - 1), Expr(3)), r_.flip() ? Expr(axes_[1]) : Expr(r_.between(0, 3)));
    return Expr::literal(t, 1);
  }

  Expr index(int depth) {
    if (depth <= 0 || r_.flip(0.1))
      return r_.flip(0.3) ? Expr(r_.between(-6, 12)) : Expr(scope_[r_.below(scope_.size())]);
    const Expr a = index(depth - 1);
    const Expr c = Expr(r_.flip(0.9) ? r_.between(1, 8) : r_.between(-4, 4));
    switch (r_.below(11)) {
      case 0:
      case 1: return a + index(depth - 1);
      case 2: return a - index(depth - 1);
      case 3: return a * c;
      case 4: return floor_div(a, c);
      case 5: return floor_mod(a, c);
      case 6: return a + c;
      case 7: return r_.flip() ? min(a, index(depth - 1)) : max(index(depth - 1), a);
      case 8: return r_.flip() ? a * index(depth - 1) : -a;
      case 9: return r_.flip() ? binary(BinaryOp::Rem, a, c) : a / c;
      default: return r_.flip() ? floor_div(a * c + index(depth - 1), c) : floor_mod(a * c + index(depth - 1), c);
    }
  }

  Expr integer(DType t, int depth) {
    if (depth <= 0) return r_.flip(0.4) ? Expr::integer(t, random_int(r_, t)) : read(t, 0);
    if (r_.flip(0.1)) return cast(t, any(kTypes[r_.below(std::size(kTypes))], depth - 1));
    if (r_.flip(0.15))
      return unary(r_.flip() ? UnaryOp::Neg : r_.flip() ? UnaryOp::Abs : UnaryOp::Not, integer(t, depth - 1));
    const auto op = static_cast<BinaryOp>(r_.below(static_cast<uint64_t>(BinaryOp::Shr) + 1));
    const Expr a = integer(t, depth - 1);
    return binary(op, a, r_.flip(0.15) ? a : integer(t, depth - 1));
  }

  Expr real(DType t, int depth) {
    if (depth <= 0) return r_.flip(0.4) ? Expr::real(t, random_real(r_)) : read(t, 0);
    if (r_.flip(0.1)) return cast(t, any(kTypes[r_.below(std::size(kTypes))], depth - 1));
    if (r_.flip(0.25)) {
      static constexpr UnaryOp kOps[] = {UnaryOp::Neg,  UnaryOp::Neg,   UnaryOp::Abs,  UnaryOp::Exp,
                                         UnaryOp::Sqrt, UnaryOp::Floor, UnaryOp::Round};
      return unary(kOps[r_.below(std::size(kOps))], real(t, depth - 1));
    }
    const auto op = static_cast<BinaryOp>(r_.below(static_cast<uint64_t>(BinaryOp::Max) + 1));
    const Expr a = real(t, depth - 1);
    return binary(op, a, r_.flip(0.15) ? a : real(t, depth - 1));
  }

  Expr condition(int depth) {
    if (depth <= 0)
      return r_.flip(0.2) ? truth(r_.flip()) : r_.flip() ? read(DType::Bool, 0) : index(1) < Expr(r_.between(-1, 4));
    switch (r_.below(6)) {
      case 0: return condition(depth - 1) && condition(depth - 1);
      case 1: return condition(depth - 1) || condition(depth - 1);
      case 2: return !condition(depth - 1);
      case 3:
        return r_.flip() ? unary(r_.flip() ? UnaryOp::IsNan : UnaryOp::IsInf, real(DType::F32, depth - 1))
                         : binary(BinaryOp::Xor, condition(depth - 1), condition(depth - 1));
      default: {
        const auto op = static_cast<BinaryOp>(static_cast<uint64_t>(BinaryOp::Eq) + r_.below(4));
        const DType t = r_.flip() ? DType::I64 : kTypes[r_.below(std::size(kTypes))];
        return binary(op, any(t, depth - 1), any(t, depth - 1));
      }
    }
  }

  Random& r_;
  Builder builder_;
  std::vector<Handle> handles_;
  std::vector<Axis> axes_, scope_;
};

bool same_outputs(const Doubles& a, const Doubles& b) {
  if (a.dims != b.dims || a.ints != b.ints || a.reals.size() != b.reals.size()) return false;
  for (size_t i = 0; i < a.reals.size(); ++i)
    if (!same_real(a.reals[i], b.reals[i])) return false;
  return true;
}

// What is wrong with this program, or nothing.
std::string complaint(const Program& p, const std::vector<Doubles>& inputs) {
  for (const Program& q : {p, simplify(p)}) {
    const auto back = parse_program(print(q));
    if (!back.ok()) return "its text does not parse: " + back.error().to_string() + "\n" + print(q);
    if (!equal(*back, q)) return "its text reads differently: " + print(*back);
  }
  const Program s = simplify(p);
  if (const Program twice = simplify(s); !equal(twice, s)) return "not idempotent:\n" + print(s) + print(twice);
  const DoubleDomain domain;
  const auto before = Evaluator<DoubleDomain>(domain).run(p, inputs);
  if (!before.ok()) return "";  // undefined before: anything may follow
  const auto after = Evaluator<DoubleDomain>(domain).run(s, inputs);
  if (!after.ok()) return "undefined after simplification: " + after.error().message + "\n" + print(s);
  return same_outputs((*before)[0], (*after)[0]) ? "" : "another value after simplification:\n" + print(s);
}

// Every expression that is one node smaller: a node replaced by an operand of its type.
void smaller(const Expr& e, std::vector<Expr>& out) {
  for (const Expr& x : e->args)
    if (x.dtype() == e.dtype() && e->kind != Kind::Reduce) out.push_back(x);
  for (size_t i = 0; i < e->args.size(); ++i) {
    std::vector<Expr> inner;
    smaller(e->args[i], inner);
    for (const Expr& x : inner) {
      std::vector<Expr> args = e->args;
      args[i] = x;
      out.push_back(rebuilt(e, std::move(args)));
    }
  }
}

Program shrunk(Program p, const std::vector<Doubles>& inputs) {
  for (bool again = true; again;) {
    again = false;
    std::vector<Expr> candidates;
    smaller(p.stages[0].body, candidates);
    for (const Expr& e : candidates) {
      Program q = p;
      q.stages[0].body = e;
      if (complaint(q, inputs).empty()) continue;
      p = q, again = true;
      break;
    }
  }
  return p;
}

TEST(TeSimplifyProperty, RandomProgramsKeepTheirValues) {
  const uint64_t seed = testing::setting("ISOMER_SEED", 20240611);
  const uint64_t cases = testing::setting("ISOMER_CASES", 100000);
  std::printf("seed %llu, %llu programs\n", static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(cases));
  Random random(seed);
  std::vector<Doubles> inputs;
  for (uint64_t n = 0; n < cases; ++n) {
    if (n % 100 == 0) inputs = Generator::inputs(random);
    const Program p = Generator(random).program();
    if (complaint(p, inputs).empty()) continue;
    const Program small = shrunk(p, inputs);
    FAIL() << "program " << n << " of seed " << seed << ":\n" << print(small) << complaint(small, inputs);
  }
}

// The pattern with literals in the place of its variables.
Expr filled(const Expr& pattern, const std::vector<Expr>& values) {
  if (pattern->kind == Kind::Var) return values[static_cast<size_t>(pattern->var)];
  std::vector<Expr> args;
  for (const Expr& x : pattern->args) args.push_back(filled(x, values));
  return rebuilt(pattern, std::move(args));
}

std::vector<Expr> random_values(Random& r, const Rule& rule) {
  std::vector<Expr> values;
  const bool few = r.flip(0.3);  // equal values often, so that conditions such as x == y are met
  for (int i = 0; i < kWilds; ++i) {
    const DType t = i >= kFirstBool && i < kFirstConstant ? DType::Bool : rule.dtype;
    if (is_float(t))
      values.push_back(Expr::real(t, random_real(r)));
    else if (rule.kind == RuleClass::Index || few)
      values.push_back(Expr::integer(t, few ? r.between(0, 2) : r.between(-20, 20)));
    else
      values.push_back(Expr::integer(t, random_int(r, t)));
  }
  return values;
}

std::optional<bool> agree(const Rule& rule, const std::vector<Expr>& values) {
  const DoubleDomain domain;
  const Expr condition = filled(rule.condition, values), left = filled(rule.left, values),
             right = filled(rule.right, values);
  const auto holds = Evaluator<DoubleDomain>(domain).eval_int(condition, {});
  if (!holds || !*holds) return std::nullopt;
  if (is_float(left.dtype())) {
    const auto a = Evaluator<DoubleDomain>(domain).eval_real(left, {});
    const auto b = Evaluator<DoubleDomain>(domain).eval_real(right, {});
    return a ? std::optional(b && same_real(*a, *b)) : std::nullopt;
  }
  const auto a = Evaluator<DoubleDomain>(domain).eval_int(left, {});
  const auto b = Evaluator<DoubleDomain>(domain).eval_int(right, {});
  return a ? std::optional(b && *a == *b) : std::nullopt;
}

TEST(TeSimplifyProperty, EveryRuleHolds) {
  const uint64_t seed = testing::setting("ISOMER_SEED", 20240611);
  Random random(seed);
  for (const Rule& rule : read_rules()) {
    int met = 0;
    for (int n = 0; n < 20000 && met < 1000; ++n) {
      const std::vector<Expr> values = random_values(random, rule);
      const auto ok = agree(rule, values);
      if (!ok) continue;
      ++met;
      ASSERT_TRUE(*ok) << "seed " << seed << ": " << rule.text << " is wrong for " << isomer::name(rule.dtype) << ": "
                       << print(filled(rule.left, values)) << " is not " << print(filled(rule.right, values));
    }
    EXPECT_GE(met, 20) << rule.text << " for " << isomer::name(rule.dtype) << ": its condition is hardly ever met";
  }
}

}  // namespace
}  // namespace isomer::te
