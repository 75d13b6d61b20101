// What Isomer's prover says of the rules in TASO's released file: a Markdown report.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "base/expected.h"

namespace isomer::driver {

struct TasoReport {
  std::string markdown;
  size_t rules = 0;
  size_t as_stated = 0;         // right for all shapes that make both sides well typed
  size_t under_conditions = 0;  // right where the convolutions have one group and element-wise operands one shape
  size_t refuted = 0;           // wrong as stated, with a counterexample
  size_t open = 0;
  std::map<size_t, size_t> derived;  // true rules that follow from the library, by number of steps
  size_t not_derived = 0;
};

Expected<TasoReport> taso_report(const std::string& path,
                                 const std::function<void(size_t done, size_t total)>& progress = nullptr);

}  // namespace isomer::driver
