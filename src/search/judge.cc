#include "search/judge.h"

#include <algorithm>
#include <map>

namespace isomer::search {
namespace {

constexpr double kLooking = 0.9;    // of the time, for finding graphs; the rest is for judging them
constexpr double kLastSeconds = 5;  // for judging after an interrupt
constexpr size_t kMostLosses = 2;   // steps in a row

std::optional<double> cost_of(const Cost& cost, const rewrite::EditGraph& g, const Region& region) {
  const auto graph = graph_of(g, region);
  if (!graph.ok()) return std::nullopt;
  const auto value = cost(*graph);
  return value.ok() ? std::optional(*value) : std::nullopt;
}

Region with(Region region, const std::vector<uint32_t>& around) {
  region.add(around);
  return region;
}

// The last steps that lost, in a row.
size_t losses(const Node& node) {
  size_t count = 0;
  for (const Node* n = &node; n->parent && n->cost > n->parent->cost; n = n->parent.get()) ++count;
  return count;
}

// Whether a step may win back what the one before it lost: what it changes is priced together with what that one made, and it is a step
// of the same rule or joins several nodes. All others differ from their parent by what they differ from its parent: from
// there they lead to the same gains, and steps that lose a little, in every order, would take the time of all the others.
bool may_pay(const Node& node) {
  const State& before = node.parent->state;
  const std::vector<uint32_t>& near = node.change.before.nodes();
  const bool together = std::any_of(near.begin(), near.end(), [&](uint32_t n) { return before.added().contains(n); });
  const Application& step = node.state.made()[0];
  return together && (step.nodes.size() > 1 || step.rule == before.made()[0].rule);
}

}  // namespace

Judge::Judge(const Rules& rules, const Cost& price, const Cost& estimate, const Options& options)
    : rules_(rules), price_(price), estimate_(estimate), options_(options), pool_(std::max(1, options.threads)) {}

double Judge::looking() const { return kLooking * options_.seconds; }

bool Judge::over() {
  const bool is = statistics.priced >= static_cast<size_t>(options_.steps) || seconds() >= looking() || stopped();
  if (is) statistics.complete = false;
  return is;
}

bool Judge::closed() const {
  if (stopped()) {
    if (!stop_) stop_ = Clock::now();
    return std::chrono::duration<double>(Clock::now() - *stop_).count() > kLastSeconds;
  }
  return seconds() >= options_.seconds;
}

Change Judge::change(const State& parent, const State& child) {
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

// How the children of one graph differ from it. Many of them touch the same nodes: what was there before is priced once.
// With `limited` those for which no time is left are not known.
std::vector<Judge::Difference> Judge::differences(const Cost& cost, const std::vector<std::shared_ptr<Node>>& children,
                                                  bool limited) {
  std::map<std::vector<uint32_t>, size_t> places;
  std::vector<const Node*> first;
  std::vector<size_t> place;
  for (const auto& n : children) {
    const auto [it, fresh] = places.try_emplace(n->change.before.nodes(), first.size());
    if (fresh) first.push_back(n.get());
    place.push_back(it->second);
  }
  const auto late = [&] { return limited && (seconds() >= looking() || stopped()); };
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

std::vector<std::shared_ptr<Node>> Judge::children(const NodeRef& parent, std::unordered_set<Hash128>& seen,
                                                   size_t most, Ledger& ledger) {
  std::vector<std::shared_ptr<Node>> out;
  const size_t lost = losses(*parent);
  if (lost > kMostLosses) return out;
  for (State& s : parent->state.children()) {
    if (s.live_nodes() > most) continue;
    const Hash128 hash = content_hash(s.graph(), s.region());
    if (!seen.insert(hash).second) {
      ++statistics.duplicates;
      continue;
    }
    out.push_back(std::make_shared<Node>(Node{std::move(s), parent, 0, hash}));
  }
  for (const auto& n : out) n->change = change(parent->state, n->state);
  if (lost > 0) std::erase_if(out, [](const auto& n) { return !may_pay(*n); });
  if (!estimate_) return out;
  const std::vector<Difference> estimates = differences(estimate_, out, false);
  statistics.estimated += out.size();
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
      ++statistics.refused;
  }
  std::stable_sort(kept.begin(), kept.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  if (kept.size() > options_.width) kept.resize(options_.width);
  out.clear();
  for (auto& [value, n] : kept) out.push_back(std::move(n));
  return out;
}

void Judge::price(std::vector<std::shared_ptr<Node>>& nodes, size_t& left, Ledger& ledger) {
  for (size_t k = left; k < nodes.size(); ++k) ledger.unpriced(trail_of(*nodes[k]), WhyNot::NoTime);
  nodes.resize(std::min(nodes.size(), left));
  const std::vector<Difference> costs = differences(price_, nodes, true);
  left -= nodes.size();
  statistics.priced += nodes.size();
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

std::optional<double> Judge::whole_cost(const Node& node, const std::vector<uint32_t>& around) const {
  return cost_of(price_, node.state.graph(), with(node.state.region(), around));
}

std::optional<double> Judge::whole_estimate(const rewrite::EditGraph& graph, const Region& region) {
  return cost_of(estimate_, graph, with(region, surroundings(graph, region, reductions_)));
}

bool Judge::clearly_better(const Node& one, const Node& other, const std::vector<uint32_t>& around, bool again) const {
  const auto before = graph_of(one.state.graph(), with(one.state.region(), around));
  const auto after = graph_of(other.state.graph(), with(other.state.region(), around));
  if (!before.ok() || !after.ok()) return false;
  if (options_.compare) {
    const auto found = options_.compare(*before, *after, again);
    return found.ok() && -found->seconds > kClearGain * found->changed;
  }
  const auto was = price_(*before), is = price_(*after);
  return was.ok() && is.ok() && *is < (1 - kSafeGain) * *was;
}

}  // namespace isomer::search
