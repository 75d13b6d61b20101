// Nodes: attributes, constants, known operators in all their forms, and unknown ones.
#include <fmt/format.h>

#include <unordered_set>

#include "onnx/export_proto.h"
#include "onnx/import_proto.h"
#include "onnx/type_proto.h"

namespace isomer::onnx {

using ::onnx::AttributeProto;
using ::onnx::NodeProto;

namespace {

// Files of the first IR versions leave the kind out: it is the field that is set.
AttributeProto::AttributeType kind_of(const AttributeProto& a) {
  if (a.type() != AttributeProto::UNDEFINED) return a.type();
  if (a.has_f()) return AttributeProto::FLOAT;
  if (a.has_i()) return AttributeProto::INT;
  if (a.has_s()) return AttributeProto::STRING;
  if (a.has_t()) return AttributeProto::TENSOR;
  if (a.has_g()) return AttributeProto::GRAPH;
  if (a.floats_size() > 0) return AttributeProto::FLOATS;
  if (a.ints_size() > 0) return AttributeProto::INTS;
  if (a.strings_size() > 0) return AttributeProto::STRINGS;
  return AttributeProto::UNDEFINED;
}

// An attribute as it stands in the file; nothing for kinds Isomer does not hold. Bodies are imported apart.
Expected<std::optional<ir::AttrValue>> read_attribute(const AttributeProto& a, TensorReader& tensors) {
  using Result = std::optional<ir::AttrValue>;
  switch (kind_of(a)) {
    case AttributeProto::FLOAT: return Result(static_cast<double>(a.f()));
    case AttributeProto::INT: return Result(static_cast<int64_t>(a.i()));
    case AttributeProto::STRING: return Result(a.s());
    case AttributeProto::FLOATS: return Result(std::vector<double>(a.floats().begin(), a.floats().end()));
    case AttributeProto::INTS: return Result(std::vector<int64_t>(a.ints().begin(), a.ints().end()));
    case AttributeProto::STRINGS: return Result(std::vector<std::string>(a.strings().begin(), a.strings().end()));
    case AttributeProto::TENSOR: {
      ISOMER_TRY(std::optional<Tensor> t, tensors.read(a.t()));
      return t ? Result(*std::move(t)) : Result();
    }
    default: return Result();
  }
}

// The value of a type attribute (`to`, `dtype`): a number, or a name in the first opset.
Expected<std::optional<ir::AttrValue>> read_dtype(const AttributeProto& a) {
  using Result = std::optional<ir::AttrValue>;
  if (kind_of(a) == AttributeProto::STRING) {
    const auto t = dtype_of_name(a.s());
    return t ? Result(*t) : Result();
  }
  if (kind_of(a) != AttributeProto::INT || a.i() < 0 || a.i() > 1000)
    return Diagnostic("E-onnx-type", fmt::format("attribute {} is no element type", quoted(a.name())));
  ISOMER_TRY(const std::optional<DType> t, dtype_of(static_cast<int32_t>(a.i())));
  return t ? Result(*t) : Result();
}

bool takes_opaque(const ir::OpDef& op, size_t i) {
  if (op.inputs.empty()) return false;
  return op.inputs[std::min(i, op.inputs.size() - 1)].types.contains(DType::Opaque);
}

}  // namespace

ir::NodeInfo Importer::info(const Call& call, const Scope& scope) const {
  ir::NodeInfo info;
  info.label = call.node.name().empty() ? "" : scope.prefix + call.node.name();
  for (size_t k = 0; k < call.outputs; ++k) {
    const std::string& name = call.node.output(static_cast<int>(k));
    info.names.push_back(name.empty() ? "" : scope.prefix + name);
  }
  if (!info.label.empty())
    info.origin = {info.label};
  else if (!info.names.empty())
    info.origin = {info.names[0]};
  return info;
}

Expected<void> Importer::import_node(const NodeProto& node, Scope& scope) {
  Call call{.node = node, .domain = node.domain() == "ai.onnx" ? "" : node.domain()};
  for (int k = 0; k < node.output_size(); ++k)
    if (!node.output(k).empty()) call.outputs = static_cast<size_t>(k) + 1;
  if (call.outputs == 0) {
    warn(fmt::format("{} has no results and is left out", describe(node)));
    return {};
  }
  const auto version = scope.opsets.find(call.domain);
  if (version != scope.opsets.end())
    call.version = version->second;
  else if (call.domain.empty())
    return Diagnostic("E-onnx-opset", "a node is of ONNX's own operators, but the file imports no version of them");
  for (const std::string& name : node.input()) {
    ir::Value v = ir::Value::none();
    if (!name.empty()) {
      ISOMER_TRY(v, look_up(name, scope));
    }
    call.inputs.push_back(v);
  }
  ISOMER_CHECK_OK(resolve_attributes(call, scope));
  ir::NodeInfo current = info(call, scope);
  scope.builder.set_current(std::move(current.label), std::move(current.origin));
  ISOMER_TRY(const std::vector<ir::Value> results, import_call(call, scope));
  for (size_t k = 0; k < call.outputs; ++k) {
    const std::string& name = node.output(static_cast<int>(k));
    if (name.empty()) continue;
    if (k >= results.size())
      return Diagnostic("E-op", fmt::format("{}: result {} does not exist", printable(node.op_type(), 40), k));
    ISOMER_CHECK_OK(define(name, results[k], scope));
    ISOMER_CHECK_OK(check_declared(name, results[k], scope));
  }
  return {};
}

// Attributes that refer to one of the enclosing function get the caller's value, or are absent like it.
Expected<void> Importer::resolve_attributes(Call& call, const Scope& scope) const {
  std::unordered_set<std::string_view> seen;
  for (const AttributeProto& a : call.node.attribute()) {
    if (!seen.insert(a.name()).second)
      return Diagnostic("E-op", fmt::format("attribute {} is given twice", quoted(a.name())));
    const AttributeProto* value = &a;
    if (!a.ref_attr_name().empty()) {
      if (!scope.arguments)
        return Diagnostic(
            "E-op", fmt::format("attribute {} refers to an attribute of a function, outside of one", quoted(a.name())));
      const auto it = scope.arguments->find(a.ref_attr_name());
      if (it == scope.arguments->end()) continue;
      value = it->second;
    }
    call.attributes.push_back(value);
    call.attribute_names.push_back(a.name());
  }
  return {};
}

Expected<std::vector<ir::Value>> Importer::import_call(Call& call, Scope& scope) {
  const std::string& type = call.node.op_type();
  if (const auto f = functions_.find({call.domain, type}); f != functions_.end())
    return inline_function(f->second, call, scope);
  if (call.domain.empty() && type == "Constant") {
    ISOMER_TRY(const std::optional<ir::Value> value, constant_node(call, scope));
    if (value) return std::vector{*value};
  }
  if (call.node.doc_string() == kAliasMark && call.inputs.size() == 1 && call.outputs == 1) return call.inputs;
  ISOMER_CHECK_OK(import_bodies(call, scope));
  const auto entry = table_.find_onnx(call.domain, type);
  if (!entry) {
    warn(fmt::format("operator {}{}{} is unknown and kept as it is", printable(call.domain, 40),
                     call.domain.empty() ? "" : ".", printable(type, 40)));
    return opaque_node(call, scope);
  }
  const ir::OpDef& op = *entry->op;
  bool unsupported = call.carries_opaque;
  for (size_t i = 0; i < call.inputs.size(); ++i)
    unsupported |=
        !call.inputs[i].is_none() && scope.builder.type(call.inputs[i]).dtype == DType::Opaque && !takes_opaque(op, i);
  if (unsupported) return opaque_node(call, scope);
  ISOMER_TRY(std::optional<ir::Attrs> attrs, known_attributes(call, op));
  if (!attrs) return opaque_node(call, scope);
  if (call.captures > 0) {
    size_t fixed = 0;
    for (const ir::InputDef& d : op.inputs) fixed += d.arity != ir::Arity::Variadic;
    const size_t written = call.inputs.size() - call.captures;
    // Captures come after the operator's own inputs, also when trailing ones of those are left out.
    if (written < fixed)
      call.inputs.insert(call.inputs.begin() + static_cast<ptrdiff_t>(written), fixed - written, ir::Value::none());
    attrs->set("captures", static_cast<int64_t>(call.captures));
  }
  ir::ForeignNode foreign{.op = &op,
                          .type = type,
                          .domain = call.domain,
                          .version = call.version,
                          .inputs = std::move(call.inputs),
                          .attrs = *std::move(attrs),
                          .info = info(call, scope),
                          .outputs = call.outputs};
  const ir::OnnxForm& form = *entry->form;
  const bool renamed = &form != &op.onnx.front();
  const bool always = form.always || form.stable <= form.since.front();
  if (form.import && (call.version < form.stable || renamed || always)) return form.import(foreign, scope.builder);
  return ir::add_as_is(foreign, scope.builder);
}

// Constant in all its forms; nothing when it holds a type that is only carried.
Expected<std::optional<ir::Value>> Importer::constant_node(const Call& call, const Scope& scope) const {
  if (call.attributes.size() != 1)
    return Diagnostic("E-op", fmt::format("Constant: expected one attribute, found {}", call.attributes.size()));
  const AttributeProto& a = *call.attributes[0];
  const std::string_view name = call.attribute_names[0];
  std::optional<Tensor> value;
  if (name == "value" && kind_of(a) == AttributeProto::TENSOR) {
    ISOMER_TRY(value, tensors_.read(a.t()));
  } else if (name == "value_float") {
    value = Tensor::scalar(DType::F32, a.f());
  } else if (name == "value_int") {
    value = Tensor::int_scalar(DType::I64, a.i());
  } else if (name == "value_floats") {
    value = Tensor::of<double>(DType::F32, {a.floats_size()}, {a.floats().begin(), a.floats().end()});
  } else if (name == "value_ints") {
    value = Tensor::ints({a.ints().begin(), a.ints().end()});
  } else if (name != "value_string" && name != "value_strings" && name != "sparse_value") {
    return Diagnostic("E-op", fmt::format("Constant: attribute {} holds no value", quoted(name)));
  }
  if (!value) return std::optional<ir::Value>();
  return std::optional(scope.builder.constant(*std::move(value), scope.prefix + call.node.output(0)));
}

// Attributes of an operator that is known; nothing when one holds what Isomer only carries.
Expected<std::optional<ir::Attrs>> Importer::known_attributes(const Call& call, const ir::OpDef& op) const {
  ir::Attrs attrs = call.bodies;
  for (size_t i = 0; i < call.attributes.size(); ++i) {
    const AttributeProto& a = *call.attributes[i];
    const std::string name(call.attribute_names[i]);
    if (attrs.has(name)) continue;
    const ir::AttrDef* def = op.attr(name);
    // A hint of the first opsets about memory, without meaning.
    if (!def && name == "consumed_inputs") continue;
    std::optional<ir::AttrValue> value;
    if (def && def->kind == ir::AttrKind::DType) {
      // Type 0 says that none is given.
      if (!def->required && kind_of(a) == AttributeProto::INT && a.i() == 0) continue;
      ISOMER_TRY(value, read_dtype(a));
    } else {
      ISOMER_TRY(value, read_attribute(a, tensors_));
    }
    if (!value) return std::optional<ir::Attrs>();
    attrs.set(name, *std::move(value));
  }
  return std::optional(std::move(attrs));
}

Expected<std::vector<ir::Value>> Importer::opaque_node(Call& call, Scope& scope) {
  ir::Attrs attrs = call.bodies;
  for (size_t i = 0; i < call.attributes.size(); ++i) {
    const AttributeProto& a = *call.attributes[i];
    const std::string name(call.attribute_names[i]);
    if (is_reserved(name))
      return Diagnostic("E-unsupported", fmt::format("an unknown operator has an attribute named {}", quoted(name)));
    if (attrs.has(name)) continue;
    if (a.graphs_size() > 0)
      return Diagnostic("E-unsupported", fmt::format("attribute {} is a list of graphs", quoted(name)));
    ISOMER_TRY(std::optional<ir::AttrValue> value, read_attribute(a, tensors_));
    attrs.set(name, value ? *std::move(value) : ir::AttrValue(ir::Foreign{tensors_.bytes_of(a)}));
  }
  attrs.set("op_type", call.node.op_type());
  attrs.set("op_domain", call.domain);
  attrs.set("op_version", call.version);
  attrs.set("op_captures", static_cast<int64_t>(call.captures));
  std::vector<std::string> types, foreign;
  for (size_t k = 0; k < call.outputs; ++k) {
    Type type{DType::Opaque, Shape::unknown(), nullptr};
    const auto it = scope.declared.find(call.node.output(static_cast<int>(k)));
    if (it != scope.declared.end()) {
      ISOMER_TRY(type, read_type(*it->second, ""));
    }
    types.push_back(type.to_string());
    foreign.push_back(type.foreign ? *type.foreign : "");
  }
  attrs.set("op_types", std::move(types));
  attrs.set("op_foreign", std::move(foreign));
  return scope.builder.add("opaque", std::move(call.inputs), std::move(attrs), info(call, scope), call.outputs);
}

void Importer::warn(std::string text) {
  // A value may be looked at twice: as a result and as an output.
  const bool known = std::find(warnings_.begin(), warnings_.end(), text) != warnings_.end();
  if (!known && warnings_.size() < 100) warnings_.push_back(std::move(text));
}

}  // namespace isomer::onnx
