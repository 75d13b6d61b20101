#include "rewrite/derive.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "rewrite/apply.h"
#include "rewrite/instantiate.h"

namespace isomer::rewrite {
namespace {

size_t steps_of(const EditGraph& g) {
  size_t count = 0;
  for (uint32_t id = 0; id < g.slots(); ++id) count += g.alive(id) && !g.node(id).inputs.empty();
  return count;
}

// The rule the other way round; nothing when its pattern would not say all that its replacement needs.
std::optional<Rule> reversed(const Rule& rule, const ir::OpTable& table) {
  Rule turned = rule;
  std::swap(turned.lhs, turned.rhs);
  auto parsed = parse_rules(print(turned, false), table);
  if (!parsed.ok() || parsed->size() != 1) return std::nullopt;
  return std::move(parsed->front());
}

// Graphs that are reached from one end, level by level.
class Reach {
 public:
  Reach(const ir::Graph& start, const Matcher& matcher, const ir::OpTable& table, AttrHabitTable& habits)
      : matcher_(matcher) {
    found_.push_back({EditGraph(start, table, habits), 0, 0});
    index_.emplace(term_hash(found_[0].graph), 0);
  }

  struct Found {
    EditGraph graph;
    size_t parent;
    uint32_t rule;
  };
  const Found& at(size_t i) const { return found_[i]; }
  size_t size() const { return found_.size(); }
  size_t steps() const { return steps_of(found_[0].graph); }

  // One more step from everything that the last one reached. True when a graph of `other` is among what is there then.
  bool grow(const Reach& other, size_t largest, size_t limit) {
    const size_t end = found_.size();
    for (size_t i = level_; i < end; ++i) {
      const std::vector<Match> matches = matcher_.all(found_[i].graph);
      for (const Match& m : matches) {
        if (found_.size() >= limit) break;
        EditGraph next = found_[i].graph;
        if (!apply(next, matcher_.rule(m.rule), m).ok() || steps_of(next) > largest) continue;
        const Hash128 h = term_hash(next);
        if (!index_.emplace(h, found_.size()).second) continue;
        found_.push_back({std::move(next), i, m.rule});
        if (other.index_.contains(h)) {
          level_ = end;
          return true;
        }
      }
    }
    level_ = end;
    return false;
  }

  // The first graph that both have.
  std::optional<std::pair<size_t, size_t>> meeting(const Reach& other) const {
    for (size_t i = 0; i < found_.size(); ++i)
      if (const auto it = other.index_.find(term_hash(found_[i].graph)); it != other.index_.end())
        return std::pair(i, it->second);
    return std::nullopt;
  }
  std::vector<uint32_t> way(size_t i) const {
    std::vector<uint32_t> rules;
    for (; i > 0; i = found_[i].parent) rules.push_back(found_[i].rule);
    std::reverse(rules.begin(), rules.end());
    return rules;
  }

 private:
  const Matcher& matcher_;
  std::vector<Found> found_;
  std::unordered_map<Hash128, size_t> index_;
  size_t level_ = 0;
};

}  // namespace

Hash128 term_hash(const EditGraph& graph) {
  std::unordered_map<uint32_t, Hash128> known;
  const auto of = [&](auto& self, uint32_t id) -> Hash128 {
    if (const auto it = known.find(id); it != known.end()) return it->second;
    const ir::Node& n = graph.node(id);
    Hasher h;
    h.add(n.op->name);
    if (n.inputs.empty() && !graph.contents({id, 0})) h.add(id);  // an input: copies of a graph keep its number
    h.add(graph.attrs(id).hash());
    std::vector<Hash128> operands;
    for (const ir::Value& v : n.inputs)
      operands.push_back(v.is_none() ? Hash128{} : Hasher().add(self(self, v.node)).add(v.index).digest());
    if (operands.size() == 2 && commutative(*n.op)) std::sort(operands.begin(), operands.end());
    for (const Hash128& o : operands) h.add(o);
    return known[id] = h.digest();
  };
  Hasher h;
  for (const ir::Output& o : graph.outputs()) h.add(of(of, o.value.node)).add(o.value.index);
  return h.digest();
}

Deriver::Deriver(const std::vector<Rule>& rules, const ir::OpTable& table) : table_(table), habits_(table) {
  for (const Rule& r : rules) add(r);
}

void Deriver::add(Rule rule) {
  for (Input& i : rule.inputs)
    if (i.content == Content::Constant) i.content = Content::Any;
  auto back = reversed(rule, table_);
  rules_.push_back(std::move(rule));
  backwards_.push_back(false);
  if (!back) return;
  rules_.push_back(*std::move(back));
  backwards_.push_back(true);
}

std::vector<uint32_t> Deriver::usable(const ir::Graph& from, const ir::Graph& to) const {
  std::set<std::string> known = {"concat", "split"};
  for (const ir::Graph* g : {&from, &to})
    for (const ir::Node& n : g->nodes()) known.insert(n.op->name);
  std::vector<uint32_t> out;
  for (uint32_t i = 0; i < rules_.size(); ++i) {
    bool fits = true;
    for (const Side* side : {&rules_[i].lhs, &rules_[i].rhs})
      for (const Call& c : side->calls) fits &= known.contains(c.op->name);
    if (fits) out.push_back(i);
  }
  return out;
}

std::optional<Deriver::Way> Deriver::derive(const ir::Graph& from, const ir::Graph& to,
                                            const DeriveLimits& limits) const {
  const std::vector<uint32_t> places = usable(from, to);
  std::vector<const Rule*> chosen;
  for (const uint32_t i : places) chosen.push_back(&rules_[i]);
  const Matcher matcher(std::move(chosen), habits_, InnerUses::Keep);
  Reach left(from, matcher, table_, habits_), right(to, matcher, table_, habits_);
  const size_t largest = std::max(left.steps(), right.steps()) + limits.growth;
  bool met = left.meeting(right).has_value();
  for (int step = 0; step < limits.steps && !met; ++step)
    met = step % 2 ? right.grow(left, largest, limits.graphs) : left.grow(right, largest, limits.graphs);
  if (!met) return std::nullopt;
  const auto [l, r] = *left.meeting(right);
  Way way;
  const auto say = [&](uint32_t place, bool turned) {
    const uint32_t rule = places[place];
    way.push_back(rules_[rule].name + (backwards_[rule] != turned ? " backwards" : ""));
  };
  for (const uint32_t rule : left.way(l)) say(rule, false);
  std::vector<uint32_t> rest = right.way(r);
  for (size_t i = rest.size(); i-- > 0;) say(rest[i], true);
  return way;
}

std::optional<Deriver::Way> Deriver::derive(const Rule& rule, const DeriveLimits& limits) const {
  Way longest;
  for (const Bindings& c : cases(rule)) {
    Random random(7);
    std::optional<Instance> instance;
    // Large sizes are seldom equal by chance, and nothing is computed here.
    for (const int64_t spread : {40, 40, 12, 12, 4, 4}) {
      const auto sizes = sample(rule, c, random, spread);
      if (!sizes) continue;
      auto made = instantiate(rule, *sizes, table_);
      if (made.ok()) {
        instance = *std::move(made);
        break;
      }
    }
    if (!instance) return std::nullopt;
    auto way = derive(instance->lhs, instance->rhs, limits);
    if (!way) return std::nullopt;
    if (way->size() > longest.size()) longest = *std::move(way);
  }
  return longest;
}

}  // namespace isomer::rewrite
