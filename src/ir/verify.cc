#include "ir/verify.h"

#include <fmt/format.h>

#include <unordered_set>

namespace isomer::ir {
namespace {

constexpr int kMaxDepth = 64;

Diagnostic broken(const Graph& g, uint32_t node, const std::string& what) {
  const Node& n = g.node(node);
  return Diagnostic("E-verify", fmt::format("node {} ({}) of graph {}: {}", node, n.op ? n.op->name : "no operator",
                                            quoted(g.name()), what));
}

bool in_range(const Graph& g, Value v, size_t before) {
  return v.node < before && v.index < g.node(v.node).types.size();
}

// The node's last inputs are the captures, and so are each body's.
Expected<void> check_captures(const Graph& g, uint32_t id) {
  const Node& n = g.node(id);
  const int64_t* given = n.attrs.get<int64_t>("captures");
  const int64_t count = given ? *given : 0;
  if (count < 0 || static_cast<uint64_t>(count) > n.inputs.size())
    return broken(g, id, fmt::format("captures is {}, the node has {} inputs", count, n.inputs.size()));
  const auto k = static_cast<size_t>(count);
  for (const auto& [key, value] : n.attrs) {
    const auto* body = std::get_if<GraphRef>(&value);
    if (!body || !given) continue;
    if ((*body)->input_count() < k)
      return broken(g, id, fmt::format("body '{}' has fewer inputs than the {} captures", key, k));
    for (size_t i = 0; i < k; ++i) {
      const Value v = n.inputs[n.inputs.size() - k + i];
      const Node& input = (*body)->inputs()[(*body)->input_count() - k + i];
      if (v.is_none() || g.type(v).dtype != input.types[0].dtype)
        return broken(g, id, fmt::format("capture {} and its input of body '{}' differ in type", i, key));
    }
  }
  return {};
}

Expected<void> check_node(const Graph& g, uint32_t id, std::unordered_set<std::string_view>& names) {
  const Node& n = g.node(id);
  if (!n.op) return broken(g, id, "it has no operator");
  if ((n.op == &input_op()) != (id < g.input_count())) return broken(g, id, "inputs come first, and nothing else does");
  if (n.op == &const_op() && !n.attrs.get<Tensor>("value") && !n.attrs.get<Sizes>("value"))
    return broken(g, id, "the constant has no value");
  if (n.names.size() != n.types.size())
    return broken(g, id, fmt::format("{} names for {} results", n.names.size(), n.types.size()));
  for (const Value& v : n.inputs)
    if (!v.is_none() && !in_range(g, v, id))
      return broken(g, id, fmt::format("it reads result {} of node {}, which is not before it", v.index, v.node));
  for (const std::string& name : n.names)
    if ((!name.empty() || id < g.input_count()) && !names.insert(name).second)
      return broken(g, id, fmt::format("the name {} is used twice", quoted(name)));
  return {};
}

Expected<void> structure(const Graph& g, int depth) {
  if (depth > kMaxDepth) return Diagnostic("E-nesting", fmt::format("graphs are nested more than {} deep", kMaxDepth));
  if (g.input_count() > g.nodes().size())
    return Diagnostic("E-verify", fmt::format("graph {} has fewer nodes than inputs", quoted(g.name())));
  std::unordered_set<std::string_view> names, outputs;
  for (uint32_t id = 0; id < g.nodes().size(); ++id) {
    ISOMER_CHECK_OK(check_node(g, id, names));
    for (const auto& [key, value] : g.node(id).attrs)
      if (const auto* body = std::get_if<GraphRef>(&value)) {
        if (!*body) return broken(g, id, fmt::format("attribute '{}' is a graph that is not there", key));
        ISOMER_CHECK_OK(structure(**body, depth + 1));
      }
    ISOMER_CHECK_OK(check_captures(g, id));
  }
  for (const Output& o : g.outputs()) {
    if (!in_range(g, o.value, g.nodes().size()))
      return Diagnostic("E-verify",
                        fmt::format("output {} of graph {} is no result of a node", quoted(o.name), quoted(g.name())));
    if (!outputs.insert(o.name).second)
      return Diagnostic("E-duplicate-name",
                        fmt::format("two outputs of graph {} are named {}", quoted(g.name()), quoted(o.name)));
  }
  return {};
}

// Builds the graph again, node by node: the builder checks each against its record and infers its types.
Expected<void> types(const Graph& g, const OpTable& table) {
  GraphBuilder builder(table, g.name());
  builder.set_verbatim(true);
  for (const Node& n : g.inputs()) ISOMER_CHECK_OK(builder.input(n.names[0], n.types[0]));
  for (auto id = static_cast<uint32_t>(g.input_count()); id < g.nodes().size(); ++id) {
    const Node& n = g.node(id);
    for (const auto& [key, value] : n.attrs)
      if (const auto* body = std::get_if<GraphRef>(&value)) ISOMER_CHECK_OK(types(**body, table));
    if (const Sizes* sizes = n.attrs.get<Sizes>("value"); sizes && n.op == &const_op()) {
      builder.sizes(sizes->dims, n.names[0]);
      continue;
    }
    if (n.op == &const_op()) {
      const Tensor& t = *n.attrs.get<Tensor>("value");
      if (n.types.size() != 1 || !(n.types[0] == t.type())) return broken(g, id, "its type is not that of its value");
      builder.constant(t, n.names[0]);
      continue;
    }
    auto results = builder.add(*n.op, n.inputs, n.attrs, {n.names, n.label, n.origin}, n.types.size());
    if (!results.ok()) return broken(g, id, results.error().message);
    if (results->size() != n.types.size()) return broken(g, id, "its number of results is not its record's");
    for (uint32_t k = 0; k < n.types.size(); ++k)
      if (auto r = builder.restate_type({id, k}, n.types[k]); !r.ok()) return broken(g, id, r.error().message);
  }
  return {};
}

}  // namespace

Expected<void> verify_structure(const Graph& graph) { return structure(graph, 0); }

Expected<void> verify(const Graph& graph, const OpTable& table) {
  ISOMER_CHECK_OK(verify_structure(graph));
  return types(graph, table);
}

}  // namespace isomer::ir
