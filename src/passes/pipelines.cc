// The named pipelines, with the reason why each step stands where it does.
#include "passes/manager.h"

namespace isomer::passes {

const std::vector<Pipeline>& pipelines() {
  static const std::vector<Pipeline> all = {
      {"inference",
       "What every compiled model goes through.",
       {
           {{"fold_constants"}},        // shapes become known; exporters' shape arithmetic vanishes
           {{"simplify_inference"}},    // nothing stands between a convolution and what folds into it
           {{"share_subexpressions"}},  // patterns below ask whether two inputs are one value
           {{"cancel_casts", "cancel_reshapes", "cancel_transposes"}, 4},  // each clears the way for the others
           {{"fold_scale"}},
           {{"fold_constants"}},  // what the passes above made of constants
           {{"share_subexpressions"}},
           {{"dead_code"}},
       }},
  };
  return all;
}

}  // namespace isomer::passes
