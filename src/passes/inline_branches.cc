// An `if` whose condition is known is the branch that it takes.
#include "passes/dead_code.h"
#include "passes/pass.h"
#include "passes/rebuild.h"

namespace isomer::passes {
namespace {

// The branch's results on the captured values; names inside are kept where they are free.
Expected<std::vector<ir::Value>> inlined(ir::GraphBuilder& b, const ir::Graph& body,
                                         const std::vector<ir::Value>& inputs, const ir::Node& by) {
  std::vector<std::vector<ir::Value>> values(body.nodes().size());
  for (uint32_t id = 0; id < body.nodes().size(); ++id) {
    const ir::Node& n = body.node(id);
    if (id < body.input_count()) {
      values[id] = {inputs[id]};
      continue;
    }
    if (n.op == &ir::const_op()) {
      values[id] = {b.constant(*n.attrs.get<Tensor>("value"), n.names[0])};
      continue;
    }
    std::vector<ir::Value> in;
    for (const ir::Value& v : n.inputs) in.push_back(v.is_none() ? v : values[v.node][v.index]);
    ir::NodeInfo info{n.names, n.label, n.origin};
    info.origin.insert(info.origin.end(), by.origin.begin(), by.origin.end());
    ISOMER_TRY(values[id], b.add(*n.op, std::move(in), n.attrs, std::move(info), n.types.size()));
  }
  std::vector<ir::Value> out;
  for (size_t k = 0; k < by.types.size(); ++k) {
    const ir::Value v = body.outputs()[k].value;
    out.push_back(values[v.node][v.index]);
  }
  return out;
}

}  // namespace

Expected<ir::Graph> inline_branches(const ir::Graph& graph, PassContext& context) {
  bool any = false;
  for (const ir::Node& n : graph.nodes()) any |= n.op->name == "if";
  if (!any) return graph;
  const int64_t before = context.applications();
  ISOMER_TRY(const ir::Graph out, rebuild(graph, context.table(), [&](Rebuild& r, uint32_t id) -> Expected<void> {
               const ir::Node& n = graph.node(id);
               const bool branch = n.op->name == "if" && context.admits();
               const Tensor* condition = branch ? r.builder().known(r.now(n.inputs[0])) : nullptr;
               if (!condition || condition->size() != 1) return r.copy(id);
               const ir::GraphRef* body =
                   n.attrs.get<ir::GraphRef>(condition->integer(0) != 0 ? "then_branch" : "else_branch");
               std::vector<ir::Value> captured = r.inputs(id);
               captured.erase(captured.begin());
               if (!body || (*body)->input_count() != captured.size() || (*body)->outputs().size() < n.types.size())
                 return r.copy(id);
               ISOMER_TRY(std::vector<ir::Value> results, inlined(r.builder(), **body, captured, n));
               r.set(id, std::move(results));
               context.applied(n.names[0]);
               return {};
             }));
  if (context.applications() == before) return graph;
  return without_dead_code(out, context.table());
}

}  // namespace isomer::passes
