#include "search/judge.h"

#include <algorithm>
#include <map>

namespace isomer::search {
namespace {

// The end of the time is for judging the graphs that were found: so many seconds, since one look at kernels of 20 ms takes one of
// them, but no less and no more than these parts of the time.
constexpr double kJudgingSeconds = 12, kLeastJudging = 0.1, kMostJudging = 0.25;
constexpr double kLastSeconds = 5;  // for judging after an interrupt
constexpr size_t kMostLosses = 2;   // steps in a row
constexpr size_t kMostAnswers = 1 << 14;
// Of the time of what changes, by the estimate: it may be wrong, but hardly by half. A fifth timed kernels have to confirm, twice, and half
// of that will do: what is estimated is the same every time, and at the same border times would decide.
constexpr double kHalf = 0.5, kFifth = 0.2, kTenth = 0.1;

Region with(Region region, const std::vector<uint32_t>& around) {
  region.add(around);
  return region;
}

std::optional<std::pair<ir::Graph, ir::Graph>> graphs_of(const Node& one, const Node& other,
                                                         const std::vector<uint32_t>& around) {
  auto first = graph_of(one.state.graph(), with(one.state.region(), around));
  auto second = graph_of(other.state.graph(), with(other.state.region(), around));
  if (!first.ok() || !second.ok()) return std::nullopt;
  return std::pair(*std::move(first), *std::move(second));
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

bool is_clear(const Comparison& c) { return -c.seconds > kClearGain * c.changed; }

}  // namespace

Judge::Judge(const Rules& rules, const Cost& price, const Cost& estimate, const Options& options)
    : rules_(rules),
      prices_{price},
      estimates_{estimate},
      options_(options),
      pool_(std::max(1, options.threads), options.quiet) {}

double Judge::looking() const {
  return options_.seconds * (1 - std::clamp(kJudgingSeconds / options_.seconds, kLeastJudging, kMostJudging));
}

size_t Judge::left() const {
  const std::lock_guard lock(mutex_);
  return static_cast<size_t>(std::max<int64_t>(0, options_.steps - static_cast<int64_t>(statistics_.priced)));
}

bool Judge::over() {
  const bool is_late = late(), is = left() == 0 || is_late;
  if (is) incomplete();
  if (is_late) {
    const std::lock_guard lock(mutex_);
    statistics_.in_time = false;
  }
  return is;
}

void Judge::count(size_t Statistics::* what, size_t times) {
  const std::lock_guard lock(mutex_);
  statistics_.*what += times;
}

void Judge::incomplete() {
  const std::lock_guard lock(mutex_);
  statistics_.complete = false;
}

Statistics Judge::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

// Networks repeat their blocks, and rewrites at two places may be made in either order.
std::optional<double> Judge::cost_of(Answers& answers, const rewrite::EditGraph& g, const Region& region) {
  const std::string text = shape_of(g, region);
  {
    const std::lock_guard lock(answers.mutex);
    if (const auto it = answers.known.find(text); it != answers.known.end()) return it->second;
  }
  const auto graph = graph_of(g, region);
  if (!graph.ok()) return std::nullopt;
  const auto value = answers.cost(*graph);
  const auto answer = value.ok() ? std::optional(*value) : std::nullopt;
  const std::lock_guard lock(answers.mutex);
  if (answers.known.size() >= kMostAnswers) answers.known.clear();
  return answers.known.emplace(text, answer).first->second;
}

bool Judge::closed() const {
  if (stopped()) {
    const std::lock_guard lock(mutex_);
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
std::vector<Judge::Difference> Judge::differences(Answers& answers, const std::vector<std::shared_ptr<Node>>& children,
                                                  bool limited) {
  std::map<std::vector<uint32_t>, size_t> places;
  std::vector<const Node*> first;
  std::vector<size_t> place;
  for (const auto& n : children) {
    const auto [it, fresh] = places.try_emplace(n->change.before.nodes(), first.size());
    if (fresh) first.push_back(n.get());
    place.push_back(it->second);
  }
  const auto too_late = [&] { return limited && late(); };
  std::vector<std::optional<double>> before(first.size());
  pool_.run(static_cast<int>(first.size()), [&](int i) {
    const auto k = static_cast<size_t>(i);
    if (!too_late()) before[k] = cost_of(answers, first[k]->parent->state.graph(), first[k]->change.before);
  });
  std::vector<Difference> out(children.size());
  pool_.run(static_cast<int>(children.size()), [&](int i) {
    const auto k = static_cast<size_t>(i);
    out[k].before = before[place[k]];
    if (out[k].before && !too_late())
      out[k].after = cost_of(answers, children[k]->state.graph(), children[k]->change.after);
  });
  return out;
}

size_t Judge::reductions_of(const Node& node) {
  const std::vector<uint32_t> nodes = node.state.region().nodes();
  return static_cast<size_t>(std::count_if(nodes.begin(), nodes.end(), [&](uint32_t n) {
    return node.state.graph().alive(n) && reductions_.at(node.state.graph(), n);
  }));
}

std::vector<std::shared_ptr<Node>> Judge::unseen(const NodeRef& parent, std::unordered_set<Hash128>& seen,
                                                 size_t most) {
  std::vector<std::shared_ptr<Node>> out;
  for (State& s : parent->state.children()) {
    if (s.live_nodes() > most) continue;
    const Hash128 hash = content_hash(s.graph(), s.region());
    if (seen.insert(hash).second)
      out.push_back(std::make_shared<Node>(Node{std::move(s), parent, 0, hash}));
    else
      count(&Statistics::duplicates);
  }
  return out;
}

std::optional<Comparison> Judge::compare_alone(const Compare& compare, const Node& node, int look) const {
  const auto alone = [](const State& state, const std::set<uint32_t>& nodes) {
    return graph_of(state.graph(), Region({nodes.begin(), nodes.end()}));
  };
  const auto was = alone(node.parent->state, node.state.removed()), is = alone(node.state, node.state.added());
  if (!compare || !was.ok() || !is.ok()) return std::nullopt;
  const auto found = compare(*was, *is, look);
  return found.ok() && found->changed > 0 ? std::optional(*found) : std::nullopt;
}

bool Judge::promises_alone(Node& node, size_t equals) {
  count(&Statistics::estimated);
  const auto found = compare_alone(options_.compare, node, 1);
  if (!found) return false;
  node.saves_alone = -found->seconds / found->changed;
  const bool much = -found->seconds * static_cast<double>(equals) >= least_gain;
  return node.saves_alone >= kHalf || (options_.timed && much && node.saves_alone >= kFifth);
}

bool Judge::pays_alone(const Node& node, bool as_few_kernels) const {
  if (as_few_kernels && node.saves_alone >= kHalf) return true;
  const auto confirmed = [&](int look) {
    const auto timed = compare_alone(options_.timed, node, look);
    return timed && -timed->seconds >= kTenth * timed->changed;
  };
  return confirmed(1) && confirmed(2);
}

Judge::Simpler Judge::simpler(const NodeRef& parent, std::unordered_set<Hash128>& seen, size_t most, size_t equals) {
  Simpler out;
  const size_t now = reductions_of(*parent);
  for (auto& n : unseen(parent, seen, most))
    if (const size_t left = reductions_of(*n); left < now || (left == now && promises_alone(*n, equals)))
      out[left].push_back(std::move(n));
  return out;
}

bool Judge::keeps_time(const std::shared_ptr<Node>& node) {
  node->change = change(node->parent->state, node->state);
  if (!estimates_.cost) return true;
  count(&Statistics::estimated);
  const Difference d = differences(estimates_, {node}, false)[0];
  if (d.known()) node->estimated = d.value();
  return d.known() && d.value() <= kLevelLoss * *d.before;
}

std::vector<std::shared_ptr<Node>> Judge::children(const NodeRef& parent, std::unordered_set<Hash128>& seen,
                                                   size_t most, Ledger& ledger) {
  const size_t lost = losses(*parent);
  if (lost > kMostLosses) return {};
  std::vector<std::shared_ptr<Node>> out = unseen(parent, seen, most);
  for (const auto& n : out) n->change = change(parent->state, n->state);
  if (lost > 0) std::erase_if(out, [](const auto& n) { return !may_pay(*n); });
  if (!estimates_.cost) return out;
  const std::vector<Difference> estimates = differences(estimates_, out, false);
  count(&Statistics::estimated, out.size());
  std::vector<std::pair<std::pair<bool, double>, std::shared_ptr<Node>>> kept;
  for (size_t k = 0; k < out.size(); ++k) {
    const double doubt = out[k]->state.leads_on() ? options_.doubt : std::min(options_.doubt, options_.dead_end);
    const bool priced = estimates[k].known() && *estimates[k].after <= doubt * *estimates[k].before;
    if (estimates[k].known())
      ledger.estimated(trail_of(*out[k]), *estimates[k].before, *estimates[k].after, !priced);
    else
      ledger.unpriced(trail_of(*out[k]), WhyNot::NoPrice);
    // Of those that lose, the ones that lose least of what they touch: what they may pay later is a part of that too.
    const double value = priced ? estimates[k].value() : 0;
    out[k]->estimated = value;
    if (priced)
      kept.emplace_back(std::pair(value > 0, value > 0 ? value / *estimates[k].before : value), std::move(out[k]));
    else
      count(&Statistics::refused);
  }
  std::stable_sort(kept.begin(), kept.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  if (kept.size() > options_.width) kept.resize(options_.width);
  out.clear();
  for (auto& [value, n] : kept) out.push_back(std::move(n));
  return out;
}

void Judge::price(std::vector<std::shared_ptr<Node>>& nodes, size_t most, Ledger& ledger) {
  for (size_t k = most; k < nodes.size(); ++k) ledger.unpriced(trail_of(*nodes[k]), WhyNot::NoTime);
  nodes.resize(std::min(nodes.size(), most));
  const std::vector<Difference> costs = differences(prices_, nodes, true);
  count(&Statistics::priced, nodes.size());
  std::vector<std::shared_ptr<Node>> priced;
  for (size_t k = 0; k < nodes.size(); ++k) {
    if (!costs[k].known()) {
      ledger.unpriced(trail_of(*nodes[k]), over() ? WhyNot::NoTime : WhyNot::NoPrice);
      continue;
    }
    nodes[k]->cost = std::max(0.0, nodes[k]->parent->cost + costs[k].value());
    nodes[k]->touched = *costs[k].before;
    ledger.priced(trail_of(*nodes[k]), nodes[k]->cost);
    priced.push_back(std::move(nodes[k]));
  }
  nodes = std::move(priced);
}

std::optional<double> Judge::whole_cost(const Node& node, const std::vector<uint32_t>& around) {
  return cost_of(prices_, node.state.graph(), with(node.state.region(), around));
}

std::optional<double> Judge::whole_estimate(const rewrite::EditGraph& graph, const Region& region) {
  return cost_of(estimates_, graph, with(region, surroundings(graph, region, reductions_)));
}

std::optional<double> Judge::whole_estimate(const ir::Graph& model) {
  if (!estimates_.cost) return std::nullopt;
  const auto value = estimates_.cost(model);
  return value.ok() ? std::optional(*value) : std::nullopt;
}

bool Judge::clearly_better(const Node& one, const Node& other, const std::vector<uint32_t>& around, bool again) const {
  const auto graphs = graphs_of(one, other, around);
  if (!graphs) return false;
  const auto& [before, after] = *graphs;
  if (options_.compare) {
    const auto found = options_.compare(before, after, again ? 2 : 1);
    if (!found.ok()) return false;
    if (!again || found->seconds >= 0 || is_clear(*found)) return is_clear(*found);
    // A gain that is there, and less than is asked for: the noise of one look shall not decide.
    const auto third = options_.compare(before, after, 3);
    return third.ok() && is_clear({found->seconds + third->seconds, found->changed + third->changed});
  }
  const auto was = prices_.cost(before), is = prices_.cost(after);
  return was.ok() && is.ok() && *is < (1 - kSafeGain) * *was;
}

std::optional<int64_t> Judge::level(const Node& one, const Node& other, const std::vector<uint32_t>& around) const {
  const auto graphs = options_.compare ? graphs_of(one, other, around) : std::nullopt;
  if (!graphs) return std::nullopt;
  const auto found = options_.compare(graphs->first, graphs->second, 1);
  if (!found.ok() || found->seconds > kLevelLoss * found->changed) return std::nullopt;
  // A part of a whole that has to be copied to where it is read costs more than an estimate sees: it must save two others.
  const int64_t more = found->kernels + 2 * std::max<int64_t>(0, found->moves);
  return more <= 0 ? std::optional(more) : std::nullopt;
}

bool Judge::pays(const Node& without, const Node& with, const std::vector<uint32_t>& around) {
  if (options_.compare)
    return clearly_better(without, with, around, false) && clearly_better(without, with, around, true);
  const auto was = whole_cost(without, around), is = whole_cost(with, around);
  return was && is && *is < *was;
}

}  // namespace isomer::search
