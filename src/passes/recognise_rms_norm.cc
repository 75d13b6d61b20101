// x / sqrt(mean(x^2) + epsilon) * scale.
#include "passes/editor.h"
#include "passes/normal_form.h"

namespace isomer::passes {
namespace {

constexpr std::string_view kRmsNorm = "rms_normalization";

bool recognise_rms_norm_at(Editor& e, uint32_t id) {
  const auto found = normal(e, id);
  if (!found) return false;
  const Value scale = ones(e, found->x, found->axis);
  if (scale.is_none()) return false;
  const int64_t axis = static_cast<int64_t>(found->axis) - static_cast<int64_t>(e.shape(found->x).rank());
  return e.replace({id, 0}, e.add(kRmsNorm, {found->x, scale}, {{"axis", axis}, {"epsilon", found->epsilon}}));
}

}  // namespace

Expected<ir::Graph> recognise_rms_norm(const ir::Graph& graph, PassContext& context) {
  return rewrite_everywhere(graph, context, [](Editor& e, uint32_t id) {
    return recognise_rms_norm_at(e, id) || take_scale(e, id, kRmsNorm);
  });
}

}  // namespace isomer::passes
