#include "cost/labelling.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <span>

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
constexpr double kContender = 1.05;   // times the best so far: what is slower than that in one go is not measured
constexpr double kNegligible = 1e-3;  // of the whole: groups below are left as they are
constexpr double kRival = 1.15;       // times the best: schemes that are cut in other ways too
constexpr size_t kMostRivals = 2;
constexpr size_t kTogether = 8, kCutTogether = 4;  // factors whose kernels are compiled together
constexpr double kOrderShare = 0.15;               // of the time, for orders
constexpr double kForbidden = 1e9;                 // seconds of what was not looked at

using Clock = std::chrono::steady_clock;

// One factor under one choice of labels.
struct Way {
  compile::Method method;
  compile::Algorithm scheme = compile::Algorithm::Standard;
  std::vector<Item> items;
  std::shared_ptr<const compile::KernelCache::Entry> kernels;  // keeps the items' functions
  double estimate = 0;
  bool timed = true;
  bool tiles = false;  // tile registers
};

// The tables of a graph's label space, filled with times. The groups that take longest come first, so that whenever time runs
// out what matters most was tried.
class Labeller {
 public:
  Labeller(KernelTimes& times, const compile::LabelSpace& space, KnownMethods& methods, const LabelOptions& options)
      : times_(times), space_(space), methods_(methods), options_(options) {}

  Labelling run() {
    out_.variables = space_.variables().size();
    out_.factors = space_.factors().size();
    const std::vector<size_t> order = take_known(own_ways());
    std::vector<size_t> looked_at, cut;
    in_turn(order, kTogether, [&](std::span<const size_t> some) {
      if (late()) {
        take_late(some);
        return;
      }
      try_algorithms(some);
      looked_at.insert(looked_at.end(), some.begin(), some.end());
    });
    if (with_cuts())
      in_turn(by_time(looked_at), kCutTogether, [&](std::span<const size_t> some) {
        if (late()) return;
        try_cuts(some);
        cut.insert(cut.end(), some.begin(), some.end());
      });
    for (const size_t f : looked_at)
      methods_.set(group(f),
                   {ways_[f][0].ways[best_way(f, 0).first].method, std::find(cut.begin(), cut.end(), f) != cut.end()});
    try_orders();
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
  struct Choice {
    std::vector<Way> ways;
    bool looked_at = true;
  };

  bool late() const {
    return (options_.stop && options_.stop->load()) ||
           std::chrono::duration<double>(Clock::now() - start_).count() >= options_.seconds;
  }

  Way way_of(const compile::LabelSpace::Work& work) {
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
      out_.measured = times_.measure(items);
    double all = 0;
    for (const size_t f : order) all += seconds_of(*own(f));
    std::erase_if(order, [&](size_t f) { return seconds_of(*own(f)) < kNegligible * all; });
    return by_time(order);
  }

  // By what they take as far as is known, the longest first.
  std::vector<size_t> by_time(std::vector<size_t> factors) const {
    std::stable_sort(factors.begin(), factors.end(),
                     [&](size_t a, size_t b) { return best_so_far(a, 0) > best_so_far(b, 0); });
    return factors;
  }

  bool with_cuts() const { return options_.cuts && times_.measures(); }

  std::string group(size_t f) const {
    std::string key;
    for (const Item& i : own(f)->items) key += i.key;
    return key;
  }

  bool is_known(const Way& w) {
    return !times_.measures() || std::all_of(w.items.begin(), w.items.end(),
                                             [&](const Item& i) { return times_.known(i, true).seconds > 0; });
  }

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

  const Way* own(size_t f) const { return ways_[f][0].ways.empty() ? nullptr : &ways_[f][0].ways[0]; }

  // A few factors at a time: their kernels are compiled together.
  static void in_turn(const std::vector<size_t>& factors, size_t together,
                      const std::function<void(std::span<const size_t>)>& f) {
    for (size_t i = 0; i < factors.size(); i += together)
      f(std::span(factors).subspan(i, std::min(together, factors.size() - i)));
  }

  // Ways of a factor that are to be added to those that it has.
  struct Fresh {
    size_t factor = 0, choice = 0;
    std::vector<Way> ways;
  };

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
      std::vector<size_t> rivals(ways.size());
      std::iota(rivals.begin(), rivals.end(), 0);
      std::stable_sort(rivals.begin(), rivals.end(),
                       [&](size_t a, size_t b) { return price_of(f, ways[a]) < price_of(f, ways[b]); });
      Fresh& fresh = all.emplace_back(Fresh{f, 0, {}});
      for (size_t r = 0; r < std::min(kMostRivals, rivals.size()); ++r)
        if (price_of(f, ways[rivals[r]]) <= kRival * price_of(f, ways[rivals[0]]))
          for (const auto& work : space_.cuts(f, ways[rivals[r]].scheme)) fresh.ways.push_back(way_of(work));
    }
    add(std::move(all), kHopeless);
  }

  double best_so_far(size_t f, size_t c) const {
    double best = own(f) ? seconds_of(*own(f)) : 0;
    for (const Way& w : ways_[f][c].ways)
      if (w.timed) best = best > 0 ? std::min(best, seconds_of(w)) : seconds_of(w);
    return best;
  }

  // Of ways that are estimated to be good those are tried that nobody timed, and those that turn out so are measured.
  void add(std::vector<Fresh> all, double hopeless) {
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
    items.clear();
    for (const Fresh& f : all) {
      double best = best_so_far(f.factor, f.choice);
      for (const Way& w : f.ways)
        if (w.timed) best = best > 0 ? std::min(best, seconds_of(w)) : seconds_of(w);
      bool contested = false;
      for (const Way& w : f.ways) {
        if (!w.timed || seconds_of(w) >= kContender * best) continue;
        items.insert(items.end(), w.items.begin(), w.items.end());
        contested = true;
      }
      if (const Way* standard = own(f.factor); contested && standard)
        items.insert(items.end(), standard->items.begin(), standard->items.end());
    }
    out_.measured += times_.measure(items);
    for (Fresh& f : all)
      for (Way& w : f.ways) ways_[f.factor][f.choice].ways.push_back(std::move(w));
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

  double seconds_of(const Way& w) const {
    double sum = 0;
    for (const Item& i : w.items) {
      const KernelTimes::Known k = times_.known(i, true);
      sum += k.seconds > 0 ? k.seconds : k.tried > 0 ? k.tried : k.estimate;
    }
    return sum;
  }

  // What was not timed is as much off as the compiler's own choice.
  double price_of(size_t f, const Way& w) const {
    if (w.timed) return seconds_of(w);
    const Way* standard = own(f);
    return std::max(1.0, standard->estimate > 0 ? seconds_of(*standard) / standard->estimate : 1) * w.estimate;
  }

  // The cheapest way under a choice; none costs nothing.
  std::pair<size_t, double> best_way(size_t f, size_t c) const {
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

  KernelTimes& times_;
  const compile::LabelSpace& space_;
  KnownMethods& methods_;
  const LabelOptions& options_;
  const Clock::time_point start_ = Clock::now();
  std::vector<std::vector<Choice>> ways_;  // by factor and choice
  Labelling out_;
};

}  // namespace

std::optional<KnownMethods::Best> KnownMethods::find(const std::string& group) const {
  const std::lock_guard lock(mutex_);
  const auto it = best_.find(group);
  return it == best_.end() ? std::nullopt : std::optional(it->second);
}

void KnownMethods::set(const std::string& group, const Best& best) {
  constexpr size_t kMost = 1 << 14;
  const std::lock_guard lock(mutex_);
  if (best_.size() >= kMost) best_.clear();
  best_[group] = best;
}

Labelling best_labels(KernelTimes& times, const compile::LabelSpace& space, KnownMethods& methods,
                      const LabelOptions& options) {
  return Labeller(times, space, methods, options).run();
}

}  // namespace isomer::cost
