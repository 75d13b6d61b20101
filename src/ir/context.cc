#include "ir/context.h"

namespace isomer::ir {

OpContext context_of(const Graph& g, const Node& n, const OpTable& table) {
  std::vector<OpContext::Input> in;
  for (const Value& v : n.inputs) {
    OpContext::Input i;
    if (!v.is_none()) {
      const Node& from = g.node(v.node);
      i = {true, g.type(v), from.op == &const_op() ? from.attrs.get<Tensor>("value") : nullptr, nullptr};
    }
    in.push_back(std::move(i));
  }
  return OpContext(*n.op, std::move(in), n.attrs, n.types.size(), table);
}

}  // namespace isomer::ir
