#include "ir/op.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/graph.h"

namespace isomer::ir {

const AttrDef* OpDef::attr(std::string_view attr_name) const {
  const auto it = std::find_if(attrs.begin(), attrs.end(), [&](const AttrDef& a) { return a.name == attr_name; });
  return it == attrs.end() ? nullptr : &*it;
}

OpTable::OpTable(std::vector<OpDef> records) : records_(std::move(records)) {
  for (const OpDef& r : records_) {
    by_name_.emplace(r.name, &r);
    for (const OnnxForm& form : r.onnx) by_onnx_.emplace(std::pair(form.domain, form.type), OnnxEntry{&r, &form});
  }
}

const OpDef* OpTable::find(std::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : it->second;
}

std::optional<OpTable::OnnxEntry> OpTable::find_onnx(std::string_view domain, std::string_view type) const {
  const auto it = by_onnx_.find(std::pair(std::string(domain), std::string(type)));
  return it == by_onnx_.end() ? std::nullopt : std::optional(it->second);
}

const InputDef* OpDef::input(size_t i) const {
  if (i < inputs.size()) return &inputs[i];
  return !inputs.empty() && inputs.back().arity == Arity::Variadic ? &inputs.back() : nullptr;
}

namespace {

// The element type bound to a variable by the inputs.
std::optional<DType> bound(const OpContext& c, std::string_view var) {
  for (size_t i = 0; i < c.input_count(); ++i) {
    const InputDef* def = c.op().input(i);
    if (def && c.has(i) && def->var == var) return c.dtype(i);
  }
  return std::nullopt;
}

Expected<void> check_inputs(const OpContext& c) {
  const OpDef& op = c.op();
  for (size_t i = 0; i < std::max(op.inputs.size(), c.input_count()); ++i) {
    const InputDef* def = op.input(i);
    if (!def) return c.error(fmt::format("expected at most {} inputs, found {}", op.inputs.size(), c.input_count()));
    if (!c.has(i)) {
      // A list that must not be empty has no gaps either: its members tell the types of the outputs.
      if (def->arity == Arity::Required || (def->at_least > 0 && i < c.input_count()))
        return c.error(fmt::format("input '{}' is missing", def->name));
      continue;
    }
    const DType t = c.dtype(i);
    if (!def->types.contains(t) && !(t == DType::Opaque && op.open_attrs))
      return c.error(
          fmt::format("input '{}' has element type {}, which this operator does not take", def->name, name(t)));
    if (const auto first = bound(c, def->var); first && *first != t && !def->var.empty())
      return c.error(fmt::format("input '{}' has element type {}, expected {} as the inputs before it", def->name,
                                 name(t), name(*first)));
  }
  if (!op.inputs.empty() && op.inputs.back().arity == Arity::Variadic) {
    const size_t given = c.input_count() < op.inputs.size() - 1 ? 0 : c.input_count() - (op.inputs.size() - 1);
    if (static_cast<int>(given) < op.inputs.back().at_least)
      return c.error(fmt::format("expected at least {} inputs '{}', found {}", op.inputs.back().at_least,
                                 op.inputs.back().name, given));
  }
  return {};
}

Expected<void> check_attrs(const OpContext& c) {
  for (const auto& [key, value] : c.attrs()) {
    const AttrDef* def = c.op().attr(key);
    if (!def) {
      if (c.op().open_attrs) continue;
      return c.error(fmt::format("unknown attribute {}", quoted(key)));
    }
    const auto* sizes = std::get_if<Sizes>(&value);
    const bool fits = sizes && def->symbolic && (def->kind == AttrKind::Ints || sizes->dims.size() == 1);
    if (kind_of(value) != def->kind && !fits)
      return c.error(
          fmt::format("attribute '{}' is of kind {}, expected {}", key, name(kind_of(value)), name(def->kind)));
    if (const DType* type = std::get_if<DType>(&value); type && *type == DType::Opaque)
      return c.error(fmt::format("attribute '{}' is opaque, expected a type of numbers", key));
    if (const auto* body = std::get_if<GraphRef>(&value); body && !*body)
      return c.error(fmt::format("attribute '{}' is a graph that is not there", key));
  }
  for (const AttrDef& def : c.op().attrs)
    if (def.required && !c.attrs().has(def.name)) return c.error(fmt::format("attribute '{}' is missing", def.name));
  return {};
}

// The attribute an output's type is named after, without '$', and the variable that holds when it is absent.
struct TypeSource {
  std::string attr, var;
};
TypeSource type_source(const OutputDef& def) {
  if (!def.type.starts_with('$')) return {"", def.type};
  const size_t bar = def.type.find('|');
  if (bar == std::string::npos) return {def.type.substr(1), ""};
  return {def.type.substr(1, bar - 1), def.type.substr(bar + 1)};
}

// out() gives no type where nothing says one: neither an attribute nor an input that is there.
Expected<void> check_output_types(const OpContext& c, const std::vector<Type>& types) {
  for (size_t i = 0; i < types.size() && !c.op().open_attrs; ++i) {
    if (types[i].dtype != DType::Opaque) continue;
    const OutputDef& def = c.op().outputs[std::min(i, c.op().outputs.size() - 1)];
    const std::string var = type_source(def).var;
    const bool from_input = std::any_of(c.op().inputs.begin(), c.op().inputs.end(),
                                        [&](const InputDef& in) { return !in.var.empty() && in.var == var; });
    // Control flow carries such values, from inputs or out of its bodies.
    if (!var.empty() && (!from_input || bound(c, var) == DType::Opaque)) continue;
    return c.error(fmt::format(
        "the element type of output '{}' is not known: no input or attribute that says it is given", def.name));
  }
  return {};
}

}  // namespace

Expected<void> check_signature(const OpContext& c) {
  ISOMER_CHECK_OK(check_attrs(c));
  ISOMER_CHECK_OK(check_inputs(c));
  size_t fewest = 0, most = c.op().outputs.size();
  for (const OutputDef& o : c.op().outputs) {
    fewest += o.arity == Arity::Required;
    if (o.arity == Arity::Variadic) most = std::numeric_limits<size_t>::max();
  }
  fewest = std::max<size_t>(1, fewest);  // a node is known by its results
  if (c.output_count() < fewest || c.output_count() > most)
    return c.error(fmt::format("expected {}{} outputs, found {}", c.output_count() < fewest ? "at least " : "at most ",
                               c.output_count() < fewest ? fewest : most, c.output_count()));
  return {};
}

namespace {

// The types by the record, as many as it gives.
Expected<std::vector<Type>> types_by_record(const OpContext& c) {
  const OpDef& op = c.op();
  bool ranked = true;
  for (size_t i = 0; i < c.input_count(); ++i) ranked &= !c.has(i) || c.shape(i).has_rank();
  if (!ranked && !op.infer_unranked) {
    std::vector<Type> types;
    for (size_t i = 0; i < c.output_count(); ++i) types.push_back(c.out(i, Shape::unknown()));
    return types;
  }
  if (op.infer) return op.infer(c);
  if (op.expand || !op.expand_text.empty()) {
    ISOMER_TRY(const Graph g, expand(c));
    std::vector<Type> types;
    for (const Output& o : g.outputs()) types.push_back(g.type(o.value));
    types.resize(std::min(types.size(), c.output_count()));
    return types;
  }
  if (!op.compute) return c.error("has neither a type rule nor an expression");
  ISOMER_TRY(const te::Program p, op.compute(c));
  std::vector<Type> types;
  for (size_t i = 0; i < c.output_count() && i < p.outputs.size(); ++i)
    types.push_back({p.slot_dtype(p.outputs[i]), Shape(p.slot_dims(p.outputs[i])), nullptr});
  return types;
}

}  // namespace

Expected<std::vector<Type>> infer_types(const OpContext& c) {
  ISOMER_CHECK_OK(check_signature(c));
  ISOMER_TRY(std::vector<Type> types, types_by_record(c));
  if (types.size() != c.output_count())
    return c.error(fmt::format("gives {} results with these inputs and attributes, {} are asked for", types.size(),
                               c.output_count()));
  ISOMER_CHECK_OK(check_output_types(c, types));
  return types;
}

Expected<std::vector<Tensor>> OpContext::run(const Graph& body, std::vector<Tensor> inputs) const {
  ISOMER_ASSERT(runner_, "control flow is run by an executor");
  return runner_(body, std::move(inputs));
}

std::optional<std::vector<Dim>> OpContext::sizes(size_t i) const {
  if (!has(i)) return std::nullopt;
  if (inputs_[i].symbolic) return *inputs_[i].symbolic;
  if (!inputs_[i].value || is_float(dtype(i))) return std::nullopt;
  const std::vector<int64_t> v = inputs_[i].value->to_ints();
  return std::vector<Dim>(v.begin(), v.end());
}

std::optional<std::vector<int64_t>> OpContext::ints_value(size_t i) const {
  const auto s = sizes(i);
  if (!s) return std::nullopt;
  std::vector<int64_t> out;
  for (const Dim& d : *s) {
    if (!d.is_const()) return std::nullopt;
    out.push_back(d.value());
  }
  return out;
}

namespace {

template <class T>
const T* find_attr(const OpDef& op, const Attrs& attrs, std::string_view key) {
  if (const T* v = attrs.get<T>(key)) return v;
  const AttrDef* def = op.attr(key);
  ISOMER_ASSERT(def || op.open_attrs, fmt::format("{} has no attribute {}", op.name, key));
  return def && def->standard ? std::get_if<T>(&*def->standard) : nullptr;
}

template <class T>
const T& need_attr(const OpDef& op, const Attrs& attrs, std::string_view key) {
  const T* v = find_attr<T>(op, attrs, key);
  ISOMER_ASSERT(v, fmt::format("attribute {} of {} has no value of this kind", key, op.name));
  return *v;
}

}  // namespace

bool OpContext::has_attr(std::string_view key) const {
  const AttrDef* def = op_->attr(key);
  return attrs_->has(key) || (def && def->standard);
}
int64_t OpContext::integer(std::string_view key) const { return need_attr<int64_t>(*op_, *attrs_, key); }
double OpContext::real(std::string_view key) const { return need_attr<double>(*op_, *attrs_, key); }
const std::string& OpContext::text(std::string_view key) const { return need_attr<std::string>(*op_, *attrs_, key); }
DType OpContext::dtype_attr(std::string_view key) const { return need_attr<DType>(*op_, *attrs_, key); }
const Tensor* OpContext::tensor(std::string_view key) const { return find_attr<Tensor>(*op_, *attrs_, key); }

std::vector<int64_t> OpContext::ints(std::string_view key) const {
  const auto* v = find_attr<std::vector<int64_t>>(*op_, *attrs_, key);
  return v ? *v : std::vector<int64_t>();
}
Dim OpContext::size_attr(std::string_view key) const {
  const auto* v = find_attr<Sizes>(*op_, *attrs_, key);
  return v && !v->dims.empty() ? v->dims[0] : Dim(integer(key));
}
std::vector<Dim> OpContext::sizes_attr(std::string_view key) const {
  if (const auto* v = find_attr<Sizes>(*op_, *attrs_, key)) return v->dims;
  const std::vector<int64_t> v = ints(key);
  return std::vector<Dim>(v.begin(), v.end());
}
std::vector<double> OpContext::reals(std::string_view key) const {
  const auto* v = find_attr<std::vector<double>>(*op_, *attrs_, key);
  return v ? *v : std::vector<double>();
}
std::vector<std::string> OpContext::strings(std::string_view key) const {
  const auto* v = find_attr<std::vector<std::string>>(*op_, *attrs_, key);
  return v ? *v : std::vector<std::string>();
}
GraphRef OpContext::graph(std::string_view key) const {
  const auto* v = find_attr<GraphRef>(*op_, *attrs_, key);
  return v ? *v : nullptr;
}

Expected<size_t> OpContext::axis(int64_t axis, size_t rank) const {
  const auto r = static_cast<int64_t>(rank);
  if (axis < -r || axis >= r) return error(fmt::format("axis {} is out of range for rank {}", axis, rank));
  return static_cast<size_t>(axis < 0 ? axis + r : axis);
}

Type OpContext::out(size_t i, Shape shape) const {
  const OutputDef& def = i < op_->outputs.size() ? op_->outputs[i] : op_->outputs.back();
  const TypeSource source = type_source(def);
  if (!source.attr.empty() && (has_attr(source.attr) || source.var.empty())) {
    const AttrDef* attribute = op_->attr(source.attr);
    const bool by_tensor = attribute && attribute->kind == AttrKind::Tensor;
    DType dtype = DType::Opaque;
    if (has_attr(source.attr))
      dtype = by_tensor ? need_attr<Tensor>(*op_, *attrs_, source.attr).dtype() : dtype_attr(source.attr);
    return {dtype, std::move(shape), nullptr};
  }
  if (const auto fixed = dtype_from_name(source.var)) return {*fixed, std::move(shape), nullptr};
  return {bound(*this, source.var).value_or(DType::Opaque), std::move(shape), nullptr};
}

Diagnostic OpContext::error(std::string message) const {
  return Diagnostic("E-op", fmt::format("{}: {}", op_->name, message));
}

std::vector<te::Handle> OpContext::declare(te::Builder& builder) const {
  std::vector<te::Handle> handles;
  for (size_t i = 0; i < input_count(); ++i) {
    const InputDef* def = op_->input(i);
    const std::string label = !def                     ? "in" + std::to_string(i)
                              : i < op_->inputs.size() ? def->name
                                                       : def->name + std::to_string(i);
    // An absent input keeps its slot, so that slots and input positions agree for every reader.
    handles.push_back(has(i) ? builder.input(label, dtype(i), shape(i).dims())
                             : builder.input(label, DType::F32, {Dim(0)}));
  }
  return handles;
}

}  // namespace isomer::ir
