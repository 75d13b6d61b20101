#include "cost/pricer.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <unordered_map>

#include "compile/lower.h"
#include "cost/constants.h"
#include "cost/roofline.h"
#include "passes/manager.h"

namespace isomer::cost {

struct Pricer::Impl {
  const ir::OpTable* table = nullptr;
  PricerOptions options;
  Machine machine;
  Constants constants;
  std::mutex mutex;
  std::vector<Diagnostic> warnings;

  Expected<compile::Lowered> lowered(const ir::Graph& graph);
  double estimate_of(const compile::Step& step, const loop::Function& function) const;
};

Pricer::Pricer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Pricer::~Pricer() = default;

Expected<std::shared_ptr<Pricer>> Pricer::make(const ir::OpTable& table, PricerOptions options) {
  auto impl = std::make_unique<Impl>();
  impl->table = &table;
  impl->machine = nominal_machine(options.target);
  impl->options = std::move(options);
  return std::shared_ptr<Pricer>(new Pricer(std::move(impl)));
}

// The plan that the compiler makes, but for the values of large constants.
Expected<compile::Lowered> Pricer::Impl::lowered(const ir::Graph& graph) {
  passes::Options pass_options;
  // Whatever depends on constants alone is computed when the model is compiled.
  pass_options.limits.node_growth = pass_options.limits.total_growth = int64_t{1} << 32;
  pass_options.evaluate = [this](const ir::OpContext& node) { return constants.evaluate(node); };
  const auto in_use = constants.use();
  ISOMER_TRY(const ir::Graph ready, passes::run_pipeline(graph, *table, "inference", pass_options));
  compile::LowerOptions lower_options;
  lower_options.target = options.target;
  lower_options.weights = false;
  return compile::lower(ready, *table, lower_options);
}

double Pricer::Impl::estimate_of(const compile::Step& step, const loop::Function& function) const {
  return estimated_seconds({work_of(function, options.target), step.tasks, options.threads}, machine, options.target);
}

Expected<std::vector<KernelPrice>> Pricer::kernels(const ir::Graph& graph) {
  ISOMER_TRY(const compile::Lowered plan, impl_->lowered(graph));
  std::map<std::string, const loop::Function*> functions;
  for (const loop::Function& f : plan.functions) functions[f.name] = &f;
  std::vector<KernelPrice> out;
  for (const compile::Step& step : plan.plan.steps) {
    KernelPrice k{step.function, step.origin, step.tasks, step.flops, step.bytes, 0, 0, false};
    k.seconds = k.estimate = impl_->estimate_of(step, *functions.at(step.function));
    out.push_back(std::move(k));
  }
  return out;
}

Expected<Price> Pricer::price(const ir::Graph& graph) { return estimate(graph); }

Expected<Price> Pricer::estimate(const ir::Graph& graph) {
  ISOMER_TRY(const std::vector<KernelPrice> parts, kernels(graph));
  Price price;
  price.kernels = price.estimated = parts.size();
  for (const KernelPrice& k : parts) price.seconds += k.estimate;
  return price;
}

double Pricer::step_seconds() const { return impl_->machine.step_seconds; }
const PricerOptions& Pricer::options() const { return impl_->options; }

std::vector<Diagnostic> Pricer::take_warnings() {
  const std::lock_guard lock(impl_->mutex);
  return std::exchange(impl_->warnings, {});
}

}  // namespace isomer::cost
