// RuleParser: reads rule text into Rules. Names are resolved while reading: what the pattern brings in (declarations,
// attributes, size lists) makes symbols, and everything after "=>" may only use them.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "rewrite/lexer.h"
#include "rewrite/rule.h"

namespace isomer::rewrite {

class RuleParser {
 public:
  RuleParser(std::string_view text, const ir::OpTable& table, std::string file)
      : lex_(text, std::move(file)), table_(table) {}

  bool at_end() const { return lex_.peek().kind == Token::Kind::End; }
  Expected<Rule> rule();
  // Past what is left of a wrong rule.
  void skip_to_next();

 private:
  static constexpr int kMaxDepth = 64;
  static constexpr size_t kMaxCalls = 64;
  static constexpr size_t kMaxNames = 128;

  // The terms of a side before it is known how many results a lone call has.
  struct Outputs {
    std::vector<Operand> terms;
    bool bracketed = false;
    size_t position = 0;
  };

  Expected<void> declarations();
  Expected<void> type_declaration();
  Expected<void> input_declaration();
  Expected<void> attribute_set();
  Expected<void> real_declaration();
  Expected<DTypeSet> type_set();
  Expected<ElementType> element_type();

  Expected<Outputs> side(Side& side);
  Expected<void> statement(Side& side);
  Expected<Operand> operand(Side& side);
  Expected<Operand> named_operand(Side& side);
  Expected<Operand> call(Side& side);
  Expected<void> call_operands(Side& side, Call& call);
  Expected<void> call_attributes(Call& call);
  Expected<AttrTerm> attribute(const ir::AttrDef& def);
  Expected<AttrTerm> attribute_variable(const ir::AttrDef& def);
  Expected<AttrTerm> composed(const ir::AttrDef& def);
  Expected<void> spread_set(Call& call);
  Expected<void> match_outputs(Outputs left, Outputs right);
  Expected<void> resolve(Side& side, const Outputs& outputs, size_t count);

  Expected<void> condition();
  Expected<void> named_condition(std::string_view word);
  Expected<void> membership();
  Expected<void> attribute_domain(AttrVariable& variable);
  Expected<void> comparison();
  bool bound(const Size& left, std::string_view sign, const Size& right);
  Expected<Input*> input_in_parentheses();

  Expected<void> proof();

  Expected<Size> size();
  Expected<Size> product();
  Expected<Size> factor();
  Expected<Size> size_function(const Token& word);
  Expected<Size> rank_of(const Token& input) const;
  Expected<uint32_t> symbol(const Token& word);
  Expected<uint32_t> list_symbol(const Token& word);
  Expected<SizeItem> size_item();
  Expected<SizeList> size_list();  // with its brackets
  Expected<double> real();

  Diagnostic unbound(std::string_view what, const Token& at) const;
  Diagnostic too_many(const Token& at) const;

  Lexer lex_;
  const ir::OpTable& table_;
  Rule rule_;
  bool pattern_ = true;  // reading what binds
  int depth_ = 0;
  std::map<std::string, Operand, std::less<>> values_;  // %names of the side being read
  std::map<std::string, Lexer, std::less<>> sets_;      // "let" names, each at the '{' of its attributes
  std::vector<bool> symbol_bounded_, list_low_, list_high_;
};

// Everything a rule promises beyond its text: symbols bound in an order that works, inputs used, sides connected.
// Fills in `binding`.
Expected<void> check_rule(Rule& rule);

}  // namespace isomer::rewrite
