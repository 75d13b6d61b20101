// Literals of the graph text, written: exact numbers, hexadecimal bytes. parser.h reads them back.
#pragma once

#include <string>
#include <string_view>

#include "base/quote.h"
#include "tensor/tensor.h"

namespace isomer::ir {

// A name that stands without quotes: letters, digits, '_', '.', at least one of them.
bool is_bare_name(std::string_view text);

// The shortest decimal that reads back as the same bits: nan, inf, -inf and nan(0x...) with its payload where those are
// meant. With `marked` a number always has a '.', an 'e' or a keyword, so that it is no integer.
void append_real(std::string& out, double value, bool marked);

// Element i of a tensor.
void append_element(std::string& out, const Tensor& tensor, int64_t i);

void append_hex(std::string& out, std::string_view bytes);

}  // namespace isomer::ir
