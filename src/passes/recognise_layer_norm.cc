// (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) * scale + bias.
#include "passes/editor.h"
#include "passes/normal_form.h"

namespace isomer::passes {
namespace {

constexpr std::string_view kLayerNorm = "layer_normalization";

bool recognise_layer_norm_at(Editor& e, uint32_t id) {
  const auto found = normal(e, id);
  const ir::Node* centred = found ? e.made_by(found->x, "sub") : nullptr;
  if (!centred || mean_of(e, centred->inputs[1], found->axis) != centred->inputs[0]) return false;
  const Value x = centred->inputs[0];
  const Value scale = ones(e, x, found->axis);
  if (scale.is_none()) return false;
  const auto rank = static_cast<int64_t>(e.shape(x).rank());
  const int64_t axis = static_cast<int64_t>(found->axis) - rank;
  return e.replace({id, 0}, e.add(kLayerNorm, {x, scale}, {{"axis", axis}, {"epsilon", found->epsilon}}));
}

}  // namespace

Expected<ir::Graph> recognise_layer_norm(const ir::Graph& graph, PassContext& context) {
  return rewrite_everywhere(graph, context, [](Editor& e, uint32_t id) {
    return recognise_layer_norm_at(e, id) || take_scale(e, id, kLayerNorm) || take_bias(e, id, kLayerNorm);
  });
}

}  // namespace isomer::passes
