#include <algorithm>

#include "passes/pass.h"

namespace isomer::passes {

std::string_view name(Numerics n) { return n == Numerics::Exact ? "exact" : "reassociating"; }

std::span<const Pass> table() {
  static constexpr Pass kPasses[] = {
#define ISOMER_PASS(name, numerics, doc) {#name, doc, Numerics::numerics, name},
#include "passes/passes.def"
#undef ISOMER_PASS
  };
  return kPasses;
}

const Pass* find(std::string_view name) {
  const auto all = table();
  const auto it = std::lower_bound(all.begin(), all.end(), name, [](const Pass& p, auto n) { return p.name < n; });
  return it != all.end() && it->name == name ? &*it : nullptr;
}

}  // namespace isomer::passes
