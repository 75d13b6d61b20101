// The model round the graph: operator sets, functions, metadata.
#include <fmt/format.h>

#include "ir/verify.h"
#include "onnx/import_proto.h"
#include "onnx/wire.h"

namespace isomer::onnx {

using ::onnx::AttributeProto;
using ::onnx::FunctionProto;

namespace {

// The newest operator set whose changes were looked through.
constexpr int64_t kNewestOpset = 28;
constexpr int64_t kNewestIr = 14;

// Attributes with the value they have when a call gives none. Older schemas do not have the field: there it is among
// what the parser left over.
template <class Proto>
Expected<std::vector<AttributeProto>> standard_attributes(const Proto& f) {
  std::vector<AttributeProto> out;
  if constexpr (requires { f.attribute_proto(); }) {
    out.assign(f.attribute_proto().begin(), f.attribute_proto().end());
  } else {
    const std::string& unknown = f.unknown_fields();
    for (std::string_view bytes : fields_with_length(std::as_bytes(std::span(unknown)), 11))
      if (!out.emplace_back().ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
        return Diagnostic("E-onnx-file", fmt::format("an attribute of function {} is damaged", quoted(f.name())));
  }
  for (const AttributeProto& a : out)
    if (a.has_g() || a.graphs_size() > 0)
      return Diagnostic("E-unsupported", fmt::format("function {} takes a graph as an attribute", quoted(f.name())));
  return out;
}

}  // namespace

Expected<Opsets> Importer::read_opsets(const ::google::protobuf::RepeatedPtrField<::onnx::OperatorSetIdProto>& list) {
  Opsets opsets;
  for (const auto& entry : list) {
    const std::string domain = entry.domain() == "ai.onnx" ? "" : entry.domain();
    if (entry.version() < 1)
      return Diagnostic("E-onnx-opset", fmt::format("operator set {} has version {}, expected 1 or more",
                                                    quoted(domain), entry.version()));
    if (domain.empty() && entry.version() > kNewestOpset)
      return Diagnostic("E-onnx-opset", fmt::format("the model needs version {} of ONNX's operators, Isomer knows them "
                                                    "up to {}; convert the model to an older opset",
                                                    entry.version(), kNewestOpset));
    const auto [it, fresh] = opsets.emplace(domain, entry.version());
    if (!fresh && it->second != entry.version())
      return Diagnostic("E-onnx-opset", fmt::format("operator set {} is imported in two versions, {} and {}",
                                                    quoted(domain), it->second, entry.version()));
  }
  return opsets;
}

Expected<void> Importer::read_functions() {
  for (const FunctionProto& f : model_.functions()) {
    Function function{.proto = &f};
    ISOMER_TRY(function.opsets, read_opsets(f.opset_import()));
    for (const auto& [domain, version] : opsets_) function.opsets.emplace(domain, version);
    ISOMER_TRY(function.standards, standard_attributes(f));
    const std::string domain = f.domain() == "ai.onnx" ? "" : f.domain();
    if (!functions_.emplace(std::pair(domain, f.name()), std::move(function)).second)
      return Diagnostic("E-duplicate-name",
                        fmt::format("two functions are named {} in domain {}", quoted(f.name()), quoted(domain)));
  }
  return {};
}

Expected<std::vector<ir::Value>> Importer::inline_function(Function& function, Call& call, Scope& scope) {
  const FunctionProto& f = *function.proto;
  if (function.active) return Diagnostic("E-recursion", fmt::format("function {} calls itself", quoted(f.name())));
  if (++nesting_ > kMaxNesting)
    return Diagnostic("E-nesting", fmt::format("function calls are nested more than {} deep", kMaxNesting));
  inlined_ += f.node_size();
  if (inlined_ > kMaxInlinedNodes)
    return Diagnostic("E-too-large", fmt::format("the model's functions expand to more than {} nodes, at function {}",
                                                 kMaxInlinedNodes, quoted(f.name())));
  if (call.inputs.size() > static_cast<size_t>(f.input_size()))
    return Diagnostic("E-op", fmt::format("function {} takes at most {} inputs, found {}", quoted(f.name()),
                                          f.input_size(), call.inputs.size()));
  std::unordered_map<std::string_view, const AttributeProto*> arguments;
  for (size_t i = 0; i < call.attributes.size(); ++i) {
    if (call.attributes[i]->has_g() || call.attributes[i]->graphs_size() > 0)
      return Diagnostic("E-unsupported", fmt::format("function {} takes a graph as an attribute", quoted(f.name())));
    arguments.emplace(call.attribute_names[i], call.attributes[i]);
  }
  for (const AttributeProto& standard : function.standards) arguments.emplace(standard.name(), &standard);
  Scope inner{.builder = scope.builder, .opsets = function.opsets, .arguments = &arguments};
  inner.prefix = fmt::format("{}{}.{}/", scope.prefix, printable(f.name(), 40), ++calls_);
  for (int i = 0; i < f.input_size(); ++i) {
    const auto k = static_cast<size_t>(i);
    ISOMER_CHECK_OK(define(f.input(i), k < call.inputs.size() ? call.inputs[k] : ir::Value::none(), inner));
  }
  function.active = true;
  auto done = import_nodes(f.node(), inner);
  function.active = false;
  if (!done.ok()) return std::move(done).error().note("in function " + quoted(f.name()));
  --nesting_;
  std::vector<ir::Value> results;
  for (int i = 0; i < f.output_size() && results.size() < call.outputs; ++i) {
    ISOMER_TRY(const ir::Value v, look_up(f.output(i), inner));
    results.push_back(v);
  }
  return results;
}

ir::Metadata Importer::metadata() const {
  ir::Metadata m;
  for (const auto& [domain, version] : opsets_) m.opsets.emplace_back(domain, version);
  for (const auto& p : model_.metadata_props()) m.properties.emplace_back(p.key(), p.value());
  m.producer = model_.producer_name();
  m.doc = model_.doc_string();
  m.ir_version = model_.ir_version();
  return m;
}

Expected<Model> Importer::run() {
  if (!model_.has_graph()) return Diagnostic("E-onnx-file", "the model has no graph");
  ISOMER_TRY(opsets_, read_opsets(model_.opset_import()));
  if (opsets_.empty()) {
    if (model_.ir_version() >= 3)
      return Diagnostic("E-onnx-opset", "the model does not say which version of the operators it uses (opset_import)");
    opsets_.emplace("", 1);
  }
  if (model_.ir_version() > kNewestIr)
    warn(fmt::format("the file is of IR version {}, newer than {}", model_.ir_version(), kNewestIr));
  ISOMER_CHECK_OK(read_functions());
  ir::GraphBuilder builder(table_, model_.graph().name());
  Scope scope{.builder = builder, .opsets = opsets_};
  ISOMER_CHECK_OK(import_inputs(model_.graph(), scope, {}));
  ISOMER_CHECK_OK(import_rest(model_.graph(), scope));
  builder.set_metadata(metadata());
  ISOMER_TRY(ir::Graph graph, std::move(builder).finish());
  ISOMER_CHECK_OK(ir::verify_structure(graph));  // whatever the file was, what leaves here is a graph
  return Model{std::move(graph), std::move(warnings_)};
}

}  // namespace isomer::onnx
