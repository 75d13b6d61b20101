#include "driver/accuracy.h"

#include <fmt/format.h>

#include <cmath>

#include "driver/inputs.h"
#include "tensor/compare.h"

#ifdef ISOMER_HAS_COMPILER
#include "codegen/codegen.h"
#include "compile/executable.h"
#include "compile/kernel_code.h"
#include "ops/table.h"
#endif

namespace isomer::driver {

double most_difference(const ir::Graph& graph) {
  double most = 5e-5;
  for (const ir::Node& n : graph.nodes())
    for (const Type& t : n.types) {
      if (t.dtype == DType::F16) most = std::max(most, 0x1p-10);
      if (t.dtype == DType::BF16) most = std::max(most, 0x1p-7);
    }
  return most;
}

void AccuracyFacts::add(const AccuracyFacts& other) {
  used.split |= other.used.split;
  used.filtering |= other.used.filtering;
  difference = std::max(difference, other.difference);
  given_up = std::max(given_up, other.given_up);
  allowed = std::max(allowed, other.allowed);
  if (not_tried.empty()) not_tried = other.not_tried;
}

std::string AccuracyFacts::to_string() const {
  if (!not_tried.empty()) return "its accuracy was not tried: " + not_tried;
  if (difference < 0 && given_up < 0) return "";
  std::string out = used.any() ? fmt::format("within {:.1e} of its strict form on random inputs", difference)
                               : std::string("the strict form");
  if (given_up >= 0)
    out += fmt::format("; {} would differ by {:.1e}, and {:.0e} is allowed",
                       used.any() ? "floats in two parts" : "faster algorithms", given_up, allowed);
  return out;
}

RoundingChoice::RoundingChoice(const ir::Graph& graph, Accuracy accuracy)
    : checked_(accuracy == Accuracy::Checked),
      allowed_{accuracy != Accuracy::Strict, accuracy != Accuracy::Strict},
      facts_{.allowed = most_difference(graph)} {}

bool RoundingChoice::settled(const compile::Rounding& used) {
  facts_.used = used;
  return !checked_ || !used.any();
}

bool RoundingChoice::accept(const Expected<double>& difference) {
  if (!difference.ok()) {
    cannot_try(difference.error().message);
    return true;
  }
  if (*difference <= facts_.allowed) {
    facts_.difference = *difference;
    return true;
  }
  if (facts_.given_up < 0) facts_.given_up = *difference;
  // Filtering rounds less than floats in two parts do.
  allowed_ = {false, facts_.used.split && facts_.used.filtering};
  return false;
}

#ifdef ISOMER_HAS_COMPILER

Trial::Trial(const ir::Graph& graph, int threads, int compile_threads, std::shared_ptr<compile::KernelCode> code)
    : graph_(graph), threads_(threads) {
  building_ = std::async(
      std::launch::async,
      [&graph, compile_threads, code = std::move(code)]() -> Expected<std::shared_ptr<const compile::Executable>> {
        compile::ExecutableOptions o;
        ISOMER_TRY(o.lower.target, codegen::host_target());
        o.lower.winograd = o.lower.split = false;
        o.lower.bounded = true;
        o.compile_threads = compile_threads;
        o.code = code.get();
        return compile::Executable::build(graph, ops::table(), o);
      });
}
Trial::~Trial() = default;

Expected<std::vector<Tensor>> Trial::inputs() const { return make_inputs(graph_, {}); }

Expected<std::shared_ptr<const compile::Executable>> Trial::strict() {
  if (building_.valid()) {
    ISOMER_TRY(strict_, building_.get());
  }
  if (!strict_) return Diagnostic("E-run", "the strict form could not be compiled");
  return strict_;
}

Expected<double> Trial::difference(const std::vector<Tensor>& outputs) {
  if (expected_.empty()) {
    ISOMER_TRY(const auto executable, strict());
    ISOMER_TRY(const std::vector<Tensor> values, inputs());
    ISOMER_TRY(compile::Runner runner, compile::Runner::make(executable, threads_));
    ISOMER_TRY(expected_, runner.run(values));
  }
  double most = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!is_float(outputs[i].dtype())) continue;
    const Comparison c = compare(outputs[i], expected_[i]);
    const bool number = c.comparable && c.special_mismatches == 0 && std::isfinite(c.error_of_largest);
    most = std::max(most, number ? c.error_of_largest : INFINITY);
  }
  return most;
}

#endif

}  // namespace isomer::driver
