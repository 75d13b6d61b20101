// Targets other than the host's own whose code it can run, so that each is tested where that is possible.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "codegen/codegen.h"
#include "loop/target.h"

namespace isomer::testing {

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

// The body of a test. Where there is none it is skipped: every x86-64 target asks for as much as x86-64-v3, and every ARM has one.
inline void with_narrower_targets(const std::function<void(const std::vector<loop::Target>&)>& test) {
  const auto host = codegen::host_target();
  ASSERT_TRUE(host.ok());
  const std::vector<loop::Target> targets = narrower_targets(*host);
  if (targets.empty()) GTEST_SKIP() << "this CPU has no AVX2 or no FMA and runs the code of no named target";
  test(targets);
}

inline void on_narrower_targets(const std::function<void(const loop::Target&)>& test) {
  with_narrower_targets([&](const std::vector<loop::Target>& targets) {
    for (const loop::Target& target : targets) {
      SCOPED_TRACE(target.name);
      test(target);
    }
  });
}

}  // namespace isomer::testing
