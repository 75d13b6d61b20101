#include "passes/editor.h"

#include <fmt/format.h>

#include <algorithm>

#include "passes/lasting_type.h"

namespace isomer::passes {
namespace {

// A constant that half the graph reads tells nothing about its other readers.
constexpr size_t kManyUsers = 8;

void merge(std::vector<std::string>& into, const std::vector<std::string>& from) {
  for (const std::string& s : from)
    if (std::find(into.begin(), into.end(), s) == into.end()) into.push_back(s);
}

}  // namespace

Editor::Editor(const ir::Graph& graph, const ir::OpTable& table)
    : graph_(&graph),
      table_(&table),
      nodes_(graph.nodes().begin(), graph.nodes().end()),
      alive_(graph.nodes().size(), true),
      users_(graph.nodes().size()),
      outputs_(graph.outputs()),
      outputs_of_(graph.nodes().size()),
      first_new_(static_cast<uint32_t>(graph.nodes().size())) {
  for (uint32_t id = 0; id < first_new_; ++id)
    for (const Value& v : nodes_[id].inputs) read(id, v, +1);
  for (uint32_t k = 0; k < outputs_.size(); ++k) outputs_of_[outputs_[k].value.node].push_back(k);
}

void Editor::read(uint32_t user, Value v, int change) {
  if (v.is_none()) return;
  std::vector<uint32_t>& all = users_[v.node];
  if (change > 0)
    all.push_back(user);
  else
    all.erase(std::find(all.begin(), all.end(), user));
}

size_t Editor::uses(Value v) const {
  size_t n = 0;
  for (uint32_t k : outputs_of_[v.node]) n += outputs_[k].value == v;
  if (nodes_[v.node].types.size() == 1) return n + users_[v.node].size();
  // A node that reads twice has two entries: count its inputs once.
  std::vector<uint32_t> all = users_[v.node];
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  for (uint32_t user : all) {
    const std::vector<Value>& in = nodes_[user].inputs;
    n += static_cast<size_t>(std::count(in.begin(), in.end(), v));
  }
  return n;
}

bool Editor::is_output(Value v) const {
  const std::vector<uint32_t>& all = outputs_of_[v.node];
  return std::any_of(all.begin(), all.end(), [&](uint32_t k) { return outputs_[k].value == v; });
}

const ir::Node* Editor::made_by(Value v, std::string_view op) const {
  if (v.is_none() || v.index != 0) return nullptr;
  const ir::Node& n = nodes_[v.node];
  return n.op->name == op ? &n : nullptr;
}

const Tensor* Editor::constant(Value v) const {
  if (v.is_none() || nodes_[v.node].op != &ir::const_op()) return nullptr;
  return nodes_[v.node].attrs.get<Tensor>("value");
}

ir::OpContext Editor::context(const ir::OpDef& op, const std::vector<Value>& inputs, const ir::Attrs& attrs,
                              size_t results) const {
  std::vector<ir::OpContext::Input> in;
  for (const Value& v : inputs)
    in.push_back(v.is_none() ? ir::OpContext::Input{} : ir::OpContext::Input{true, type(v), constant(v), nullptr});
  return ir::OpContext(op, std::move(in), attrs, results, *table_);
}

ir::OpContext Editor::context(uint32_t id) const {
  const ir::Node& n = nodes_[id];
  return context(*n.op, n.inputs, n.attrs, n.types.size());
}

Value Editor::constant(Tensor value, std::string name) {
  ir::Node n;
  n.op = &ir::const_op();
  n.types = {value.type()};
  n.names = {std::move(name)};
  n.attrs.set("value", std::move(value));
  nodes_.push_back(std::move(n));
  alive_.push_back(true);
  users_.emplace_back();
  outputs_of_.emplace_back();
  return {size() - 1, 0};
}

Value Editor::add(std::string_view op, std::vector<Value> inputs, ir::Attrs attrs) {
  const ir::OpDef* def = table_->find(op);
  if (!def) return Value::none();
  while (!inputs.empty() && inputs.back().is_none()) inputs.pop_back();
  auto types = ir::infer_types(context(*def, inputs, attrs, 1));
  if (!types.ok() || types->size() != 1) return Value::none();
  ir::Node n;
  n.op = def;
  n.inputs = std::move(inputs);
  n.attrs = std::move(attrs);
  n.types = *std::move(types);
  n.names = {""};
  nodes_.push_back(std::move(n));
  alive_.push_back(true);
  users_.emplace_back();
  outputs_of_.emplace_back();
  const uint32_t id = size() - 1;
  for (const Value& v : nodes_[id].inputs) read(id, v, +1);
  unowned_.push_back(id);
  recent_.push_back(id);
  return {id, 0};
}

void Editor::set_attrs(uint32_t id, ir::Attrs attrs) {
  nodes_[id].attrs = std::move(attrs);
  changed_ = true;
}

// Drops the node when nobody reads it, then what only it read; the numbers of all that went, lowest first.
std::vector<uint32_t> Editor::drop_unread(uint32_t id) {
  std::vector<uint32_t> open = {id}, dropped;
  while (!open.empty()) {
    const uint32_t x = open.back();
    open.pop_back();
    const bool wanted = !users_[x].empty() || !outputs_of_[x].empty();
    if (!alive_[x] || wanted || nodes_[x].op == &ir::input_op()) continue;
    alive_[x] = false;
    dropped.push_back(x);
    for (const Value& v : nodes_[x].inputs) {
      if (v.is_none()) continue;
      read(x, v, -1);
      open.push_back(v.node);
      // Somebody may be its only reader now.
      touched_.push_back(v.node);
      if (users_[v.node].size() <= kManyUsers)
        touched_.insert(touched_.end(), users_[v.node].begin(), users_[v.node].end());
    }
  }
  std::sort(dropped.begin(), dropped.end());
  return dropped;
}

void Editor::drop_abandoned() {
  const std::vector<uint32_t> recent = std::exchange(recent_, {});
  for (auto it = recent.rbegin(); it != recent.rend(); ++it) drop_unread(*it);
}

void Editor::inherit(Value old, Value by, const std::vector<uint32_t>& dropped) {
  std::vector<std::string> origin;
  for (uint32_t id : dropped)
    if (ir::is_computed(nodes_[id])) merge(origin, nodes_[id].origin);
  for (uint32_t id : unowned_) merge(nodes_[id].origin, origin);
  unowned_.clear();
  ir::Node& n = nodes_[by.node];
  if (ir::is_computed(n)) merge(n.origin, origin);
  if (alive_[old.node] || !fresh(by.node)) return;
  if (n.label.empty()) n.label = nodes_[old.node].label;
  std::string& own = n.names[by.index];
  if (own.empty()) std::swap(own, nodes_[old.node].names[old.index]);
}

bool Editor::replace(Value old, Value by) {
  if (by.is_none() || old == by || !ir::agree(type(old), type(by))) return false;
  changed_ = true;
  const std::vector<uint32_t> readers = users_[old.node];
  for (uint32_t user : readers)
    for (Value& v : nodes_[user].inputs) {
      if (v != old || user == by.node) continue;
      read(user, v, -1);
      v = by;
      read(user, v, +1);
    }
  for (uint32_t k : std::exchange(outputs_of_[old.node], {})) {
    if (outputs_[k].value == old) outputs_[k].value = by;
    outputs_of_[outputs_[k].value.node].push_back(k);
  }
  if (fresh(by.node)) nodes_[by.node].types[by.index] = completed(type(by), type(old));
  inherit(old, by, drop_unread(old.node));
  touched_.push_back(by.node);
  for (const Value& v : nodes_[by.node].inputs)
    if (!v.is_none()) touched_.push_back(v.node);
  touched_.insert(touched_.end(), readers.begin(), readers.end());
  return true;
}

std::vector<uint32_t> Editor::take_touched() { return std::exchange(touched_, {}); }

Expected<ir::Graph> Editor::finish() const {
  ir::GraphBuilder builder(*table_, graph_->name());
  builder.set_verbatim(true);
  std::vector<std::vector<Value>> values(size());
  const auto emit = [&](uint32_t id) -> Expected<void> {
    const ir::Node& n = nodes_[id];
    if (n.op == &ir::input_op()) {
      ISOMER_TRY(const Value v, builder.input(n.names[0], n.types[0]));
      values[id] = {v};
      return {};
    }
    ir::NodeInfo info{n.names, n.label, n.origin};
    if (fresh(id) && info.names[0].empty()) info.names[0] = n.op->name;
    if (n.op == &ir::const_op()) {
      values[id] = {builder.constant(*n.attrs.get<Tensor>("value"), info.names[0])};
      return {};
    }
    std::vector<Value> inputs;
    for (const Value& v : n.inputs) inputs.push_back(v.is_none() ? v : values[v.node][v.index]);
    ISOMER_TRY(values[id], builder.add(*n.op, std::move(inputs), n.attrs, std::move(info), n.types.size()));
    for (uint32_t k = 0; k < n.types.size(); ++k)
      ISOMER_CHECK_OK(builder.declare_type(values[id][k], lasting(n.types[k])));
    return {};
  };
  // Inputs first: a new node stands before the first old one that needs it.
  enum State : uint8_t { Open, Entered, Done };
  std::vector<State> states(size(), Open);
  const auto emit_with_inputs = [&](uint32_t root) -> Expected<void> {
    std::vector<uint32_t> open = {root};
    while (!open.empty()) {
      const uint32_t id = open.back();
      if (states[id] == Open) {
        states[id] = Entered;
        for (const Value& v : nodes_[id].inputs) {
          if (v.is_none()) continue;
          if (states[v.node] == Entered) return Diagnostic("E-verify", "a pass made nodes that wait for each other");
          if (states[v.node] == Open) open.push_back(v.node);
        }
        continue;
      }
      open.pop_back();
      if (states[id] == Entered) ISOMER_CHECK_OK(emit(id));
      states[id] = Done;
    }
    return {};
  };
  for (uint32_t id = 0; id < first_new_; ++id)
    if (alive_[id]) ISOMER_CHECK_OK(emit_with_inputs(id));
  for (const ir::Output& o : outputs_) {
    ISOMER_CHECK_OK(emit_with_inputs(o.value.node));
    builder.output(o.name, values[o.value.node][o.value.index]);
  }
  builder.set_metadata(graph_->metadata());
  return std::move(builder).finish();
}

Expected<ir::Graph> rewrite_everywhere(const ir::Graph& graph, PassContext& context, const Rule& rule) {
  Editor editor(graph, context.table());
  editor.set_evaluate(context.evaluate);
  std::deque<uint32_t> open;
  std::vector<bool> waiting;
  const auto push = [&](uint32_t id) {
    waiting.resize(editor.size(), false);
    if (!editor.alive(id) || waiting[id]) return;
    waiting[id] = true;
    open.push_back(id);
  };
  for (uint32_t id = 0; id < editor.size(); ++id) push(id);
  // No sequence of applications is that long: each makes the graph simpler.
  for (size_t left = 64 + 16 * graph.nodes().size(); !open.empty() && left > 0 && context.admits();) {
    const uint32_t id = open.front();
    open.pop_front();
    waiting[id] = false;
    if (!editor.alive(id) || editor.node(id).op == &ir::input_op()) continue;
    const std::string where = editor.node(id).names.empty() ? "" : editor.node(id).names[0];
    const bool applied = rule(editor, id);
    editor.drop_abandoned();
    if (!applied) continue;
    context.applied(where);
    --left;
    for (uint32_t touched : editor.take_touched()) push(touched);
  }
  if (!editor.changed()) return graph;
  return editor.finish();
}

}  // namespace isomer::passes
