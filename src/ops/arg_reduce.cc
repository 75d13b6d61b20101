// Positions of extrema along an axis.
#include <fmt/format.h>

#include "ir/op.h"
#include "ops/legacy.h"
#include "ops/reduction.h"

namespace isomer::ops {
namespace {

using te::Combiner;

ir::OpDef arg_reduction(std::string name, std::string doc, std::string onnx, Combiner first, Combiner last) {
  ir::OpDef op;
  op.name = name;
  op.doc = std::move(doc);
  op.inputs = {{"data", "T", kNumbers}};
  op.outputs = {{"reduced", "i64"}};
  op.attrs = {{"axis", ir::AttrKind::Int, int64_t{0}},
              {"keepdims", ir::AttrKind::Int, int64_t{1}},
              {"select_last_index", ir::AttrKind::Int, int64_t{0}}};
  op.compute = [first, last](const ir::OpContext& c) -> Expected<te::Program> {
    const size_t rank = c.rank(0);
    ISOMER_TRY(const size_t axis, c.axis(c.integer("axis"), rank));
    if (c.dim(0, axis) == Dim(0)) return c.error(fmt::format("axis {} is empty, so it has no extremum", axis));
    te::Builder b;
    const auto in = c.declare(b);
    const te::Axis k = b.axis("k", c.dim(0, axis));
    std::vector<te::Axis> axes;
    std::vector<te::Expr> at;
    for (size_t i = 0; i < rank; ++i) {
      if (i != axis || c.flag("keepdims"))
        axes.push_back(b.axis(fmt::format("i{}", i), i == axis ? Dim(1) : c.dim(0, i)));
      at.emplace_back(i == axis ? k : axes.back());
    }
    const te::Expr position = te::reduce(c.flag("select_last_index") ? last : first, {k}, in[0].at(std::move(at)));
    return b.finish({b.stage("reduced", DType::I64, std::move(axes), position)});
  };
  for (const char* call : {"(f32[2,3])", "(f32[2,3]){axis=1,keepdims=0}", "(i32[2,3,2] in 0..3){axis=-2}",
                           "(i32[2,4] in 0..2){axis=-1,select_last_index=1}"})
    op.samples.push_back(name + call);
  op.onnx = {{.type = std::move(onnx), .since = {1, 11, 12, 13}}};
  return op;
}

}  // namespace

ir::OpDef op_arg_max() {
  return arg_reduction("arg_max", "Position of the largest value along an axis, the first or the last of equals.",
                       "ArgMax", Combiner::ArgMax, Combiner::ArgMaxLast);
}

ir::OpDef op_arg_min() {
  return arg_reduction("arg_min", "Position of the smallest value along an axis, the first or the last of equals.",
                       "ArgMin", Combiner::ArgMin, Combiner::ArgMinLast);
}

}  // namespace isomer::ops
