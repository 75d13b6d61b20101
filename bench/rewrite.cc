// Speed of rewriting on whole networks: all library rules matched, and one application with its matches found again.
#include "rewrite/apply.h"

#include <benchmark/benchmark.h>

#include "ops/table.h"
#include "rewrite/library.h"
#include "zoo/zoo.h"

namespace isomer::rewrite {
namespace {

struct Library {
  AttrHabitTable habits{ops::table()};
  RuleLibrary rules;
  std::unique_ptr<Matcher> matcher;

  Library() {
    auto loaded = load_rules(ISOMER_SOURCE_DIR "/rules", ops::table(), Trust::AsWritten);
    if (!loaded.ok()) std::fprintf(stderr, "%s\n", loaded.error().to_string().c_str());
    if (loaded.ok()) rules = *std::move(loaded);
    std::vector<const Rule*> all;
    for (const Rule& r : rules.rules) all.push_back(&r);
    matcher = std::make_unique<Matcher>(all, habits);
  }
};

Library& library() {
  static Library l;
  return l;
}

ir::Graph network(const char* name) {
  auto g = zoo::build(name, ops::table());
  if (!g.ok()) std::fprintf(stderr, "%s\n", g.error().to_string().c_str());
  return *std::move(g);
}

void match_all(benchmark::State& state, const char* name) {
  const EditGraph graph(network(name), ops::table(), library().habits);
  size_t matches = 0;
  for (auto _ : state) matches = library().matcher->all(graph).size();
  state.counters["matches"] = static_cast<double>(matches);
  state.counters["rules"] = static_cast<double>(library().rules.rules.size());
}

// One application somewhere in the graph and the update of all matches; the copy of graph and matches is not counted.
void apply_one(benchmark::State& state, const char* name) {
  const EditGraph graph(network(name), ops::table(), library().habits);
  const MatchSet matches(*library().matcher, graph);
  size_t next = 0;
  for (auto _ : state) {
    state.PauseTiming();
    EditGraph copy = graph;
    MatchSet set = matches;
    const Match m = matches.matches()[next++ * 7919 % matches.matches().size()];
    state.ResumeTiming();
    const auto edit = apply(copy, library().matcher->rule(m.rule), m);
    if (edit.ok()) set.update(copy, *edit);
    benchmark::DoNotOptimize(set.matches().size());
  }
}

void copy_graph(benchmark::State& state, const char* name) {
  const EditGraph graph(network(name), ops::table(), library().habits);
  for (auto _ : state) {
    EditGraph copy = graph;
    benchmark::DoNotOptimize(copy.slots());
  }
}

BENCHMARK_CAPTURE(match_all, bert_base, "bert_base")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(match_all, inception_v3, "inception_v3")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(match_all, nasnet_a, "nasnet_a")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(apply_one, bert_base, "bert_base")->Unit(benchmark::kMillisecond)->Iterations(200);
BENCHMARK_CAPTURE(apply_one, inception_v3, "inception_v3")->Unit(benchmark::kMillisecond)->Iterations(200);
BENCHMARK_CAPTURE(apply_one, nasnet_a, "nasnet_a")->Unit(benchmark::kMillisecond)->Iterations(200);
BENCHMARK_CAPTURE(copy_graph, nasnet_a, "nasnet_a")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace isomer::rewrite
