// x * sigmoid(alpha * x) is swish, whatever the order; alpha 1 is silu, 1.702 the quick gelu.
#include "passes/editor.h"
#include "passes/numbers.h"

namespace isomer::passes {
namespace {

bool recognise_silu_at(Editor& e, uint32_t id) {
  const auto p = product(e, {id, 0});
  if (!p || p->factors.size() != 2 || p->constant != 1) return false;
  for (size_t i : {0, 1}) {
    const Value x = p->factors[1 - i];
    const ir::Node* gate = e.made_by(p->factors[i], "sigmoid");
    if (!gate || !(e.type(x) == e.type({id, 0}))) continue;
    const auto inner = polynomial(e, gate->inputs[0], x);
    if (!inner || inner->size() != 2 || (*inner)[0] != 0) continue;
    return e.replace({id, 0}, e.add("swish", {x}, {{"alpha", (*inner)[1]}}));
  }
  return false;
}

}  // namespace

Expected<ir::Graph> recognise_silu(const ir::Graph& graph, PassContext& context) {
  return rewrite_everywhere(
      graph, context, [](Editor& e, uint32_t id) { return e.node(id).op->name == "mul" && recognise_silu_at(e, id); });
}

}  // namespace isomer::passes
