#include "verify/terms.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace isomer::verify {
namespace {

constexpr size_t kMostTerms = 4096;  // of one sum

std::optional<Rational> plus(const Rational& a, const Rational& b) {
  try {
    return a + b;
  } catch (const GiveUp&) {
    return std::nullopt;
  }
}
std::optional<Rational> times(const Rational& a, const Rational& b) {
  try {
    return a * b;
  } catch (const GiveUp&) {
    return std::nullopt;
  }
}

}  // namespace

TermId TermTable::intern(Sum s) {
  const auto [it, fresh] = ids_.try_emplace(s, static_cast<TermId>(sums_.size()));
  if (fresh) sums_.push_back(std::move(s));
  return it->second;
}

TermId TermTable::of_atom(uint32_t atom, int32_t power) { return intern({{{{atom, power}}, {1, 1}}}); }

TermId TermTable::atom(Atom a) {
  const auto [it, fresh] = atom_ids_.try_emplace(a, static_cast<uint32_t>(atoms_.size()));
  if (fresh) atoms_.push_back(std::move(a));
  return of_atom(it->second);
}

bool TermTable::spend(size_t terms) {
  spent_ += terms + 1;
  return spent_ <= budget_ && terms <= kMostTerms;
}

TermId TermTable::input(int64_t tensor, int64_t element) { return atom({Atom::Kind::Input, {tensor, element}}); }

TermId TermTable::number(const Rational& r) { return r.num == 0 ? intern({}) : intern({{{}, r}}); }

// As the proof for all sizes reads literals: small dyadic numbers are numbers, any other is a value of its own, one however
// exactly it is written.
TermId TermTable::literal(double v) {
  if (std::isinf(v)) return atom({v < 0 ? Atom::Kind::Lowest : Atom::Kind::Highest, {}});
  const double scaled = v * 4096;
  if (std::abs(v) < 1e6 && scaled == std::floor(scaled))
    return number(Rational{static_cast<int64_t>(scaled), 1} * Rational{1, 4096});
  const double single = std::abs(v) < 1e30 ? static_cast<double>(static_cast<float>(v)) : v;
  const TermId size = atom({Atom::Kind::Literal, {std::bit_cast<int64_t>(std::abs(single))}});
  return v < 0 ? negate(size).value_or(size) : size;
}

std::optional<uint32_t> TermTable::single_atom(TermId a) const {
  const Sum& s = sums_[a];
  if (s.size() != 1 || s[0].second != Rational{1, 1} || s[0].first.size() != 1 || s[0].first[0].second != 1)
    return std::nullopt;
  return s[0].first[0].first;
}

bool TermTable::is(TermId a, Atom::Kind kind) const {
  const auto one = single_atom(a);
  return one && atoms_[*one].kind == kind;
}

std::optional<Rational> TermTable::constant(TermId a) const {
  const Sum& s = sums_[a];
  if (s.empty()) return Rational{0, 1};
  return s.size() == 1 && s[0].first.empty() ? std::optional(s[0].second) : std::nullopt;
}

std::optional<TermId> TermTable::add(TermId a, TermId b) {
  if (infinite(a) || infinite(b)) return std::nullopt;
  if (sums_[a].empty()) return b;
  if (sums_[b].empty()) return a;
  const Sum &x = sums_[a], &y = sums_[b];
  if (!spend(x.size() + y.size())) return std::nullopt;
  Sum out;
  size_t i = 0, k = 0;
  while (i < x.size() || k < y.size()) {
    if (k == y.size() || (i < x.size() && x[i].first < y[k].first)) {
      out.push_back(x[i++]);
    } else if (i == x.size() || y[k].first < x[i].first) {
      out.push_back(y[k++]);
    } else {
      const auto c = plus(x[i].second, y[k].second);
      if (!c) return std::nullopt;
      if (c->num != 0) out.emplace_back(x[i].first, *c);
      ++i, ++k;
    }
  }
  return intern(std::move(out));
}

std::optional<TermId> TermTable::multiply(TermId a, TermId b) {
  if (infinite(a) || infinite(b)) return std::nullopt;
  const Sum &x = sums_[a], &y = sums_[b];
  if (!spend(x.size() * y.size())) return std::nullopt;
  std::map<Powers, Rational> all;
  for (const auto& [p, c] : x)
    for (const auto& [q, d] : y) {
      Powers both;
      for (size_t i = 0, k = 0; i < p.size() || k < q.size();) {
        if (k == q.size() || (i < p.size() && p[i].first < q[k].first)) {
          both.push_back(p[i++]);
        } else if (i == p.size() || q[k].first < p[i].first) {
          both.push_back(q[k++]);
        } else {
          if (const int32_t power = p[i].second + q[k].second; power != 0) both.emplace_back(p[i].first, power);
          ++i, ++k;
        }
      }
      const auto product = times(c, d);
      if (!product) return std::nullopt;
      Rational& slot = all[std::move(both)];
      const auto sum = plus(slot, *product);
      if (!sum) return std::nullopt;
      slot = *sum;
    }
  Sum out;
  for (auto& [p, c] : all)
    if (c.num != 0) out.emplace_back(p, c);
  return intern(std::move(out));
}

// The inverse of a product is the product of inverses. x * (1/x) is 1 for exponentials alone: only they are never 0.
std::optional<TermId> TermTable::inverse(TermId a) {
  if (infinite(a)) return std::nullopt;
  const Sum s = sums_[a];
  if (s.empty()) return std::nullopt;
  if (s.size() != 1) return atom({Atom::Kind::Inverse, {static_cast<int64_t>(a)}});
  const Rational c = s[0].second;
  TermId out = number(c.num < 0 ? Rational{-c.den, -c.num} : Rational{c.den, c.num});
  for (const auto& [base, power] : s[0].first) {
    const bool cancels = atoms_[base].kind == Atom::Kind::Exponential;
    const TermId one =
        cancels ? of_atom(base, -power) : atom({Atom::Kind::Inverse, {static_cast<int64_t>(of_atom(base))}});
    for (int32_t i = 0; i < (cancels ? 1 : power); ++i) {
      const auto next = multiply(out, one);
      if (!next) return std::nullopt;
      out = *next;
    }
  }
  return out;
}

std::optional<TermId> TermTable::exponential(TermId a) {
  if (infinite(a)) return std::nullopt;
  // exp of a sum is a product: one factor for each term, with the coefficient as its power where that is an integer.
  TermId out = number({1, 1});
  const Sum s = sums_[a];
  for (const auto& [powers, c] : s) {
    const bool whole = c.den == 1 && std::abs(c.num) <= 16;
    const TermId inner = intern({{powers, whole ? Rational{1, 1} : c}});
    const TermId base = atom({Atom::Kind::Exponential, {static_cast<int64_t>(inner)}});
    const auto next = multiply(out, of_atom(*single_atom(base), whole ? static_cast<int32_t>(c.num) : 1));
    if (!next) return std::nullopt;
    out = *next;
  }
  return out;
}

std::optional<TermId> TermTable::largest(TermId a, TermId b) {
  if (is(a, Atom::Kind::Lowest)) return b;
  if (is(b, Atom::Kind::Lowest)) return a;
  if (infinite(a) || infinite(b)) return std::nullopt;
  std::vector<int64_t> all;
  std::optional<Rational> number_of;
  for (const TermId id : {a, b}) {
    const auto one = single_atom(id);
    if (one && atoms_[*one].kind == Atom::Kind::Largest)
      all.insert(all.end(), atoms_[*one].what.begin(), atoms_[*one].what.end());
    else
      all.push_back(id);
  }
  if (!spend(all.size())) return std::nullopt;
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  std::erase_if(all, [&](int64_t id) {
    const auto c = constant(static_cast<TermId>(id));
    if (!c) return false;
    const auto wide = [](const Rational& r) {
      return static_cast<long double>(r.num) / static_cast<long double>(r.den);
    };
    if (!number_of || wide(*c) > wide(*number_of)) number_of = c;
    return true;
  });
  if (number_of) all.push_back(number(*number_of));
  if (all.size() == 1) return static_cast<TermId>(all[0]);
  std::sort(all.begin(), all.end());
  return atom({Atom::Kind::Largest, std::move(all)});
}

std::optional<TermId> TermTable::smallest(TermId a, TermId b) {
  if (is(a, Atom::Kind::Highest)) return b;
  if (is(b, Atom::Kind::Highest)) return a;
  const auto x = negate(a), y = negate(b);
  const auto most = x && y ? largest(*x, *y) : std::nullopt;
  return most ? negate(*most) : std::nullopt;
}

TermId TermTable::apply(int64_t function, TermId a, TermId b) {
  return atom({Atom::Kind::Function, {function, static_cast<int64_t>(a), static_cast<int64_t>(b)}});
}

std::optional<TermDomain::Real> TermDomain::unary(te::UnaryOp op, const Real& x) const {
  const auto real = [](std::optional<TermId> id) { return id ? std::optional(Real{*id}) : std::nullopt; };
  if (op == te::UnaryOp::Neg) return real(terms->negate(x.id));
  if (op == te::UnaryOp::Exp) return real(terms->exponential(x.id));
  if (op == te::UnaryOp::Abs) {
    const auto minus = terms->negate(x.id);
    return minus ? real(terms->largest(x.id, *minus)) : std::nullopt;
  }
  return Real{terms->apply(static_cast<int64_t>(op), x.id, x.id)};
}

std::optional<TermDomain::Real> TermDomain::binary(te::BinaryOp op, const Real& a, const Real& b) const {
  const auto real = [](std::optional<TermId> id) { return id ? std::optional(Real{*id}) : std::nullopt; };
  switch (op) {
    case te::BinaryOp::Add: return real(terms->add(a.id, b.id));
    case te::BinaryOp::Sub: {
      const auto n = terms->negate(b.id);
      return n ? real(terms->add(a.id, *n)) : std::nullopt;
    }
    case te::BinaryOp::Mul: return real(terms->multiply(a.id, b.id));
    case te::BinaryOp::Div: {
      const auto n = terms->inverse(b.id);
      return n ? real(terms->multiply(a.id, *n)) : std::nullopt;
    }
    case te::BinaryOp::Max: return real(terms->largest(a.id, b.id));
    case te::BinaryOp::Min: return real(terms->smallest(a.id, b.id));
    case te::BinaryOp::Pow: {
      const auto power = terms->constant(b.id);
      if (power && power->den == 1 && power->num >= 1 && power->num <= 4) {
        std::optional<TermId> out = a.id;
        for (int64_t i = 1; out && i < power->num; ++i) out = terms->multiply(*out, a.id);
        return real(out);
      }
      break;
    }
    default: break;
  }
  return Real{terms->apply(100 + static_cast<int64_t>(op), a.id, b.id)};
}

}  // namespace isomer::verify
