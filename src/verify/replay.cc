// Graphs rebuilt through a builder, which knows again what constants and sizes hold.
#include <fmt/format.h>

#include "ir/text.h"
#include "verify/meaning.h"

namespace isomer::verify {

ir::OpContext context_of(const ir::GraphBuilder& builder, const ir::Node& node) {
  std::vector<ir::OpContext::Input> in;
  for (const ir::Value& v : node.inputs) {
    ir::OpContext::Input i;
    if (!v.is_none()) i = {true, builder.type(v), builder.known(v), builder.known_sizes(v)};
    in.push_back(std::move(i));
  }
  return ir::OpContext(*node.op, std::move(in), node.attrs, node.types.size(), builder.table());
}

namespace {

Expected<std::vector<ir::Value>> expanded(const ir::Node& node, ir::GraphBuilder& builder) {
  const ir::OpContext c = context_of(builder, node);
  ISOMER_TRY(const std::vector<Type> types, ir::infer_types(c));
  if (node.op->expand) return node.op->expand(c, builder, node.inputs);
  std::vector<std::pair<std::string, ir::Value>> bindings;
  const auto& inputs = node.op->inputs;
  for (size_t i = 0; i < std::max(inputs.size(), node.inputs.size()); ++i) {
    const std::string name = i < inputs.size() ? inputs[i].name : fmt::format("{}.{}", inputs.back().name, i);
    bindings.emplace_back(name, i < node.inputs.size() ? node.inputs[i] : ir::Value::none());
  }
  return ir::parse_body(node.op->expand_text, builder, bindings, c);
}

// Expansions may hold composites again: replaying what was built until nothing is left to expand.
bool composite(const ir::OpDef& op) { return op.expand || !op.expand_text.empty(); }

}  // namespace

Expected<std::vector<ir::Value>> replay(const ir::Graph& graph, ir::GraphBuilder& builder, bool expand) {
  std::vector<std::vector<ir::Value>> made(graph.nodes().size());
  for (uint32_t id = 0; id < graph.nodes().size(); ++id) {
    ir::Node n = graph.node(id);
    if (n.op == &ir::input_op()) {
      ISOMER_TRY(const ir::Value v, builder.input(n.names[0], n.types[0]));
      made[id] = {v};
      continue;
    }
    if (n.op == &ir::const_op()) {
      if (const auto* sizes = n.attrs.get<ir::Sizes>("value"))
        made[id] = {builder.sizes(sizes->dims)};
      else
        made[id] = {builder.constant(*n.attrs.get<Tensor>("value"))};
      continue;
    }
    for (ir::Value& v : n.inputs)
      if (!v.is_none()) v = made[v.node][v.index];
    if (expand && composite(*n.op)) {
      ISOMER_TRY(made[id], expanded(n, builder));
    } else {
      ISOMER_TRY(made[id], builder.add(*n.op, n.inputs, n.attrs, {}, n.types.size()));
    }
  }
  std::vector<ir::Value> out;
  for (const ir::Output& o : graph.outputs()) out.push_back(made[o.value.node][o.value.index]);
  return out;
}

Expected<void> Meaning::load(const ir::Graph& graph, const ir::OpTable& table) {
  ir::Graph current = graph;
  for (int round = 0; round < 8; ++round) {
    builder_ = std::make_unique<ir::GraphBuilder>(table, graph.name());
    ISOMER_TRY(outputs_, replay(current, *builder_, true));
    bool again = false;
    for (const ir::Node& n : builder_->graph().nodes()) again |= composite(*n.op);
    if (!again) break;
    for (size_t k = 0; k < outputs_.size(); ++k) builder_->output(fmt::format("{}", k), outputs_[k]);
    current = builder_->graph();
  }
  programs_.assign(builder_->graph().nodes().size(), std::nullopt);
  for (uint32_t id = 0; id < programs_.size(); ++id) {
    const ir::Node& n = builder_->graph().node(id);
    for (const Type& t : n.types) {
      if (!t.shape.has_rank()) throw Unsupported{n.op->name, "the rank of its result is not known"};
      for (const Dim& d : t.shape.dims()) {
        std::vector<std::string> names;
        d.symbols(names);
        for (const std::string& s : names)
          if (s.starts_with('?')) throw Unsupported{n.op->name, "an extent of its result is not known"};
      }
    }
    if (!ir::is_computed(n)) continue;
    if (!n.op->compute || !n.op->pure) throw Unsupported{n.op->name, "it has no expression"};
    ISOMER_TRY(programs_[id], n.op->compute(context_of(*builder_, n)));
  }
  return {};
}

}  // namespace isomer::verify
