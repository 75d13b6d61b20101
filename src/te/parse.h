// Reads the text form that print.h writes; docs/te.md has the grammar. Whatever the text, the answer is a well-typed
// result or a Diagnostic with line and column; nesting beyond kMaxParseDepth is refused, so that no reader of the
// result runs out of stack.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/expected.h"
#include "te/program.h"

namespace isomer::te {

inline constexpr int kMaxParseDepth = 500;
inline constexpr int kMaxParseAxisId = 1 << 16;

Expected<Program> parse_program(std::string_view text, const std::string& file = "");

// `names` gives expressions to plain names, for texts with variables of their own such as rules. An integer or decimal
// literal that stands alone takes `alone` when given, else i64 or f32.
struct ExprContext {
  std::vector<std::pair<std::string, Expr>> names;
  std::optional<DType> alone = std::nullopt;
};
Expected<Expr> parse_expr(std::string_view text, const ExprContext& context = {}, const std::string& file = "");

}  // namespace isomer::te
