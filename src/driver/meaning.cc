#include "driver/meaning.h"

#include "ir/sample.h"
#include "ir/text.h"
#include "ops/table.h"
#include "te/print.h"

namespace isomer::driver {

ir::OpContext node_context(const ir::Graph& g, const ir::Node& n) {
  std::vector<ir::OpContext::Input> in;
  for (const ir::Value& v : n.inputs) {
    ir::OpContext::Input i;
    if (!v.is_none()) {
      const ir::Node& from = g.node(v.node);
      i = {true, g.type(v), from.op == &ir::const_op() ? from.attrs.get<Tensor>("value") : nullptr, nullptr};
    }
    in.push_back(std::move(i));
  }
  return ir::OpContext(*n.op, std::move(in), n.attrs, n.types.size(), ops::table());
}

Expected<std::string> meaning_of_sample(const ir::OpDef& op, const std::string& text) {
  ISOMER_TRY(const ir::Sample sample, ir::make_sample(text, ops::table(), 1));
  for (const ir::Node& n : sample.graph.nodes()) {
    if (n.op != &op) continue;
    const ir::OpContext c = node_context(sample.graph, n);
    if (op.compute) {
      ISOMER_TRY(const te::Program p, op.compute(c));
      return te::print(p);
    }
    if (op.expand || !op.expand_text.empty()) {
      ISOMER_TRY(const ir::Graph g, ir::expand(c));
      return ir::print(g);
    }
  }
  return std::string("an opaque kernel: the result depends on data in a way no expression says\n");
}

}  // namespace isomer::driver
