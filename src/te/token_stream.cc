#include "te/token_stream.h"

#include <fmt/format.h>

#include <charconv>

#include "te/parse.h"
#include "te/words.h"

namespace isomer::te {

void TokenStream::skip_newlines() {
  while (peek().kind == Token::Kind::Newline) ++at_;
}

bool TokenStream::is_name(size_t ahead) const {
  return peek(ahead).kind == Token::Kind::Quoted ||
         (peek(ahead).kind == Token::Kind::Name && is_plain_name(peek(ahead).text));
}

Expected<void> TokenStream::expect(std::string_view sign) {
  if (eat(sign)) return {};
  return fail(fmt::format("expected '{}', found {}", sign, found()));
}

Expected<std::string> TokenStream::name(std::string_view what) {
  if (!is_name()) return fail(fmt::format("expected the name of {}, found {}", what, found()));
  return tokens_[at_++].text;
}

std::optional<int> TokenStream::whole_number() {
  const std::string& t = peek().text;
  int value = 0;
  const auto r = std::from_chars(t.data(), t.data() + t.size(), value);
  if (peek().kind != Token::Kind::Number || r.ec != std::errc() || r.ptr != t.data() + t.size()) return std::nullopt;
  ++at_;
  return value;
}

Expected<std::optional<int>> TokenStream::id() {
  if (!eat("@")) return std::optional<int>();
  const size_t at = at_;
  const auto number = whole_number();
  if (number && *number < kMaxParseAxisId) return number;
  at_ = at;
  return fail(fmt::format("expected a number below {} after '@', found {}", kMaxParseAxisId, found()));
}

Expected<DType> TokenStream::dtype() {
  const auto t = peek().kind == Token::Kind::Name ? dtype_from_name(peek().text) : std::nullopt;
  if (!t || *t == DType::Opaque) return fail(fmt::format("expected an element type such as f32, found {}", found()));
  ++at_;
  return *t;
}

// The grammar inside is Dim's own.
Expected<Dim> TokenStream::dim() {
  const Token& first = peek();
  size_t end = first.begin;
  for (int depth = 0; !ends_line(); end = tokens_[at_++].end) {
    if (depth == 0 && (is(",") || is(")") || is("]") || (end != first.begin && is_word("where")))) break;
    if (is("(")) ++depth;
    if (is(")")) --depth;
  }
  auto d = Dim::parse(text_.substr(first.begin, end - first.begin));
  if (!d) return fail_at(first, "E-te-syntax", d.error().message);
  return d;
}

std::string TokenStream::found() const {
  switch (peek().kind) {
    case Token::Kind::Newline: return "the end of the line";
    case Token::Kind::End: return "the end of the text";
    default: return quoted(text_.substr(peek().begin, peek().end - peek().begin));
  }
}

Diagnostic TokenStream::fail_at(const Token& t, std::string code, std::string message) const {
  return Diagnostic(std::move(code), std::move(message)).at({file_, t.line, t.column});
}

}  // namespace isomer::te
