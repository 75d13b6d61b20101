#include "compile/stage_graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "te/substitute.h"

namespace isomer::compile {

using te::Expr;
using te::Kind;

int64_t StageValue::elements() const {
  int64_t n = 1;
  for (const int64_t d : dims) n *= d;
  return n;
}

std::vector<int> values_read(const Expr& e) {
  std::vector<int> out;
  te::for_each_node(e, [&](const Expr& n) {
    if (n->kind == Kind::Read && std::find(out.begin(), out.end(), n->tensor) == out.end()) out.push_back(n->tensor);
  });
  return out;
}

std::vector<bool> read_by_index(const StageGraph& graph) {
  std::vector<bool> out(graph.values.size());
  for (const ModelStage& s : graph.stages)
    te::for_each_node(s.body, [&](const Expr& n) {
      if (n->kind == Kind::Read &&
          std::any_of(n->args.begin(), n->args.end(), [](const Expr& i) { return !values_read(i).empty(); }))
        out[static_cast<size_t>(n->tensor)] = true;
    });
  return out;
}

std::vector<std::vector<int>> StageGraph::readers() const {
  std::vector<std::vector<int>> out(values.size());
  for (size_t s = 0; s < stages.size(); ++s)
    for (const int v : values_read(stages[s].body)) out[static_cast<size_t>(v)].push_back(static_cast<int>(s));
  return out;
}

int add_copy(StageGraph& g, int value) {
  const StageValue from = g.values[static_cast<size_t>(value)];
  ModelStage copy;
  std::vector<Expr> at;
  for (size_t d = 0; d < from.dims.size(); ++d) {
    copy.axes.push_back({static_cast<int>(d), fmt::format("i{}", d), Dim(from.dims[d])});
    at.emplace_back(copy.axes.back());
  }
  copy.body = Expr::read(value, from.dtype, std::move(at));
  copy.value = static_cast<int>(g.values.size());
  copy.origin = {from.name};
  StageValue& to = g.values.emplace_back();
  to.name = from.name;
  to.dtype = from.dtype;
  to.dims = from.dims;
  to.stage = static_cast<int>(g.stages.size());
  g.stages.push_back(std::move(copy));
  return g.stages.back().value;
}

void StageGraph::prune() {
  std::vector<bool> needed(values.size());
  for (const int v : outputs) needed[static_cast<size_t>(v)] = true;
  for (size_t s = stages.size(); s-- > 0;) {
    if (!needed[static_cast<size_t>(stages[s].value)]) continue;
    for (const int v : values_read(stages[s].body)) needed[static_cast<size_t>(v)] = true;
  }
  std::erase_if(stages, [&](const ModelStage& s) { return !needed[static_cast<size_t>(s.value)]; });
  for (StageValue& v : values) v.stage = -1;
  for (size_t s = 0; s < stages.size(); ++s) values[static_cast<size_t>(stages[s].value)].stage = static_cast<int>(s);
}

}  // namespace isomer::compile
