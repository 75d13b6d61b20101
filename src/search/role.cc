#include "search/role.h"

#include <algorithm>
#include <functional>
#include <set>

#include "ir/context.h"
#include "ir/reduces.h"
#include "rewrite/instantiate.h"

namespace isomer::search {
namespace {

constexpr int kInstances = 8, kMostTries = 128;  // of each case of a rule
constexpr int64_t kSpread = 4;                   // of the sizes that are drawn, at first

// What a side reduces: operator, attributes and operand types of every such node that does not depend on constants alone.
std::multiset<std::string> reductions(const rewrite::Rule& rule, const ir::Graph& side, const ir::OpTable& table) {
  std::multiset<std::string> out;
  std::vector<bool> live(side.nodes().size());
  for (uint32_t id = 0; id < side.nodes().size(); ++id) {
    const ir::Node& n = side.node(id);
    if (n.op == &ir::input_op()) live[id] = rule.inputs[id].content == rewrite::Content::Any;
    std::string key = n.op->name + " " + n.attrs.hash().hex();
    for (const ir::Value& v : n.inputs) {
      live[id] = live[id] || (!v.is_none() && live[v.node]);
      key += " " + (v.is_none() ? "_" : side.type(v).to_string());
    }
    if (live[id] && n.op != &ir::input_op() && ir::reduces(ir::context_of(side, n, table))) out.insert(key);
  }
  return out;
}

// Whether something holds for one of a few instances of each case of a rule. Most sizes that are drawn may not fit together (a window
// larger than its image): the draws go on, wider, until some do.
bool any_instance(const rewrite::Rule& rule, const ir::OpTable& table,
                  const std::function<bool(const rewrite::Instance&)>& holds) {
  Random random(1);
  for (const rewrite::Bindings& chosen : rewrite::cases(rule)) {
    int found = 0;
    for (int tries = 0; tries < kMostTries && found < kInstances; ++tries) {
      const auto sizes = rewrite::sample(rule, chosen, random, kSpread + tries / kInstances);
      if (!sizes) break;
      const auto instance = rewrite::instantiate(rule, *sizes, table);
      if (!instance.ok()) continue;
      if (holds(*instance)) return true;
      ++found;
    }
  }
  return false;
}

bool wraps(const rewrite::Rule& rule, const ir::Graph& side, const ir::OpTable& table) {
  // An input that a run computes; what only moves such inputs; a reduction of what was moved.
  std::vector<bool> live(side.nodes().size()), moved(side.nodes().size()), inside(side.nodes().size());
  for (uint32_t id = 0; id < side.nodes().size(); ++id) {
    const ir::Node& n = side.node(id);
    if (n.op == &ir::input_op()) {
      live[id] = rule.inputs[id].content == rewrite::Content::Any;
      continue;
    }
    const auto reads = [&](const std::vector<bool>& kind) {
      return std::any_of(n.inputs.begin(), n.inputs.end(), [&](ir::Value v) { return !v.is_none() && kind[v.node]; });
    };
    live[id] = reads(live);
    if (!live[id]) continue;
    if (ir::reduces(ir::context_of(side, n, table)))
      inside[id] = reads(moved);
    else if (reads(inside))
      return true;
    else
      moved[id] = true;
  }
  return false;
}

size_t live_calls(const rewrite::EditGraph& graph, const rewrite::Side& side, const rewrite::Match& match) {
  size_t count = 0;
  std::vector<bool> live;
  for (const rewrite::Call& c : side.calls) {
    bool is = false;
    for (const rewrite::Operand& o : c.inputs) {
      if (o.kind == rewrite::Operand::Kind::Input) is |= !graph.constant(match.inputs[o.id]);
      if (o.kind == rewrite::Operand::Kind::Result) is |= live[o.id];
    }
    live.push_back(is);
    count += is ? 1 : 0;
  }
  return count;
}

}  // namespace

bool Reductions::at(const rewrite::EditGraph& graph, uint32_t node) {
  const ir::Node& n = graph.node(node);
  if (graph.constant({node, 0}) || n.op == &ir::input_op()) return false;
  const std::lock_guard lock(mutex_);
  if (const auto it = known_.find(n.op); it != known_.end()) return it->second;
  std::vector<ir::OpContext::Input> in;
  for (const ir::Value& v : n.inputs) {
    ir::OpContext::Input i;
    if (!v.is_none()) i = {true, graph.type(v), graph.contents(v), nullptr};
    in.push_back(std::move(i));
  }
  return known_[n.op] = ir::reduces(ir::OpContext(*n.op, std::move(in), n.attrs, n.types.size(), graph.table()));
}

Role role_of(const rewrite::Rule& rule, const ir::OpTable& table) {
  const auto steps = [&](const rewrite::Instance& i) {
    return reductions(rule, i.lhs, table) != reductions(rule, i.rhs, table);
  };
  return any_instance(rule, table, steps) ? Role::Step : Role::Tidy;
}

bool wraps(const rewrite::Rule& rule, const ir::OpTable& table) {
  return any_instance(rule, table, [&](const rewrite::Instance& i) { return wraps(rule, i.rhs, table); });
}

bool is_live(const rewrite::EditGraph& graph, const rewrite::Match& match) {
  return std::any_of(match.nodes.begin(), match.nodes.end(), [&](uint32_t n) { return !graph.constant({n, 0}); });
}

bool tidies(const rewrite::EditGraph& graph, const rewrite::Rule& rule, const rewrite::Match& match) {
  std::set<const ir::OpDef*> had;
  for (const rewrite::Call& c : rule.lhs.calls) had.insert(c.op);
  std::vector<bool> live;
  for (const rewrite::Call& c : rule.rhs.calls) {
    bool is = false;
    for (const rewrite::Operand& o : c.inputs) {
      if (o.kind == rewrite::Operand::Kind::Input) is |= !graph.constant(match.inputs[o.id]);
      if (o.kind == rewrite::Operand::Kind::Result) is |= live[o.id];
    }
    live.push_back(is);
    if (is && !had.contains(c.op)) return false;
  }
  return live_calls(graph, rule.rhs, match) < live_calls(graph, rule.lhs, match);
}

}  // namespace isomer::search
