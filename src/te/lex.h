// The tokens of te's text form. Newlines count only outside brackets; `#` comments end with their line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/expected.h"

namespace isomer::te {

struct Token {
  enum class Kind { Name, Quoted, Number, Sign, Newline, End } kind;
  std::string text;  // of Quoted: without quotes and escapes
  size_t begin = 0, end = 0;
  uint32_t line = 1, column = 1;
};

// The last token is always End.
Expected<std::vector<Token>> tokenize(std::string_view text, const std::string& file);

}  // namespace isomer::te
