#ifdef ISOMER_HAS_COMPILER

#include "driver/end_check.h"

namespace isomer::driver {

Expected<EndCheck> EndCheck::make(const ir::Graph& original, const ir::Graph& start,
                                  const std::vector<const rewrite::Rule*>& rules, const Sizes& sizes,
                                  const OptimizeOptions& options) {
  EndCheck out(start, rules, sizes, options.tolerance);
  ISOMER_TRY(out.original_, with_sizes(original, sizes));
  InputOptions random = options.inputs;
  random.files.clear();
  ISOMER_TRY(std::vector<Tensor> first, make_inputs(out.original_, random));
  out.sets_.push_back(std::move(first));
  if (options.inputs.files.empty()) return out;
  ISOMER_TRY(std::vector<Tensor> own, make_inputs(out.original_, options.inputs));
  out.sets_.push_back(std::move(own));
  return out;
}

Expected<const std::vector<Tensor>*> EndCheck::expected(size_t set) {
  while (expected_.size() <= set) {
    ISOMER_TRY(std::vector<Tensor> outputs, reference_outputs(original_, sets_[expected_.size()]));
    expected_.push_back(std::move(outputs));
  }
  return &expected_[set];
}

Expected<bool> EndCheck::is_rounding(const Candidate& result, size_t set, const std::vector<OutputError>& errors,
                                     const std::vector<OutputError>& own) {
  if (worst(beyond(errors, own)) > tolerance_) return false;
  // Rounding may hide a fault, so the two are compared without it: in double, by the tolerance as it is.
  ISOMER_TRY(const ir::Graph graph, with_sizes(result.graph, sizes_));
  ISOMER_TRY(const std::vector<Tensor> meaning, reference_outputs(graph, sets_[set]));
  return !(worst(output_errors(original_, meaning, expected_[set])) > tolerance_);
}

Expected<EndCheck::Found> EndCheck::check(Candidate& result) {
  Found out;
  for (size_t k = 0; k < sets_.size(); ++k) {
    ISOMER_TRY(const std::vector<Tensor>* wanted, expected(k));
    ISOMER_TRY(const std::vector<Tensor> outputs, result.executor->run(sets_[k]));
    const std::vector<OutputError> errors = output_errors(original_, outputs, *wanted);
    if (worst(errors) > worst(out.errors) || out.errors.empty()) out.errors = errors;
    if (!(worst(errors) > tolerance_)) continue;
    ISOMER_TRY(const std::vector<OutputError> own, own_errors(original_, sets_[k], *wanted));
    if (worst(own) > worst(out.own_errors)) out.own_errors = own;
    ISOMER_TRY(const bool rounding, is_rounding(result, k, errors, own));
    if (rounding) continue;
    ISOMER_TRY(const ir::Graph start, with_sizes(start_, sizes_));
    ISOMER_TRY(out.culprit,
               find_culprit(start, rules_, search::applications(result.steps), sets_[k], *wanted, own, tolerance_));
    if (!out.culprit) out.culprit = Culprit{0, "", {}, worst(errors), false};
    return out;
  }
  return out;
}

}  // namespace isomer::driver

#endif
