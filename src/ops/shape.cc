// Operators that ask for a tensor's extents.
#include <algorithm>

#include "ir/op.h"

namespace isomer::ops {
namespace {

// The dims in [start, end), counted as Python's slices do.
std::vector<Dim> asked(const ir::OpContext& c) {
  const auto rank = static_cast<int64_t>(c.rank(0));
  const auto place = [&](int64_t at) {
    if (at < 0) at = at < -rank ? 0 : at + rank;
    return std::min(at, rank);
  };
  const int64_t from = place(c.integer("start"));
  const int64_t to = std::max(from, c.has_attr("end") ? place(c.integer("end")) : rank);
  const std::vector<Dim>& dims = c.shape(0).dims();
  return {dims.begin() + from, dims.begin() + to};
}

}  // namespace

ir::OpDef op_shape() {
  ir::OpDef op;
  op.name = "shape";
  op.doc = "The extents of a tensor's axes from start to end, as an i64 vector.";
  op.inputs = {{"data", "T", kAllTypes}};
  op.outputs = {{"shape", "i64"}};
  op.attrs = {{"start", ir::AttrKind::Int, int64_t{0}}, {"end", ir::AttrKind::Int}};
  op.infer_unranked = true;
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    const Dim n = c.shape(0).has_rank() ? Dim(static_cast<int64_t>(asked(c).size())) : Dim::invalid();
    return std::vector{c.out(0, Shape{n})};
  };
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    if (!c.shape(0).has_rank()) return c.error("the rank of input 'data' is not known");
    te::Builder b;
    c.declare(b);
    const std::vector<Dim> dims = asked(c);
    const std::vector<te::Expr> table(dims.begin(), dims.end());
    const Dim n[] = {Dim(static_cast<int64_t>(dims.size()))};
    return b.finish(
        {b.map("shape", DType::I64, n, [&](auto i) { return table.empty() ? te::Expr(0) : te::lookup(i[0], table); })});
  };
  op.samples = {"shape(f32[2,3])", "shape(f32[2,3,4]){start=1}", "shape(i32[5,4,3]){start=-2, end=-1}"};
  op.onnx = {{.type = "Shape", .since = {1, 13, 15, 19, 21, 23}, .stable = 15}};
  return op;
}

ir::OpDef op_size() {
  ir::OpDef op;
  op.name = "size";
  op.doc = "The number of elements of a tensor, as an i64 scalar.";
  op.inputs = {{"data", "T", kAllTypes}};
  op.outputs = {{"size", "i64"}};
  op.infer_unranked = true;
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> { return std::vector{c.out(0, Shape())}; };
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    if (!c.shape(0).has_rank()) return c.error("the rank of input 'data' is not known");
    te::Builder b;
    c.declare(b);
    return b.finish({b.map("size", DType::I64, {}, [&](auto) { return te::Expr(c.shape(0).elements()); })});
  };
  op.samples = {"size(f32[2,3])", "size(f32[])"};
  op.onnx = {{.type = "Size", .since = {1, 13, 19, 21, 23}, .stable = 1}};
  return op;
}

}  // namespace isomer::ops
