// Lexer: the words of a rule text. Blanks, line ends and comments (# to the end of the line) only separate them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/expected.h"

namespace isomer::rewrite {

struct Token {
  enum class Kind : uint8_t { End, Word, Number, Input, Value, String, Sign };
  Kind kind = Kind::End;
  std::string_view text;  // Input and Value: the name without ? or %; String: with its quotes
  size_t position = 0;
};

class Lexer {
 public:
  Lexer(std::string_view text, std::string file);

  const Token& peek() const { return token_; }
  // The token after the next one.
  Token second() const;
  Token next();
  bool at(std::string_view sign) const { return token_.kind == Token::Kind::Sign && token_.text == sign; }
  bool at_word(std::string_view word) const { return token_.kind == Token::Kind::Word && token_.text == word; }
  bool eat(std::string_view sign);
  bool eat_word(std::string_view word);
  Expected<void> expect(std::string_view sign);
  // A name that may hold '-' and start with a digit, as rules and hashes have.
  Expected<std::string> dashed(std::string_view what);
  // The contents of a string token.
  Expected<std::string> string();
  Expected<int64_t> integer();

  Location place(size_t position) const;
  Location here() const { return place(token_.position); }
  Diagnostic expected(std::string_view what) const;
  Diagnostic error(std::string code, std::string message, size_t position) const;

 private:
  void read();
  std::string_view text_;
  std::string file_;
  std::shared_ptr<const std::vector<size_t>> lines_;  // where each line starts
  size_t at_ = 0;                                     // after token_
  Token token_;
};

}  // namespace isomer::rewrite
