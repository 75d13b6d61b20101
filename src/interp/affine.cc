#include "interp/affine.h"

#include "base/arithmetic.h"

namespace isomer::interp {

std::optional<Affine> add(const Affine& a, const Affine& b) {
  Affine out;
  const auto c = checked_add(a.constant, b.constant);
  if (!c) return std::nullopt;
  out.constant = *c;
  size_t i = 0, j = 0;
  while (i < a.terms.size() || j < b.terms.size()) {
    if (j == b.terms.size() || (i < a.terms.size() && a.terms[i].first < b.terms[j].first)) {
      out.terms.push_back(a.terms[i++]);
    } else if (i == a.terms.size() || b.terms[j].first < a.terms[i].first) {
      out.terms.push_back(b.terms[j++]);
    } else {
      const auto s = checked_add(a.terms[i].second, b.terms[j].second);
      if (!s) return std::nullopt;
      if (*s != 0) out.terms.emplace_back(a.terms[i].first, *s);
      ++i, ++j;
    }
  }
  return out;
}

std::optional<Affine> scale(const Affine& a, int64_t factor) {
  Affine out;
  if (factor == 0) return out;
  const auto c = checked_mul(a.constant, factor);
  if (!c) return std::nullopt;
  out.constant = *c;
  for (const auto& [axis, k] : a.terms) {
    const auto m = checked_mul(k, factor);
    if (!m) return std::nullopt;
    out.terms.emplace_back(axis, *m);
  }
  return out;
}

std::optional<Affine> subtract(const Affine& a, const Affine& b) {
  const auto negative = scale(b, -1);
  return negative ? add(a, *negative) : std::nullopt;
}

std::optional<Range> range_of(const Affine& a, const Extents& extents) {
  std::optional<int64_t> low = a.constant, high = a.constant;
  for (const auto& [axis, k] : a.terms) {
    const auto it = extents.find(axis);
    if (it == extents.end() || it->second < 1) return std::nullopt;
    const auto span = checked_mul(k, it->second - 1);
    if (!span) return std::nullopt;
    auto& end = *span < 0 ? low : high;
    end = checked_add(*end, *span);
    if (!end) return std::nullopt;
  }
  return Range{*low, *high};
}

const std::optional<Affine>& AffineReader::read(const te::Expr& e) {
  const auto it = known_.find(&*e);
  if (it != known_.end()) return it->second;
  auto result = compute(e);
  if (result && !range_of(*result, extents_)) result.reset();
  return known_[&*e] = std::move(result);
}

std::optional<Affine> AffineReader::compute(const te::Expr& e) {
  if (e.dtype() != DType::I64) return std::nullopt;
  switch (e->kind) {
    case te::Kind::Int: return Affine{e->integer, {}};
    case te::Kind::Var: return Affine{0, {{e->var, 1}}};
    case te::Kind::Size: return e->size.is_const() ? std::optional(Affine{e->size.value(), {}}) : std::nullopt;
    case te::Kind::Unary: {
      if (e->unary != te::UnaryOp::Neg) return std::nullopt;
      const auto x = read(e->args[0]);
      return x ? scale(*x, -1) : std::nullopt;
    }
    case te::Kind::Binary: {
      const bool divides = e->binary == te::BinaryOp::FloorDiv || e->binary == te::BinaryOp::FloorMod;
      if (e->binary > te::BinaryOp::Mul && !divides) return std::nullopt;
      const auto a = read(e->args[0]);
      const auto b = a ? read(e->args[1]) : std::nullopt;
      if (!b) return std::nullopt;
      if (divides) return divide(*a, *b, e->binary == te::BinaryOp::FloorMod);
      if (e->binary == te::BinaryOp::Add) return add(*a, *b);
      if (e->binary == te::BinaryOp::Sub) return subtract(*a, *b);
      if (a->terms.empty()) return scale(*b, a->constant);
      return b->terms.empty() ? scale(*a, b->constant) : std::nullopt;
    }
    default: return std::nullopt;
  }
}

std::optional<Affine> AffineReader::divide(const Affine& x, const Affine& by, bool remainder) {
  const auto r = range_of(x, extents_);
  if (!by.terms.empty() || by.constant < 1 || !r || r->low < 0) return std::nullopt;
  if (r->high < by.constant) return remainder ? x : Affine{};
  if (x.terms.empty()) return Affine{remainder ? x.constant % by.constant : x.constant / by.constant, {}};
  return quotient ? quotient(x, by.constant, remainder) : std::nullopt;
}

std::optional<std::vector<Affine>> AffineReader::guards(const te::Expr& c) {
  if (c->kind == te::Kind::Int) {
    if (c->integer == 0) return std::nullopt;
    return std::vector<Affine>{};
  }
  if (c->kind != te::Kind::Binary) return std::nullopt;
  if (c->binary == te::BinaryOp::And && c.dtype() == DType::Bool) {
    auto a = guards(c->args[0]);
    const auto b = a ? guards(c->args[1]) : std::nullopt;
    if (!b || a->size() + b->size() > 64) return std::nullopt;
    a->insert(a->end(), b->begin(), b->end());
    return a;
  }
  if (c->binary != te::BinaryOp::Le && c->binary != te::BinaryOp::Lt) return std::nullopt;
  const auto a = read(c->args[0]);
  const auto b = a ? read(c->args[1]) : std::nullopt;
  auto difference = b ? subtract(*b, *a) : std::nullopt;
  if (difference && c->binary == te::BinaryOp::Lt) difference = add(*difference, Affine{-1, {}});
  if (!difference || !range_of(*difference, extents_)) return std::nullopt;
  return std::vector<Affine>{*std::move(difference)};
}

}  // namespace isomer::interp
