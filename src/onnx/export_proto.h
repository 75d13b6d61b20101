// Exporter: a graph as a ModelProto. The operator set is the smallest that has every operator in the record's form and
// is no older than the source's; names of inputs and outputs are kept, and no name inside a body hides an outer one.
#pragma once

#include <onnx.pb.h>

#include <map>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/expected.h"
#include "ir/graph.h"

namespace isomer::onnx {

// Data of so many bytes and more of the main graph's initializers are left out of the message, which would have a copy of them.
inline constexpr size_t kWorthLeavingOut = 1024;

// Marks the copies that stand for a second name of one value; the importer takes them away again.
inline constexpr char kAliasMark[] = "isomer: another name of its input";

// Attributes by which an unknown operator is remembered; it can have none of these names itself.
bool is_reserved(std::string_view attribute);

class Exporter {
 public:
  Expected<::onnx::ModelProto> run(const ir::Graph& graph);
  // What was left out: by the number of its initializer.
  const std::map<int, Tensor>& data() const { return data_; }

 private:
  // The names of a graph, within those of the graphs round it.
  struct Frame {
    const Frame* outer = nullptr;
    std::unordered_set<std::string> used = {};
    std::map<std::string, uint64_t> next = {};
    // Names of nodes are apart from those of values, and must differ too: one source node may have become several.
    std::unordered_set<std::string> labels = {};
    bool taken(const std::string& name) const;
    std::string unique(const std::string& wanted);
    std::string unique_label(const std::string& wanted);
  };
  using ValueNames = std::vector<std::vector<std::string>>;  // by node and result

  Expected<void> write_graph(const ir::Graph& graph, const std::vector<std::string>& captured, Frame& frame,
                             ::onnx::GraphProto& out);
  // Gives results the names of the outputs they are; for each output, the name of a copy to make when its value is an
  // input, a constant or an output already, else "". `formal`: how many inputs are the graph's own.
  Expected<std::vector<std::string>> name_outputs(const ir::Graph& graph, size_t formal, Frame& frame,
                                                  ValueNames& names);
  // Writes constants and nodes; names that are empty are chosen.
  Expected<void> write_nodes(const ir::Graph& graph, ValueNames& names, Frame& frame, ::onnx::GraphProto& out);
  Expected<void> write_node(const ir::Graph& graph, const ir::Node& node, const ValueNames& names,
                            const std::vector<std::string>& results, Frame& frame, ::onnx::GraphProto& out);
  Expected<void> write_attribute(const std::string& name, const ir::AttrValue& value,
                                 const std::vector<std::string>& captured, Frame& frame, ::onnx::NodeProto& out);
  Expected<void> write_expanded(const ir::Graph& graph, const ir::Node& node, const std::vector<std::string>& inputs,
                                const std::vector<std::string>& results, Frame& frame, ::onnx::GraphProto& out);
  void need(const std::string& domain, int64_t version);

  const ::onnx::GraphProto* main_ = nullptr;
  std::map<int, Tensor> data_;
  std::map<std::string, int64_t> opsets_;
  bool keeps_opset_ = false;  // a node of ONNX's own set is carried as it was
  int depth_ = 0;
};

}  // namespace isomer::onnx
