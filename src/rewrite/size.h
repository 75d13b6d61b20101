// Size: an integer expression over a rule's symbols, as rules write extents, attributes and conditions. Kept as written,
// so that print gives back the text; evaluated on numbers when a rule is matched and as Dims when it is proved.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/expected.h"
#include "tensor/dim.h"

namespace isomer::rewrite {

// A size of a graph that is no number (a dynamic batch) takes part in matching as a number from here on. It may be
// bound and compared for equality; all arithmetic with it is unknown.
inline constexpr int64_t kFirstOpenSize = int64_t{1} << 60;
inline bool is_open_size(int64_t value) { return value >= kFirstOpenSize; }

// Values of symbols and of list symbols, by their place in the rule.
struct SizeValues {
  static constexpr int64_t kOpen = INT64_MIN;  // no value yet
  std::vector<int64_t> symbols;
  std::vector<std::optional<std::vector<int64_t>>> lists;
};
struct DimValues {
  std::vector<Dim> symbols;
  std::vector<std::vector<Dim>> lists;
};

class Size {
 public:
  enum class Kind : uint8_t { Number, Symbol, Length, Add, Sub, Mul, FloorDiv, CeilDiv, Mod, Max, Min };

  Size(int64_t value = 0) : value_(value) {}  // NOLINT
  static Size symbol(uint32_t id) { return Size(Kind::Symbol, id); }
  static Size length(uint32_t list) { return Size(Kind::Length, list); }
  static Size binary(Kind kind, Size a, Size b);

  Kind kind() const { return kind_; }
  int64_t number() const { return value_; }  // Kind::Number
  uint32_t id() const { return static_cast<uint32_t>(value_); }
  const Size& left() const { return args_->first; }
  const Size& right() const { return args_->second; }

  // Nothing when a symbol has no value, a divisor is 0, a number overflows or is an open size inside an expression.
  std::optional<int64_t> evaluate(const SizeValues& values) const;
  Dim evaluate(const DimValues& values) const;
  // The symbols it names, each once, in order.
  void symbols(std::vector<uint32_t>& out) const;
  void lists(std::vector<uint32_t>& out) const;
  bool operator==(const Size& o) const;

  struct Names {
    std::vector<std::string> symbols, lists;
  };
  std::string to_string(const Names& names) const;

 private:
  Size(Kind kind, uint32_t id) : kind_(kind), value_(id) {}
  std::string text(const Names& names, int level) const;

  Kind kind_ = Kind::Number;
  int64_t value_ = 0;
  std::shared_ptr<const std::pair<Size, Size>> args_;
};

// The value of `symbol` for which `expression` is `target`, when all others are known and it occurs linearly.
std::optional<int64_t> solve(const Size& expression, uint32_t symbol, int64_t target, SizeValues& values);
// Whether solve can work: the expression is linear in the symbol with a coefficient that is not 0.
bool solvable(const Size& expression, uint32_t symbol, size_t symbols, size_t lists);

// An element of a list of sizes: one size, the dims of a list symbol (S...), or from, from+1, ..., to-1 (seq(a,b)...).
struct SizeItem {
  enum class Kind : uint8_t { One, List, Sequence };
  Kind kind = Kind::One;
  Size size;          // One; Sequence: from
  Size to;            // Sequence
  uint32_t list = 0;  // List
  bool operator==(const SizeItem&) const = default;
};
using SizeList = std::vector<SizeItem>;

std::optional<std::vector<int64_t>> evaluate(const SizeList& list, const SizeValues& values);
// Nothing when the ends of a sequence are no numbers.
std::optional<std::vector<Dim>> evaluate(const SizeList& list, const DimValues& values);
std::string to_string(const SizeList& list, const Size::Names& names);  // "N, S..., C*2"

}  // namespace isomer::rewrite
