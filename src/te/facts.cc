#include "te/facts.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace isomer::te {
namespace {

constexpr Int128 kMax64 = std::numeric_limits<int64_t>::max();
constexpr Int128 kMin64 = std::numeric_limits<int64_t>::min();
constexpr Bounds kTruthBounds{0, 1};

Int128 floor_quotient(Int128 a, Int128 b) {
  const Int128 q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

// Saturating: the operands are 64-bit values, but a product of two unsigned ones may not fit even here.
Int128 product(Int128 a, Int128 b) {
  Int128 r;
  if (!__builtin_mul_overflow(a, b, &r)) return r;
  const Int128 most = Int128{1} << 126;
  return (a < 0) == (b < 0) ? most : -most;
}

template <class F>
Bounds corners(const Bounds& a, const Bounds& b, F f) {
  const Int128 v[] = {f(a.low, b.low), f(a.low, b.high), f(a.high, b.low), f(a.high, b.high)};
  return {*std::min_element(v, v + 4), *std::max_element(v, v + 4)};
}

Bounds compare_bounds(BinaryOp op, const Bounds& a, const Bounds& b) {
  const bool less = a.high < b.low, greater = b.high < a.low;
  const bool same = a.point() && b.point() && a.low == b.low;
  switch (op) {
    case BinaryOp::Lt: return less ? Bounds{1, 1} : b.high <= a.low ? Bounds{0, 0} : kTruthBounds;
    case BinaryOp::Le: return a.high <= b.low ? Bounds{1, 1} : greater ? Bounds{0, 0} : kTruthBounds;
    case BinaryOp::Eq: return less || greater ? Bounds{0, 0} : same ? Bounds{1, 1} : kTruthBounds;
    default: return less || greater ? Bounds{1, 1} : same ? Bounds{0, 0} : kTruthBounds;
  }
}

bool index_operation(const Node& n) {
  switch (n.kind) {
    case Kind::Unary: return n.unary == UnaryOp::Neg || n.unary == UnaryOp::Abs;
    case Kind::Binary: return n.binary <= BinaryOp::FloorMod || n.binary == BinaryOp::Min || n.binary == BinaryOp::Max;
    case Kind::Select: return true;
    default: return false;
  }
}

bool within(const Bounds& b, const Bounds& outer) { return outer.low <= b.low && b.high <= outer.high; }

}  // namespace

Bounds type_bounds(DType type) {
  if (type == DType::U64) return {0, 2 * kMax64 + 1};
  if (!is_int(type) && type != DType::Bool) return {};
  return {lowest_int(type), highest_int(type)};
}

Int128 meant(const Node& n) {
  return n.dtype == DType::U64 ? static_cast<Int128>(static_cast<uint64_t>(n.integer)) : static_cast<Int128>(n.integer);
}

void Facts::add_axis(const Axis& axis) {
  const auto [it, fresh] = extents_.try_emplace(axis.id, axis.extent);
  if (fresh || it->second == axis.extent) return;
  const bool numbers = it->second.is_const() && axis.extent.is_const();
  it->second = numbers ? Dim(std::max(it->second.value(), axis.extent.value())) : Dim::invalid();
}

const Dim* Facts::extent(int axis) const {
  const auto it = extents_.find(axis);
  return it == extents_.end() || it->second.is_invalid() ? nullptr : &it->second;
}

uint64_t operations_of(const Node& n) {
  constexpr int kUnaryOps = static_cast<int>(UnaryOp::IsInf) + 1, kBinaryOps = static_cast<int>(BinaryOp::Le) + 1;
  static_assert(kUnaryOps + kBinaryOps + 3 <= 64);
  const auto bit = [](int number) { return uint64_t{1} << number; };
  switch (n.kind) {
    case Kind::Unary: return n.unary == UnaryOp::Neg ? 0 : bit(static_cast<int>(n.unary));
    case Kind::Binary: return n.binary <= BinaryOp::Mul ? 0 : bit(kUnaryOps + static_cast<int>(n.binary));
    case Kind::Select: return bit(kUnaryOps + kBinaryOps);
    case Kind::Cast: return bit(kUnaryOps + kBinaryOps + 1);
    case Kind::Reduce: return bit(kUnaryOps + kBinaryOps + 2);
    default: return 0;
  }
}

Expr Facts::intern(Node node) {
  node.hash = content_hash(node);
  std::vector<Expr>& bucket = table_[node.hash];
  // Operands are interned, so this equality ends at the first level.
  for (const Expr& known : bucket)
    if (equal(*known, node)) return known;
  const Expr e = Expr::make_hashed(std::move(node));
  facts_.emplace(e.identity(), fact_of(*e));
  bucket.push_back(e);
  return e;
}

bool Facts::before(const Expr& a, const Expr& b) const {
  const auto rank = [](const Node& n) {
    switch (n.kind) {
      case Kind::Var: return 0;
      case Kind::Size: return 1;
      case Kind::Int:
      case Kind::Real: return 3;
      default: return 2;
    }
  };
  const int ra = rank(*a), rb = rank(*b);
  if (ra != rb) return ra < rb;
  if (ra == 0 && a->var != b->var) return a->var < b->var;
  return a->hash < b->hash;
}

uint32_t Facts::terms_in(const Node& n) const {
  const auto of = [&](size_t i) { return (*this)[n.args[i]].terms; };
  if (n.kind == Kind::Int) return 0;
  if (n.kind == Kind::Unary && n.unary == UnaryOp::Neg) return of(0);
  if (n.kind != Kind::Binary) return 1;
  if (n.binary == BinaryOp::Mul) return of(0) == 0 ? of(1) : of(1) == 0 ? of(0) : 1;
  const bool sum = n.binary == BinaryOp::Add || n.binary == BinaryOp::Sub;
  return sum && of(0) + of(1) <= kMaxAffineTerms ? of(0) + of(1) : 1;
}

uint32_t Facts::factors_in(const Node& n) const {
  if (n.kind != Kind::Binary || n.binary != BinaryOp::Mul) return 1;
  const uint32_t count = (*this)[n.args[0]].factors + (*this)[n.args[1]].factors;
  return count <= kMaxFactors ? count : 1;
}

Fact Facts::fact_of(const Node& n) const {
  Fact f;
  f.terms = terms_in(n);
  f.factors = factors_in(n);
  f.operations = operations_of(n);
  for (const Expr& x : n.args) {
    f.symbolic |= (*this)[x].symbolic;
    f.operations |= (*this)[x].operations;
  }
  const Bounds type = type_bounds(n.dtype);
  f.bounds = type;
  if (is_float(n.dtype)) return f;
  if (n.kind == Kind::Size) f.symbolic = true;
  if (n.kind == Kind::Var) {
    const Dim* d = extent(n.var);
    f.symbolic = !d || !d->is_const();
  }
  const Bounds exact = bounds_of(n);
  f.bounds = within(exact, type) ? exact : type;
  if (n.dtype != DType::I64) return f;
  if (n.kind == Kind::Var || n.kind == Kind::Size) f.index = true;
  if (n.kind == Kind::Int) f.index = n.integer <= kLargestIndexLiteral && n.integer >= -kLargestIndexLiteral;
  if (index_operation(n)) {
    f.index = true;
    for (const Expr& x : n.args) f.index &= x.dtype() == DType::Bool || (*this)[x].index;
    f.index &= f.symbolic || within(exact, type);
    if (f.index) f.bounds = {std::max(exact.low, kMin64), std::min(exact.high, kMax64)};
    if (f.bounds.low > f.bounds.high) f.bounds = type;
  }
  return f;
}

// What arithmetic without wrapping gives; the caller looks whether it fits the type.
Bounds Facts::bounds_of(const Node& n) const {
  const Bounds type = type_bounds(n.dtype);
  const auto of = [&](size_t i) -> const Bounds& { return (*this)[n.args[i]].bounds; };
  switch (n.kind) {
    case Kind::Int: return {meant(n), meant(n)};
    case Kind::Var: {
      const Dim* d = extent(n.var);
      if (!d) return type;
      return {0, d->is_const() ? std::max<Int128>(0, static_cast<Int128>(d->value()) - 1) : kMax64};
    }
    case Kind::Size: return n.size.as_symbol() ? Bounds{0, kMax64} : type;
    case Kind::Unary:
      if (is_float(n.args[0].dtype())) return type;
      if (n.unary == UnaryOp::Neg) return {-of(0).high, -of(0).low};
      if (n.unary == UnaryOp::Abs) {
        const Int128 most = std::max(-of(0).low, of(0).high);
        return {of(0).low > 0 ? of(0).low : of(0).high < 0 ? -of(0).high : 0, most};
      }
      if (n.unary == UnaryOp::Not) return n.dtype == DType::Bool ? Bounds{1 - of(0).high, 1 - of(0).low} : type;
      return of(0);
    case Kind::Binary: return is_float(n.args[0].dtype()) ? type : binary_bounds(n);
    case Kind::Select:
      if (of(0).point()) return of(0).low ? of(1) : of(2);
      return {std::min(of(1).low, of(2).low), std::max(of(1).high, of(2).high)};
    case Kind::Cast:
      if (is_float(n.args[0].dtype())) return type;
      if (n.dtype == DType::Bool && !within(of(0), kTruthBounds)) return type;
      return of(0);
    case Kind::Reduce: return is_arg(n.combiner) ? Bounds{0, kMax64} : type;
    case Kind::Real:
    case Kind::Read: break;
  }
  return type;
}

Bounds Facts::binary_bounds(const Node& n) const {
  const Bounds& a = (*this)[n.args[0]].bounds;
  const Bounds& b = (*this)[n.args[1]].bounds;
  const Bounds type = type_bounds(n.dtype);
  if (is_compare(n.binary)) return compare_bounds(n.binary, a, b);
  if (n.dtype == DType::Bool) {
    if (n.binary == BinaryOp::And) return {std::min(a.low, b.low), std::min(a.high, b.high)};
    if (n.binary == BinaryOp::Or) return {std::max(a.low, b.low), std::max(a.high, b.high)};
    if (n.binary != BinaryOp::Min && n.binary != BinaryOp::Max) return type;
  }
  const bool positive = b.low > 0, natural = positive && a.low >= 0;
  switch (n.binary) {
    case BinaryOp::Add: return {a.low + b.low, a.high + b.high};
    case BinaryOp::Sub: return {a.low - b.high, a.high - b.low};
    case BinaryOp::Mul: return corners(a, b, product);
    case BinaryOp::Div: return natural ? corners(a, b, floor_quotient) : type;
    case BinaryOp::FloorDiv: return positive ? corners(a, b, floor_quotient) : type;
    case BinaryOp::Rem:
    case BinaryOp::FloorMod:
      if (natural && a.high < b.low) return a;
      if (natural) return {0, std::min(a.high, b.high - 1)};
      return positive && n.binary == BinaryOp::FloorMod ? Bounds{0, b.high - 1} : type;
    case BinaryOp::Min: return {std::min(a.low, b.low), std::min(a.high, b.high)};
    case BinaryOp::Max: return {std::max(a.low, b.low), std::max(a.high, b.high)};
    default: return type;
  }
}

}  // namespace isomer::te
