// Editor: a graph that is being rewritten. Nodes keep their numbers; new ones get the next. A value is replaced, never
// a node changed; what nobody reads any more because of that is dropped at once, so that uses are always counted right.
// A node that replaces others takes their names, their label and the union of their origins.
#pragma once

#include <deque>
#include <functional>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "passes/pass.h"

namespace isomer::passes {

using ir::Value;

class Editor {
 public:
  Editor(const ir::Graph& graph, const ir::OpTable& table);

  uint32_t size() const { return static_cast<uint32_t>(nodes_.size()); }
  const ir::Node& node(uint32_t id) const { return nodes_[id]; }
  bool alive(uint32_t id) const { return alive_[id]; }
  const Type& type(Value v) const { return nodes_[v.node].types[v.index]; }
  const Shape& shape(Value v) const { return type(v).shape; }
  size_t uses(Value v) const;                                                   // by nodes and as graph outputs
  const std::vector<uint32_t>& users(uint32_t id) const { return users_[id]; }  // one entry per input that reads it
  bool is_output(Value v) const;

  // The node whose first result v is, when its operator has this name; else null.
  const ir::Node* made_by(Value v, std::string_view op) const;
  // Contents of a constant, else null.
  const Tensor* constant(Value v) const;

  // The node as its operator sees it, with the contents of constants.
  ir::OpContext context(uint32_t id) const;

  Value constant(Tensor value, std::string name = {});
  // A node of one result; none when the operator's record refuses it, which means that the rewrite does not apply.
  Value add(std::string_view op, std::vector<Value> inputs, ir::Attrs attrs = {});
  // Everybody who reads `old` reads `by` from now on. False, and nothing happens, when their types contradict.
  bool replace(Value old, Value by);
  void set_attrs(uint32_t id, ir::Attrs attrs);  // of the same results
  // For a node that stands for less than all that a replacement dropped.
  void set_origin(uint32_t id, std::vector<std::string> origin) { nodes_[id].origin = std::move(origin); }

  // How `folded` (passes/fold.h) computes: PassContext's.
  const Evaluate& evaluate() const { return evaluate_; }
  void set_evaluate(Evaluate evaluate) { evaluate_ = std::move(evaluate); }

  bool changed() const { return changed_; }
  // Drops nodes that a rule made and did not use.
  void drop_abandoned();
  // Nodes that a rule may now apply to, and forgets them.
  std::vector<uint32_t> take_touched();

  // The graph, in the order it had as far as possible.
  Expected<ir::Graph> finish() const;

 private:
  ir::OpContext context(const ir::OpDef& op, const std::vector<Value>& inputs, const ir::Attrs& attrs,
                        size_t results) const;
  void read(uint32_t user, Value v, int change);
  std::vector<uint32_t> drop_unread(uint32_t id);
  void inherit(Value old, Value by, const std::vector<uint32_t>& dropped);
  bool fresh(uint32_t id) const { return id >= first_new_; }

  const ir::Graph* graph_;
  const ir::OpTable* table_;
  std::deque<ir::Node> nodes_;
  std::vector<bool> alive_;
  std::vector<std::vector<uint32_t>> users_;
  std::vector<ir::Output> outputs_;
  std::vector<std::vector<uint32_t>> outputs_of_;  // by node: which graph outputs read it
  std::vector<uint32_t> touched_;
  std::vector<uint32_t> unowned_;  // new nodes since the last replacement
  std::vector<uint32_t> recent_;   // new nodes since the last drop_abandoned
  uint32_t first_new_;
  Evaluate evaluate_;
  bool changed_ = false;
};

// Tries to apply one idea at a node; true when it did.
using Rule = std::function<bool(Editor& editor, uint32_t node)>;

// Asks the rule about every node, inputs first, then about the neighbours of every change until nothing changes.
Expected<ir::Graph> rewrite_everywhere(const ir::Graph& graph, PassContext& context, const Rule& rule);

}  // namespace isomer::passes
