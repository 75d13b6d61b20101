#include "passes/piece.h"

#include <map>

#include "passes/lasting_type.h"

namespace isomer::passes {
namespace {

// Which results of each node are needed outside of the piece.
std::vector<std::vector<bool>> needed_outside(const ir::Graph& g, const std::vector<bool>& taken) {
  std::vector<std::vector<bool>> needed(g.nodes().size());
  for (size_t i = 0; i < needed.size(); ++i) needed[i].resize(g.nodes()[i].types.size());
  for (uint32_t i = 0; i < g.nodes().size(); ++i)
    for (const ir::Value& v : g.node(i).inputs)
      if (!v.is_none() && !taken[i]) needed[v.node][v.index] = true;
  for (const ir::Output& o : g.outputs()) needed[o.value.node][o.value.index] = true;
  return needed;
}

class Cutter {
 public:
  Cutter(const ir::Graph& g, const std::vector<bool>& taken, const ir::OpTable& table)
      : g_(g), taken_(taken), builder_(table, g.name()) {
    builder_.set_verbatim(true);
  }

  Expected<Piece> run() {
    for (uint32_t i = 0; i < g_.nodes().size(); ++i)
      for (const ir::Value& v : g_.node(i).inputs)
        if (taken_[i] && !v.is_none()) ISOMER_CHECK_OK(declare(v));
    const std::vector<std::vector<bool>> needed = needed_outside(g_, taken_);
    for (uint32_t i = 0; i < g_.nodes().size(); ++i) {
      if (!taken_[i]) continue;
      ISOMER_CHECK_OK(copy(i));
      for (uint32_t k = 0; k < needed[i].size(); ++k) {
        if (!needed[i][k]) continue;
        piece_.outputs.push_back({i, k});
        builder_.output(g_.value_name({i, k}), now_.at({i, k}));
      }
    }
    ISOMER_TRY(piece_.graph, std::move(builder_).finish());
    return std::move(piece_);
  }

 private:
  bool is_const(ir::Value v) const { return g_.node(v.node).op == &ir::const_op(); }

  Expected<void> declare(ir::Value v) {
    if (taken_[v.node] || is_const(v) || now_.count(v)) return {};
    ISOMER_TRY(now_[v], builder_.input(g_.value_name(v), lasting(g_.type(v))));
    piece_.inputs.push_back(v);
    return {};
  }

  Expected<void> copy(uint32_t id) {
    const ir::Node& n = g_.node(id);
    std::vector<ir::Value> in;
    for (const ir::Value& v : n.inputs) {
      if (!v.is_none() && is_const(v) && !now_.count(v))
        now_[v] = builder_.constant(*g_.node(v.node).attrs.get<Tensor>("value"), g_.value_name(v));
      in.push_back(v.is_none() ? v : now_.at(v));
    }
    const std::vector<std::string> origin = n.origin.empty() && !n.names.empty()
                                                ? std::vector<std::string>{n.label.empty() ? n.names[0] : n.label}
                                                : n.origin;
    ISOMER_TRY(const std::vector<ir::Value> made,
               builder_.add(*n.op, std::move(in), n.attrs, {n.names, n.label, origin}, n.types.size()));
    for (uint32_t k = 0; k < made.size(); ++k) {
      ISOMER_CHECK_OK(builder_.declare_type(made[k], lasting(n.types[k])));
      now_[{id, k}] = made[k];
    }
    return {};
  }

  const ir::Graph& g_;
  const std::vector<bool>& taken_;
  ir::GraphBuilder builder_;
  std::map<ir::Value, ir::Value> now_;
  Piece piece_;
};

}  // namespace

Expected<Piece> cut(const ir::Graph& graph, const std::vector<bool>& taken, const ir::OpTable& table) {
  return Cutter(graph, taken, table).run();
}

Expected<ir::Graph> specialise(const ir::Graph& g, const std::vector<Type>& types,
                               const std::vector<std::optional<Tensor>>& contents, const ir::OpTable& table) {
  ir::GraphBuilder builder(table, g.name());
  std::vector<std::vector<ir::Value>> values(g.nodes().size());
  for (uint32_t i = 0; i < g.input_count(); ++i) {
    if (i < contents.size() && contents[i]) continue;
    ISOMER_TRY(const ir::Value v, builder.input(g.node(i).names[0], types[i]));
    values[i] = {v};
  }
  for (uint32_t i = 0; i < g.nodes().size(); ++i) {
    const ir::Node& n = g.node(i);
    if (i < g.input_count()) {
      if (values[i].empty()) values[i] = {builder.constant(*contents[i], n.names[0])};
      continue;
    }
    if (n.op == &ir::const_op()) {
      values[i] = {builder.constant(*n.attrs.get<Tensor>("value"), n.names[0])};
      continue;
    }
    std::vector<ir::Value> inputs;
    for (const ir::Value& v : n.inputs) inputs.push_back(v.is_none() ? v : values[v.node][v.index]);
    ISOMER_TRY(values[i], builder.add(*n.op, std::move(inputs), n.attrs, {n.names, n.label, n.origin}, n.types.size()));
  }
  for (const ir::Output& o : g.outputs()) builder.output(o.name, values[o.value.node][o.value.index]);
  builder.set_metadata(g.metadata());
  return std::move(builder).finish();
}

}  // namespace isomer::passes
