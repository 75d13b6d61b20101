// State: a graph in a search, with the matches of its region kept up to date from edit to edit. Copies share nodes and
// matches. `children` are the graphs that one step leads to.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "rewrite/apply.h"
#include "search/region.h"
#include "search/role.h"
#include "search/search.h"

namespace isomer::search {

// The rules of a search, each with its role.
class Rules {
 public:
  Rules(const std::vector<const rewrite::Rule*>& rules, const ir::OpTable& table, rewrite::AttrHabitTable& habits);
  const rewrite::Matcher& matcher() const { return matcher_; }
  Role role(uint32_t rule) const { return roles_[rule]; }
  bool wraps(uint32_t rule) const { return wraps_[rule]; }
  std::optional<uint32_t> find(std::string_view name) const;

 private:
  rewrite::Matcher matcher_;
  std::vector<Role> roles_;
  std::vector<bool> wraps_;
};

class State {
 public:
  State(const Rules& rules, rewrite::EditGraph graph, Region region);

  const rewrite::EditGraph& graph() const { return graph_; }
  const Region& region() const { return region_; }
  // Since forget(): the applications, and the nodes that went and came, constants included.
  const std::vector<Application>& made() const { return made_; }
  const std::set<uint32_t>& removed() const { return removed_; }
  const std::set<uint32_t>& added() const { return added_; }
  void forget() {
    made_.clear();
    removed_.clear();
    added_.clear();
  }
  size_t live_nodes() const;  // of the region
  // How often each rule that is a step fits, by its name.
  std::map<std::string, size_t> places() const;
  // Whether steps by other rules than those that were applied begin at what was made.
  bool leads_on() const;

  // All graphs that one step leads to: a rule at one place, at all places that share nodes, or everywhere.
  std::vector<State> children() const;
  // Applies a match, and then what tidies up where it changed something. False when the match does not hold any more.
  bool advance(const rewrite::Match& match);
  // An application that was made elsewhere, without tidying. `here` tells which node stands for which, and learns what is made.
  // False when it does not fit.
  bool repeat(const Application& application, std::map<uint32_t, uint32_t>& here);

 private:
  using Matches = std::vector<std::shared_ptr<const rewrite::Match>>;
  struct Group {
    std::set<uint32_t> nodes;
    Matches matches;
  };
  bool apply(const rewrite::Match& match, std::set<uint32_t>& touched);
  void refresh(const rewrite::Edit& edit);
  std::vector<Group> groups(uint32_t rule) const;
  // Whether a match leaves fewer nodes to compute, so that applying its rule again and again comes to an end.
  bool shrinks(const rewrite::Match& match) const;
  // The rule applied at the groups' nodes as often as it fits, and at what it made of a group of several matches; where it
  // shrinks, also at what it made together with nodes beside it: sums of many branches become one at once.
  bool close(uint32_t rule, const std::vector<Group>& groups);

  const Rules* rules_;
  rewrite::EditGraph graph_;
  Region region_;
  Matches matches_;
  std::vector<Application> made_;
  std::set<uint32_t> removed_, added_;
};

}  // namespace isomer::search
