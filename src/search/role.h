// Role: what a rule can do for a search, found from the rule itself. Rules that change no reduction (a product, a
// convolution, a pool, a norm) only move element-wise work about, which the compiler fuses wherever it stands: as steps
// of a search they would drown it. They serve to tidy up after the others.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "rewrite/edit_graph.h"
#include "rewrite/matcher.h"
#include "rewrite/rule.h"

namespace isomer::search {

enum class Role : uint8_t {
  Step,  // another set of reductions: a step of the search
  Tidy,  // the same reductions: applied at once where fewer nodes are left that a run computes
};
Role role_of(const rewrite::Rule& rule, const ir::OpTable& table);

// Whether the replacement wraps a reduction in work that only moves things, before it and behind it: convolutions of images
// that were folded into a batch. Where such a reduction feeds another one, what one puts behind may cancel what the other
// puts before, so that they pay together where none pays alone.
bool wraps(const rewrite::Rule& rule, const ir::OpTable& table);

// Whether an operator reduces (ir/reduces.h), of nodes in graphs that are edited, by their operators: a node that a run computes reduces when the first one
// of its operator did. Asking for each node anew would take longer than the search. Any number of threads may ask.
class Reductions {
 public:
  bool at(const rewrite::EditGraph& graph, uint32_t node);

 private:
  std::mutex mutex_;  // of what follows
  std::map<const ir::OpDef*, bool> known_;
};

// Whether a run computes some node of the match.
bool is_live(const rewrite::EditGraph& graph, const rewrite::Match& match);
// Whether applying the match leaves fewer nodes for a run to compute, all of operators that the pattern has too.
bool tidies(const rewrite::EditGraph& graph, const rewrite::Rule& rule, const rewrite::Match& match);

}  // namespace isomer::search
