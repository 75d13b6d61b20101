#include "compile/constant_stages.h"

#include <algorithm>

#include "interp/evaluate.h"
#include "te/substitute.h"

namespace isomer::compile {

using te::Expr;

namespace {

constexpr int64_t kMostGrowth = 2;  // elements for each one read: two numbers of four bits lie in a byte

// What the stage computes from these constants.
std::optional<Tensor> computed(const StageGraph& g, const ModelStage& s, const std::vector<int>& read) {
  te::Program p;
  std::vector<const Tensor*> inputs;
  for (const int v : read) {
    const StageValue& value = g.values[static_cast<size_t>(v)];
    p.inputs.push_back({value.name, value.dtype, {value.dims.begin(), value.dims.end()}});
    inputs.push_back(&*value.constant);
  }
  te::Substitution slots;
  slots.reads([&](const te::Node& r, std::vector<Expr> at) {
    const auto slot = std::find(read.begin(), read.end(), r.tensor) - read.begin();
    return Expr::read(static_cast<int>(slot), r.dtype, std::move(at));
  });
  const StageValue& out = g.values[static_cast<size_t>(s.value)];
  p.stages.push_back({out.name, out.dtype, s.axes, slots(s.body)});
  p.outputs = {static_cast<int>(read.size())};
  auto results = interp::evaluate(p, inputs, interp::Options{});
  if (!results.ok() || results->size() != 1 || (*results)[0].dims() != out.dims) return std::nullopt;
  return std::move((*results)[0]);
}

// What outputs lie in, through views: they have memory of their own.
std::vector<int> held_by_outputs(const StageGraph& g) {
  std::vector<int> out = g.outputs;
  for (size_t i = 0; i < out.size(); ++i) {
    const int s = g.values[static_cast<size_t>(out[i])].stage;
    if (s >= 0 && g.stages[static_cast<size_t>(s)].view_of >= 0)
      out.push_back(g.stages[static_cast<size_t>(s)].view_of);
  }
  return out;
}

}  // namespace

void constant_stages(StageGraph& g, bool contents, Taken taken) {
  bool changed = false;
  const std::vector<int> held = held_by_outputs(g);
  for (ModelStage& s : g.stages) {
    StageValue& out = g.values[static_cast<size_t>(s.value)];
    const std::vector<int> read = values_read(s.body);
    if (read.empty() || s.is_reduction() || out.elements() == 0) continue;
    if (taken == Taken::Moves && s.body->kind != te::Kind::Read) continue;
    if (std::find(held.begin(), held.end(), s.value) != held.end()) continue;
    int64_t elements = 0;
    const bool all = std::all_of(read.begin(), read.end(), [&](int v) {
      elements += g.values[static_cast<size_t>(v)].elements();
      return g.values[static_cast<size_t>(v)].constant.has_value();
    });
    if (!all || out.elements() > kMostGrowth * elements) continue;
    auto value = contents ? computed(g, s, read) : std::optional(Tensor(out.dtype, out.dims));
    if (!value || value->dtype() != out.dtype) continue;
    out.constant = *std::move(value);
    out.stage = -1;
    changed = true;
  }
  if (!changed) return;
  std::erase_if(g.stages,
                [&](const ModelStage& s) { return g.values[static_cast<size_t>(s.value)].constant.has_value(); });
  g.prune();
}

}  // namespace isomer::compile
