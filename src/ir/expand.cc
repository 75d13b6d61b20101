// Expansion of composite operators into graphs of simpler ones.
#include <fmt/format.h>

#include "ir/graph.h"
#include "ir/text.h"

namespace isomer::ir {

Expected<Graph> expand(const OpContext& c) {
  const OpDef& op = c.op();
  GraphBuilder builder(c.table(), op.name);
  std::vector<Value> inputs;
  std::vector<std::pair<std::string, Value>> bindings;
  for (size_t i = 0; i < c.input_count(); ++i) {
    const InputDef& def = op.inputs[std::min(i, op.inputs.size() - 1)];
    const std::string name = i < op.inputs.size() ? def.name : fmt::format("{}.{}", def.name, i);
    Value v = Value::none();
    if (c.has(i)) {
      ISOMER_TRY(v, builder.input(name, c.type(i)));
    }
    inputs.push_back(v);
    bindings.emplace_back(name, v);
  }
  // Known contents become constants, so that what depends on values (axes, sizes) can be expanded too.
  for (size_t i = 0; i < inputs.size(); ++i)
    if (const Tensor* t = c.value(i); t && !inputs[i].is_none() && t->size() <= 1024 && t->dtype() == c.dtype(i)) {
      inputs[i] = builder.constant(*t);
      bindings[i].second = inputs[i];
    }
  for (size_t i = inputs.size(); i < op.inputs.size(); ++i) bindings.emplace_back(op.inputs[i].name, Value::none());
  std::vector<Value> results;
  if (op.expand) {
    ISOMER_TRY(results, op.expand(c, builder, inputs));
  } else {
    ISOMER_TRY(results, parse_body(op.expand_text, builder, bindings, c));
  }
  for (size_t k = 0; k < results.size() && k < c.output_count(); ++k) builder.output(fmt::format("{}", k), results[k]);
  return std::move(builder).finish();
}

}  // namespace isomer::ir
