#include "ir/scanner.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "ir/literal.h"

namespace isomer::ir {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::optional<unsigned> hex_digit(char c) {
  if (is_digit(c)) return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A' + 10);
  return std::nullopt;
}

}  // namespace

void Scanner::skip() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++at_;
    } else if (text_.substr(at_, 2) == "//") {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else {
      return;
    }
  }
}

bool Scanner::eat(char c) {
  if (!peek(c)) return false;
  ++at_;
  return true;
}

Expected<void> Scanner::expect(char c) {
  if (!eat(c)) return expected(fmt::format("'{}'", c));
  return {};
}

std::string_view Scanner::peek_word() {
  skip();
  size_t end = at_;
  while (end < text_.size() && is_bare_name(text_.substr(end, 1))) ++end;
  return text_.substr(at_, end - at_);
}

bool Scanner::eat_word(std::string_view wanted) {
  if (peek_word() != wanted) return false;
  at_ += wanted.size();
  return true;
}

std::string_view Scanner::word() {
  const std::string_view w = peek_word();
  at_ += w.size();
  return w;
}

Expected<std::string> Scanner::string() {
  const size_t start = position();
  if (!eat('"')) return expected("a string");
  std::string out;
  while (true) {
    const size_t stop = text_.find_first_of("\"\\", at_);
    if (stop == std::string_view::npos) return error("this string has no closing '\"'", start);
    out.append(text_.substr(at_, stop - at_));
    at_ = stop + 1;
    if (text_[stop] == '"') return out;
    if (at_ >= text_.size()) return error("this string has no closing '\"'", start);
    const char c = text_[at_++];
    if (c == 'n') {
      out += '\n';
    } else if (c == 't') {
      out += '\t';
    } else if (c == '"' || c == '\\') {
      out += c;
    } else if (c == 'x') {
      const auto high = at_ + 1 < text_.size() ? hex_digit(text_[at_]) : std::nullopt;
      const auto low = high ? hex_digit(text_[at_ + 1]) : std::nullopt;
      if (!low) return error("expected two hexadecimal digits after \\x", stop);
      out += static_cast<char>(*high * 16 + *low);
      at_ += 2;
    } else {
      return error(R"(unknown escape; the known ones are \" \\ \n \t \xHH)", stop);
    }
  }
}

Expected<std::string> Scanner::name(std::string_view what) {
  if (peek('"')) return string();
  const std::string_view w = word();
  if (w.empty()) return expected(what);
  return std::string(w);
}

bool Scanner::peek_number() {
  skip();
  if (at_ >= text_.size()) return false;
  const char c = text_[at_];
  if (c == '-' || c == '+' || is_digit(c)) return true;
  const std::string_view w = peek_word();
  return w == "nan" || w == "inf";
}

std::string_view Scanner::number() {
  skip();
  const size_t start = at_;
  while (at_ < text_.size()) {
    const char c = text_[at_];
    const bool sign = c == '-' || c == '+';
    const bool after_exponent = at_ > start && (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E');
    if (!(is_bare_name(text_.substr(at_, 1)) && c != '_') && !(sign && (at_ == start || after_exponent))) break;
    // "lo..hi" is two numbers.
    if (c == '.' && text_.substr(at_, 2) == "..") break;
    ++at_;
  }
  if (text_.substr(start, at_ - start) == "nan" && text_.substr(at_, 3) == "(0x")
    at_ = std::min(text_.find(')', at_), text_.size() - 1) + 1;
  return text_.substr(start, at_ - start);
}

Expected<int64_t> Scanner::integer() {
  const size_t start = position();
  const std::string_view digits = number();
  int64_t v = 0;
  const auto r = std::from_chars(digits.data(), digits.data() + digits.size(), v);
  if (digits.empty() || r.ec != std::errc() || r.ptr != digits.data() + digits.size())
    return error(fmt::format("expected an integer of 64 bits, found {}", quoted(digits)), start);
  return v;
}

Expected<std::string> Scanner::hex_bytes() {
  ISOMER_CHECK_OK(expect('('));
  const size_t start = position();
  const size_t end = text_.find(')', start);
  if (end == std::string_view::npos) return error("expected a closing ')'", start);
  std::string out;
  out.reserve((end - start) / 2);
  for (size_t i = start; i < end; i += 2) {
    const auto high = hex_digit(text_[i]), low = i + 1 < end ? hex_digit(text_[i + 1]) : std::nullopt;
    if (!high || !low) return error("expected an even number of hexadecimal digits", i);
    out += static_cast<char>(*high * 16 + *low);
  }
  at_ = end + 1;
  return out;
}

Diagnostic Scanner::expected(std::string_view what) {
  skip();
  std::string found = "the end of the text";
  if (at_ < text_.size()) {
    const std::string_view w = peek_word();
    found = quoted(w.empty() ? text_.substr(at_, 1) : w.substr(0, 40));
  }
  return error(fmt::format("expected {}, found {}", what, found), at_);
}

Diagnostic Scanner::error(std::string message, size_t position) const {
  return place(Diagnostic("E-text", std::move(message)), position);
}

Diagnostic Scanner::place(Diagnostic d, size_t position) const {
  const std::string_view before = text_.substr(0, position);
  const size_t line_start = before.rfind('\n') + 1;  // npos + 1 == 0
  d.at({file_, static_cast<uint32_t>(1 + std::count(before.begin(), before.end(), '\n')),
        static_cast<uint32_t>(1 + position - line_start)});
  return d;
}

}  // namespace isomer::ir
