// Deriver: whether one graph becomes another by a few rewrites, found by the matcher that a search uses, from both ends.
//
// A step is a rule in either direction, where the other direction is a rule too: what is asked is whether an equation
// follows from others. For the same reason `constant(?w)` is not asked: it says where a rewrite pays, not where it holds.
// Rules with an operator that neither end has are not tried, but for concat and split.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rewrite/matcher.h"

namespace isomer::rewrite {

struct DeriveLimits {
  int steps = 4;
  size_t graphs = 400;  // from each end
  size_t growth = 1;    // nodes that a graph on the way may have beyond the larger end
};

class Deriver {
 public:
  Deriver(const std::vector<Rule>& rules, const ir::OpTable& table);

  void add(Rule rule);

  // The rules on the way from `from` to `to`, "name" or "name backwards"; nothing when no way was found.
  using Way = std::vector<std::string>;
  std::optional<Way> derive(const ir::Graph& from, const ir::Graph& to, const DeriveLimits& limits = {}) const;
  // Between the sides of a rule, at sizes that are drawn apart from each other. Every case of the rule must be derivable;
  // the way is that of the longest.
  std::optional<Way> derive(const Rule& rule, const DeriveLimits& limits = {}) const;

 private:
  // Rules whose operators occur in one of the graphs, and their places.
  std::vector<uint32_t> usable(const ir::Graph& from, const ir::Graph& to) const;

  std::vector<Rule> rules_;
  std::vector<bool> backwards_;
  const ir::OpTable& table_;
  mutable AttrHabitTable habits_;
};

// What a graph computes as a term, whatever its names and the order of its nodes and of operands that commute.
Hash128 term_hash(const EditGraph& graph);

}  // namespace isomer::rewrite
