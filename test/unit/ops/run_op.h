// Runs one operator on values, as the interpreter runs a node: types first, then the meaning.
#pragma once

#include <string>
#include <vector>

#include "interp/interp.h"
#include "ops/table.h"

namespace isomer {

// Null pointers stand for absent inputs.
inline Expected<std::vector<Tensor>> run_op(const std::string& name, std::vector<const Tensor*> inputs,
                                            const ir::Attrs& attrs = {}, size_t outputs = 1) {
  const ir::OpDef* op = ops::table().find(name);
  if (!op) return Diagnostic("E-test", "no operator " + name);
  std::vector<ir::OpContext::Input> in;
  for (const Tensor* t : inputs)
    in.push_back(t ? ir::OpContext::Input{true, t->type(), t, nullptr} : ir::OpContext::Input{});
  const ir::OpContext c(*op, std::move(in), attrs, outputs, ops::table());
  ISOMER_TRY(const std::vector<Type> types, ir::infer_types(c));
  for (const Type& t : types)
    if (t.shape.is_static()) {
      const auto size = checked_elements(t.dtype, t.shape.values());
      if (!size.ok()) return size.error();
    }
  ISOMER_TRY(std::vector<Tensor> results, interp::run_node(c, interp::Options{}));
  for (size_t i = 0; i < types.size(); ++i)
    if (!(types[i] == results.at(i).type()))
      return Diagnostic("E-test", "inferred " + types[i].to_string() + ", got " + results[i].type().to_string());
  return results;
}

inline Expected<Tensor> run_op1(const std::string& name, std::vector<const Tensor*> inputs,
                                const ir::Attrs& attrs = {}) {
  ISOMER_TRY(std::vector<Tensor> results, run_op(name, std::move(inputs), attrs));
  return results.at(0);
}

}  // namespace isomer
