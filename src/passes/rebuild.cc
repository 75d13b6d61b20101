#include "passes/rebuild.h"

#include "passes/lasting_type.h"

namespace isomer::passes {

Rebuild::Rebuild(const ir::Graph& graph, const ir::OpTable& table)
    : graph_(&graph), builder_(table, graph.name()), values_(graph.nodes().size()) {
  builder_.set_verbatim(true);
}

std::vector<ir::Value> Rebuild::inputs(uint32_t id) const {
  std::vector<ir::Value> out;
  for (const ir::Value& v : graph_->node(id).inputs) out.push_back(now(v));
  return out;
}

Expected<void> Rebuild::copy(uint32_t id, size_t results) {
  const ir::Node& n = graph_->node(id);
  if (n.op == &ir::input_op()) {
    ISOMER_TRY(const ir::Value v, builder_.input(n.names[0], n.types[0]));
    values_[id] = {v};
    return {};
  }
  if (n.op == &ir::const_op()) {
    values_[id] = {builder_.constant(*n.attrs.get<Tensor>("value"), n.names[0])};
    return {};
  }
  if (results == 0) results = n.types.size();
  ir::NodeInfo info{n.names, n.label, n.origin};
  info.names.resize(results);
  ISOMER_TRY(values_[id], builder_.add(*n.op, inputs(id), n.attrs, std::move(info), results));
  for (uint32_t k = 0; k < results; ++k) ISOMER_CHECK_OK(builder_.declare_type(values_[id][k], lasting(n.types[k])));
  return {};
}

Expected<ir::Graph> Rebuild::finish(const std::vector<ir::Output>& outputs) && {
  for (const ir::Output& o : outputs) builder_.output(o.name, now(o.value));
  builder_.set_metadata(graph_->metadata());
  return std::move(builder_).finish();
}

Expected<ir::Graph> rebuild(const ir::Graph& graph, const ir::OpTable& table,
                            const std::function<Expected<void>(Rebuild&, uint32_t id)>& visit) {
  Rebuild r(graph, table);
  for (uint32_t id = 0; id < graph.nodes().size(); ++id) {
    const Expected<void> done = id < graph.input_count() ? r.copy(id) : visit(r, id);
    if (!done.ok()) return done.error();
  }
  return std::move(r).finish();
}

}  // namespace isomer::passes
