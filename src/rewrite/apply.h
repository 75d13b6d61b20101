// Applying a match: the replacement is built beside the pattern's nodes, its types are compared with theirs, uses move
// over, and what lost its last use goes. A replacement that does not fit leaves the graph as it was.
#pragma once

#include <vector>

#include "rewrite/edit_graph.h"
#include "rewrite/matcher.h"

namespace isomer::rewrite {

struct Edit {
  std::vector<uint32_t> removed;
  std::vector<uint32_t> added;
  // Living nodes whose inputs or uses are new, the added ones among them: every match that came into being by this edit
  // contains one of them.
  std::vector<uint32_t> touched;
};

// The match must hold (Matcher::holds, or fresh from the matcher). Values keep their names where the replacement gives
// them anew; new nodes carry the origins of all nodes they replace.
Expected<Edit> apply(EditGraph& graph, const Rule& rule, const Match& match);

// All matches of a graph, kept up to date from edit to edit.
class MatchSet {
 public:
  MatchSet(const Matcher& matcher, const EditGraph& graph) : matcher_(&matcher), matches_(matcher.all(graph)) {}
  const std::vector<Match>& matches() const { return matches_; }
  void update(const EditGraph& graph, const Edit& edit);

 private:
  const Matcher* matcher_;
  std::vector<Match> matches_;
};

}  // namespace isomer::rewrite
