// Targets other than the host's own whose code it can run, so that each is tested where that is possible.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "loop/target.h"

namespace isomer::testing {

// Why a test has nothing to run: every x86-64 target asks for as much as x86-64-v3, and every ARM has one.
constexpr const char* kRunsNone = "this CPU has no AVX2 or no FMA and runs the code of no named target";

// Named targets of the host's kind whose instructions it has.
inline std::vector<loop::Target> narrower_targets(const loop::Target& host) {
  // What every CPU of a kind has stands in the list of a named target, and not in what the host says of itself.
  const auto there = [&](const std::string& feature) {
    const bool special = feature.starts_with("a") || feature == "fma" || feature == "dotprod";
    return !special || host.has(feature);
  };
  std::vector<loop::Target> out;
  for (const std::string_view name : loop::target_names())
    if (auto t = loop::parse_target(name); t.ok() && t->arch == host.arch && std::ranges::all_of(t->features, there))
      out.push_back(*std::move(t));
  return out;
}

}  // namespace isomer::testing
