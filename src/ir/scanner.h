// Scanner: a cursor over a graph text that knows its words: punctuation, names, strings, numbers. Blanks and comments
// (// to the end of the line) are skipped before each. Nothing is consumed by a question that answers no.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/expected.h"

namespace isomer::ir {

class Scanner {
 public:
  Scanner(std::string_view text, std::string file) : text_(text), file_(std::move(file)) {}

  bool at_end() { return (skip(), at_ == text_.size()); }
  bool peek(char c) { return (skip(), at_ < text_.size() && text_[at_] == c); }
  bool eat(char c);
  Expected<void> expect(char c);
  // A whole word of letters, digits, '_' and '.', or nothing.
  std::string_view peek_word();
  bool eat_word(std::string_view word);
  std::string_view word();
  // "..." with its escapes resolved.
  Expected<std::string> string();
  // A word or a string.
  Expected<std::string> name(std::string_view what);

  // The longest piece that can belong to a number: digits, letters, '.', signs after an exponent.
  bool peek_number();
  std::string_view number();
  Expected<int64_t> integer();
  // Digits between the parentheses of a hexadecimal clause, as bytes.
  Expected<std::string> hex_bytes();

  size_t position() { return (skip(), at_); }
  std::string_view rest() const { return text_.substr(at_); }
  void advance(size_t n) { at_ += n; }

  // E-text at a position: "expected X, found Y".
  Diagnostic expected(std::string_view what);
  Diagnostic error(std::string message, size_t position) const;
  Diagnostic place(Diagnostic d, size_t position) const;

 private:
  void skip();
  std::string_view text_;
  std::string file_;
  size_t at_ = 0;
};

}  // namespace isomer::ir
