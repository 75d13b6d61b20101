#include "rewrite/apply.h"

#include <fmt/format.h>

#include <algorithm>

#include "rewrite/side_builder.h"

namespace isomer::rewrite {
namespace {

Terms terms_of(const EditGraph& graph, const Match& m) {
  Terms t;
  for (const int64_t s : m.sizes.symbols) t.sizes.symbols.push_back(graph.size(s));
  for (const auto& list : m.sizes.lists) {
    auto& dims = t.sizes.lists.emplace_back();
    for (const int64_t s : *list) dims.push_back(graph.size(s));
  }
  t.types = m.types;
  t.attributes = m.attributes;
  return t;
}

// Names of the source nodes that the matched ones came from.
std::vector<std::string> origins(const EditGraph& graph, const Match& m) {
  std::vector<std::string> all;
  const auto add = [&](const std::string& s) {
    if (!s.empty() && std::find(all.begin(), all.end(), s) == all.end()) all.push_back(s);
  };
  for (const uint32_t id : m.nodes) {
    const ir::Node& n = graph.node(id);
    for (const std::string& s : n.origin) add(s);
    if (n.origin.empty()) add(n.label.empty() ? n.names[0] : n.label);
  }
  return all;
}

void drop_new(EditGraph& graph, size_t before) {
  std::vector<uint32_t> removed, changed;
  for (auto id = static_cast<uint32_t>(graph.slots()); id-- > before;)
    if (graph.alive(id)) graph.remove(id, removed, changed);
}

void sort_unique(std::vector<uint32_t>& v) {
  std::sort(v.begin(), v.end());
  v.erase(std::unique(v.begin(), v.end()), v.end());
}

bool reads(const EditGraph& graph, ir::Value value, ir::Value old) {
  std::vector<uint32_t> open = {value.node}, seen;
  while (!open.empty()) {
    const uint32_t at = open.back();
    open.pop_back();
    if (graph.depth(at) <= graph.depth(old.node) || std::find(seen.begin(), seen.end(), at) != seen.end()) continue;
    seen.push_back(at);
    for (const ir::Value& v : graph.node(at).inputs) {
      if (v.is_none()) continue;
      if (v == old) return true;
      open.push_back(v.node);
    }
  }
  return false;
}

// Whether new values would be computed from themselves: an equal node is taken in place of a new one, so a replacement
// that holds its own pattern reads what it should replace.
bool makes_cycle(const EditGraph& graph, const std::vector<ir::Value>& old, const std::vector<ir::Value>& built) {
  const size_t n = old.size();
  std::vector<std::vector<bool>> needs(n, std::vector<bool>(n, false));
  for (size_t k = 0; k < n; ++k)
    for (size_t j = 0; j < n; ++j)
      needs[k][j] = built[k] != old[k] && built[j] != old[j] && reads(graph, built[k], old[j]);
  for (size_t m = 0; m < n; ++m)
    for (size_t k = 0; k < n; ++k)
      for (size_t j = 0; j < n; ++j) needs[k][j] = needs[k][j] || (needs[k][m] && needs[m][j]);
  for (size_t k = 0; k < n; ++k)
    if (needs[k][k]) return true;
  return false;
}

}  // namespace

Expected<Edit> apply(EditGraph& graph, const Rule& rule, const Match& m) {
  const size_t before = graph.slots();
  uint64_t key = 0;
  for (const uint32_t id : m.nodes) key = std::max(key, graph.key(id));
  graph.set_origin(origins(graph, m), key);
  const Terms terms = terms_of(graph, m);
  auto built = SideBuilder<EditGraph>(rule, terms, graph, m.inputs).build(rule.rhs);
  if (!built.ok()) {
    drop_new(graph, before);
    return std::move(built).error();
  }
  std::vector<ir::Value> old;
  for (const Operand& o : rule.lhs.outputs) old.push_back({m.nodes[o.id], o.index});
  for (size_t k = 0; k < old.size(); ++k) {
    if (graph.type(old[k]) == graph.type((*built)[k])) continue;
    Diagnostic d("E-rule-type", fmt::format("rule {} would turn {} into {}", isomer::quoted(rule.name),
                                            graph.type(old[k]).to_string(), graph.type((*built)[k]).to_string()));
    drop_new(graph, before);
    return d;
  }
  if (makes_cycle(graph, old, *built)) {
    drop_new(graph, before);
    return Diagnostic(
        "E-rule-cycle",
        fmt::format("rule {} would make a value depend on itself here: its replacement holds what it replaces",
                    isomer::quoted(rule.name)));
  }
  Edit edit;
  std::vector<std::string> names;
  for (const ir::Value& v : old) names.push_back(graph.node(v.node).names[v.index]);
  for (size_t k = 0; k < old.size(); ++k) graph.redirect(old[k], (*built)[k], edit.touched);
  for (size_t i = m.nodes.size(); i-- > 0;)
    if (graph.alive(m.nodes[i])) graph.remove(m.nodes[i], edit.removed, edit.touched);
  for (size_t k = 0; k < old.size(); ++k) {
    const ir::Value v = (*built)[k];
    if (v.node >= before && !graph.alive(old[k].node) && graph.node(v.node).names[v.index].empty())
      graph.rename(v, names[k]);
  }
  for (auto id = static_cast<uint32_t>(before); id < graph.slots(); ++id)
    if (graph.alive(id)) {
      edit.added.push_back(id);
      edit.touched.push_back(id);
      for (const ir::Value& v : graph.node(id).inputs)
        if (!v.is_none()) edit.touched.push_back(v.node);
    }
  std::erase_if(edit.touched, [&](uint32_t id) { return !graph.alive(id); });
  sort_unique(edit.touched);
  sort_unique(edit.removed);
  return edit;
}

void MatchSet::update(const EditGraph& graph, const Edit& edit) {
  const auto in = [](const std::vector<uint32_t>& sorted, uint32_t id) {
    return std::binary_search(sorted.begin(), sorted.end(), id);
  };
  std::erase_if(matches_, [&](const Match& m) {
    return std::any_of(m.nodes.begin(), m.nodes.end(),
                       [&](uint32_t n) { return in(edit.removed, n) || in(edit.touched, n); });
  });
  std::vector<Match> found = matcher_->around(graph, edit.touched);
  matches_.insert(matches_.end(), std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()));
  std::sort(matches_.begin(), matches_.end(), [](const Match& a, const Match& b) {
    return std::tie(a.rule, a.nodes, a.inputs) < std::tie(b.rule, b.nodes, b.inputs);
  });
}

}  // namespace isomer::rewrite
