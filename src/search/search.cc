#include "search/search.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <tuple>

#include "search/exploration.h"
#include "search/judge.h"
#include "search/state.h"

namespace isomer::search {
namespace {

constexpr size_t kTogether = 8;    // regions that have a turn at once, after their first
constexpr double kWeighing = 0.3;  // of the time: for estimates of regions before any is priced

class Search {
 public:
  Search(const ir::OpTable& table, const std::vector<const rewrite::Rule*>& rules, const Cost& price,
         const Cost& estimate, const Options& options)
      : habits_(table),
        table_(table),
        rules_(rules, table, habits_),
        has_estimate_(estimate != nullptr),
        options_(options),
        judge_(rules_, price, estimate, options) {}

  Expected<Outcome> run(const ir::Graph& graph) {
    rewrite::EditGraph now(graph, table_, habits_);
    judge_.least_gain = kLeastGain * judge_.whole_estimate(graph).value_or(0);
    std::set<uint32_t> fresh;
    for (int round = 0; round < options_.rounds && (round == 0 || !judge_.over()); ++round) {
      std::vector<Place> places = find_places(now, round > 0 ? &fresh : nullptr, kWeighing);
      explore();
      fresh.clear();
      for (const Place& place : places) now = improve(std::move(now), place, fresh);
      if (fresh.empty()) break;
    }
    ISOMER_TRY(outcome_.graph, now.graph());
    settle(outcome_.considered);
    outcome_.statistics = judge_.statistics();
    outcome_.statistics.seconds = judge_.seconds();
    if (outcome_.statistics.seconds >= options_.seconds) outcome_.statistics.in_time = false;  // not all was judged
    return std::move(outcome_);
  }

  double promised(const ir::Graph& graph) {
    find_places(rewrite::EditGraph(graph, table_, habits_), nullptr, 1);
    double gain = 0;
    for (const Open& o : open_) gain += o.exploration->promise();
    return gain;
  }

 private:
  // A region of the graph as a round finds it.
  struct Place {
    Region region;
    std::vector<uint32_t> members;  // in order
    std::string shape;
  };
  // The first region of its shape.
  struct Open {
    std::string shape;
    std::unique_ptr<Exploration> exploration;
    std::optional<Found> found = {};  // when it has ended
  };

  std::vector<Region> regions(const rewrite::EditGraph& g) {
    const std::vector<rewrite::Match> all = rules_.matcher().all(g);
    std::vector<const rewrite::Match*> steps, wrapping;
    for (const rewrite::Match& m : all) {
      if (rules_.role(m.rule) != Role::Step || !is_live(g, m)) continue;
      steps.push_back(&m);
      if (rules_.wraps(m.rule)) wrapping.push_back(&m);
    }
    return find_regions(g, steps, wrapping, options_.region_nodes, judge_.reductions());
  }

  // The regions, or those that touch some nodes; one of each shape that is not known is to be explored. They are weighed until so
  // much of the time is gone.
  std::vector<Place> find_places(const rewrite::EditGraph& g, const std::set<uint32_t>* touched, double weighing) {
    std::vector<Place> out;
    for (Region& region : regions(g)) {
      if (touched && std::none_of(touched->begin(), touched->end(), [&](uint32_t n) { return region.has(n); }))
        continue;
      Place p{std::move(region), {}, {}};
      p.shape = shape_of(g, p.region);
      p.members = in_order(g, p.region);
      if (!known_.contains(p.shape)) {
        const auto it = std::find_if(open_.begin(), open_.end(), [&](const Open& o) { return o.shape == p.shape; });
        if (it != open_.end())
          ++it->exploration->equals;
        else
          open_.push_back({p.shape, std::make_unique<Exploration>(judge_, g, p.region)});
      }
      out.push_back(std::move(p));
    }
    if (has_estimate_ && !options_.simplify)  // there is no choice of what comes first
      judge_.pool().run(static_cast<int>(open_.size()), [&](int i) {
        if (judge_.seconds() < weighing * options_.seconds) open_[static_cast<size_t>(i)].exploration->weigh();
      });
    if (!touched && judge_.least_gain == 0)  // the model as a whole has no estimate
      for (const Open& o : open_)
        judge_.least_gain += kLeastGain * o.exploration->weight() * static_cast<double>(o.exploration->equals);
    return out;
  }

  // First those regions have a turn whose estimates promise a gain, and go on as long as they gain; then the others that had none;
  // of these and of the rest those first that have the most to gain. What ends is judged at once, the rest when the time for looking is over. Turns of several regions
  // are taken at once, of so many whatever the number of threads, so that it decides about nothing.
  void explore() {
    progress_.regions += open_.size();
    while (!open_.empty() && !judge_.over()) {
      std::stable_sort(open_.begin(), open_.end(),
                       [](const Open& a, const Open& b) { return turn_of(a) < turn_of(b); });
      const Class front = class_of(open_[0]);
      const size_t some = static_cast<size_t>(
          std::count_if(open_.begin(), open_.end(), [&](const Open& o) { return class_of(o) == front; }));
      take_turns(open_[0].exploration->begun() ? std::min(some, kTogether) : some);
      for (const Open& o : open_)
        if (o.found) known_[o.shape] = *o.found;
      std::erase_if(open_, [](const Open& o) { return o.found.has_value(); });
    }
    std::stable_sort(open_.begin(), open_.end(), [](const Open& a, const Open& b) { return gain(a) > gain(b); });
    judge_.pool().run(static_cast<int>(open_.size()), [&](int i) {
      Open& o = open_[static_cast<size_t>(i)];
      o.found = o.exploration->settle();
    });
    for (const Open& o : open_) known_[o.shape] = *o.found;
    open_.clear();
  }

  // In the order of their turns.
  enum class Class : uint8_t { Promising, Gaining, New, Idle };
  static Class class_of(const Open& o) {
    const Exploration& e = *o.exploration;
    if (e.begun()) return e.idle() ? Class::Idle : Class::Gaining;
    return e.promise() > 0 ? Class::Promising : Class::New;
  }
  static std::tuple<Class, double, double> turn_of(const Open& o) {
    const Exploration& e = *o.exploration;
    return {class_of(o), e.begun() ? 0 : -e.promise(), -e.urgency()};
  }
  static double gain(const Open& o) {
    return (o.exploration->before() - o.exploration->best()) * static_cast<double>(o.exploration->equals);
  }

  // One turn of each of the first. The graphs that are left are dealt out before, so that it does not matter who comes first.
  void take_turns(size_t count) {
    count = std::min(count, judge_.left());
    const size_t most = judge_.left() / count;
    judge_.pool().run(static_cast<int>(count), [&](int i) {
      Open& o = open_[static_cast<size_t>(i)];
      if (judge_.late()) return;
      take_turn(*o.exploration, most);
      if (o.exploration->ended()) o.found = o.exploration->settle();
    });
  }

  void take_turn(Exploration& e, size_t most) {
    const bool first = !e.begun();
    const double before = e.before(), best = e.best();
    e.turn(most);
    if (first) judge_.count(&Statistics::regions);
    const std::lock_guard lock(telling_);
    progress_.region += first ? 1 : 0;
    progress_.before += e.before() - before;
    progress_.best += e.best() - best;
    progress_.priced = judge_.statistics().priced;
    if (options_.progress) options_.progress(progress_);
  }

  void consider(const Found& found) {
    for (const auto& [rule, left] : found.left) {
      const auto at = found.places.find(rule);
      add(outcome_.considered, rule, at == found.places.end() ? 0 : at->second, left);
    }
  }

  // The graph with what was found for the region, or for one that equals it. Rewrites of a neighbour may have changed it
  // since: then it is explored as it is now.
  rewrite::EditGraph improve(rewrite::EditGraph g, const Place& place, std::set<uint32_t>& fresh) {
    ++number_;
    const Found& found = known_.at(place.shape);
    const bool again = !taken_.insert(place.shape).second;
    if (again) judge_.count(&Statistics::repeated);
    if (auto made = take(g, place, found, again, fresh)) {
      consider(found);
      return *std::move(made);
    }
    if (judge_.over()) return g;
    std::vector<uint32_t> living;
    for (const uint32_t n : place.region.nodes())
      if (g.alive(n)) living.push_back(n);
    const Region region(living);
    Exploration alone(judge_, g, region);
    alone.equals = found.equals;
    judge_.count(&Statistics::regions);
    while (!alone.ended() && !judge_.over()) alone.turn(judge_.left());
    const Found other = alone.settle();
    consider(other);
    return take(g, {region, other.members, {}}, other, false, fresh).value_or(std::move(g));
  }

  // Nothing when it turns out not to fit.
  std::optional<rewrite::EditGraph> take(const rewrite::EditGraph& g, const Place& place, const Found& found,
                                         bool repeated, std::set<uint32_t>& fresh) {
    if (place.members.size() != found.members.size()) return std::nullopt;
    if (found.steps.empty()) return g;
    std::map<uint32_t, uint32_t> here;
    for (size_t i = 0; i < place.members.size(); ++i) here[found.members[i]] = place.members[i];
    State state(rules_, g, place.region);
    std::vector<Step> steps;
    for (const Step& original : found.steps) {
      Step step{{}, original.before, original.after, repeated, number_, original.alone};
      for (const Application& application : original.applications) {
        if (!state.repeat(application, here)) return std::nullopt;
        step.applications.push_back(state.made().back());
      }
      steps.push_back(std::move(step));
    }
    for (const Application& m : state.made()) fresh.insert(m.added.begin(), m.added.end());
    outcome_.steps.insert(outcome_.steps.end(), steps.begin(), steps.end());
    return state.graph();
  }

  rewrite::AttrHabitTable habits_;
  const ir::OpTable& table_;
  Rules rules_;
  const bool has_estimate_;
  const Options& options_;
  Judge judge_;
  std::vector<Open> open_;  // as the model has them
  std::map<std::string, Found> known_;
  std::set<std::string> taken_;  // shapes that were improved somewhere
  size_t number_ = 0;            // of the region at hand, over all rounds
  std::mutex telling_;           // of what follows
  Progress progress_;
  Outcome outcome_;
};

}  // namespace

std::vector<Application> applications(const std::vector<Step>& steps) {
  std::vector<Application> all;
  for (const Step& s : steps) all.insert(all.end(), s.applications.begin(), s.applications.end());
  return all;
}

double promised_gain(const ir::Graph& graph, const ir::OpTable& table, const std::vector<const rewrite::Rule*>& rules,
                     const Cost& estimate, const Options& options) {
  return Search(table, rules, estimate, estimate, options).promised(graph);
}

Expected<Outcome> optimise(const ir::Graph& graph, const ir::OpTable& table,
                           const std::vector<const rewrite::Rule*>& rules, const Cost& price, const Cost& estimate,
                           const Options& options) {
  return Search(table, rules, price, estimate, options).run(graph);
}

}  // namespace isomer::search
