// What a rule must be beside well-written text: connected, and bound by its pattern.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "rewrite/parser.h"

namespace isomer::rewrite {
namespace {

Diagnostic problem(const char* code, std::string message, const Location& where) {
  Diagnostic d(code, std::move(message));
  d.at(where);
  return d;
}

std::vector<bool> needed_calls(const Side& side) {
  std::vector<bool> needed(side.calls.size(), false);
  for (const Operand& o : side.outputs)
    if (o.kind == Operand::Kind::Result) needed[o.id] = true;
  for (size_t c = side.calls.size(); c-- > 0;)
    if (needed[c])
      for (const Operand& o : side.calls[c].inputs)
        if (o.kind == Operand::Kind::Result) needed[o.id] = true;
  return needed;
}

Expected<void> check_connected(const Rule& rule) {
  for (const Side* side : {&rule.lhs, &rule.rhs}) {
    const std::vector<bool> needed = needed_calls(*side);
    for (size_t c = 0; c < needed.size(); ++c)
      if (!needed[c])
        return problem("E-rule-shape", fmt::format("no output of this side needs the {} here", side->calls[c].op->name),
                       side->calls[c].where);
  }
  for (size_t i = 0; i < rule.lhs.outputs.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (rule.lhs.outputs[i] == rule.lhs.outputs[k])
        return problem("E-rule-shape",
                       fmt::format("rule {} maps one value of its pattern twice", isomer::quoted(rule.name)),
                       rule.where);
  return {};
}

Expected<void> check_used(const Rule& rule) {
  std::vector<bool> used(rule.inputs.size(), false), types(rule.types.size(), false);
  for (const Call& c : rule.lhs.calls)
    for (const Operand& o : c.inputs)
      if (o.kind == Operand::Kind::Input) used[o.id] = true;
  for (size_t i = 0; i < used.size(); ++i) {
    if (!used[i])
      return problem("E-rule-unbound",
                     fmt::format("the pattern does not use ?{}, so no match can give it a value", rule.inputs[i].name),
                     rule.inputs[i].where);
    if (!rule.inputs[i].type.fixed) types[rule.inputs[i].type.variable] = true;
  }
  for (size_t i = 0; i < types.size(); ++i)
    if (!types[i])
      return problem("E-rule-unbound", fmt::format("no input has type variable {}", isomer::quoted(rule.types[i].name)),
                     rule.where);
  std::vector<bool> numbers(rule.attributes.size(), false);
  for (const Call& c : rule.lhs.calls) {
    for (const Operand& o : c.inputs)
      if (o.kind == Operand::Kind::Real) numbers[o.id] = true;
    for (const auto& [name, term] : c.attrs)
      if (const auto* r = std::get_if<AttrRef>(&term)) numbers[r->variable] = true;
  }
  for (size_t i = 0; i < numbers.size(); ++i)
    if (!numbers[i])
      return problem(
          "E-rule-unbound",
          fmt::format("the pattern does not use ?{}, so no match can give it a value", rule.attributes[i].name),
          rule.where);
  for (const AttrVariable& a : rule.attributes)
    if (a.kind != ir::AttrKind::Real && a.domain.empty())
      return problem("E-rule-attribute",
                     fmt::format("?{} stands for an attribute of kind {}, whose values must be listed: ?{} in {{..}}",
                                 a.name, ir::name(a.kind), a.name),
                     rule.where);
  return {};
}

Expected<void> check_lists(const Rule& rule) {
  for (uint32_t l = 0; l < rule.lists.size(); ++l) {
    const ListSymbol& list = rule.lists[l];
    const bool bound = std::any_of(rule.inputs.begin(), rule.inputs.end(), [&](const Input& i) {
      return std::any_of(i.shape.begin(), i.shape.end(),
                         [&](const SizeItem& s) { return s.kind == SizeItem::Kind::List && s.list == l; });
    });
    if (!bound) return problem("E-rule-unbound", fmt::format("no input's shape holds {}...", list.name), list.where);
    if (list.at_least < 0 || list.at_most > kMaxListLength || list.at_least > list.at_most)
      return problem("E-rule-shape",
                     fmt::format("len({}) may be from {} to {}; lists hold 0 to {} dims", list.name, list.at_least,
                                 list.at_most, kMaxListLength),
                     list.where);
    for (const Symbol& s : rule.symbols)
      if (s.name.starts_with(list.name + "_") &&
          s.name.find_first_not_of("0123456789", list.name.size() + 1) == std::string::npos)
        return problem("E-duplicate-name",
                       fmt::format("{} is also the name of a dim of {}...", isomer::quoted(s.name), list.name),
                       s.where);
  }
  return {};
}

void add_equations(std::vector<Equation>& out, const SizeList& list, Equation::Source source, uint32_t index,
                   uint32_t slot) {
  for (uint32_t i = 0; i < list.size(); ++i)
    if (list[i].kind == SizeItem::Kind::One) out.push_back({source, index, slot, i, list[i].size, std::nullopt});
}

bool has_sequence(const SizeList& list) {
  return std::any_of(list.begin(), list.end(), [](const SizeItem& s) { return s.kind == SizeItem::Kind::Sequence; });
}

// Everything in the pattern that has a number in a match. Lists with sequences are compared whole, so they bind nothing.
std::vector<Equation> equations(const Rule& rule) {
  std::vector<Equation> out;
  for (uint32_t i = 0; i < rule.inputs.size(); ++i)
    add_equations(out, rule.inputs[i].shape, Equation::Source::Shape, i, 0);
  for (uint32_t c = 0; c < rule.lhs.calls.size(); ++c) {
    const Call& call = rule.lhs.calls[c];
    for (uint32_t a = 0; a < call.attrs.size(); ++a) {
      if (const auto* size = std::get_if<Size>(&call.attrs[a].second))
        out.push_back({Equation::Source::Attribute, c, a, 0, *size, std::nullopt});
      if (const auto* list = std::get_if<SizeList>(&call.attrs[a].second); list && !has_sequence(*list))
        add_equations(out, *list, Equation::Source::Attribute, c, a);
    }
    for (uint32_t k = 0; k < call.inputs.size(); ++k)
      if (call.inputs[k].kind == Operand::Kind::Sizes && !has_sequence(call.inputs[k].sizes))
        add_equations(out, call.inputs[k].sizes, Equation::Source::Sizes, c, k);
  }
  return out;
}

Expected<void> order_equations(Rule& rule) {
  std::vector<Equation> open = equations(rule);
  std::vector<bool> bound(rule.symbols.size(), false);
  while (!open.empty()) {
    const auto ready = std::find_if(open.begin(), open.end(), [&](Equation& e) {
      std::vector<uint32_t> symbols;
      e.expression.symbols(symbols);
      std::erase_if(symbols, [&](uint32_t s) { return bound[s]; });
      if (symbols.size() == 1 && solvable(e.expression, symbols[0], rule.symbols.size(), rule.lists.size()))
        e.solves = symbols[0];
      return symbols.empty() || e.solves;
    });
    if (ready == open.end()) break;
    if (ready->solves) bound[*ready->solves] = true;
    rule.binding.push_back(*ready);
    open.erase(ready);
  }
  for (size_t s = 0; s < bound.size(); ++s)
    if (!bound[s])
      return problem("E-rule-unbound",
                     fmt::format("no shape or attribute of the pattern gives {} a value by itself; it must stand alone "
                                 "or in a sum or product whose other sizes are known",
                                 isomer::quoted(rule.symbols[s].name)),
                     rule.symbols[s].where);
  return {};
}

// A literal stands for the single float nearest to it. One that is the single float of another literal, or of a plain number,
// would make a rule true at single floats and false at double ones.
Expected<void> check_numbers(const Rule& rule) {
  std::map<float, double> written;
  const auto check = [&](double v, const Location& where) -> Expected<void> {
    const auto single = static_cast<float>(v);
    const double nearest = static_cast<double>(single), scaled = nearest * 4096;
    const bool plain = std::abs(v) < 1e6 && scaled == std::floor(scaled);
    const double other = plain ? nearest : written.try_emplace(single, v).first->second;
    if (other == v || std::isnan(v)) return {};
    return problem("E-rule-type",
                   fmt::format("rule {} cannot tell {} from {}: numbers are single floats; write both as one, or take "
                               "an input",
                               isomer::quoted(rule.name), v, other),
                   where);
  };
  for (const Side* side : {&rule.lhs, &rule.rhs})
    for (const Call& c : side->calls) {
      for (const Operand& o : c.inputs)
        if (o.kind == Operand::Kind::Number) ISOMER_CHECK_OK(check(o.number, c.where));
      for (const auto& [name, term] : c.attrs)
        if (const auto* n = std::get_if<TypedNumber>(&term)) ISOMER_CHECK_OK(check(n->value, c.where));
    }
  return {};
}

Expected<void> check_case_count(const Rule& rule) {
  constexpr size_t kMaxCases = 1024;
  size_t cases = 1;
  const auto times = [&](size_t n) { cases = n > kMaxCases || cases > kMaxCases ? kMaxCases + 1 : cases * n; };
  for (const ListSymbol& l : rule.lists) times(static_cast<size_t>(l.at_most - l.at_least + 1));
  for (const Symbol& s : rule.symbols) times(std::max<size_t>(1, s.domain.size()));
  for (const AttrVariable& a : rule.attributes) times(a.domain.empty() ? 2 : a.domain.size());  // reals: of two signs
  if (cases > kMaxCases)
    return problem("E-rule-shape",
                   fmt::format("rule {} stands for more than {} cases", isomer::quoted(rule.name), kMaxCases),
                   rule.where);
  return {};
}

}  // namespace

Expected<void> check_rule(Rule& rule) {
  constexpr size_t kMost = 128;
  if (std::max({rule.symbols.size(), rule.lists.size(), rule.inputs.size(), rule.attributes.size(),
                rule.conditions.size()}) > kMost)
    return problem(
        "E-rule-shape",
        fmt::format("rule {} has more than {} sizes, inputs or conditions", isomer::quoted(rule.name), kMost),
        rule.where);
  ISOMER_CHECK_OK(check_connected(rule));
  ISOMER_CHECK_OK(check_used(rule));
  ISOMER_CHECK_OK(check_lists(rule));
  ISOMER_CHECK_OK(check_numbers(rule));
  ISOMER_CHECK_OK(check_case_count(rule));
  return order_equations(rule);
}

}  // namespace isomer::rewrite
