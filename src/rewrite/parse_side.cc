// The two sides of a rule: statements, calls, attributes.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "ir/graph.h"
#include "rewrite/parser.h"

namespace isomer::rewrite {
namespace {

size_t required_outputs(const ir::OpDef& op) {
  size_t n = 0;
  for (const ir::OutputDef& o : op.outputs) n += o.arity == ir::Arity::Required;
  return n;
}

}  // namespace

Expected<RuleParser::Outputs> RuleParser::side(Side& side) {
  while (true) {
    const Token t = lex_.peek();
    const Token after = lex_.second();
    const bool names = t.kind == Token::Kind::Value || (t.kind == Token::Kind::Word && t.text == "_");
    if (!names || after.kind != Token::Kind::Sign || (after.text != "=" && after.text != ",")) break;
    ISOMER_CHECK_OK(statement(side));
  }
  Outputs out;
  out.position = lex_.peek().position;
  out.bracketed = lex_.eat("[");
  do {
    const Token t = lex_.peek();
    ISOMER_TRY(Operand o, operand(side));
    if (o.kind != Operand::Kind::Result && (pattern_ || o.kind != Operand::Kind::Input))
      return lex_.error("E-rule-shape",
                        pattern_ ? "what a pattern gives must be the result of an operator"
                                 : "what a replacement gives must be the result of an operator or an input",
                        t.position);
    out.terms.push_back(std::move(o));
  } while (out.bracketed && lex_.eat(","));
  if (out.bracketed) ISOMER_CHECK_OK(lex_.expect("]"));
  return out;
}

Expected<void> RuleParser::statement(Side& side) {
  std::vector<Token> names;
  do {
    const Token t = lex_.next();
    if (t.kind != Token::Kind::Value && !(t.kind == Token::Kind::Word && t.text == "_"))
      return lex_.error("E-text", "expected %name or _ before '='", t.position);
    names.push_back(t);
  } while (lex_.eat(","));
  ISOMER_CHECK_OK(lex_.expect("="));
  if (lex_.peek().kind != Token::Kind::Word) return lex_.expected("an operator");
  ISOMER_TRY(const Operand result, call(side));
  Call& c = side.calls[result.id];
  if (names.size() < required_outputs(*c.op))
    return lex_.error("E-rule-shape",
                      fmt::format("{} gives {} results, found {} names; write _ for one that is not "
                                  "wanted",
                                  c.op->name, required_outputs(*c.op), names.size()),
                      names[0].position);
  c.outputs = static_cast<uint32_t>(names.size());
  for (uint32_t k = 0; k < names.size(); ++k) {
    const bool wanted = names[k].kind == Token::Kind::Value;
    c.names.push_back(wanted ? std::string(names[k].text) : "");
    Operand o = result;
    o.index = k;
    if (wanted && !values_.emplace(names[k].text, o).second)
      return lex_.error("E-duplicate-name", fmt::format("%{} is given two values", names[k].text), names[k].position);
  }
  return {};
}

Expected<double> RuleParser::real() {
  const size_t start = lex_.peek().position;
  const bool negative = lex_.eat("-");
  const Token t = lex_.peek();
  double v = 0;
  const auto r = std::from_chars(t.text.data(), t.text.data() + t.text.size(), v);
  if (t.kind != Token::Kind::Number || r.ec != std::errc() || r.ptr != t.text.data() + t.text.size())
    return lex_.error("E-text", fmt::format("expected a number, found {}", isomer::quoted(t.text)), start);
  lex_.next();
  return negative ? -v : v;
}

Expected<Operand> RuleParser::named_operand(Side&) {
  const Token t = lex_.next();
  Operand o;
  if (t.kind == Token::Kind::Value) {
    const auto it = values_.find(t.text);
    if (it == values_.end())
      return lex_.error("E-rule-unbound", fmt::format("%{} has no value on this side of the rule", t.text), t.position);
    return it->second;
  }
  for (o.id = 0; o.id < rule_.inputs.size(); ++o.id)
    if (rule_.inputs[o.id].name == t.text) {
      o.kind = Operand::Kind::Input;
      return o;
    }
  for (o.id = 0; o.id < rule_.attributes.size(); ++o.id)
    if (rule_.attributes[o.id].name == t.text && rule_.attributes[o.id].kind == ir::AttrKind::Real) {
      o.kind = Operand::Kind::Real;
      return o;
    }
  return lex_.error("E-rule-unbound",
                    fmt::format("?{} is no input of rule {}; declare it before the pattern, as in \"?{} : T[N, C]\"",
                                t.text, isomer::quoted(rule_.name), t.text),
                    t.position);
}

Expected<Operand> RuleParser::operand(Side& side) {
  const Token t = lex_.peek();
  Operand o;
  if (t.kind == Token::Kind::Input || t.kind == Token::Kind::Value) return named_operand(side);
  if (t.kind == Token::Kind::Number || lex_.at("-")) {
    ISOMER_TRY(o.number, real());
    o.kind = Operand::Kind::Number;
    return o;
  }
  if (lex_.at("[")) {
    ISOMER_TRY(o.sizes, size_list());
    o.kind = Operand::Kind::Sizes;
    return o;
  }
  if (lex_.eat_word("_")) return o;
  if (t.kind == Token::Kind::Word) return call(side);
  return lex_.expected("an operator, an input ?x, a value %v, a number, a list of sizes or _");
}

Expected<void> RuleParser::call_operands(Side& side, Call& c) {
  const ir::OpDef& op = *c.op;
  const size_t start = lex_.peek().position;
  ISOMER_CHECK_OK(lex_.expect("("));
  if (!lex_.eat(")")) {
    do {
      ISOMER_TRY(Operand o, operand(side));
      c.inputs.push_back(std::move(o));
    } while (lex_.eat(","));
    ISOMER_CHECK_OK(lex_.expect(")"));
  }
  while (!c.inputs.empty() && c.inputs.back().kind == Operand::Kind::Absent) c.inputs.pop_back();
  size_t least = 0;
  for (const ir::InputDef& i : op.inputs) least += i.arity == ir::Arity::Required;
  const bool variadic = !op.inputs.empty() && op.inputs.back().arity == ir::Arity::Variadic;
  if (variadic) least = op.inputs.size() - 1 + static_cast<size_t>(op.inputs.back().at_least);
  if (c.inputs.size() < least || (!variadic && c.inputs.size() > op.inputs.size()))
    return lex_.error("E-op",
                      fmt::format("{} takes {}{} operands, found {}", op.name, variadic ? "at least " : "",
                                  variadic ? least : op.inputs.size(), c.inputs.size()),
                      start);
  return {};
}

Expected<Operand> RuleParser::call(Side& side) {
  const Token word = lex_.next();
  if (++depth_ > kMaxDepth) return lex_.error("E-nesting", "calls are nested too deeply", word.position);
  Call c;
  c.op = table_.find(word.text);
  if (!c.op || c.op == &ir::input_op() || c.op == &ir::const_op())
    return lex_.error("E-unknown-operator",
                      fmt::format("there is no operator {}; `isomer ops` lists them", isomer::quoted(word.text)),
                      word.position);
  c.where = lex_.place(word.position);
  ISOMER_CHECK_OK(call_operands(side, c));
  ISOMER_CHECK_OK(call_attributes(c));
  if (!c.op->pure)
    return lex_.error("E-rule-shape", fmt::format("{} draws anew each time, so no rule can hold for it", c.op->name),
                      word.position);
  --depth_;
  if (side.calls.size() >= kMaxCalls)
    return lex_.error("E-rule-shape", fmt::format("a side has more than {} calls", kMaxCalls), word.position);
  c.outputs = static_cast<uint32_t>(std::max<size_t>(1, required_outputs(*c.op)));
  Operand o;
  o.kind = Operand::Kind::Result;
  o.id = static_cast<uint32_t>(side.calls.size());
  side.calls.push_back(std::move(c));
  return o;
}

// window...: the attributes of a set, read in place.
Expected<void> RuleParser::spread_set(Call& c) {
  const Token name = lex_.next();
  const auto it = sets_.find(name.text);
  if (it == sets_.end())
    return lex_.error("E-rule-unbound", fmt::format("there is no 'let {} = {{..}}' in this rule", name.text),
                      name.position);
  ISOMER_CHECK_OK(lex_.expect("..."));
  if (++depth_ > kMaxDepth) return lex_.error("E-nesting", "sets of attributes are nested too deeply", name.position);
  Lexer outer = std::exchange(lex_, it->second);
  const auto done = call_attributes(c);
  lex_ = std::move(outer);
  --depth_;
  return done;
}

Expected<void> RuleParser::call_attributes(Call& c) {
  if (!lex_.eat("{")) return {};
  if (lex_.eat("}")) return {};
  do {
    if (lex_.second().text == "..." && lex_.peek().kind == Token::Kind::Word) {
      ISOMER_CHECK_OK(spread_set(c));
      continue;
    }
    const Token key = lex_.next();
    const ir::AttrDef* def = key.kind == Token::Kind::Word ? c.op->attr(key.text) : nullptr;
    if (!def) {
      std::string known;
      for (const ir::AttrDef& a : c.op->attrs) known += (known.empty() ? "" : ", ") + a.name;
      return lex_.error("E-rule-attribute",
                        fmt::format("{} has no attribute {}; it has: {}", c.op->name, isomer::quoted(key.text),
                                    known.empty() ? "none" : known),
                        key.position);
    }
    for (const auto& [name, value] : c.attrs)
      if (name == key.text)
        return lex_.error("E-duplicate-name", fmt::format("attribute {} is given twice", name), key.position);
    ISOMER_CHECK_OK(lex_.expect("="));
    ISOMER_TRY(AttrTerm term, attribute(*def));
    c.attrs.emplace_back(def->name, std::move(term));
  } while (lex_.eat(","));
  std::sort(c.attrs.begin(), c.attrs.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return lex_.expect("}");
}

Expected<AttrTerm> RuleParser::attribute_variable(const ir::AttrDef& def) {
  const Token t = lex_.next();
  for (uint32_t i = 0; i < rule_.attributes.size(); ++i) {
    if (rule_.attributes[i].name != t.text) continue;
    if (rule_.attributes[i].kind != def.kind)
      return lex_.error("E-rule-attribute",
                        fmt::format("?{} stands for attributes of kind {} and of kind {}", t.text,
                                    ir::name(rule_.attributes[i].kind), ir::name(def.kind)),
                        t.position);
    return AttrTerm(AttrRef{i});
  }
  for (const Input& i : rule_.inputs)
    if (i.name == t.text)
      return lex_.error("E-duplicate-name", fmt::format("?{} is an input and an attribute", t.text), t.position);
  if (!pattern_) return unbound("attribute", t);
  rule_.attributes.push_back({std::string(t.text), def.kind, {}});
  return AttrTerm(AttrRef{static_cast<uint32_t>(rule_.attributes.size() - 1)});
}

Expected<AttrTerm> RuleParser::composed(const ir::AttrDef& def) {
  const Token word = lex_.next();
  if (pattern_ || def.kind != ir::AttrKind::Ints)
    return lex_.error("E-rule-attribute", "compose(?p, ?q) stands for a permutation in a replacement", word.position);
  Composed c{};
  ISOMER_CHECK_OK(lex_.expect("("));
  for (uint32_t* into : {&c.first, &c.second}) {
    if (lex_.peek().kind != Token::Kind::Input) return lex_.expected("an attribute ?p");
    ISOMER_TRY(const AttrTerm t, attribute_variable(def));
    *into = std::get<AttrRef>(t).variable;
    ISOMER_CHECK_OK(lex_.expect(into == &c.first ? "," : ")"));
  }
  return AttrTerm(c);
}

Expected<AttrTerm> RuleParser::attribute(const ir::AttrDef& def) {
  if (lex_.at_word("compose")) return composed(def);
  if (lex_.peek().kind == Token::Kind::Input) return attribute_variable(def);
  switch (def.kind) {
    case ir::AttrKind::Int: {
      ISOMER_TRY(Size s, size());
      return AttrTerm(std::move(s));
    }
    case ir::AttrKind::Ints: {
      ISOMER_TRY(SizeList l, size_list());
      return AttrTerm(std::move(l));
    }
    case ir::AttrKind::Real: {
      ISOMER_TRY(const double v, real());
      return AttrTerm(ir::AttrValue(v));
    }
    case ir::AttrKind::String: {
      ISOMER_TRY(std::string s, lex_.string());
      return AttrTerm(ir::AttrValue(std::move(s)));
    }
    case ir::AttrKind::DType: {
      ISOMER_TRY(const ElementType e, element_type());
      return e.fixed ? AttrTerm(ir::AttrValue(*e.fixed)) : AttrTerm(e);
    }
    case ir::AttrKind::Tensor: {
      TypedNumber n;
      ISOMER_TRY(n.type, element_type());
      ISOMER_TRY(n.value, real());
      return AttrTerm(n);
    }
    default:
      return lex_.error("E-rule-attribute",
                        fmt::format("a rule cannot state attribute {} of kind {}", def.name, ir::name(def.kind)),
                        lex_.peek().position);
  }
}

Expected<void> RuleParser::resolve(Side& side, const Outputs& outputs, size_t count) {
  side.outputs = outputs.terms;
  if (outputs.terms.size() == count) return {};
  const Operand& lone = outputs.terms[0];
  if (outputs.bracketed || lone.kind != Operand::Kind::Result || !side.calls[lone.id].names.empty())
    return lex_.error("E-rule-shape",
                      fmt::format("this side gives {} values, the other one {}", outputs.terms.size(), count),
                      outputs.position);
  side.calls[lone.id].outputs = static_cast<uint32_t>(count);
  side.outputs.assign(count, lone);
  for (uint32_t k = 0; k < count; ++k) side.outputs[k].index = k;
  return {};
}

Expected<void> RuleParser::match_outputs(Outputs left, Outputs right) {
  const size_t count = std::max(left.terms.size(), right.terms.size());
  ISOMER_CHECK_OK(resolve(rule_.lhs, left, count));
  return resolve(rule_.rhs, right, count);
}

}  // namespace isomer::rewrite
