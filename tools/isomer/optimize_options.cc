#include "isomer/optimize_options.h"

#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <csignal>

#include "isomer/progress.h"

namespace isomer::tool {
namespace {

std::atomic<bool> interrupted{false};
extern "C" void on_interrupt(int) { interrupted.store(true); }

// While it lives the first interrupt is noted; a second one ends the process as usual.
class Interrupts {
 public:
  Interrupts() {
    interrupted = false;
    struct sigaction action = {};
    action.sa_handler = on_interrupt;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(SIGINT, &action, &before_);
  }
  ~Interrupts() { sigaction(SIGINT, &before_, nullptr); }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

 private:
  struct sigaction before_ = {};
};

}  // namespace

Expected<double> parse_budget(const std::string& text) {
  double value = 0;
  int used = 0;
  if (std::sscanf(text.c_str(), "%lf%n", &value, &used) == 1 && std::isfinite(value) && value >= 0) {
    const std::string unit = text.substr(static_cast<size_t>(used));
    if (unit.empty() || unit == "s") return value;
    if (unit == "ms") return value / 1000;
    if (unit == "m") return value * 60;
    if (unit == "h") return value * 3600;
  }
  return Diagnostic("E-usage",
                    fmt::format("expected a budget such as 60s, 500ms or 2m, found {}", isomer::quoted(text)));
}

void declare_optimize_options(CLI::App& app, OptimizeChoices& c) {
  app.add_option("--budget", c.budget,
                 "Time for all of it, up to three quarters of it for the search: 60s, 500ms, 2m; 0 searches nothing")
      ->capture_default_str();
  app.add_option("--steps", c.steps, "Most graphs that are priced: a budget that gives the same result every time")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--strategy", c.strategy,
                 "greedy: only steps that pay at once; relaxed: steps that cost within alpha too")
      ->check(CLI::IsMember({"greedy", "relaxed"}))
      ->capture_default_str();
  app.add_option("--alpha", c.alpha, "relaxed: graphs up to so many times the best one's cost are followed")
      ->check(CLI::Range(1.0, 10.0))
      ->capture_default_str();
  app.add_option("--threads", c.threads, "Threads of a run (0: one per core)")->check(CLI::Range(0, 256));
  app.add_option("--store", c.store, "File of kernel times (standard: one for all models); - keeps them in memory");
  app.add_flag("--layout", c.layout,
               "Choose layouts and algorithms jointly with the rewrites; the model carries them as labels");
  app.add_flag("--fresh", c.fresh, "Search again where the store remembers what came of the same search");
  app.add_flag("--no-measure", c.no_measure, "Judge kernels that the store does not know by the analytic model");
}

Expected<driver::OptimizeOptions> optimize_options(const OptimizeChoices& c) {
  driver::OptimizeOptions out;
  ISOMER_TRY(out.search.seconds, parse_budget(c.budget));
  out.search.steps = c.steps;
  out.search.alpha = c.alpha;
  out.search.strategy = c.strategy == "greedy" ? search::Strategy::Greedy : search::Strategy::Relaxed;
  out.threads = c.threads;
  out.store = c.store;
  out.measure = !c.no_measure;
  out.layout = c.layout;
  out.fresh = c.fresh;
  return out;
}

Expected<driver::Optimized> optimize_with_progress(const ir::Graph& graph, driver::OptimizeOptions& options,
                                                   const std::string& what) {
  Progress progress(what, "regions");
  const Interrupts interrupts;
  options.search.stop = &interrupted;
  options.search.progress = [&](const search::Progress& p) {
    progress.note(p.before > 0 ? fmt::format("{} graphs {}, best {:.3f} of {:.3f} ms", p.priced,
                                             p.foreseen ? "estimated" : "priced", p.best * 1e3, p.before * 1e3)
                               : "");
    progress.show(p.region, p.regions);
  };
  return driver::optimize(graph, options);
}

void declare_optimize_flag(CLI::App& app, std::string& budget) {
  app.add_option("--optimize", budget, "Search for a faster form of the model first (--optimize=60s: for so long)")
      ->expected(0, 1)
      ->default_str("60s");
}

Expected<ir::Graph> optimized_graph(const ir::Graph& graph, const std::string& budget, int threads,
                                    const std::string& what) {
  if (budget.empty()) return graph;
  OptimizeChoices choices;
  choices.budget = budget;
  choices.threads = threads;
  ISOMER_TRY(driver::OptimizeOptions options, optimize_options(choices));
  ISOMER_TRY(driver::Optimized result, optimize_with_progress(graph, options, what));
  if (result.culprit)
    return Diagnostic("E-optimize", fmt::format("the optimised model is wrong after application {} of rule {}; run "
                                                "without --optimize and report it",
                                                result.culprit->application, isomer::quoted(result.culprit->rule)));
  return std::move(result.graph);
}

}  // namespace isomer::tool
