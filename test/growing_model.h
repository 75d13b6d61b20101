// A random model while it grows: the values that there are so far, and how a step takes some and adds others.
// Invariant: every value in it has a fixed shape and few elements, and those that are marked exact are the same however results are rounded.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "base/random.h"
#include "ir/graph.h"
#include "ops/table.h"
#include "tensor/random_fill.h"

namespace isomer::testing::growing {

struct Item {
  ir::Value value;
  bool exact = false;
};
struct State {
  Random random;
  ir::GraphBuilder builder;
  std::vector<Item> items = {};
  std::map<std::string, Tensor> data = {};  // constants that become inputs, by name
};

inline std::vector<int64_t> shape(Random& r) {
  static const std::vector<int64_t> kOdd = {0, 1, 15, 16, 17, 31, 32, 33, 40};
  const auto extent = [&](int64_t most) { return r.flip(0.1) ? kOdd[r.below(kOdd.size())] : r.between(1, most); };
  switch (r.below(6)) {
    case 0: return {};
    case 1: return {extent(40)};
    case 2: return {extent(9), extent(20)};
    case 3: return {r.between(1, 2), extent(5), extent(12)};
    default: return {r.between(1, 2), extent(9), r.between(1, 8), r.between(1, 8)};
  }
}

inline Tensor values(Random& r, DType t, std::vector<int64_t> dims) {
  return random_tensor(t, std::move(dims), r, {.low = -2, .high = 2, .int_low = -3, .int_high = 5});
}

// Data that the finished model has as an input.
inline Item fresh_data(State& s, Tensor t) {
  const std::string name = fmt::format("in{}", s.data.size());
  s.data.emplace(name, t);
  return {s.builder.constant(std::move(t), name), true};
}
inline void fresh(State& s, DType t, std::vector<int64_t> dims) {
  s.items.push_back(fresh_data(s, values(s.random, t, std::move(dims))));
}

inline const Type& type(const State& s, const Item& x) { return s.builder.type(x.value); }
inline std::vector<int64_t> dims(const State& s, const Item& x) { return type(s, x).shape.values(); }
inline ir::Value ints(State& s, const std::vector<int64_t>& v) { return s.builder.constant(Tensor::ints(v)); }

inline constexpr int64_t kMostElements = 6000;

// Adds a node unless its record refuses it or a result is too large.
inline bool add(State& s, std::string_view op, std::vector<ir::Value> in, ir::Attrs attrs, bool exact,
                size_t results = 1) {
  const ir::OpDef* record = ops::table().find(op);
  if (!record) return false;
  const auto made = s.builder.add(*record, std::move(in), std::move(attrs), {}, results);
  if (!made.ok()) return false;
  for (const ir::Value& v : *made) {
    const Type& t = s.builder.type(v);
    if (!t.shape.is_static()) continue;
    const auto n = checked_elements(t.dtype, t.shape.values());
    if (n.ok() && *n <= kMostElements) s.items.push_back({v, exact});
  }
  return true;
}

inline std::optional<Item> pick(State& s, const std::function<bool(const Type&)>& fits, bool exact = false) {
  std::vector<Item> found;
  for (const Item& i : s.items)
    if ((i.exact || !exact) && fits(type(s, i))) found.push_back(i);
  if (found.empty()) return std::nullopt;
  // The newest are taken more often, so that chains grow.
  const size_t n = found.size();
  return found[s.random.flip(0.6) ? n - 1 - s.random.below(std::min<size_t>(n, 3)) : s.random.below(n)];
}
inline bool real(const Type& t) { return t.dtype == DType::F32; }

inline constexpr DType kInts[] = {DType::I64, DType::I32, DType::U8, DType::I8, DType::Bool, DType::I16, DType::U32};

// A shape that broadcasts with this one.
inline std::vector<int64_t> broadcast(Random& r, std::vector<int64_t> d) {
  for (int64_t& n : d)
    if (r.flip(0.3)) n = 1;
  if (!d.empty() && r.flip(0.4)) d.erase(d.begin(), d.begin() + static_cast<int64_t>(r.below(d.size() + 1)));
  return d;
}

// A constant or an input of this shape.
inline Item operand(State& s, std::vector<int64_t> d) {
  Tensor t = values(s.random, DType::F32, std::move(d));
  return s.random.flip() ? Item{s.builder.constant(std::move(t)), true} : fresh_data(s, std::move(t));
}

}  // namespace isomer::testing::growing
