#include "compile/lower_group.h"

#include <algorithm>
#include <cstdlib>

#include "loop/signature.h"

namespace isomer::compile {
namespace {

// Zeros that take no memory until somebody looks at them, and nobody does.
Tensor untouched(int64_t elements) {
  const std::shared_ptr<void> bytes(std::calloc(static_cast<size_t>(elements) + 1, sizeof(float)), std::free);
  ISOMER_ASSERT(bytes, "no memory");
  return Tensor(DType::F32, {elements}, static_cast<const std::byte*>(bytes.get()), bytes);
}

// `asked`: somebody wants this scheme, whether it is expected to pay or not.
std::vector<Kernel> by(const Method& method, const Scene& scene, const Group& group, const LowerOptions& options,
                       bool asked) {
  const Algorithm algorithm = method.algorithm;
  const bool takes_prologue =
      algorithm == Algorithm::Split || algorithm == Algorithm::Gathered || algorithm == Algorithm::Tiles;
  if (group.prologue >= 0 && !takes_prologue) {
    Group rest = group;
    rest.prologue = -1;
    std::vector<Kernel> out = by(method, scene, rest, options, asked);
    if (!out.empty()) out.insert(out.begin(), prologue_kernel(scene, group));
    return out;
  }
  const bool product = options.contract && group.contraction;
  std::vector<Kernel> out;
  const auto take = [&](std::optional<Kernel> k) {
    if (k) out.push_back(*std::move(k));
  };
  switch (algorithm) {
    case Algorithm::Standard: break;
    case Algorithm::Split:
    case Algorithm::Gathered: {
      const SplitRows rows = algorithm == Algorithm::Gathered ? SplitRows::Gathered
                             : asked                          ? SplitRows::Windows
                                                              : SplitRows::WherePays;
      if (product && options.split)
        if (auto kernels = split_kernels(scene, group, "kernel", rows, method.cut)) out = *std::move(kernels);
      break;
    }
    case Algorithm::Filtering:
      if (product && options.winograd && (asked || filtering_pays(scene, group)))
        take(winograd_kernel(scene, group, "kernel", method.cut));
      break;
    case Algorithm::SplitFiltering:
      if (product && options.winograd && options.split) take(winograd_kernel(scene, group, "kernel", method.cut, true));
      break;
    case Algorithm::Windows:
      if (options.contract) take(window_kernel(scene, group, "kernel"));
      if (options.contract && out.empty()) take(plane_kernel(scene, group, "kernel"));
      break;
    case Algorithm::Tiles:
      if (product)
        if (auto kernels = contraction_kernels(scene, group, "kernel", method.cut)) out = *std::move(kernels);
      break;
    case Algorithm::Rows: out.push_back(rows_kernel(scene, group, "kernel"));
  }
  for (Kernel& k : out) {
    const bool both = algorithm == Algorithm::SplitFiltering;
    k.rounding.split = both || algorithm == Algorithm::Split || algorithm == Algorithm::Gathered;
    k.rounding.filtering = both || algorithm == Algorithm::Filtering;
  }
  return out;
}

}  // namespace

// An output must have memory of its own: where it is an input, a constant, a second name of another output or a view of
// one of those, it becomes a copy.
void give_outputs_their_own_stages(StageGraph& g) {
  std::vector<int> taken;
  for (int& out : g.outputs) {
    int root = out;
    while (g.values[static_cast<size_t>(root)].stage >= 0) {
      const ModelStage& s = g.stages[static_cast<size_t>(g.values[static_cast<size_t>(root)].stage)];
      if (s.view_of < 0) break;
      root = s.view_of;
    }
    const bool own =
        g.values[static_cast<size_t>(root)].stage >= 0 && std::find(taken.begin(), taken.end(), root) == taken.end();
    taken.push_back(root);
    if (own) continue;
    out = add_copy(g, out);
  }
}

Scene make_scene(StageGraph& graph, const std::vector<Layout>& layouts, const std::vector<std::vector<int>>& readers,
                 const LowerOptions& options) {
  const bool filled = options.weights;
  return {&graph,
          &layouts,
          &readers,
          options.target,
          [&graph](DType t, int64_t elements) {
            StageValue& v = graph.values.emplace_back();
            v.name = "temporary";
            v.dtype = t;
            v.dims = {elements};
            return static_cast<int>(graph.values.size()) - 1;
          },
          [&graph, filled](int64_t elements, const std::function<void(float*)>& fill) {
            Tensor t = filled ? Tensor(DType::F32, {elements}) : untouched(elements);
            if (filled) fill(t.mutable_as<float>());
            StageValue& v = graph.values.emplace_back();
            v.name = "constant";
            v.dims = t.dims();
            v.constant = std::move(t);
            return static_cast<int>(graph.values.size()) - 1;
          }};
}

std::vector<Kernel> kernels_of(const Scene& scene, const Group& group, const Method& method,
                               const LowerOptions& options, bool exactly) {
  std::vector<Kernel> out = by(method, scene, group, options, true);
  if (exactly && !method.standard()) return out;
  for (const Algorithm a :
       {Algorithm::Split, Algorithm::Filtering, Algorithm::Windows, Algorithm::Tiles, Algorithm::Rows}) {
    if (!out.empty()) break;
    out = by(a, scene, group, options, false);
  }
  return out;
}

std::shared_ptr<const KernelCache::Entry> cached_kernels(const Scene& scene, const Group& group, const Method& method,
                                                         const LowerOptions& options, const KernelCache::Key& key,
                                                         StageGraph& graph, bool exactly, KernelCache* own) {
  KernelCache* const cache = own ? own : options.cache;
  if (auto known = cache ? cache->find(key) : nullptr) return known;
  const auto first = static_cast<int>(graph.values.size()), count = static_cast<int>(key.values.size());
  bool general = true;
  auto entry = std::make_shared<KernelCache::Entry>();
  entry->kernels = kernels_of(scene, group, method, options, exactly);
  for (Kernel& k : entry->kernels) {
    entry->signatures.push_back(loop::signature(k.function));
    for (Argument& a : k.arguments) {
      const auto at = std::find(key.values.begin(), key.values.end(), a.value);
      if (a.value >= first)
        a.value += count - first;
      else if (general = general && at != key.values.end(); at != key.values.end())
        a.value = static_cast<int>(at - key.values.begin());
      else
        a.value = -1 - a.value;
    }
  }
  entry->added.assign(graph.values.begin() + first, graph.values.end());
  graph.values.resize(static_cast<size_t>(first));
  const bool knows_contents =
      options.weights &&
      std::any_of(entry->added.begin(), entry->added.end(), [](const StageValue& v) { return v.constant.has_value(); });
  if (cache && general && !knows_contents) cache->add(key, entry);
  return entry;
}

}  // namespace isomer::compile
