#include "driver/open_sizes.h"

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "driver/executor.h"
#include "driver/piece.h"
#include "ops/table.h"
#include "passes/manager.h"

namespace isomer::driver {
namespace {

// A model may take some numbers of examples only: one that averages four views of each, say.
constexpr int64_t kBatches[] = {1, 2, 4, 8, 16};
// Heights of lines of text are 32 or 48 in most models that read them.
constexpr int64_t kLengths[] = {64, 32, 48, 128, 224, 256, 512, 1024, 4096, 32768};
constexpr size_t kMostInputs = 4;                    // whose lengths are tried alone
constexpr int64_t kMostElements = int64_t{1} << 20;  // of an input that is made for a try

struct OpenSize {
  std::string name;
  size_t input = 0;  // where it is seen first
  bool batch = false;
};

std::vector<OpenSize> open_sizes_of(const ir::Graph& g) {
  std::vector<OpenSize> out;
  std::set<std::string> seen;
  for (size_t input = 0; input < g.inputs().size(); ++input) {
    const Shape& shape = g.inputs()[input].types[0].shape;
    for (size_t i = 0; shape.has_rank() && i < shape.rank(); ++i) {
      std::vector<std::string> names;
      shape[i].symbols(names);
      for (const std::string& s : names)
        if (seen.insert(s).second) out.push_back({s, input, i == 0});
    }
  }
  return out;
}

// In the order in which they are tried; each once.
std::vector<Sizes> choices(const std::vector<OpenSize>& open, const Sizes& given, int64_t batch,
                           std::span<const int64_t> lengths) {
  std::vector<std::optional<size_t>> alone = {std::nullopt};
  for (const OpenSize& o : open)
    if (!o.batch && alone.size() <= kMostInputs && (alone.size() == 1 || alone.back() != o.input))
      alone.emplace_back(o.input);
  std::vector<Sizes> out;
  for (const int64_t length : lengths)
    for (const std::optional<size_t>& only : alone) {
      Sizes sizes;
      for (const OpenSize& o : open) {
        const auto it = given.find(o.name);
        const bool long_one = !o.batch && (!only || *only == o.input);
        sizes[o.name] = it != given.end() ? it->second : long_one ? length : batch;
      }
      if (std::find(out.begin(), out.end(), sizes) == out.end()) out.push_back(std::move(sizes));
    }
  return out;
}

bool small(const ir::Graph& g) {
  return std::all_of(g.inputs().begin(), g.inputs().end(), [](const ir::Node& n) {
    int64_t elements = 1;
    const Shape& shape = n.types[0].shape;
    for (size_t i = 0; shape.has_rank() && i < shape.rank(); ++i) {
      const auto dim = shape[i].constant();
      if (!dim || *dim > kMostElements || (elements *= std::max<int64_t>(*dim, 1)) > kMostElements) return false;
    }
    return true;
  });
}

Expected<void> attempt(const ir::Graph& graph, const Sizes& sizes, const InputOptions& inputs) {
  ISOMER_TRY(const ir::Graph sized, with_sizes(graph, sizes));
  if (!small(sized)) return Diagnostic("E-shape-option", "inputs of these sizes are too large to be tried");
  ISOMER_TRY(const ir::Graph ready, passes::run_pipeline(sized, ops::table(), "inference"));
  InputOptions random = inputs;
  random.files.clear();
  ISOMER_TRY(const std::vector<Tensor> values, make_inputs(ready, random));
  ExecutorOptions how;
  how.reference = true;
  how.optimise = false;
  ISOMER_TRY(Executor executor, Executor::make(ready, how));
  ISOMER_CHECK_OK(executor.run(values));
  return {};
}

}  // namespace

Expected<ir::Graph> with_sizes(const ir::Graph& g, const Sizes& sizes) {
  if (sizes.empty()) return g;
  std::vector<Type> types;
  for (const ir::Node& n : g.inputs()) {
    Type t = n.types[0];
    std::vector<Dim> dims;
    for (size_t i = 0; t.shape.has_rank() && i < t.shape.rank(); ++i)
      dims.push_back(t.shape[i].substitute([&](const std::string& s) -> std::optional<Dim> {
        const auto it = sizes.find(s);
        return it == sizes.end() ? std::nullopt : std::optional(Dim(it->second));
      }));
    if (t.shape.has_rank()) t.shape = Shape(std::move(dims));
    types.push_back(std::move(t));
  }
  return specialise(g, types, {});
}

Expected<Sizes> open_sizes(const ir::Graph& graph, const Sizes& given, const InputOptions& inputs) {
  const std::vector<OpenSize> open = open_sizes_of(graph);
  std::optional<Diagnostic> first;
  for (const int64_t batch : kBatches) {
    const bool usual = batch == kBatches[0];
    std::vector<Sizes> all = choices(open, given, batch, std::span(kLengths).first(usual ? std::size(kLengths) : 1));
    // Nothing to choose from: a run would tell nothing that is worth its time.
    if (usual && all.size() == 1 && (open.empty() || with_sizes(graph, all[0]).ok())) return std::move(all[0]);
    for (Sizes& sizes : all) {
      const auto done = attempt(graph, sizes, inputs);
      if (done.ok()) return std::move(sizes);
      if (!first) first = done.error();
    }
  }
  return first->note("no size that was tried fits; --dim NAME=N fixes one");
}

}  // namespace isomer::driver
