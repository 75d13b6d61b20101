// Graphs: inputs, initialisers, nodes in order, outputs.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "onnx/import_proto.h"
#include "onnx/type_proto.h"

namespace isomer::onnx {

using ::onnx::AttributeProto;
using ::onnx::GraphProto;
using ::onnx::NodeProto;

Expected<ir::Value> Importer::look_up(std::string_view name, const Scope& scope) const {
  const auto it = scope.values.find(name);
  if (it == scope.values.end())
    return Diagnostic(
        "E-undefined-value",
        fmt::format("value {} is used, but nothing makes it: it is no input, no initializer and no result "
                    "of a node",
                    quoted(name)));
  return it->second;
}

Expected<void> Importer::define(const std::string& name, ir::Value value, Scope& scope) const {
  if (!scope.values.emplace(name, value).second)
    return Diagnostic("E-duplicate-name", fmt::format("two values are named {}", quoted(name)));
  return {};
}

namespace {

// Both are one element, in a different number of dimensions.
bool one_element_each(const Type& a, const Type& b) {
  const auto one = [](const Shape& s) {
    return s.is_static() && std::ranges::all_of(s.dims(), [](const Dim& d) { return d == Dim(1); });
  };
  return a.dtype == b.dtype && a.shape.rank() != b.shape.rank() && one(a.shape) && one(b.shape);
}

bool contradict(const Shape& a, const Shape& b) { return a.has_rank() && b.has_rank() && a.rank() != b.rank(); }

bool has_axes(const Shape& s, size_t rank) { return s.has_rank() && s.rank() == rank; }

// Axes of the states of a loop (by the body's inputs, of which the states begin at 2) that cannot have the size that the body declares:
// it gives another one, or what two of them get first has different sizes under one name.
OpenAxes changing_axes(const ir::Graph& body, std::span<const Type> passed) {
  OpenAxes out;
  std::map<std::string, std::pair<int64_t, std::pair<size_t, size_t>>> named;
  for (size_t i = 2; i < passed.size() && i - 1 < body.outputs().size(); ++i) {
    const Shape& in = body.inputs()[i].types[0].shape;
    const Shape& given = body.type(body.outputs()[i - 1].value).shape;
    for (size_t a = 0; in.has_rank() && a < in.rank(); ++a) {
      if (has_axes(given, in.rank()) && in[a].is_const() && given[a].is_const() && !(in[a] == given[a]))
        out.insert({i, a});
      const auto symbol = in[a].as_symbol();
      const Shape& first = passed[i].shape;
      if (!symbol || !has_axes(first, in.rank()) || !first[a].is_const()) continue;
      const auto [it, fresh] = named.try_emplace(*symbol, first[a].value(), std::pair(i, a));
      if (fresh || it->second.first == first[a].value()) continue;
      out.insert({i, a});
      out.insert(it->second.second);
    }
  }
  return out;
}

}  // namespace

// The type a file declares for a value may narrow what the operators give, and must not contradict it; but exporters that
// are told which dimensions are dynamic write wrong shapes there, so a shape is then dropped, with a warning.
Expected<void> Importer::check_declared(std::string_view name, ir::Value value, const Scope& scope) {
  const auto it = scope.declared.find(name);
  if (it == scope.declared.end() || value.is_none()) return {};
  ISOMER_TRY(const Type type, read_type(*it->second, ""));
  if (says_nothing(type)) return {};
  const Type& own = scope.builder.type(value);
  if (own.dtype == DType::Opaque && (type.dtype == DType::Opaque || !own.foreign)) return {};
  auto declared = scope.builder.declare_type(value, type);
  if (!declared.ok() && scope.body && one_element_each(type, own)) return {};
  const bool dynamic = type.dtype == own.dtype && type.shape.has_rank() && own.shape.has_rank() &&
                       !(type.shape.is_static() && own.shape.is_static());
  if (declared.ok() || !dynamic || declared.error().code != "E-type-mismatch") return declared;
  warn(declared.error().message + "; the declared shape is ignored");
  return {};
}

// Exporters write conditions of one element now as a scalar and now as a vector, also in the two branches of one `If`: what a
// body gives has the shape that it declares.
Expected<ir::Value> Importer::as_declared(std::string_view name, ir::Value value, Scope& scope) {
  const auto it = scope.declared.find(name);
  if (!scope.body || it == scope.declared.end()) return value;
  ISOMER_TRY(const Type type, read_type(*it->second, ""));
  if (says_nothing(type) || !one_element_each(type, scope.builder.type(value))) return value;
  return scope.builder.add1("reshape", {value, scope.builder.constant(Tensor::ints(type.shape.values()))});
}

// An input that declares no type takes the element type of its value; its shape may change from one run of the body to the next.
Expected<void> Importer::import_inputs(const GraphProto& graph, Scope& scope, const BodyInputs& body) {
  const auto& [passed, open] = body;
  std::unordered_set<std::string_view> initialized;
  for (const auto& t : graph.initializer()) initialized.insert(t.name());
  for (const auto& t : graph.sparse_initializer()) initialized.insert(t.values().name());
  for (int i = 0; i < graph.input_size(); ++i) {
    const auto& input = graph.input(i);
    // An input with an initializer has a value of its own; Isomer takes the value and drops the input.
    if (initialized.contains(input.name())) continue;
    ISOMER_TRY(Type type, read_type(input.type(), input.name()));
    if (says_nothing(type) && static_cast<size_t>(i) < passed.size()) {
      type = passed[static_cast<size_t>(i)];
      type.shape = Shape::unknown();
    }
    // Some exporters start a state with a placeholder of another shape, which the first round replaces.
    if (static_cast<size_t>(i) < passed.size() && contradict(passed[static_cast<size_t>(i)].shape, type.shape))
      type.shape = Shape::unknown();
    for (auto it = open.lower_bound({static_cast<size_t>(i), 0});
         it != open.end() && it->first == static_cast<size_t>(i); ++it) {
      std::vector<Dim> dims = type.shape.dims();
      dims[it->second] = Dim::symbol(fmt::format("?{}.{}", input.name(), it->second));
      type.shape = Shape(std::move(dims));
    }
    ISOMER_TRY(const ir::Value v, scope.builder.input(input.name(), std::move(type)));
    ISOMER_CHECK_OK(define(input.name(), v, scope));
  }
  return {};
}

Expected<void> Importer::import_initializer(const ::onnx::TensorProto& tensor, Scope& scope) {
  if (tensor.name().empty()) return Diagnostic("E-onnx-tensor", "an initializer has no name");
  ISOMER_TRY(std::optional<Tensor> value, tensors_.read(tensor));
  if (value) return define(tensor.name(), scope.builder.constant(*std::move(value), tensor.name()), scope);
  NodeProto constant;
  constant.set_op_type("Constant");
  constant.add_output(tensor.name());
  AttributeProto& attribute = *constant.add_attribute();
  attribute.set_name("value");
  attribute.set_type(AttributeProto::TENSOR);
  *attribute.mutable_t() = tensor;
  Call call{.node = constant, .outputs = 1};
  call.attributes = {&attribute};
  call.attribute_names = {"value"};
  ISOMER_TRY(const std::vector<ir::Value> made, opaque_node(call, scope));
  return define(tensor.name(), made[0], scope);
}

Expected<void> Importer::import_initializers(const GraphProto& graph, Scope& scope) {
  for (const auto& tensor : graph.initializer()) ISOMER_CHECK_OK(import_initializer(tensor, scope));
  for (const auto& sparse : graph.sparse_initializer())
    return Diagnostic("E-unsupported", fmt::format("initializer {} is sparse, which is not supported; store it dense",
                                                   quoted(sparse.values().name())));
  return {};
}

Expected<void> Importer::import_rest(const GraphProto& graph, Scope& scope) {
  for (const auto& v : graph.value_info()) scope.declared.emplace(v.name(), &v.type());
  for (const auto& v : graph.output()) scope.declared.insert_or_assign(std::string_view(v.name()), &v.type());
  ISOMER_CHECK_OK(import_initializers(graph, scope));
  ISOMER_CHECK_OK(import_nodes(graph.node(), scope));
  for (const auto& output : graph.output()) {
    auto value = look_up(output.name(), scope);
    if (!value.ok() || value->is_none())
      return Diagnostic("E-no-output", fmt::format("graph output {} is made by no node", quoted(output.name())));
    ISOMER_CHECK_OK(check_declared(output.name(), *value, scope));
    ISOMER_TRY(const ir::Value given, as_declared(output.name(), *value, scope));
    scope.builder.output(output.name(), given);
  }
  return {};
}

Expected<void> Importer::import_nodes(const Nodes& nodes, Scope& scope) {
  const auto uses = [&](int i) {
    std::vector<std::string_view> names(nodes[i].input().begin(), nodes[i].input().end());
    for (const AttributeProto& a : nodes[i].attribute()) {
      if (a.has_g()) names.insert(names.end(), free_names(a.g()).begin(), free_names(a.g()).end());
      for (const GraphProto& g : a.graphs()) names.insert(names.end(), free_names(g).begin(), free_names(g).end());
    }
    return names;
  };
  ISOMER_TRY(const std::vector<int> order, sorted_nodes(nodes, uses));
  for (int i : order) {
    auto done = import_node(nodes[i], scope);
    if (done.ok()) continue;
    Diagnostic d = std::move(done).error();
    if (d.notes.size() < 4) d.note("in " + describe(nodes[i]));
    return d;
  }
  return {};
}

// Names a graph reads and does not define, in order of appearance.
const std::vector<std::string_view>& Importer::free_names(const GraphProto& graph) {
  if (const auto it = free_names_.find(&graph); it != free_names_.end()) return it->second;
  std::unordered_set<std::string_view> known;
  for (const auto& v : graph.input()) known.insert(v.name());
  for (const auto& t : graph.initializer()) known.insert(t.name());
  for (const auto& t : graph.sparse_initializer()) known.insert(t.values().name());
  for (const auto& n : graph.node()) known.insert(n.output().begin(), n.output().end());
  std::vector<std::string_view> free;
  const auto read = [&](std::string_view name) {
    if (!name.empty() && known.insert(name).second) free.push_back(name);
  };
  for (const NodeProto& n : graph.node()) {
    for (const std::string& name : n.input()) read(name);
    for (const AttributeProto& a : n.attribute()) {
      if (a.has_g())
        for (std::string_view name : free_names(a.g())) read(name);
      for (const GraphProto& g : a.graphs())
        for (std::string_view name : free_names(g)) read(name);
    }
  }
  for (const auto& v : graph.output()) read(v.name());
  return free_names_.emplace(&graph, std::move(free)).first->second;
}

Expected<void> Importer::import_bodies(Call& call, Scope& scope) {
  std::vector<std::pair<std::string_view, const GraphProto*>> bodies;
  for (size_t i = 0; i < call.attributes.size(); ++i)
    if (call.attributes[i]->has_g()) bodies.emplace_back(call.attribute_names[i], &call.attributes[i]->g());
  if (bodies.empty()) return {};
  if (++nesting_ > kMaxNesting)
    return Diagnostic("E-nesting", fmt::format("graphs are nested more than {} deep", kMaxNesting));
  std::vector<std::pair<std::string_view, ir::Value>> free;
  std::vector<ir::Value> captures;
  std::unordered_set<std::string_view> seen;
  for (const auto& [attribute, graph] : bodies)
    for (std::string_view name : free_names(*graph)) {
      if (!seen.insert(name).second) continue;
      ISOMER_TRY(const ir::Value v, look_up(name, scope));
      free.emplace_back(name, v);
      // A constant is the same inside: its bytes are shared, and shapes that depend on it stay known.
      if (!v.is_none() && scope.builder.graph().node(v.node).op != &ir::const_op()) captures.push_back(v);
    }
  // In the order of the outer graph, so that the order does not depend on how the bodies are written.
  std::sort(captures.begin(), captures.end());
  captures.erase(std::unique(captures.begin(), captures.end()), captures.end());
  for (const auto& [attribute, graph] : bodies) {
    // The inputs of a body are the node's last ones; what comes before them is for the node itself.
    const size_t before = call.inputs.size() - std::min(call.inputs.size(), static_cast<size_t>(graph->input_size()));
    std::vector<Type> passed;
    for (size_t i = before; i < call.inputs.size(); ++i) {
      passed.push_back(call.inputs[i].is_none() ? Type{DType::Opaque, Shape::unknown(), nullptr}
                                                : scope.builder.type(call.inputs[i]));
      // A scan hands on elements of what it gets.
      if (call.node.op_type() != "Loop") passed.back().shape = Shape::unknown();
    }
    ISOMER_TRY(ir::Graph body, import_body(*graph, free, captures, {passed, {}}, scope));
    if (call.node.op_type() == "Loop" && reimports_ < kMaxReimports) {
      OpenAxes open = changing_axes(body, passed);
      if (!open.empty()) {
        ++reimports_;
        ISOMER_TRY(body, import_body(*graph, free, captures, {passed, std::move(open)}, scope));
      }
    }
    for (const ir::Output& o : body.outputs()) call.carries_opaque |= body.type(o.value).dtype == DType::Opaque;
    for (const ir::Node& n : body.inputs()) call.carries_opaque |= n.types[0].dtype == DType::Opaque;
    call.bodies.set(std::string(attribute), std::make_shared<const ir::Graph>(std::move(body)));
  }
  call.captures = captures.size();
  call.inputs.insert(call.inputs.end(), captures.begin(), captures.end());
  --nesting_;
  return {};
}

Expected<ir::Graph> Importer::import_body(const GraphProto& graph,
                                          const std::vector<std::pair<std::string_view, ir::Value>>& free,
                                          const std::vector<ir::Value>& captures, const BodyInputs& inputs,
                                          const Scope& outer) {
  ir::GraphBuilder builder(table_, graph.name());
  Scope scope{
      .builder = builder, .opsets = outer.opsets, .arguments = outer.arguments, .prefix = outer.prefix, .body = true};
  ISOMER_CHECK_OK(import_inputs(graph, scope, inputs));
  std::map<ir::Value, ir::Value> inner;
  for (const ir::Value& v : captures) {
    std::string name = outer.builder.graph().value_name(v);
    // Free in one body, the name may be that of an input of another.
    while (scope.values.contains(name)) name += ".outer";
    auto input = builder.input(name, outer.builder.type(v));
    for (int i = 1; !input.ok(); ++i) input = builder.input(fmt::format("{}.outer.{}", name, i), outer.builder.type(v));
    inner.emplace(v, *input);
  }
  const auto own = free_names(graph);
  const std::unordered_set<std::string_view> wanted(own.begin(), own.end());
  for (const auto& [name, v] : free) {
    if (!wanted.contains(name)) continue;
    ir::Value value = ir::Value::none();
    if (const auto it = inner.find(v); it != inner.end())
      value = it->second;
    else if (const Tensor* t = v.is_none() ? nullptr : outer.builder.known(v))
      value = builder.constant(*t, std::string(name));
    scope.values.emplace(name, value);
  }
  ISOMER_CHECK_OK(import_rest(graph, scope));
  return std::move(builder).finish();
}

}  // namespace isomer::onnx
