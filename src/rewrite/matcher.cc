#include "rewrite/matcher.h"

#include <algorithm>
#include <map>

#include "rewrite/match_state.h"

namespace isomer::rewrite {
namespace {

// Matches of a pattern that are one: the same nodes for the same calls, or in any order where the pattern is symmetric.
// Of the orders that of the text is kept: what is joined lies as the model has it, which may be how it lies already. The inputs
// count too, since a commutative operator may be read in two ways.
class Collector {
 public:
  Collector(const EditGraph& graph, std::vector<Match>& out) : graph_(graph), out_(out) {}

  void add(const Pattern& pattern, Match m) {
    std::vector<uint64_t> key = {m.rule};
    key.insert(key.end(), m.nodes.begin(), m.nodes.end());
    if (pattern.symmetric)
      std::sort(key.begin() + 1, key.end());
    else
      for (const ir::Value& v : m.inputs) key.push_back(uint64_t{v.node} << 32 | v.index);
    const auto [it, fresh] = seen_.emplace(std::move(key), out_.size());
    if (fresh)
      out_.push_back(std::move(m));
    else if (text_order(graph_, m) < text_order(graph_, out_[it->second]))
      out_[it->second] = std::move(m);
  }

  void sort() {
    std::sort(out_.begin(), out_.end(), [](const Match& a, const Match& b) {
      return std::tie(a.rule, a.nodes, a.inputs) < std::tie(b.rule, b.nodes, b.inputs);
    });
  }

 private:
  const EditGraph& graph_;
  std::vector<Match>& out_;
  std::map<std::vector<uint64_t>, size_t> seen_;
};

// The call whose operator is rarest in the graph; nothing when one does not occur.
std::optional<uint32_t> rarest(const Pattern& p, const EditGraph& graph) {
  uint32_t best = 0;
  size_t fewest = SIZE_MAX;
  for (uint32_t c = 0; c < p.calls.size(); ++c) {
    const size_t n = graph.nodes_of(p.calls[c].call->op).size();
    if (n == 0) return std::nullopt;
    if (n < fewest) {
      fewest = n;
      best = c;
    }
  }
  return best;
}

std::vector<uint32_t> sorted_nodes(const EditGraph& graph, const ir::OpDef* op) {
  const auto nodes = graph.nodes_of(op);
  std::vector<uint32_t> out(nodes.begin(), nodes.end());
  std::sort(out.begin(), out.end());
  return out;
}

void match_all(const EditGraph& graph, const Pattern& p, uint32_t rule, Collector& collector) {
  const auto root = rarest(p, graph);
  if (!root) return;
  const MatchState::Emit emit = [&](Match m) { collector.add(p, std::move(m)); };
  MatchState state(graph, p, rule, emit, nullptr);
  for (const uint32_t n : sorted_nodes(graph, p.calls[*root].call->op)) state.from(*root, n);
}

}  // namespace

TextOrder text_order(const EditGraph& graph, const Match& match) {
  TextOrder out;
  for (const uint32_t n : match.nodes) out.emplace_back(graph.key(n), n);
  return out;
}

Matcher::Matcher(std::vector<const Rule*> rules, AttrHabitTable& habits, InnerUses inner) {
  for (const Rule* r : rules) patterns_.push_back(compile(*r, habits));
  if (inner == InnerUses::Keep)
    for (Pattern& p : patterns_)
      for (std::vector<bool>& results : p.mapped) results.assign(results.size(), true);
  for (uint32_t r = 0; r < patterns_.size(); ++r)
    for (uint32_t c = 0; c < patterns_[r].calls.size(); ++c)
      by_op_[patterns_[r].calls[c].call->op->name].emplace_back(r, c);
}

std::vector<Match> Matcher::all(const EditGraph& graph) const {
  std::vector<Match> out;
  Collector collector(graph, out);
  for (uint32_t r = 0; r < patterns_.size(); ++r) match_all(graph, patterns_[r], r, collector);
  collector.sort();
  return out;
}

std::vector<Match> Matcher::all(const EditGraph& graph, uint32_t rule) const {
  std::vector<Match> out;
  Collector collector(graph, out);
  match_all(graph, patterns_[rule], rule, collector);
  collector.sort();
  return out;
}

std::vector<Match> Matcher::around(const EditGraph& graph, std::span<const uint32_t> nodes) const {
  std::vector<Match> out;
  Collector collector(graph, out);
  for (const uint32_t n : nodes) {
    if (!graph.alive(n)) continue;
    const auto it = by_op_.find(graph.node(n).op->name);
    if (it == by_op_.end()) continue;
    for (const auto& [rule, call] : it->second) {
      const Pattern& p = patterns_[rule];
      if (!rarest(p, graph)) continue;
      const MatchState::Emit emit = [&](Match m) { collector.add(p, std::move(m)); };
      MatchState(graph, p, rule, emit, nullptr).from(call, n);
    }
  }
  collector.sort();
  return out;
}

bool Matcher::holds(const EditGraph& graph, const Match& match) const {
  for (const uint32_t n : match.nodes)
    if (n >= graph.slots() || !graph.alive(n)) return false;
  bool found = false;
  const MatchState::Emit emit = [&](const Match& m) { found |= m.nodes == match.nodes && m.inputs == match.inputs; };
  MatchState(graph, patterns_[match.rule], match.rule, emit, nullptr).from(0, match.nodes[0]);
  return found;
}

std::vector<Decline> Matcher::explain(const EditGraph& graph, uint32_t rule, std::optional<uint32_t> node) const {
  std::vector<Decline> out;
  const Pattern& p = patterns_[rule];
  const auto last = static_cast<uint32_t>(p.calls.size() - 1);
  const auto at = [&](uint32_t call, uint32_t n) {
    bool fits = false;
    const MatchState::Emit emit = [&](const Match&) { fits = true; };
    Decline d;
    d.node = n;
    MatchState(graph, p, rule, emit, &d).from(call, n);
    if (!fits && !d.reason.empty()) out.push_back(std::move(d));
    return fits;
  };
  // The place that got furthest says most.
  const auto sort = [&] {
    std::stable_sort(out.begin(), out.end(),
                     [](const Decline& a, const Decline& b) { return a.progress > b.progress; });
  };
  if (!node) {
    for (const uint32_t n : sorted_nodes(graph, p.calls[last].call->op)) at(last, n);
    sort();
    return out;
  }
  for (uint32_t c = 0; c < p.calls.size(); ++c)
    if (graph.node(*node).op == p.calls[c].call->op && at(c, *node)) return {};
  sort();
  if (out.size() > 1) out.resize(1);
  if (out.empty()) out.push_back({*node, 0, 0, "the rule has no " + graph.node(*node).op->name});
  return out;
}

}  // namespace isomer::rewrite
