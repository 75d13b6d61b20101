#include "passes/fold.h"

#include "interp/interp.h"

namespace isomer::passes {

Value folded(Editor& e, std::string_view op, std::vector<Value> inputs, ir::Attrs attrs) {
  const Value v = e.add(op, std::move(inputs), std::move(attrs));
  if (v.is_none()) return v;
  interp::Options options;
  options.threads = 1;
  const ir::OpContext context = e.context(v.node);
  auto results = e.evaluate() ? e.evaluate()(context) : interp::run_node(context, options);
  return results.ok() ? e.constant(std::move((*results)[0])) : Value::none();
}

}  // namespace isomer::passes
