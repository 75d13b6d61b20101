// Importer: a parsed ModelProto as a graph. Nested bodies get their outer values as explicit inputs, calls of the
// model's own functions are replaced by their bodies, and what Isomer does not know is kept as an opaque node.
// Nothing here recurses over the length of a graph, only over the nesting of bodies and functions, which is limited.
#pragma once

#include <onnx.pb.h>

#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/expected.h"
#include "ir/graph.h"
#include "onnx/onnx.h"
#include "onnx/tensor_proto.h"

namespace isomer::onnx {

using Nodes = ::google::protobuf::RepeatedPtrField<::onnx::NodeProto>;
using Opsets = std::map<std::string, int64_t, std::less<>>;

// Deepest nesting of bodies, and of calls of functions.
inline constexpr int kMaxNesting = 64;
// Most nodes that calls of the model's functions may turn into.
inline constexpr int64_t kMaxInlinedNodes = 100'000;

// Most bodies that are read a second time, since their states do not keep the sizes that they declare.
inline constexpr int kMaxReimports = 16;

using OpenAxes = std::set<std::pair<size_t, size_t>>;  // (input, axis) whose declared size does not hold

// What is known of a body's inputs beside what it declares.
struct BodyInputs {
  std::vector<Type> passed;  // the types of what they get, where that is known
  OpenAxes open;
};

// Node indices in an order in which every value is made before it is used; that of the file wherever it is one.
// `uses` gives the names a node reads.
Expected<std::vector<int>> sorted_nodes(const Nodes& nodes,
                                        const std::function<std::vector<std::string_view>(int)>& uses);

// "node 'conv1' (Conv)", for messages.
std::string describe(const ::onnx::NodeProto& node);

class Importer {
 public:
  Importer(const ::onnx::ModelProto& model, TensorReader& tensors, const ir::OpTable& table)
      : model_(model), tensors_(tensors), table_(table) {}
  Expected<Model> run();

 private:
  // Names and what they mean. A body has a builder of its own; a function shares that of its caller.
  struct Scope {
    ir::GraphBuilder& builder;
    const Opsets& opsets;
    std::unordered_map<std::string_view, ir::Value> values = {};
    std::unordered_map<std::string_view, const ::onnx::TypeProto*> declared = {};
    // In a function: what its caller gave for its attributes.
    const std::unordered_map<std::string_view, const ::onnx::AttributeProto*>* arguments = nullptr;
    std::string prefix = {};
    bool body = false;  // of a node, not the model's own graph
  };
  // A node while it is read: its attributes with references resolved.
  struct Call {
    const ::onnx::NodeProto& node;
    std::string domain;
    int64_t version = 1;
    std::vector<ir::Value> inputs = {};
    std::vector<const ::onnx::AttributeProto*> attributes = {};
    std::vector<std::string_view> attribute_names = {};
    size_t outputs = 0;
    ir::Attrs bodies = {};  // the Graph attributes, imported
    size_t captures = 0;
    bool carries_opaque = false;  // a body takes or gives values Isomer cannot compute with
  };
  struct Function {
    const ::onnx::FunctionProto* proto = nullptr;
    Opsets opsets;
    std::vector<::onnx::AttributeProto> standards;  // attributes a call may leave out
    bool active = false;
  };

  Expected<Opsets> read_opsets(const ::google::protobuf::RepeatedPtrField<::onnx::OperatorSetIdProto>& list);
  Expected<void> read_functions();
  ir::Metadata metadata() const;

  // Graphs.
  Expected<void> import_inputs(const ::onnx::GraphProto& graph, Scope& scope, const BodyInputs& body);
  Expected<void> import_initializers(const ::onnx::GraphProto& graph, Scope& scope);
  Expected<void> import_initializer(const ::onnx::TensorProto& tensor, Scope& scope);
  Expected<void> import_rest(const ::onnx::GraphProto& graph, Scope& scope);
  Expected<void> import_nodes(const Nodes& nodes, Scope& scope);
  Expected<ir::Value> look_up(std::string_view name, const Scope& scope) const;
  Expected<void> define(const std::string& name, ir::Value value, Scope& scope) const;
  Expected<void> check_declared(std::string_view name, ir::Value value, const Scope& scope);
  Expected<ir::Value> as_declared(std::string_view name, ir::Value value, Scope& scope);
  const std::vector<std::string_view>& free_names(const ::onnx::GraphProto& graph);

  // Nodes.
  Expected<void> import_node(const ::onnx::NodeProto& node, Scope& scope);
  Expected<std::vector<ir::Value>> import_call(Call& call, Scope& scope);
  Expected<void> resolve_attributes(Call& call, const Scope& scope) const;
  Expected<std::optional<ir::Value>> constant_node(const Call& call, const Scope& scope) const;
  Expected<std::optional<ir::Attrs>> known_attributes(const Call& call, const ir::OpDef& op) const;
  Expected<std::vector<ir::Value>> opaque_node(Call& call, Scope& scope);
  ir::NodeInfo info(const Call& call, const Scope& scope) const;

  // Bodies and functions.
  Expected<void> import_bodies(Call& call, Scope& scope);
  Expected<ir::Graph> import_body(const ::onnx::GraphProto& graph,
                                  const std::vector<std::pair<std::string_view, ir::Value>>& free,
                                  const std::vector<ir::Value>& captures, const BodyInputs& inputs, const Scope& outer);
  Expected<std::vector<ir::Value>> inline_function(Function& function, Call& call, Scope& scope);
  void warn(std::string text);

  const ::onnx::ModelProto& model_;
  TensorReader& tensors_;
  const ir::OpTable& table_;
  Opsets opsets_;
  std::map<std::pair<std::string, std::string>, Function> functions_;
  std::unordered_map<const ::onnx::GraphProto*, std::vector<std::string_view>> free_names_;
  std::vector<std::string> warnings_;
  int nesting_ = 0;
  int reimports_ = 0;  // bodies that were read a second time
  int64_t inlined_ = 0;
  int64_t calls_ = 0;
};

}  // namespace isomer::onnx
