// TASO's rules as its released file has them, written as text: calls by number, groups of a convolution implied, a split
// that undoes the last concat, and no shapes at all.
//
//   rule 7
//     %0 = matmul(?a, ?d); %1 = concat(?d, %0) {rank=2, axis=1}; return %1
//     => ...
//
// read_taso makes Rules of them. Shapes are inferred: each input gets a symbol per axis, both sides give equations, and
// what follows from them is substituted. Convolutions are ungrouped, with the kernel the rule states and centred padding;
// element-wise operands have one shape, of any rank where nothing else stands in the rule. A rule whose equations have
// no positive solution says so in `problem` and has no Rule.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rewrite/rule.h"

namespace isomer::rewrite {

struct TasoRule {
  int64_t number = 0;
  std::optional<Rule> rule;
  std::string text;     // the rule as Isomer's rule text, or what was made of it so far
  std::string problem;  // why there is no rule
};

Expected<std::vector<TasoRule>> read_taso(std::string_view text, const ir::OpTable& table,
                                          const std::string& file = "");

}  // namespace isomer::rewrite
