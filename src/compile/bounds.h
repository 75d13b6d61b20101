// Sizes that only a run can tell, in a plan whose sizes are numbers: each is a symbol with a bound. Buffers have the bound; the number
// of a run lies in memory, and expressions read it there.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "te/expr.h"
#include "tensor/dim.h"

namespace isomer::compile {

using Bounds = std::map<std::string, int64_t>;  // the most that each symbol can be

// The most that a size can be; nothing where it has another symbol, or does not grow with those that it has.
std::optional<int64_t> most(const Dim& size, const Bounds& bounds);

// A size in a run, by the numbers of its symbols.
te::Expr size_in_run(const Dim& size, const std::function<te::Expr(const std::string&)>& number);

}  // namespace isomer::compile
