#include "tensor/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace isomer {
namespace {

std::string index_text(int64_t position, const std::vector<int64_t>& dims) {
  std::vector<int64_t> index(dims.size());
  for (size_t k = dims.size(); k-- > 0; position /= dims[k]) index[k] = position % dims[k];
  return fmt::format("[{}]", fmt::join(index, ","));
}

void note_mismatch(Comparison& c, const Tensor& found, const Tensor& expected, int64_t i) {
  if (++c.mismatches > 1) return;
  c.first_mismatch = i;
  const auto text = [&](const Tensor& t) {
    if (is_float(t.dtype())) return fmt::format("{:.9g}", t.real(i));
    const int64_t v = t.integer(i);
    return t.dtype() == DType::U64 ? fmt::format("{}", static_cast<uint64_t>(v)) : fmt::format("{}", v);
  };
  c.first = fmt::format("{}: expected {}, found {}", index_text(i, expected.dims()), text(expected), text(found));
}

}  // namespace

Comparison compare(const Tensor& found, const Tensor& expected, const Tolerance& tolerance) {
  Comparison c;
  c.elements = expected.size();
  const bool floats = is_float(expected.dtype());
  if (found.dims() != expected.dims() || (floats ? !is_float(found.dtype()) : found.dtype() != expected.dtype()) ||
      expected.dtype() == DType::Opaque) {
    c.comparable = false;
    c.first = fmt::format("expected {}, found {}", expected.type().to_string(), found.type().to_string());
    return c;
  }
  double largest = 0;
  for (int64_t i = 0; i < expected.size(); ++i) {
    const double e = expected.real(i), f = found.real(i);
    if (!std::isfinite(e) || !std::isfinite(f)) {
      if (e == f || (std::isnan(e) && std::isnan(f))) continue;
      ++c.special_mismatches;
      note_mismatch(c, found, expected, i);
      continue;
    }
    const double error = std::fabs(f - e);
    largest = std::max(largest, std::fabs(e));
    c.max_abs_error = std::max(c.max_abs_error, error);
    if (e != 0) c.max_rel_error = std::max(c.max_rel_error, error / std::fabs(e));
    const bool agrees = floats ? error <= tolerance.absolute + tolerance.relative * std::fabs(e)
                               : expected.integer(i) == found.integer(i);
    if (!agrees) note_mismatch(c, found, expected, i);
  }
  if (largest > 0) c.error_of_largest = c.max_abs_error / largest;
  return c;
}

std::string Comparison::to_string() const {
  if (!comparable) return "not comparable: " + first;
  const std::string errors = fmt::format("largest error {:.3g} absolute, {:.3g} relative, {:.3g} of the largest value",
                                         max_abs_error, max_rel_error, error_of_largest);
  if (mismatches == 0) return fmt::format("{} elements agree, {}", elements, errors);
  return fmt::format("{} of {} elements differ, first at {}; {}", mismatches, elements, first, errors);
}

}  // namespace isomer
