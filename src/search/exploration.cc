#include "search/exploration.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace isomer::search {
namespace {

constexpr size_t kMostWaiting = 4096;  // graphs in a queue
constexpr size_t kMostCheaper = 64;    // graphs that are kept for the end
constexpr size_t kFinalists = 6;       // of these, priced as a whole
constexpr size_t kSecondLooks = 2;     // and timed once more
constexpr double kDoubtful = 0.1;      // of what a step touched: with less of a gain it may not pay at all
constexpr double kProgress = 0.01;     // of the region's price: less is no gain of a turn

size_t applications(const Node& node) {
  size_t count = 0;
  for (const Node* n = &node; n->parent; n = n->parent.get()) count += n->state.made().size();
  return count;
}

double gain(const Node& step) { return step.parent->cost - step.cost; }

// From the root on.
std::vector<const Node*> path_to(const Node& node) {
  std::vector<const Node*> out;
  for (const Node* n = &node; n->parent; n = n->parent.get()) out.push_back(n);
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace

Exploration::Exploration(Judge& judge, rewrite::EditGraph graph, Region region)
    : judge_(judge), graph_(std::move(graph)), region_(std::move(region)) {
  members_ = in_order(graph_, region_);
}

void Exploration::weigh() {
  weight_ = judge_.whole_estimate(graph_, region_).value_or(0);
  look();
}

void Exploration::look() {
  root_ = std::make_shared<Node>(Node{State(judge_.rules(), graph_, region_), nullptr, 0, {}});
  root_->hash = content_hash(graph_, region_);
  around_ = surroundings(graph_, region_, judge_.reductions());
  places_ = root_->state.places();
  seen_ = {root_->hash};
  most_ = 2 * root_->state.live_nodes() + 16;
  left_ = static_cast<size_t>(std::max<int64_t>(0, judge_.options().region_steps));
  if (judge_.options().simplify)
    simpler_ = judge_.simpler(root_, seen_, most_, equals);
  else
    first_ = children(root_);
  for (const auto& n : first_) promise_ = std::max(promise_, -n->estimated);
}

void Exploration::begin(size_t most) {
  if (!root_) look();
  best_ = root_;
  if (first_.empty() && simpler_.empty()) {  // nothing to compare it with
    ended_ = true;
    return;
  }
  const auto cost = judge_.whole_cost(*root_, around_);
  judge_.count(&Statistics::priced);
  priceless_ = ended_ = !cost;
  if (!cost) return;
  root_->cost = mark_ = *cost;
  if (judge_.options().simplify) return join(std::exchange(simpler_, {}));
  follow(root_, std::move(first_), most - std::min<size_t>(most, 1));
}

void Exploration::turn(size_t most) {
  if (!begun()) return begin(most);
  if (judge_.options().simplify) return join(judge_.simpler(best_, seen_, most_, equals));
  const NodeRef node = *queue_.begin();
  queue_.erase(queue_.begin());
  follow(node, children(node), most);
}

std::vector<std::shared_ptr<Node>> Exploration::children(const NodeRef& node) {
  judge_.count(&Statistics::expanded);
  return judge_.children(node, seen_, most_, ledger_);
}

void Exploration::follow(const NodeRef& node, std::vector<std::shared_ptr<Node>> nodes, size_t most) {
  const bool greedy = judge_.options().strategy == Strategy::Greedy;
  const double alpha = greedy ? 1 : judge_.options().alpha;
  const size_t priced = std::min({left_, most, nodes.size()});
  judge_.price(nodes, priced, ledger_);
  left_ -= priced;
  for (const std::shared_ptr<Node>& child : nodes) {
    if (child->cost < best_->cost) best_ = child;
    if (child->cost < root_->cost) cheaper_.insert(child);
    if (child->cost < alpha * best_->cost || child->cost < node->cost) queue_.insert(child);
  }
  if (greedy && !queue_.empty()) {
    const NodeRef first = *std::min_element(queue_.begin(), queue_.end(), Cheaper());
    queue_.clear();
    if (first->cost < node->cost) queue_.insert(first);
  }
  std::erase_if(queue_, [&](const NodeRef& n) { return n->cost > alpha * best_->cost; });
  while (queue_.size() > kMostWaiting) queue_.erase(std::prev(queue_.end()));
  while (cheaper_.size() > kMostCheaper) cheaper_.erase(std::prev(cheaper_.end()));
  ++idle_;
  if (best_->cost < mark_ - kProgress * root_->cost) {
    mark_ = best_->cost;
    idle_ = 0;
  }
  if (left_ == 0) judge_.incomplete();
  ended_ = left_ == 0 || queue_.empty() || idle_ >= judge_.options().patience;
}

double Exploration::urgency() const {
  const double share = begun() ? root_->cost : weight_;
  return static_cast<double>(equals) * share / static_cast<double>(1 + idle_);
}

// The cheapest few, the simplest first: noise must not choose among those that are level.
std::vector<NodeRef> Exploration::finalists() const {
  std::vector<NodeRef> out(cheaper_.begin(), cheaper_.end());
  if (out.size() > kFinalists) out.resize(kFinalists);
  std::sort(out.begin(), out.end(), [](const NodeRef& a, const NodeRef& b) {
    return std::pair(applications(*a), a->hash) < std::pair(applications(*b), b->hash);
  });
  return out;
}

// Prices of pieces add up nearly: the best few are priced as a whole. More rewrites must be clearly better than fewer.
NodeRef Exploration::taken() {
  std::vector<NodeRef> better;
  for (const NodeRef& node : finalists()) {
    if (judge_.closed()) {
      if (better.empty()) ledger_.unclear(trail_of(*node), WhyNot::NoTime);
      continue;
    }
    const auto whole = judge_.whole_cost(*node, around_);
    if (!whole) {
      if (better.empty() && judge_.closed()) ledger_.unclear(trail_of(*node), WhyNot::NoTime);
      continue;
    }
    ledger_.priced_whole(trail_of(*node), *whole);
    const bool worth = (root_->cost - *whole) * static_cast<double>(equals) >= judge_.least_gain;
    if (worth && judge_.clearly_better(better.empty() ? *root_ : *better.back(), *node, around_, false))
      better.push_back(node);
    else if (better.empty())
      ledger_.unclear(trail_of(*node), WhyNot::Small);
  }
  NodeRef taken;
  for (size_t looks = 0; looks < kSecondLooks && !better.empty() && !taken && !judge_.closed(); ++looks) {
    if (judge_.clearly_better(*root_, *better.back(), around_, true))
      taken = better.back();
    else
      ledger_.unclear(trail_of(*better.back()), judge_.closed() ? WhyNot::NoTime : WhyNot::Unsure);
    better.pop_back();
  }
  return taken;
}

void Exploration::join(const Judge::Simpler& simpler) {
  ended_ = true;
  for (const auto& [reductions, nodes] : simpler) {
    const bool joins = reductions < judge_.reductions_of(*best_);
    struct Choice {
      double cost;  // kernels more, or seconds by the estimate
      bool as_few_kernels;
      std::shared_ptr<Node> node;
    };
    std::vector<Choice> choices;
    for (const std::shared_ptr<Node>& n : nodes) {
      if (left_ == 0 || judge_.over()) return judge_.incomplete();
      --left_;
      if (!judge_.keeps_time(n)) continue;
      const std::optional<int64_t> more = judge_.level(*root_, *n, around_);
      if (joins ? more.has_value() : n->estimated < 0)
        choices.push_back({joins ? static_cast<double>(*more) : n->estimated, more.has_value(), n});
    }
    std::stable_sort(choices.begin(), choices.end(), [](const Choice& a, const Choice& b) { return a.cost < b.cost; });
    const auto best = std::find_if(choices.begin(), choices.end(), [&](const Choice& c) {
      return joins || judge_.pays_alone(*c.node, c.as_few_kernels);
    });
    if (best == choices.end()) continue;
    std::vector<std::shared_ptr<Node>> taken = {std::move(best->node)};
    judge_.price(taken, 1, ledger_);
    if (taken.empty()) continue;
    best_ = std::move(taken[0]);
    ended_ = false;
    return;
  }
}

// The steps again from the root on, but one. Nothing where later ones build on it. Costs are those that the steps had, or new.
NodeRef Exploration::without(const std::vector<const Node*>& path, size_t step, bool priced) const {
  std::map<uint32_t, uint32_t> here;
  for (const uint32_t n : members_) here[n] = n;
  NodeRef at = root_;
  for (size_t i = 0; i < path.size(); ++i) {
    if (i == step) continue;
    State next = at->state;
    next.forget();
    for (const Application& a : path[i]->state.made())
      if (!next.repeat(a, here)) return nullptr;
    auto node = std::make_shared<Node>(Node{std::move(next), at, at->cost - gain(*path[i]), {}});
    node->touched = path[i]->touched;
    if (priced) node->cost = judge_.whole_cost(*node, around_).value_or(node->cost);
    at = std::move(node);
  }
  return at;
}

NodeRef Exploration::needed(const NodeRef& node) {
  NodeRef now = node;
  // In the order of the model, whatever the order in which they were found.
  const auto place = [](const Node* n) { return n->state.made()[0].nodes; };
  std::set<std::vector<uint32_t>> tried;
  for (std::vector<const Node*> path = path_to(*now); path.size() > 1 && !judge_.closed(); path = path_to(*now)) {
    size_t last = path.size();
    for (size_t i = 0; i < path.size(); ++i) {
      const bool doubtful = gain(*path[i]) < kDoubtful * path[i]->touched && !tried.contains(place(path[i]));
      if (doubtful && (last == path.size() || place(path[i]) > place(path[last]))) last = i;
    }
    if (last == path.size()) break;
    tried.insert(place(path[last]));
    const NodeRef fewer = without(path, last, false);
    if (fewer && !judge_.pays(*fewer, *now, around_)) now = fewer;
  }
  if (now == node || !judge_.pays(*root_, *now, around_)) return node;
  const NodeRef priced = without(path_to(*now), SIZE_MAX, true);
  return priced ? priced : node;
}

bool Exploration::joins_nothing(const Node& step) const {
  return judge_.options().simplify && judge_.reductions_of(step) == judge_.reductions_of(*step.parent);
}

Found Exploration::settle() {
  Found found;
  found.members = members_;
  found.equals = equals;
  found.places = root_ ? places_ : State(judge_.rules(), graph_, region_).places();
  if (!root_) {
    for (const auto& [rule, places] : found.places) found.left.emplace_back(rule, LeftCase{});
    return found;
  }
  if (!begun()) {
    for (const auto& n : first_) ledger_.unpriced(trail_of(*n), WhyNot::NoTime);
    for (const auto& [rule, places] : found.places)
      if (!ledger_.knows(rule)) ledger_.unpriced({{rule, {}}}, WhyNot::NoTime);
    found.left = ledger_.left(0, {});
  } else if (priceless_) {
    for (const auto& [rule, places] : found.places) ledger_.unpriced({{rule, {}}}, WhyNot::NoPrice);
    found.left = ledger_.left(0, {});
  } else {
    if (!ended_)
      for (const auto& [rule, places] : found.places)
        if (!ledger_.knows(rule)) ledger_.unpriced({{rule, {}}}, WhyNot::NoTime);
    NodeRef best = judge_.options().simplify ? best_ : taken();
    if (best && !judge_.options().simplify) best = needed(best);
    found.left = ledger_.left(root_->cost, best ? trail_of(*best) : Trail{});
    for (const Node* n = best.get(); n && n->parent; n = n->parent.get())
      found.steps.push_back({n->state.made(), n->parent->cost, n->cost, false, 0, joins_nothing(*n)});
    std::reverse(found.steps.begin(), found.steps.end());
  }
  queue_.clear();
  cheaper_.clear();
  seen_.clear();
  return found;
}

}  // namespace isomer::search
