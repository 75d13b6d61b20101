// Random models that run: chains of operators on values that fit, nodes from the operators' own samples, with data for
// every input. One seed, one model; fewer steps give a model that is the beginning of the longer one.
// Jumps (comparisons, roundings, choices) read only values that are exact, so that a result that is rounded otherwise is never
// on the other side of one: a step marks what it makes as exact when it only moves or copies.
#pragma once

#include <fmt/format.h>

#include <optional>

#include "ir/graph.h"
#include "ir/sample.h"
#include "ops/table.h"
#include "test/control_steps.h"
#include "test/copied_node.h"
#include "test/model_steps.h"

namespace isomer::testing {

struct RandomModel {
  ir::Graph graph;
  std::vector<Tensor> inputs;
};

class RandomModels {
 public:
  RandomModels() {
    for (const ir::OpDef& op : ops::table().records())
      for (const std::string& text : op.samples)
        if (op.pure)
          if (auto s = ir::make_sample(text, ops::table(), 1); s.ok() && s->graph.nodes().size() < 16)
            samples_.push_back(*std::move(s));
  }

  std::optional<RandomModel> make(uint64_t seed, size_t steps) const {
    State s{Random(seed), ir::GraphBuilder(ops::table(), "random")};
    s.builder.set_verbatim(s.random.flip(0.3));
    growing::fresh(s, DType::F32, growing::shape(s.random));
    for (size_t i = 0; i < steps; ++i) step(s);
    return finish(s);
  }

 private:
  using State = growing::State;

  void step(State& s) const {
    Random& r = s.random;
    if (r.flip(0.08))
      return fresh(s, r.flip(0.8) ? DType::F32 : growing::kInts[r.below(std::size(growing::kInts))], growing::shape(r));
    if (r.flip(0.3)) return sample_step(s);
    const auto x = pick(s, growing::real);
    if (!x) return fresh(s, DType::F32, growing::shape(r));
    switch (r.below(14)) {
      case 12: return control(s, *x);
      case 0:
      case 1: return unary(s, *x);
      case 2:
      case 3: return binary(s, *x);
      case 4: return move_elements(s, *x);
      case 5: return reduce(s, *x);
      case 6: return product(s, *x);
      case 7: return window(s, *x);
      case 8: return norm(s, *x);
      case 9: return choose(s);
      case 10: return convert(s);
      case 11: return quantised(s);
      default: return join(s, *x);
    }
  }

  // A node as one of the samples has it, on values that fit where there are some, else on data of its own.
  void sample_step(State& s) const {
    const ir::Sample& sample = samples_[s.random.below(samples_.size())];
    std::vector<ir::Value> map;
    for (size_t i = 0; i < sample.graph.input_count(); ++i) {
      const Type& t = sample.graph.inputs()[i].types[0];
      const auto known =
          is_float(t.dtype) && s.random.flip(0.6) ? pick(s, [&](const Type& o) { return o == t; }, true) : std::nullopt;
      map.push_back((known ? *known : fresh_data(s, sample.inputs[i])).value);
    }
    for (size_t i = sample.graph.input_count(); i < sample.graph.nodes().size(); ++i) {
      const ir::Node& n = sample.graph.nodes()[i];
      if (n.op == &ir::const_op()) {
        map.push_back(s.builder.constant(*n.attrs.get<Tensor>("value")));
        continue;
      }
      std::vector<ir::Value> in;
      for (const ir::Value& v : n.inputs) in.push_back(v.is_none() ? v : map[v.node]);
      add(s, n.op->name, std::move(in), n.attrs, false, n.types.size());
      return;
    }
  }

  // The graph with its data as inputs. What nothing reads is an output.
  std::optional<RandomModel> finish(State& s) const {
    auto built = std::move(s.builder).finish();
    if (!built.ok()) return std::nullopt;
    const ir::Graph& g = *built;
    RandomModel out;
    ir::GraphBuilder b(ops::table(), g.name());
    Copied now(g.nodes().size());
    std::vector<bool> read(g.nodes().size());
    for (uint32_t i = 0; i < g.nodes().size(); ++i) {
      for (const ir::Value& v : g.node(i).inputs)
        if (!v.is_none()) read[v.node] = true;
      const auto data = g.node(i).names.empty() ? s.data.end() : s.data.find(g.node(i).names[0]);
      if (data == s.data.end()) continue;
      out.inputs.push_back(data->second);
      now[i] = {*b.input(data->first, data->second.type())};
    }
    std::vector<ir::Value> results;
    for (uint32_t i = 0; i < g.nodes().size(); ++i) {
      const ir::Node& n = g.node(i);
      if (!now[i].empty()) continue;
      auto made = copied_node(b, n, now);
      if (!made.ok()) return std::nullopt;
      now[i] = *std::move(made);
      if (!read[i] && ir::is_computed(n))
        for (const ir::Value& v : now[i])
          if (b.type(v).dtype != DType::Opaque) results.push_back(v);
    }
    if (results.empty()) return std::nullopt;
    for (size_t k = 0; k < results.size(); ++k) b.output(fmt::format("out{}", k), results[k]);
    auto graph = std::move(b).finish();
    if (!graph.ok()) return std::nullopt;
    out.graph = *std::move(graph);
    return out;
  }

  std::vector<ir::Sample> samples_;
};

}  // namespace isomer::testing
