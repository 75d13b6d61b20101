#include <fmt/format.h>

#include "ir/op.h"
#include "ops/legacy.h"

namespace isomer::ops {
namespace {

// Below opset 11 the bounds were attributes.
Imported import_clip(ir::ForeignNode& node, ir::GraphBuilder& builder) {
  if (node.version >= 11 || node.inputs.size() != 1 || node.inputs[0].is_none()) return add_as_is(node, builder);
  node.attrs.erase("consumed_inputs");
  const DType dtype = builder.type(node.inputs[0]).dtype;
  for (const char* bound : {"min", "max"}) {
    const double* v = node.attrs.get<double>(bound);
    node.inputs.push_back(v ? builder.constant(Tensor::scalar(dtype, *v)) : ir::Value::none());
    node.attrs.erase(bound);
  }
  return add_as_is(node, builder);
}

}  // namespace

ir::OpDef op_clip() {
  ir::OpDef op;
  op.name = "clip";
  op.doc = "x brought into [min, max]; max wins where the bounds cross, and an absent bound does not bind.";
  op.inputs = {{"input", "T", kNumbers},
               {"min", "T", kNumbers, ir::Arity::Optional},
               {"max", "T", kNumbers, ir::Arity::Optional}};
  op.outputs = {{"output", "T"}};
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    for (size_t i : {1, 2}) {
      if (!c.has(i) || !c.shape(i).has_rank()) continue;
      const Dim n = c.shape(i).elements();
      if (n.is_const() && n.value() != 1)
        return c.error(fmt::format("expected a scalar as '{}', found the shape {}", c.op().inputs[i].name,
                                   c.shape(i).to_string()));
    }
    return std::vector{c.out(0, c.shape(0))};
  };
  op.infer_unranked = true;
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    te::Builder b;
    const auto in = c.declare(b);
    const auto bound = [&](size_t i) { return in[i].at(std::vector<te::Expr>(in[i].rank(), te::Expr(0))); };
    return b.finish({b.map("output", c.dtype(0), in[0].dims(), [&](auto i) {
      te::Expr y = in[0].at({i.begin(), i.end()});
      if (c.has(1)) y = max(y, bound(1));
      if (c.has(2)) y = min(y, bound(2));
      return y;
    })});
  };
  op.laws = {"clip(clip(?x, ?a, ?b), ?a, ?b) == clip(?x, ?a, ?b)"};
  op.samples = {"clip(f32[2,3], f32[] -0.5, f32[] 0.5)", "clip(f32[2,3], _, f32[] 0.25)", "clip(i32[4], i32[] -1)",
                "clip(f32[3])"};
  op.onnx = {{.type = "Clip", .since = {1, 6, 11, 12, 13}, .stable = 11, .import = import_clip}};
  return op;
}

}  // namespace isomer::ops
