// Cases whose model draws and whose stored values nobody can draw again: what the definition does fix is looked at in their
// place, which is the type, the shape, and how often each value comes.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "interp/interp.h"
#include "ops/table.h"
#include "test/copied_node.h"

namespace isomer::testing {

inline bool draws(const ir::Node& n) {
  return std::any_of(n.op->attrs.begin(), n.op->attrs.end(), [](const ir::AttrDef& a) { return a.name == "seed"; });
}
inline Expected<ir::Graph> with_seed(const ir::Graph& graph, double seed) {
  ir::GraphBuilder b(ops::table(), graph.name());
  Copied now;
  for (ir::Node n : graph.nodes()) {
    if (n.op == &ir::input_op()) {
      ISOMER_TRY(const ir::Value v, b.input(n.names[0], n.types[0]));
      now.push_back({v});
      continue;
    }
    if (draws(n)) n.attrs.set("seed", seed);
    ISOMER_TRY(std::vector<ir::Value> made, copied_node(b, n, now));
    now.push_back(std::move(made));
  }
  for (const ir::Output& o : graph.outputs()) b.output(o.name, now[o.value.node][o.value.index]);
  return std::move(b).finish();
}

// The chances of a one, by what the model says. Bernoulli's are its input. The function that the expanded cases hold in its place
// has a one where an even draw is greater than the input: the other way round.
inline std::vector<double> chances(const ir::Graph& graph, const Tensor& input) {
  const bool other = std::any_of(graph.nodes().begin(), graph.nodes().end(),
                                 [](const ir::Node& n) { return n.op->name == "greater"; });
  std::vector<double> out = input.to_reals();
  if (other) std::transform(out.begin(), out.end(), out.begin(), [](double p) { return 1 - p; });
  return out;
}

// "" when the model flips coins as it says, in one run per seed: zeros and ones of the stored type and shape, each element one
// as often as its chance says, within five standard deviations; and when the stored draw had a chance at all.
inline std::string unlike_coins(const ir::Graph& graph, const std::vector<Tensor>& inputs, const Tensor& stored) {
  constexpr int kSeeds = 2000;
  if (inputs.size() != 1 || inputs[0].dims() != stored.dims()) return "expected one chance for each element";
  const std::vector<double> expected = chances(graph, inputs[0]);
  std::vector<double> ones(static_cast<size_t>(stored.size()));
  for (int seed = 0; seed < kSeeds; ++seed) {
    const auto seeded = with_seed(graph, seed);
    if (!seeded.ok()) return "seed: " + seeded.error().to_string();
    const auto found = interp::run(*seeded, ops::table(), inputs);
    if (!found.ok()) return "run: " + found.error().to_string();
    const Tensor& drawn = found->at(0);
    if (found->size() != 1 || drawn.dtype() != stored.dtype() || drawn.dims() != stored.dims())
      return fmt::format("type {}, expected {}", drawn.type().to_string(), stored.type().to_string());
    for (int64_t i = 0; i < drawn.size(); ++i) {
      if (drawn.real(i) != 0 && drawn.real(i) != 1) return fmt::format("element {} is {}", i, drawn.real(i));
      ones[static_cast<size_t>(i)] += drawn.real(i);
    }
  }
  for (int64_t i = 0; i < stored.size(); ++i) {
    const double p = expected[static_cast<size_t>(i)], found = ones[static_cast<size_t>(i)] / kSeeds;
    if (std::abs(found - p) > 5 * std::sqrt(p * (1 - p) / kSeeds))
      return fmt::format("element {} is one in {} of the draws, expected {}", i, found, p);
    if ((stored.real(i) == 1 ? p : 1 - p) <= 0) return fmt::format("element {} was stored with no chance", i);
  }
  return "";
}

}  // namespace isomer::testing
