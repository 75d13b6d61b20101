#include "passes/lasting_type.h"

#include <algorithm>

namespace isomer::passes {

bool is_unknown(const Dim& d) {
  if (d.is_const()) return false;
  if (d.is_invalid()) return true;
  std::vector<std::string> symbols;
  d.symbols(symbols);
  return std::any_of(symbols.begin(), symbols.end(), [](const std::string& s) { return s.starts_with('?'); });
}

Type lasting(const Type& t) {
  if (!t.shape.has_rank()) return t;
  std::vector<Dim> dims = t.shape.dims();
  for (Dim& d : dims)
    if (is_unknown(d)) d = Dim::invalid();
  return {t.dtype, Shape(std::move(dims)), t.foreign};
}

Type completed(const Type& own, const Type& other) {
  if (!own.shape.has_rank()) return other;
  if (!other.shape.has_rank()) return own;
  std::vector<Dim> dims = own.shape.dims();
  for (size_t i = 0; i < dims.size(); ++i)
    if (is_unknown(dims[i])) dims[i] = other.shape[i];
  return {own.dtype, Shape(std::move(dims)), own.foreign};
}

}  // namespace isomer::passes
