#include "passes/bisect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "interp/interp.h"
#include "tensor/compare.h"

namespace isomer::passes {

Expected<double> output_error(const ir::Graph& graph, const ir::OpTable& table, const std::vector<Tensor>& inputs,
                              const std::vector<Tensor>& expected) {
  ISOMER_TRY(const std::vector<Tensor> found, interp::run(graph, table, inputs));
  constexpr double kNever = std::numeric_limits<double>::infinity();
  if (found.size() != expected.size()) return kNever;
  double worst = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    const Comparison c = compare(found[i], expected[i]);
    // A NaN or an infinity at another place is as wrong as a wrong integer.
    const bool inexact = is_float(found[i].dtype());
    if (!c.comparable || c.special_mismatches > 0 || (!inexact && c.mismatches > 0)) return kNever;
    worst = std::max(worst, c.error_of_largest);
  }
  return worst;
}

Expected<std::optional<Culprit>> bisect(const ir::Graph& graph, const ir::OpTable& table,
                                        const std::vector<Step>& steps, const Options& options,
                                        const std::vector<Tensor>& inputs, double tolerance) {
  ISOMER_TRY(const std::vector<Tensor> expected, interp::run(graph, table, inputs));
  Options limited = options;
  limited.dump.clear();
  const auto error_after = [&](int64_t applications, Result& result) -> Expected<double> {
    limited.stop_after = applications;
    ISOMER_TRY(result, run(graph, table, steps, limited));
    return output_error(result.graph, table, inputs, expected);
  };
  Result result;
  ISOMER_TRY(double error, error_after(options.stop_after, result));
  if (error <= tolerance) return std::optional<Culprit>();
  // After `good` applications the outputs are right, after `bad` they are not.
  int64_t good = 0, bad = result.applications;
  Culprit culprit{result.last_pass, result.last_value, bad, error};
  while (bad - good > 1) {
    const int64_t middle = good + (bad - good) / 2;
    ISOMER_TRY(error, error_after(middle, result));
    if (error <= tolerance) {
      good = middle;
    } else {
      bad = middle;
      culprit = {result.last_pass, result.last_value, bad, error};
    }
  }
  return std::optional(culprit);
}

}  // namespace isomer::passes
