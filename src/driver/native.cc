#include "driver/native.h"

#ifdef ISOMER_HAS_COMPILER

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>

#include "codegen/codegen.h"
#include "compile/compose.h"
#include "compile/executable.h"
#include "compile/kernel_code.h"
#include "compile/procedures.h"
#include "compile/selection.h"
#include "ops/table.h"

namespace isomer::driver {

struct Native::Impl {
  NativeOptions options;
  std::shared_ptr<const compile::Executable> executable;
  AccuracyFacts accuracy;
  std::mutex mutex;
  std::vector<compile::Runner> idle;
};

Native::Native(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Native::~Native() = default;

namespace {

// Values of a model that nobody could hold are refused before they are asked of the system.
Expected<void> admit(const compile::Plan& plan) {
  uint64_t total = plan.arena_bytes;
  for (const compile::Port& p : plan.outputs) total += p.byte_size();
  const auto memory = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
  if (total > memory / 4 * 3)
    return Diagnostic("E-too-large", fmt::format("the values of model {} take {} bytes, and this machine has {}",
                                                 isomer::quoted(plan.model), total, memory));
  return {};
}

using ExecutablePtr = std::shared_ptr<const compile::Executable>;

Expected<ExecutablePtr> build_at(const ir::Graph& graph, const NativeOptions& options,
                                 const compile::Rounding& rounding) {
  compile::ExecutableOptions o;
  ISOMER_TRY(o.lower.target, codegen::host_target());
  if (options.naive) {
    o.lower.fuse = o.lower.contract = false;
    o.wide = true;
  }
  o.lower.winograd = rounding.filtering;
  o.lower.split = rounding.split;
  o.lower.bounded = true;
  o.compile_threads = options.compile_threads;
  o.dump_dir = options.dump;
  if (options.watch) o.watch = *options.watch;
  o.code = options.code.get();
  ISOMER_TRY(ExecutablePtr executable, compile::Executable::build(graph, ops::table(), o));
  ISOMER_CHECK_OK(admit(executable->plan()));
  return executable;
}

Expected<double> tried(Trial& trial, const ExecutablePtr& executable, int threads) {
  ISOMER_TRY(const std::vector<Tensor> inputs, trial.inputs());
  ISOMER_TRY(compile::Runner runner, compile::Runner::make(executable, threads));
  ISOMER_TRY(const std::vector<Tensor> outputs, runner.run(inputs));
  return trial.difference(outputs);
}

}  // namespace

Expected<std::shared_ptr<Native>> Native::build(const ir::Graph& graph, const NativeOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  impl->options.code.reset();  // what is running holds its own
  NativeOptions how = options;
  if (!how.code) {  // the strict form has most kernels too
    ISOMER_TRY(loop::Target target, codegen::host_target());
    how.code = std::make_shared<compile::KernelCode>(std::move(target));
  }
  RoundingChoice choice(graph, options.naive ? Accuracy::Unchecked : options.accuracy);
  std::optional<Trial> trial;
  for (bool good = false; !good;) {
    ISOMER_TRY(impl->executable, build_at(graph, how, choice.allowed()));
    if (choice.settled(impl->executable->plan().rounding)) break;
    if (!trial) trial.emplace(graph, how.threads, how.compile_threads, how.code);
    good = choice.accept(tried(*trial, impl->executable, options.threads));
  }
  impl->accuracy = choice.facts();
  return std::shared_ptr<Native>(new Native(std::move(impl)));
}

Expected<std::vector<Tensor>> Native::run(const std::vector<Tensor>& inputs) {
  std::optional<compile::Runner> runner;
  {
    const std::lock_guard lock(impl_->mutex);
    if (!impl_->idle.empty()) {
      runner.emplace(std::move(impl_->idle.back()));
      impl_->idle.pop_back();
    }
  }
  if (!runner) {
    const uint32_t flags = (impl_->options.poison ? ISO_POISON : 0) | (impl_->options.profile ? ISO_PROFILE : 0);
    const NativeOptions& o = impl_->options;
    auto made = o.shared ? compile::Runner::make(impl_->executable, o.shared, flags)
                         : compile::Runner::make(impl_->executable, o.threads, flags);
    if (!made.ok()) return made.error();
    runner.emplace(*std::move(made));
  }
  auto outputs = runner->run(inputs);
  const std::lock_guard lock(impl_->mutex);
  impl_->idle.push_back(*std::move(runner));
  return outputs;
}

NativeFacts Native::facts() const {
  const compile::Plan& plan = impl_->executable->plan();
  const auto looks = std::count_if(plan.steps.begin(), plan.steps.end(),
                                   [](const compile::Step& s) { return s.function == compile::kWatchStep; });
  return {plan.steps.size() - static_cast<size_t>(looks),
          impl_->executable->function_count(),
          plan.arena_bytes,
          impl_->executable->least_arena_bytes(),
          plan.weight_bytes(),
          plan.scratch_bytes(),
          plan.target.name,
          impl_->accuracy};
}

std::vector<StepTime> Native::times() const {
  if (!impl_->options.profile) return {};
  const std::lock_guard lock(impl_->mutex);
  std::vector<StepTime> best;
  for (const compile::Runner& runner : impl_->idle) {
    std::vector<StepTime> all;
    for (const iso_profile& p : runner.profile())
      all.push_back({p.name, p.origin, p.tasks, p.flops, p.bytes, p.runs, p.seconds, p.fastest});
    if (best.empty() || (!all.empty() && all[0].runs > best[0].runs)) best = std::move(all);
  }
  return best;
}

std::shared_ptr<compile::Threads> shared_threads(int count) { return std::make_shared<compile::Threads>(count); }

bool may_compile(const ir::Node& node) {
  return !node.op->kernel || compile::is_control_flow(node) || compile::is_procedure(node) ||
         compile::is_selection(node);
}

bool is_procedure(const ir::Node& node) { return compile::is_procedure(node); }

bool has_bodies(const ir::Node& node) { return compile::is_control_flow(node); }

Expected<void> can_compile(const ir::Graph& graph, bool bounded) {
  return compile::can_lower(graph, ops::table(), bounded);
}

}  // namespace isomer::driver

#else

namespace isomer::driver {

struct Native::Impl {};
Native::Native(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Native::~Native() = default;

Expected<std::shared_ptr<Native>> Native::build(const ir::Graph&, const NativeOptions&) { return no_generator(); }
Expected<std::vector<Tensor>> Native::run(const std::vector<Tensor>&) { return no_generator(); }
NativeFacts Native::facts() const { return {}; }
std::vector<StepTime> Native::times() const { return {}; }
Expected<void> can_compile(const ir::Graph&, bool) { return no_generator(); }
bool is_procedure(const ir::Node&) { return false; }
bool has_bodies(const ir::Node&) { return false; }
bool may_compile(const ir::Node&) { return false; }
std::shared_ptr<compile::Threads> shared_threads(int) { return nullptr; }

}  // namespace isomer::driver

#endif
