#include "interp/lane_ops.h"

#include <bit>
#include <cmath>

#include "base/arithmetic.h"
#include "te/scalar.h"

namespace isomer::interp::lanes {
namespace {

using te::BinaryOp;
using te::UnaryOp;

template <class D, class S, class F>
void map(D* dst, const S* a, int n, F f) {
  for (int i = 0; i < n; ++i) dst[i] = f(a[i]);
}
template <class D, class S, class F>
void map(D* dst, const S* a, const S* b, int n, F f) {
  for (int i = 0; i < n; ++i) dst[i] = f(a[i], b[i]);
}

int64_t signed_of(uint64_t v) { return static_cast<int64_t>(v); }
uint64_t bits(int64_t v) { return static_cast<uint64_t>(v); }

double min_of(double a, double b) { return a != a || a < b ? a : b; }
double max_of(double a, double b) { return a != a || a > b ? a : b; }

// Exact for every pattern, without the library calls of half_to_double.
double fast_half(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16, exponent = (h >> 10) & 31, mantissa = h & 1023;
  if (exponent == 0 || exponent == 31) return half_to_double(h);
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

}  // namespace

void unary(UnaryOp op, double* dst, const double* a, int n) {
  switch (op) {
    case UnaryOp::Neg: return map(dst, a, n, [](double x) { return -x; });
    case UnaryOp::Abs: return map(dst, a, n, [](double x) { return std::fabs(x); });
    case UnaryOp::Sqrt: return map(dst, a, n, [](double x) { return std::sqrt(x); });
    case UnaryOp::Exp: return map(dst, a, n, [](double x) { return std::exp(x); });
    case UnaryOp::Tanh: return map(dst, a, n, [](double x) { return std::tanh(x); });
    case UnaryOp::Erf: return map(dst, a, n, [](double x) { return std::erf(x); });
    default: return map(dst, a, n, [op](double x) { return te::real_unary(op, x); });
  }
}

void test(UnaryOp op, int64_t* dst, const double* a, int n) {
  map(dst, a, n, [op](double x) { return int64_t{te::real_test(op, x)}; });
}

void binary(BinaryOp op, double* dst, const double* a, const double* b, int n) {
  switch (op) {
    case BinaryOp::Add: return map(dst, a, b, n, [](double x, double y) { return x + y; });
    case BinaryOp::Sub: return map(dst, a, b, n, [](double x, double y) { return x - y; });
    case BinaryOp::Mul: return map(dst, a, b, n, [](double x, double y) { return x * y; });
    case BinaryOp::Div: return map(dst, a, b, n, [](double x, double y) { return x / y; });
    case BinaryOp::Min: return map(dst, a, b, n, min_of);
    case BinaryOp::Max: return map(dst, a, b, n, max_of);
    default: return map(dst, a, b, n, [op](double x, double y) { return te::real_binary(op, x, y); });
  }
}

void compare(BinaryOp op, int64_t* dst, const double* a, const double* b, int n) {
  switch (op) {
    case BinaryOp::Eq: return map(dst, a, b, n, [](double x, double y) { return int64_t{x == y}; });
    case BinaryOp::Ne: return map(dst, a, b, n, [](double x, double y) { return int64_t{x != y}; });
    case BinaryOp::Lt: return map(dst, a, b, n, [](double x, double y) { return int64_t{x < y}; });
    default: return map(dst, a, b, n, [op](double x, double y) { return int64_t{te::real_compare(op, x, y)}; });
  }
}

void unary_int(UnaryOp op, DType type, int64_t* dst, const int64_t* a, int n) {
  if (op == UnaryOp::Not && type == DType::Bool) return map(dst, a, n, [](int64_t x) { return int64_t{x == 0}; });
  map(dst, a, n, [op, type](int64_t x) { return te::int_unary(op, type, x); });
}

void wrap(DType type, int64_t* dst, const int64_t* a, int n) {
  switch (type) {
    case DType::I32: return map(dst, a, n, [](int64_t x) { return int64_t{static_cast<int32_t>(x)}; });
    case DType::I8: return map(dst, a, n, [](int64_t x) { return int64_t{static_cast<int8_t>(x)}; });
    case DType::U8: return map(dst, a, n, [](int64_t x) { return x & 255; });
    default: return map(dst, a, n, [type](int64_t x) { return wrap_to(type, x); });
  }
}

bool binary_int(BinaryOp op, DType type, int64_t* dst, const int64_t* a, const int64_t* b, const int64_t* mask, int n) {
  const bool full = type == DType::I64 || type == DType::U64;
  const auto wrapped = [&] {
    if (!full) wrap(type, dst, dst, n);
    return true;
  };
  switch (op) {
    case BinaryOp::Add:
      map(dst, a, b, n, [](int64_t x, int64_t y) { return signed_of(bits(x) + bits(y)); });
      return wrapped();
    case BinaryOp::Sub:
      map(dst, a, b, n, [](int64_t x, int64_t y) { return signed_of(bits(x) - bits(y)); });
      return wrapped();
    case BinaryOp::Mul:
      map(dst, a, b, n, [](int64_t x, int64_t y) { return signed_of(bits(x) * bits(y)); });
      return wrapped();
    case BinaryOp::And: map(dst, a, b, n, [](int64_t x, int64_t y) { return x & y; }); return true;
    case BinaryOp::Or: map(dst, a, b, n, [](int64_t x, int64_t y) { return x | y; }); return true;
    case BinaryOp::Eq: map(dst, a, b, n, [](int64_t x, int64_t y) { return int64_t{x == y}; }); return true;
    case BinaryOp::Ne: map(dst, a, b, n, [](int64_t x, int64_t y) { return int64_t{x != y}; }); return true;
    case BinaryOp::FloorDiv:
    case BinaryOp::FloorMod:
      if (type == DType::I64) break;  // positions taken apart: the common case, kept free of calls
      [[fallthrough]];
    default:
      for (int i = 0; i < n; ++i) {
        const auto r = te::int_binary(op, type, a[i], b[i]);
        if (!r && (!mask || mask[i])) return false;
        dst[i] = r.value_or(0);
      }
      return true;
  }
  for (int i = 0; i < n; ++i) {
    if (b[i] == 0) {
      if (!mask || mask[i]) return false;
      dst[i] = 0;
      continue;
    }
    dst[i] = op == BinaryOp::FloorDiv ? floor_div(a[i], b[i]) : floor_mod(a[i], b[i]);
  }
  return true;
}

void round(DType type, double* dst, const double* a, int n) {
  if (type == DType::F32) return map(dst, a, n, [](double x) { return double{static_cast<float>(x)}; });
  map(dst, a, n, [type](double x) { return round_to(type, x); });
}

void to_int(DType type, int64_t* dst, const double* a, int n) {
  map(dst, a, n, [type](double x) { return int_from_real(type, x); });
}

void to_real(DType from, double* dst, const int64_t* a, int n) {
  if (from != DType::U64) return map(dst, a, n, [](int64_t x) { return static_cast<double>(x); });
  map(dst, a, n, [](int64_t x) { return static_cast<double>(bits(x)); });
}

void combine(te::Combiner c, double* dst, const double* a, const int64_t* mask, int n) {
  const auto op = te::combining_op(c);
  if (!mask) return binary(op, dst, dst, a, n);
  switch (op) {
    case BinaryOp::Add:
      for (int i = 0; i < n; ++i) dst[i] = mask[i] ? dst[i] + a[i] : dst[i];
      return;
    case BinaryOp::Max:
      for (int i = 0; i < n; ++i) dst[i] = mask[i] ? max_of(dst[i], a[i]) : dst[i];
      return;
    default:
      for (int i = 0; i < n; ++i) dst[i] = mask[i] ? te::real_binary(op, dst[i], a[i]) : dst[i];
  }
}

void combine_int(te::Combiner c, DType type, int64_t* dst, const int64_t* a, const int64_t* mask, int n) {
  const auto op = te::combining_op(c);
  if (!mask) {
    binary_int(op, type, dst, dst, a, nullptr, n);
    return;
  }
  for (int i = 0; i < n; ++i)
    if (mask[i]) dst[i] = te::int_binary(op, type, dst[i], a[i]).value_or(0);
}

namespace {

template <class T, class D, class F>
void load_as(const Tensor& t, int64_t first, int64_t step, D* dst, int n, F f) {
  const T* p = reinterpret_cast<const T*>(t.bytes()) + first;
  if (step == 1)
    for (int i = 0; i < n; ++i) dst[i] = f(p[i]);
  else
    for (int i = 0; i < n; ++i) dst[i] = f(p[i * step]);
}

template <class T, class S, class F>
void store_as(std::byte* bytes, int64_t first, int64_t step, const S* a, int n, F f) {
  T* p = reinterpret_cast<T*>(bytes) + first;
  if (step == 1)
    for (int i = 0; i < n; ++i) p[i] = f(a[i]);
  else
    for (int i = 0; i < n; ++i) p[i * step] = f(a[i]);
}

template <class T>
T narrow(int64_t v) {
  return static_cast<T>(v);
}

}  // namespace

void load(const Tensor& t, int64_t first, int64_t step, double* dst, int n) {
  const auto same = [](auto v) { return static_cast<double>(v); };
  switch (t.dtype()) {
    case DType::F64: return load_as<double>(t, first, step, dst, n, same);
    case DType::F32: return load_as<float>(t, first, step, dst, n, same);
    case DType::F16: return load_as<uint16_t>(t, first, step, dst, n, fast_half);
    case DType::BF16: return load_as<uint16_t>(t, first, step, dst, n, bfloat_to_double);
    default:
      for (int i = 0; i < n; ++i) dst[i] = t.real(first + i * step);
  }
}

void load_int(const Tensor& t, int64_t first, int64_t step, int64_t* dst, int n) {
  const auto same = [](auto v) { return static_cast<int64_t>(v); };
  switch (t.dtype()) {
    case DType::I64:
    case DType::U64: return load_as<int64_t>(t, first, step, dst, n, same);
    case DType::I32: return load_as<int32_t>(t, first, step, dst, n, same);
    case DType::U32: return load_as<uint32_t>(t, first, step, dst, n, same);
    case DType::I16: return load_as<int16_t>(t, first, step, dst, n, same);
    case DType::U16: return load_as<uint16_t>(t, first, step, dst, n, same);
    case DType::I8: return load_as<int8_t>(t, first, step, dst, n, same);
    case DType::U8: return load_as<uint8_t>(t, first, step, dst, n, same);
    case DType::Bool: return load_as<uint8_t>(t, first, step, dst, n, [](uint8_t v) { return int64_t{v != 0}; });
    default:
      for (int i = 0; i < n; ++i) dst[i] = t.integer(first + i * step);
  }
}

void store(DType type, std::byte* bytes, int64_t first, int64_t step, const double* a, int n) {
  switch (type) {
    case DType::F64: return store_as<double>(bytes, first, step, a, n, [](double v) { return v; });
    case DType::F32: return store_as<float>(bytes, first, step, a, n, [](double v) { return static_cast<float>(v); });
    case DType::F16: return store_as<uint16_t>(bytes, first, step, a, n, half_from_double);
    default: return store_as<uint16_t>(bytes, first, step, a, n, bfloat_from_double);
  }
}

void store_int(DType type, std::byte* bytes, int64_t first, int64_t step, const int64_t* a, int n) {
  if (type == DType::Bool)
    return store_as<uint8_t>(bytes, first, step, a, n, [](int64_t v) { return static_cast<uint8_t>(v != 0); });
  switch (size_of(type)) {
    case 8: return store_as<int64_t>(bytes, first, step, a, n, narrow<int64_t>);
    case 4: return store_as<uint32_t>(bytes, first, step, a, n, narrow<uint32_t>);
    case 2: return store_as<uint16_t>(bytes, first, step, a, n, narrow<uint16_t>);
    default: return store_as<uint8_t>(bytes, first, step, a, n, narrow<uint8_t>);
  }
}

}  // namespace isomer::interp::lanes
