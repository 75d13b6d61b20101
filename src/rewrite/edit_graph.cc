#include "rewrite/edit_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <unordered_set>

namespace isomer::rewrite {

EditGraph::EditGraph(const ir::Graph& graph, const ir::OpTable& table, AttrHabitTable& habits)
    : table_(&table),
      habits_(&habits),
      name_(graph.name()),
      metadata_(graph.metadata()),
      input_count_(graph.input_count()),
      outputs_(graph.outputs()) {
  nodes_.reserve(graph.nodes().size());
  for (const ir::Node& n : graph.nodes()) {
    key_ = nodes_.size();
    append(n, false);
  }
}

int64_t EditGraph::number(const Dim& d) {
  if (d.is_const()) return d.value();
  const auto [it, fresh] =
      open_numbers_.emplace(d.to_string(), kFirstOpenSize + static_cast<int64_t>(open_sizes_.size()));
  if (fresh) open_sizes_.push_back(d);
  return it->second;
}

const std::vector<int64_t>* EditGraph::dims(ir::Value v) const {
  const auto& dims = nodes_[v.node]->dims[v.index];
  return dims ? &*dims : nullptr;
}

Dim EditGraph::size(int64_t number) const {
  return is_open_size(number) ? open_sizes_[static_cast<size_t>(number - kFirstOpenSize)] : Dim(number);
}

uint32_t EditGraph::append(ir::Node n, bool fresh) {
  const auto id = static_cast<uint32_t>(nodes_.size());
  auto slot = std::make_shared<Slot>();
  bool constant = n.op->pure && !n.inputs.empty();
  uint32_t depth = 0;
  std::vector<Shape> shapes;
  for (uint32_t i = 0; i < n.inputs.size(); ++i) {
    const ir::Value v = n.inputs[i];
    shapes.push_back(v.is_none() ? Shape::unknown() : type(v).shape);
    if (v.is_none()) continue;
    uses_[v.node].push_back({id, i, v.index});
    constant &= nodes_[v.node]->constant;
    depth = std::max(depth, depth_[v.node] + 1);
  }
  slot->constant = n.op == &ir::const_op() || constant;
  slot->canonical =
      n.attrs.empty() || n.op == &ir::const_op() ? n.attrs : habits_->of(*n.op).canonical(n.attrs, shapes);
  for (const Type& t : n.types) {
    auto& dims = slot->dims.emplace_back();
    if (!t.shape.has_rank()) continue;
    dims.emplace();
    for (const Dim& d : t.shape.dims()) dims->push_back(number(d));
  }
  slot->key = key_;
  slot->fresh = fresh;
  by_op_[n.op].push_back(id);
  slot->node = std::move(n);
  nodes_.push_back(std::move(slot));
  uses_.emplace_back();
  depth_.push_back(depth);
  return id;
}

bool EditGraph::is_output(ir::Value v) const {
  return std::any_of(outputs_.begin(), outputs_.end(), [&](const ir::Output& o) { return o.value == v; });
}

bool EditGraph::is_output(uint32_t id) const {
  return std::any_of(outputs_.begin(), outputs_.end(), [&](const ir::Output& o) { return o.value.node == id; });
}

const Tensor* EditGraph::contents(ir::Value v) const {
  const ir::Node& n = node(v.node);
  return n.op == &ir::const_op() ? n.attrs.get<Tensor>("value") : nullptr;
}

std::span<const uint32_t> EditGraph::nodes_of(const ir::OpDef* op) const {
  const auto it = by_op_.find(op);
  return it == by_op_.end() ? std::span<const uint32_t>() : std::span<const uint32_t>(it->second);
}

void EditGraph::set_origin(std::vector<std::string> origin, uint64_t key) {
  origin_ = std::move(origin);
  key_ = key;
}

void EditGraph::share(uint32_t id) {
  if (!nodes_[id]->fresh || key(id) <= key_) return;
  auto slot = std::make_shared<Slot>(*nodes_[id]);
  slot->key = key_;
  slot->node.origin = origin_;
  nodes_[id] = std::move(slot);
}

ir::Value EditGraph::constant(Tensor value) {
  // Small ones only: comparing weights with each other is not worth it.
  if (value.size() <= 16)
    for (const uint32_t id : nodes_of(&ir::const_op()))
      if (const Tensor* t = contents({id, 0}); t && *t == value) {
        share(id);
        return {id, 0};
      }
  ir::Node n;
  n.op = &ir::const_op();
  n.types = {value.type()};
  n.names = {""};
  n.origin = origin_;
  n.attrs = ir::Attrs{{"value", std::move(value)}};
  return {append(std::move(n), true), 0};
}

Expected<ir::Value> EditGraph::sizes(std::vector<Dim> dims) {
  std::vector<int64_t> numbers;
  for (const Dim& d : dims) {
    if (!d.is_const()) return Diagnostic("E-rule-open", fmt::format("size {} has no number", d.to_string()));
    numbers.push_back(d.value());
  }
  return constant(Tensor::ints(numbers));
}

Expected<std::vector<ir::Value>> EditGraph::add(const ir::OpDef& op, std::vector<ir::Value> inputs, ir::Attrs attrs,
                                                size_t outputs) {
  while (!inputs.empty() && inputs.back().is_none()) inputs.pop_back();
  ir::Attrs kept;
  for (const auto& [name, value] : attrs) {
    const ir::AttrDef* def = op.attr(name);
    if (!(def && def->standard && ir::equal(*def->standard, value))) kept.set(name, value);
  }
  const auto results = [&](uint32_t id) {
    std::vector<ir::Value> out;
    for (uint32_t k = 0; k < outputs; ++k) out.push_back({id, k});
    return out;
  };
  if (!inputs.empty() && !inputs[0].is_none())
    for (const Use& u : uses_[inputs[0].node]) {
      const ir::Node& n = node(u.user);
      if (n.op == &op && n.inputs == inputs && n.types.size() == outputs && n.attrs == kept) {
        const uint32_t there = u.user;
        share(there);
        return results(there);
      }
    }
  std::vector<ir::OpContext::Input> in;
  for (const ir::Value& v : inputs) {
    ir::OpContext::Input i;
    if (!v.is_none()) i = {true, type(v), contents(v), nullptr};
    in.push_back(std::move(i));
  }
  ISOMER_TRY(std::vector<Type> types, ir::infer_types(ir::OpContext(op, std::move(in), kept, outputs, *table_)));
  for (const Type& t : types)
    if (t.shape.is_static()) ISOMER_CHECK_OK(checked_elements(t.dtype, t.shape.values()));
  ir::Node n;
  n.op = &op;
  n.inputs = std::move(inputs);
  n.attrs = std::move(kept);
  n.types = std::move(types);
  n.names.resize(outputs);
  n.origin = origin_;
  return results(append(std::move(n), true));
}

void EditGraph::raise_depth(uint32_t id) {
  std::vector<uint32_t> open = {id};
  while (!open.empty()) {
    const uint32_t at = open.back();
    open.pop_back();
    for (const Use& u : uses_[at])
      if (depth_[u.user] <= depth_[at]) {
        depth_[u.user] = depth_[at] + 1;
        open.push_back(u.user);
      }
  }
}

void EditGraph::redirect(ir::Value from, ir::Value to, std::vector<uint32_t>& changed) {
  if (from == to) return;
  for (ir::Output& o : outputs_)
    if (o.value == from) o.value = to;
  std::vector<Use> kept;
  for (const Use& u : uses_[from.node]) {
    if (u.index != from.index) {
      kept.push_back(u);
      continue;
    }
    auto slot = std::make_shared<Slot>(*nodes_[u.user]);
    slot->node.inputs[u.operand] = to;
    slot->constant =
        slot->node.op->pure && std::all_of(slot->node.inputs.begin(), slot->node.inputs.end(),
                                           [&](const ir::Value& v) { return v.is_none() || nodes_[v.node]->constant; });
    nodes_[u.user] = std::move(slot);
    uses_[to.node].push_back({u.user, u.operand, to.index});
    changed.push_back(u.user);
  }
  uses_[from.node] = std::move(kept);
  changed.push_back(to.node);
  raise_depth(to.node);
}

void EditGraph::rename(ir::Value v, const std::string& name) {
  auto slot = std::make_shared<Slot>(*nodes_[v.node]);
  slot->node.names[v.index] = name;
  nodes_[v.node] = std::move(slot);
}

void EditGraph::remove(uint32_t id, std::vector<uint32_t>& removed, std::vector<uint32_t>& changed) {
  std::vector<uint32_t> open = {id};
  while (!open.empty()) {
    const uint32_t at = open.back();
    open.pop_back();
    if (!alive(at) || !uses_[at].empty() || is_output(at) || node(at).op == &ir::input_op() || !node(at).op->pure)
      continue;
    const std::shared_ptr<const Slot> slot = std::move(nodes_[at]);
    nodes_[at] = nullptr;
    std::erase(by_op_[slot->node.op], at);
    removed.push_back(at);
    for (const ir::Value& v : slot->node.inputs) {
      if (v.is_none()) continue;
      std::erase_if(uses_[v.node], [&](const Use& u) { return u.user == at; });
      changed.push_back(v.node);
      open.push_back(v.node);
    }
  }
}

// Topological, as near to the order the nodes had as that allows. Constants that rewrites made stand in front of their
// first user: several rewrites may share one, and which of them was applied first must not show.
std::vector<uint32_t> EditGraph::order() const {
  using Entry = std::pair<uint64_t, uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  std::vector<uint32_t> missing(slots(), 0), out;
  std::vector<bool> waits(slots(), false);  // constants whose first user has not come yet
  for (uint32_t id = 0; id < slots(); ++id)
    waits[id] = alive(id) && nodes_[id]->fresh && node(id).op == &ir::const_op() && !uses_[id].empty();
  for (uint32_t id = 0; id < slots(); ++id) {
    if (!alive(id) || waits[id]) continue;
    std::unordered_set<uint32_t> producers;
    for (const ir::Value& v : node(id).inputs)
      if (!v.is_none() && !waits[v.node]) producers.insert(v.node);
    missing[id] = static_cast<uint32_t>(producers.size());
    if (producers.empty()) ready.push({key(id), id});
  }
  while (!ready.empty()) {
    const uint32_t id = ready.top().second;
    ready.pop();
    for (const ir::Value& v : node(id).inputs)
      if (!v.is_none() && waits[v.node]) {
        waits[v.node] = false;
        out.push_back(v.node);
      }
    out.push_back(id);
    std::unordered_set<uint32_t> users;
    for (const Use& u : uses_[id])
      if (users.insert(u.user).second && --missing[u.user] == 0) ready.push({key(u.user), u.user});
  }
  return out;
}

Expected<ir::Graph> EditGraph::graph() const {
  ir::GraphBuilder builder(*table_, name_);
  builder.set_metadata(metadata_);
  std::vector<uint32_t> at(slots(), UINT32_MAX);
  const auto mapped = [&](ir::Value v) { return v.is_none() ? v : ir::Value{at[v.node], v.index}; };
  for (uint32_t id = 0; id < input_count_; ++id) {
    ISOMER_TRY(const ir::Value v, builder.input(node(id).names[0], node(id).types[0]));
    at[id] = v.node;
  }
  std::unordered_set<std::string> taken;
  for (uint32_t id = 0; id < slots(); ++id)
    if (alive(id)) taken.insert(node(id).names.begin(), node(id).names.end());
  const auto named = [&](const ir::Node& n) {
    std::vector<std::string> names = n.names;
    for (std::string& s : names) {
      if (!s.empty()) continue;
      const std::string stem = n.op == &ir::const_op() ? "rewritten.const" : "rewritten." + n.op->name;
      for (size_t k = 0; s.empty(); ++k)
        if (std::string candidate = fmt::format("{}.{}", stem, k); taken.insert(candidate).second) s = candidate;
    }
    return names;
  };
  builder.set_verbatim(true);
  for (const uint32_t id : order()) {
    if (id < input_count_) continue;
    const ir::Node& n = node(id);
    const bool fresh = nodes_[id]->fresh;
    if (n.op == &ir::const_op()) {
      at[id] = builder.constant(*n.attrs.get<Tensor>("value"), fresh ? named(n)[0] : n.names[0]).node;
      continue;
    }
    std::vector<ir::Value> inputs;
    for (const ir::Value& v : n.inputs) inputs.push_back(mapped(v));
    ir::NodeInfo info{fresh ? named(n) : n.names, n.label, n.origin};
    ISOMER_TRY(const std::vector<ir::Value> results,
               builder.add(*n.op, std::move(inputs), n.attrs, std::move(info), n.types.size()));
    at[id] = results[0].node;
    for (size_t k = 0; k < results.size(); ++k) ISOMER_CHECK_OK(builder.restate_type(results[k], n.types[k]));
  }
  for (const ir::Output& o : outputs_) builder.output(o.name, mapped(o.value));
  return std::move(builder).finish();
}

}  // namespace isomer::rewrite
