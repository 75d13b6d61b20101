#include "base/diagnostic.h"

#include <fmt/format.h>

namespace isomer {

size_t utf8_length(std::string_view s) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(s[i]); };
  const unsigned char lead = byte(0);
  const size_t n = lead < 0x80                   ? 1
                   : lead >= 0xC2 && lead < 0xE0 ? 2
                   : lead >= 0xE0 && lead < 0xF0 ? 3
                   : lead >= 0xF0 && lead < 0xF5 ? 4
                                                 : 0;
  if (n == 0 || n > s.size()) return 0;
  for (size_t i = 1; i < n; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  return n;
}

std::string printable(std::string_view text, size_t limit) {
  std::string cut;
  if (text.size() > limit) {
    const size_t half = limit / 2;
    cut = fmt::format("{}...({} bytes)...{}", text.substr(0, half), text.size(), text.substr(text.size() - half / 2));
    text = cut;
  }
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    const size_t n = utf8_length(text.substr(i));
    if (n == 0 || c < 0x20 || c == 0x7F) {
      out += c == '\n' ? "\\n" : c == '\t' ? "\\t" : fmt::format("\\x{:02x}", c);
      ++i;
    } else {
      out.append(text.substr(i, n));
      i += n;
    }
  }
  return out;
}

std::string quoted(std::string_view text) { return "'" + printable(text) + "'"; }

std::string Diagnostic::to_string() const {
  std::string out;
  if (!where.file.empty()) out += printable(where.file) + ":";
  if (where.line != 0) out += fmt::format("{}:{}:", where.line, where.column);
  if (!out.empty()) out += " ";
  out += fmt::format("error[{}]: {}", code, printable(message, 2000));
  for (const std::string& n : notes) out += "\n  note: " + printable(n, 2000);
  return out;
}

Diagnostic& Diagnostic::at(Location location) {
  where = std::move(location);
  return *this;
}

Diagnostic& Diagnostic::note(std::string text) {
  notes.push_back(std::move(text));
  return *this;
}

}  // namespace isomer
