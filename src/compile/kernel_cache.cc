#include "compile/kernel_cache.h"

#include <algorithm>

#include "base/contains.h"
#include "te/signature.h"

namespace isomer::compile {
namespace {

void add_value(te::Signature& s, const Scene& scene, const Group& group, int value) {
  const StageValue& v = scene.value(value);
  s.add(static_cast<int64_t>(v.dtype)).add(int64_t{v.constant.has_value()}).add(int64_t{v.input >= 0});
  s.add(int64_t{v.host >= 0}).add(int64_t{contains(scene.graph->outputs, value)});
  s.add(static_cast<int64_t>(v.dims.size()));
  for (const int64_t d : v.dims) s.add(d);
  const auto at = static_cast<size_t>(value);
  s.add(int64_t{at < scene.layouts->size()}).add(int64_t{at < scene.readers->size()});
  if (at < scene.layouts->size()) {
    const Layout& layout = scene.layout(value);
    s.add(layout.span);
    for (const int d : layout.order) s.add(int64_t{d});
    for (const int64_t d : layout.strides) s.add(d);
  }
  if (at >= scene.readers->size()) return;  // only kernels know it
  // Who reads it: inside the group, and whether anybody outside does.
  const std::vector<int>& readers = (*scene.readers)[at];
  int64_t outside = 0;
  for (const int r : readers) {
    const auto reader = std::find(group.stages.begin(), group.stages.end(), r);
    if (reader == group.stages.end())
      ++outside;
    else
      s.add(static_cast<int64_t>(reader - group.stages.begin()));
  }
  s.add(int64_t{-1}).add(outside);
}

}  // namespace

KernelCache::Key KernelCache::key(const Scene& scene, const Group& group, const Method& method) {
  te::Signature s(true);
  s.add(static_cast<int64_t>(method.algorithm));
  s.add(method.cut.rows).add(method.cut.parts).add(method.cut.columns).add(method.cut.outputs);
  s.add(int64_t{group.contraction.has_value()});
  const auto add_stage = [&](const ModelStage& stage) {
    s.add_tensor(stage.value);
    for (const te::Axis& a : stage.axes) s.add_axis(a);
    s.add(stage.body);
  };
  s.add(int64_t{group.prologue >= 0});
  if (group.prologue >= 0) add_stage(scene.stage(group.prologue));
  for (size_t i = 0; i < group.stages.size(); ++i) {
    add_stage(scene.stage(group.stages[i]));
    for (const int row : group.rows[i]) s.add_var(row);
    s.add(int64_t{-1});
  }
  for (size_t i = 0; i < s.tensors().size(); ++i) add_value(s, scene, group, s.tensors()[i]);
  return {s.bytes(), s.tensors()};
}

const StageValue& KernelCache::value(const Argument& argument, const Key& key, const Entry& entry,
                                     const StageGraph& graph) {
  if (argument.value < 0) return graph.values[static_cast<size_t>(-1 - argument.value)];
  const auto at = static_cast<size_t>(argument.value);
  return at < key.values.size() ? graph.values[static_cast<size_t>(key.values[at])]
                                : entry.added[at - key.values.size()];
}

std::shared_ptr<const KernelCache::Entry> KernelCache::find(const Key& key) const {
  const std::lock_guard lock(mutex_);
  const auto it = entries_.find(key.bytes);
  return it == entries_.end() ? nullptr : it->second;
}

void KernelCache::add(const Key& key, std::shared_ptr<const Entry> entry) {
  const std::lock_guard lock(mutex_);
  if (entries_.size() >= capacity_) entries_.clear();
  entries_.emplace(key.bytes, std::move(entry));
}

}  // namespace isomer::compile
