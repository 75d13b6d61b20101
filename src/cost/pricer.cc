#include "cost/pricer.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <map>

#include "base/clock_seconds.h"
#include "base/cores.h"
#include "compile/kernel_cache.h"
#include "compile/label_space.h"
#include "compile/lower.h"
#include "cost/by_content.h"
#include "cost/constants.h"
#include "cost/kernel_times.h"
#include "passes/manager.h"
#include "runtime/isomer.h"

namespace isomer::cost {
namespace {

// A plan and its kernels, one per step.
struct Priced {
  compile::Lowered lowered;
  std::vector<Item> items;
};
using PricedRef = std::shared_ptr<const Priced>;

constexpr uint64_t kSmallestPool = uint64_t{4} << 20;  // more than near caches hold

Diagnostic out_of_time() { return {"E-time", "no time was left to time the kernels of the graph"}; }

int64_t last_cache() { return std::max<int64_t>(0, sysconf(_SC_LEVEL3_CACHE_SIZE)); }

}  // namespace

Reach weight_reach(const ir::Graph& model) {
  const int64_t cache = last_cache();
  uint64_t bytes = 0;
  for (const ir::Node& n : model.nodes())
    if (n.op == &ir::const_op()) bytes += static_cast<uint64_t>(n.attrs.get<Tensor>("value")->byte_size());
  if (cache > 0 && bytes > static_cast<uint64_t>(cache)) return {Reach::Kind::Far};
  // The nearest power of two, so that kernels of many models are in few states.
  return {Reach::Kind::Pool, std::clamp(std::bit_floor(bytes + bytes / 2), kSmallestPool, kLargestPool)};
}

// Seconds for timing what nobody has timed; nothing: all times are the analytic model's.
using TimingLimit = std::optional<double>;
constexpr double kNoLimit = std::numeric_limits<double>::infinity();

struct Pricer::Impl {
  Impl(const ir::OpTable& operators, PricerOptions how)
      : table(&operators),
        options(std::move(how)),
        plans(options.plans),
        estimates(options.graphs),
        prices(options.graphs),
        times({options.target, options.threads, options.measure, options.store, options.weights, options.between,
               options.quiet}) {}

  const ir::OpTable* table;
  PricerOptions options;
  // Of pieces: a search asks for the same ones again and again, first for an estimate, then for a price, then beside others,
  // and rewrites at two places may be made in either order.
  ByContent<PricedRef> plans;
  ByContent<Price> estimates, prices;
  KernelTimes times;
  Constants constants;
  compile::KernelCache cache;
  KnownMethods methods;
  bool in_context(Extent extent) const { return options.in_context && extent == Extent::Model; }
  compile::LowerOptions lowering(Extent extent) {
    compile::LowerOptions o;
    o.piece = extent == Extent::Piece;
    o.as_run = in_context(extent);
    o.target = options.target;
    o.weights = false;
    o.cache = &cache;
    return o;
  }
  Expected<ir::Graph> prepared(const ir::Graph& graph);
  Expected<PricedRef> plan(const ir::Graph& graph, Extent extent);
  Expected<PricedRef> make_plan(const ir::Graph& graph, Extent extent);
  Expected<std::vector<KernelPrice>> kernel_prices(const ir::Graph& graph, Extent extent, TimingLimit limit,
                                                   Price& price);
  Expected<Price> price(const ir::Graph& graph, Extent extent, bool measured);
};

Pricer::Limit::~Limit() { times_.end_at(std::numeric_limits<double>::infinity()); }

Pricer::Limit Pricer::limit(double seconds) {
  impl_->times.end_at(clock_seconds(CLOCK_MONOTONIC) + seconds);
  return Limit(impl_->times);
}

Pricer::Pricer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Pricer::~Pricer() = default;

Expected<std::shared_ptr<Pricer>> Pricer::make(const ir::OpTable& table, PricerOptions options) {
  if (options.threads < 0 || options.threads > ISO_MAX_THREADS)
    return Diagnostic("E-cost", "the number of threads must be 1 to 256, or 0 for one per core");
  if (options.threads == 0) options.threads = cores();
  auto impl = std::make_unique<Impl>(table, std::move(options));
  return std::shared_ptr<Pricer>(new Pricer(std::move(impl)));
}

// As the compiler would get it, but for the values of large constants.
Expected<ir::Graph> Pricer::Impl::prepared(const ir::Graph& graph) {
  passes::Options pass_options;
  // Whatever depends on constants alone is computed when the model is compiled.
  pass_options.limits.node_growth = pass_options.limits.total_growth = int64_t{1} << 32;
  pass_options.evaluate = [this](const ir::OpContext& node) { return constants.evaluate(node); };
  return passes::run_pipeline(graph, *table, "inference", pass_options);
}

Expected<PricedRef> Pricer::Impl::plan(const ir::Graph& graph, Extent extent) {
  if (extent == Extent::Model) return make_plan(graph, extent);
  if (const auto known = plans.find(graph)) return *known;
  ISOMER_TRY(PricedRef made, make_plan(graph, extent));
  plans.add(graph, made);
  return made;
}

Expected<PricedRef> Pricer::Impl::make_plan(const ir::Graph& graph, Extent extent) {
  const auto in_use = constants.use();
  ISOMER_TRY(const ir::Graph ready, prepared(graph));
  const auto made = std::make_shared<Priced>();
  Priced& out = *made;
  ISOMER_TRY(out.lowered, compile::lower(ready, *table, lowering(extent)));
  // Jumps cost nothing; what a loop repeats is priced once, since nobody knows how often it runs.
  std::erase_if(out.lowered.plan.steps, [](const compile::Step& s) { return s.control != compile::Control::Kernel; });
  std::map<std::string, size_t> by_name;
  for (size_t i = 0; i < out.lowered.functions.size(); ++i) by_name[out.lowered.functions[i].name] = i;
  for (const compile::Step& step : out.lowered.plan.steps) {
    const size_t f = by_name.at(step.function);
    std::vector<Role> roles;
    for (const compile::Place& p : step.arguments)
      roles.push_back(p.space == compile::Space::Weight ? Role::Weight : Role::Value);
    out.items.push_back(
        item_of(out.lowered.functions[f], out.lowered.signatures[f], std::move(roles), step.flops, step.bytes));
  }
  if (!in_context(extent)) return PricedRef(made);
  const CacheSizes caches{static_cast<uint64_t>(options.target.l1_bytes * options.threads),
                          static_cast<uint64_t>(options.target.l2_bytes * options.threads),
                          static_cast<uint64_t>(last_cache())};
  std::vector<Context> states = contexts(out.lowered, options.threads, caches);
  for (size_t i = 0; i < out.items.size(); ++i) put_in_context(out.items[i], std::move(states[i]));
  return PricedRef(made);
}

Expected<std::vector<KernelPrice>> Pricer::Impl::kernel_prices(const ir::Graph& graph, Extent extent, TimingLimit limit,
                                                               Price& price) {
  ISOMER_TRY(const PricedRef p, plan(graph, extent));
  price = {};
  if (limit) price.measured = times.measure(p->items, *limit);
  std::vector<KernelPrice> out;
  for (size_t i = 0; i < p->items.size(); ++i) {
    const compile::Step& step = p->lowered.plan.steps[i];
    const KernelTimes::Known k = times.known(p->items[i], limit.has_value());
    KernelPrice part{step.function, step.origin, step.tasks, step.flops, step.bytes, k.estimate, k.estimate};
    part.known = limit && k.seconds > 0;
    if (part.known) part.seconds = k.seconds;
    price.seconds += part.seconds;
    part.mix = k.mix.scaled_to(part.seconds);
    price.mix.add(part.mix);
    price.estimated += !part.known;
    out.push_back(std::move(part));
  }
  price.kernels = out.size();
  return out;
}

Expected<std::vector<KernelPrice>> Pricer::kernels(const ir::Graph& graph, double seconds) {
  Price ignored;
  return impl_->kernel_prices(graph, Extent::Model, seconds, ignored);
}

Expected<Price> Pricer::Impl::price(const ir::Graph& graph, Extent extent, bool measured) {
  ByContent<Price>& answers = measured ? prices : estimates;
  const bool piece = extent == Extent::Piece;
  if (piece)
    if (const auto known = answers.find(graph)) return *known;
  Price price;
  ISOMER_CHECK_OK(kernel_prices(graph, extent, measured ? TimingLimit(kNoLimit) : std::nullopt, price));
  if (measured && price.estimated > 0 && times.measures() && times.ended()) return out_of_time();
  Price later = price;
  later.measured = 0;
  if (piece) answers.add(graph, later);
  return price;
}

Expected<Price> Pricer::price(const ir::Graph& graph, Extent extent) { return impl_->price(graph, extent, true); }
Expected<Price> Pricer::estimate(const ir::Graph& graph, Extent extent) { return impl_->price(graph, extent, false); }

namespace {

constexpr double kLittle = 0.02;  // of the time of what changed

// The kernels of a plan that carry values on, with little on the way: what is left of a copy that has a relu. One that takes no more than
// `little` and lays an operand out for the kernel behind it is a part of that one.
int64_t count_moves(const Priced& plan, KernelTimes& times, double little) {
  const std::vector<compile::Step>& steps = plan.lowered.plan.steps;
  int64_t count = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    const Subject& s = plan.items[i].subject;
    if (s.flops >= s.bytes || std::find(s.roles.begin(), s.roles.end(), Role::Weight) != s.roles.end()) continue;
    const bool prepares = i + 1 < steps.size() && steps[i].origin == steps[i + 1].origin;
    count += !prepares || times.known(plan.items[i], true).best() > little;
  }
  return count;
}

}  // namespace

Expected<Pricer::Comparison> Pricer::compare(const ir::Graph& before, const ir::Graph& after, Extent extent, int look) {
  ISOMER_TRY(const PricedRef was, impl_->plan(before, extent));
  ISOMER_TRY(const PricedRef is, impl_->plan(after, extent));
  std::map<std::string_view, int> counts;  // how many more the second has
  for (const Item& item : was->items) --counts[item.key];
  for (const Item& item : is->items) ++counts[item.key];
  std::vector<Item> items;
  std::vector<int> more;
  for (const PricedRef& plan : {was, is})
    for (const Item& item : plan->items) {
      int& count = counts.at(item.key);
      if (count != 0) items.push_back(item), more.push_back(std::exchange(count, 0));
    }
  std::vector<double> seconds(items.size(), 0);
  if (look > 1) {
    std::optional<std::vector<double>> again = impl_->times.measure_again(items, look);
    if (!again) return out_of_time();
    seconds = *std::move(again);
  } else {
    impl_->times.measure(items);
    const bool open = std::any_of(items.begin(), items.end(),
                                  [&](const Item& item) { return impl_->times.known(item, true).seconds == 0; });
    if (open && impl_->times.measures() && impl_->times.ended()) return out_of_time();
  }
  Comparison out;
  out.kernels = static_cast<int64_t>(is->items.size()) - static_cast<int64_t>(was->items.size());
  for (size_t k = 0; k < items.size(); ++k) {
    const double time = more[k] * (seconds[k] > 0 ? seconds[k] : impl_->times.known(items[k], true).best());
    out.seconds += time;
    out.changed -= std::min(0.0, time);
  }
  const double little = kLittle * out.changed;
  out.moves = count_moves(*is, impl_->times, little) - count_moves(*was, impl_->times, little);
  return out;
}

Expected<Labelling> Pricer::label(const ir::Graph& graph, Extent extent, const LabelOptions& how) {
  const auto in_use = impl_->constants.use();
  ISOMER_TRY(const ir::Graph ready, impl_->prepared(graph));
  const compile::LowerOptions options = impl_->lowering(extent);
  ISOMER_TRY(const compile::LabelSpace space, compile::LabelSpace::make(ready, *impl_->table, options));
  return best_labels(impl_->times, space, impl_->methods, how);
}

size_t Pricer::measured() const { return impl_->times.measured(); }

Expected<Hash128> Pricer::plan_hash(const ir::Graph& graph) {
  ISOMER_TRY(const PricedRef p, impl_->plan(graph, Extent::Model));
  Hasher h;
  for (const Item& item : p->items) h.add(item.key);
  return h.digest();
}

std::optional<std::string> Pricer::answer(const std::string& question) { return impl_->times.store().answer(question); }
void Pricer::set_answer(const std::string& question, const std::string& text) {
  impl_->times.store().set_answer(question, text);
}

double Pricer::step_seconds() const { return impl_->times.machine().step_seconds; }
const Rates& Pricer::usual() const { return impl_->times.machine().usual; }
const PricerOptions& Pricer::options() const { return impl_->options; }
std::shared_ptr<compile::KernelCode> Pricer::code() const { return impl_->times.code(); }
std::vector<Diagnostic> Pricer::take_warnings() { return impl_->times.store().take_warnings(); }

}  // namespace isomer::cost
