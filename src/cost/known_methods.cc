#include "cost/known_methods.h"

namespace isomer::cost {

std::optional<KnownMethods::Best> KnownMethods::find(const std::string& group) const {
  const std::lock_guard lock(mutex_);
  const auto it = best_.find(group);
  return it == best_.end() ? std::nullopt : std::optional(it->second);
}

void KnownMethods::set(const std::string& group, const Best& best) {
  constexpr size_t kMost = 1 << 14;
  const std::lock_guard lock(mutex_);
  if (best_.size() >= kMost) best_.clear();
  best_[group] = best;
}

}  // namespace isomer::cost
