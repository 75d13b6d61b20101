#include "cost/labelling.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <span>

#include "cost/label_kin.h"
#include "cost/label_solver.h"
#include "cost/label_table.h"

namespace isomer::cost {
namespace {

// Kernels whose estimate is so many times that of the compiler's own choice are not timed.
constexpr double kHopeless = 2, kHopelessOrder = 1.3;  // by another algorithm, in another order
constexpr double kNegligible = 1e-3;                   // of the whole: groups below are left as they are
constexpr double kRival = 1.15;                        // times the best: schemes that are cut in other ways too
constexpr size_t kMostRivals = 2;
constexpr size_t kTogether = 8, kCutTogether = 4;  // factors whose kernels are compiled together
constexpr double kHeavy = 0.03;                    // of the whole: kin that is looked at in all ways before the next
constexpr double kOrderShare = 0.15;               // of the time, for orders

using Clock = std::chrono::steady_clock;

// The tables of a graph's label space, filled with times. The groups that take longest come first, so that whenever time runs
// out what matters most was tried.
class Labeller : LabelTable {
 public:
  Labeller(KernelTimes& times, const compile::LabelSpace& space, KnownMethods& methods, const LabelOptions& options)
      : LabelTable(times, space, options.rough), methods_(methods), options_(options) {}

  Labelling run() {
    out_.variables = space_.variables().size();
    out_.factors = space_.factors().size();
    const std::vector<size_t> order = take_known(own_ways());
    look_at(kin_of(space_, order, [&](size_t f) { return seconds_of(*own(f)); }));
    try_orders();
    out_.measured = measured_;
    out_.exact = out_.exact && out_.untried == 0;
    std::vector<size_t> sizes;
    for (const auto& v : space_.variables()) sizes.push_back(v.labels.size());
    std::vector<CostTable> tables;
    for (size_t f = 0; f < ways_.size(); ++f) {
      CostTable t{space_.factors()[f].variables, {}};
      for (size_t c = 0; c < ways_[f].size(); ++c) t.costs.push_back((c == 0 ? 1 : kLuck) * best_way(f, c).second);
      tables.push_back(std::move(t));
    }
    auto solved = solve(sizes, tables);
    if (!solved) {
      out_.exact = false;
      solved = Assignment{std::vector<size_t>(sizes.size()), 0};
    }
    for (size_t f = 0; f < ways_.size(); ++f) out_.standard += own(f) ? seconds_of(*own(f)) : 0;
    take(*solved);
    return std::move(out_);
  }

 private:
  bool late() const {
    return (options_.stop && options_.stop->load()) ||
           std::chrono::duration<double>(Clock::now() - start_).count() >= options_.seconds;
  }

  // Kin that takes much of the time first, in all ways; then algorithms of all others before cuts of any.
  void look_at(const std::vector<Kin>& kin) {
    std::vector<Kin> light, uncut;
    for (const Kin& k : kin) {
      if (const auto best = methods_.find(k.reduction); best) {
        follow(k, *best);
      } else if (k.seconds < kHeavy * whole_) {
        light.push_back(k);
      } else if (!try_some({&k, 1}, true)) {
        take_late(k.factors);
      }
    }
    in_turn(light, kTogether, [&](std::span<const Kin> some) {
      if (try_some(some, false))
        uncut.insert(uncut.end(), some.begin(), some.end());
      else
        for (const Kin& k : some) take_late(k.factors);
    });
    if (!with_cuts()) return;
    in_turn(uncut, kCutTogether, [&](std::span<const Kin> some) {
      if (!late()) cut(some);
    });
  }

  // False: it is too late.
  bool try_some(std::span<const Kin> kin, bool cuts) {
    if (late()) return false;
    try_algorithms(leaders(kin));
    if (cuts && with_cuts() && !late())
      cut(kin);
    else
      settle(kin, false);
    return true;
  }
  void cut(std::span<const Kin> kin) {
    try_cuts(leaders(kin));
    settle(kin, true);
  }

  static std::vector<size_t> leaders(std::span<const Kin> kin) {
    std::vector<size_t> out;
    for (const Kin& k : kin) out.push_back(k.leader());
    return out;
  }

  // What the leaders are computed best by is tried for the others, and kept.
  void settle(std::span<const Kin> kin, bool cuts) {
    std::vector<Fresh> all;
    for (const Kin& k : kin) {
      const std::vector<compile::Method> models = models_of(k.leader());
      for (const size_t f : std::span(k.factors).subspan(1)) all.push_back(fresh_ways(f, models));
    }
    add(std::move(all), kForbidden);
    for (const Kin& k : kin) keep(k, cuts);
  }

  // What was found for kin in another graph. Also when it is late: there are few of these.
  void follow(const Kin& kin, const KnownMethods::Best& best) {
    std::vector<Fresh> all;
    for (const size_t f : kin.factors) all.push_back(fresh_ways(f, {best.method}));
    add(std::move(all), kForbidden);
    for (const size_t f : kin.factors) methods_.set(group(f), {best_method(f), best.cuts});
  }

  void keep(const Kin& kin, bool cuts) {
    for (const size_t f : kin.factors) methods_.set(group(f), {best_method(f), cuts});
    // Only what was looked at in all ways, of a whole model: pieces come in any order.
    if (cuts && !kin.reduction.empty()) methods_.set(kin.reduction, {best_method(kin.leader()), cuts});
  }

  // What the compiler does by itself, timed; the factors that count, the longest first.
  std::vector<size_t> own_ways() {
    std::vector<Item> items;
    std::vector<size_t> order;
    for (size_t f = 0; f < space_.factors().size(); ++f) {
      const auto& variables = space_.factors()[f].variables;
      size_t count = 1;
      for (const size_t v : variables) count *= space_.variables()[v].labels.size();
      ways_.emplace_back(count);
      for (const auto& work : space_.work(f, decoded(variables, 0), true)) ways_[f][0].ways.push_back(way_of(work));
      if (!own(f)) continue;
      order.push_back(f);
      items.insert(items.end(), own(f)->items.begin(), own(f)->items.end());
    }
    if (options_.rough)
      times_.try_out(items, std::vector<double>(items.size()));
    else
      measured_ += times_.measure(items);
    for (const size_t f : order) whole_ += seconds_of(*own(f));
    std::erase_if(order, [&](size_t f) { return seconds_of(*own(f)) < kNegligible * whole_; });
    return order;
  }

  // By what they take as far as is known, the longest first.
  std::vector<size_t> by_time(std::vector<size_t> factors) const {
    std::stable_sort(factors.begin(), factors.end(),
                     [&](size_t a, size_t b) { return best_so_far(a, 0) > best_so_far(b, 0); });
    return factors;
  }

  bool with_cuts() const { return options_.cuts && times_.measures(); }

  // What an equal group was found to be computed best by, where its kernels are known.
  bool take_method(size_t f, const compile::Method& method) {
    if (method.standard()) return true;
    const auto work = space_.way(f, method);
    if (!work) return false;
    Way w = way_of(*work);
    if (!is_known(w) || !is_known(*own(f))) return false;
    ways_[f][0].ways.push_back(std::move(w));
    return true;
  }

  // Those of which nothing is known yet.
  std::vector<size_t> take_known(std::vector<size_t> factors) {
    std::erase_if(factors, [&](size_t f) {
      const auto best = methods_.find(group(f));
      return best && (best->cuts || !with_cuts()) && take_method(f, best->method);
    });
    return factors;
  }
  void take_late(std::span<const size_t> factors) {
    for (const size_t f : factors) {
      const auto best = methods_.find(group(f));
      if (!best || !take_method(f, best->method)) ++out_.untried;
    }
  }

  // A few factors at a time: their kernels are compiled together.
  template <class T, class F>
  static void in_turn(const std::vector<T>& all, size_t together, F f) {
    for (size_t i = 0; i < all.size(); i += together)
      f(std::span<const T>(all).subspan(i, std::min(together, all.size() - i)));
  }

  // Algorithms are tried where values lie as the compiler would have them: with every order, too many kernels would be timed.
  void try_algorithms(std::span<const size_t> factors) {
    std::vector<Fresh> all;
    for (const size_t f : factors) {
      Fresh& fresh = all.emplace_back(Fresh{f, 0, {}});
      for (const auto& work : space_.work(f, std::vector<size_t>(space_.factors()[f].variables.size()))) {
        if (work.method.standard())
          ways_[f][0].ways[0].scheme = work.scheme;
        else
          fresh.ways.push_back(way_of(work));
      }
    }
    add(std::move(all), kHopeless);
  }

  void try_cuts(std::span<const size_t> factors) {
    std::vector<Fresh> all;
    for (const size_t f : factors) {
      const std::vector<Way>& ways = ways_[f][0].ways;
      const std::vector<size_t> rivals = ranked(f);
      Fresh& fresh = all.emplace_back(Fresh{f, 0, {}});
      for (size_t r = 0; r < std::min(kMostRivals, rivals.size()); ++r)
        if (price_of(f, ways[rivals[r]]) <= kRival * price_of(f, ways[rivals[0]]))
          for (const auto& work : space_.cuts(f, ways[rivals[r]].scheme)) fresh.ways.push_back(way_of(work));
    }
    add(std::move(all), kHopeless);
  }

  // Of the groups that take longest first, and not for long: orders seldom pay, since neighbours need copies.
  void try_orders() {
    std::vector<size_t> factors(ways_.size());
    std::iota(factors.begin(), factors.end(), 0);
    const Clock::time_point begin = Clock::now();
    in_turn(by_time(std::move(factors)), kTogether, [&](std::span<const size_t> some) {
      const double passed = std::chrono::duration<double>(Clock::now() - begin).count();
      try_orders(some, late() || passed > kOrderShare * options_.seconds);
    });
  }

  void try_orders(std::span<const size_t> factors, bool too_late) {
    std::vector<Fresh> all;
    for (const size_t f : factors)
      for (size_t c = 1; c < ways_[f].size(); ++c) {
        ways_[f][c].looked_at = !too_late;
        if (too_late) {
          out_.exact = false;
          continue;
        }
        Fresh& fresh = all.emplace_back(Fresh{f, c, {}});
        for (const auto& work : space_.work(f, decoded(space_.factors()[f].variables, c), true))
          fresh.ways.push_back(way_of(work));
      }
    add(std::move(all), kHopelessOrder);
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

  void take(const Assignment& a) {
    std::vector<compile::Method> methods(ways_.size());
    for (size_t f = 0; f < ways_.size(); ++f) {
      size_t code = 0;
      for (const size_t v : space_.factors()[f].variables)
        code = code * space_.variables()[v].labels.size() + a.choice[v];
      const auto [best, cost] = best_way(f, code);
      out_.seconds += cost;
      if (best > 0) methods[f] = ways_[f][code].ways[best].method;
      if (code == 0 && best == 0) continue;
      const double standard = own(f) ? seconds_of(*own(f)) : 0;
      out_.choices.push_back({space_.value_of(f), methods[f], standard, cost});
    }
    out_.labels = space_.labels(a.choice, methods);
  }

  KnownMethods& methods_;
  const LabelOptions& options_;
  const Clock::time_point start_ = Clock::now();
  double whole_ = 0;  // seconds of the compiler's own ways
  Labelling out_;
};

}  // namespace

Labelling best_labels(KernelTimes& times, const compile::LabelSpace& space, KnownMethods& methods,
                      const LabelOptions& options) {
  return Labeller(times, space, methods, options).run();
}

}  // namespace isomer::cost
