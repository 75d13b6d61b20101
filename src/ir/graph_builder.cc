#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "ir/graph.h"
#include "te/size_domain.h"

namespace isomer::ir {

// Contents of a value: as a tensor when all numbers are known, and as sizes for small integer tensors.
struct GraphBuilder::Known {
  std::optional<Tensor> tensor;
  std::optional<std::vector<Dim>> sizes;
};

namespace {

// Shape arithmetic handles a handful of numbers; anything larger is data, not shapes.
constexpr int64_t kMaxKnownElements = 64;

uint64_t key(Value v) { return (uint64_t{v.node} << 32) | v.index; }

// Sizes without symbols are integers, so that equal nodes have equal attributes.
AttrValue as_numbers(const AttrDef& def, const AttrValue& value) {
  const auto* sizes = std::get_if<Sizes>(&value);
  if (!sizes || !std::all_of(sizes->dims.begin(), sizes->dims.end(), [](const Dim& d) { return d.is_const(); }))
    return value;
  std::vector<int64_t> numbers;
  for (const Dim& d : sizes->dims) numbers.push_back(d.value());
  if (def.kind == AttrKind::Int && numbers.size() == 1) return numbers[0];
  return numbers;
}

Attrs without_standard_values(const OpDef& op, const Attrs& attrs) {
  Attrs out;
  for (const auto& [name, value] : attrs) {
    const AttrDef* def = op.attr(name);
    const AttrValue plain = def ? as_numbers(*def, value) : value;
    if (!(def && def->standard && equal(*def->standard, plain))) out.set(name, plain);
  }
  return out;
}

size_t required_outputs(const OpDef& op) {
  size_t n = 0;
  for (const OutputDef& o : op.outputs) n += o.arity == Arity::Required;
  return n;
}

size_t node_hash(const OpDef& op, std::span<const Value> inputs, const Attrs& attrs, size_t outputs) {
  Hasher h;
  h.add(op.name).add(attrs.hash()).add(outputs);
  for (const Value& v : inputs) h.add(key(v));
  return h.digest().low;
}

void merge_origin(std::vector<std::string>& into, const std::vector<std::string>& from) {
  for (const std::string& s : from)
    if (std::find(into.begin(), into.end(), s) == into.end()) into.push_back(s);
}

}  // namespace

GraphBuilder::GraphBuilder(const OpTable& table, std::string name)
    : table_(&table), made_(std::make_shared<Graph::Content>()), graph_(made_) {
  made_->name = std::move(name);
}

void GraphBuilder::set_current(std::string label, std::vector<std::string> origin) {
  label_ = std::move(label);
  origin_ = std::move(origin);
}

std::string GraphBuilder::unique_name(const std::string& wanted, std::string_view stem) {
  if (wanted.empty() && verbatim_) return {};
  if (!wanted.empty() && names_.emplace(wanted, 1).second) return wanted;
  const std::string base = wanted.empty() ? std::string(stem) : wanted;
  uint32_t& next = wanted.empty() ? stems_[base] : names_[base];
  while (true) {
    std::string candidate = fmt::format("{}.{}", base, next++);
    if (names_.emplace(candidate, 1).second) return candidate;
  }
}

Expected<Value> GraphBuilder::input(std::string name, Type type) {
  ISOMER_ASSERT(made_->nodes.size() == made_->input_count, "inputs come before other nodes");
  if (!names_.emplace(name, 1).second)
    return Diagnostic("E-duplicate-name", fmt::format("two graph inputs are named {}", quoted(name)));
  if (type.shape.is_static() && type.dtype != DType::Opaque) {
    const auto size = checked_elements(type.dtype, type.shape.values());
    if (!size.ok()) return Diagnostic(size.error()).note("in graph input " + quoted(name));
  }
  Node n;
  n.op = &input_op();
  n.types = {std::move(type)};
  n.names = {std::move(name)};
  made_->nodes.push_back(std::move(n));
  return Value{static_cast<uint32_t>(made_->input_count++), 0};
}

Value GraphBuilder::constant(Tensor value, std::string name) {
  const Type type = value.type();
  Attrs attrs{{"value", std::move(value)}};
  // A constant that has a name of its own keeps it: two initialisers of one content stay two. So a named one is found
  // by content and name, and only the first of a content by content alone.
  const size_t content = verbatim_ ? 0 : node_hash(const_op(), {}, attrs, 1);
  const size_t named = verbatim_ ? 0 : Hasher().add(content).add(name).digest().low;
  const auto find = [&](size_t hash, bool by_name) -> std::optional<uint32_t> {
    const auto [from, to] = nodes_by_hash_.equal_range(hash);
    for (auto it = from; it != to; ++it) {
      const Node& n = made_->nodes[it->second];
      if (n.op == &const_op() && n.attrs == attrs && (!by_name || n.names[0] == name)) return it->second;
    }
    return std::nullopt;
  };
  std::optional<uint32_t> first;
  if (!verbatim_) {
    first = find(content, false);
    if (first && name.empty()) return {*first, 0};
    if (const auto same = find(named, true)) return {*same, 0};
  }
  Node n;
  n.op = &const_op();
  n.attrs = std::move(attrs);
  n.types = {type};
  n.names = {unique_name(name, "const")};
  made_->nodes.push_back(std::move(n));
  const auto id = static_cast<uint32_t>(made_->nodes.size() - 1);
  if (!verbatim_ && !first) nodes_by_hash_.emplace(content, id);
  if (!verbatim_ && !name.empty()) nodes_by_hash_.emplace(named, id);
  auto known = std::make_shared<Known>();
  known->tensor = *made_->nodes[id].attrs.get<Tensor>("value");
  known_[key({id, 0})] = std::move(known);
  return {id, 0};
}

Value GraphBuilder::sizes(std::vector<Dim> sizes, std::string name) {
  if (std::all_of(sizes.begin(), sizes.end(), [](const Dim& d) { return d.is_const(); })) {
    std::vector<int64_t> numbers;
    for (const Dim& d : sizes) numbers.push_back(d.value());
    return constant(Tensor::ints(numbers), std::move(name));
  }
  Node n;
  n.op = &const_op();
  n.attrs = Attrs{{"value", Sizes(sizes)}};
  n.types = {Type{DType::I64, Shape::of({static_cast<int64_t>(sizes.size())}), nullptr}};
  n.names = {unique_name(name, "sizes")};
  made_->nodes.push_back(std::move(n));
  const auto id = static_cast<uint32_t>(made_->nodes.size() - 1);
  auto known = std::make_shared<Known>();
  known->sizes = std::move(sizes);
  known_[key({id, 0})] = std::move(known);
  return {id, 0};
}

const Tensor* GraphBuilder::known(Value v) const {
  const auto it = v.is_none() ? known_.end() : known_.find(key(v));
  return it != known_.end() && it->second->tensor ? &*it->second->tensor : nullptr;
}

const std::vector<Dim>* GraphBuilder::known_sizes(Value v) const {
  const auto it = v.is_none() ? known_.end() : known_.find(key(v));
  return it != known_.end() && it->second->sizes ? &*it->second->sizes : nullptr;
}

OpContext GraphBuilder::context(const OpDef& op, std::span<const Value> inputs, const Attrs& attrs,
                                size_t outputs) const {
  std::vector<OpContext::Input> in;
  for (const Value& v : inputs) {
    OpContext::Input i;
    if (!v.is_none()) i = {true, graph_.type(v), known(v), known_sizes(v)};
    in.push_back(std::move(i));
  }
  return OpContext(op, std::move(in), attrs, outputs, *table_);
}

Expected<std::vector<Value>> GraphBuilder::add(std::string_view op, std::vector<Value> inputs, Attrs attrs,
                                               NodeInfo info, size_t outputs) {
  const OpDef* def = table_->find(op);
  if (!def)
    return Diagnostic("E-unknown-operator",
                      fmt::format("there is no operator {}; `isomer ops` lists them", quoted(op)));
  return add(*def, std::move(inputs), std::move(attrs), std::move(info), outputs);
}

Expected<Value> GraphBuilder::add1(std::string_view op, std::vector<Value> inputs, Attrs attrs, NodeInfo info) {
  ISOMER_TRY(const std::vector<Value> results, add(op, std::move(inputs), std::move(attrs), std::move(info)));
  return results.at(0);
}

Expected<std::vector<Value>> GraphBuilder::add(const OpDef& op, std::vector<Value> inputs, Attrs attrs, NodeInfo info,
                                               size_t outputs) {
  if (outputs == 0) outputs = std::max({size_t{1}, required_outputs(op), info.names.size()});
  while (!inputs.empty() && inputs.back().is_none()) inputs.pop_back();
  attrs = without_standard_values(op, attrs);
  if (info.label.empty()) info.label = label_;
  if (info.origin.empty()) info.origin = origin_;
  const auto results = [&](uint32_t id) {
    std::vector<Value> out;
    for (uint32_t k = 0; k < outputs; ++k) out.push_back({id, k});
    return out;
  };
  const size_t hash = verbatim_ ? 0 : node_hash(op, inputs, attrs, outputs);
  if (op.pure && !verbatim_) {
    const auto [from, to] = nodes_by_hash_.equal_range(hash);
    for (auto it = from; it != to; ++it) {
      Node& n = made_->nodes[it->second];
      if (n.op != &op || n.inputs != inputs || n.types.size() != outputs || !(n.attrs == attrs)) continue;
      merge_origin(n.origin, info.origin);
      return results(it->second);
    }
  }
  auto types = infer_types(context(op, inputs, attrs, outputs));
  if (!types.ok()) {
    Diagnostic d = std::move(types).error();
    if (!info.label.empty()) d.note("in node " + quoted(info.label));
    return d;
  }
  Node n;
  n.op = &op;
  n.inputs = std::move(inputs);
  n.attrs = std::move(attrs);
  n.types = *std::move(types);
  ISOMER_ASSERT(n.types.size() == outputs,
                fmt::format("{} infers {} types for {} outputs", op.name, n.types.size(), outputs));
  n.label = std::move(info.label);
  n.origin = std::move(info.origin);
  info.names.resize(outputs);
  for (size_t k = 0; k < outputs; ++k) {
    n.names.push_back(unique_name(info.names[k], op.name));
    if (!n.types[k].shape.has_rank()) continue;
    std::vector<Dim> dims = n.types[k].shape.dims();
    // A size that only a run can tell gets a name of its own, so that two unknown sizes are never taken for equal.
    const std::string owner = n.names[k].empty() ? fmt::format("#{}.{}", made_->nodes.size(), k) : n.names[k];
    for (size_t a = 0; a < dims.size(); ++a)
      if (dims[a].is_invalid()) dims[a] = Dim::symbol(fmt::format("?{}.{}", owner, a));
    n.types[k].shape = Shape(std::move(dims));
    if (!n.types[k].shape.is_static()) continue;
    const auto size = checked_elements(n.types[k].dtype, n.types[k].shape.values());
    if (!size.ok()) {
      Diagnostic d(size.error().code, fmt::format("{}: {}", op.name, size.error().message));
      if (!n.label.empty()) d.note("in node " + quoted(n.label));
      return d;
    }
  }
  made_->nodes.push_back(std::move(n));
  const auto id = static_cast<uint32_t>(made_->nodes.size() - 1);
  if (!verbatim_) nodes_by_hash_.emplace(hash, id);
  learn(id);
  return results(id);
}

// Follows shape arithmetic: when the contents of all inputs are known as sizes, so are the results.
void GraphBuilder::learn(uint32_t id) {
  const Node& n = made_->nodes[id];
  if (!n.op->compute || !n.op->pure) return;
  for (const Type& t : n.types) {
    if (!t.shape.is_static() || t.shape.elements().constant().value_or(kMaxKnownElements + 1) > kMaxKnownElements)
      return;
  }
  const OpContext c = context(*n.op, n.inputs, n.attrs, n.types.size());
  // Only integers can come from extents alone; a real result needs every input, which saves building its expression.
  bool reals = false, known = true;
  for (const Type& t : n.types) reals |= is_float(t.dtype);
  for (size_t i = 0; i < n.inputs.size(); ++i) known &= !c.has(i) || c.value(i) || c.sizes(i);
  if (reals && !known) return;
  auto program = n.op->compute(c);
  if (!program.ok()) return;
  // Inputs that no expression reads (Shape asks for extents alone) need not be known.
  std::vector<bool> read(n.inputs.size(), false);
  std::unordered_set<const void*> seen;  // nodes are shared: each is looked at once
  const std::function<void(const te::Expr&)> mark = [&](const te::Expr& e) {
    if (!seen.insert(e.identity()).second) return;
    if (e->kind == te::Kind::Read && static_cast<size_t>(e->tensor) < read.size())
      read[static_cast<size_t>(e->tensor)] = true;
    for (const te::Expr& x : e->args) mark(x);
  };
  for (const te::Stage& s : program->stages) mark(s.body);
  using Array = te::Array<te::SizeDomain>;
  std::vector<Array> arrays;
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    Array a;
    if (c.has(i)) a.dtype = c.dtype(i);
    if (read[i]) {
      const auto sizes = c.sizes(i);
      const Tensor* value = c.value(i);
      if (!c.shape(i).is_static() || (!sizes && !value)) return;
      a.dims = c.shape(i).values();
      if (static_cast<int64_t>(sizes ? sizes->size() : static_cast<size_t>(value->size())) > 16 * kMaxKnownElements)
        return;
      if (sizes)
        a.ints = *sizes;
      else
        a.reals = value->to_reals();
    }
    arrays.push_back(std::move(a));
  }
  te::SizeDomain domain;
  auto results = te::Evaluator<te::SizeDomain>(domain).run(*program, std::move(arrays));
  if (!results.ok()) return;
  for (uint32_t k = 0; k < results->size() && k < n.types.size(); ++k) {
    Array& a = (*results)[k];
    auto contents = std::make_shared<Known>();
    const bool numbers = std::all_of(a.ints.begin(), a.ints.end(), [](const Dim& d) { return d.is_const(); });
    if (is_float(a.dtype)) {
      contents->tensor = Tensor::of(a.dtype, a.dims, a.reals);
    } else if (numbers) {
      Tensor t(a.dtype, a.dims);
      for (size_t i = 0; i < a.ints.size(); ++i) t.set_integer(static_cast<int64_t>(i), a.ints[i].value());
      contents->tensor = std::move(t);
    }
    if (!is_float(a.dtype)) contents->sizes = std::move(a.ints);
    known_[key({id, k})] = std::move(contents);
  }
}

namespace {

// A shape of numbers must be one that a tensor can have.
Expected<void> check_size(const Type& type) {
  if (!type.shape.is_static() || type.dtype == DType::Opaque) return {};
  const auto size = checked_elements(type.dtype, type.shape.values());
  if (!size.ok()) return size.error();
  return {};
}

}  // namespace

Expected<void> GraphBuilder::restate_type(Value v, const Type& stated) {
  Type& own = made_->nodes[v.node].types[v.index];
  if (!agree(own, stated))
    return Diagnostic("E-type-mismatch",
                      fmt::format("value {} is stated to be {}, but its node gives {}", quoted(graph_.value_name(v)),
                                  stated.to_string(), own.to_string()));
  ISOMER_CHECK_OK(check_size(stated));
  own = stated;
  return {};
}

Expected<void> GraphBuilder::declare_type(Value v, const Type& declared) {
  Type& own = made_->nodes[v.node].types[v.index];
  if (declared.dtype != own.dtype)
    return Diagnostic("E-type-mismatch",
                      fmt::format("value {} is declared {}, but its node gives {}", quoted(graph_.value_name(v)),
                                  declared.to_string(), own.to_string()));
  if (!declared.shape.has_rank()) return {};
  ISOMER_CHECK_OK(check_size(declared));
  if (!own.shape.has_rank()) {
    own.shape = declared.shape;
    return {};
  }
  bool fits = declared.shape.rank() == own.shape.rank();
  std::vector<Dim> dims = own.shape.dims();
  for (size_t i = 0; fits && i < dims.size(); ++i) {
    const Dim& d = declared.shape[i];
    const auto symbol = dims[i].as_symbol();
    if (dims[i].is_const() && d.is_const()) fits = dims[i] == d;
    if (symbol && symbol->starts_with('?') && !d.is_invalid()) dims[i] = d;
  }
  if (!fits)
    return Diagnostic("E-type-mismatch",
                      fmt::format("value {} is declared {}, but its node gives {}", quoted(graph_.value_name(v)),
                                  declared.to_string(), own.to_string()));
  Type narrowed{own.dtype, Shape(std::move(dims)), own.foreign};
  ISOMER_CHECK_OK(check_size(narrowed));
  own = std::move(narrowed);
  return {};
}

void GraphBuilder::output(std::string name, Value v) { made_->outputs.push_back({std::move(name), v}); }

Expected<Graph> GraphBuilder::finish() && {
  std::unordered_map<std::string, int> seen;
  for (const Output& o : made_->outputs) {
    if (o.value.is_none())
      return Diagnostic("E-no-output", fmt::format("graph output {} has no value", quoted(o.name)));
    if (++seen[o.name] > 1)
      return Diagnostic("E-duplicate-name", fmt::format("two graph outputs are named {}", quoted(o.name)));
  }
  made_->finished = true;
  made_.reset();
  return graph_;
}

}  // namespace isomer::ir
