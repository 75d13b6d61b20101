#include "cost/labelling.h"

#include <algorithm>

#include "cost/label_solver.h"
#include "cost/tile_rate.h"

namespace isomer::cost {
namespace {

// A label other than the compiler's own must promise this much: the least of many timings is the luckiest.
constexpr double kLuck = 1.02;
// And one that takes tile registers where the compiler would not this much: neighbours on a shared machine take them away.
constexpr double kTileLuck = 1.1;
// Kernels whose estimate is so many times that of the compiler's own choice are not timed.
constexpr double kHopeless = 2, kHopelessOrder = 1.3;  // by another algorithm, in another order
constexpr double kContender = 1.05;  // times the compiler's own: what is slower than that in one go is not measured
constexpr size_t kMostTimed = 1500;  // kernels for one graph

// One factor under one choice of labels.
struct Way {
  compile::Algorithm algorithm = compile::Algorithm::Standard;
  std::vector<Item> items;
  std::shared_ptr<const compile::KernelCache::Entry> kernels;  // keeps the items' functions
  double estimate = 0, seconds = 0;
  bool timed = true;
  bool tiles = false;  // tile registers
};

// The tables of a graph's label space, filled with times.
class Labeller {
 public:
  Labeller(KernelTimes& times, const compile::LabelSpace& space) : times_(times), space_(space) {}

  Labelling run() {
    for (size_t f = 0; f < space_.factors().size(); ++f) collect(f);
    out_.variables = space_.variables().size();
    out_.factors = space_.factors().size();
    time_promising();
    std::vector<size_t> sizes;
    for (const auto& v : space_.variables()) sizes.push_back(v.labels.size());
    std::vector<CostTable> tables;
    for (size_t f = 0; f < ways_.size(); ++f) {
      CostTable t{space_.factors()[f].variables, {}};
      for (size_t c = 0; c < ways_[f].size(); ++c) {
        const auto [best, cost] = best_way(f, c);
        t.costs.push_back(c == 0 ? cost : kLuck * cost);
      }
      if (!ways_[f].empty() && !ways_[f][0].empty()) out_.standard += ways_[f][0][0].seconds;
      tables.push_back(std::move(t));
    }
    auto solved = solve(sizes, tables);
    if (!solved) {
      out_.exact = false;
      solved = Assignment{std::vector<size_t>(sizes.size()), 0};
    }
    take(*solved);
    return std::move(out_);
  }

 private:
  // Algorithms are tried where values lie as the compiler would have them: with every order, too many kernels would be timed.
  void collect(size_t f) {
    const auto& variables = space_.factors()[f].variables;
    size_t count = 1;
    for (const size_t v : variables) count *= space_.variables()[v].labels.size();
    for (size_t c = 0; c < count; ++c) {
      std::vector<Way>& ways = ways_.size() > f ? ways_[f].emplace_back() : ways_.emplace_back().emplace_back();
      for (const compile::LabelSpace::Work& work : space_.work(f, decoded(variables, c), c > 0)) {
        Way w{work.algorithm, {}, work.kernels};
        for (size_t k = 0; k < work.kernels->kernels.size(); ++k) {
          const compile::Kernel& kernel = work.kernels->kernels[k];
          std::vector<Role> roles;
          for (const bool weight : work.weights[k]) roles.push_back(weight ? Role::Weight : Role::Value);
          w.items.push_back(
              item_of(kernel.function, work.kernels->signatures[k], std::move(roles), kernel.flops, kernel.bytes));
          w.estimate += times_.known(w.items.back(), true).estimate;
          w.tiles = w.tiles || uses_tile_registers(kernel.function);
        }
        ways.push_back(std::move(w));
      }
    }
  }

  std::vector<size_t> decoded(const std::vector<size_t>& variables, size_t code) const {
    std::vector<size_t> out(variables.size());
    for (size_t i = variables.size(); i-- > 0;) {
      const size_t n = space_.variables()[variables[i]].labels.size();
      out[i] = code % n;
      code /= n;
    }
    return out;
  }

  double seconds_of(const Way& w) const {
    double sum = 0;
    for (const Item& i : w.items) {
      const KernelTimes::Known k = times_.known(i, true);
      sum += k.seconds > 0 ? k.seconds : k.tried > 0 ? k.tried : k.estimate;
    }
    return sum;
  }

  static Way* own(std::vector<std::vector<Way>>& factor) {
    return !factor.empty() && !factor[0].empty() ? &factor[0][0] : nullptr;
  }

  // The compiler's own choices first. Of the others those that are estimated to be good are tried, and those that turn out
  // so are measured.
  void time_promising() {
    std::vector<Item> items;
    for (auto& factor : ways_)
      if (const Way* w = own(factor)) items.insert(items.end(), w->items.begin(), w->items.end());
    out_.measured = times_.measure(items);
    struct Wanted {
      double ratio;
      Way* way;
      double limit;
    };
    std::vector<Wanted> wanted;
    for (auto& factor : ways_)
      for (auto& choice : factor)
        for (Way& w : choice) {
          const double ratio = own(factor) && own(factor)->estimate > 0 ? w.estimate / own(factor)->estimate : 0;
          w.timed = &w == own(factor) || ratio <= (&choice == &factor[0] ? kHopeless : kHopelessOrder);
          if (w.timed && &w != own(factor)) wanted.push_back({ratio, &w, own(factor) ? seconds_of(*own(factor)) : 0});
        }
    std::stable_sort(wanted.begin(), wanted.end(), [](const Wanted& a, const Wanted& b) { return a.ratio < b.ratio; });
    items.clear();
    std::vector<double> limits;
    for (const auto& [ratio, w, limit] : wanted) {
      if (items.size() > kMostTimed) {
        w->timed = false;
        out_.exact = false;
        continue;
      }
      items.insert(items.end(), w->items.begin(), w->items.end());
      limits.resize(items.size(), limit);
    }
    times_.try_out(items, limits);
    items.clear();
    for (auto& factor : ways_) {
      if (!own(factor)) continue;
      const double limit = kContender * seconds_of(*own(factor));
      for (auto& choice : factor)
        for (const Way& w : choice)
          if (w.timed && seconds_of(w) < limit) items.insert(items.end(), w.items.begin(), w.items.end());
    }
    out_.measured += times_.measure(items);
    for (auto& factor : ways_) {
      // What was not timed is as much off as the compiler's own choice.
      const Way* standard = own(factor);
      const double scale =
          standard && standard->estimate > 0 ? std::max(1.0, seconds_of(*standard) / standard->estimate) : 1;
      for (auto& choice : factor)
        for (Way& w : choice) w.seconds = w.timed ? seconds_of(w) : scale * w.estimate;
    }
  }

  // The cheapest way under a choice; none costs nothing.
  std::pair<size_t, double> best_way(size_t f, size_t c) const {
    const std::vector<Way>& ways = ways_[f][c];
    if (ways.empty()) return {0, 0.0};
    size_t best = 0;
    const auto priced = [&](size_t i) {
      return i == 0 ? ways[0].seconds : ways[i].seconds * (ways[i].tiles && !ways[0].tiles ? kTileLuck : kLuck);
    };
    for (size_t i = 1; i < ways.size(); ++i)
      if (priced(i) < priced(best)) best = i;
    return {best, ways[best].seconds};
  }

  void take(const Assignment& a) {
    std::vector<compile::Algorithm> algorithms(ways_.size());
    for (size_t f = 0; f < ways_.size(); ++f) {
      size_t code = 0;
      for (const size_t v : space_.factors()[f].variables)
        code = code * space_.variables()[v].labels.size() + a.choice[v];
      const auto [best, cost] = best_way(f, code);
      out_.seconds += cost;
      if (best > 0) algorithms[f] = ways_[f][code][best].algorithm;
      if (code == 0 && best == 0) continue;
      const double standard = ways_[f][0].empty() ? 0 : ways_[f][0][0].seconds;
      out_.choices.push_back({space_.value_of(f), algorithms[f], standard, cost});
    }
    out_.labels = space_.labels(a.choice, algorithms);
  }

  KernelTimes& times_;
  const compile::LabelSpace& space_;
  std::vector<std::vector<std::vector<Way>>> ways_;  // by factor and choice
  Labelling out_;
};

}  // namespace

Labelling best_labels(KernelTimes& times, const compile::LabelSpace& space) { return Labeller(times, space).run(); }

}  // namespace isomer::cost
