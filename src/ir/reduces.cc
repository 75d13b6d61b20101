#include "ir/reduces.h"

#include <algorithm>

#include "ir/context.h"
#include "te/substitute.h"

namespace isomer::ir {

bool reduces(const OpContext& context) {
  const OpDef& op = context.op();
  if (op.compute) {
    const auto program = op.compute(context);
    return program.ok() && std::any_of(program->stages.begin(), program->stages.end(),
                                       [](const te::Stage& s) { return te::has_reduction(s.body); });
  }
  if (!op.expand && op.expand_text.empty()) return false;
  const auto body = expand(context);
  return body.ok() && std::any_of(body->nodes().begin(), body->nodes().end(), [&](const Node& n) {
           return n.op != &context.op() && reduces(context_of(*body, n, context.table()));
         });
}

}  // namespace isomer::ir
