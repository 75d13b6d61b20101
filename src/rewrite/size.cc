#include "rewrite/size.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/arithmetic.h"

namespace isomer::rewrite {

Size Size::binary(Kind kind, Size a, Size b) {
  Size s;
  s.kind_ = kind;
  s.args_ = std::make_shared<const std::pair<Size, Size>>(std::move(a), std::move(b));
  return s;
}

namespace {

std::optional<int64_t> combine(Size::Kind kind, int64_t a, int64_t b) {
  switch (kind) {
    case Size::Kind::Add: return checked_add(a, b);
    case Size::Kind::Sub: return checked_sub(a, b);
    case Size::Kind::Mul: return checked_mul(a, b);
    case Size::Kind::FloorDiv: return b <= 0 ? std::nullopt : std::optional(floor_div(a, b));
    case Size::Kind::CeilDiv: {
      const auto up = b <= 0 ? std::nullopt : checked_add(a, b - 1);
      return up ? std::optional(floor_div(*up, b)) : std::nullopt;
    }
    case Size::Kind::Mod: return b <= 0 ? std::nullopt : std::optional(floor_mod(a, b));
    case Size::Kind::Max: return std::max(a, b);
    case Size::Kind::Min: return std::min(a, b);
    case Size::Kind::Number:
    case Size::Kind::Symbol:
    case Size::Kind::Length: break;
  }
  return std::nullopt;
}

Dim combine(Size::Kind kind, const Dim& a, const Dim& b) {
  switch (kind) {
    case Size::Kind::Add: return a + b;
    case Size::Kind::Sub: return a - b;
    case Size::Kind::Mul: return a * b;
    case Size::Kind::FloorDiv: return floor_div(a, b);
    case Size::Kind::CeilDiv: return ceil_div(a, b);
    case Size::Kind::Mod: return floor_mod(a, b);
    case Size::Kind::Max: return max(a, b);
    case Size::Kind::Min: return min(a, b);
    case Size::Kind::Number:
    case Size::Kind::Symbol:
    case Size::Kind::Length: break;
  }
  return Dim::invalid();
}

}  // namespace

std::optional<int64_t> Size::evaluate(const SizeValues& v) const {
  switch (kind_) {
    case Kind::Number: return value_;
    case Kind::Symbol: {
      const int64_t x = v.symbols[id()];
      return x == SizeValues::kOpen ? std::nullopt : std::optional(x);
    }
    case Kind::Length: return v.lists[id()] ? std::optional(static_cast<int64_t>(v.lists[id()]->size())) : std::nullopt;
    default: break;
  }
  const auto a = left().evaluate(v);
  const auto b = a ? right().evaluate(v) : std::nullopt;
  if (!b || is_open_size(*a) || is_open_size(*b)) return std::nullopt;
  return combine(kind_, *a, *b);
}

Dim Size::evaluate(const DimValues& v) const {
  switch (kind_) {
    case Kind::Number: return Dim(value_);
    case Kind::Symbol: return v.symbols[id()];
    case Kind::Length: return Dim(static_cast<int64_t>(v.lists[id()].size()));
    default: return combine(kind_, left().evaluate(v), right().evaluate(v));
  }
}

void Size::symbols(std::vector<uint32_t>& out) const {
  if (kind_ == Kind::Symbol && std::find(out.begin(), out.end(), id()) == out.end()) out.push_back(id());
  if (!args_) return;
  left().symbols(out);
  right().symbols(out);
}

void Size::lists(std::vector<uint32_t>& out) const {
  if (kind_ == Kind::Length && std::find(out.begin(), out.end(), id()) == out.end()) out.push_back(id());
  if (!args_) return;
  left().lists(out);
  right().lists(out);
}

bool Size::operator==(const Size& o) const {
  if (kind_ != o.kind_ || value_ != o.value_) return false;
  return args_ == o.args_ || (args_ && o.args_ && *args_ == *o.args_);
}

std::string Size::to_string(const Names& names) const { return text(names, 0); }

// level 0: a sum may stand here; 1: a product; 2: a factor.
std::string Size::text(const Names& names, int level) const {
  const auto infix = [&](const char* sign, int own, int right_level) {
    const std::string s = left().text(names, own) + sign + right().text(names, right_level);
    return level > own ? "(" + s + ")" : s;
  };
  const auto call = [&](const char* name) {
    return fmt::format("{}({}, {})", name, left().text(names, 0), right().text(names, 0));
  };
  switch (kind_) {
    case Kind::Number: return level > 0 && value_ < 0 ? fmt::format("({})", value_) : fmt::format("{}", value_);
    case Kind::Symbol: return names.symbols[id()];
    case Kind::Length: return fmt::format("len({})", names.lists[id()]);
    case Kind::Add: return infix("+", 0, 1);
    case Kind::Sub: return infix("-", 0, 1);
    case Kind::Mul: return infix("*", 1, 2);
    case Kind::FloorDiv: return call("floordiv");
    case Kind::CeilDiv: return call("ceildiv");
    case Kind::Mod: return call("mod");
    case Kind::Max: return call("max");
    case Kind::Min: return call("min");
  }
  return {};
}

std::optional<int64_t> solve(const Size& e, uint32_t symbol, int64_t target, SizeValues& v) {
  if (is_open_size(target)) return e.kind() == Size::Kind::Symbol ? std::optional(target) : std::nullopt;
  int64_t& x = v.symbols[symbol];
  const auto at = [&](int64_t value) {
    x = value;
    return e.evaluate(v);
  };
  std::optional<int64_t> found;
  const auto zero = at(0), one = at(1);
  const auto slope = zero && one ? checked_sub(*one, *zero) : std::nullopt;
  const auto rest = zero ? checked_sub(target, *zero) : std::nullopt;
  if (slope && rest && *slope != 0 && floor_mod(*rest, *slope) == 0) {
    const int64_t candidate = floor_div(*rest, *slope);
    if (at(candidate) == target) found = candidate;
  }
  x = SizeValues::kOpen;
  return found;
}

bool solvable(const Size& e, uint32_t symbol, size_t symbols, size_t lists) {
  // Linear in the symbol on primes for the others: a quotient, a square or a maximum shows on these points.
  constexpr int64_t kPrimes[] = {101, 103, 107, 109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167, 173, 179};
  SizeValues v;
  for (size_t i = 0; i < symbols; ++i) v.symbols.push_back(kPrimes[i % std::size(kPrimes)]);
  v.lists.assign(lists, std::vector<int64_t>(2, 3));
  std::vector<int64_t> y;
  for (int64_t x : {0, 1, 2, 3, 5, 64, 1000}) {
    v.symbols[symbol] = x;
    const auto value = e.evaluate(v);
    if (!value) return false;
    if (y.size() >= 2 && *value != y[0] + (y[1] - y[0]) * x) return false;
    y.push_back(*value);
  }
  return y[0] != y[1];
}

std::optional<std::vector<int64_t>> evaluate(const SizeList& list, const SizeValues& values) {
  std::vector<int64_t> out;
  for (const SizeItem& item : list) {
    if (item.kind == SizeItem::Kind::List) {
      if (!values.lists[item.list]) return std::nullopt;
      out.insert(out.end(), values.lists[item.list]->begin(), values.lists[item.list]->end());
      continue;
    }
    const auto size = item.size.evaluate(values);
    if (!size) return std::nullopt;
    if (item.kind == SizeItem::Kind::One) {
      out.push_back(*size);
      continue;
    }
    const auto to = item.to.evaluate(values);
    if (!to || *to - *size > 64) return std::nullopt;
    for (int64_t i = *size; i < *to; ++i) out.push_back(i);
  }
  return out;
}

std::optional<std::vector<Dim>> evaluate(const SizeList& list, const DimValues& values) {
  std::vector<Dim> out;
  for (const SizeItem& item : list) {
    if (item.kind == SizeItem::Kind::List) {
      out.insert(out.end(), values.lists[item.list].begin(), values.lists[item.list].end());
    } else if (item.kind == SizeItem::Kind::One) {
      out.push_back(item.size.evaluate(values));
    } else {
      const Dim from = item.size.evaluate(values), to = item.to.evaluate(values);
      if (!from.is_const() || !to.is_const() || to.value() - from.value() > 64) return std::nullopt;
      for (int64_t i = from.value(); i < to.value(); ++i) out.push_back(Dim(i));
    }
  }
  return out;
}

std::string to_string(const SizeList& list, const Size::Names& names) {
  std::string out;
  for (const SizeItem& item : list) {
    if (!out.empty()) out += ", ";
    if (item.kind == SizeItem::Kind::List)
      out += names.lists[item.list] + "...";
    else if (item.kind == SizeItem::Kind::One)
      out += item.size.to_string(names);
    else
      out += fmt::format("seq({}, {})...", item.size.to_string(names), item.to.to_string(names));
  }
  return out;
}

}  // namespace isomer::rewrite
