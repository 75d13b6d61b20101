#include "cost/pricer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "compile/kernel_cache.h"
#include "compile/lower.h"
#include "cost/constants.h"
#include "cost/machine.h"
#include "cost/measure.h"
#include "cost/store.h"
#include "passes/manager.h"
#include "runtime/isomer.h"

namespace isomer::cost {
namespace {

// Processes that share a store take turns in measuring, so that they do not time each other.
class Turn {
 public:
  explicit Turn(const Store& store) {
    if (store.in_memory()) return;
    file_ = open((store.path() + ".turn").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file_ >= 0) flock(file_, LOCK_EX);
  }
  ~Turn() {
    if (file_ >= 0) close(file_);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  int file_ = -1;
};

// What a kernel's time depends on: its loops and sizes, which arguments are weights, and the numbers by which the runtime
// decides about threads.
std::string key_of(const compile::Step& step, const std::string& signature) {
  std::string key;
  for (const compile::Place& p : step.arguments) key += p.space == compile::Space::Weight ? 'w' : 'v';
  const auto number = [&](double v) {
    const auto bits = std::bit_cast<uint64_t>(v);
    for (int i = 0; i < 8; ++i) key += static_cast<char>(bits >> (8 * i));
  };
  number(step.flops);
  number(step.bytes);
  return key + signature;
}

Subject subject_of(const compile::Step& step, const loop::Function& function) {
  Subject s{&function, {}, step.flops, step.bytes};
  for (const compile::Place& p : step.arguments)
    s.roles.push_back(p.space == compile::Space::Weight ? Role::Weight : Role::Value);
  return s;
}

// A plan with, for each step, its function and its key.
struct Priced {
  compile::Lowered lowered;
  std::vector<const loop::Function*> functions;
  std::vector<std::string> keys;
};

struct Known {
  double estimate = 0;
  double seconds = 0;   // when measured
  bool failed = false;  // cannot be measured
};

}  // namespace

struct Pricer::Impl {
  const ir::OpTable* table = nullptr;
  PricerOptions options;
  Machine machine;
  Constants constants;
  compile::KernelCache cache;
  std::unique_ptr<Store> store;
  std::mutex measuring;  // taken before `mutex`
  std::mutex mutex;      // of what follows
  std::unordered_map<std::string, Known> kernels;
  struct Whole {
    ir::Graph graph;
    Price price;
  };
  std::unordered_map<Hash128, Whole> graphs;

  void find_machine();
  Expected<Priced> plan(const ir::Graph& graph);
  Known known(const Priced& plan, size_t step, bool look_up);
  size_t measure(const Priced& plan);
  Expected<std::vector<KernelPrice>> kernel_prices(const ir::Graph& graph, bool measured, Price& price);
};

Pricer::Pricer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Pricer::~Pricer() = default;

// The peaks that the analytic model uses, as the store has them: the same for every process.
void Pricer::Impl::find_machine() {
  machine = nominal_machine(options.target);
  const std::pair<const char*, double*> facts[] = {
      {"flops", &machine.flops},
      {"instructions", &machine.instructions},
      {"l2_bandwidth", &machine.l2_bandwidth},
      {"far_bandwidth", &machine.far_bandwidth},
      {"step_seconds", &machine.step_seconds},
      {"region_seconds", &machine.region_seconds},
  };
  bool all = true;
  Machine stored = machine;
  for (const auto& [name, value] : facts) {
    const auto v = store->fact(name);
    all &= v && *v >= 0;
    if (v) *value = *v;
  }
  if (all) return;
  machine = stored;
  if (!options.measure) return;
  machine = measure_machine(options.target, options.threads);
  for (const auto& [name, value] : facts) store->set_fact(name, *value);
}

Expected<std::shared_ptr<Pricer>> Pricer::make(const ir::OpTable& table, PricerOptions options) {
  if (options.threads < 0 || options.threads > ISO_MAX_THREADS)
    return Diagnostic("E-cost", "the number of threads must be 1 to 256, or 0 for one per core");
  if (options.threads == 0) options.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  auto impl = std::make_unique<Impl>();
  impl->table = &table;
  impl->options = std::move(options);
  impl->store = Store::open(impl->options.store, setting_text(impl->options.target, impl->options.threads));
  impl->find_machine();
  return std::shared_ptr<Pricer>(new Pricer(std::move(impl)));
}

// The plan that the compiler makes, but for the values of large constants.
Expected<Priced> Pricer::Impl::plan(const ir::Graph& graph) {
  passes::Options pass_options;
  // Whatever depends on constants alone is computed when the model is compiled.
  pass_options.limits.node_growth = pass_options.limits.total_growth = int64_t{1} << 32;
  pass_options.evaluate = [this](const ir::OpContext& node) { return constants.evaluate(node); };
  const auto in_use = constants.use();
  ISOMER_TRY(const ir::Graph ready, passes::run_pipeline(graph, *table, "inference", pass_options));
  compile::LowerOptions lower_options;
  lower_options.target = options.target;
  lower_options.weights = false;
  lower_options.cache = &cache;
  Priced out;
  ISOMER_TRY(out.lowered, compile::lower(ready, *table, lower_options));
  std::map<std::string, size_t> by_name;
  for (size_t i = 0; i < out.lowered.functions.size(); ++i) by_name[out.lowered.functions[i].name] = i;
  for (const compile::Step& step : out.lowered.plan.steps) {
    const size_t f = by_name.at(step.function);
    out.functions.push_back(&out.lowered.functions[f]);
    out.keys.push_back(key_of(step, out.lowered.signatures[f]));
  }
  return out;
}

// What is known of a step's kernel; `look_up`: also in the store.
Known Pricer::Impl::known(const Priced& plan, size_t step, bool look_up) {
  constexpr size_t kMostKernels = 1 << 16;
  const std::string& key = plan.keys[step];
  Known k;
  bool fresh = true;
  {
    const std::lock_guard lock(mutex);
    if (const auto it = kernels.find(key); it != kernels.end()) {
      k = it->second;
      fresh = false;
    }
  }
  if (fresh) {
    const Load load{work_of(*plan.functions[step], options.target), plan.lowered.plan.steps[step].tasks,
                    options.threads};
    k.estimate = estimated_seconds(load, machine, options.target);
  }
  if (look_up && k.seconds == 0 && !k.failed)
    if (const auto timing = store->find(key)) {
      k.seconds = timing->seconds;
      fresh = true;
    }
  if (!fresh) return k;
  const std::lock_guard lock(mutex);
  if (kernels.size() >= kMostKernels) kernels.clear();
  kernels[key] = k;
  return k;
}

// Times the kernels of the plan that nobody knows; how many.
size_t Pricer::Impl::measure(const Priced& plan) {
  const std::lock_guard turn_of_thread(measuring);
  std::vector<size_t> open;
  std::map<std::string_view, size_t> seen;
  const auto collect = [&] {
    open.clear();
    seen.clear();
    for (size_t i = 0; i < plan.keys.size(); ++i) {
      const Known k = known(plan, i, true);
      if (k.seconds == 0 && !k.failed && seen.emplace(plan.keys[i], i).second) open.push_back(i);
    }
  };
  collect();
  if (open.empty()) return 0;
  const Turn turn_of_process(*store);
  collect();  // another process may have measured them while we waited
  if (open.empty()) return 0;
  MeasureOptions how;
  how.target = options.target;
  how.threads = options.threads;
  how.traffic = static_cast<uint64_t>(options.target.l2_bytes) / 2;
  std::vector<Subject> subjects;
  for (const size_t i : open) subjects.push_back(subject_of(plan.lowered.plan.steps[i], *plan.functions[i]));
  const std::vector<Expected<Timing>> times = cost::measure(subjects, how);
  size_t measured = 0;
  for (size_t n = 0; n < open.size(); ++n) {
    Known k = known(plan, open[n], false);
    k.failed = !times[n].ok() || times[n]->seconds <= 0;
    if (!k.failed) {
      k.seconds = times[n]->seconds;
      store->add(plan.keys[open[n]], *times[n]);
      ++measured;
    }
    const std::lock_guard lock(mutex);
    kernels[plan.keys[open[n]]] = k;
  }
  return measured;
}

Expected<std::vector<KernelPrice>> Pricer::Impl::kernel_prices(const ir::Graph& graph, bool measured, Price& price) {
  ISOMER_TRY(const Priced p, plan(graph));
  price = {};
  if (measured && options.measure) price.measured = measure(p);
  std::vector<KernelPrice> out;
  for (size_t i = 0; i < p.keys.size(); ++i) {
    const compile::Step& step = p.lowered.plan.steps[i];
    const Known k = known(p, i, measured);
    KernelPrice part{step.function, step.origin, step.tasks, step.flops, step.bytes, k.estimate, k.estimate, false};
    part.known = measured && k.seconds > 0;
    if (part.known) part.seconds = k.seconds;
    price.seconds += part.seconds;
    price.estimated += !part.known;
    out.push_back(std::move(part));
  }
  price.kernels = out.size();
  return out;
}

Expected<std::vector<KernelPrice>> Pricer::kernels(const ir::Graph& graph) {
  Price ignored;
  return impl_->kernel_prices(graph, true, ignored);
}

Expected<Price> Pricer::price(const ir::Graph& graph) {
  const Hash128 hash = graph.content_hash();
  {
    const std::lock_guard lock(impl_->mutex);
    const auto it = impl_->graphs.find(hash);
    if (it != impl_->graphs.end() && ir::equal(it->second.graph, graph)) return it->second.price;
  }
  Price price;
  ISOMER_CHECK_OK(impl_->kernel_prices(graph, true, price));
  const std::lock_guard lock(impl_->mutex);
  if (impl_->graphs.size() >= impl_->options.graphs) impl_->graphs.clear();
  Price known = price;
  known.measured = 0;
  impl_->graphs.insert_or_assign(hash, Impl::Whole{graph, known});
  return price;
}

Expected<Price> Pricer::estimate(const ir::Graph& graph) {
  Price price;
  ISOMER_CHECK_OK(impl_->kernel_prices(graph, false, price));
  return price;
}

double Pricer::step_seconds() const { return impl_->machine.step_seconds; }
const PricerOptions& Pricer::options() const { return impl_->options; }
std::vector<Diagnostic> Pricer::take_warnings() { return impl_->store->take_warnings(); }

}  // namespace isomer::cost
