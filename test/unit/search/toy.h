// A toy for tests of the search: three rules, networks of two convolutions a block, and costs by what a graph holds, so that what
// is found is decided by the costs alone, never by a clock.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"
#include "ops/table.h"
#include "rewrite/rule.h"
#include "search/search.h"

namespace isomer::search {

inline constexpr const char* kToyRules = R"(
rule merge : exact
  let window = {strides=[1, 1], pads=[pt, pl, pb, pr]}
  ?x : T[N, C, H, W]  ?w : T[O, C, kh, kw]  ?v : T[P, C, kh, kw]
  [conv(?x, ?w){window...}, conv(?x, ?v){window...}]
  => split(conv(?x, concat(?w, ?v){axis=0}){window...}, [O, P]){axis=1}
  where nonnegative(pt, pl, pb, pr), constant(?w), constant(?v)
rule enlarge : reassociating
  ?x : T[N, C, H, W]  ?w : T[O, C, kh, kw]
  conv(?x, ?w){strides=[1, 1], pads=[pt, pl, pb, pr]}
  => conv(?x, pad(?w, [0, 0, 1, 1, 0, 0, 1, 1])){strides=[1, 1], pads=[pt+1, pl+1, pb+1, pr+1]}
  where nonnegative(pt, pl, pb, pr), constant(?w)
rule relu-past-split : exact
  ?x : T[N, A+B, S...]
  %a, %b = split(?x, [A, B]){axis=1}
  [relu(%a), relu(%b)] => split(relu(?x), [A, B]){axis=1}
)";

inline std::vector<rewrite::Rule> rules() { return *rewrite::parse_rules(kToyRules, ops::table()); }

inline std::vector<const rewrite::Rule*> pointers(const std::vector<rewrite::Rule>& rules) {
  std::vector<const rewrite::Rule*> out;
  for (const rewrite::Rule& r : rules) out.push_back(&r);
  return out;
}

inline ir::Value weights(ir::GraphBuilder& b, std::vector<int64_t> dims, uint64_t seed) {
  Tensor t(DType::F32, std::move(dims));
  Random random(seed);
  for (int64_t i = 0; i < t.size(); ++i) t.set_real(i, random.uniform(-1, 1));
  return b.constant(std::move(t));
}

inline ir::Value conv(ir::GraphBuilder& b, ir::Value x, int64_t in, int64_t out, int64_t kernel, uint64_t seed) {
  const int64_t pad = kernel / 2;
  return *b.add1("conv", {x, weights(b, {out, in, kernel, kernel}, seed)},
                 ir::Attrs{{"pads", std::vector<int64_t>{pad, pad, pad, pad}}});
}

// Blocks of two convolutions of one input, with kernels of these sizes.
inline ir::Graph blocks(int count, int64_t first, int64_t second) {
  ir::GraphBuilder b(ops::table(), "blocks");
  ir::Value x = *b.input("x", {DType::F32, Shape::of({1, 4, 5, 5}), nullptr});
  for (int i = 0; i < count; ++i) {
    const auto seed = static_cast<uint64_t>(2 * i);
    const ir::Value a = *b.add1("relu", {conv(b, x, 4, 2, first, seed)});
    const ir::Value c = *b.add1("relu", {conv(b, x, 4, 2, second, seed + 1)});
    x = *b.add1("concat", {a, c}, ir::Attrs{{"axis", int64_t{1}}});
    x = *b.add1("tanh", {x});
  }
  b.output("y", x);
  return *std::move(b).finish();
}

// A convolution costs 1 and a little for each tap, an element-wise node a tenth; what depends on constants is free.
inline Expected<double> toy_cost(const ir::Graph& g) {
  double cost = 0;
  std::vector<bool> live(g.nodes().size());
  for (uint32_t id = 0; id < g.nodes().size(); ++id) {
    const ir::Node& n = g.node(id);
    live[id] = n.op == &ir::input_op();
    for (const ir::Value& v : n.inputs) live[id] = live[id] || (!v.is_none() && live[v.node]);
    if (!live[id] || n.op == &ir::input_op() || n.op->name == "split") continue;
    if (n.op->name != "conv") {
      cost += 0.1;
      continue;
    }
    const std::vector<int64_t> taps = g.type(n.inputs[1]).shape.values();
    cost += 1 + 0.05 * static_cast<double>(taps[2] * taps[3]);
  }
  return cost;
}

inline Outcome search(const ir::Graph& g, const Options& options) {
  const std::vector<rewrite::Rule> all = rules();
  auto outcome = optimise(g, ops::table(), pointers(all), toy_cost, nullptr, options);
  EXPECT_TRUE(outcome.ok()) << (outcome.ok() ? "" : outcome.error().to_string());
  return *std::move(outcome);
}

inline int64_t count(const ir::Graph& g, std::string_view op) {
  return std::count_if(g.nodes().begin(), g.nodes().end(), [&](const ir::Node& n) { return n.op->name == op; });
}

}  // namespace isomer::search
