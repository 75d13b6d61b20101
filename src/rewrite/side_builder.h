// build_side: the calls of one side of a rule, put into anything that can take nodes (a GraphBuilder, an EditGraph).
// A Sink has add(op, inputs, attrs, outputs), constant(tensor), sizes(dims) and dtype(value).
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "rewrite/rule.h"

namespace isomer::rewrite {

// What a rule's variables stand for, each by its place in the rule.
struct Terms {
  DimValues sizes;
  std::vector<DType> types;
  std::vector<std::optional<ir::AttrValue>> attributes;

  DType dtype(const ElementType& e) const { return e.fixed ? *e.fixed : types[e.variable]; }
};

// The element type of a number as operand `place`: that of an operand it shares a type variable with, else of the first
// one that fits. `types` has nothing where an operand is no tensor yet.
DType number_type(const ir::OpDef& op, size_t place, std::span<const std::optional<DType>> types);

// An attribute's value, ir::Sizes where sizes are open; nothing where an attribute variable has no value.
Expected<std::optional<ir::AttrValue>> evaluate_attribute(const AttrTerm& term, const Terms& terms);

template <class Sink>
class SideBuilder {
 public:
  SideBuilder(const Rule& rule, const Terms& terms, Sink& sink, std::span<const ir::Value> inputs)
      : rule_(rule), terms_(terms), sink_(sink), inputs_(inputs) {}

  Expected<std::vector<ir::Value>> build(const Side& side) {
    for (const Call& c : side.calls) {
      auto results = call(c);
      if (!results.ok()) return std::move(std::move(results).error().at(c.where));
      results_.push_back(*std::move(results));
    }
    std::vector<ir::Value> outputs;
    for (const Operand& o : side.outputs)
      outputs.push_back(o.kind == Operand::Kind::Input ? inputs_[o.id] : results_[o.id][o.index]);
    return outputs;
  }

 private:
  Expected<std::vector<ir::Value>> call(const Call& c) {
    std::vector<ir::Value> operands(c.inputs.size());
    std::vector<std::optional<DType>> types(c.inputs.size());
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      const Operand& o = c.inputs[i];
      if (o.kind == Operand::Kind::Input) operands[i] = inputs_[o.id];
      if (o.kind == Operand::Kind::Result) operands[i] = results_[o.id][o.index];
      if (o.kind == Operand::Kind::Sizes) {
        auto dims = evaluate(o.sizes, terms_.sizes);
        if (!dims) return Diagnostic("E-rule-open", "a list of sizes has no known length");
        ISOMER_TRY(operands[i], sink_.sizes(*std::move(dims)));
      }
      if (!operands[i].is_none()) types[i] = sink_.dtype(operands[i]);
    }
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      const Operand& o = c.inputs[i];
      if (o.kind != Operand::Kind::Number && o.kind != Operand::Kind::Real) continue;
      double number = o.number;
      if (o.kind == Operand::Kind::Real) {
        const auto& value = terms_.attributes[o.id];
        const double* real = value ? std::get_if<double>(&*value) : nullptr;
        if (!real) return Diagnostic("E-rule-unbound", fmt::format("?{} has no value", rule_.attributes[o.id].name));
        number = *real;
      }
      operands[i] = sink_.constant(Tensor::scalar(number_type(*c.op, i, types), number));
    }
    ir::Attrs attrs;
    for (const auto& [name, term] : c.attrs) {
      ISOMER_TRY(std::optional<ir::AttrValue> v, evaluate_attribute(term, terms_));
      const ir::AttrDef* def = c.op->attr(name);
      if (v && std::holds_alternative<ir::Sizes>(*v) && def && !def->symbolic)
        return Diagnostic("E-rule-open", fmt::format("attribute {} of {} must be a number, and a size in it is open",
                                                     name, c.op->name));
      if (v) attrs.set(name, *std::move(v));
    }
    return sink_.add(*c.op, std::move(operands), std::move(attrs), c.outputs);
  }

  const Rule& rule_;
  const Terms& terms_;
  Sink& sink_;
  std::span<const ir::Value> inputs_;
  std::vector<std::vector<ir::Value>> results_;
};

}  // namespace isomer::rewrite
