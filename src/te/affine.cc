#include "te/affine.h"

#include <algorithm>

namespace isomer::te {
namespace {

int64_t add(DType t, int64_t a, int64_t b) {
  return wrap_to(t, static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b)));
}
int64_t multiply(DType t, int64_t a, int64_t b) {
  return wrap_to(t, static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b)));
}
int64_t negate(DType t, int64_t a) { return multiply(t, a, -1); }

// The coefficient as a signed number of its type's width: 255 of u8 is better read as -1.
bool is_negative(DType t, int64_t c) {
  const auto bits = 8 * static_cast<int>(size_of(t));
  const int64_t v = bits == 64 ? c : static_cast<int64_t>(static_cast<uint64_t>(c) << (64 - bits)) >> (64 - bits);
  return v < 0 && negate(t, c) != c;
}

Expr literal(Facts& facts, DType t, int64_t v) {
  Node n{.kind = Kind::Int, .dtype = t};
  n.integer = wrap_to(t, v);
  return facts.intern(std::move(n));
}
Expr operation(Facts& facts, BinaryOp op, const Expr& a, const Expr& b) {
  Node n{.kind = Kind::Binary, .dtype = a.dtype()};
  n.binary = op;
  n.args = {a, b};
  return facts.intern(std::move(n));
}

bool is_number(const Expr& e) { return e->kind == Kind::Int; }
Affine single(const Expr& e) { return {e.dtype(), {{e, 1}}, 0}; }

void accumulate(Affine& into, const Affine& from, int64_t factor) {
  into.constant = add(into.dtype, into.constant, multiply(into.dtype, from.constant, factor));
  for (const Affine::Term& t : from.terms) {
    const int64_t c = multiply(into.dtype, t.coefficient, factor);
    const auto it = std::find_if(into.terms.begin(), into.terms.end(),
                                 [&](const Affine::Term& x) { return x.factors.same_node(t.factors); });
    if (it == into.terms.end())
      into.terms.push_back({t.factors, c});
    else
      it->coefficient = add(into.dtype, it->coefficient, c);
  }
  std::erase_if(into.terms, [](const Affine::Term& t) { return t.coefficient == 0; });
}

void flatten(const Facts& facts, const Expr& e, std::vector<Expr>& out) {
  if (facts[e].factors == 1) {
    out.push_back(e);
    return;
  }
  for (const Expr& x : e->args) flatten(facts, x, out);
}

Affine product(Facts& facts, const Expr& e) {
  const DType t = e.dtype();
  Affine a = affine(facts, e->args[0]), b = affine(facts, e->args[1]);
  if (a.terms.empty()) std::swap(a, b);
  if (b.terms.empty()) {
    Affine scaled{t, {}, 0};
    accumulate(scaled, a, b.constant);
    return scaled;
  }
  const auto monomial = [](const Affine& f) { return f.terms.size() == 1 && f.constant == 0; };
  std::vector<Expr> factors;
  int64_t coefficient = 1;
  for (const Affine* f : {&a, &b}) {
    if (monomial(*f)) {
      coefficient = multiply(t, coefficient, f->terms[0].coefficient);
      flatten(facts, f->terms[0].factors, factors);
    } else {
      factors.push_back(from_affine(facts, *f));
    }
  }
  if (coefficient == 0) return {t, {}, 0};
  return {t, {{product_of(facts, t, std::move(factors)), coefficient}}, 0};
}

Expr scaled(Facts& facts, DType t, const Expr& factors, int64_t c) {
  return c == 1 ? factors : operation(facts, BinaryOp::Mul, factors, literal(facts, t, c));
}

}  // namespace

Affine affine(Facts& facts, const Expr& e) {
  const DType t = e.dtype();
  if (e->kind == Kind::Int) return {t, {}, e->integer};
  Affine sum{t, {}, 0};
  if (e->kind == Kind::Unary && e->unary == UnaryOp::Neg) {
    accumulate(sum, affine(facts, e->args[0]), negate(t, 1));
    return sum;
  }
  if (e->kind != Kind::Binary) return single(e);
  if (e->binary == BinaryOp::Mul)
    return facts[e].factors > 1 || is_number(e->args[0]) || is_number(e->args[1]) ? product(facts, e) : single(e);
  if (e->binary != BinaryOp::Add && e->binary != BinaryOp::Sub) return single(e);
  if (facts[e->args[0]].terms + facts[e->args[1]].terms > kMaxAffineTerms) return single(e);
  sum = affine(facts, e->args[0]);
  const Affine b = affine(facts, e->args[1]);
  accumulate(sum, b, e->binary == BinaryOp::Add ? 1 : negate(t, 1));
  return sum;
}

Expr from_affine(Facts& facts, Affine form) {
  const DType t = form.dtype;
  std::stable_sort(form.terms.begin(), form.terms.end(), [&](const Affine::Term& a, const Affine::Term& b) {
    const bool na = is_negative(t, a.coefficient), nb = is_negative(t, b.coefficient);
    return na != nb ? nb : facts.before(a.factors, b.factors);
  });
  Expr sum;
  for (const Affine::Term& term : form.terms) {
    const bool negative = is_negative(t, term.coefficient);
    if (sum.identity() == nullptr) {
      if (term.coefficient == negate(t, 1) && negative) {
        Node n{.kind = Kind::Unary, .dtype = t};
        n.unary = UnaryOp::Neg;
        n.args = {term.factors};
        sum = facts.intern(std::move(n));
      } else {
        sum = scaled(facts, t, term.factors, term.coefficient);
      }
    } else if (negative) {
      sum = operation(facts, BinaryOp::Sub, sum, scaled(facts, t, term.factors, negate(t, term.coefficient)));
    } else {
      sum = operation(facts, BinaryOp::Add, sum, scaled(facts, t, term.factors, term.coefficient));
    }
  }
  if (sum.identity() == nullptr) return literal(facts, t, form.constant);
  if (form.constant == 0) return sum;
  if (is_negative(t, form.constant))
    return operation(facts, BinaryOp::Sub, sum, literal(facts, t, negate(t, form.constant)));
  return operation(facts, BinaryOp::Add, sum, literal(facts, t, form.constant));
}

Affine difference(Facts& facts, const Expr& a, const Expr& b) {
  Affine d = affine(facts, a);
  accumulate(d, affine(facts, b), negate(d.dtype, 1));
  return d;
}

std::vector<Expr> terms_of(Facts& facts, const Expr& sum) {
  const Affine form = affine(facts, sum);
  std::vector<Expr> out;
  for (const Affine::Term& t : form.terms) out.push_back(scaled(facts, form.dtype, t.factors, t.coefficient));
  if (form.constant != 0) out.push_back(literal(facts, form.dtype, form.constant));
  return out;
}

Expr sum_of(Facts& facts, DType dtype, const std::vector<Expr>& terms) {
  Affine form{dtype, {}, 0};
  for (const Expr& t : terms) accumulate(form, affine(facts, t), 1);
  return from_affine(facts, std::move(form));
}

std::vector<Expr> factors_of(Facts& facts, const Expr& product) {
  std::vector<Expr> out;
  flatten(facts, product, out);
  return out;
}

Expr product_of(Facts& facts, DType dtype, std::vector<Expr> factors) {
  std::stable_sort(factors.begin(), factors.end(), [&](const Expr& a, const Expr& b) { return facts.before(a, b); });
  if (factors.empty()) return literal(facts, dtype, 1);
  Expr all = factors[0];
  for (size_t i = 1; i < factors.size(); ++i) all = operation(facts, BinaryOp::Mul, all, factors[i]);
  return all;
}

std::optional<Int128> least(const Facts& facts, const Affine& form) {
  // Numbers first; a range that a symbolic extent leaves open makes this hopeless, and the sizes themselves decide.
  Int128 low = form.constant;
  bool open = false;
  for (const Affine::Term& t : form.terms) {
    const Bounds& b = facts[t.factors].bounds;
    const Int128 limit = Int128{1} << 62;
    const Int128 end = t.coefficient > 0 ? b.low : b.high;
    if (end > limit || end < -limit || t.coefficient > (int64_t{1} << 60) || t.coefficient < -(int64_t{1} << 60))
      open = true;
    if (!open) low += end * t.coefficient;
    if (low > limit * limit / 2 || low < -(limit * limit / 2)) return std::nullopt;
  }
  if (!open) return low;
  Dim sum(form.constant);
  for (const Affine::Term& t : form.terms) {
    std::vector<Expr> factors;
    flatten(facts, t.factors, factors);
    Dim end(1);
    bool has_axis = false;
    for (const Expr& f : factors) {
      const Dim* extent = f->kind == Kind::Var ? facts.extent(f->var) : nullptr;
      if (f->kind == Kind::Size && (factors.size() == 1 || f->size.as_symbol()))
        end = end * f->size;
      else if (extent)
        has_axis = true, end = end * (*extent - Dim(1));
      else
        return std::nullopt;
    }
    if (has_axis && t.coefficient > 0) continue;  // no axis or symbol is negative
    sum = sum + end * Dim(t.coefficient);
  }
  return sum.is_const() ? std::optional<Int128>(sum.value()) : std::nullopt;
}

}  // namespace isomer::te
