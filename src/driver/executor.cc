#include "driver/executor.h"

#include <algorithm>
#include <chrono>

#include "base/clock_seconds.h"
#include "driver/program.h"
#include "interp/interp.h"
#include "ops/table.h"
#include "passes/manager.h"

namespace isomer::driver {
namespace {

using Clock = std::chrono::steady_clock;

// A part of a model below this many elements is interpreted until it has run this often.
constexpr int64_t kSmallElements = 1 << 14;
constexpr uint64_t kManyRuns = 32;
// No model that people train has so many nodes; a file that says so is not worth minutes of compiling, unless a module is asked for.
constexpr size_t kMostNodes = 50000;
constexpr const char* kTooMany = "the graph has more than 50000 nodes, which would take a minute or more to compile";

bool same(const std::vector<Tensor>& inputs, const std::vector<std::vector<int64_t>>& shapes) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].dims() != shapes[i]) return false;
  return inputs.size() == shapes.size();
}

std::vector<Tensor> without(const std::vector<Tensor>& inputs, const std::vector<size_t>& left_out) {
  std::vector<Tensor> out;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (std::find(left_out.begin(), left_out.end(), i) == left_out.end()) out.push_back(inputs[i]);
  return out;
}

bool is_static(const ir::Graph& g) {
  return std::all_of(g.inputs().begin(), g.inputs().end(),
                     [](const ir::Node& n) { return n.types[0].shape.is_static(); });
}

}  // namespace

const Variants::Entry* Variants::lookup(const std::vector<Tensor>& inputs) {
  for (Entry& e : entries_) {
    if (!same(inputs, e.shapes)) continue;
    bool equal = true;
    for (size_t k = 0; equal && k < e.contents.size(); ++k) equal = inputs[e.found.looked_at[k]] == e.contents[k];
    if (!equal) continue;
    e.used = runs_;
    return &e;
  }
  return nullptr;
}

bool Variants::worth_compiling(const ir::Graph& g) const {
  if (!inner_ || options_.eager || runs_ > kManyRuns) return true;
  int64_t elements = 0;
  for (const ir::Node& n : g.nodes())
    for (const Type& t : n.types)
      if (t.shape.is_static() && n.op != &ir::const_op())
        if (const auto count = checked_elements(t.dtype, t.shape.values()); count.ok()) elements += *count;
  return elements >= kSmallElements;
}

Expected<std::optional<Variants::Entry>> Variants::make(const std::vector<Tensor>& inputs, bool with_contents) {
  std::optional<Entry> made = Entry();
  Entry& entry = *made;
  std::vector<Type> types;
  for (const Tensor& t : inputs) {
    types.push_back(t.type());
    entry.shapes.push_back(t.dims());
  }
  std::vector<std::optional<Tensor>> contents(inputs.size());
  ISOMER_TRY(ir::Graph g, specialise(graph_, types, contents));
  std::vector<size_t>& looked_at = entry.found.looked_at;
  if (looked_at = size_inputs(g); !looked_at.empty()) {
    if (!with_contents) return std::optional<Entry>();
    for (const size_t i : looked_at) entry.contents.push_back(*(contents[i] = inputs[i]));
    ISOMER_TRY(g, specialise(graph_, types, contents));
  }
  // What comes with other sizes every time is not worth compiling again and again.
  const bool thrashes = (inner_ || !looked_at.empty()) && misses_ > 2 * options_.variants && misses_ * 4 > runs_;
  if (g.nodes().size() > kMostNodes) {
    entry.found.program = Program::interpreted(std::move(g), options_, kTooMany);
    return made;
  }
  entry.small = !thrashes && !worth_compiling(g);
  if (thrashes || entry.small) {
    entry.found.program = Program::interpreted(
        std::move(g), options_, thrashes ? "its sizes change from run to run" : "it is too small to be compiled");
    return made;
  }
  const auto start = Clock::now();
  if (options_.optimise) {
    ISOMER_TRY(g, passes::run_pipeline(g, ops::table(), "inference"));
  }
  pass_seconds_ += seconds_since(start);
  ISOMER_TRY(entry.found.program, Program::build(std::move(g), options_));
  return made;
}

Expected<Variants::Found> Variants::find(const std::vector<Tensor>& inputs) {
  const std::lock_guard lock(mutex_);
  ++runs_;
  if (const Entry* e = lookup(inputs)) {
    if (!e->small || runs_ <= kManyRuns) return e->found;
    entries_.erase(entries_.begin() + (e - entries_.data()));  // small, but it comes often
  }
  ++misses_;
  ISOMER_TRY(auto made, make(inputs, true));
  return keep(*std::move(made));
}

Expected<void> Variants::foresee(const std::vector<Tensor>& shapes) {
  const std::lock_guard lock(mutex_);
  ISOMER_TRY(auto made, make(shapes, false));
  if (!made) return {};
  ++runs_, ++misses_;
  keep(*std::move(made));
  return {};
}

const Variants::Found& Variants::keep(Entry entry) {
  entry.used = runs_;
  if (entries_.size() >= std::max<size_t>(1, options_.variants))
    entries_.erase(std::min_element(entries_.begin(), entries_.end(),
                                    [](const Entry& a, const Entry& b) { return a.used < b.used; }));
  entries_.push_back(std::move(entry));
  return entries_.back().found;
}

Expected<std::vector<Tensor>> Variants::run(const std::vector<Tensor>& inputs) {
  ISOMER_CHECK_OK(interp::check_inputs(graph_, inputs));
  ISOMER_TRY(const Found found, find(inputs));
  return found.program->run(without(inputs, found.looked_at));
}

std::shared_ptr<Program> Variants::latest() const {
  const std::lock_guard lock(mutex_);
  const auto it = std::max_element(entries_.begin(), entries_.end(),
                                   [](const Entry& a, const Entry& b) { return a.used < b.used; });
  return it == entries_.end() ? nullptr : it->found.program;
}

size_t Variants::kept() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

void Variants::add_report(std::vector<NodeReport>& report) const {
  const std::lock_guard lock(mutex_);
  std::vector<NodeReport> all;
  for (const Entry& e : entries_) e.found.program->add_report(all);
  for (NodeReport& n : all) {
    const bool told = std::any_of(report.begin(), report.end(), [&](const NodeReport& r) {
      return r.node == n.node && r.op == n.op && r.by == n.by && r.reason == n.reason;
    });
    if (!told) report.push_back(std::move(n));
  }
}

namespace {

// All pieces of a model, and its versions at other sizes, run on the same threads.
ExecutorOptions on_shared_threads(ExecutorOptions options) {
  if (!options.reference && !options.native.shared) options.native.shared = shared_threads(options.native.threads);
  return options;
}

}  // namespace

struct Executor::Impl {
  Impl(const ir::Graph& graph, const ExecutorOptions& options) : variants(graph, on_shared_threads(options), false) {
    if (options.reference) reference = Program::interpreted(graph, options, "the interpreter was asked for");
  }
  Variants variants;
  std::shared_ptr<Program> reference;

  std::shared_ptr<Program> latest() const { return reference ? reference : variants.latest(); }
};

Executor::Executor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Executor::Executor(Executor&&) noexcept = default;
Executor& Executor::operator=(Executor&&) noexcept = default;
Executor::~Executor() = default;

Expected<Executor> Executor::make(const ir::Graph& graph, const ExecutorOptions& options) {
  Executor executor(std::make_unique<Impl>(graph, options));
  if (options.reference || !is_static(graph)) return executor;
  std::vector<Tensor> shapes;  // whose contents nobody looks at
  for (const ir::Node& n : graph.inputs()) {
    if (n.types[0].dtype == DType::Opaque) return executor;
    ISOMER_CHECK_OK(checked_elements(n.types[0].dtype, n.types[0].shape.values()));
    shapes.emplace_back(n.types[0].dtype, n.types[0].shape.values(), nullptr, nullptr);
  }
  ISOMER_CHECK_OK(executor.impl_->variants.foresee(shapes));
  return executor;
}

Expected<void> Executor::prepare(const std::vector<Tensor>& inputs) {
  if (impl_->reference) return {};
  ISOMER_CHECK_OK(interp::check_inputs(impl_->variants.graph(), inputs));
  ISOMER_CHECK_OK(impl_->variants.find(inputs));
  return {};
}

Expected<std::vector<Tensor>> Executor::run(const std::vector<Tensor>& inputs) {
  return impl_->reference ? impl_->reference->run(inputs) : impl_->variants.run(inputs);
}

ExecutorFacts Executor::facts() const {
  ExecutorFacts facts;
  facts.pass_seconds = impl_->variants.pass_seconds();
  facts.versions = impl_->variants.kept();
  if (const auto program = impl_->latest()) program->add_facts(facts);
  return facts;
}

std::vector<NodeReport> Executor::report() const {
  std::vector<NodeReport> out;
  if (const auto program = impl_->latest()) program->add_report(out);
  return out;
}

std::vector<StepTime> Executor::times() const {
  std::vector<StepTime> out;
  if (const auto program = impl_->latest()) program->add_times(out);
  return out;
}

namespace {

// Inside the bodies of a node, at whatever sizes they run.
void add_bodies(const ir::Node& n, std::vector<NodeReport>& out) {
  for (const auto& [key, value] : n.attrs) {
    const auto* body = std::get_if<ir::GraphRef>(&value);
    if (!body) continue;
    for (const ir::Node& inner : (*body)->nodes()) {
      if (!ir::is_computed(inner)) continue;
      if (!may_compile(inner))
        out.push_back({!inner.label.empty() || inner.names.empty() ? inner.label : inner.names[0], inner.op->name,
                       By::Reference, opaque_choice().reason});
      add_bodies(inner, out);
    }
  }
}

}  // namespace

std::vector<NodeReport> plan_report(const ir::Graph& graph) {
  std::vector<NodeReport> out;
  const auto add = [&](const ir::Node& n, const Choice& c) {
    if (c.by == By::Compiled || !ir::is_computed(n)) return;
    out.push_back({!n.label.empty() || n.names.empty() ? n.label : n.names[0], n.op->name, c.by, c.reason});
    if (c.by == By::Driven) add_bodies(n, out);
  };
  const bool many = graph.nodes().size() > kMostNodes;
  if (many || !is_static(graph)) {
    for (const ir::Node& n : graph.nodes())
      if (many || !may_compile(n)) add(n, many ? Choice{By::Reference, kTooMany} : opaque_choice());
    return out;
  }
  const auto optimised = passes::run_pipeline(graph, ops::table(), "inference");
  const ir::Graph& g = optimised.ok() ? *optimised : graph;
  const Partition p = partition(g);
  for (uint32_t i = 0; i < g.nodes().size(); ++i) add(g.node(i), p.nodes[i]);
  return out;
}

}  // namespace isomer::driver
