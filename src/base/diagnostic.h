// A Diagnostic says that the user's input is wrong: a stable code, one sentence (expected, found, where, what
// to do), an optional place in a text and notes. A Decision says that we decline, with the reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace isomer {

// A place in a text, counted from 1. Line 0 means "no place known".
struct Location {
  std::string file;
  uint32_t line = 0;
  uint32_t column = 0;
  bool operator==(const Location&) const = default;
};

struct Diagnostic {
  std::string code;     // "E-shape-mismatch": stable, documented in docs/diagnostics.md
  std::string message;  // one sentence
  Location where;
  std::vector<std::string> notes;

  Diagnostic() = default;
  Diagnostic(std::string code_, std::string message_) : code(std::move(code_)), message(std::move(message_)) {}

  // "file:line:column: error[E-...]: message", then one line a note. Control characters in names are escaped,
  // and a very long message is cut in its middle, so that a hostile name cannot flood a terminal.
  std::string to_string() const;
  Diagnostic& at(Location location);
  Diagnostic& note(std::string text);
};

// Yes, or no with a static reason. Declining is the normal case inside a search, so nothing is formatted.
class Decision {
 public:
  static Decision yes() { return Decision(nullptr); }
  static Decision no(const char* reason) { return Decision(reason); }
  explicit operator bool() const { return reason_ == nullptr; }
  const char* reason() const { return reason_ ? reason_ : ""; }

 private:
  explicit Decision(const char* reason) : reason_(reason) {}
  const char* reason_;
};

// Text from a model made safe to show: control characters and invalid UTF-8 become escapes, and anything
// longer than `limit` bytes is cut in its middle.
std::string printable(std::string_view text, size_t limit = 120);

// Bytes of the valid UTF-8 sequence at the start of a text that is not empty; 0 when there is none.
size_t utf8_length(std::string_view text);

// 'name' with quotes round it, made printable.
std::string quoted(std::string_view text);

}  // namespace isomer
