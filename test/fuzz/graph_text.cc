// Any bytes as a graph text: refused, or read and then an exact round trip.
#include <cstdlib>

#include "ir/text.h"
#include "ops/table.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto g = isomer::ir::parse(text, isomer::ops::table());
  if (!g.ok()) return 0;
  const auto back = isomer::ir::parse(isomer::ir::print(*g), isomer::ops::table());
  if (!back.ok() || !isomer::ir::identical(*g, *back)) std::abort();
  return 0;
}
