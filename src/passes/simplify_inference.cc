// What only training needs goes: identities, dropouts that drop nothing, and batch normalisations by given statistics,
// which are one product and one sum a channel.
#include <cmath>

#include "passes/channel.h"
#include "passes/editor.h"
#include "passes/linear.h"

namespace isomer::passes {
namespace {

bool drop_identity(Editor& e, uint32_t id) { return e.replace({id, 0}, e.node(id).inputs[0]); }

// A dropout that is told at run time whether to train stays.
bool drop_dropout(Editor& e, uint32_t id) {
  const ir::Node& n = e.node(id);
  if (e.uses({id, 0}) == 0) return false;
  if (n.inputs.size() > 2 && !n.inputs[2].is_none()) {
    const Tensor* training = e.constant(n.inputs[2]);
    if (!training || training->size() != 1) return false;
    const Tensor* ratio = e.constant(n.inputs[1]);
    if (training->integer(0) != 0 && !(ratio && ratio->size() == 1 && ratio->real(0) == 0)) return false;
  }
  return e.replace({id, 0}, n.inputs[0]);
}

// One that fold_scale can put into the weights before it stays whole, so that those are rounded once.
bool unfold_batch_norm(Editor& e, uint32_t id) {
  const auto affine = batch_norm_affine(e, id);
  if (!affine || !affine->finite()) return false;
  if (e.uses(affine->x) == 1 && linear(e, affine->x.node)) return false;
  const ir::Node& n = e.node(id);
  const Shape& shape = e.shape(n.inputs[0]);
  std::vector<int64_t> dims(shape.rank() < 2 ? 1 : shape.rank() - 1, 1);
  dims[0] = static_cast<int64_t>(affine->scale.size());
  const DType dtype = e.type({id, 0}).dtype;
  const Value scale = e.constant(Tensor::of(dtype, dims, affine->scale));
  const Value shift = e.constant(Tensor::of(dtype, dims, affine->shift));
  return e.replace({id, 0}, e.add("add", {e.add("mul", {n.inputs[0], scale}), shift}));
}

}  // namespace

Expected<ir::Graph> simplify_inference(const ir::Graph& graph, PassContext& context) {
  return rewrite_everywhere(graph, context, [](Editor& e, uint32_t id) {
    const std::string& op = e.node(id).op->name;
    if (op == "identity") return drop_identity(e, id);
    if (op == "dropout") return drop_dropout(e, id);
    return op == "batch_normalization" && unfold_batch_norm(e, id);
  });
}

}  // namespace isomer::passes
