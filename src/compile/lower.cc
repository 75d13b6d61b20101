#include "compile/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "compile/arena.h"
#include "compile/chained_products.h"
#include "compile/finish.h"
#include "compile/group.h"
#include "compile/in_place.h"
#include "compile/kernel.h"
#include "compile/kernel_cache.h"
#include "compile/labels.h"
#include "compile/lower_group.h"
#include "compile/pack.h"
#include "compile/stages.h"
#include "compile/storage.h"
#include "loop/print.h"
#include "loop/signature.h"

namespace isomer::compile {

namespace {

constexpr size_t kPreparedFor = 24;  // steps: later the memory is worth more than the work

class Lowering {
 public:
  Lowering(StageGraph graph, const LowerOptions& options) : g_(std::move(graph)), options_(options) {}
  Expected<Lowered> run(const ir::Graph& source);

 private:
  void ports(const ir::Graph& source);
  void add_step(Kernel kernel, const std::string& signature);
  void prepare_once();
  bool prepares(const Kernel& kernel) const;
  void write_in_place();
  bool shares(size_t step, const std::map<int, std::pair<size_t, size_t>>& uses);
  void name_functions();
  uint64_t stored_bytes(int value) const;
  void place_values();
  void turn_around();
  int root(int value) const;
  void add_groups(const Scene& scene, const Grouped& model);
  void add_group(const Scene& scene, const Group& group, const Method& method);
  bool add_with_totals(const Scene& scene, const Group& group, Algorithm algorithm);
  std::string function_for(loop::Function f, const std::string& signature);
  uint32_t weight(const Argument& a);

  StageGraph g_;
  const LowerOptions& options_;
  std::vector<Layout> layouts_;
  std::vector<std::vector<int>> readers_;
  KernelCache repeated_;  // of groups that this graph has several times
  Lowered out_;
  std::vector<Kernel> kernels_;               // by step
  std::vector<std::string> signatures_;       // of their functions
  std::set<int> ports_;                       // values that lie in the caller's buffers
  std::map<int, int> inside_;                 // a value -> the one that it is written over
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
  out_.plan.steps.push_back(std::move(step));
  out_.plan.rounding.split |= kernel.rounding.split;
  out_.plan.rounding.filtering |= kernel.rounding.filtering;
  kernels_.push_back(std::move(kernel));
  signatures_.push_back(signature);
}

// Whether all that a step writes is known to kernels alone: operands brought into the form that a product wants.
bool Lowering::prepares(const Kernel& kernel) const {
  for (size_t i = 0; i < kernel.arguments.size(); ++i) {
    const StageValue& v = g_.values[static_cast<size_t>(kernel.arguments[i].value)];
    if (kernel.function.buffers[i].written && (v.stage >= 0 || v.input >= 0 || v.constant)) return false;
  }
  return true;
}

// Products that read the same value want it in the same form (rows of queries, keys and values; branches of a module): a step that does
// what one shortly before it did is left out.
void Lowering::prepare_once() {
  std::map<int, int> same;  // what such a step would have written -> what is there
  std::vector<size_t> kept;
  const auto repeats = [&](const Kernel& a, const Kernel& b) {
    if (a.arguments.size() != b.arguments.size()) return false;
    for (size_t i = 0; i < a.arguments.size(); ++i)
      if (!a.function.buffers[i].written &&
          (a.arguments[i].value != b.arguments[i].value || a.arguments[i].packing != b.arguments[i].packing))
        return false;
    return true;
  };
  for (size_t s = 0; s < kernels_.size(); ++s) {
    Kernel& k = kernels_[s];
    for (Argument& a : k.arguments)
      if (const auto it = same.find(a.value); it != same.end()) a.value = it->second;
    const auto near = kept.end() - static_cast<ptrdiff_t>(std::min(kept.size(), kPreparedFor));
    const auto earlier = std::find_if(near, kept.end(), [&](size_t t) {
      return signatures_[t] == signatures_[s] && prepares(k) && repeats(kernels_[t], k);
    });
    if (earlier == kept.end()) {
      kept.push_back(s);
      continue;
    }
    for (size_t i = 0; i < k.arguments.size(); ++i)
      if (k.function.buffers[i].written) same[k.arguments[i].value] = kernels_[*earlier].arguments[i].value;
    std::vector<std::string>& origin = out_.plan.steps[*earlier].origin;
    for (const std::string& o : k.function.origin)
      if (std::find(origin.begin(), origin.end(), o) == origin.end()) origin.push_back(o);
  }
  for (size_t i = 0; i < kept.size(); ++i) {
    if (kept[i] == i) continue;
    kernels_[i] = std::move(kernels_[kept[i]]);
    signatures_[i] = std::move(signatures_[kept[i]]);
    out_.plan.steps[i] = std::move(out_.plan.steps[kept[i]]);
  }
  kernels_.resize(kept.size());
  signatures_.resize(kept.size());
  out_.plan.steps.resize(kept.size());
}

// Makes a pair of arguments of the step one, where what is read is not needed afterwards. `uses`: first and last step of each
// root.
bool Lowering::shares(size_t step, const std::map<int, std::pair<size_t, size_t>>& uses) {
  Kernel& k = kernels_[step];
  const auto in_arena = [&](int value) {
    return !g_.values[static_cast<size_t>(value)].constant && !ports_.count(value) && !inside_.count(value);
  };
  const auto plain = [&](int value) {
    return static_cast<size_t>(value) < layouts_.size() && layouts_[static_cast<size_t>(value)].offset == 0;
  };
  for (size_t w = 0; w < k.arguments.size(); ++w) {
    const int out = k.arguments[w].value;
    if (!k.function.buffers[w].written || root(out) != out || !plain(out) || !in_arena(out)) continue;
    if (uses.at(out) == std::pair(step, step) || uses.at(out).first != step)
      continue;  // nobody reads it, or it is shared
    for (size_t r = 0; r < k.arguments.size(); ++r) {
      const int from = root(k.arguments[r].value);
      if (k.function.buffers[r].written || k.arguments[r].packing || !plain(k.arguments[r].value)) continue;
      if (g_.values[static_cast<size_t>(from)].constant || ports_.count(from) || uses.at(from).second != step) continue;
      if (stored_bytes(from) != stored_bytes(out)) continue;
      const auto same = std::count_if(k.arguments.begin(), k.arguments.end(),
                                      [&](const Argument& a) { return root(a.value) == from; });
      if (same != 1 || !may_share(k.function, static_cast<int>(r), static_cast<int>(w))) continue;
      k.function = sharing(std::move(k.function), static_cast<int>(r), static_cast<int>(w));
      k.arguments.erase(k.arguments.begin() + static_cast<ptrdiff_t>(r));
      inside_[out] = from;
      return true;
    }
  }
  return false;
}

// What a step reads for the last time may be where it writes.
void Lowering::write_in_place() {
  std::map<int, std::pair<size_t, size_t>> uses;
  for (size_t s = 0; s < kernels_.size(); ++s)
    for (const Argument& a : kernels_[s].arguments) {
      const auto [it, fresh] = uses.try_emplace(root(a.value), s, s);
      it->second.second = s;
    }
  for (size_t s = 0; s < kernels_.size(); ++s)
    if (shares(s, uses)) signatures_[s] = loop::signature(kernels_[s].function);
}

void Lowering::name_functions() {
  for (size_t s = 0; s < kernels_.size(); ++s)
    out_.plan.steps[s].function = function_for(kernels_[s].function, signatures_[s]);
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

uint64_t Lowering::stored_bytes(int value) const {
  const auto v = static_cast<size_t>(value);
  const auto all = static_cast<uint64_t>(g_.values[v].bytes());
  return v < layouts_.size() ? std::max(all, static_cast<uint64_t>(layouts_[v].span) * size_of(g_.values[v].dtype))
                             : all;
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
      if (fresh) intervals.push_back({stored_bytes(value), static_cast<int>(s), static_cast<int>(s)});
      intervals[it->second].last = static_cast<int>(s);
    }
  for (const auto& [value, over] : inside_)
    intervals[interval_of.at(value)].inside = static_cast<int>(interval_of.at(over));
  const Arena arena = plan_arena(intervals);
  std::vector<int> last(intervals.size(), -1);  // of what lies in a place of its own
  for (size_t i = 0; i < intervals.size(); ++i) {
    size_t at = i;
    while (intervals[at].inside >= 0) at = static_cast<size_t>(intervals[at].inside);
    last[at] = std::max(last[at], intervals[i].last);
  }
  for (const auto& [value, i] : interval_of) {
    places[value] = {Space::Arena, 0, arena.offsets[i]};
    if (last[i] >= 0)
      out_.plan.steps[static_cast<size_t>(last[i])].freed.push_back({arena.offsets[i], intervals[i].bytes});
  }
  out_.plan.arena_bytes = arena.bytes;
  out_.least_arena_bytes = arena.lower_bound;
  for (size_t s = 0; s < kernels_.size(); ++s)
    for (size_t i = 0; i < kernels_[s].arguments.size(); ++i) {
      const Argument& a = kernels_[s].arguments[i];
      const int value = root(a.value);
      const StageValue& v = g_.values[static_cast<size_t>(value)];
      if (v.constant) {
        const uint32_t w = weight({value, a.packing});
        out_.plan.steps[s].arguments.push_back({Space::Weight, w, 0});
        if (!options_.weights) out_.plan.weights[w].size = kernels_[s].function.buffers[i].bytes();
      } else {
        Place place = places.at(value);
        // Nothing has no parts: their places would be beyond its end.
        if (static_cast<size_t>(a.value) < layouts_.size() && v.bytes() > 0)
          place.offset += static_cast<uint64_t>(layouts_[static_cast<size_t>(a.value)].offset) * size_of(v.dtype);
        out_.plan.steps[s].arguments.push_back(place);
      }
    }
}

// Steps that read the same large weights one after the other (a recurrent layer) go through them in turns from either end: what one
// has read last is still in the second cache when the next one begins.
void Lowering::turn_around() {
  const auto large = static_cast<uint64_t>(options_.target.l2_bytes) / 2;
  std::map<uint32_t, bool> backward;  // by weight: how it was read last
  for (Step& step : out_.plan.steps)
    for (const Place& p : step.arguments) {
      if (p.space != Space::Weight || step.control != Control::Kernel || step.tasks <= 1 ||
          out_.plan.weights[p.index].size <= large)
        continue;
      const auto [it, fresh] = backward.try_emplace(p.index, false);
      if (!fresh) it->second = !it->second;
      step.backward = it->second;
    }
}

// A sum over all places of what a window's kernel computes (a global pool) is left with the sums of its lines.
bool Lowering::add_with_totals(const Scene& scene, const Group& group, Algorithm algorithm) {
  if (!options_.contract || !options_.fuse || group.contraction) return false;
  if (algorithm != Algorithm::Standard && algorithm != Algorithm::Windows) return false;
  const int value = scene.stage(group.stages.back()).value;
  Totals totals;
  for (const int r : readers_[static_cast<size_t>(value)]) {
    const ModelStage& s = scene.stage(r);
    const bool own = std::find(group.stages.begin(), group.stages.end(), r) != group.stages.end();
    if (!own && s.runs() && s.is_reduction() && s.body->axes.size() > 1) totals.stage = r;
  }
  if (totals.stage < 0) return false;
  auto kernel = window_kernel(scene, group, "kernel", &totals);
  if (!kernel) return false;
  const std::string signature = loop::signature(kernel->function);
  add_step(*std::move(kernel), signature);
  if (totals.value < 0) return true;
  for (size_t v = layouts_.size(); v < g_.values.size(); ++v) layouts_.push_back(row_major(g_.values[v].dims));
  ModelStage& s = g_.stages[static_cast<size_t>(totals.stage)];
  te::Axis line = s.body->axes[0];
  line.extent = Dim(totals.lines);
  te::Axis channel{totals.channel, "c", Dim(totals.channels)};
  const te::Expr at = te::Expr(line) * te::Expr(totals.channels) + te::Expr(channel);
  s.body = te::reduce(te::Combiner::Sum, {line}, te::Expr::read(totals.value, DType::F32, {at}));
  return true;
}

void Lowering::add_group(const Scene& scene, const Group& group, const Method& method) {
  const bool shared = options_.cache && !options_.weights;
  if ((!shared || options_.as_run) && add_with_totals(scene, group, method.algorithm)) return;
  const KernelCache::Key key = KernelCache::key(scene, group, method);
  const auto first = static_cast<int>(g_.values.size()), own = static_cast<int>(key.values.size());
  const auto known = cached_kernels(scene, group, method, options_, key, g_, false, shared ? nullptr : &repeated_);
  g_.values.insert(g_.values.end(), known->added.begin(), known->added.end());
  for (size_t i = 0; i < known->kernels.size(); ++i) {
    Kernel k = known->kernels[i];
    for (Argument& a : k.arguments)
      a.value = a.value >= own ? a.value - own + first
                : a.value < 0  ? -1 - a.value
                               : key.values[static_cast<size_t>(a.value)];
    k.function.origin.clear();
    add_origin(k.function, scene, group);
    add_step(std::move(k), known->signatures[i]);
  }
}

void Lowering::add_groups(const Scene& scene, const Grouped& model) {
  std::map<size_t, std::vector<Kernel>> chained;  // by the last of its groups
  std::set<size_t> inside;
  if (options_.fuse && options_.contract)
    for (const Chain& c : chains_of(g_, model.groups)) {
      // A way of its own was chosen for it, or another chain has it.
      const auto taken = [&](size_t g) {
        return !model.methods[g].standard() || inside.count(g) > 0 || chained.count(g) > 0;
      };
      if (taken(c.first) || taken(c.rows) || taken(c.second)) continue;
      auto kernels =
          chained_kernels(scene, model.groups[c.first], model.groups[c.rows], model.groups[c.second], options_);
      if (!kernels) continue;
      inside.insert({c.first, c.rows});
      chained[c.second] = *std::move(kernels);
    }
  for (size_t i = 0; i < model.groups.size(); ++i) {
    if (inside.count(i)) continue;
    const auto it = chained.find(i);
    if (it == chained.end()) {
      add_group(scene, model.groups[i], model.methods[i]);
      continue;
    }
    for (Kernel& kernel : it->second) {
      const std::string signature = loop::signature(kernel.function);
      add_step(std::move(kernel), signature);
    }
  }
}

Expected<Lowered> Lowering::run(const ir::Graph& source) {
  give_outputs_their_own_stages(g_);
  Grouped model = grouped(std::move(g_), options_);
  if (options_.fuse) apply_labels(labels_of(source, options_.target), model);
  if (options_.piece) open_ports(model);
  g_ = std::move(model.graph);
  layouts_ = choose_layouts(g_, model.groups, model.orders, options_.piece);
  readers_ = g_.readers();
  ports(source);
  out_.plan.model = source.name();
  out_.plan.target = options_.target;
  const Scene scene = make_scene(g_, layouts_, readers_, options_);
  add_groups(scene, model);
  for (const int v : g_.inputs) ports_.insert(v);
  for (const int v : g_.outputs) ports_.insert(root(v));
  if (options_.fuse) prepare_once();
  if (options_.fuse && options_.in_place && (!options_.cache || options_.as_run)) write_in_place();
  name_functions();
  place_values();
  turn_around();
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

Expected<Lowered> lower_expressions(const ir::Graph& graph, const ir::OpTable& table, const LowerOptions& options,
                                    const Bounds& bounds) {
  ISOMER_TRY(StageGraph stages, stages_of(graph, table, bounds));
  return Lowering(std::move(stages), options).run(graph);
}

}  // namespace isomer::compile
