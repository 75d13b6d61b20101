#include "te/size_domain.h"

namespace isomer::te {

std::optional<double> SizeDomain::to_real(DType from, const Dim& v) const {
  const auto c = v.constant();
  return c ? std::optional<double>(real_from_int(from, *c)) : std::nullopt;
}

std::optional<Dim> SizeDomain::to_int(DType to, const double& v) const { return Dim(int_from_real(to, v)); }

// A symbolic size is a small non-negative number: it fits the index types, so only numbers need wrapping.
Dim SizeDomain::wrap(DType t, const Dim& v) const {
  const auto c = v.constant();
  return c ? Dim(wrap_to(t, *c)) : v;
}

std::optional<Dim> SizeDomain::unary_int(UnaryOp op, DType t, const Dim& x) const {
  if (const auto c = x.constant()) return Dim(int_unary(op, t, *c));
  if (op == UnaryOp::Neg) return Dim(0) - x;
  return std::nullopt;
}

namespace {

// Whether a < b whatever the symbols are: sizes are never negative.
bool below(const Dim& a, const Dim& b) { return (b - a).at_least().value_or(0) >= 1; }

}  // namespace

std::optional<Dim> SizeDomain::binary_int(BinaryOp op, DType t, const Dim& a, const Dim& b) const {
  const auto ca = a.constant(), cb = b.constant();
  if (ca && cb) {
    const auto r = int_binary(op, t, *ca, *cb);
    return r ? std::optional<Dim>(Dim(*r)) : std::nullopt;
  }
  Dim r;
  switch (op) {
    case BinaryOp::Add: r = a + b; break;
    case BinaryOp::Sub: r = a - b; break;
    case BinaryOp::Mul: r = a * b; break;
    // Sizes are not negative, so truncation and floor agree on them.
    case BinaryOp::Div:
    case BinaryOp::FloorDiv: r = floor_div(a, b); break;
    case BinaryOp::Rem:
    case BinaryOp::FloorMod: r = floor_mod(a, b); break;
    case BinaryOp::Max: r = isomer::max(a, b); break;
    case BinaryOp::Min: r = isomer::min(a, b); break;
    case BinaryOp::Eq:
    case BinaryOp::Ne:
      if (a == b) return Dim(op == BinaryOp::Eq ? 1 : 0);
      if (!below(a, b) && !below(b, a)) return std::nullopt;
      return Dim(op == BinaryOp::Eq ? 0 : 1);
    case BinaryOp::Lt:
      if (below(a, b)) return Dim(1);
      return below(b, a + Dim(1)) ? std::optional<Dim>(Dim(0)) : std::nullopt;
    case BinaryOp::Le:
      if (below(a, b + Dim(1))) return Dim(1);
      return below(b, a) ? std::optional<Dim>(Dim(0)) : std::nullopt;
    default: return std::nullopt;
  }
  return r.is_invalid() ? std::nullopt : std::optional<Dim>(r);
}

}  // namespace isomer::te
