// What is done so that an optimised model can be trusted though a rule, a pass or a kernel were wrong: each application is
// tested at the model's own attributes over a prime field, the whole is run against the original, and where that shows a
// difference the application that makes it is found.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "driver/bench.h"
#include "rewrite/matcher.h"
#include "search/search.h"

namespace isomer::driver {

enum class FieldAnswer : uint8_t {
  Holds,
  Fails,
  Untested,  // an operator has no arithmetic of a field, or no small sizes fit
};
// Both sides of the rule at the match's attributes, on random elements of the field of 2^61-1. Sizes above a few are
// replaced by smaller ones that meet the rule's conditions.
FieldAnswer test_over_field(const rewrite::Rule& rule, const rewrite::Match& match);

struct Culprit {
  size_t application = 0;  // counted from 1
  std::string rule;
  std::vector<std::string> nodes;
  double error = 0;  // of the outputs after it
  bool by_field = false;
};

// Each application of the steps at its own attributes over the field; equal ones once.
struct FieldTests {
  size_t tested = 0, untested = 0;
  std::optional<Culprit> culprit;  // the first that fails
};
Expected<FieldTests> test_over_field(const ir::Graph& start, const std::vector<const rewrite::Rule*>& rules,
                                     const std::vector<search::Step>& steps);

// What follows runs on all cores: nothing is timed meanwhile.
// The reference outputs of a model, as plain loops in double give them.
Expected<std::vector<Tensor>> reference_outputs(const ir::Graph& graph, const std::vector<Tensor>& inputs);
std::vector<OutputError> output_errors(const ir::Graph& graph, const std::vector<Tensor>& found,
                                       const std::vector<Tensor>& expected);
double worst(const std::vector<OutputError>& errors);

// What rounding alone does to the model on these inputs: the original in floats, without passes and without algorithms that
// round more, against the reference. Where values cancel (a variance as a difference of squares, a rounding to bytes)
// that is far above any tolerance, whoever runs the model.
Expected<std::vector<OutputError>> own_errors(const ir::Graph& graph, const std::vector<Tensor>& inputs,
                                              const std::vector<Tensor>& expected);
// The errors without those of outputs that stay within a small multiple of what rounding does to them.
std::vector<OutputError> beyond(std::vector<OutputError> errors, const std::vector<OutputError>& own);

// The first application after which the outputs are off by more than the tolerance, beyond their own errors; nothing when none is.
Expected<std::optional<Culprit>> find_culprit(const ir::Graph& start, const std::vector<const rewrite::Rule*>& rules,
                                              const std::vector<search::Application>& applications,
                                              const std::vector<Tensor>& inputs, const std::vector<Tensor>& expected,
                                              const std::vector<OutputError>& own, double tolerance);

}  // namespace isomer::driver
