#include "rewrite/proof.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/graph.h"
#include "ir/sample.h"
#include "ir/text.h"
#include "te/print.h"

namespace isomer::rewrite {

Hash128 rule_hash(const Rule& rule) { return Hasher().add(print(rule, false)).digest(); }

namespace {

void add_signature(Hasher& h, const ir::OpDef& op) {
  h.add(op.name).add(op.pure);
  for (const ir::InputDef& i : op.inputs) {
    h.add(i.name).add(i.var).add(static_cast<uint64_t>(i.arity)).add(static_cast<uint64_t>(i.at_least));
    for (const DType t : kAllDTypes) h.add(i.types.contains(t));
  }
  for (const ir::OutputDef& o : op.outputs) h.add(o.name).add(o.type).add(static_cast<uint64_t>(o.arity));
  for (const ir::AttrDef& a : op.attrs) {
    h.add(a.name).add(static_cast<uint64_t>(a.kind)).add(a.required);
    if (a.standard) h.add(ir::hash(*a.standard));
  }
}

// A sample's node as an operator sees it. The types alone: contents that a record asks for are the sample's constants.
ir::OpContext context_of(const ir::Graph& g, const ir::Node& n, const ir::OpTable& table) {
  std::vector<ir::OpContext::Input> inputs;
  for (const ir::Value& v : n.inputs) {
    ir::OpContext::Input i;
    if (!v.is_none()) i = {true, g.type(v), g.node(v.node).attrs.get<Tensor>("value"), nullptr};
    inputs.push_back(std::move(i));
  }
  return ir::OpContext(*n.op, std::move(inputs), n.attrs, n.types.size(), table);
}

}  // namespace

Hash128 OperatorHashes::of(const ir::OpDef& op) {
  if (const auto it = known_.find(op.name); it != known_.end()) return it->second;
  known_[op.name] = {};  // an expansion that calls itself ends here
  Hasher h;
  add_signature(h, op);
  for (const std::string& text : op.samples) {
    const auto sample = ir::make_sample(text, *table_, 1);
    if (!sample.ok()) continue;
    for (const ir::Node& n : sample->graph.nodes()) {
      if (n.op != &op) continue;
      const ir::OpContext c = context_of(sample->graph, n, *table_);
      h.add(text);
      if (op.compute) {
        const auto program = op.compute(c);
        h.add(program.ok() ? te::print(*program) : program.error().message);
      } else if (const auto graph = ir::expand(c); graph.ok()) {
        h.add(ir::print(*graph));
        std::set<std::string> inner;
        for (const ir::Node& x : graph->nodes())
          if (ir::is_computed(x)) inner.insert(x.op->name);
        for (const std::string& name : inner)
          if (const ir::OpDef* used = table_->find(name)) h.add(of(*used));
      }
    }
  }
  return known_[op.name] = h.digest();
}

Hash128 OperatorHashes::of(const Rule& rule) {
  std::map<std::string, const ir::OpDef*> used;
  for (const Side* side : {&rule.lhs, &rule.rhs})
    for (const Call& c : side->calls) used.emplace(c.op->name, c.op);
  Hasher h;
  for (const auto& [name, op] : used) h.add(of(*op));
  return h.digest();
}

Expected<const Proof*> valid_proof(const Rule& rule, OperatorHashes& operators) {
  const auto refuse = [&](std::string why, const Location& where) {
    Diagnostic d("E-rule-proof",
                 fmt::format("rule {} {}; `isomer rules verify` writes the line anew", isomer::quoted(rule.name), why));
    return std::move(d.at(where));
  };
  if (rule.proofs.empty()) return refuse("has no proof", rule.where);
  const std::string text = rule_hash(rule).hex(), records = operators.of(rule).hex();
  for (const Proof& p : rule.proofs) {
    if (p.rule != text) return refuse("is not the one that was proved: its text has changed", p.where);
    if (p.operators != records) return refuse("has a stale proof: an operator in it has changed", p.where);
  }
  return &rule.proofs.front();
}

std::string with_proofs(std::string_view text, const std::vector<Rule>& rules) {
  std::vector<std::string_view> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  const auto first_word = [](std::string_view line) {
    const size_t start = std::min(line.find_first_not_of(" \t\r"), line.size());
    return line.substr(start, line.find_first_of(" \t\r", start) - start);
  };
  std::string out;
  size_t next = 0;
  for (size_t line = 0; line < lines.size();) {
    while (next < rules.size() && rules[next].where.line <= line + 1) ++next;
    const size_t end = next < rules.size() ? rules[next].where.line - 1 : lines.size();
    // The rule ends at its last line that says something; comments before the next rule belong to that one.
    size_t last = line;
    for (size_t i = line; i < end; ++i)
      if (const auto w = first_word(lines[i]); !w.empty() && w[0] != '#' && w != "proof") last = i;
    for (size_t i = line; i < end; ++i) {
      if (first_word(lines[i]) != "proof") out += std::string(lines[i]) + "\n";
      if (i == last && next > 0)
        for (const Proof& p : rules[next - 1].proofs) out += "  " + to_string(p) + "\n";
    }
    line = std::max(end, line + 1);
  }
  return out;
}

}  // namespace isomer::rewrite
