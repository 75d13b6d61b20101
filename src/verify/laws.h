// The laws that operator records state, as rules: what a matcher takes for granted of an operator (that it commutes) goes
// through the same prover as every rule.
#pragma once

#include <string>
#include <vector>

#include "rewrite/rule.h"

namespace isomer::verify {

// A rule "law-OPERATOR-NUMBER" for each law, at the most general of a few typings that fits: one shape of any rank for
// all operands, with scalars beside the first, square matrices, ... Laws that fit none are named in `untyped`.
std::vector<rewrite::Rule> law_rules(const ir::OpTable& table, std::vector<std::string>* untyped = nullptr);

}  // namespace isomer::verify
