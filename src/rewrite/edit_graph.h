// EditGraph: a graph that rewrites work on. Nodes keep their numbers while others come and go, so matches around an edit
// can be found again without looking at the rest; copies share the nodes. The order of numbers means nothing after
// the first edit: `graph` sorts, names and checks everything again.
// Invariant: uses and outputs are exact, there is no cycle, and a node's depth is larger than that of its inputs.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"
#include "rewrite/absent_attrs.h"
#include "rewrite/size.h"

namespace isomer::rewrite {

struct Use {
  uint32_t user, operand, index;  // `index`: which result is used
  bool operator==(const Use&) const = default;
};

class EditGraph {
 public:
  // `habits` must outlive the graph and its copies.
  EditGraph(const ir::Graph& graph, const ir::OpTable& table, AttrHabitTable& habits);

  size_t slots() const { return nodes_.size(); }
  bool alive(uint32_t id) const { return nodes_[id] != nullptr; }
  const ir::Node& node(uint32_t id) const { return nodes_[id]->node; }
  // The node's attributes without those that say what their absence says (AttrHabits::canonical).
  const ir::Attrs& attrs(uint32_t id) const { return nodes_[id]->canonical; }
  const Type& type(ir::Value v) const { return node(v.node).types[v.index]; }
  DType dtype(ir::Value v) const { return type(v).dtype; }
  // The dims of a value as numbers, with open sizes from kFirstOpenSize on (size.h); null when the rank is not known.
  const std::vector<int64_t>* dims(ir::Value v) const;
  // The size that such a number stands for.
  Dim size(int64_t number) const;
  std::span<const Use> uses(uint32_t id) const { return uses_[id]; }
  std::span<const ir::Output> outputs() const { return outputs_; }
  bool is_output(ir::Value v) const;
  bool is_output(uint32_t node) const;
  uint32_t depth(uint32_t id) const { return depth_[id]; }
  // Computed from constants alone.
  bool constant(ir::Value v) const { return nodes_[v.node]->constant; }
  const Tensor* contents(ir::Value v) const;  // of a constant node, else null
  // Living nodes of an operator, in no order that means anything.
  std::span<const uint32_t> nodes_of(const ir::OpDef* op) const;
  const ir::OpTable& table() const { return *table_; }

  // New nodes. An equal node that is there already is taken in place of a new one.
  ir::Value constant(Tensor value);
  Expected<ir::Value> sizes(std::vector<Dim> dims);
  Expected<std::vector<ir::Value>> add(const ir::OpDef& op, std::vector<ir::Value> inputs, ir::Attrs attrs,
                                       size_t outputs);
  // Origins given to nodes from now on, and the place in the order of the text that they would like to have.
  void set_origin(std::vector<std::string> origin, uint64_t key);
  uint64_t key(uint32_t id) const { return nodes_[id]->key; }

  // Lets everything that used `from` use `to`; users that changed are appended. `to` must not depend on them.
  void redirect(ir::Value from, ir::Value to, std::vector<uint32_t>& changed);
  void rename(ir::Value v, const std::string& name);
  // Takes a node away that has no use, and with it all that lost its last use by that. Appends what went, and the nodes
  // that lost a use.
  void remove(uint32_t id, std::vector<uint32_t>& removed, std::vector<uint32_t>& changed);

  // As a value again, every node checked against its record.
  Expected<ir::Graph> graph() const;

 private:
  struct Slot {
    ir::Node node;
    ir::Attrs canonical;
    std::vector<std::optional<std::vector<int64_t>>> dims;  // one per output
    bool constant = false;
    bool fresh = false;  // made by a rewrite: a result without a name gets one
    uint64_t key = 0;
  };

  uint32_t append(ir::Node node, bool fresh);
  // What rewrites share belongs to the one that comes first in the text, whichever was applied first.
  void share(uint32_t id);
  int64_t number(const Dim& d);
  void raise_depth(uint32_t id);
  std::vector<uint32_t> order() const;

  const ir::OpTable* table_;
  AttrHabitTable* habits_;
  std::string name_;
  ir::Metadata metadata_;
  size_t input_count_;
  std::vector<std::shared_ptr<const Slot>> nodes_;
  std::vector<std::vector<Use>> uses_;
  std::vector<uint32_t> depth_;
  std::vector<ir::Output> outputs_;
  std::unordered_map<const ir::OpDef*, std::vector<uint32_t>> by_op_;
  std::vector<Dim> open_sizes_;
  std::unordered_map<std::string, int64_t> open_numbers_;
  std::vector<std::string> origin_;
  uint64_t key_ = 0;
};

}  // namespace isomer::rewrite
