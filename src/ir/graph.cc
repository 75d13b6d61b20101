#include "ir/graph.h"

#include <algorithm>

namespace isomer::ir {

const OpDef& input_op() {
  static const OpDef op{
      .name = "input", .doc = "A value given by the caller.", .inputs = {}, .outputs = {{"value", "opaque"}}};
  return op;
}

const OpDef& const_op() {
  static const OpDef op{.name = "const",
                        .doc = "A constant tensor.",
                        .inputs = {},
                        .outputs = {{"value", "opaque"}},
                        .attrs = {{.name = "value", .kind = AttrKind::Tensor, .required = true}}};
  return op;
}

bool is_computed(const Node& n) { return n.op != &input_op() && n.op != &const_op(); }

namespace {

// Hash of every node's content, in node order; a graph input counts by its position and type.
std::vector<Hash128> node_hashes(const Graph& g) {
  std::vector<Hash128> hashes;
  hashes.reserve(g.nodes().size());
  for (uint32_t i = 0; i < g.nodes().size(); ++i) {
    const Node& n = g.node(i);
    Hasher h;
    h.add(n.op->name).add(n.attrs.hash());
    if (i < g.input_count()) h.add(i);
    for (const Value& v : n.inputs) v.is_none() ? h.add(0) : h.add(hashes[v.node]).add(v.index + 1);
    h.add(n.types.size());
    for (const Type& t : n.types) h.add(t.to_string());
    hashes.push_back(h.digest());
  }
  return hashes;
}

// The same apart from what their inputs are.
bool same_content(const Graph& a, uint32_t x, const Graph& b, uint32_t y) {
  const Node &n = a.node(x), &m = b.node(y);
  if (n.op->name != m.op->name || n.inputs.size() != m.inputs.size() || !(n.types == m.types) || !(n.attrs == m.attrs))
    return false;
  if ((x < a.input_count() || y < b.input_count()) && (x != y || n.names != m.names)) return false;
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    const Value &u = n.inputs[i], &v = m.inputs[i];
    if (u.is_none() != v.is_none() || u.index != v.index) return false;
  }
  return true;
}

// Nodes of equal content are one class, named by its first node (two initialisers of one content have two nodes);
// a node that is not pure is a class of its own.
std::vector<uint32_t> classes_of(const Graph& g) {
  const std::vector<Hash128> hashes = node_hashes(g);
  std::unordered_multimap<Hash128, uint32_t> by_hash;
  std::vector<uint32_t> classes(g.nodes().size());
  const auto same_inputs = [&](uint32_t x, uint32_t y) {
    const std::vector<Value>&u = g.node(x).inputs, &v = g.node(y).inputs;
    for (size_t i = 0; i < u.size(); ++i)
      if (!u[i].is_none() && classes[u[i].node] != classes[v[i].node]) return false;
    return true;
  };
  for (uint32_t i = 0; i < classes.size(); ++i) {
    classes[i] = i;
    const auto [from, to] = by_hash.equal_range(hashes[i]);
    for (auto it = from; it != to && classes[i] == i && g.node(i).op->pure; ++it)
      if (same_content(g, i, g, it->second) && same_inputs(i, it->second)) classes[i] = it->second;
    if (classes[i] == i) by_hash.emplace(hashes[i], i);
  }
  return classes;
}

}  // namespace

Graph::Graph() {
  static const auto nothing = std::make_shared<const Content>();
  content_ = nothing;
}

Hash128 Graph::content_hash() const {
  const auto compute = [this] {
    const std::vector<Hash128> hashes = node_hashes(*this);
    Hasher h;
    for (const Node& n : inputs()) h.add(n.names[0]).add(n.types[0].to_string());
    for (const Output& o : outputs()) h.add(o.name).add(hashes[o.value.node]).add(o.value.index);
    return h.digest();
  };
  if (!content_->finished) return compute();
  std::call_once(content_->hashed, [&] { content_->hash = compute(); });
  return content_->hash;
}

// Pairs the classes of both graphs from the outputs down. What a node is used for decides which of two equal draws it
// is, so no order of the nodes matters and nothing has to be tried.
bool equal(const Graph& a, const Graph& b) {
  if (a.shares(b)) return true;
  if (a.input_count() != b.input_count() || a.outputs().size() != b.outputs().size()) return false;
  const std::vector<uint32_t> of_a = classes_of(a), of_b = classes_of(b);
  std::vector<uint32_t> to_b(a.nodes().size(), UINT32_MAX), to_a(b.nodes().size(), UINT32_MAX);
  std::vector<std::pair<uint32_t, uint32_t>> open;
  for (uint32_t i = 0; i < a.input_count(); ++i) open.emplace_back(i, i);
  for (size_t i = 0; i < a.outputs().size(); ++i) {
    const Output &x = a.outputs()[i], &y = b.outputs()[i];
    if (x.name != y.name || x.value.index != y.value.index) return false;
    open.emplace_back(x.value.node, y.value.node);
  }
  while (!open.empty()) {
    const uint32_t x = of_a[open.back().first], y = of_b[open.back().second];
    open.pop_back();
    if (to_b[x] == y && to_a[y] == x) continue;
    if (to_b[x] != UINT32_MAX || to_a[y] != UINT32_MAX || !same_content(a, x, b, y)) return false;
    to_b[x] = y;
    to_a[y] = x;
    for (size_t i = 0; i < a.node(x).inputs.size(); ++i)
      if (const Value v = a.node(x).inputs[i]; !v.is_none()) open.emplace_back(v.node, b.node(y).inputs[i].node);
  }
  return true;
}

namespace {

bool identical(const Attrs& a, const Attrs& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    const auto *u = std::get_if<GraphRef>(&x.second), *v = std::get_if<GraphRef>(&y.second);
    if (u && v) return x.first == y.first && (*u == *v || ir::identical(**u, **v));
    return x.first == y.first && equal(x.second, y.second);
  });
}

// Sizes that only a run can tell, by the names the builder gives them.
bool is_unknown(const Dim& d) {
  if (d.is_const()) return false;
  if (d.is_invalid()) return true;
  std::vector<std::string> symbols;
  d.symbols(symbols);
  return std::any_of(symbols.begin(), symbols.end(), [](const std::string& s) { return s.starts_with('?'); });
}

}  // namespace

bool agree(const Type& a, const Type& b) {
  if (a.dtype != b.dtype) return false;
  if (a.foreign && b.foreign && *a.foreign != *b.foreign) return false;
  if (!a.shape.has_rank() || !b.shape.has_rank()) return true;
  if (a.shape.rank() != b.shape.rank()) return false;
  for (size_t i = 0; i < a.shape.rank(); ++i)
    if (!(a.shape[i] == b.shape[i]) && !is_unknown(a.shape[i]) && !is_unknown(b.shape[i])) return false;
  return true;
}

bool identical(const Graph& a, const Graph& b) {
  if (a.shares(b)) return true;
  if (a.name() != b.name() || a.input_count() != b.input_count() || a.nodes().size() != b.nodes().size() ||
      a.outputs().size() != b.outputs().size() || !(a.metadata() == b.metadata()))
    return false;
  for (size_t i = 0; i < a.outputs().size(); ++i)
    if (a.outputs()[i].name != b.outputs()[i].name || a.outputs()[i].value != b.outputs()[i].value) return false;
  for (uint32_t i = 0; i < a.nodes().size(); ++i) {
    const Node &n = a.node(i), &m = b.node(i);
    if (n.op->name != m.op->name || n.inputs != m.inputs || n.names != m.names || n.label != m.label ||
        n.origin != m.origin || n.types != m.types || !identical(n.attrs, m.attrs))
      return false;
  }
  return true;
}

Expected<std::vector<Value>> add_as_is(ForeignNode& n, GraphBuilder& builder) {
  return builder.add(*n.op, std::move(n.inputs), std::move(n.attrs), std::move(n.info), n.outputs);
}

}  // namespace isomer::ir
