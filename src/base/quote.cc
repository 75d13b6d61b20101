#include "base/quote.h"

#include <fmt/format.h>

#include <iterator>

#include "base/diagnostic.h"

namespace isomer {

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (const size_t n = utf8_length(text.substr(i)); u < 0x20 || u == 0x7F || n == 0) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", u);
    } else {
      out.append(text.substr(i, n));
      i += n - 1;
    }
    ++i;
  }
  out += '"';
}

std::string quote(std::string_view text) {
  std::string out;
  append_quoted(out, text);
  return out;
}

}  // namespace isomer
