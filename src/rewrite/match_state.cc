#include "rewrite/match_state.h"

#include <fmt/format.h>

#include <algorithm>

namespace isomer::rewrite {
namespace {

std::string list_text(std::span<const int64_t> values) {
  std::string out = "[";
  for (const int64_t v : values) out += fmt::format("{}{}", out.size() > 1 ? "," : "", v);
  return out + "]";
}

// The standard value of an attribute that the node leaves out.
const ir::AttrValue* value_of(const ir::Attrs& attrs, const AttrTest& test) {
  if (const ir::AttrValue* v = attrs.find(test.name)) return v;
  return test.def->standard ? &*test.def->standard : nullptr;
}

size_t one_items(const SizeList& list) {
  return static_cast<size_t>(
      std::count_if(list.begin(), list.end(), [](const SizeItem& i) { return i.kind == SizeItem::Kind::One; }));
}

bool plain(const SizeList& list) { return one_items(list) == list.size(); }

}  // namespace

MatchState::MatchState(const EditGraph& graph, const Pattern& pattern, uint32_t rule, const Emit& emit,
                       Decline* decline)
    : graph_(graph),
      pattern_(pattern),
      rule_(*pattern.rule),
      index_(rule),
      emit_(emit),
      decline_(decline),
      nodes_(pattern.calls.size(), kNone),
      inputs_(rule_.inputs.size()),
      attributes_(rule_.attributes.size()),
      attribute_bound_(rule_.attributes.size(), false) {}

void MatchState::from(uint32_t call, uint32_t node) {
  matched_ = 0;
  if (assign(call, node)) step(pattern_.plans[call], 0);
  undo(0);
}

void MatchState::undo(size_t mark) {
  for (; trail_.size() > mark; trail_.pop_back()) {
    const auto [kind, id] = trail_.back();
    if (kind == Kind::Call) nodes_[id] = kNone;
    if (kind == Kind::Input) inputs_[id] = ir::Value::none();
    if (kind == Kind::Attribute) attribute_bound_[id] = false;
  }
}

bool MatchState::assign(uint32_t call, uint32_t node) {
  if (nodes_[call] != kNone) return nodes_[call] == node;
  if (graph_.node(node).op != pattern_.calls[call].call->op)
    return decline([&] {
      return fmt::format("expected {}, found {} at {}", pattern_.calls[call].call->op->name, graph_.node(node).op->name,
                         isomer::quoted(graph_.node(node).names[0]));
    });
  if (std::find(nodes_.begin(), nodes_.end(), node) != nodes_.end())
    return decline([] { return std::string("two parts of the pattern would be one node"); });
  nodes_[call] = node;
  trail_.emplace_back(Kind::Call, call);
  return true;
}

void MatchState::step(const std::vector<PlanStep>& plan, size_t at) {
  if (at == plan.size()) {
    if (!finish()) return;
    Match m;
    m.rule = index_;
    m.nodes = nodes_;
    m.inputs = inputs_;
    m.sizes = sizes_;
    m.types = types_;
    m.attributes = attributes_;
    emit_(std::move(m));
    return;
  }
  const PlanStep& s = plan[at];
  const size_t mark = trail_.size();
  if (s.kind == PlanStep::Kind::Users) return try_users(plan, at);
  if (s.kind == PlanStep::Kind::Scan) {
    for (const uint32_t node : graph_.nodes_of(pattern_.calls[s.call].call->op)) {
      if (assign(s.call, node)) step(plan, at + 1);
      undo(mark);
    }
    return;
  }
  if (!check_call(s.call)) return undo(mark);
  ++matched_;
  const size_t checked = trail_.size();
  const int orders = pattern_.calls[s.call].commutative ? 2 : 1;
  for (int order = 0; order < orders; ++order) {
    if (bind_operands(s.call, order == 1)) step(plan, at + 1);
    undo(checked);
  }
  --matched_;
  undo(mark);
}

void MatchState::try_users(const std::vector<PlanStep>& plan, size_t at) {
  const PlanStep& s = plan[at];
  const ir::Value through =
      s.through.kind == Operand::Kind::Input ? inputs_[s.through.id] : ir::Value{nodes_[s.through.id], s.through.index};
  const size_t mark = trail_.size();
  uint32_t last = kNone;
  for (const Use& u : graph_.uses(through.node)) {
    if (u.index != through.index || u.user == last) continue;
    last = u.user;
    if (graph_.node(u.user).op == pattern_.calls[s.call].call->op && assign(s.call, u.user)) step(plan, at + 1);
    undo(mark);
  }
}

bool MatchState::check_call(uint32_t call) {
  const CallPattern& p = pattern_.calls[call];
  const uint32_t id = nodes_[call];
  const ir::Node& n = graph_.node(id);
  if (n.types.size() != p.call->outputs)
    return decline([&] {
      return fmt::format("{} has {} results, the rule wants {}", n.op->name, n.types.size(), p.call->outputs);
    });
  if (n.inputs.size() != p.call->inputs.size())
    return decline([&] {
      return fmt::format("{} has {} operands, the rule wants {}", n.op->name, n.inputs.size(), p.call->inputs.size());
    });
  for (const auto& [name, value] : graph_.attrs(id)) {
    const bool stated = std::any_of(p.attrs.begin(), p.attrs.end(), [&](const AttrTest& t) { return t.name == name; });
    if (!stated)
      return decline(
          [&] { return fmt::format("{} has attribute {}, which the rule does not state", n.op->name, name); });
  }
  return std::all_of(p.attrs.begin(), p.attrs.end(), [&](const AttrTest& t) { return check_attr(id, t); });
}

bool MatchState::check_numbers(const AttrTest& test, const SizeList& wanted, std::span<const int64_t> found) {
  bool fits = !plain(wanted) || wanted.size() == found.size();
  for (size_t i = 0; fits && plain(wanted) && i < wanted.size(); ++i)
    fits = wanted[i].size.kind() != Size::Kind::Number || wanted[i].size.number() == found[i];
  if (fits) return true;
  return decline([&] {
    return fmt::format("attribute {} is {}, the rule wants [{}]", test.name, list_text(found),
                       to_string(wanted, rule_.names()));
  });
}

bool MatchState::bind_attribute(uint32_t variable, ir::AttrValue value, const std::string& what) {
  if (attribute_bound_[variable])
    return ir::equal(*attributes_[variable], value) || decline([&] {
             return fmt::format("?{} would be two values, one of them {}", rule_.attributes[variable].name, what);
           });
  const auto& domain = rule_.attributes[variable].domain;
  const bool allowed = domain.empty() || std::any_of(domain.begin(), domain.end(),
                                                     [&](const ir::AttrValue& d) { return ir::equal(d, value); });
  if (!allowed) return decline([&] { return fmt::format("{} has a value that the rule does not list", what); });
  attributes_[variable] = std::move(value);
  attribute_bound_[variable] = true;
  trail_.emplace_back(Kind::Attribute, variable);
  return true;
}

int64_t MatchState::from_front(uint32_t node, const AttrTest& test, int64_t axis) const {
  const ir::Node& n = graph_.node(node);
  if (!test.axis || axis >= 0 || n.inputs.empty() || n.inputs[0].is_none()) return axis;
  const Shape& s = graph_.type(n.inputs[0]).shape;
  return s.has_rank() ? axis + static_cast<int64_t>(s.rank()) : axis;
}

bool MatchState::check_attr(uint32_t id, const AttrTest& test) {
  const ir::Attrs& attrs = graph_.attrs(id);
  const ir::AttrValue* found = value_of(attrs, test);
  if (const auto* list = std::get_if<SizeList>(test.term)) {
    const auto* ints = found ? std::get_if<std::vector<int64_t>>(found) : nullptr;
    if (ints) return check_numbers(test, *list, *ints);
    if (found || !test.absent) return decline([&] { return fmt::format("attribute {} is not given", test.name); });
    if (!plain(*list)) return true;
    std::vector<Shape> shapes;
    for (const ir::Value& v : graph_.node(id).inputs)
      shapes.push_back(v.is_none() ? Shape::unknown() : graph_.type(v).shape);
    const std::vector<int64_t> meant = AttrHabits::meaning(*test.absent, list->size(), shapes);
    return meant.size() == list->size() ? check_numbers(test, *list, meant)
                                        : decline([&] { return fmt::format("attribute {} is not given", test.name); });
  }
  if (const auto* r = std::get_if<AttrRef>(test.term)) {
    if (!found) return decline([&] { return fmt::format("attribute {} is not given", test.name); });
    return bind_attribute(r->variable, *found, test.name);
  }
  if (!found) return decline([&] { return fmt::format("attribute {} is not given", test.name); });
  if (const auto* size = std::get_if<Size>(test.term)) {
    const auto* number = std::get_if<int64_t>(found);
    if (!number) return decline([&] { return fmt::format("attribute {} is no number", test.name); });
    if (size->kind() != Size::Kind::Number) return true;
    const int64_t wanted = from_front(id, test, size->number()), given = from_front(id, test, *number);
    return wanted == given ||
           decline([&] { return fmt::format("attribute {} is {}, the rule wants {}", test.name, given, wanted); });
  }
  if (const auto* literal = std::get_if<ir::AttrValue>(test.term))
    return ir::equal(*literal, *found) ||
           decline([&] { return fmt::format("attribute {} has another value than the rule states", test.name); });
  if (const auto* number = std::get_if<TypedNumber>(test.term)) {
    const auto* t = std::get_if<Tensor>(found);
    return (t && t->size() == 1 && t->real(0) == number->value) ||
           decline([&] { return fmt::format("attribute {} has another value than the rule states", test.name); });
  }
  return true;  // an element type: compared when types are bound
}

bool MatchState::bind_operands(uint32_t call, bool swapped) {
  const Call& c = *pattern_.calls[call].call;
  const ir::Node& n = graph_.node(nodes_[call]);
  for (size_t i = 0; i < c.inputs.size(); ++i)
    if (!bind_operand(c, c.inputs[i], n.inputs[swapped ? c.inputs.size() - 1 - i : i])) return false;
  return true;
}

bool MatchState::bind_number(const Operand& pattern, ir::Value value) {
  const Tensor* t = graph_.contents(value);
  if (!t || t->rank() != 0)
    return decline([&] {
      const std::string wanted = pattern.kind == Operand::Kind::Number ? fmt::format("{}", pattern.number)
                                                                       : "?" + rule_.attributes[pattern.id].name;
      return fmt::format("an operand is no scalar constant, the rule wants {}", wanted);
    });
  if (pattern.kind == Operand::Kind::Real) return bind_attribute(pattern.id, t->real(0), "an operand");
  if (Tensor::scalar(t->dtype(), pattern.number).real(0) != t->real(0))
    return decline([&] { return fmt::format("an operand is {}, the rule wants {}", t->real(0), pattern.number); });
  return true;
}

bool MatchState::bind_operand(const Call& call, const Operand& pattern, ir::Value value) {
  if (pattern.kind == Operand::Kind::Absent)
    return value.is_none() ||
           decline([&] { return fmt::format("{} has an operand that the rule leaves out", call.op->name); });
  if (value.is_none()) return decline([&] { return fmt::format("{} lacks an operand", call.op->name); });
  switch (pattern.kind) {
    case Operand::Kind::Absent: return false;
    case Operand::Kind::Real:
    case Operand::Kind::Number: return bind_number(pattern, value);
    case Operand::Kind::Sizes: {
      const Tensor* t = graph_.contents(value);
      if (!t || t->rank() != 1 || !is_int(t->dtype()))
        return decline([&] { return fmt::format("the sizes given to {} are no constant", call.op->name); });
      return !plain(pattern.sizes) || static_cast<size_t>(t->size()) == pattern.sizes.size() || decline([&] {
        return fmt::format("{} is given {} sizes, the rule wants {}", call.op->name, t->size(), pattern.sizes.size());
      });
    }
    case Operand::Kind::Input:
      if (inputs_[pattern.id].is_none()) {
        inputs_[pattern.id] = value;
        trail_.emplace_back(Kind::Input, pattern.id);
        return true;
      }
      return inputs_[pattern.id] == value ||
             decline([&] { return fmt::format("?{} would be two values", rule_.inputs[pattern.id].name); });
    case Operand::Kind::Result:
      if (value.index != pattern.index)
        return decline([&] { return fmt::format("another result of {} is used", call.op->name); });
      return assign(pattern.id, value.node);
  }
  return false;
}

std::optional<std::vector<int64_t>> MatchState::attr_numbers(uint32_t call, const AttrTest& test, size_t length) const {
  const ir::AttrValue* found = value_of(graph_.attrs(nodes_[call]), test);
  if (const auto* i = found ? std::get_if<int64_t>(found) : nullptr)
    return std::vector{from_front(nodes_[call], test, *i)};
  if (const auto* l = found ? std::get_if<std::vector<int64_t>>(found) : nullptr) return *l;
  if (found || !test.absent) return std::nullopt;
  std::vector<Shape> shapes;
  for (const ir::Value& v : graph_.node(nodes_[call]).inputs)
    shapes.push_back(v.is_none() ? Shape::unknown() : graph_.type(v).shape);
  return AttrHabits::meaning(*test.absent, length, shapes);
}

std::optional<std::vector<int64_t>> MatchState::size_numbers(uint32_t call, uint32_t operand) const {
  const ir::Node& n = graph_.node(nodes_[call]);
  // A commutative call may have its operands the other way round; of the two the constant one holds the sizes.
  for (const size_t at : {size_t{operand}, n.inputs.size() - 1 - operand}) {
    const Tensor* t = at < n.inputs.size() ? graph_.contents(n.inputs[at]) : nullptr;
    if (t && t->rank() == 1) return t->to_ints();
    if (!pattern_.calls[call].commutative) break;
  }
  return std::nullopt;
}

std::optional<std::vector<int64_t>> MatchState::numbers(const Equation& e) const {
  switch (e.source) {
    case Equation::Source::Shape: {
      const std::vector<int64_t>* dims = graph_.dims(inputs_[e.index]);
      return dims ? std::optional(*dims) : std::nullopt;
    }
    case Equation::Source::Attribute: {
      const AttrTest& test = pattern_.calls[e.index].attrs[e.slot];
      const auto* list = std::get_if<SizeList>(test.term);
      return attr_numbers(e.index, test, list ? list->size() : 1);
    }
    case Equation::Source::Sizes: return size_numbers(e.index, e.slot);
  }
  return std::nullopt;
}

}  // namespace isomer::rewrite
