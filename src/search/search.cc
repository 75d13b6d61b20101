#include "search/search.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <unordered_set>

#include "base/thread_pool.h"
#include "search/node.h"
#include "search/state.h"

namespace isomer::search {
namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

constexpr size_t kMostWaiting = 4096;  // graphs in a queue
// A region's rewrites must gain this share of its price: timings are not better than that, and the cheapest of many
// prices is the one with the luckiest timing.
constexpr double kLeastGain = 0.02;
constexpr size_t kSecondLooks = 2;  // of a region's finalists
constexpr size_t kFinalists = 6;    // graphs of a region that are priced as a whole in the end

// What was found for a region, in a form that an equal region can take over.
struct Found {
  std::vector<Step> steps;
  std::vector<uint32_t> members;  // the region's nodes in order
  std::vector<std::pair<std::string, LeftCase>> left;
  std::map<std::string, size_t> places;
};

class Search {
 public:
  Search(const ir::OpTable& table, const std::vector<const rewrite::Rule*>& rules, const Cost& price,
         const Cost& estimate, const Options& options)
      : habits_(table),
        table_(table),
        rules_(rules, table, habits_),
        price_(price),
        estimate_(estimate),
        options_(options),
        pool_(std::max(1, options.threads)) {}

  Expected<Outcome> run(const ir::Graph& graph) {
    rewrite::EditGraph now(graph, table_, habits_);
    std::set<uint32_t> fresh;
    for (int round = 0; round < options_.rounds && !over(); ++round) {
      std::set<uint32_t> made;
      for (const Region& region : regions(now)) {
        if (round > 0 && !touches(region, fresh)) continue;
        if (over())
          leave(State(rules_, now, region));
        else
          now = improve(std::move(now), region, made);
      }
      if (made.empty()) break;
      fresh = std::move(made);
    }
    ISOMER_TRY(outcome_.graph, now.graph());
    settle(outcome_.considered);
    outcome_.statistics.seconds = since(start_);
    return std::move(outcome_);
  }

 private:
  bool over() {
    const bool is = outcome_.statistics.priced >= static_cast<size_t>(options_.steps) ||
                    since(start_) >= options_.seconds || (options_.stop && options_.stop->load());
    if (is) outcome_.statistics.complete = false;
    return is;
  }

  std::vector<Region> regions(const rewrite::EditGraph& g) {
    const std::vector<rewrite::Match> all = rules_.matcher().all(g);
    std::vector<const rewrite::Match*> steps, wrapping;
    for (const rewrite::Match& m : all) {
      if (rules_.role(m.rule) != Role::Step || !is_live(g, m)) continue;
      steps.push_back(&m);
      if (rules_.wraps(m.rule)) wrapping.push_back(&m);
    }
    std::vector<Region> out = find_regions(g, steps, wrapping, options_.region_nodes, reductions_);
    progress_.regions = out.size();
    progress_.region = 0;
    return out;
  }

  static bool touches(const Region& region, const std::set<uint32_t>& nodes) {
    return std::any_of(nodes.begin(), nodes.end(), [&](uint32_t n) { return region.has(n); });
  }

  // A region for which no time is left.
  void leave(const State& state) {
    for (const auto& [rule, places] : state.places()) add(outcome_.considered, rule, places, LeftCase{});
  }
  void consider(const Found& found) {
    for (const auto& [rule, left] : found.left) {
      const auto at = found.places.find(rule);
      add(outcome_.considered, rule, at == found.places.end() ? 0 : at->second, left);
    }
  }

  // The graph with the best that was found for the region.
  rewrite::EditGraph improve(rewrite::EditGraph g, const Region& wanted, std::set<uint32_t>& fresh) {
    std::vector<uint32_t> living;
    for (const uint32_t n : wanted.nodes())
      if (g.alive(n)) living.push_back(n);
    const Region region(living);
    ++progress_.region;
    ++number_;
    const std::string shape = shape_of(g, region);
    std::vector<uint32_t> members = in_order(g, region);
    if (const auto it = known_.find(shape); it != known_.end()) {
      if (auto again = repeated(g, region, it->second, members, fresh)) {
        ++outcome_.statistics.repeated;
        consider(it->second);
        return *std::move(again);
      }
    }
    ++outcome_.statistics.regions;
    Found found;
    found.members = std::move(members);
    const NodeRef best = best_of(g, region, found);
    consider(found);
    if (!best) {
      known_[shape] = std::move(found);
      return g;
    }
    for (const Node* n = best.get(); n->parent; n = n->parent.get()) {
      Step s{n->state.made(), n->parent->cost, n->cost, false, number_};
      for (const Application& a : s.applications) fresh.insert(a.added.begin(), a.added.end());
      found.steps.push_back(std::move(s));
    }
    std::reverse(found.steps.begin(), found.steps.end());
    outcome_.steps.insert(outcome_.steps.end(), found.steps.begin(), found.steps.end());
    known_[shape] = std::move(found);
    return best->state.graph();
  }

  // What was done in an equal region done in this one; nothing when it turns out not to fit.
  std::optional<rewrite::EditGraph> repeated(const rewrite::EditGraph& g, const Region& region, const Found& found,
                                             const std::vector<uint32_t>& members, std::set<uint32_t>& fresh) {
    if (members.size() != found.members.size()) return std::nullopt;
    std::map<uint32_t, uint32_t> here;
    for (size_t i = 0; i < members.size(); ++i) here[found.members[i]] = members[i];
    State state(rules_, g, region);
    std::vector<Step> steps;
    for (size_t s = 0; s < found.steps.size(); ++s) {
      Step step{{}, found.steps[s].before, found.steps[s].after, true, number_};
      for (size_t a = 0; a < found.steps[s].applications.size(); ++a) {
        const Application& application = found.steps[s].applications[a];
        std::vector<uint32_t> nodes;
        for (const uint32_t n : application.nodes) nodes.push_back(here.contains(n) ? here[n] : UINT32_MAX);
        if (!state.repeat(*rules_.find(application.rule), nodes)) return std::nullopt;
        const Application& made = state.made().back();
        if (made.added.size() != application.added.size()) return std::nullopt;
        for (size_t k = 0; k < made.added.size(); ++k) here[application.added[k]] = made.added[k];
        step.applications.push_back(made);
      }
      steps.push_back(std::move(step));
    }
    for (const Application& m : state.made()) fresh.insert(m.added.begin(), m.added.end());
    outcome_.steps.insert(outcome_.steps.end(), steps.begin(), steps.end());
    return state.graph();
  }

  static std::optional<double> cost_of(const Cost& cost, const rewrite::EditGraph& g, const Region& region) {
    const auto graph = graph_of(g, region);
    if (!graph.ok()) return std::nullopt;
    const auto value = cost(*graph);
    return value.ok() ? std::optional(*value) : std::nullopt;
  }

  Change change(const State& parent, const State& child) {
    std::vector<uint32_t> gone;
    for (const uint32_t n : child.removed())
      if (parent.region().has(n)) gone.push_back(n);
    Region near = with_followers(parent.graph(), gone, reductions_);
    // Most of the region: then all of it, since that is priced anyway.
    if (near.nodes().size() * 2 > parent.region().nodes().size()) near = parent.region();
    Change c{near, near};
    const std::vector<uint32_t> around = surroundings(parent.graph(), near, reductions_);
    c.before.add(around);
    c.after.add(around);
    for (const uint32_t n : child.removed()) c.after.remove(n);
    c.after.add({child.added().begin(), child.added().end()});
    return c;
  }

  struct Difference {
    std::optional<double> before, after;
    bool known() const { return before && after; }
    double value() const { return *after - *before; }
  };
  // How the children of one graph differ from it. Many of them touch the same nodes: what was there before is priced once.
  // With `limited` those for which no time is left are not known.
  std::vector<Difference> differences(const Cost& cost, const std::vector<std::shared_ptr<Node>>& children,
                                      bool limited) {
    std::map<std::vector<uint32_t>, size_t> places;
    std::vector<const Node*> first;
    std::vector<size_t> place;
    for (const auto& n : children) {
      const auto [it, fresh] = places.try_emplace(n->change.before.nodes(), first.size());
      if (fresh) first.push_back(n.get());
      place.push_back(it->second);
    }
    const auto late = [&] {
      return limited && (since(start_) >= options_.seconds || (options_.stop && options_.stop->load()));
    };
    std::vector<std::optional<double>> before(first.size());
    pool_.run(static_cast<int>(first.size()), [&](int i) {
      const auto k = static_cast<size_t>(i);
      if (!late()) before[k] = cost_of(cost, first[k]->parent->state.graph(), first[k]->change.before);
    });
    std::vector<Difference> out(children.size());
    pool_.run(static_cast<int>(children.size()), [&](int i) {
      const auto k = static_cast<size_t>(i);
      out[k].before = before[place[k]];
      if (out[k].before && !late()) out[k].after = cost_of(cost, children[k]->state.graph(), children[k]->change.after);
    });
    return out;
  }

  // New graphs one step away, the most promising first, as many as are to be priced.
  std::vector<std::shared_ptr<Node>> children(const NodeRef& parent, std::unordered_set<Hash128>& seen, size_t most,
                                              Ledger& ledger) {
    std::vector<std::shared_ptr<Node>> out;
    for (State& s : parent->state.children()) {
      if (s.live_nodes() > most) continue;
      const Hash128 hash = content_hash(s.graph(), s.region());
      if (!seen.insert(hash).second) {
        ++outcome_.statistics.duplicates;
        continue;
      }
      out.push_back(std::make_shared<Node>(Node{std::move(s), parent, 0, hash}));
    }
    for (const auto& n : out) n->change = change(parent->state, n->state);
    if (!estimate_) return out;
    const std::vector<Difference> estimates = differences(estimate_, out, false);
    outcome_.statistics.estimated += out.size();
    std::vector<std::pair<double, std::shared_ptr<Node>>> kept;
    for (size_t k = 0; k < out.size(); ++k) {
      const double doubt = out[k]->state.leads_on() ? options_.doubt : std::min(options_.doubt, options_.dead_end);
      const bool priced = estimates[k].known() && *estimates[k].after <= doubt * *estimates[k].before;
      if (estimates[k].known())
        ledger.estimated(trail_of(*out[k]), *estimates[k].before, *estimates[k].after, !priced);
      else
        ledger.unpriced(trail_of(*out[k]), WhyNot::NoPrice);
      if (priced)
        kept.emplace_back(estimates[k].value(), std::move(out[k]));
      else
        ++outcome_.statistics.refused;
    }
    std::stable_sort(kept.begin(), kept.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    if (kept.size() > options_.width) kept.resize(options_.width);
    out.clear();
    for (auto& [value, n] : kept) out.push_back(std::move(n));
    return out;
  }

  // Prices as many as the limits allow; the others go.
  void price(std::vector<std::shared_ptr<Node>>& nodes, size_t& left, Ledger& ledger) {
    for (size_t k = left; k < nodes.size(); ++k) ledger.unpriced(trail_of(*nodes[k]), WhyNot::NoTime);
    nodes.resize(std::min(nodes.size(), left));
    const std::vector<Difference> costs = differences(price_, nodes, true);
    left -= nodes.size();
    outcome_.statistics.priced += nodes.size();
    std::vector<std::shared_ptr<Node>> priced;
    for (size_t k = 0; k < nodes.size(); ++k) {
      if (!costs[k].known()) {
        ledger.unpriced(trail_of(*nodes[k]), over() ? WhyNot::NoTime : WhyNot::NoPrice);
        continue;
      }
      nodes[k]->cost = std::max(0.0, nodes[k]->parent->cost + costs[k].value());
      ledger.priced(trail_of(*nodes[k]), nodes[k]->cost);
      priced.push_back(std::move(nodes[k]));
    }
    nodes = std::move(priced);
  }

  // The cheapest graph, when it is cheaper than the region is now; and what was left.
  NodeRef best_of(const rewrite::EditGraph& g, const Region& region, Found& found) {
    auto root = std::make_shared<Node>(Node{State(rules_, g, region), nullptr, 0, content_hash(g, region)});
    const std::vector<uint32_t> around = surroundings(g, region, reductions_);
    const auto cost = whole_cost(*root, around);
    ++outcome_.statistics.priced;
    found.places = root->state.places();
    Ledger ledger;
    if (!cost) {
      for (const auto& [rule, places] : found.places) ledger.unpriced({{rule, {}}}, WhyNot::NoPrice);
      found.left = ledger.left(0, kLeastGain, {});
      return nullptr;
    }
    root->cost = *cost;
    // Prices of pieces add up nearly: what is taken is the cheapest of the best few when they are priced as a whole.
    std::vector<std::pair<double, NodeRef>> better;
    for (const NodeRef& node : explore(root, ledger)) {
      const auto whole = whole_cost(*node, around);
      if (whole) ledger.priced_whole(trail_of(*node), *whole);
      if (whole && *whole < (1 - kLeastGain) * root->cost) better.emplace_back(*whole, node);
    }
    std::stable_sort(better.begin(), better.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    NodeRef taken;
    for (size_t k = 0; k < std::min(better.size(), kSecondLooks) && !taken; ++k) {
      if (holds(*root, *better[k].second, around))
        taken = better[k].second;
      else
        ledger.unconfirmed(trail_of(*better[k].second));
    }
    for (const auto& [rule, places] : found.places)
      if (!ledger.knows(rule) && over()) ledger.unpriced({{rule, {}}}, WhyNot::NoTime);
    found.left = ledger.left(root->cost, kLeastGain, taken ? trail_of(*taken) : Trail{});
    return taken;
  }

  static Expected<ir::Graph> whole_graph(const Node& node, const std::vector<uint32_t>& around) {
    Region whole = node.state.region();
    whole.add(around);
    return graph_of(node.state.graph(), whole);
  }
  std::optional<double> whole_cost(const Node& node, const std::vector<uint32_t>& around) {
    const auto graph = whole_graph(node, around);
    if (!graph.ok()) return std::nullopt;
    const auto value = price_(*graph);
    return value.ok() ? std::optional(*value) : std::nullopt;
  }
  // Whether a second look finds the gain too.
  bool holds(const Node& root, const Node& node, const std::vector<uint32_t>& around) {
    if (!options_.second_look) return true;
    const auto before = whole_graph(root, around), after = whole_graph(node, around);
    if (!before.ok() || !after.ok()) return false;
    const auto difference = options_.second_look(*before, *after);
    return difference.ok() && *difference < -kLeastGain * root.cost;
  }

  // The cheapest few of the graphs that are cheaper than the root.
  ByCost explore(const NodeRef& root, Ledger& ledger) {
    const double before = progress_.before, best_before = progress_.best;
    NodeRef best = root;
    ByCost queue, finalists;
    std::unordered_set<Hash128> seen = {root->hash};
    const size_t most = 2 * root->state.live_nodes() + 16;
    const bool greedy = options_.strategy == Strategy::Greedy;
    const double alpha = greedy ? 1 : options_.alpha;
    auto left = static_cast<size_t>(
        std::max<int64_t>(0, std::min(options_.region_steps, options_.steps - int64_t(outcome_.statistics.priced))));
    queue.insert(root);
    while (!queue.empty() && !over() && left > 0) {
      const NodeRef node = *queue.begin();
      queue.erase(queue.begin());
      if (node->cost > alpha * best->cost) break;
      ++outcome_.statistics.expanded;
      std::vector<std::shared_ptr<Node>> nodes = children(node, seen, most, ledger);
      price(nodes, left, ledger);
      for (const std::shared_ptr<Node>& child : nodes) {
        if (child->cost < best->cost) best = child;
        if (child->cost < root->cost) finalists.insert(child);
        if (child->cost < alpha * best->cost || child->cost < node->cost) queue.insert(child);
      }
      if (greedy && !queue.empty()) {
        const NodeRef first = *queue.begin();
        queue.clear();
        if (first->cost < node->cost) queue.insert(first);
      }
      while (queue.size() > kMostWaiting) queue.erase(std::prev(queue.end()));
      while (finalists.size() > kFinalists) finalists.erase(std::prev(finalists.end()));
      progress_.before = before + root->cost;
      progress_.best = best_before + best->cost;
      progress_.priced = outcome_.statistics.priced;
      if (options_.progress) options_.progress(progress_);
    }
    if (left == 0) outcome_.statistics.complete = false;
    progress_.before = before + root->cost;
    progress_.best = best_before + best->cost;
    return finalists;
  }

  rewrite::AttrHabitTable habits_;
  const ir::OpTable& table_;
  Rules rules_;
  Reductions reductions_;
  const Cost& price_;
  const Cost& estimate_;
  const Options& options_;
  ThreadPool pool_;
  const Clock::time_point start_ = Clock::now();
  std::map<std::string, Found> known_;
  size_t number_ = 0;  // of the region at hand, over all rounds
  Progress progress_;
  Outcome outcome_;
};

}  // namespace

Expected<Outcome> optimise(const ir::Graph& graph, const ir::OpTable& table,
                           const std::vector<const rewrite::Rule*>& rules, const Cost& price, const Cost& estimate,
                           const Options& options) {
  return Search(table, rules, price, estimate, options).run(graph);
}

}  // namespace isomer::search
