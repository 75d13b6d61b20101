// te's tokens as a parser reads them: the place it has come to, and the small parts of the grammar that are tokens still
// (names, ids, element types, sizes). A failure says what was expected and found, with line and column.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/expected.h"
#include "te/lex.h"
#include "tensor/dim.h"
#include "tensor/dtype.h"

namespace isomer::te {

class TokenStream {
 public:
  // The text and the file's name must outlive the stream.
  TokenStream(std::string_view text, std::vector<Token> tokens, const std::string& file)
      : text_(text), tokens_(std::move(tokens)), file_(file) {}

  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  void skip(size_t tokens = 1) { at_ += tokens; }
  void skip_newlines();
  bool ends() const { return peek().kind == Token::Kind::End; }
  bool ends_line() const { return ends() || peek().kind == Token::Kind::Newline; }
  bool is(std::string_view sign, size_t ahead = 0) const {
    return peek(ahead).kind == Token::Kind::Sign && peek(ahead).text == sign;
  }
  bool eat(std::string_view sign) { return is(sign) ? (++at_, true) : false; }
  bool is_word(std::string_view word) const { return peek().kind == Token::Kind::Name && peek().text == word; }
  bool eat_word(std::string_view word) { return is_word(word) ? (++at_, true) : false; }
  bool is_name(size_t ahead = 0) const;
  Expected<void> expect(std::string_view sign);

  Expected<std::string> name(std::string_view what);
  Expected<std::optional<int>> id();  // `@ID` after a name, when it is there
  std::optional<int> whole_number();  // none when something else stands there, or it does not fit
  Expected<DType> dtype();
  Expected<Dim> dim();  // runs to the next ',', ')', ']' or 'where' outside its own parentheses

  std::string found() const;  // what stands here, for a message
  Diagnostic fail_at(const Token& t, std::string code, std::string message) const;
  Diagnostic fail(std::string message) const { return fail_at(peek(), "E-te-syntax", std::move(message)); }

 private:
  std::string_view text_;
  std::vector<Token> tokens_;
  const std::string& file_;
  size_t at_ = 0;
};

}  // namespace isomer::te
