// Dim: the extent of an axis, a number or an integer polynomial over named sizes, floor quotients, maxima and minima.
// Invariant: normal form, so equal polynomials are equal Dims; an overflowing result is `invalid`, which absorbs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/expected.h"

namespace isomer {

class Dim {
 public:
  Dim(int64_t value = 0) : value_(value) {}  // NOLINT
  static Dim symbol(std::string_view name);
  static Dim invalid();

  bool is_const() const { return poly_ == nullptr && !invalid_; }
  bool is_invalid() const { return invalid_; }
  int64_t value() const { return value_; }  // only when is_const()
  std::optional<int64_t> constant() const { return is_const() ? std::optional<int64_t>(value_) : std::nullopt; }
  // The name when this is exactly one symbol.
  std::optional<std::string> as_symbol() const;

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  friend Dim floor_div(const Dim& a, const Dim& b);  // by zero: invalid
  friend Dim ceil_div(const Dim& a, const Dim& b);
  friend Dim floor_mod(const Dim& a, const Dim& b);  // a - b * floor_div(a, b)
  friend Dim max(const Dim& a, const Dim& b);
  friend Dim min(const Dim& a, const Dim& b);
  friend bool operator==(const Dim& a, const Dim& b);

  // A number that no value of this Dim is below when every symbol is at least 0; nothing when no bound is seen.
  std::optional<int64_t> at_least() const;

  // Replaces symbols; `value_of` answers nothing for the ones that stay.
  Dim substitute(const std::function<std::optional<Dim>(const std::string&)>& value_of) const;
  void symbols(std::vector<std::string>& out) const;  // appended in order of appearance, each once

  // The polynomial as data, for readers with a number type of their own. A factor is a symbol (`name`), or a floor
  // quotient, maximum or minimum of `a` and `b`. An invalid Dim has no terms: ask is_invalid() first.
  struct Factor;
  struct Product;
  std::vector<Product> terms() const;

  // "N*H+2", "floordiv(N+1,2)", "max(N,M)"; names that are no identifiers are in double quotes.
  std::string to_string() const;
  // Inverse of to_string.
  static Expected<Dim> parse(std::string_view text);

 private:
  struct Atom;
  struct Poly;
  struct Term;
  using AtomRef = std::shared_ptr<const Atom>;
  static Dim from(Poly poly);
  static Dim of_atom(Atom atom);
  Poly poly() const;
  friend struct DimParser;

  int64_t value_ = 0;
  bool invalid_ = false;
  std::shared_ptr<const Poly> poly_;  // null for numbers
};

struct Dim::Factor {
  enum class Kind : uint8_t { Symbol, FloorDiv, Max, Min } kind = Kind::Symbol;
  std::string name;
  Dim a, b;
};
struct Dim::Product {
  int64_t coefficient = 0;
  std::vector<Factor> factors;  // one that is squared stands twice
};

Dim floor_div(const Dim& a, const Dim& b);
Dim ceil_div(const Dim& a, const Dim& b);
Dim floor_mod(const Dim& a, const Dim& b);
Dim max(const Dim& a, const Dim& b);
Dim min(const Dim& a, const Dim& b);

}  // namespace isomer
