#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "rewrite/instantiate.h"
#include "rewrite/parser.h"

namespace isomer::rewrite {

Diagnostic RuleParser::unbound(std::string_view what, const Token& at) const {
  return lex_.error("E-rule-unbound",
                    fmt::format("{} {} is not bound by the pattern of rule {}", what, isomer::quoted(at.text),
                                isomer::quoted(rule_.name)),
                    at.position);
}

Diagnostic RuleParser::too_many(const Token& at) const {
  return lex_.error("E-rule-shape",
                    fmt::format("rule {} has more than {} sizes or inputs", isomer::quoted(rule_.name), kMaxNames),
                    at.position);
}

Expected<DTypeSet> RuleParser::type_set() {
  if (lex_.eat_word("float")) return kFloats;
  if (lex_.eat_word("int")) return kInts;
  if (lex_.eat_word("number")) return kNumbers;
  if (lex_.eat_word("any")) return kAllTypes;
  DTypeSet set;
  ISOMER_CHECK_OK(lex_.expect("{"));
  do {
    const auto t = lex_.peek().kind == Token::Kind::Word ? dtype_from_name(lex_.peek().text) : std::nullopt;
    if (!t || *t == DType::Opaque) return lex_.expected("an element type (f32, i64, bool, ...)");
    lex_.next();
    set = set | *t;
  } while (lex_.eat(","));
  ISOMER_CHECK_OK(lex_.expect("}"));
  return set;
}

Expected<void> RuleParser::type_declaration() {
  const Token word = lex_.next();
  if (word.kind != Token::Kind::Word || dtype_from_name(word.text))
    return lex_.error("E-text", "expected the name of a type variable after 'type'", word.position);
  if (!lex_.eat_word("in")) return lex_.expected("'in'");
  for (const TypeVariable& t : rule_.types)
    if (t.name == word.text)
      return lex_.error("E-duplicate-name",
                        fmt::format("type variable {} is declared twice", isomer::quoted(word.text)), word.position);
  ISOMER_TRY(const DTypeSet set, type_set());
  rule_.types.push_back({std::string(word.text), set});
  return {};
}

Expected<ElementType> RuleParser::element_type() {
  const Token word = lex_.peek();
  if (word.kind != Token::Kind::Word) return lex_.expected("an element type");
  lex_.next();
  ElementType e;
  if (const auto t = dtype_from_name(word.text)) {
    if (*t == DType::Opaque) return lex_.error("E-text", "a rule takes no opaque values", word.position);
    e.fixed = *t;
    return e;
  }
  for (; e.variable < rule_.types.size(); ++e.variable)
    if (rule_.types[e.variable].name == word.text) return e;
  if (!pattern_) return unbound("type variable", word);
  rule_.types.push_back({std::string(word.text), kFloats});
  return e;
}

Expected<void> RuleParser::input_declaration() {
  std::vector<Token> names;
  do {
    const Token t = lex_.peek();
    if (t.kind != Token::Kind::Input) return lex_.expected("an input ?name");
    lex_.next();
    names.push_back(t);
  } while (lex_.eat(","));
  if (!lex_.at(":")) return lex_.expected("':' and the input's type; the pattern begins with an operator");
  lex_.next();
  Input declared;
  ISOMER_TRY(declared.type, element_type());
  ISOMER_TRY(declared.shape, size_list());
  const auto spreads = std::count_if(declared.shape.begin(), declared.shape.end(),
                                     [](const SizeItem& i) { return i.kind != SizeItem::Kind::One; });
  const bool sequence = std::any_of(declared.shape.begin(), declared.shape.end(),
                                    [](const SizeItem& i) { return i.kind == SizeItem::Kind::Sequence; });
  if (spreads > 1 || sequence)
    return lex_.error("E-rule-shape", "the shape of an input may hold one list symbol and no sequence",
                      names[0].position);
  for (const Token& t : names) {
    for (const Input& i : rule_.inputs)
      if (i.name == t.text)
        return lex_.error("E-duplicate-name", fmt::format("input ?{} is declared twice", i.name), t.position);
    for (const AttrVariable& a : rule_.attributes)
      if (a.name == t.text)
        return lex_.error("E-duplicate-name", fmt::format("?{} is a number and an input", a.name), t.position);
    if (rule_.inputs.size() >= kMaxNames) return too_many(t);
    declared.name = std::string(t.text);
    declared.where = lex_.place(t.position);
    rule_.inputs.push_back(declared);
  }
  return {};
}

// real ?e: a number that the pattern finds as a scalar constant or a real attribute.
Expected<void> RuleParser::real_declaration() {
  do {
    const Token t = lex_.peek();
    if (t.kind != Token::Kind::Input) return lex_.expected("?name after 'real'");
    lex_.next();
    for (const AttrVariable& a : rule_.attributes)
      if (a.name == t.text)
        return lex_.error("E-duplicate-name", fmt::format("?{} is declared twice", t.text), t.position);
    rule_.attributes.push_back({std::string(t.text), ir::AttrKind::Real, {}});
  } while (lex_.eat(","));
  return {};
}

// let window = {strides=[a, b], pads=[c, d, e, f]}: read where it is used, since its meaning is the operator's.
Expected<void> RuleParser::attribute_set() {
  const Token word = lex_.next();
  if (word.kind != Token::Kind::Word) return lex_.error("E-text", "expected a name after 'let'", word.position);
  ISOMER_CHECK_OK(lex_.expect("="));
  if (!lex_.at("{")) return lex_.expected("'{' and attributes");
  if (!sets_.emplace(word.text, lex_).second)
    return lex_.error("E-duplicate-name", fmt::format("{} is defined twice", isomer::quoted(word.text)), word.position);
  while (!lex_.at("}")) {
    if (at_end()) return lex_.expected("'}'");
    lex_.next();
  }
  lex_.next();
  return {};
}

Expected<void> RuleParser::declarations() {
  while (true) {
    if (lex_.eat_word("type")) {
      ISOMER_CHECK_OK(type_declaration());
    } else if (lex_.eat_word("real")) {
      ISOMER_CHECK_OK(real_declaration());
    } else if (lex_.eat_word("let")) {
      ISOMER_CHECK_OK(attribute_set());
    } else if (lex_.peek().kind == Token::Kind::Input) {
      ISOMER_CHECK_OK(input_declaration());
    } else {
      return {};
    }
  }
}

Expected<Rule> RuleParser::rule() {
  rule_ = {};
  pattern_ = true;
  values_.clear();
  sets_.clear();
  symbol_bounded_.clear();
  list_low_.clear();
  list_high_.clear();
  rule_.where = lex_.here();
  if (!lex_.eat_word("rule")) return lex_.expected("'rule'");
  ISOMER_TRY(rule_.name, lex_.dashed("the rule's name"));
  ISOMER_CHECK_OK(lex_.expect(":"));
  if (lex_.eat_word("reassociating"))
    rule_.numeric = NumericClass::Reassociating;
  else if (!lex_.eat_word("exact"))
    return lex_.expected("'exact' or 'reassociating'");
  ISOMER_CHECK_OK(declarations());
  ISOMER_TRY(Outputs left, side(rule_.lhs));
  ISOMER_CHECK_OK(lex_.expect("=>"));
  pattern_ = false;
  values_.clear();
  ISOMER_TRY(Outputs right, side(rule_.rhs));
  ISOMER_CHECK_OK(match_outputs(std::move(left), std::move(right)));
  if (lex_.eat_word("where")) {
    do ISOMER_CHECK_OK(condition());
    while (lex_.eat(","));
  }
  while (lex_.at_word("proof")) ISOMER_CHECK_OK(proof());
  if (!at_end() && !lex_.at_word("rule")) return lex_.expected("'where', 'proof', the next 'rule' or the end");
  ISOMER_CHECK_OK(check_rule(rule_));
  return std::move(rule_);
}

void RuleParser::skip_to_next() {
  while (!at_end() && !lex_.at_word("rule")) lex_.next();
}

Expected<std::vector<Rule>> parse_rules(std::string_view text, const ir::OpTable& table, const std::string& file,
                                        const std::string& family, std::vector<Diagnostic>* refused) {
  RuleParser parser(text, table, file);
  std::vector<Rule> rules;
  std::map<std::string, Location> seen;
  const auto read = [&]() -> Expected<Rule> {
    ISOMER_TRY(Rule r, parser.rule());
    if (const auto [it, fresh] = seen.emplace(r.name, r.where); !fresh) {
      Diagnostic d("E-duplicate-name", fmt::format("two rules are named {}, the other one at line {}",
                                                   isomer::quoted(r.name), it->second.line));
      d.at(r.where);
      return d;
    }
    r.family = family;
    ISOMER_CHECK_OK(check_types(r, table));
    return r;
  };
  while (!parser.at_end()) {
    Expected<Rule> r = read();
    if (r.ok()) {
      rules.push_back(std::move(*r));
      continue;
    }
    if (!refused) return r.error();
    refused->push_back(r.error());
    parser.skip_to_next();
  }
  return rules;
}

}  // namespace isomer::rewrite
