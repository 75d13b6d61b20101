// Sizes, conditions and proof lines of a rule.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>

#include "rewrite/parser.h"

namespace isomer::rewrite {

Expected<uint32_t> RuleParser::symbol(const Token& word) {
  for (uint32_t i = 0; i < rule_.symbols.size(); ++i)
    if (rule_.symbols[i].name == word.text) return i;
  for (const ListSymbol& l : rule_.lists)
    if (l.name == word.text)
      return lex_.error("E-rule-shape",
                        fmt::format("{} is a list of dims; write {}... for its dims or len({}) for their number",
                                    l.name, l.name, l.name),
                        word.position);
  if (word.text == "_") return lex_.error("E-text", "a size needs a name, found '_'", word.position);
  if (!pattern_) return unbound("size", word);
  if (rule_.symbols.size() >= kMaxNames) return too_many(word);
  rule_.symbols.push_back({std::string(word.text), 1, {}, lex_.place(word.position)});
  symbol_bounded_.push_back(false);
  return static_cast<uint32_t>(rule_.symbols.size() - 1);
}

Expected<uint32_t> RuleParser::list_symbol(const Token& word) {
  for (uint32_t i = 0; i < rule_.lists.size(); ++i)
    if (rule_.lists[i].name == word.text) return i;
  for (const Symbol& s : rule_.symbols)
    if (s.name == word.text)
      return lex_.error("E-rule-shape", fmt::format("{} is one size, not a list of dims", s.name), word.position);
  if (!pattern_) return unbound("list", word);
  ListSymbol l;
  l.name = std::string(word.text);
  l.where = lex_.place(word.position);
  rule_.lists.push_back(std::move(l));
  list_low_.push_back(false);
  list_high_.push_back(false);
  return static_cast<uint32_t>(rule_.lists.size() - 1);
}

Expected<Size> RuleParser::rank_of(const Token& t) const {
  for (const Input& i : rule_.inputs) {
    if (t.kind != Token::Kind::Input || i.name != t.text) continue;
    Size rank(0);
    int64_t fixed = 0;
    for (const SizeItem& item : i.shape) {
      if (item.kind == SizeItem::Kind::List)
        rank = Size::length(item.list);
      else
        ++fixed;
    }
    if (rank.kind() == Size::Kind::Number) return Size(fixed);
    return fixed == 0 ? rank : Size::binary(Size::Kind::Add, rank, Size(fixed));
  }
  return unbound("input", t);
}

Expected<Size> RuleParser::size_function(const Token& word) {
  constexpr std::pair<std::string_view, Size::Kind> kFunctions[] = {{"floordiv", Size::Kind::FloorDiv},
                                                                    {"ceildiv", Size::Kind::CeilDiv},
                                                                    {"mod", Size::Kind::Mod},
                                                                    {"max", Size::Kind::Max},
                                                                    {"min", Size::Kind::Min}};
  ISOMER_CHECK_OK(lex_.expect("("));
  if (word.text == "len") {
    const Token list = lex_.next();
    if (list.kind != Token::Kind::Word) return lex_.error("E-text", "expected a list symbol", list.position);
    ISOMER_TRY(const uint32_t id, list_symbol(list));
    ISOMER_CHECK_OK(lex_.expect(")"));
    return Size::length(id);
  }
  if (word.text == "rank") {
    const Token input = lex_.next();
    ISOMER_TRY(Size rank, rank_of(input));
    ISOMER_CHECK_OK(lex_.expect(")"));
    return rank;
  }
  for (const auto& [name, kind] : kFunctions) {
    if (name != word.text) continue;
    ISOMER_TRY(Size a, size());
    ISOMER_CHECK_OK(lex_.expect(","));
    ISOMER_TRY(Size b, size());
    ISOMER_CHECK_OK(lex_.expect(")"));
    return Size::binary(kind, std::move(a), std::move(b));
  }
  return lex_.error("E-text",
                    fmt::format("{} is no function of sizes; there are floordiv, ceildiv, mod, max, min, len "
                                "and rank",
                                isomer::quoted(word.text)),
                    word.position);
}

Expected<Size> RuleParser::factor() {
  const Token t = lex_.peek();
  if (++depth_ > kMaxDepth) return lex_.error("E-nesting", "sizes are nested too deeply", t.position);
  const auto leave = [&](Expected<Size> s) {
    --depth_;
    return s;
  };
  if (lex_.eat("(")) {
    ISOMER_TRY(Size s, size());
    ISOMER_CHECK_OK(lex_.expect(")"));
    return leave(std::move(s));
  }
  if (t.kind == Token::Kind::Number || lex_.at("-")) {
    ISOMER_TRY(const int64_t v, lex_.integer());
    return leave(Size(v));
  }
  if (t.kind != Token::Kind::Word) return lex_.expected("a size: a number, a symbol, a sum or a product of them");
  lex_.next();
  if (lex_.at("(")) return leave(size_function(t));
  ISOMER_TRY(const uint32_t id, symbol(t));
  return leave(Size::symbol(id));
}

Expected<Size> RuleParser::product() {
  ISOMER_TRY(Size s, factor());
  for (int factors = 0; lex_.eat("*"); ++factors) {
    if (factors > kMaxDepth) return lex_.error("E-nesting", "a product has too many factors", lex_.peek().position);
    ISOMER_TRY(Size f, factor());
    s = Size::binary(Size::Kind::Mul, std::move(s), std::move(f));
  }
  return s;
}

Expected<Size> RuleParser::size() {
  ISOMER_TRY(Size s, product());
  for (int terms = 0; lex_.at("+") || lex_.at("-"); ++terms) {
    if (terms > kMaxDepth) return lex_.error("E-nesting", "a sum has too many terms", lex_.peek().position);
    const Size::Kind kind = lex_.next().text == "+" ? Size::Kind::Add : Size::Kind::Sub;
    ISOMER_TRY(Size p, product());
    s = Size::binary(kind, std::move(s), std::move(p));
  }
  return s;
}

Expected<SizeItem> RuleParser::size_item() {
  const Token t = lex_.peek();
  const Token after = lex_.second();
  SizeItem item;
  if (t.kind == Token::Kind::Word && after.kind == Token::Kind::Sign && after.text == "...") {
    lex_.next();
    ISOMER_TRY(item.list, list_symbol(t));
    item.kind = SizeItem::Kind::List;
    ISOMER_CHECK_OK(lex_.expect("..."));
    return item;
  }
  if (t.kind == Token::Kind::Word && t.text == "seq" && after.text == "(") {
    lex_.next();
    lex_.next();
    item.kind = SizeItem::Kind::Sequence;
    ISOMER_TRY(item.size, size());
    ISOMER_CHECK_OK(lex_.expect(","));
    ISOMER_TRY(item.to, size());
    ISOMER_CHECK_OK(lex_.expect(")"));
    ISOMER_CHECK_OK(lex_.expect("..."));
    return item;
  }
  ISOMER_TRY(item.size, size());
  return item;
}

Expected<SizeList> RuleParser::size_list() {
  SizeList list;
  ISOMER_CHECK_OK(lex_.expect("["));
  if (lex_.eat("]")) return list;
  do {
    ISOMER_TRY(SizeItem item, size_item());
    list.push_back(std::move(item));
    if (list.size() > 64) return lex_.error("E-rule-shape", "a list has more than 64 sizes", lex_.peek().position);
  } while (lex_.eat(","));
  ISOMER_CHECK_OK(lex_.expect("]"));
  return list;
}

Expected<Input*> RuleParser::input_in_parentheses() {
  ISOMER_CHECK_OK(lex_.expect("("));
  const Token t = lex_.next();
  for (Input& i : rule_.inputs) {
    if (t.kind != Token::Kind::Input || i.name != t.text) continue;
    ISOMER_CHECK_OK(lex_.expect(")"));
    return &i;
  }
  return unbound("input", t);
}

Expected<void> RuleParser::named_condition(std::string_view word) {
  const Token at = lex_.next();
  if (word == "divides") {
    ISOMER_CHECK_OK(lex_.expect("("));
    ISOMER_TRY(Size a, size());
    ISOMER_CHECK_OK(lex_.expect(","));
    ISOMER_TRY(Size b, size());
    ISOMER_CHECK_OK(lex_.expect(")"));
    rule_.conditions.push_back(
        {Relation::Equal, Size::binary(Size::Kind::Mod, std::move(b), std::move(a)), Size(0), lex_.place(at.position)});
    return {};
  }
  if (word == "same_shape") {
    ISOMER_CHECK_OK(lex_.expect("("));
    const Input* sides[2] = {};
    for (size_t k = 0; k < 2; ++k) {
      const Token t = lex_.next();
      for (const Input& i : rule_.inputs)
        if (t.kind == Token::Kind::Input && i.name == t.text) sides[k] = &i;
      if (!sides[k]) return unbound("input", t);
      ISOMER_CHECK_OK(lex_.expect(k == 0 ? "," : ")"));
    }
    const SizeList &a = sides[0]->shape, &b = sides[1]->shape;
    bool fits = a.size() == b.size();
    for (size_t i = 0; fits && i < a.size(); ++i)
      fits = a[i].kind == b[i].kind && (a[i].kind == SizeItem::Kind::One || a[i] == b[i]);
    if (!fits)
      return lex_.error(
          "E-rule-shape",
          fmt::format("?{} and ?{} are declared with shapes that are never the same", sides[0]->name, sides[1]->name),
          at.position);
    for (size_t i = 0; i < a.size(); ++i)
      if (a[i].kind == SizeItem::Kind::One && !(a[i] == b[i]))
        rule_.conditions.push_back({Relation::Equal, a[i].size, b[i].size, lex_.place(at.position)});
    return {};
  }
  if (word == "nonnegative" && lex_.second().kind == Token::Kind::Word) {
    ISOMER_CHECK_OK(lex_.expect("("));
    do {
      const Token t = lex_.next();
      if (t.kind != Token::Kind::Word) return lex_.error("E-text", "expected a size", t.position);
      ISOMER_TRY(const uint32_t id, symbol(t));
      bound(Size::symbol(id), ">=", Size(0));
    } while (lex_.eat(","));
    return lex_.expect(")");
  }
  const Content content = word == "constant"      ? Content::Constant
                          : word == "positive"    ? Content::Positive
                          : word == "nonnegative" ? Content::NonNegative
                                                  : Content::NonZero;
  ISOMER_TRY(Input * input, input_in_parentheses());
  if (input->content != Content::Any && input->content != Content::Constant && content != Content::Constant)
    return lex_.error("E-rule-shape", fmt::format("?{} has two conditions on its contents", input->name), at.position);
  if (content != Content::Constant || input->content == Content::Any) input->content = content;
  return {};
}

Expected<void> RuleParser::attribute_domain(AttrVariable& variable) {
  if (lex_.at_word("permutations")) {
    const Token at = lex_.next();
    ISOMER_CHECK_OK(lex_.expect("("));
    ISOMER_TRY(const int64_t n, lex_.integer());
    ISOMER_CHECK_OK(lex_.expect(")"));
    if (variable.kind != ir::AttrKind::Ints || n < 1 || n > 4)
      return lex_.error("E-rule-attribute", "permutations(n) is for lists of integers, with n from 1 to 4",
                        at.position);
    std::vector<int64_t> p(static_cast<size_t>(n));
    std::iota(p.begin(), p.end(), int64_t{0});
    do variable.domain.emplace_back(p);
    while (std::next_permutation(p.begin(), p.end()));
    return {};
  }
  ISOMER_CHECK_OK(lex_.expect("{"));
  ir::AttrDef def{variable.name, variable.kind};
  do {
    const size_t start = lex_.peek().position;
    ISOMER_TRY(const AttrTerm term, attribute(def));
    SizeValues none;
    if (const auto* literal = std::get_if<ir::AttrValue>(&term)) {
      variable.domain.push_back(*literal);
    } else if (const auto* number = std::get_if<Size>(&term); number && number->kind() == Size::Kind::Number) {
      variable.domain.emplace_back(number->number());
    } else if (const auto* list = std::get_if<SizeList>(&term)) {
      const bool numbers = std::all_of(list->begin(), list->end(), [](const SizeItem& i) {
        return i.kind == SizeItem::Kind::One && i.size.kind() == Size::Kind::Number;
      });
      if (!numbers) return lex_.error("E-rule-attribute", "a domain holds numbers and strings only", start);
      variable.domain.emplace_back(*evaluate(*list, none));
    } else {
      return lex_.error("E-rule-attribute", "a domain holds numbers and strings only", start);
    }
  } while (lex_.eat(","));
  return lex_.expect("}");
}

Expected<void> RuleParser::membership() {
  const Token t = lex_.next();
  lex_.next();  // in
  if (t.kind == Token::Kind::Input) {
    for (AttrVariable& a : rule_.attributes)
      if (a.name == t.text) {
        if (!a.domain.empty())
          return lex_.error("E-rule-attribute", fmt::format("?{} has two domains", a.name), t.position);
        return attribute_domain(a);
      }
    return unbound("attribute", t);
  }
  ISOMER_TRY(const uint32_t id, symbol(t));
  Symbol& s = rule_.symbols[id];
  if (!s.domain.empty()) return lex_.error("E-rule-shape", fmt::format("{} has two domains", s.name), t.position);
  ISOMER_CHECK_OK(lex_.expect("{"));
  do {
    ISOMER_TRY(const int64_t v, lex_.integer());
    s.domain.push_back(v);
  } while (lex_.eat(","));
  ISOMER_CHECK_OK(lex_.expect("}"));
  std::sort(s.domain.begin(), s.domain.end());
  s.domain.erase(std::unique(s.domain.begin(), s.domain.end()), s.domain.end());
  s.at_least = s.domain.front();
  symbol_bounded_[id] = true;
  return {};
}

// "p >= 0" and its like set the bound of a symbol instead of becoming a condition.
bool RuleParser::bound(const Size& left, std::string_view sign, const Size& right) {
  if (right.kind() != Size::Kind::Number) {
    if (left.kind() != Size::Kind::Number) return false;
    const std::string_view flipped = sign == "<"    ? ">"
                                     : sign == "<=" ? ">="
                                     : sign == ">"  ? "<"
                                     : sign == ">=" ? "<="
                                                    : sign;
    return bound(right, flipped, left);
  }
  const int64_t n = right.number();
  const bool low = sign == ">=" || sign == ">", high = sign == "<=" || sign == "<";
  if (left.kind() == Size::Kind::Symbol && low) {
    const int64_t least = n + (sign == ">");
    Symbol& s = rule_.symbols[left.id()];
    s.at_least = symbol_bounded_[left.id()] ? std::max(s.at_least, least) : least;
    symbol_bounded_[left.id()] = true;
    return true;
  }
  if (left.kind() != Size::Kind::Length || (!low && !high)) return false;
  ListSymbol& l = rule_.lists[left.id()];
  if (low) {
    const int64_t least = n + (sign == ">");
    l.at_least = std::max(l.at_least, least);
  } else {
    const int64_t most = n - (sign == "<");
    l.at_most = list_high_[left.id()] ? std::min(l.at_most, most) : most;
    list_high_[left.id()] = true;
  }
  return true;
}

Expected<void> RuleParser::comparison() {
  const size_t start = lex_.peek().position;
  ISOMER_TRY(Size left, size());
  const Token t = lex_.next();
  const std::string_view sign = t.kind == Token::Kind::Sign ? t.text : "";
  if (sign != "==" && sign != "!=" && sign != "<" && sign != "<=" && sign != ">" && sign != ">=")
    return lex_.error("E-text", fmt::format("expected ==, !=, <, <=, > or >=, found {}", isomer::quoted(t.text)),
                      t.position);
  ISOMER_TRY(Size right, size());
  if (bound(left, sign, right)) return {};
  Condition c;
  c.where = lex_.place(start);
  c.relation = sign == "=="                 ? Relation::Equal
               : sign == "!="               ? Relation::NotEqual
               : sign == "<" || sign == ">" ? Relation::Less
                                            : Relation::LessEqual;
  const bool swap = sign.starts_with('>');
  c.left = swap ? right : left;
  c.right = swap ? left : right;
  rule_.conditions.push_back(std::move(c));
  return {};
}

Expected<void> RuleParser::condition() {
  const Token t = lex_.peek();
  const Token after = lex_.second();
  if (after.kind == Token::Kind::Word && after.text == "in") return membership();
  constexpr std::string_view kNamed[] = {"constant", "positive", "nonnegative", "nonzero", "same_shape", "divides"};
  if (t.kind == Token::Kind::Word && after.text == "(")
    for (const std::string_view word : kNamed)
      if (word == t.text) return named_condition(word);
  return comparison();
}

Expected<void> RuleParser::proof() {
  Proof p;
  p.where = lex_.here();
  lex_.next();
  const Token at = lex_.peek();
  ISOMER_TRY(const std::string kind, lex_.dashed("the kind of proof"));
  if (kind == "all-sizes") {
    p.kind = Proof::Kind::AllSizes;
  } else if (kind == "bounded") {
    p.kind = Proof::Kind::Bounded;
    ISOMER_TRY(p.bound, lex_.integer());
  } else if (kind == "field") {
    p.kind = Proof::Kind::Field;
    ISOMER_TRY(p.error, real());
  } else {
    return lex_.error("E-text", fmt::format("expected all-sizes, bounded N or field E, found {}", isomer::quoted(kind)),
                      at.position);
  }
  for (const auto& [word, into] : {std::pair{"rule", &p.rule}, {"operators", &p.operators}, {"prover", &p.prover}}) {
    if (!lex_.eat_word(word)) return lex_.expected(fmt::format("'{}' in the proof line", word));
    ISOMER_TRY(*into, lex_.dashed("a hash or a version"));
  }
  rule_.proofs.push_back(std::move(p));
  return {};
}

}  // namespace isomer::rewrite
