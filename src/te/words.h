// The words of te's text form which printer and parser must agree on: what may stand as a plain name, how strong the
// operators bind, how other names are quoted.
#pragma once

#include <string>
#include <string_view>

#include "te/expr.h"

namespace isomer::te {

// Binding strength, weakest first. A reduction's body is a product; unary operators bind strongest.
enum class Strength : uint8_t { Or = 1, And, Compare, Sum, Reduction, Product, Unary, Primary };

// The strength of an operator written as a sign between its operands; Primary for those written as functions.
Strength strength(BinaryOp op);
constexpr Strength tighter(Strength s) { return static_cast<Strength>(static_cast<uint8_t>(s) + 1); }

bool is_plain_name(std::string_view text);     // an identifier that is no reserved word
std::string name_in_text(std::string_view s);  // the name itself, or in double quotes with escapes

}  // namespace isomer::te
