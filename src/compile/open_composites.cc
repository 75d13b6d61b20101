#include "compile/open_composites.h"

#include <map>

#include "ir/context.h"
#include "passes/rebuild.h"

namespace isomer::compile {

namespace {

constexpr int kDeepestExpansion = 16;

// The expansion of a node that has to be opened. One that cannot be made is left to whoever lowers the node.
std::optional<ir::Graph> hidden(const ir::Graph& g, const ir::Node& n, const ir::OpTable& table, int depth) {
  if (!n.op->expand || depth > kDeepestExpansion) return std::nullopt;
  auto body = ir::expand(ir::context_of(g, n, table));
  if (!body.ok()) return std::nullopt;
  for (const ir::Node& inner : body->nodes())
    if (inner.op->kernel || hidden(*body, inner, table, depth + 1)) return *std::move(body);
  return std::nullopt;
}

// Values inside are named after the node.
Expected<std::vector<ir::Value>> put(ir::GraphBuilder& b, const ir::Graph& body, const std::vector<ir::Value>& inputs,
                                     const std::string& name, int depth) {
  std::vector<std::vector<ir::Value>> now(body.nodes().size());
  const auto value = [&](ir::Value v) { return v.is_none() ? v : now[v.node][v.index]; };
  for (uint32_t id = 0; id < body.nodes().size(); ++id) {
    const ir::Node& n = body.node(id);
    if (n.op == &ir::input_op()) {
      now[id] = {inputs[id]};
      continue;
    }
    if (n.op == &ir::const_op()) {
      now[id] = {b.constant(*n.attrs.get<Tensor>("value"), name + ".const")};
      continue;
    }
    std::vector<ir::Value> in;
    for (const ir::Value& v : n.inputs) in.push_back(value(v));
    if (const auto inner = hidden(body, n, b.table(), depth)) {
      std::erase_if(in, [](const ir::Value& v) { return v.is_none(); });
      ISOMER_TRY(now[id], put(b, *inner, in, name, depth + 1));
    } else {
      ir::NodeInfo info;
      info.names.assign(n.types.size(), name + "." + n.op->name);
      ISOMER_TRY(now[id], b.add(*n.op, std::move(in), n.attrs, std::move(info), n.types.size()));
    }
  }
  std::vector<ir::Value> results;
  for (const ir::Output& o : body.outputs()) results.push_back(value(o.value));
  return results;
}

}  // namespace

Expected<std::optional<ir::Graph>> open_composites(const ir::Graph& g, const ir::OpTable& table) {
  std::map<uint32_t, ir::Graph> bodies;
  for (uint32_t id = 0; id < g.nodes().size(); ++id)
    if (auto body = hidden(g, g.node(id), table, 0)) bodies.emplace(id, *std::move(body));
  if (bodies.empty()) return std::optional<ir::Graph>();
  auto made = passes::rebuild(g, table, [&](passes::Rebuild& r, uint32_t id) -> Expected<void> {
    const auto it = bodies.find(id);
    if (it == bodies.end()) return r.copy(id);
    const ir::Node& n = r.graph().node(id);
    std::vector<ir::Value> in = r.inputs(id);
    std::erase_if(in, [](const ir::Value& v) { return v.is_none(); });
    r.builder().set_current(n.label, n.origin.empty() ? std::vector{n.names[0]} : n.origin);
    ISOMER_TRY(std::vector<ir::Value> results, put(r.builder(), it->second, in, n.names[0], 1));
    r.builder().set_current("", {});
    r.set(id, std::move(results));
    return {};
  });
  if (!made.ok()) return made.error();
  return std::optional(*std::move(made));
}

}  // namespace isomer::compile
