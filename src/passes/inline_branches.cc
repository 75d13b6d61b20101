// An `if` whose condition is known is the branch that it takes; one whose condition only a run knows can be both branches and
// a selection, where a module has no other way to run it.
#include <algorithm>

#include "passes/dead_code.h"
#include "passes/lasting_type.h"
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

bool has_if(const ir::Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const ir::Node& n) { return n.op->name == "if"; });
}

// Whether a node may refuse its data, which it must not do in the branch that is not taken.
bool may_fail(const ir::Graph& g, const ir::Node& n) {
  const bool picks = n.op->name.starts_with("gather") || n.op->name.starts_with("scatter");
  const bool divides = (n.op->name == "div" || n.op->name == "mod") && !is_float(n.types[0].dtype);
  return (picks || divides) && (n.inputs.size() < 2 || g.node(n.inputs[1].node).op != &ir::const_op());
}

// The body at the types that its captures have here, with what follows from them: sizes become known, and so do branches
// inside that ask for sizes.
Expected<ir::Graph> at_captured(const ir::GraphBuilder& outer, const ir::Graph& body,
                                const std::vector<ir::Value>& captured, const ir::Node& by, PassContext& context) {
  ir::GraphBuilder b(context.table(), body.name());
  std::vector<ir::Value> inputs;
  for (size_t i = 0; i < captured.size(); ++i) {
    ISOMER_TRY(const ir::Value v,
               b.input(body.node(static_cast<uint32_t>(i)).names[0], lasting(outer.type(captured[i]))));
    inputs.push_back(v);
  }
  ISOMER_TRY(const std::vector<ir::Value> results, inlined(b, body, inputs, by));
  for (size_t k = 0; k < results.size(); ++k) b.output(body.outputs()[k].name, results[k]);
  ISOMER_TRY(ir::Graph g, std::move(b).finish());
  PassContext own(context.table());
  own.limits = context.limits;
  own.evaluate = context.evaluate;
  for (int64_t before = -1, round = 0; before != own.applications() && round < 8; ++round) {
    before = own.applications();
    ISOMER_TRY(g, fold_constants(g, own));
    ISOMER_TRY(g, inline_branches(g, own));
    ISOMER_TRY(g, select_branches(g, own));
  }
  return g;
}

// Both branches with a selection between their results; nothing where they cannot both be computed at known, equal sizes.
Expected<std::vector<ir::Value>> selected(ir::GraphBuilder& b, const ir::Node& n, const std::vector<ir::Value>& inputs,
                                          PassContext& context) {
  const Diagnostic no("E-pass", "the branches cannot both be computed");
  const std::vector<ir::Value> captured(inputs.begin() + 1, inputs.end());
  std::vector<std::vector<ir::Value>> results;
  for (const char* name : {"then_branch", "else_branch"}) {
    const ir::GraphRef* body = n.attrs.get<ir::GraphRef>(name);
    if (!body || (*body)->input_count() != captured.size() || (*body)->outputs().size() < n.types.size()) return no;
    ISOMER_TRY(const ir::Graph sized, at_captured(b, **body, captured, n, context));
    for (const ir::Node& inner : sized.nodes())
      if (may_fail(sized, inner) || inner.op->kernel) return no;
    ISOMER_TRY(std::vector<ir::Value> made, inlined(b, sized, captured, n));
    results.push_back(std::move(made));
  }
  ir::Value condition = inputs[0];
  if (!b.type(condition).shape.has_rank()) return no;
  if (b.type(condition).shape.rank() != 0) {
    ISOMER_TRY(condition, b.add1("reshape", {condition, b.sizes({})}));
  }
  std::vector<ir::Value> out;
  for (size_t k = 0; k < n.types.size(); ++k) {
    const Type then = b.type(results[0][k]), other = b.type(results[1][k]);
    if (then.dtype == DType::Opaque || !then.shape.is_static() || then != other) return no;
    ir::NodeInfo info;
    info.names = {n.names[k]};
    info.origin = n.origin;
    ISOMER_TRY(const ir::Value v, b.add1("where", {condition, results[0][k], results[1][k]}, {}, std::move(info)));
    out.push_back(v);
  }
  return out;
}

}  // namespace

Expected<ir::Graph> inline_branches(const ir::Graph& graph, PassContext& context) {
  if (!has_if(graph)) return graph;
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

Expected<ir::Graph> select_branches(const ir::Graph& graph, PassContext& context) {
  if (!has_if(graph)) return graph;
  const int64_t before = context.applications();
  ISOMER_TRY(const ir::Graph out, rebuild(graph, context.table(), [&](Rebuild& r, uint32_t id) -> Expected<void> {
               const ir::Node& n = graph.node(id);
               if (n.op->name != "if" || !context.admits()) return r.copy(id);
               auto results = selected(r.builder(), n, r.inputs(id), context);
               if (!results.ok()) return r.copy(id);  // what was made of the branches is dead
               r.set(id, *std::move(results));
               context.applied(n.names[0]);
               return {};
             }));
  if (context.applications() == before) return graph;
  return without_dead_code(out, context.table());
}

}  // namespace isomer::passes
