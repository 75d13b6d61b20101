#include "cost/label_table.h"

#include <algorithm>
#include <numeric>

#include "cost/core_rate.h"

namespace isomer::cost {
namespace {

// What a label that takes tile registers where the compiler would not must promise: neighbours on a shared machine take them away.
constexpr double kTileLuck = 1.1;
constexpr size_t kMostModels = 2;  // ways that kin takes over
constexpr double kSure = 1.15;     // times the best: where the compiler's own way is slower in one go, that is enough

}  // namespace

std::vector<compile::Method> LabelTable::models_of(size_t f) const {
  const std::vector<Way>& ways = ways_[f][0].ways;
  std::vector<compile::Method> out;
  for (const size_t w : ranked(f))
    if (!ways[w].method.standard() && out.size() < kMostModels &&
        price_of(f, ways[w]) <= kContender * best_so_far(f, 0))
      out.push_back(ways[w].method);
  return out;
}

std::vector<size_t> LabelTable::ranked(size_t f) const {
  const std::vector<Way>& ways = ways_[f][0].ways;
  std::vector<size_t> out(ways.size());
  std::iota(out.begin(), out.end(), 0);
  std::stable_sort(out.begin(), out.end(),
                   [&](size_t a, size_t b) { return price_of(f, ways[a]) < price_of(f, ways[b]); });
  return out;
}

Way LabelTable::way_of(const compile::LabelSpace::Work& work) {
  Way w{work.method, work.scheme, {}, work.kernels};
  for (size_t k = 0; k < work.kernels->kernels.size(); ++k) {
    const compile::Kernel& kernel = work.kernels->kernels[k];
    std::vector<Role> roles;
    for (const bool weight : work.weights[k]) roles.push_back(weight ? Role::Weight : Role::Value);
    w.items.push_back(
        item_of(kernel.function, work.kernels->signatures[k], std::move(roles), kernel.flops, kernel.bytes));
    w.estimate += times_.known(w.items.back(), true).estimate;
    w.tiles = w.tiles || uses_tile_registers(kernel.function);
  }
  return w;
}

std::string LabelTable::group(size_t f) const {
  std::string key;
  for (const Item& i : own(f)->items) key += i.key;
  return key;
}

bool LabelTable::is_known(const Way& w) {
  return !times_.measures() || std::all_of(w.items.begin(), w.items.end(), [&](const Item& i) {
    const KernelTimes::Known k = times_.known(i, true);
    return k.seconds > 0 || k.tried > 0;
  });
}

double LabelTable::best_so_far(size_t f, size_t c) const {
  double best = own(f) ? seconds_of(*own(f)) : 0;
  for (const Way& w : ways_[f][c].ways)
    if (w.timed) best = best > 0 ? std::min(best, seconds_of(w)) : seconds_of(w);
  return best;
}

void LabelTable::add(std::vector<Fresh> all, double hopeless) {
  std::vector<Item> items;
  std::vector<double> limits;
  for (Fresh& f : all)
    for (Way& w : f.ways) {
      w.timed = !own(f.factor) || w.estimate <= hopeless * own(f.factor)->estimate;
      if (!w.timed) continue;
      items.insert(items.end(), w.items.begin(), w.items.end());
      limits.resize(items.size(), best_so_far(f.factor, f.choice));
    }
  times_.try_out(items, limits);
  measure_contenders(all);
  for (Fresh& f : all)
    for (Way& w : f.ways) ways_[f.factor][f.choice].ways.push_back(std::move(w));
}

double LabelTable::seconds_of(const Way& w) const {
  double sum = 0;
  for (const Item& i : w.items) {
    const KernelTimes::Known k = times_.known(i, true);
    sum += k.seconds > 0 ? k.seconds : k.tried > 0 ? k.tried : k.estimate;
  }
  return sum;
}

// What was not timed is as much off as the compiler's own choice.
double LabelTable::price_of(size_t f, const Way& w) const {
  if (w.timed) return seconds_of(w);
  const Way* standard = own(f);
  return std::max(1.0, standard->estimate > 0 ? seconds_of(*standard) / standard->estimate : 1) * w.estimate;
}

std::pair<size_t, double> LabelTable::best_way(size_t f, size_t c) const {
  const std::vector<Way>& ways = ways_[f][c].ways;
  if (!ways_[f][c].looked_at) return {0, kForbidden};
  if (ways.empty()) return {0, 0.0};
  size_t best = 0;
  const auto priced = [&](size_t i) {
    return price_of(f, ways[i]) * (i == 0 ? 1 : ways[i].tiles && !ways[0].tiles ? kTileLuck : kLuck);
  };
  for (size_t i = 1; i < ways.size(); ++i)
    if (priced(i) < priced(best)) best = i;
  return {best, price_of(f, ways[best])};
}

LabelTable::Fresh LabelTable::fresh_ways(size_t f, const std::vector<compile::Method>& methods) {
  Fresh fresh{f, 0, {}};
  const std::vector<Way>& there = ways_[f][0].ways;
  for (const compile::Method& m : methods) {
    if (std::any_of(there.begin(), there.end(), [&](const Way& w) { return w.method == m; })) continue;
    if (const auto work = space_.way(f, m)) fresh.ways.push_back(way_of(*work));
  }
  return fresh;
}

// Where the compiler's own way is far behind in one go, a rough table leaves it at that.
void LabelTable::measure_contenders(const std::vector<Fresh>& all) {
  std::vector<Item> items;
  for (const Fresh& f : all) {
    double best = best_so_far(f.factor, f.choice);
    for (const Way& w : f.ways)
      if (w.timed) best = best > 0 ? std::min(best, seconds_of(w)) : seconds_of(w);
    const Way* standard = own(f.factor);
    const bool sure = rough_ && standard && seconds_of(*standard) > kSure * best;
    bool contested = false;
    for (const Way& w : f.ways) {
      if (!w.timed || seconds_of(w) >= kContender * best || (sure && is_known(w))) continue;
      items.insert(items.end(), w.items.begin(), w.items.end());
      contested = true;
    }
    if (contested && standard) items.insert(items.end(), standard->items.begin(), standard->items.end());
  }
  measured_ += times_.measure(items);
}

}  // namespace isomer::cost
