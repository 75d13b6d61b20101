#include "compile/arena.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "runtime/abi.h"

namespace isomer::compile {

namespace {

constexpr uint64_t kClimbs = 8, kClimbWork = 5'000'000;  // comparisons of one climb
constexpr uint64_t kSearchNodes = 100'000;
constexpr size_t kSearchItems = 64;

// What has a place of its own.
struct Item {
  uint64_t size = 0;
  int first = 0, last = 0;
  bool meets(const Item& o) const { return first <= o.last && o.first <= last; }
};

using Order = std::vector<size_t>;

struct Placement {
  std::vector<uint64_t> offsets;
  uint64_t height = 0;
};

// Bytes needed at each step where an item starts; the peak is one of them.
std::vector<std::pair<int, uint64_t>> live_bytes(const std::vector<Item>& items) {
  std::vector<std::pair<int, int64_t>> changes;
  for (const Item& item : items) {
    changes.emplace_back(item.first, static_cast<int64_t>(item.size));
    changes.emplace_back(item.last + 1, -static_cast<int64_t>(item.size));
  }
  std::sort(changes.begin(), changes.end());
  std::vector<std::pair<int, uint64_t>> live;
  int64_t sum = 0;
  for (size_t i = 0; i < changes.size(); ++i) {
    sum += changes[i].second;
    if (i + 1 == changes.size() || changes[i + 1].first != changes[i].first) {
      live.emplace_back(changes[i].first, static_cast<uint64_t>(sum));
    }
  }
  return live;
}

uint64_t peak(const std::vector<Item>& items) {
  uint64_t most = 0;
  for (const auto& [step, bytes] : live_bytes(items)) most = std::max(most, bytes);
  return most;
}

// Items in the given order, each in the smallest gap that holds it (or the lowest one), else on top.
Placement place(const std::vector<Item>& items, const Order& order, bool smallest_gap, uint64_t* work = nullptr) {
  Placement placement{std::vector<uint64_t>(items.size()), 0};
  std::vector<size_t> placed;  // by offset
  placed.reserve(items.size());
  for (const size_t i : order) {
    const Item& item = items[i];
    uint64_t top = 0, best = UINT64_MAX, best_gap = UINT64_MAX;
    for (const size_t p : placed) {
      if (!items[p].meets(item)) continue;
      const uint64_t begin = placement.offsets[p];
      if (begin > top && begin - top >= item.size && begin - top < best_gap) {
        best = top;
        best_gap = smallest_gap ? begin - top : 0;
      }
      top = std::max(top, begin + items[p].size);
    }
    const uint64_t offset = best == UINT64_MAX ? top : best;
    placement.offsets[i] = offset;
    placement.height = std::max(placement.height, offset + item.size);
    const auto at = std::upper_bound(placed.begin(), placed.end(), offset,
                                     [&](uint64_t o, size_t p) { return o < placement.offsets[p]; });
    placed.insert(at, i);
    if (work) *work += placed.size();
  }
  return placement;
}

template <class Key>
Order sorted_by(const std::vector<Item>& items, const Key& key) {
  Order order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(items[a], a) < key(items[b], b); });
  return order;
}

// The most crowded step that an item sees, so that the tightest steps are served first.
std::vector<uint64_t> crowd(const std::vector<Item>& items) {
  const auto live = live_bytes(items);
  std::vector<uint64_t> most(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    auto at = std::lower_bound(live.begin(), live.end(), std::pair<int, uint64_t>(items[i].first, 0));
    for (; at != live.end() && at->first <= items[i].last; ++at) most[i] = std::max(most[i], at->second);
  }
  return most;
}

std::vector<Order> greedy_orders(const std::vector<Item>& items) {
  const std::vector<uint64_t> most = crowd(items);
  const auto length = [](const Item& t) { return static_cast<uint64_t>(t.last - t.first) + 1; };
  return {
      sorted_by(items, [&](const Item& t, size_t) { return std::tuple(~t.size, ~length(t)); }),
      sorted_by(items, [&](const Item& t, size_t i) { return std::tuple(~most[i], ~t.size, ~length(t)); }),
      sorted_by(items, [&](const Item& t, size_t) { return std::tuple(~length(t), ~t.size); }),
      sorted_by(items, [&](const Item& t, size_t) { return ~(t.size * length(t)); }),
      sorted_by(items, [&](const Item& t, size_t) { return std::tuple(t.first, ~t.size); }),
      sorted_by(items, [&](const Item& t, size_t) { return std::tuple(-t.last, ~t.size); }),
  };
}

// Height first; then by how much items end above the bound, so that a step towards a lower height counts too.
std::pair<uint64_t, uint64_t> quality(const std::vector<Item>& items, const Placement& placement, uint64_t bound) {
  uint64_t excess = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    const uint64_t top = placement.offsets[i] + items[i].size;
    excess += top > bound ? top - bound : 0;
  }
  return {placement.height, excess};
}

// Moves an item that ends too high, or one that lives at the same time, to another place in the order, and keeps what is not
// worse.
void climb(const std::vector<Item>& items, Order order, uint64_t bound, uint64_t seed, Placement& best) {
  Random random(seed);
  uint64_t work = 0;
  Placement current = place(items, order, true, &work);
  auto current_quality = quality(items, current, bound);
  while (best.height > bound && work < kClimbWork) {
    std::vector<size_t> high, near;
    for (size_t k = 0; k < order.size(); ++k) {
      if (current.offsets[order[k]] + items[order[k]].size > bound) high.push_back(k);
    }
    const size_t picked = high[random.below(high.size())];
    for (size_t k = 0; k < order.size(); ++k) {
      if (items[order[k]].meets(items[order[picked]])) near.push_back(k);
    }
    const size_t from = random.below(2) == 0 ? picked : near[random.below(near.size())];
    const size_t to = random.below(2) == 0 ? near[random.below(near.size())] : random.below(order.size());
    Order next = order;
    const auto at = [&](size_t k) { return next.begin() + static_cast<ptrdiff_t>(k); };
    if (from < to) std::rotate(at(from), at(from) + 1, at(to) + 1);
    if (to < from) std::rotate(at(to), at(from), at(from) + 1);
    Placement trial = place(items, next, random.below(2) == 0, &work);
    const auto trial_quality = quality(items, trial, bound);
    const uint64_t allowed = seed % 2 == 0 ? current_quality.second : UINT64_MAX;  // wander on the level, or only climb
    if (trial_quality.first > current_quality.first || trial_quality.second > allowed) continue;
    order = std::move(next);
    current = std::move(trial);
    current_quality = trial_quality;
    if (current.height < best.height) best = current;
  }
}

// Exact for few items: some best placement has every item directly on top of others it meets, and can be built from the bottom
// up; so items are placed in the order of their offsets, each as low as those before allow.
class Search {
 public:
  Search(const std::vector<Item>& items, uint64_t bound, Placement& best)
      : items_(items), bound_(bound), best_(best), offsets_(items.size()), floor_(items.size()), used_(items.size()) {}

  void run() { descend(0, 0); }

 private:
  bool done() const { return best_.height <= bound_ || nodes_ > kSearchNodes; }

  // No placement below the best one is left when some item cannot end below it.
  bool hopeless() const {
    for (size_t i = 0; i < items_.size(); ++i) {
      if (!used_[i] && floor_[i] + items_[i].size >= best_.height) return true;
    }
    return false;
  }

  void descend(size_t count, uint64_t lowest) {
    ++nodes_;
    if (count == items_.size()) {
      uint64_t height = 0;
      for (size_t i = 0; i < items_.size(); ++i) height = std::max(height, offsets_[i] + items_[i].size);
      if (height < best_.height) best_ = {offsets_, height};
      return;
    }
    if (hopeless()) return;
    // Whatever comes later starts no lower than this one: so it must start below the lowest possible top of the rest.
    uint64_t limit = UINT64_MAX;
    for (size_t i = 0; i < items_.size(); ++i) {
      if (!used_[i]) limit = std::min(limit, std::max(floor_[i], lowest) + items_[i].size);
    }
    for (size_t i = 0; i < items_.size() && !done(); ++i) {
      const uint64_t offset = floor_[i];
      if (used_[i] || offset < lowest || offset >= limit || repeats(i)) continue;
      used_[i] = true;
      offsets_[i] = offset;
      std::vector<uint64_t> saved = floor_;
      for (size_t k = 0; k < items_.size(); ++k) {
        if (!used_[k] && items_[k].meets(items_[i])) floor_[k] = std::max(floor_[k], offset + items_[i].size);
      }
      descend(count + 1, offset);
      floor_ = std::move(saved);
      used_[i] = false;
    }
  }

  // An equal item with a lower number stands for this one.
  bool repeats(size_t i) const {
    for (size_t k = 0; k < i; ++k) {
      const Item &a = items_[k], &b = items_[i];
      if (!used_[k] && std::tie(a.size, a.first, a.last) == std::tie(b.size, b.first, b.last)) return true;
    }
    return false;
  }

  const std::vector<Item>& items_;
  const uint64_t bound_;
  Placement& best_;
  std::vector<uint64_t> offsets_, floor_;  // floor_: the lowest place that those already placed leave
  std::vector<bool> used_;
  uint64_t nodes_ = 0;
};

Placement solve(const std::vector<Item>& items, uint64_t bound) {
  Placement best;
  best.height = UINT64_MAX;
  Order best_order;
  for (const Order& order : greedy_orders(items)) {
    for (const bool smallest_gap : {true, false}) {
      Placement placement = place(items, order, smallest_gap);
      if (placement.height < best.height) {
        best = std::move(placement);
        best_order = order;
      }
      if (best.height == bound) return best;
    }
  }
  if (items.size() <= kSearchItems) Search(items, bound, best).run();
  const std::vector<Order> orders = greedy_orders(items);
  for (uint64_t round = 0; round < kClimbs && best.height > bound; ++round) {
    climb(items, round < 2 ? best_order : orders[round % orders.size()], bound, round, best);
  }
  return best;
}

}  // namespace

uint64_t rounded_up(uint64_t bytes) { return (bytes + ISO_ALIGNMENT - 1) / ISO_ALIGNMENT * ISO_ALIGNMENT; }

Arena plan_arena(std::span<const Interval> intervals) {
  const size_t count = intervals.size();
  std::vector<size_t> root(count);
  std::vector<uint64_t> at(count);  // in the root
  for (size_t i = 0; i < count; ++i) {
    size_t r = i, steps = 0;
    for (; intervals[r].inside >= 0; r = static_cast<size_t>(intervals[r].inside)) {
      ISOMER_ASSERT(++steps <= count, "intervals lie inside each other in a circle");
      at[i] += intervals[r].at;
    }
    root[i] = r;
  }
  std::vector<Item> hulls(count);
  for (size_t i = 0; i < count; ++i) hulls[i] = {intervals[i].bytes, intervals[i].first, intervals[i].last};
  for (size_t i = 0; i < count; ++i) {
    Item& hull = hulls[root[i]];
    hull.size = std::max(hull.size, at[i] + intervals[i].bytes);
    hull.first = std::min(hull.first, intervals[i].first);
    hull.last = std::max(hull.last, intervals[i].last);
  }
  std::vector<Item> items;
  std::vector<size_t> owner;
  for (size_t i = 0; i < count; ++i) {
    if (root[i] != i || hulls[i].size == 0) continue;
    items.push_back({rounded_up(hulls[i].size), hulls[i].first, hulls[i].last});
    owner.push_back(i);
  }
  Arena arena;
  arena.offsets.resize(count);
  if (items.empty()) return arena;
  arena.lower_bound = peak(items);
  const Placement placement = solve(items, arena.lower_bound);
  arena.bytes = placement.height;
  for (size_t k = 0; k < items.size(); ++k) arena.offsets[owner[k]] = placement.offsets[k];
  for (size_t i = 0; i < count; ++i) {
    if (root[i] != i) arena.offsets[i] = arena.offsets[root[i]] + at[i];
  }
  return arena;
}

}  // namespace isomer::compile
