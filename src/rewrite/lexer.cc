#include "rewrite/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace isomer::rewrite {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name(char c) { return is_letter(c) || is_digit(c); }
bool is_dashed(char c) { return is_name(c) || c == '-' || c == '.'; }

}  // namespace

Lexer::Lexer(std::string_view text, std::string file) : text_(text), file_(std::move(file)) {
  std::vector<size_t> lines = {0};
  for (size_t i = 0; i < text.size(); ++i)
    if (text[i] == '\n') lines.push_back(i + 1);
  lines_ = std::make_shared<const std::vector<size_t>>(std::move(lines));
  read();
}

void Lexer::read() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r')
      ++at_;
    else if (c == '#')
      at_ = std::min(text_.find('\n', at_), text_.size());
    else
      break;
  }
  const size_t start = at_;
  const auto run = [&](size_t from, bool (*belongs)(char)) {
    while (from < text_.size() && belongs(text_[from])) ++from;
    return from;
  };
  token_ = {Token::Kind::End, text_.substr(start, 0), start};
  if (start >= text_.size()) return;
  const char c = text_[start];
  const char following = start + 1 < text_.size() ? text_[start + 1] : '\0';
  if (is_letter(c)) {
    at_ = run(start, is_name);
    token_.kind = Token::Kind::Word;
  } else if (is_digit(c)) {
    at_ = run(start, is_digit);
    // A fraction, but not the dots of a spread.
    if (text_.substr(at_, 1) == "." && text_.substr(at_, 2) != "..") at_ = run(at_ + 1, is_digit);
    if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      size_t digits = at_ + 1;
      if (digits < text_.size() && (text_[digits] == '-' || text_[digits] == '+')) ++digits;
      if (run(digits, is_digit) > digits) at_ = run(digits, is_digit);
    }
    token_.kind = Token::Kind::Number;
  } else if ((c == '?' || c == '%') && is_name(following)) {
    at_ = run(start + 1, is_name);
    token_ = {c == '?' ? Token::Kind::Input : Token::Kind::Value, text_.substr(start + 1, at_ - start - 1), start};
    return;
  } else if (c == '"') {
    at_ = start + 1;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n') at_ += text_[at_] == '\\' ? 2 : 1;
    at_ = std::min(at_ + 1, text_.size());
    token_.kind = Token::Kind::String;
  } else {
    token_.kind = Token::Kind::Sign;
    at_ = start + 1;
    for (const std::string_view longer : {"...", "=>", "==", "!=", "<=", ">="})
      if (text_.substr(start).starts_with(longer)) {
        at_ = start + longer.size();
        break;
      }
  }
  token_.text = text_.substr(start, at_ - start);
}

Token Lexer::next() {
  const Token t = token_;
  read();
  return t;
}

Token Lexer::second() const {
  Lexer copy = *this;
  copy.read();
  return copy.token_;
}

bool Lexer::eat(std::string_view sign) {
  if (!at(sign)) return false;
  read();
  return true;
}

bool Lexer::eat_word(std::string_view word) {
  if (!at_word(word)) return false;
  read();
  return true;
}

Expected<void> Lexer::expect(std::string_view sign) {
  if (!eat(sign)) return expected(fmt::format("'{}'", sign));
  return {};
}

Expected<std::string> Lexer::dashed(std::string_view what) {
  const size_t start = token_.position;
  size_t end = start;
  while (end < text_.size() && is_dashed(text_[end])) ++end;
  if (end == start) return expected(what);
  at_ = end;
  read();
  return std::string(text_.substr(start, end - start));
}

Expected<std::string> Lexer::string() {
  const Token t = token_;
  if (t.kind != Token::Kind::String) return expected("a string");
  if (t.text.size() < 2 || t.text.back() != '"') return error("E-text", "this string has no closing '\"'", t.position);
  std::string out;
  for (size_t i = 1; i + 1 < t.text.size(); ++i) {
    if (t.text[i] == '\\' && i + 2 < t.text.size()) ++i;
    out += t.text[i];
  }
  read();
  return out;
}

Expected<int64_t> Lexer::integer() {
  const size_t start = token_.position;
  const bool negative = eat("-");
  const Token t = token_;
  int64_t v = 0;
  const auto r = std::from_chars(t.text.data(), t.text.data() + t.text.size(), v);
  if (t.kind != Token::Kind::Number || r.ec != std::errc() || r.ptr != t.text.data() + t.text.size())
    return error("E-text", fmt::format("expected an integer of 64 bits, found {}", isomer::quoted(t.text)), start);
  read();
  return negative ? -v : v;
}

Location Lexer::place(size_t position) const {
  const auto line = std::upper_bound(lines_->begin(), lines_->end(), position) - 1;
  return {file_, static_cast<uint32_t>(line - lines_->begin() + 1), static_cast<uint32_t>(1 + position - *line)};
}

Diagnostic Lexer::expected(std::string_view what) const {
  const std::string found =
      token_.kind == Token::Kind::End ? "the end of the text" : isomer::quoted(token_.text.substr(0, 40));
  return error("E-text", fmt::format("expected {}, found {}", what, found), token_.position);
}

Diagnostic Lexer::error(std::string code, std::string message, size_t position) const {
  Diagnostic d(std::move(code), std::move(message));
  d.at(place(position));
  return d;
}

}  // namespace isomer::rewrite
