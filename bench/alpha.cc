// What relaxing is worth: the price of what a search comes to with alpha 1 and with larger ones, on the same number of graphs priced.
//
//   alpha [--cpu NAME] [--measure] [--threads N] [--steps N] [--store FILE] [--alphas 1,1.05] MODEL ...
//
// Prices are the analytic model's (of the CPU that is named, so that the answer is the same on every machine), or with --measure
// those of timed kernels of this machine. MODEL as the tool takes it: zoo:squeezenet1_1,image=64.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>

#include "codegen/codegen.h"
#include "cost/pricer.h"
#include "driver/model.h"
#include "driver/rule_files.h"
#include "ops/table.h"
#include "passes/manager.h"
#include "search/search.h"

namespace isomer {
namespace {

struct Options {
  std::string cpu = "x86-64-v4", store = "-";
  bool measure = false;
  int threads = 1;
  int64_t steps = 600;
  std::vector<double> alphas = {1, 1.05};
  std::vector<std::string> models;
};

Expected<void> over(const std::string& model, const Options& o, cost::Pricer& pricer,
                    const std::vector<const rewrite::Rule*>& rules) {
  ISOMER_TRY(const driver::Model loaded, driver::load_model(model));
  ISOMER_TRY(const ir::Graph start, passes::run_pipeline(loaded.graph, ops::table(), "inference"));
  const search::Cost estimate = [&](const ir::Graph& g) -> Expected<double> {
    ISOMER_TRY(const cost::Price p, pricer.estimate(g, cost::Pricer::Extent::Piece));
    return p.seconds;
  };
  const search::Cost price = [&](const ir::Graph& g) -> Expected<double> {
    ISOMER_TRY(const cost::Price p, pricer.price(g, cost::Pricer::Extent::Piece));
    return p.seconds;
  };
  ISOMER_TRY(const cost::Price before, pricer.price(start));
  std::printf("%-34s %9.4f ms", model.c_str(), before.seconds * 1e3);
  for (const double alpha : o.alphas) {
    search::Options how;
    how.alpha = alpha;
    how.steps = o.steps;
    ISOMER_TRY(const search::Outcome found,
               search::optimise(start, ops::table(), rules, price, o.measure ? estimate : nullptr, how));
    ISOMER_TRY(const cost::Price after, pricer.price(found.graph));
    std::map<std::string, size_t> used;
    for (const search::Step& s : found.steps)
      for (const search::Application& a : s.applications) ++used[a.rule];
    std::printf("\n  alpha %-5g %9.4f ms  %zu graphs priced, rules %s", alpha, after.seconds * 1e3,
                found.statistics.priced, fmt::format("{}", used).c_str());
    std::fflush(stdout);
  }
  std::printf("\n");
  return {};
}

Expected<void> run(const Options& o) {
  cost::PricerOptions pricing;
  ISOMER_TRY(pricing.target, o.measure ? codegen::host_target() : loop::parse_target(o.cpu));
  pricing.threads = o.threads;
  pricing.measure = o.measure;
  pricing.store = o.store;
  ISOMER_TRY(const auto pricer, cost::Pricer::make(ops::table(), pricing));
  ISOMER_TRY(const rewrite::RuleLibrary library, driver::load_rule_library("", rewrite::Trust::Proved));
  std::vector<const rewrite::Rule*> rules;
  for (const rewrite::Rule& r : library.rules) rules.push_back(&r);
  for (const std::string& m : o.models) ISOMER_CHECK_OK(over(m, o, *pricer, rules));
  return {};
}

}  // namespace
}  // namespace isomer

int main(int argc, char** argv) {
  isomer::Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    const auto value = [&] { return i + 1 < argc ? std::string(argv[++i]) : std::string(); };
    if (a == "--cpu") {
      o.cpu = value();
    } else if (a == "--measure") {
      o.measure = true;
    } else if (a == "--threads") {
      o.threads = std::max(1, std::atoi(value().c_str()));
    } else if (a == "--steps") {
      o.steps = std::atoll(value().c_str());
    } else if (a == "--store") {
      o.store = value();
    } else if (a == "--alphas") {
      o.alphas.clear();
      std::istringstream list(value());
      for (std::string one; std::getline(list, one, ',');) o.alphas.push_back(std::atof(one.c_str()));
    } else {
      o.models.push_back(a);
    }
  }
  const auto done = isomer::run(o);
  if (done.ok()) return 0;
  std::fprintf(stderr, "%s\n", done.error().to_string().c_str());
  return 2;
}
