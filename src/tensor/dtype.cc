#include "tensor/dtype.h"

#include <bit>
#include <cmath>
#include <limits>

namespace isomer {
namespace {

struct Row {
  std::string_view name;
  uint8_t size;
  int64_t low, high;
};

constexpr int64_t kMin64 = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax64 = std::numeric_limits<int64_t>::max();

// In the order of DType.
constexpr Row kRows[] = {
    {"f64", 8, 0, 0},          {"f32", 4, 0, 0},           {"f16", 2, 0, 0},
    {"bf16", 2, 0, 0},         {"i64", 8, kMin64, kMax64}, {"i32", 4, INT32_MIN, INT32_MAX},
    {"i16", 2, -32768, 32767}, {"i8", 1, -128, 127},       {"u64", 8, 0, -1},
    {"u32", 4, 0, UINT32_MAX}, {"u16", 2, 0, 65535},       {"u8", 1, 0, 255},
    {"bool", 1, 0, 1},         {"opaque", 0, 0, 0},
};

const Row& row(DType t) { return kRows[static_cast<size_t>(t)]; }

// Rounds to a binary format with `mantissa` explicit bits and exponents from `emin` (of normal numbers) up.
double round_binary(double x, int mantissa, int emin, double largest) {
  if (x == 0 || !std::isfinite(x)) return x;
  int e;
  std::frexp(x, &e);
  const int quantum = std::max(e - 1, emin) - mantissa;
  const double r = std::ldexp(std::nearbyint(std::ldexp(x, -quantum)), quantum);
  return std::fabs(r) > largest ? std::copysign(HUGE_VAL, x) : r;
}

}  // namespace

std::string_view name(DType t) { return row(t).name; }

std::optional<DType> dtype_from_name(std::string_view text) {
  for (DType t : kAllDTypes)
    if (name(t) == text) return t;
  if (text == "opaque") return DType::Opaque;
  return std::nullopt;
}

size_t size_of(DType t) { return row(t).size; }
int64_t lowest_int(DType t) { return row(t).low; }
int64_t highest_int(DType t) { return row(t).high; }

double round_to(DType t, double v) {
  switch (t) {
    case DType::F32: return static_cast<float>(v);
    case DType::F16: return round_binary(v, 10, -14, 65504.0);
    case DType::BF16: return round_binary(v, 7, -126, 0x1.FEp127);
    default: return v;
  }
}

int64_t wrap_to(DType t, int64_t v) {
  switch (t) {
    case DType::I32: return static_cast<int32_t>(v);
    case DType::I16: return static_cast<int16_t>(v);
    case DType::I8: return static_cast<int8_t>(v);
    case DType::U32: return static_cast<uint32_t>(v);
    case DType::U16: return static_cast<uint16_t>(v);
    case DType::U8: return static_cast<uint8_t>(v);
    case DType::Bool: return v != 0;
    default: return v;
  }
}

uint16_t half_from_double(double value) {
  const double r = round_to(DType::F16, value);
  const uint16_t sign = std::signbit(r) ? 0x8000 : 0;
  if (std::isnan(r)) return sign | 0x7E00;
  const double a = std::fabs(r);
  if (std::isinf(r)) return sign | 0x7C00;
  if (a < 0x1p-14) return sign | static_cast<uint16_t>(a * 0x1p24);
  int e;
  const double m = std::frexp(a, &e);  // a = m * 2^e, m in [0.5, 1)
  return sign | static_cast<uint16_t>(((e + 14) << 10) + static_cast<int>((2 * m - 1) * 1024));
}

double half_to_double(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  double v;
  if (exponent == 31)
    v = mantissa ? std::numeric_limits<double>::quiet_NaN() : HUGE_VAL;
  else if (exponent == 0)
    v = mantissa * 0x1p-24;
  else
    v = std::ldexp(1024 + mantissa, exponent - 25);
  return bits & 0x8000 ? -v : v;
}

uint16_t bfloat_from_double(double value) {
  if (std::isnan(value)) return std::signbit(value) ? 0xFFC0 : 0x7FC0;
  const auto f = static_cast<float>(round_to(DType::BF16, value));
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(f) >> 16);
}

double bfloat_to_double(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

}  // namespace isomer
