// How well prices predict: over the networks of the zoo, and over random variants of one network by Kendall's tau.
//
//   cost [--threads N] [--seconds S] [--steps] [--variants N --of NETWORK] [--store FILE] [NETWORK ...]
//
// "run" is the time of a run in the middle of all, "steps" the sum over the steps of such times, both at the usual rate of the core,
// as prices are, and between the timings of kernels. Errors are those of the price against the run. --steps prints each of them.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <utility>

#include "base/clock_seconds.h"
#include "base/random.h"
#include "codegen/codegen.h"
#include "cost/pricer.h"
#include "driver/inputs.h"
#include "driver/whole_runs.h"
#include "ops/table.h"
#include "passes/manager.h"
#include "rewrite/apply.h"
#include "rewrite/library.h"
#include "zoo/zoo.h"

namespace isomer {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  int threads = 1;
  double seconds = 2;
  bool steps = false;
  int variants = 0;
  uint64_t seed = 1;
  std::string of = "squeezenet1_1", store = "-";
  std::vector<std::string> networks;
};

// Whose kernels are timed as they run in this network.
Expected<std::shared_ptr<cost::Pricer>> pricer_for(const ir::Graph& network, const Options& options,
                                                   std::function<void()> between = nullptr) {
  cost::PricerOptions o;
  ISOMER_TRY(o.target, codegen::host_target());
  o.threads = options.threads;
  o.store = options.store;
  o.weights = cost::weight_reach(network);
  o.in_context = true;
  o.between = std::move(between);
  return cost::Pricer::make(ops::table(), o);
}

Expected<std::unique_ptr<driver::WholeRuns>> runs_of(const ir::Graph& graph, const Options& options) {
  ISOMER_TRY(std::vector<Tensor> inputs, driver::make_inputs(graph, {}));
  return driver::WholeRuns::make(graph, std::move(inputs), options.threads);
}

void print_warnings(cost::Pricer& pricer) {
  for (const Diagnostic& d : pricer.take_warnings()) std::fprintf(stderr, "%s\n", d.message.c_str());
}

void print_steps(const std::vector<cost::KernelPrice>& kernels, const std::vector<double>& runs) {
  std::printf("  %-40s %6s %10s %10s %8s %8s %7s %7s\n", "step", "tasks", "priced", "run", "more", "analytic",
              "vectors", "tiles");
  for (size_t i = 0; i < kernels.size() && kernels.size() == runs.size(); ++i) {
    const cost::KernelPrice& k = kernels[i];
    const cost::Mix share = k.mix.scaled_to(1);
    std::printf("  %-40s %6lld %8.1fus %8.1fus %+6.1fus %+7.0f%% %7.2f %7.2f\n", k.kernel.c_str(),
                static_cast<long long>(k.tasks), k.seconds * 1e6, runs[i] * 1e6, (k.seconds - runs[i]) * 1e6,
                (k.estimate / runs[i] - 1) * 100, share.vectors, share.tiles);
  }
}

Expected<void> over_the_zoo(const Options& options) {
  std::printf("%-16s %7s %10s %10s %10s %10s %8s %8s %9s %8s\n", "network", "kernels", "priced", "analytic", "run",
              "steps", "error", "analytic", "measured", "seconds");
  double worst = 0, worst_analytic = 0, logs = 0;
  int count = 0;
  for (const std::string& name : options.networks) {
    const auto graph = zoo::build(name, ops::table());
    if (!graph.ok()) return graph.error();
    ISOMER_TRY(const auto runs, runs_of(*graph, options));
    ISOMER_TRY(const auto pricer, pricer_for(*graph, options, [&] { runs->turn_when_due(); }));
    const auto start = Clock::now();
    ISOMER_TRY(const cost::Price price, pricer->price(*graph));
    const double seconds = seconds_since(start);
    for (const auto begin = Clock::now(); runs->turns() < 5 || seconds_since(begin) < options.seconds;)
      ISOMER_CHECK_OK(runs->turn());
    ISOMER_TRY(const cost::Price analytic, pricer->estimate(*graph));
    ISOMER_TRY(const std::vector<cost::KernelPrice> kernels, pricer->kernels(*graph));
    print_warnings(*pricer);
    ISOMER_TRY(const driver::WholeRuns::Times m, runs->times(pricer->usual(), kernels));
    const double error = price.seconds / m.seconds - 1, analytic_error = analytic.seconds / m.seconds - 1;
    std::printf("%-16s %7zu %8.3fms %8.3fms %8.3fms %8.3fms %+7.1f%% %+7.1f%% %9zu %8.2f\n", name.c_str(),
                price.kernels, price.seconds * 1e3, analytic.seconds * 1e3, m.seconds * 1e3, m.sum_of_steps() * 1e3,
                error * 100, analytic_error * 100, price.measured, seconds);
    if (options.steps) print_steps(kernels, m.steps);
    std::fflush(stdout);
    worst = std::max(worst, std::abs(error));
    worst_analytic = std::max(worst_analytic, std::abs(analytic_error));
    logs += std::abs(std::log(analytic.seconds / m.seconds));
    ++count;
  }
  if (count > 0)
    std::printf("worst error %.1f%%; of the analytic model %.1f%%, on average by a factor %.2f\n", worst * 100,
                worst_analytic * 100, std::exp(logs / count));
  return {};
}

// Of pairs whose times `b` differ by more than a share.
double kendall_tau(const std::vector<double>& a, const std::vector<double>& b, double apart = 0) {
  double agree = 0, pairs = 0;
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      if (apart > 0 && std::abs(b[i] - b[j]) <= apart * std::min(b[i], b[j])) continue;
      const double s = (a[i] - a[j]) * (b[i] - b[j]);
      agree += s > 0 ? 1 : s < 0 ? -1 : 0;
      ++pairs;
    }
  return pairs > 0 ? agree / pairs : 1;
}

Expected<void> over_variants(const Options& options) {
  ISOMER_TRY(const ir::Graph start, zoo::build(options.of, ops::table()));
  ISOMER_TRY(const auto pricer, pricer_for(start, options));
  ISOMER_TRY(const ir::Graph graph, passes::run_pipeline(start, ops::table(), "inference"));
  rewrite::AttrHabitTable habits{ops::table()};
  ISOMER_TRY(const rewrite::RuleLibrary library,
             rewrite::load_rules(ISOMER_SOURCE_DIR "/rules", ops::table(), rewrite::Trust::AsWritten));
  std::vector<const rewrite::Rule*> rules;
  for (const rewrite::Rule& r : library.rules) rules.push_back(&r);
  const rewrite::Matcher matcher(rules, habits);
  Random random(options.seed);
  std::vector<double> prices, analytic, times;
  std::vector<std::string> rows;
  std::vector<std::unique_ptr<driver::WholeRuns>> subjects;
  std::vector<std::vector<cost::KernelPrice>> kernels;
  while (prices.size() < static_cast<size_t>(options.variants)) {
    rewrite::EditGraph edit(graph, ops::table(), habits);
    rewrite::MatchSet set(matcher, edit);
    const auto wanted = 1 + random.below(12);
    size_t applied = 0;
    for (int tries = 0; tries < 50 && applied < wanted && !set.matches().empty(); ++tries) {
      const rewrite::Match m = set.matches()[random.below(set.matches().size())];
      if (!matcher.holds(edit, m)) continue;
      const auto done = rewrite::apply(edit, matcher.rule(m.rule), m);
      if (!done.ok()) continue;
      set.update(edit, *done);
      ++applied;
    }
    ISOMER_TRY(const ir::Graph variant, edit.graph());
    const auto price = pricer->price(variant), estimate = pricer->estimate(variant);
    if (!price.ok() || !estimate.ok()) continue;
    ISOMER_TRY(auto parts, pricer->kernels(variant));
    kernels.push_back(std::move(parts));
    ISOMER_TRY(auto subject, runs_of(variant, options));
    subjects.push_back(std::move(subject));
    rows.push_back(fmt::format("{:<8} {:>6} {:>7}", prices.size(), applied, price->kernels));
    prices.push_back(price->seconds);
    analytic.push_back(estimate->seconds);
  }
  // In turns, so that what else the machine does meets all of them alike.
  size_t rounds = 0;
  for (const auto begin = Clock::now(); rounds < 10 || seconds_since(begin) < options.seconds * options.variants;
       ++rounds)
    for (const auto& s : subjects) ISOMER_CHECK_OK(s->turn());
  std::printf("\n%s, seed %llu, %zu rounds\n%-8s %6s %7s %10s %10s %10s %10s\n", options.of.c_str(),
              static_cast<unsigned long long>(options.seed), rounds, "variant", "rules", "kernels", "priced",
              "analytic", "run", "steps");
  for (size_t i = 0; i < subjects.size(); ++i) {
    ISOMER_TRY(const driver::WholeRuns::Times m, subjects[i]->times(pricer->usual(), kernels[i]));
    times.push_back(m.seconds);
    std::printf("%s %8.3fms %8.3fms %8.3fms %8.3fms\n", rows[i].c_str(), prices[i] * 1e3, analytic[i] * 1e3,
                m.seconds * 1e3, m.sum_of_steps() * 1e3);
  }
  std::printf("Kendall's tau %.3f, of the analytic model %.3f\n", kendall_tau(prices, times),
              kendall_tau(analytic, times));
  std::printf("of pairs whose times are more than 2%% apart: %.3f and %.3f\n", kendall_tau(prices, times, 0.02),
              kendall_tau(analytic, times, 0.02));
  print_warnings(*pricer);
  return {};
}

Expected<void> run(Options options) {
  if (options.networks.empty() && options.variants == 0)
    for (const zoo::Network& n : zoo::networks()) options.networks.push_back(n.name);
  if (!options.networks.empty()) ISOMER_CHECK_OK(over_the_zoo(options));
  if (options.variants > 0) ISOMER_CHECK_OK(over_variants(options));
  return {};
}

}  // namespace
}  // namespace isomer

int main(int argc, char** argv) {
  isomer::Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    const auto value = [&] { return i + 1 < argc ? std::string(argv[++i]) : std::string(); };
    if (a == "--threads")
      o.threads = std::max(1, std::atoi(value().c_str()));
    else if (a == "--seconds")
      o.seconds = std::atof(value().c_str());
    else if (a == "--steps")
      o.steps = true;
    else if (a == "--variants")
      o.variants = std::atoi(value().c_str());
    else if (a == "--seed")
      o.seed = static_cast<uint64_t>(std::atoll(value().c_str()));
    else if (a == "--of")
      o.of = value();
    else if (a == "--store")
      o.store = value();
    else
      o.networks.push_back(a);
  }
  const auto done = isomer::run(o);
  if (done.ok()) return 0;
  std::fprintf(stderr, "%s\n", done.error().to_string().c_str());
  return 2;
}
