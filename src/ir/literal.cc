#include "ir/literal.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

namespace isomer::ir {
namespace {

template <class Bits>
Bits bits_at(const Tensor& t, int64_t i) {
  Bits b;
  std::memcpy(&b, t.bytes() + static_cast<size_t>(i) * sizeof(Bits), sizeof(Bits));
  return b;
}

// A NaN by its bits; the usual quiet one has the short name.
void append_nan(std::string& out, uint64_t bits, uint64_t usual) {
  if (bits == usual)
    out += "nan";
  else
    fmt::format_to(std::back_inserter(out), "nan(0x{:x})", bits);
}

template <class Real>
void append_finite(std::string& out, Real v) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, v).ptr;
  out.append(buffer, end);
}

}  // namespace

bool is_bare_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  });
}

void append_real(std::string& out, double value, bool marked) {
  if (std::isnan(value)) return append_nan(out, std::bit_cast<uint64_t>(value), 0x7FF8000000000000);
  const size_t start = out.size();
  append_finite(out, value);
  if (marked && std::isfinite(value) && out.find_first_of(".e", start) == std::string::npos) out += ".0";
}

void append_element(std::string& out, const Tensor& t, int64_t i) {
  const double real = is_float(t.dtype()) ? t.real(i) : 0;
  switch (t.dtype()) {
    case DType::F64: return append_real(out, real, false);
    case DType::F32:
      if (std::isnan(real)) return append_nan(out, bits_at<uint32_t>(t, i), 0x7FC00000);
      return append_finite(out, static_cast<float>(real));
    case DType::F16:
    case DType::BF16:
      if (std::isnan(real)) return append_nan(out, bits_at<uint16_t>(t, i), t.dtype() == DType::F16 ? 0x7E00 : 0x7FC0);
      return append_finite(out, static_cast<float>(real));
    case DType::Bool: {
      // A byte that is neither 0 nor 1 came from a file and goes back as it was.
      const auto byte = bits_at<uint8_t>(t, i);
      out += byte == 0 ? "false" : byte == 1 ? "true" : fmt::format("{}", byte);
      return;
    }
    case DType::U64: fmt::format_to(std::back_inserter(out), "{}", static_cast<uint64_t>(t.integer(i))); return;
    default: fmt::format_to(std::back_inserter(out), "{}", t.integer(i)); return;
  }
}

void append_hex(std::string& out, std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  for (char c : bytes) {
    const auto u = static_cast<unsigned char>(c);
    out += kDigits[u >> 4];
    out += kDigits[u & 15];
  }
}

}  // namespace isomer::ir
