#include "codegen/range.h"

#include <algorithm>

#include "base/arithmetic.h"

namespace isomer::codegen {

using te::BinaryOp;
using te::Kind;

void Ranges::bind(int var, std::optional<Interval> range) {
  vars_[var] = range;
  memo_.clear();
}

void Ranges::unbind(int var) {
  vars_.erase(var);
  memo_.clear();
}

bool Ranges::nonnegative(const te::Expr& e) {
  if (is_unsigned_int(e.dtype())) return true;
  const auto r = of(e);
  return r && r->low >= 0;
}

bool Ranges::inside(const te::Expr& e, int64_t extent) {
  const auto r = of(e);
  return r && r->low >= 0 && r->high < extent;
}

std::optional<Interval> Ranges::of(const te::Expr& e) {
  const auto [at, fresh] = memo_.try_emplace(e.identity());
  if (!fresh) return at->second;
  const auto r = compute(*e);
  memo_[e.identity()] = r;
  return r;
}

std::optional<Interval> Ranges::compute(const te::Node& n) {
  switch (n.kind) {
    case Kind::Int: return Interval{n.integer, n.integer};
    case Kind::Var: {
      const auto at = vars_.find(n.var);
      return at == vars_.end() ? std::nullopt : at->second;
    }
    case Kind::Binary: return n.dtype == DType::I64 ? binary(n) : std::nullopt;
    case Kind::Select: {
      const auto a = of(n.args[1]), b = of(n.args[2]);
      if (!a || !b) return std::nullopt;
      return Interval{std::min(a->low, b->low), std::max(a->high, b->high)};
    }
    default: return std::nullopt;
  }
}

std::optional<Interval> Ranges::binary(const te::Node& n) {
  const auto a = of(n.args[0]), b = of(n.args[1]);
  if (!a || !b) return std::nullopt;
  auto pair = [](std::optional<int64_t> low, std::optional<int64_t> high) -> std::optional<Interval> {
    if (!low || !high) return std::nullopt;
    return Interval{*low, *high};
  };
  switch (n.binary) {
    case BinaryOp::Add: return pair(checked_add(a->low, b->low), checked_add(a->high, b->high));
    case BinaryOp::Sub: return pair(checked_sub(a->low, b->high), checked_sub(a->high, b->low));
    case BinaryOp::Mul: {
      const std::optional<int64_t> corners[] = {checked_mul(a->low, b->low), checked_mul(a->low, b->high),
                                                checked_mul(a->high, b->low), checked_mul(a->high, b->high)};
      for (const auto& c : corners)
        if (!c) return std::nullopt;
      const auto [low, high] = std::minmax({*corners[0], *corners[1], *corners[2], *corners[3]});
      return Interval{low, high};
    }
    case BinaryOp::Min: return Interval{std::min(a->low, b->low), std::min(a->high, b->high)};
    case BinaryOp::Max: return Interval{std::max(a->low, b->low), std::max(a->high, b->high)};
    case BinaryOp::FloorDiv:
      if (b->low <= 0 || b->low != b->high) return std::nullopt;
      return Interval{floor_div(a->low, b->low), floor_div(a->high, b->low)};
    case BinaryOp::FloorMod:
      if (b->low <= 0) return std::nullopt;
      if (a->low >= 0 && a->high < b->low) return a;
      return Interval{0, b->high - 1};
    case BinaryOp::Div:
      if (b->low <= 0 || b->low != b->high) return std::nullopt;
      return Interval{a->low / b->low, a->high / b->low};
    case BinaryOp::Rem:
      if (b->low <= 0 || a->low < 0) return std::nullopt;
      return Interval{0, std::min(a->high, b->high - 1)};
    default: return std::nullopt;
  }
}

}  // namespace isomer::codegen
