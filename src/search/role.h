// Role: what a rule can do for a search, found from the rule itself. Rules that change no reduction (a product, a
// convolution, a pool, a norm) only move element-wise work about, which the compiler fuses wherever it stands: as steps
// of a search they would drown it. They serve to tidy up after the others.
#pragma once

#include <cstdint>

#include "rewrite/edit_graph.h"
#include "rewrite/matcher.h"
#include "rewrite/rule.h"

namespace isomer::search {

enum class Role : uint8_t {
  Step,  // another set of reductions: a step of the search
  Tidy,  // the same reductions: applied at once where fewer nodes are left that a run computes
};
Role role_of(const rewrite::Rule& rule, const ir::OpTable& table);

// Whether the operator reduces at these types.
bool reduces(const ir::OpContext& context);
// The same of a node in a graph that is edited; false for constants.
bool reduces(const rewrite::EditGraph& graph, uint32_t node);

// Whether a run computes some node of the match.
bool is_live(const rewrite::EditGraph& graph, const rewrite::Match& match);
// Whether applying the match leaves fewer nodes for a run to compute, all of operators that the pattern has too.
bool tidies(const rewrite::EditGraph& graph, const rewrite::Rule& rule, const rewrite::Match& match);

}  // namespace isomer::search
