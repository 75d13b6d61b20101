// A group of stages as kernels: what lowering a whole model and choosing among ways to lower it share.
#pragma once

#include <memory>
#include <vector>

#include "compile/kernel.h"
#include "compile/kernel_cache.h"
#include "compile/labels.h"
#include "compile/lower.h"

namespace isomer::compile {

// An output must have memory of its own: where it is an input, a constant, a second name of another output or a view of
// one of those, it becomes a copy.
void give_outputs_their_own_stages(StageGraph& graph);

// What kernels add, they add to `graph`, whose values must not be taken away while the scene is in use.
Scene make_scene(StageGraph& graph, const std::vector<Layout>& layouts, const std::vector<std::vector<int>>& readers,
                 const LowerOptions& options);

// By the first scheme that takes the group, or by the one that is named; where that one does not take it: by the first, or
// with `exactly` by no kernels.
std::vector<Kernel> kernels_of(const Scene& scene, const Group& group, const Method& method,
                               const LowerOptions& options, bool exactly = false);

// The same through a cache, that of the options if no other is given, by a key that also says whether `exactly`. The
// graph's values are as before, and those that the kernels added are in the entry. What was made of a constant's contents
// is not kept.
std::shared_ptr<const KernelCache::Entry> cached_kernels(const Scene& scene, const Group& group, const Method& method,
                                                         const LowerOptions& options, const KernelCache::Key& key,
                                                         StageGraph& graph, bool exactly = false,
                                                         KernelCache* own = nullptr);

}  // namespace isomer::compile
