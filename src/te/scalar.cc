#include "te/scalar.h"

#include <cmath>
#include <limits>

#include "base/arithmetic.h"
#include "base/check.h"

namespace isomer::te {
namespace {

// A misuse by our own code: the caller chose the wrong function for the operation.
[[noreturn]] void wrong_operation(std::string_view op) {
  check_failed("operation fits the number kind", std::string(op));
}

template <class T>
int64_t power(T base, int64_t exponent) {
  uint64_t result = 1, b = static_cast<uint64_t>(base);
  for (auto e = static_cast<uint64_t>(exponent); e != 0; e >>= 1, b *= b)
    if (e & 1) result *= b;
  return static_cast<int64_t>(result);
}

int64_t int_power(DType type, int64_t a, int64_t b) {
  if (is_unsigned_int(type) || b >= 0) return wrap_to(type, power(a, b));
  return a == 1 ? 1 : a == -1 ? (b % 2 == 0 ? 1 : -1) : 0;
}

bool int_less(DType type, int64_t a, int64_t b) {
  return type == DType::U64 ? static_cast<uint64_t>(a) < static_cast<uint64_t>(b) : a < b;
}

int64_t shift(DType type, int64_t a, int64_t b, bool left) {
  const auto width = static_cast<int64_t>(8 * size_of(type));
  if (b < 0 || b >= width) return 0;
  const auto bits = static_cast<uint64_t>(a);
  if (left) return wrap_to(type, static_cast<int64_t>(bits << b));
  return is_signed_int(type) ? a >> b : static_cast<int64_t>(bits >> b);
}

}  // namespace

double real_unary(UnaryOp op, double x) {
  switch (op) {
    case UnaryOp::Neg: return -x;
    case UnaryOp::Abs: return std::fabs(x);
    case UnaryOp::Exp: return std::exp(x);
    case UnaryOp::Log: return std::log(x);
    case UnaryOp::Sqrt: return std::sqrt(x);
    case UnaryOp::Sin: return std::sin(x);
    case UnaryOp::Cos: return std::cos(x);
    case UnaryOp::Tan: return std::tan(x);
    case UnaryOp::Asin: return std::asin(x);
    case UnaryOp::Acos: return std::acos(x);
    case UnaryOp::Atan: return std::atan(x);
    case UnaryOp::Sinh: return std::sinh(x);
    case UnaryOp::Cosh: return std::cosh(x);
    case UnaryOp::Tanh: return std::tanh(x);
    case UnaryOp::Asinh: return std::asinh(x);
    case UnaryOp::Acosh: return std::acosh(x);
    case UnaryOp::Atanh: return std::atanh(x);
    case UnaryOp::Erf: return std::erf(x);
    case UnaryOp::Floor: return std::floor(x);
    case UnaryOp::Ceil: return std::ceil(x);
    case UnaryOp::Round: return std::nearbyint(x);
    case UnaryOp::Trunc: return std::trunc(x);
    case UnaryOp::Not:
    case UnaryOp::IsNan:
    case UnaryOp::IsInf: break;
  }
  wrong_operation(name(op));
}

bool real_test(UnaryOp op, double x) {
  if (op == UnaryOp::IsNan) return std::isnan(x);
  if (op == UnaryOp::IsInf) return std::isinf(x);
  wrong_operation(name(op));
}

double real_binary(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::Add: return a + b;
    case BinaryOp::Sub: return a - b;
    case BinaryOp::Mul: return a * b;
    case BinaryOp::Div: return a / b;
    case BinaryOp::Rem: return std::fmod(a, b);
    case BinaryOp::FloorDiv: return std::floor(a / b);
    case BinaryOp::FloorMod: {
      const double r = std::fmod(a, b);
      return r != 0 && (r < 0) != (b < 0) ? r + b : r;
    }
    case BinaryOp::Pow: return std::pow(a, b);
    case BinaryOp::Min: return std::isnan(a) || a < b ? a : b;
    case BinaryOp::Max: return std::isnan(a) || a > b ? a : b;
    default: break;
  }
  wrong_operation(name(op));
}

bool real_compare(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::Eq: return a == b;
    case BinaryOp::Ne: return a != b;
    case BinaryOp::Lt: return a < b;
    case BinaryOp::Le: return a <= b;
    default: break;
  }
  wrong_operation(name(op));
}

int64_t int_unary(UnaryOp op, DType type, int64_t x) {
  switch (op) {
    case UnaryOp::Neg: return wrap_to(type, static_cast<int64_t>(0 - static_cast<uint64_t>(x)));
    case UnaryOp::Abs:
      return is_signed_int(type) && x < 0 ? wrap_to(type, static_cast<int64_t>(0 - static_cast<uint64_t>(x))) : x;
    case UnaryOp::Not: return type == DType::Bool ? (x == 0) : wrap_to(type, ~x);
    case UnaryOp::Floor:
    case UnaryOp::Ceil:
    case UnaryOp::Round:
    case UnaryOp::Trunc: return x;
    default: break;
  }
  wrong_operation(name(op));
}

std::optional<int64_t> int_binary(BinaryOp op, DType type, int64_t a, int64_t b) {
  const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  const bool wide_unsigned = type == DType::U64;
  switch (op) {
    case BinaryOp::Add: return wrap_to(type, static_cast<int64_t>(ua + ub));
    case BinaryOp::Sub: return wrap_to(type, static_cast<int64_t>(ua - ub));
    case BinaryOp::Mul: return wrap_to(type, static_cast<int64_t>(ua * ub));
    case BinaryOp::Div:
      if (b == 0) return std::nullopt;
      if (wide_unsigned) return static_cast<int64_t>(ua / ub);
      return wrap_to(type, b == -1 ? static_cast<int64_t>(0 - ua) : a / b);
    case BinaryOp::Rem:
      if (b == 0) return std::nullopt;
      if (wide_unsigned) return static_cast<int64_t>(ua % ub);
      return b == -1 ? 0 : a % b;
    case BinaryOp::FloorDiv:
      if (b == 0) return std::nullopt;
      return wide_unsigned ? static_cast<int64_t>(ua / ub) : wrap_to(type, isomer::floor_div(a, b));
    case BinaryOp::FloorMod:
      if (b == 0) return std::nullopt;
      return wide_unsigned ? static_cast<int64_t>(ua % ub) : isomer::floor_mod(a, b);
    case BinaryOp::Pow: return int_power(type, a, b);
    case BinaryOp::Min: return int_less(type, b, a) ? b : a;
    case BinaryOp::Max: return int_less(type, a, b) ? b : a;
    case BinaryOp::And: return a & b;
    case BinaryOp::Or: return a | b;
    case BinaryOp::Xor: return a ^ b;
    case BinaryOp::Shl: return shift(type, a, b, true);
    case BinaryOp::Shr: return shift(type, a, b, false);
    case BinaryOp::Eq: return a == b;
    case BinaryOp::Ne: return a != b;
    case BinaryOp::Lt: return int_less(type, a, b);
    case BinaryOp::Le: return !int_less(type, b, a);
  }
  return std::nullopt;
}

bool arg_better(Combiner c, double candidate, double best) {
  const bool last = c == Combiner::ArgMaxLast || c == Combiner::ArgMinLast;
  if (std::isnan(best)) return last && std::isnan(candidate);
  if (std::isnan(candidate)) return true;
  if (candidate == best) return last;
  return c == Combiner::ArgMax || c == Combiner::ArgMaxLast ? candidate > best : candidate < best;
}

bool arg_better_int(Combiner c, DType type, int64_t candidate, int64_t best) {
  if (candidate == best) return c == Combiner::ArgMaxLast || c == Combiner::ArgMinLast;
  return c == Combiner::ArgMax || c == Combiner::ArgMaxLast ? int_less(type, best, candidate)
                                                            : int_less(type, candidate, best);
}

double real_identity(Combiner c) {
  switch (c) {
    case Combiner::Product: return 1;
    case Combiner::Max: return -std::numeric_limits<double>::infinity();
    case Combiner::Min: return std::numeric_limits<double>::infinity();
    default: return 0;
  }
}

int64_t int_identity(Combiner c, DType type) {
  switch (c) {
    case Combiner::Product: return 1;
    case Combiner::Max: return lowest_int(type);
    case Combiner::Min: return highest_int(type);
    default: return 0;
  }
}

BinaryOp combining_op(Combiner c) {
  switch (c) {
    case Combiner::Product: return BinaryOp::Mul;
    case Combiner::Max: return BinaryOp::Max;
    case Combiner::Min: return BinaryOp::Min;
    default: return BinaryOp::Add;
  }
}

}  // namespace isomer::te
