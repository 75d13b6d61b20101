// Graph: a computation as a value. Nodes are in topological order, inputs first; a node's inputs are results of earlier
// nodes. Equality and hash are by content, never by address. Built only through GraphBuilder, which checks every node.
// What is built never changes: copies share it, so that to copy a graph costs nothing and its hash is computed once.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/expected.h"
#include "base/hash.h"
#include "ir/attrs.h"
#include "ir/op.h"
#include "tensor/type.h"

namespace isomer::ir {

// The k-th result of a node; `none()` stands for an optional input that is absent.
struct Value {
  uint32_t node = UINT32_MAX;
  uint32_t index = 0;
  static Value none() { return {}; }
  bool is_none() const { return node == UINT32_MAX; }
  bool operator==(const Value&) const = default;
  auto operator<=>(const Value&) const = default;
};

struct Node {
  const OpDef* op = nullptr;
  std::vector<Value> inputs;
  Attrs attrs;                      // standard values are left out
  std::vector<Type> types;          // one per output
  std::vector<std::string> names;   // one per output, unique in the graph; "" for an output that is not wanted
  std::string label;                // the node's own name in the source file, "" when it had none
  std::vector<std::string> origin;  // names of the source nodes this one came from
};

struct Output {
  std::string name;
  Value value;
};

// Facts of the source file that a re-export writes back.
struct Metadata {
  std::vector<std::pair<std::string, int64_t>> opsets;  // domain -> version
  std::vector<std::pair<std::string, std::string>> properties;
  std::string producer, doc;
  int64_t ir_version = 0;
  bool operator==(const Metadata&) const = default;
};

class Graph {
 public:
  Graph();  // of nothing

  const std::string& name() const { return content_->name; }
  size_t input_count() const { return content_->input_count; }
  std::span<const Node> inputs() const { return {content_->nodes.data(), content_->input_count}; }
  const std::vector<Node>& nodes() const { return content_->nodes; }
  const Node& node(uint32_t id) const { return content_->nodes[id]; }
  const std::vector<Output>& outputs() const { return content_->outputs; }
  const Type& type(Value v) const { return node(v.node).types[v.index]; }
  const std::string& value_name(Value v) const { return node(v.node).names[v.index]; }
  const Metadata& metadata() const { return content_->metadata; }

  // Content: operators, attributes, types of inputs, names of inputs and outputs; not the names inside, nor node order.
  Hash128 content_hash() const;
  // Whether one is a copy of the other; graphs that were built apart may still be equal.
  bool shares(const Graph& other) const { return content_ == other.content_; }

  // A graph that is moved from stays what it was: its users need not know that there is nothing to move.
  Graph(const Graph&) = default;
  Graph& operator=(const Graph&) = default;

 private:
  friend class GraphBuilder;
  struct Content {
    std::string name;
    std::vector<Node> nodes;
    size_t input_count = 0;
    std::vector<Output> outputs;
    Metadata metadata;
    bool finished = false;  // before that its hash is not kept
    mutable std::once_flag hashed;
    mutable Hash128 hash;
  };
  explicit Graph(std::shared_ptr<const Content> content) : content_(std::move(content)) {}

  std::shared_ptr<const Content> content_;  // never null
};

// Same content (see content_hash), checked node by node.
bool equal(const Graph& a, const Graph& b);
// Same content, order, names, labels, origins and metadata: what print and parse must keep.
bool identical(const Graph& a, const Graph& b);

// Whether two types of one value do not contradict each other: dims are equal, or a run alone can tell one of them.
bool agree(const Type& a, const Type& b);

// The records of graph inputs and constants, which every table shares. A const's contents are its attribute "value".
const OpDef& input_op();
const OpDef& const_op();
bool is_computed(const Node& node);  // neither of these

// What a caller says about a new node beside its meaning.
struct NodeInfo {
  std::vector<std::string> names = {};  // wanted output names; made unique, invented where empty
  std::string label = {};
  std::vector<std::string> origin = {};
};

class GraphBuilder {
 public:
  GraphBuilder(const OpTable& table, std::string name);
  GraphBuilder(GraphBuilder&&) = default;
  GraphBuilder& operator=(GraphBuilder&&) = default;
  const OpTable& table() const { return *table_; }

  Expected<Value> input(std::string name, Type type);  // before any other node
  Value constant(Tensor value, std::string name = "");
  // A vector of i64 that holds sizes, which may be symbols: what pads, slices and shapes of a rule are made of.
  Value sizes(std::vector<Dim> sizes, std::string name = "");
  // Checks the node against its record, infers its types, and returns the results: those of an equal node that is
  // already there when the operator is pure. `outputs`: how many results are wanted (0: all required ones).
  Expected<std::vector<Value>> add(const OpDef& op, std::vector<Value> inputs, Attrs attrs = {}, NodeInfo info = {},
                                   size_t outputs = 0);
  Expected<std::vector<Value>> add(std::string_view op, std::vector<Value> inputs, Attrs attrs = {}, NodeInfo info = {},
                                   size_t outputs = 0);
  // For operators of one result.
  Expected<Value> add1(std::string_view op, std::vector<Value> inputs, Attrs attrs = {}, NodeInfo info = {});

  // Verbatim: every add() and constant() makes a node of its own, even when an equal one is there, and an output
  // without a name keeps none. For readers that must reproduce a node list as it was written.
  void set_verbatim(bool on) { verbatim_ = on; }
  bool verbatim() const { return verbatim_; }

  // Takes the type a text states in place of the inferred one; where both are known they must agree.
  Expected<void> restate_type(Value v, const Type& stated);
  // Narrows a value's type by what the source declares; a contradiction is a diagnostic.
  Expected<void> declare_type(Value v, const Type& declared);
  void output(std::string name, Value v);
  void set_metadata(Metadata m) { made_->metadata = std::move(m); }
  // Labels and origins given to nodes from now on when the caller of add() gives none.
  void set_current(std::string label, std::vector<std::string> origin);

  const Type& type(Value v) const { return graph_.type(v); }
  const Graph& graph() const { return graph_; }  // as built so far
  // Contents of a value when known: constants, and what small computations on them give.
  const Tensor* known(Value v) const;
  const std::vector<Dim>* known_sizes(Value v) const;

  Expected<Graph> finish() &&;

 private:
  struct Known;
  OpContext context(const OpDef& op, std::span<const Value> inputs, const Attrs& attrs, size_t outputs) const;
  std::string unique_name(const std::string& wanted, std::string_view stem);
  void learn(uint32_t node);

  const OpTable* table_;
  std::shared_ptr<Graph::Content> made_;
  Graph graph_;  // of `made_`
  std::string label_;
  std::vector<std::string> origin_;
  bool verbatim_ = false;
  std::unordered_map<std::string, uint32_t> names_;  // used name -> next suffix
  std::unordered_map<std::string, uint32_t> stems_;  // stem of invented names -> next suffix
  std::unordered_multimap<size_t, uint32_t> nodes_by_hash_;
  std::unordered_map<uint64_t, std::shared_ptr<Known>> known_;  // by node << 32 | index
};

// A node of a source file in one of the older or foreign forms an operator's `import` knows.
struct ForeignNode {
  const OpDef* op = nullptr;
  std::string type;
  std::string domain;
  int64_t version = 1;  // the opset the file declares for the domain
  std::vector<Value> inputs;
  Attrs attrs;
  NodeInfo info;
  size_t outputs = 0;
};

// What happens without an `import`: the node is added as it is.
Expected<std::vector<Value>> add_as_is(ForeignNode& node, GraphBuilder& builder);

}  // namespace isomer::ir
