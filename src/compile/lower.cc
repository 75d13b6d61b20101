#include "compile/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "compile/arena.h"
#include "compile/group.h"
#include "compile/kernel.h"
#include "compile/kernel_cache.h"
#include "compile/pack.h"
#include "compile/stages.h"
#include "compile/storage.h"
#include "loop/print.h"
#include "loop/signature.h"

namespace isomer::compile {

namespace {

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
    const StageValue from = g.values[static_cast<size_t>(out)];
    ModelStage copy;
    std::vector<te::Expr> at;
    for (size_t d = 0; d < from.dims.size(); ++d) {
      copy.axes.push_back({static_cast<int>(d), fmt::format("i{}", d), Dim(from.dims[d])});
      at.emplace_back(copy.axes.back());
    }
    copy.body = te::Expr::read(out, from.dtype, std::move(at));
    copy.value = static_cast<int>(g.values.size());
    copy.origin = {from.name};
    StageValue& own_value = g.values.emplace_back();
    own_value.name = from.name;
    own_value.dtype = from.dtype;
    own_value.dims = from.dims;
    own_value.stage = static_cast<int>(g.stages.size());
    g.stages.push_back(std::move(copy));
    out = g.stages.back().value;
  }
}

// Zeros that take no memory until somebody looks at them, and nobody does.
Tensor untouched(int64_t elements) {
  const std::shared_ptr<void> bytes(std::calloc(static_cast<size_t>(elements) + 1, sizeof(float)), std::free);
  ISOMER_ASSERT(bytes, "no memory");
  return Tensor(DType::F32, {elements}, static_cast<const std::byte*>(bytes.get()), bytes);
}

class Lowering {
 public:
  Lowering(StageGraph graph, const LowerOptions& options) : g_(std::move(graph)), options_(options) {}
  Expected<Lowered> run(const ir::Graph& source);

 private:
  void ports(const ir::Graph& source);
  void add_step(Kernel kernel, const std::string& signature);
  void place_values();
  int root(int value) const;
  std::vector<Kernel> kernels_of(const Scene& scene, const Group& group) const;
  void add_group(const Scene& scene, const Group& group);
  std::string function_for(loop::Function f, const std::string& signature);
  uint32_t weight(const Argument& a);

  StageGraph g_;
  const LowerOptions& options_;
  std::vector<Layout> layouts_;
  std::vector<std::vector<int>> readers_;
  Lowered out_;
  std::vector<Kernel> kernels_;               // by step
  std::map<std::string, std::string> names_;  // the signature of a function -> its name
  std::map<int, std::vector<std::pair<std::optional<Packing>, uint32_t>>> weights_;  // by value
};

// The value whose memory this one lies in, through views and hosts.
int Lowering::root(int value) const {
  while (true) {
    if (const int host = g_.values[static_cast<size_t>(value)].host; host >= 0) {
      value = host;
      continue;
    }
    const int s = g_.values[static_cast<size_t>(value)].stage;
    if (s < 0 || g_.stages[static_cast<size_t>(s)].view_of < 0) return value;
    value = g_.stages[static_cast<size_t>(s)].view_of;
  }
}

void Lowering::ports(const ir::Graph& source) {
  for (const int v : g_.inputs) {
    const StageValue& value = g_.values[static_cast<size_t>(v)];
    out_.plan.inputs.push_back({value.name, value.dtype, value.dims});
  }
  for (size_t i = 0; i < g_.outputs.size(); ++i) {
    const StageValue& value = g_.values[static_cast<size_t>(g_.outputs[i])];
    out_.plan.outputs.push_back({source.outputs()[i].name, value.dtype, value.dims});
  }
}

// Equal loops are one function, whatever their buffers are called.
std::string Lowering::function_for(loop::Function f, const std::string& signature) {
  auto [it, fresh] = names_.try_emplace(signature, "");
  if (!fresh) return it->second;
  it->second = fmt::format("kernel_{}", out_.functions.size());
  f.name = it->second;
  for (size_t i = 0; i < f.buffers.size(); ++i) f.buffers[i].name = fmt::format("b{}", i);
  out_.functions.push_back(std::move(f));
  out_.signatures.push_back(signature);
  return it->second;
}

void Lowering::add_step(Kernel kernel, const std::string& signature) {
  Step step;
  step.origin = kernel.function.origin;
  step.tasks = kernel.function.tasks();
  step.scratch_bytes = static_cast<uint64_t>(kernel.function.scratch_bytes());
  step.flops = kernel.flops;
  step.bytes = kernel.bytes;
  step.function = function_for(kernel.function, signature);
  out_.plan.steps.push_back(std::move(step));
  kernels_.push_back(std::move(kernel));
}

uint32_t Lowering::weight(const Argument& a) {
  auto& known = weights_[a.value];
  for (const auto& [packing, index] : known)
    if (packing == a.packing) return index;
  const auto index = static_cast<uint32_t>(out_.plan.weights.size());
  known.emplace_back(a.packing, index);
  Weight& w = out_.plan.weights.emplace_back();
  if (!options_.weights) return index;
  const Tensor& source = *g_.values[static_cast<size_t>(a.value)].constant;
  const auto tensor = std::make_shared<Tensor>(a.packing ? packed(source, *a.packing) : source);
  w.bytes = std::shared_ptr<const std::byte>(tensor, tensor->bytes());
  w.size = tensor->byte_size();
  return index;
}

// Inputs, outputs and constants lie where they are; what is left shares the arena.
void Lowering::place_values() {
  std::map<int, Place> places;
  for (size_t i = 0; i < g_.inputs.size(); ++i) places[g_.inputs[i]] = {Space::Input, static_cast<uint32_t>(i), 0};
  for (size_t i = 0; i < g_.outputs.size(); ++i)
    places[root(g_.outputs[i])] = {Space::Output, static_cast<uint32_t>(i), 0};
  std::vector<Interval> intervals;
  std::map<int, size_t> interval_of;
  for (size_t s = 0; s < kernels_.size(); ++s)
    for (const Argument& a : kernels_[s].arguments) {
      const int value = root(a.value);
      const StageValue& v = g_.values[static_cast<size_t>(value)];
      if (v.constant || places.count(value)) continue;
      const auto [it, fresh] = interval_of.try_emplace(value, intervals.size());
      if (fresh) intervals.push_back({static_cast<uint64_t>(v.bytes()), static_cast<int>(s), static_cast<int>(s)});
      intervals[it->second].last = static_cast<int>(s);
    }
  const Arena arena = plan_arena(intervals);
  for (const auto& [value, i] : interval_of) {
    places[value] = {Space::Arena, 0, arena.offsets[i]};
    out_.plan.steps[static_cast<size_t>(intervals[i].last)].freed.push_back({arena.offsets[i], intervals[i].bytes});
  }
  out_.plan.arena_bytes = arena.bytes;
  out_.least_arena_bytes = arena.lower_bound;
  for (size_t s = 0; s < kernels_.size(); ++s)
    for (const Argument& a : kernels_[s].arguments) {
      const int value = root(a.value);
      const StageValue& v = g_.values[static_cast<size_t>(value)];
      if (v.constant) {
        out_.plan.steps[s].arguments.push_back({Space::Weight, weight({value, a.packing}), 0});
      } else {
        Place place = places.at(value);
        if (static_cast<size_t>(a.value) < layouts_.size())
          place.offset += static_cast<uint64_t>(layouts_[static_cast<size_t>(a.value)].offset) * size_of(v.dtype);
        out_.plan.steps[s].arguments.push_back(place);
      }
    }
}

std::vector<Kernel> Lowering::kernels_of(const Scene& scene, const Group& group) const {
  if (options_.contract && group.contraction && options_.winograd)
    if (auto winograd = winograd_kernel(scene, group, "kernel")) return {*std::move(winograd)};
  if (options_.contract)
    for (auto* scheme : {window_kernel, plane_kernel})
      if (auto window = scheme(scene, group, "kernel")) return {*std::move(window)};
  if (options_.contract && group.contraction)
    if (auto tiles = contraction_kernels(scene, group, "kernel")) return *std::move(tiles);
  return {rows_kernel(scene, group, "kernel")};
}

void Lowering::add_group(const Scene& scene, const Group& group) {
  if (!options_.cache || options_.weights) {
    for (Kernel& kernel : kernels_of(scene, group)) {
      const std::string signature = loop::signature(kernel.function);
      add_step(std::move(kernel), signature);
    }
    return;
  }
  const KernelCache::Key key = KernelCache::key(scene, group);
  const auto first = static_cast<int>(g_.values.size()), own = static_cast<int>(key.values.size());
  std::shared_ptr<const KernelCache::Entry> known = options_.cache->find(key);
  if (!known) {
    auto entry = std::make_shared<KernelCache::Entry>();
    entry->kernels = kernels_of(scene, group);
    for (Kernel& k : entry->kernels) {
      entry->signatures.push_back(loop::signature(k.function));
      for (Argument& a : k.arguments) {
        const auto at = std::find(key.values.begin(), key.values.end(), a.value);
        a.value = a.value >= first ? a.value - first + own : static_cast<int>(at - key.values.begin());
      }
    }
    entry->added.assign(g_.values.begin() + first, g_.values.end());
    known = std::move(entry);
    options_.cache->add(key, known);
  } else {
    g_.values.insert(g_.values.end(), known->added.begin(), known->added.end());
  }
  for (size_t i = 0; i < known->kernels.size(); ++i) {
    Kernel k = known->kernels[i];
    for (Argument& a : k.arguments)
      a.value = a.value >= own ? a.value - own + first : key.values[static_cast<size_t>(a.value)];
    k.function.origin.clear();
    for (const int s : group.stages)
      for (const std::string& o : scene.stage(s).origin)
        if (std::find(k.function.origin.begin(), k.function.origin.end(), o) == k.function.origin.end())
          k.function.origin.push_back(o);
    add_step(std::move(k), known->signatures[i]);
  }
}

Expected<Lowered> Lowering::run(const ir::Graph& source) {
  give_outputs_their_own_stages(g_);
  if (options_.fuse) {
    merge_products(g_);
    host_parts(g_);
    inline_stages(g_);
  }
  const std::vector<Group> groups = group_stages(g_, options_.fuse);
  layouts_ = choose_layouts(g_, groups);
  readers_ = g_.readers();
  ports(source);
  out_.plan.model = source.name();
  out_.plan.target = options_.target;
  const Scene scene{&g_,
                    &layouts_,
                    &readers_,
                    options_.target,
                    [this](DType t, int64_t elements) {
                      StageValue& v = g_.values.emplace_back();
                      v.name = "temporary";
                      v.dtype = t;
                      v.dims = {elements};
                      return static_cast<int>(g_.values.size()) - 1;
                    },
                    [this](int64_t elements, const std::function<void(float*)>& fill) {
                      Tensor t = options_.weights ? Tensor(DType::F32, {elements}) : untouched(elements);
                      if (options_.weights) fill(t.mutable_as<float>());
                      StageValue& v = g_.values.emplace_back();
                      v.name = "constant";
                      v.dims = t.dims();
                      v.constant = std::move(t);
                      return static_cast<int>(g_.values.size()) - 1;
                    }};
  for (const Group& group : groups) add_group(scene, group);
  place_values();
  return std::move(out_);
}

}  // namespace

Expected<void> dump_loops(const Lowered& lowered, const std::string& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  for (const loop::Function& f : lowered.functions) {
    const std::filesystem::path path = std::filesystem::path(folder) / (f.name + ".loops");
    std::ofstream out(path);
    out << "// " << fmt::format("{}", fmt::join(f.origin, ", ")) << '\n' << loop::print(f);
    if (!out) return Diagnostic{"E-file", fmt::format("{} cannot be written", isomer::quoted(path.string()))};
  }
  return {};
}

Expected<Lowered> lower(const ir::Graph& graph, const ir::OpTable& table, const LowerOptions& options) {
  ISOMER_TRY(StageGraph stages, stages_of(graph, table));
  return Lowering(std::move(stages), options).run(graph);
}

}  // namespace isomer::compile
