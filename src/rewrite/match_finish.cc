// The last tests of a match: types, sizes, conditions, contents, uses outside, cycles.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "rewrite/instantiate.h"
#include "rewrite/match_state.h"

namespace isomer::rewrite {
namespace {

const SizeList* list_of(const Pattern& p, const Equation& e) {
  const Rule& rule = *p.rule;
  switch (e.source) {
    case Equation::Source::Shape: return &rule.inputs[e.index].shape;
    case Equation::Source::Attribute: return std::get_if<SizeList>(p.calls[e.index].attrs[e.slot].term);
    case Equation::Source::Sizes: return &p.calls[e.index].call->inputs[e.slot].sizes;
  }
  return nullptr;
}

bool has_spread(const SizeList& list) {
  return std::any_of(list.begin(), list.end(), [](const SizeItem& i) { return i.kind != SizeItem::Kind::One; });
}

// The place in a list of `length` numbers that item `item` of the pattern stands for.
size_t place_of(const SizeList& list, size_t item, size_t length) {
  for (size_t i = 0; i < item; ++i)
    if (list[i].kind == SizeItem::Kind::List) return length - (list.size() - item);
  return item;
}

bool content_holds(Content content, const Tensor& t) {
  for (int64_t i = 0; i < t.size(); ++i) {
    const double v = t.real(i);
    const bool ok = content == Content::Positive ? v > 0 : content == Content::NonNegative ? v >= 0 : v != 0 && v == v;
    if (!ok) return false;
  }
  return true;
}

}  // namespace

bool MatchState::finish() {
  using Test = bool (MatchState::*)();
  constexpr Test kTests[] = {
      &MatchState::bind_types,        &MatchState::bind_lists,       &MatchState::solve_sizes,
      &MatchState::check_whole_lists, &MatchState::check_open_sizes, &MatchState::check_conditions,
      &MatchState::check_contents,    &MatchState::check_uses,       &MatchState::check_cycle};
  stage_ = 0;
  for (const Test test : kTests) {
    if (!(this->*test)()) break;
    ++stage_;
  }
  const bool passed = stage_ == std::size(kTests);
  stage_ = 0;
  return passed;
}

bool MatchState::bind_types() {
  types_.assign(rule_.types.size(), DType::F32);
  type_bound_.assign(rule_.types.size(), false);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Input& input = rule_.inputs[i];
    const Type& found = graph_.type(inputs_[i]);
    const auto wrong = [&] { return decline([&] { return fmt::format("?{} is {}", input.name, found.to_string()); }); };
    if (input.type.fixed) {
      if (found.dtype != *input.type.fixed) return wrong();
    } else if (type_bound_[input.type.variable]) {
      if (types_[input.type.variable] != found.dtype) return wrong();
    } else {
      if (!rule_.types[input.type.variable].types.contains(found.dtype)) return wrong();
      types_[input.type.variable] = found.dtype;
      type_bound_[input.type.variable] = true;
    }
    if (!graph_.dims(inputs_[i])) return wrong();
  }
  for (size_t c = 0; c < nodes_.size(); ++c)
    for (const AttrTest& test : pattern_.calls[c].attrs)
      if (const auto* e = std::get_if<ElementType>(test.term)) {
        const auto* t = graph_.attrs(nodes_[c]).get<DType>(test.name);
        const DType wanted = e->fixed ? *e->fixed : types_[e->variable];
        if (!t || *t != wanted) return decline([&] { return fmt::format("attribute {} is another type", test.name); });
      }
  return true;
}

bool MatchState::bind_list(const SizeList& list, std::span<const int64_t> found, const char* what) {
  const size_t fixed = list.size() - (has_spread(list) ? 1 : 0);
  if (!has_spread(list))
    return found.size() == fixed ||
           decline([&] { return fmt::format("{} has {} axes, the rule wants {}", what, found.size(), fixed); });
  if (found.size() < fixed)
    return decline(
        [&] { return fmt::format("{} has {} axes, the rule wants at least {}", what, found.size(), fixed); });
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].kind != SizeItem::Kind::List) continue;
    const ListSymbol& symbol = rule_.lists[list[i].list];
    std::vector<int64_t> dims(found.begin() + static_cast<ptrdiff_t>(i),
                              found.begin() + static_cast<ptrdiff_t>(i + found.size() - fixed));
    const auto n = static_cast<int64_t>(dims.size());
    if (n < symbol.at_least || n > symbol.at_most)
      return decline([&] {
        return fmt::format("{}... would have {} dims, the rule allows {} to {}", symbol.name, n, symbol.at_least,
                           symbol.at_most);
      });
    if (std::any_of(dims.begin(), dims.end(), [](int64_t d) { return d < 1; }))
      return decline([&] { return fmt::format("{} is empty", what); });
    auto& bound = sizes_.lists[list[i].list];
    if (bound && *bound != dims)
      return decline([&] { return fmt::format("{}... would stand for two shapes", symbol.name); });
    bound = std::move(dims);
  }
  return true;
}

bool MatchState::bind_lists() {
  sizes_.symbols.assign(rule_.symbols.size(), SizeValues::kOpen);
  sizes_.lists.assign(rule_.lists.size(), std::nullopt);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!bind_list(rule_.inputs[i].shape, *graph_.dims(inputs_[i]), ("?" + rule_.inputs[i].name).c_str())) return false;
  }
  return true;
}

bool MatchState::solve_sizes() {
  for (const Equation& e : rule_.binding) {
    const auto found = numbers(e);
    if (!found) return decline([] { return std::string("a size that the rule needs is not known"); });
    const SizeList* list = list_of(pattern_, e);
    const size_t at = list ? place_of(*list, e.element, found->size()) : 0;
    if (at >= found->size()) return decline([] { return std::string("a list is shorter than the rule wants"); });
    int64_t value = (*found)[at];
    if (e.solves) {
      const auto solution = solve(e.expression, *e.solves, value, sizes_);
      if (!solution)
        return decline([&] {
          return fmt::format("no {} makes {} equal to {}", rule_.symbols[*e.solves].name,
                             e.expression.to_string(rule_.names()), value);
        });
      sizes_.symbols[*e.solves] = *solution;
      continue;
    }
    auto wanted = e.expression.evaluate(sizes_);
    if (e.source == Equation::Source::Attribute && wanted)
      wanted = from_front(nodes_[e.index], pattern_.calls[e.index].attrs[e.slot], *wanted);
    if (wanted != value)
      return decline([&] {
        return fmt::format("{} is {}, the rule wants {}", e.expression.to_string(rule_.names()), value,
                           wanted ? fmt::format("{}", *wanted) : "a number");
      });
  }
  return true;
}

// Lists with spreads in attributes and operands, which no equation covers wholly.
bool MatchState::check_whole_lists() {
  const auto same = [&](const SizeList& list, const std::optional<std::vector<int64_t>>& found) {
    const auto wanted = evaluate(list, sizes_);
    return (wanted && found && *wanted == *found) ||
           decline([&] { return fmt::format("a list is not [{}]", to_string(list, rule_.names())); });
  };
  for (uint32_t c = 0; c < nodes_.size(); ++c) {
    for (const AttrTest& test : pattern_.calls[c].attrs)
      if (const auto* list = std::get_if<SizeList>(test.term); list && has_spread(*list)) {
        const auto wanted = evaluate(*list, sizes_);
        if (!same(*list, attr_numbers(c, test, wanted ? wanted->size() : 0))) return false;
      }
    const Call& call = *pattern_.calls[c].call;
    for (uint32_t i = 0; i < call.inputs.size(); ++i)
      if (call.inputs[i].kind == Operand::Kind::Sizes && has_spread(call.inputs[i].sizes) &&
          !same(call.inputs[i].sizes, size_numbers(c, i)))
        return false;
  }
  return true;
}

// An open size counts as at least 1. The replacement may use it only in the shapes that it infers.
bool MatchState::check_open_sizes() {
  const auto open = [&](uint32_t s) { return is_open_size(sizes_.symbols[s]); };
  const auto unknown = [&](const std::string& name) {
    return decline([&] { return fmt::format("{} must be a number here, and this graph leaves it open", name); });
  };
  for (uint32_t s = 0; s < rule_.symbols.size(); ++s)
    if (open(s) && (rule_.symbols[s].at_least > 1 || pattern_.needs_number[s])) return unknown(rule_.symbols[s].name);
  for (uint32_t l = 0; l < rule_.lists.size(); ++l)
    if (pattern_.needs_list[l] && std::any_of(sizes_.lists[l]->begin(), sizes_.lists[l]->end(), is_open_size))
      return unknown(rule_.lists[l].name + "...");
  return true;
}

bool MatchState::check_conditions() {
  for (size_t i = 0; i < rule_.symbols.size(); ++i) {
    const Symbol& s = rule_.symbols[i];
    const int64_t v = sizes_.symbols[i];
    if (v < s.at_least)
      return decline([&] { return fmt::format("{} is {}, the rule wants {} >= {}", s.name, v, s.name, s.at_least); });
    if (!s.domain.empty() && !std::binary_search(s.domain.begin(), s.domain.end(), v))
      return decline([&] { return fmt::format("{} is {}, which the rule does not list", s.name, v); });
  }
  if (admits(rule_, sizes_)) return true;
  return decline([&] {
    for (const Condition& c : rule_.conditions) {
      Rule one;
      one.conditions = {c};
      const SizeValues v = sizes_;
      if (!admits(one, v))
        return fmt::format("the condition {} fails: {} against {}", to_string(c, rule_), c.left.evaluate(v).value_or(0),
                           c.right.evaluate(v).value_or(0));
    }
    return std::string("a condition fails");
  });
}

bool MatchState::check_contents() {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Input& input = rule_.inputs[i];
    if (input.content == Content::Any) continue;
    if (!graph_.constant(inputs_[i])) return decline([&] { return fmt::format("?{} is no constant", input.name); });
    if (input.content == Content::Constant) continue;
    const Tensor* t = graph_.contents(inputs_[i]);
    if (!t) return decline([&] { return fmt::format("the contents of ?{} are not known yet", input.name); });
    if (!content_holds(input.content, *t))
      return decline([&] { return fmt::format("?{} is not {}", input.name, name(input.content)); });
  }
  return true;
}

// A value inside the pattern that something outside needs must be one the rule maps.
bool MatchState::check_uses() {
  for (size_t c = 0; c < nodes_.size(); ++c) {
    const auto kept = [&](uint32_t index) { return index < pattern_.mapped[c].size() && pattern_.mapped[c][index]; };
    for (const Use& u : graph_.uses(nodes_[c]))
      if (!kept(u.index) && std::find(nodes_.begin(), nodes_.end(), u.user) == nodes_.end())
        return decline([&] {
          return fmt::format("{} is also used outside the pattern, by {}",
                             isomer::quoted(graph_.node(nodes_[c]).names[u.index]),
                             isomer::quoted(graph_.node(u.user).names[0]));
        });
    for (const ir::Output& o : graph_.outputs())
      if (o.value.node == nodes_[c] && !kept(o.value.index))
        return decline([&] { return fmt::format("{} is an output of the graph", isomer::quoted(o.name)); });
  }
  for (const ir::Value& v : inputs_)
    if (std::find(nodes_.begin(), nodes_.end(), v.node) != nodes_.end())
      return decline([] { return std::string("an input of the pattern is computed inside it"); });
  return true;
}

// With several outputs, an input may depend on one of them by a path outside; replaced, it would wait for itself.
bool MatchState::check_cycle() {
  if (rule_.lhs.outputs.size() < 2) return true;
  uint32_t deepest = 0;
  for (const ir::Value& v : inputs_) deepest = std::max(deepest, graph_.depth(v.node));
  std::vector<uint32_t> open;
  std::unordered_set<uint32_t> seen;
  for (const uint32_t n : nodes_)
    if (graph_.depth(n) < deepest) open.push_back(n);
  while (!open.empty()) {
    const uint32_t at = open.back();
    open.pop_back();
    for (const Use& u : graph_.uses(at)) {
      if (std::find(nodes_.begin(), nodes_.end(), u.user) != nodes_.end()) continue;
      for (const ir::Value& v : inputs_)
        if (v.node == u.user) return decline([] { return std::string("an input depends on an output: a cycle"); });
      if (graph_.depth(u.user) < deepest && seen.insert(u.user).second) open.push_back(u.user);
    }
  }
  return true;
}

}  // namespace isomer::rewrite
