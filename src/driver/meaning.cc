#include "driver/meaning.h"

#include "ir/context.h"
#include "ir/sample.h"
#include "ir/text.h"
#include "ops/table.h"
#include "te/print.h"

namespace isomer::driver {

Expected<std::string> meaning_of_sample(const ir::OpDef& op, const std::string& text) {
  ISOMER_TRY(const ir::Sample sample, ir::make_sample(text, ops::table(), 1));
  for (const ir::Node& n : sample.graph.nodes()) {
    if (n.op != &op) continue;
    const ir::OpContext c = ir::context_of(sample.graph, n, ops::table());
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
