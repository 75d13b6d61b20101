// Exporters write a group normalisation as an instance normalisation of the groups, between two reshapes.
#include "passes/editor.h"

namespace isomer::passes {
namespace {

// One number for each channel from one for each group.
Value by_channel(Editor& e, const Tensor& by_group, int64_t channels) {
  Tensor out(by_group.dtype(), {channels});
  for (int64_t c = 0; c < channels; ++c) out.set_real(c, by_group.real(c / (channels / by_group.size())));
  return e.constant(std::move(out));
}

bool recognise_group_norm_at(Editor& e, uint32_t id) {
  const ir::Node* norm = e.made_by(e.node(id).inputs[0], "instance_normalization");
  const ir::Node* split = norm && e.uses(e.node(id).inputs[0]) == 1 ? e.made_by(norm->inputs[0], "reshape") : nullptr;
  if (!split) return false;
  const Value x = split->inputs[0];
  const Shape &from = e.shape(x), &to = e.shape({id, 0}), &groups = e.shape(norm->inputs[0]);
  if (!from.is_static() || !to.is_static() || !groups.is_static() || from.values() != to.values()) return false;
  if (from.rank() < 3 || groups.rank() < 3 || from.values()[0] != groups.values()[0]) return false;
  const int64_t channels = from.values()[1], count = groups.values()[1];
  const Tensor *scale = e.constant(norm->inputs[1]), *bias = e.constant(norm->inputs[2]);
  if (!scale || !bias || count < 1 || channels % count != 0) return false;
  const double* epsilon = norm->attrs.get<double>("epsilon");
  const Value by_scale = by_channel(e, *scale, channels), by_bias = by_channel(e, *bias, channels);
  ir::Attrs attrs = {{"num_groups", count}};
  if (epsilon) attrs.set("epsilon", *epsilon);
  return e.replace({id, 0}, e.add("group_normalization", {x, by_scale, by_bias}, std::move(attrs)));
}

}  // namespace

Expected<ir::Graph> recognise_group_norm(const ir::Graph& graph, PassContext& context) {
  return rewrite_everywhere(graph, context, [](Editor& e, uint32_t id) {
    return e.node(id).op->name == "reshape" && recognise_group_norm_at(e, id);
  });
}

}  // namespace isomer::passes
