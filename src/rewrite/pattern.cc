#include "rewrite/pattern.h"

#include <fmt/format.h>

#include <algorithm>

namespace isomer::rewrite {

bool commutative(const ir::OpDef& op) {
  const std::string law = fmt::format("{0}(?a, ?b) == {0}(?b, ?a)", op.name);
  return std::find(op.laws.begin(), op.laws.end(), law) != op.laws.end();
}

namespace {

class Planner {
 public:
  explicit Planner(const Rule& rule)
      : calls_(rule.lhs.calls), assigned_(calls_.size(), false), inputs_(rule.inputs.size(), false) {}

  std::vector<PlanStep> plan(uint32_t root) {
    check(root);
    while (true) {
      const auto next = reachable();
      if (!next) break;
      steps_.push_back(*next);
      check(next->call);
    }
    return std::move(steps_);
  }

 private:
  // The call and, through its operands, everything that feeds it.
  void check(uint32_t call) {
    if (assigned_[call]) return;
    assigned_[call] = true;
    steps_.push_back({PlanStep::Kind::Check, call, {}});
    for (const Operand& o : calls_[call].inputs) {
      if (o.kind == Operand::Kind::Input) inputs_[o.id] = true;
      if (o.kind == Operand::Kind::Result) check(o.id);
    }
  }

  std::optional<PlanStep> reachable() const {
    for (uint32_t c = 0; c < calls_.size(); ++c) {
      if (assigned_[c]) continue;
      for (const Operand& o : calls_[c].inputs)
        if ((o.kind == Operand::Kind::Result && assigned_[o.id]) || (o.kind == Operand::Kind::Input && inputs_[o.id]))
          return PlanStep{PlanStep::Kind::Users, c, o};
    }
    // Nothing is shared: the last open call feeds no other open one, so the rest follows from it.
    for (uint32_t c = static_cast<uint32_t>(calls_.size()); c-- > 0;)
      if (!assigned_[c]) return PlanStep{PlanStep::Kind::Scan, c, {}};
    return std::nullopt;
  }

  const std::vector<Call>& calls_;
  std::vector<bool> assigned_, inputs_;
  std::vector<PlanStep> steps_;
};

// Whether two calls are written alike but for inputs that occur once, so that exchanging them changes nothing.
class Alike {
 public:
  explicit Alike(const Side& side, size_t inputs) : side_(side), uses_(inputs, 0) {
    for (const Call& c : side.calls)
      for (const Operand& o : c.inputs)
        if (o.kind == Operand::Kind::Input) ++uses_[o.id];
  }

  bool calls(const Call& a, const Call& b) const {
    if (a.op != b.op || a.attrs != b.attrs || a.inputs.size() != b.inputs.size()) return false;
    for (size_t i = 0; i < a.inputs.size(); ++i)
      if (!operands(a.inputs[i], b.inputs[i])) return false;
    return true;
  }

 private:
  bool operands(const Operand& a, const Operand& b) const {
    if (a == b) return true;
    if (a.kind != b.kind) return false;
    if (a.kind == Operand::Kind::Input) return uses_[a.id] == 1 && uses_[b.id] == 1;
    return a.kind == Operand::Kind::Result && a.index == b.index && calls(side_.calls[a.id], side_.calls[b.id]);
  }

  const Side& side_;
  std::vector<int> uses_;
};

void mark_needs(Pattern& p, const SizeList& list) {
  for (const SizeItem& item : list) {
    std::vector<uint32_t> symbols;
    item.size.symbols(symbols);
    item.to.symbols(symbols);
    for (const uint32_t s : symbols) p.needs_number[s] = true;
    if (item.kind == SizeItem::Kind::List) p.needs_list[item.list] = true;
  }
}

void find_needs(Pattern& p) {
  p.needs_number.assign(p.rule->symbols.size(), false);
  p.needs_list.assign(p.rule->lists.size(), false);
  for (const Call& c : p.rule->rhs.calls) {
    for (const Operand& o : c.inputs) mark_needs(p, o.sizes);
    for (const auto& [name, term] : c.attrs) {
      if (const auto* list = std::get_if<SizeList>(&term)) mark_needs(p, *list);
      if (const auto* size = std::get_if<Size>(&term)) mark_needs(p, {{SizeItem::Kind::One, *size, {}, 0}});
    }
  }
}

}  // namespace

Pattern compile(const Rule& rule, AttrHabitTable& habits) {
  Pattern p;
  p.rule = &rule;
  const std::vector<Call>& calls = rule.lhs.calls;
  for (const Call& c : calls) {
    CallPattern pattern;
    pattern.call = &c;
    pattern.commutative = c.inputs.size() == 2 && commutative(*c.op);
    const AttrHabits& habit = habits.of(*c.op);
    for (const auto& [name, term] : c.attrs)
      pattern.attrs.push_back({name, &term, c.op->attr(name), habit.find(name), habit.is_axis(name)});
    p.calls.push_back(std::move(pattern));
    p.mapped.emplace_back(c.outputs, false);
  }
  for (const Operand& o : rule.lhs.outputs) p.mapped[o.id][o.index] = true;
  for (uint32_t root = 0; root < calls.size(); ++root) p.plans.push_back(Planner(rule).plan(root));
  find_needs(p);
  const Alike alike(rule.lhs, rule.inputs.size());
  const auto& outputs = rule.lhs.outputs;
  p.symmetric = outputs.size() > 1;
  for (size_t i = 1; i < outputs.size(); ++i)
    p.symmetric &= outputs[i].id != outputs[0].id && alike.calls(calls[outputs[i].id], calls[outputs[0].id]);
  return p;
}

}  // namespace isomer::rewrite
