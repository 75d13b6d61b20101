// Matcher: where rules fit in a graph. It starts from the rarest operator of a pattern and follows edges, so a rule
// whose operators do not occur costs nothing. A place where a rule nearly fits can say which condition failed.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rewrite/edit_graph.h"
#include "rewrite/pattern.h"
#include "rewrite/side_builder.h"

namespace isomer::rewrite {

// One place where a rule may be applied. Valid as long as none of its nodes, their uses and inputs change.
struct Match {
  uint32_t rule = 0;              // in the matcher's order
  std::vector<uint32_t> nodes;    // per call of the pattern
  std::vector<ir::Value> inputs;  // per input of the rule
  SizeValues sizes;
  std::vector<DType> types;
  std::vector<std::optional<ir::AttrValue>> attributes;
};

// Where the nodes of a match stand in the text of the model, with their numbers.
using TextOrder = std::vector<std::pair<uint64_t, uint32_t>>;
TextOrder text_order(const EditGraph& graph, const Match& match);

// Why a rule does not fit at a node: the test that failed after the most others had passed.
struct Decline {
  uint32_t node = 0;
  size_t matched = 0;   // calls of the pattern that did fit
  size_t progress = 0;  // how far the attempt came, to compare with others
  std::string reason = {};
};

// What to do where something outside a match uses a value inside it that the rule does not map. Keep: it stays, and the
// replacement comes beside it; no smaller graph, but the same function.
enum class InnerUses : uint8_t { Refuse, Keep };

class Matcher {
 public:
  // The rules must outlive the matcher.
  Matcher(std::vector<const Rule*> rules, AttrHabitTable& habits, InnerUses inner = InnerUses::Refuse);

  const std::vector<Pattern>& patterns() const { return patterns_; }
  const Rule& rule(uint32_t i) const { return *patterns_[i].rule; }

  // All matches in order of rule and nodes; each set of nodes once where the pattern is symmetric.
  std::vector<Match> all(const EditGraph& graph) const;
  std::vector<Match> all(const EditGraph& graph, uint32_t rule) const;
  // Those that contain one of these nodes.
  std::vector<Match> around(const EditGraph& graph, std::span<const uint32_t> nodes) const;
  // Whether a match still holds and applying it makes no cycle.
  bool holds(const EditGraph& graph, const Match& match) const;

  // Why a rule does not fit: for a node, or for every node of its last call's operator, nearest misses first.
  std::vector<Decline> explain(const EditGraph& graph, uint32_t rule, std::optional<uint32_t> node = {}) const;

 private:
  std::vector<Pattern> patterns_;
  std::map<std::string, std::vector<std::pair<uint32_t, uint32_t>>> by_op_;  // operator -> (rule, call)
};

}  // namespace isomer::rewrite
