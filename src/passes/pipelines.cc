// The named pipelines, with the reason why each step stands where it does.
#include "passes/manager.h"

namespace isomer::passes {

namespace {

std::vector<Pipeline> written() {
  const std::vector<Pipeline> list = {
      {"composites",
       "Only puts together what exporters took apart, attention included.",
       {
           {{"fold_constants", "inline_branches"}, 4},  // patterns ask for the values of constants
           {{"simplify_inference"}},                    // a dropout may stand inside a pattern
           {{"share_subexpressions"}},                  // and whether two inputs are one value
           {{"recognise_layer_norm"}},                  // before the root mean square, which is a part of it
           {{"recognise_rms_norm"}},
           {{"recognise_gelu"}},
           {{"recognise_hard_swish"}},
           {{"recognise_silu"}},
           {{"recognise_attention"}},
           {{"dead_code"}},
       }},
      {"inference",
       "What every compiled model goes through.",
       {
           // Shapes become known and exporters' shape arithmetic vanishes; so do branches and loops that depend on shapes alone.
           {{"fold_constants", "inline_branches", "settle_bodies"}, 4},
           {{"simplify_inference"}},    // nothing stands between a convolution and what folds into it
           {{"share_subexpressions"}},  // patterns below ask whether two inputs are one value
           {{"cancel_casts", "cancel_reshapes", "cancel_transposes", "cancel_concats"},
            4},  // each clears the way for the others
           {{"recognise_group_norm"}},
           {{"recognise_layer_norm"}},  // before the root mean square, which is a part of it
           {{"recognise_rms_norm"}},
           {{"recognise_gelu"}},  // all of these before their constants merge into neighbours
           {{"recognise_hard_swish"}},
           {{"recognise_silu"}},
           {{"fold_padding"}},                             // so that a scale in front of the pad reaches the weights
           {{"simplify_arithmetic", "fold_scale"}, 2},     // merged constants are folded once
           {{"select_early"}},                             // through products with their scales and biases in place
           {{"cancel_reshapes", "cancel_transposes"}, 4},  // of axes that have one place left
           {{"fold_constants"}},                           // what the passes above made of constants
           {{"share_subexpressions"}},
           {{"dead_code"}},
       }},
  };
  return list;
}

// For an `if` with a side that cannot be compiled as a branch.
Pipeline with_selection(Pipeline p) {
  p.name = "module";
  p.doc = "The same for a module with an if that cannot be compiled as a branch: it selects between the results.";
  // Once for each level of nesting; what a selection leaves of constants is folded at once.
  p.steps.insert(p.steps.begin() + 1, {{"select_branches", "fold_constants", "inline_branches"}, 4});
  return p;
}

}  // namespace

const std::vector<Pipeline>& pipelines() {
  static const std::vector<Pipeline> all = [] {
    std::vector<Pipeline> list = written();
    list.push_back(with_selection(list.back()));
    return list;
  }();
  return all;
}

}  // namespace isomer::passes
