#include "compile/bounds.h"

namespace isomer::compile {

using te::Expr;

namespace {

// Grows with each of its symbols, as far as its form shows.
bool grows(const Dim& d) {
  for (const Dim::Product& p : d.terms())
    for (const Dim::Factor& f : p.factors) {
      if (p.coefficient < 0) return false;
      if (f.kind == Dim::Factor::Kind::Symbol) continue;
      if (!grows(f.a) || !grows(f.b)) return false;
      if (f.kind == Dim::Factor::Kind::FloorDiv && !f.b.is_const()) return false;
    }
  return true;
}

Expr factor(const Dim::Factor& f, const std::function<Expr(const std::string&)>& number) {
  if (f.kind == Dim::Factor::Kind::Symbol) return number(f.name);
  const Expr a = size_in_run(f.a, number), b = size_in_run(f.b, number);
  if (f.kind == Dim::Factor::Kind::FloorDiv) return te::floor_div(a, b);
  return f.kind == Dim::Factor::Kind::Max ? te::max(a, b) : te::min(a, b);
}

}  // namespace

std::optional<int64_t> most(const Dim& size, const Bounds& bounds) {
  if (size.is_const()) return size.value();
  if (size.is_invalid() || !grows(size)) return std::nullopt;
  const Dim bound = size.substitute([&](const std::string& name) -> std::optional<Dim> {
    const auto it = bounds.find(name);
    return it == bounds.end() ? std::nullopt : std::optional<Dim>(it->second);
  });
  return bound.is_const() && bound.value() >= 0 ? std::optional(bound.value()) : std::nullopt;
}

Expr size_in_run(const Dim& size, const std::function<Expr(const std::string&)>& number) {
  if (size.is_const()) return Expr(size.value());
  Expr sum;
  for (const Dim::Product& p : size.terms()) {
    Expr product(p.coefficient);
    for (size_t i = 0; i < p.factors.size(); ++i) {
      const Expr f = factor(p.factors[i], number);
      product = i == 0 && p.coefficient == 1 ? f : product * f;
    }
    sum = sum.empty() ? product : sum + product;
  }
  return sum.empty() ? Expr(0) : sum;
}

}  // namespace isomer::compile
