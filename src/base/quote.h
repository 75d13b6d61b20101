// Names in the project's text forms: "text" in double quotes with \\, \" and \xNN escapes, so that any byte string comes
// back. Every reader of these forms also takes escapes that this writer does not use.
#pragma once

#include <string>
#include <string_view>

namespace isomer {

void append_quoted(std::string& out, std::string_view text);
std::string quote(std::string_view text);

}  // namespace isomer
