#include "propose/symmetry.h"

namespace isomer::propose {

uint32_t inputs_of(const Sketch& s, const Family& family) {
  uint32_t used = 0;
  for (size_t i = 0; i < s.count; ++i)
    for (size_t k = 0; k < family.templates[s.steps[i].op].operands; ++k)
      if (!is_result(s.steps[i].args[k])) used |= uint32_t{1} << s.steps[i].args[k];
  for (size_t i = 0; i < s.outs; ++i)
    if (!is_result(s.out[i])) used |= uint32_t{1} << s.out[i];
  return used;
}

Sketch renamed(const Sketch& s, const Renaming& r, const Family& family) {
  Sketch out = s;
  for (size_t i = 0; i < s.count; ++i)
    for (size_t k = 0; k < family.templates[s.steps[i].op].operands; ++k)
      if (Ref& a = out.steps[i].args[k]; !is_result(a)) a = r[a];
  for (size_t i = 0; i < s.outs; ++i)
    if (!is_result(out.out[i])) out.out[i] = r[out.out[i]];
  return out;
}

Symmetry::Symmetry(const Family& family) {
  for (const InputClass& c : family.inputs) {
    first_.push_back(class_of_.size());
    count_.push_back(c.count);
    for (size_t i = 0; i < c.count; ++i) class_of_.push_back(first_.size() - 1);
  }
}

const std::vector<Renaming>& Symmetry::locked_renamings(uint32_t used) {
  auto& slot = renamings_[used];
  if (slot) return *slot;
  slot = std::make_unique<std::vector<Renaming>>();
  std::vector<size_t> inputs;
  for (size_t i = 0; i < class_of_.size(); ++i)
    if (used >> i & 1) inputs.push_back(i);
  Renaming current = {};
  uint32_t taken = 0;
  const auto walk = [&](auto& self, size_t at) -> void {
    if (at == inputs.size()) {
      slot->push_back(current);
      return;
    }
    const size_t i = inputs[at], c = class_of_[i];
    // The input itself first, so that the identity comes first.
    for (size_t k = 0; k < count_[c]; ++k) {
      const size_t to = first_[c] + (i - first_[c] + k) % count_[c];
      if (taken >> to & 1) continue;
      taken |= uint32_t{1} << to;
      current[i] = static_cast<uint8_t>(to);
      self(self, at + 1);
      taken &= ~(uint32_t{1} << to);
    }
  };
  walk(walk, 0);
  return *slot;
}

const std::vector<Renaming>& Symmetry::renamings(uint32_t used) {
  {
    const std::shared_lock lock(mutex_);
    if (const auto it = renamings_.find(used); it != renamings_.end()) return *it->second;
  }
  const std::lock_guard lock(mutex_);
  return locked_renamings(used);
}

const std::vector<uint32_t>& Symmetry::restriction(uint32_t used, uint32_t more) {
  const uint64_t key = static_cast<uint64_t>(used) << 32 | more;
  {
    const std::shared_lock lock(mutex_);
    if (const auto it = restrictions_.find(key); it != restrictions_.end()) return *it->second;
  }
  const std::lock_guard lock(mutex_);
  auto& slot = restrictions_[key];
  if (slot) return *slot;
  slot = std::make_unique<std::vector<uint32_t>>();
  const auto& small = locked_renamings(used);
  for (const Renaming& r : locked_renamings(more)) {
    uint32_t at = 0;
    for (bool same = false; !same && at < small.size(); at += same ? 0 : 1) {
      same = true;
      for (size_t i = 0; i < class_of_.size(); ++i)
        if (used >> i & 1) same &= small[at][i] == r[i];
      if (same) break;
    }
    slot->push_back(at);
  }
  return *slot;
}

}  // namespace isomer::propose
