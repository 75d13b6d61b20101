#include "search/state.h"

#include <algorithm>

namespace isomer::search {
namespace {

constexpr size_t kSingles = 4;  // of the matches that share nodes, how many are also tried one by one
constexpr size_t kMostEdits = 512;

bool before(const rewrite::Match& a, const rewrite::Match& b) {
  return std::tie(a.rule, a.nodes, a.inputs) < std::tie(b.rule, b.nodes, b.inputs);
}

bool any_in(const std::vector<uint32_t>& nodes, const std::set<uint32_t>& set) {
  return std::any_of(nodes.begin(), nodes.end(), [&](uint32_t n) { return set.contains(n); });
}

}  // namespace

Rules::Rules(const std::vector<const rewrite::Rule*>& rules, const ir::OpTable& table, rewrite::AttrHabitTable& habits)
    : matcher_(rules, habits) {
  for (const rewrite::Rule* r : rules) {
    roles_.push_back(role_of(*r, table));
    wraps_.push_back(roles_.back() == Role::Step && search::wraps(*r, table));
  }
}

std::optional<uint32_t> Rules::find(std::string_view name) const {
  for (uint32_t r = 0; r < roles_.size(); ++r)
    if (matcher_.rule(r).name == name) return r;
  return std::nullopt;
}

State::State(const Rules& rules, rewrite::EditGraph graph, Region region)
    : rules_(&rules), graph_(std::move(graph)), region_(std::move(region)) {
  const std::vector<uint32_t> nodes = region_.nodes();
  for (rewrite::Match& m : rules.matcher().around(graph_, nodes))
    if (region_.has(m) && is_live(graph_, m)) matches_.push_back(std::make_shared<const rewrite::Match>(std::move(m)));
}

size_t State::live_nodes() const {
  const std::vector<uint32_t> nodes = region_.nodes();
  return static_cast<size_t>(std::count_if(nodes.begin(), nodes.end(),
                                           [&](uint32_t n) { return graph_.alive(n) && !graph_.constant({n, 0}); }));
}

std::map<std::string, size_t> State::places() const {
  std::map<std::string, size_t> out;
  for (const auto& m : matches_)
    if (rules_->role(m->rule) == Role::Step) ++out[rules_->matcher().rule(m->rule).name];
  return out;
}

bool State::leads_on() const {
  std::set<std::string_view> used;
  for (const Application& a : made_) used.insert(a.rule);
  return std::any_of(matches_.begin(), matches_.end(), [&](const auto& m) {
    return rules_->role(m->rule) == Role::Step && any_in(m->nodes, added_) &&
           !used.contains(rules_->matcher().rule(m->rule).name);
  });
}

void State::refresh(const rewrite::Edit& edit) {
  region_.update(edit);
  const auto in = [](const std::vector<uint32_t>& sorted, uint32_t id) {
    return std::binary_search(sorted.begin(), sorted.end(), id);
  };
  std::erase_if(matches_, [&](const std::shared_ptr<const rewrite::Match>& m) {
    return std::any_of(m->nodes.begin(), m->nodes.end(),
                       [&](uint32_t n) { return in(edit.removed, n) || in(edit.touched, n); });
  });
  for (rewrite::Match& m : rules_->matcher().around(graph_, edit.touched))
    if (region_.has(m) && is_live(graph_, m)) matches_.push_back(std::make_shared<const rewrite::Match>(std::move(m)));
  std::sort(matches_.begin(), matches_.end(), [](const auto& a, const auto& b) { return before(*a, *b); });
}

bool State::apply(const rewrite::Match& match, std::set<uint32_t>& touched) {
  const rewrite::Match m = match;  // the caller's may be among those that go
  if (!rules_->matcher().holds(graph_, m)) return false;
  Application made{rules_->matcher().rule(m.rule).name, m.nodes, m.inputs, {}, {}};
  for (const uint32_t n : m.nodes) made.names.push_back(graph_.node(n).names[0]);
  const auto edit = rewrite::apply(graph_, rules_->matcher().rule(m.rule), m);
  if (!edit.ok()) return false;
  for (const uint32_t n : edit->added)
    if (graph_.node(n).op != &ir::const_op()) made.added.push_back(n);
  for (const uint32_t n : edit->removed)
    if (added_.erase(n) == 0) removed_.insert(n);
  added_.insert(edit->added.begin(), edit->added.end());
  refresh(*edit);
  touched.insert(edit->touched.begin(), edit->touched.end());
  made_.push_back(std::move(made));
  return true;
}

bool State::advance(const rewrite::Match& match) {
  std::set<uint32_t> touched;
  if (!apply(match, touched)) return false;
  for (size_t edits = 0; edits < kMostEdits; ++edits) {
    const auto it = std::find_if(matches_.begin(), matches_.end(), [&](const auto& m) {
      return rules_->role(m->rule) == Role::Tidy && any_in(m->nodes, touched) &&
             tidies(graph_, rules_->matcher().rule(m->rule), *m);
    });
    if (it == matches_.end()) break;
    const std::shared_ptr<const rewrite::Match> m = *it;
    if (!apply(*m, touched)) std::erase(matches_, m);
  }
  return true;
}

bool State::repeat(const Application& application, std::map<uint32_t, uint32_t>& here) {
  std::vector<uint32_t> nodes;
  for (const uint32_t n : application.nodes) {
    const auto it = here.find(n);
    if (it == here.end() || it->second >= graph_.slots() || !graph_.alive(it->second)) return false;
    nodes.push_back(it->second);
  }
  const auto rule = rules_->find(application.rule);
  const std::vector<rewrite::Match> all = rules_->matcher().around(graph_, std::span(nodes.data(), 1));
  const auto match =
      std::find_if(all.begin(), all.end(), [&](const rewrite::Match& m) { return m.rule == rule && m.nodes == nodes; });
  std::set<uint32_t> touched;
  if (match == all.end() || !apply(*match, touched)) return false;
  const std::vector<uint32_t>& added = made_.back().added;
  if (added.size() != application.added.size()) return false;
  for (size_t k = 0; k < added.size(); ++k) here[application.added[k]] = added[k];
  return true;
}

bool State::shrinks(const rewrite::Match& match) const {
  return tidies(graph_, rules_->matcher().rule(match.rule), match);
}

std::vector<State::Group> State::groups(uint32_t rule) const {
  std::vector<Group> out;
  for (const auto& m : matches_) {
    if (m->rule != rule) continue;
    Group joined{{m->nodes.begin(), m->nodes.end()}, {m}};
    std::vector<Group> rest;
    Matches all;
    for (Group& g : out) {
      if (!any_in(m->nodes, g.nodes)) {
        rest.push_back(std::move(g));
        continue;
      }
      joined.nodes.insert(g.nodes.begin(), g.nodes.end());
      all.insert(all.end(), g.matches.begin(), g.matches.end());
    }
    all.push_back(m);
    joined.matches = std::move(all);
    rest.push_back(std::move(joined));
    out = std::move(rest);
  }
  return out;
}

bool State::close(uint32_t rule, const std::vector<Group>& groups) {
  std::map<uint32_t, bool> pool;  // node -> whether what is made of it belongs to the pool too
  for (const Group& g : groups)
    for (const uint32_t n : g.nodes) pool[n] = g.matches.size() > 1;
  std::set<uint32_t> shrunk;  // what is left of more nodes
  const auto fits = [&](const rewrite::Match& m) {
    if (m.rule != rule) return false;
    if (std::all_of(m.nodes.begin(), m.nodes.end(), [&](uint32_t n) { return pool.contains(n); })) return true;
    return any_in(m.nodes, shrunk) && shrinks(m);
  };
  bool changed = false;
  for (size_t edits = 0; edits < kMostEdits; ++edits) {
    // The first in the text: many nodes are joined in their order.
    std::shared_ptr<const rewrite::Match> m;
    for (const auto& other : matches_)
      if (fits(*other) && (!m || rewrite::text_order(graph_, *other) < rewrite::text_order(graph_, *m))) m = other;
    if (!m) break;
    const auto at = pool.find(m->nodes[0]);
    const bool inherit = at != pool.end() && at->second, fewer = shrinks(*m);
    const size_t done = made_.size();
    if (!advance(*m)) {
      std::erase(matches_, m);
      continue;
    }
    changed = true;
    for (size_t k = done; k < made_.size(); ++k)
      for (const uint32_t n : made_[k].added) {
        if (inherit) pool[n] = true;
        if (fewer) shrunk.insert(n);
      }
  }
  return changed;
}

std::vector<State> State::children() const {
  std::vector<State> out;
  std::set<uint32_t> present;
  for (const auto& m : matches_)
    if (rules_->role(m->rule) == Role::Step) present.insert(m->rule);
  for (const uint32_t rule : present) {
    const std::vector<Group> all = groups(rule);
    const auto closed = [&](const std::vector<Group>& some) {
      State child = *this;
      child.forget();
      if (child.close(rule, some)) out.push_back(std::move(child));
    };
    if (all.size() > 1) closed(all);
    for (const Group& g : all) {
      if (g.matches.size() > 1 || shrinks(*g.matches[0])) closed({g});
      for (size_t k = 0; k < g.matches.size() && k < kSingles; ++k) {
        State child = *this;
        child.forget();
        if (child.advance(*g.matches[k])) out.push_back(std::move(child));
      }
    }
  }
  return out;
}

}  // namespace isomer::search
