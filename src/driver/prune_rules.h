// What is left of rules that were found when those that say nothing new go, by the matcher that a search uses: a rule
// whose sides are joined by a few rewrites follows from the rules that make them (rewrite/derive.h).
#pragma once

#include <functional>
#include <vector>

#include "rewrite/derive.h"

namespace isomer::driver {

using PruneReport = std::function<void(size_t done, size_t total)>;

// Enough to find what follows at once; a longer way is no reason to do without a rule.
inline constexpr rewrite::DeriveLimits kPruneLimits{3, 120, 1};

// The rules that do not follow from `known`.
std::vector<rewrite::Rule> not_derivable(const std::vector<rewrite::Rule>& rules,
                                         const std::vector<rewrite::Rule>& known, int threads,
                                         const PruneReport& report = nullptr);

// The rules that do not follow from `known` and the smaller ones that were kept. A rule and its other direction,
// "NAME" and "NAME-back", are one. The order stays.
std::vector<rewrite::Rule> independent(const std::vector<rewrite::Rule>& rules, const std::vector<rewrite::Rule>& known,
                                       int threads, const PruneReport& report = nullptr);

}  // namespace isomer::driver
