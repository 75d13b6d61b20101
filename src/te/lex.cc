#include "te/lex.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>

namespace isomer::te {
namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)); }
bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

class Lexer {
 public:
  Lexer(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  Expected<std::vector<Token>> run() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        if (depth_ <= 0 && !tokens_.empty() && tokens_.back().kind != Token::Kind::Newline)
          add(Token::Kind::Newline, at_ + 1);
        else
          ++at_;
        ++line_, line_start_ = at_;
      } else if (c == ' ' || c == '\t' || c == '\r') {
        ++at_;
      } else if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (c == '"') {
        ISOMER_CHECK_OK(quoted());
      } else if (is_digit(c)) {
        add(Token::Kind::Number, number_end());
      } else if (is_word(c)) {
        size_t end = at_;
        while (end < text_.size() && is_word(text_[end])) ++end;
        add(Token::Kind::Name, end);
      } else {
        ISOMER_CHECK_OK(sign());
      }
    }
    add(Token::Kind::End, at_);
    return std::move(tokens_);
  }

 private:
  Diagnostic fail(const std::string& message) const {
    return Diagnostic("E-te-syntax", message).at({file_, line_, column()});
  }
  uint32_t column() const { return static_cast<uint32_t>(at_ - line_start_) + 1; }

  void add(Token::Kind kind, size_t end) {
    tokens_.push_back({kind, std::string(text_.substr(at_, end - at_)), at_, end, line_, column()});
    at_ = end;
  }

  size_t number_end() const {
    size_t end = at_;
    const auto digits = [&] {
      while (end < text_.size() && is_digit(text_[end])) ++end;
    };
    digits();
    if (end + 1 < text_.size() && text_[end] == '.' && is_digit(text_[end + 1])) ++end, digits();
    if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
      size_t exponent = end + 1;
      if (exponent < text_.size() && (text_[exponent] == '+' || text_[exponent] == '-')) ++exponent;
      if (exponent < text_.size() && is_digit(text_[exponent])) end = exponent, digits();
    }
    return end;
  }

  Expected<void> quoted() {
    std::string name;
    size_t i = at_ + 1;
    for (; i < text_.size() && text_[i] != '"' && text_[i] != '\n'; ++i) {
      if (text_[i] != '\\') {
        name += text_[i];
        continue;
      }
      if (++i >= text_.size()) break;
      if (text_[i] != 'x') {
        name += text_[i];
        continue;
      }
      unsigned value = 0;
      const size_t stop = std::min(i + 3, text_.size());
      const auto r = std::from_chars(text_.data() + i + 1, text_.data() + stop, value, 16);
      if (r.ec != std::errc() || r.ptr != text_.data() + i + 3)
        return fail("expected two hexadecimal digits after '\\x' in a quoted name");
      name += static_cast<char>(value);
      i += 2;
    }
    if (i >= text_.size() || text_[i] != '"') return fail("expected a closing '\"' on the line of the opening one");
    add(Token::Kind::Quoted, i + 1);
    tokens_.back().text = std::move(name);
    return {};
  }

  Expected<void> sign() {
    const std::string_view rest = text_.substr(at_);
    for (const std::string_view two : {"&&", "||", "==", "!=", "<=", ">=", "=>"})
      if (rest.starts_with(two)) {
        add(Token::Kind::Sign, at_ + 2);
        return {};
      }
    const char c = rest[0];
    if (std::string_view("+-*/!<>()[],:=@$").find(c) == std::string_view::npos)
      return fail(fmt::format("expected an expression, found the character {}", isomer::quoted(rest.substr(0, 1))));
    if (c == '(' || c == '[') ++depth_;
    if (c == ')' || c == ']') --depth_;
    add(Token::Kind::Sign, at_ + 1);
    return {};
  }

  std::string_view text_;
  const std::string& file_;
  size_t at_ = 0, line_start_ = 0;
  uint32_t line_ = 1;
  int64_t depth_ = 0;
  std::vector<Token> tokens_;
};

}  // namespace

Expected<std::vector<Token>> tokenize(std::string_view text, const std::string& file) {
  return Lexer(text, file).run();
}

}  // namespace isomer::te
