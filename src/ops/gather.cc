// Reads at indices that other tensors hold. A negative index counts from the end.
#include <fmt/format.h>

#include "ir/op.h"
#include "ops/shape_operand.h"

namespace isomer::ops {
namespace {

te::Expr wrapped(const te::Expr& index, const Dim& extent) {
  const te::Expr i = te::cast(DType::I64, index);
  return te::select(i < te::Expr(0), i + te::Expr(extent), i);
}

Expected<te::Program> gather(const ir::OpContext& c) {
  ISOMER_TRY(const size_t axis, c.axis(c.integer("axis"), c.rank(0)));
  te::Builder b;
  const auto in = c.declare(b);
  const size_t q = in[1].rank();
  std::vector<Dim> dims(in[0].dims().begin(), in[0].dims().begin() + static_cast<ptrdiff_t>(axis));
  dims.insert(dims.end(), in[1].dims().begin(), in[1].dims().end());
  dims.insert(dims.end(), in[0].dims().begin() + static_cast<ptrdiff_t>(axis) + 1, in[0].dims().end());
  return b.finish({b.map("output", c.dtype(0), dims, [&](auto i) {
    const auto part = [&](size_t from, size_t to) {
      return std::vector<te::Expr>(i.begin() + static_cast<ptrdiff_t>(from), i.begin() + static_cast<ptrdiff_t>(to));
    };
    std::vector<te::Expr> index = part(0, axis);
    index.push_back(wrapped(in[1].at(part(axis, axis + q)), in[0].dim(axis)));
    const std::vector<te::Expr> rest = part(axis + q, i.size());
    index.insert(index.end(), rest.begin(), rest.end());
    return in[0].at(std::move(index));
  })});
}

Expected<te::Program> gather_elements(const ir::OpContext& c) {
  if (c.rank(0) != c.rank(1))
    return c.error(fmt::format("data and indices must have one rank, found {} and {}", c.rank(0), c.rank(1)));
  ISOMER_TRY(const size_t axis, c.axis(c.integer("axis"), c.rank(0)));
  for (size_t a = 0; a < c.rank(0); ++a)
    if (a != axis && c.dim(0, a).is_const() && c.dim(1, a).is_const() && c.dim(1, a).value() > c.dim(0, a).value())
      return c.error(fmt::format("indices have extent {} on axis {}, where data has {}", c.dim(1, a).value(), a,
                                 c.dim(0, a).value()));
  te::Builder b;
  const auto in = c.declare(b);
  return b.finish({b.map("output", c.dtype(0), in[1].dims(), [&](auto i) {
    std::vector<te::Expr> index(i.begin(), i.end());
    index[axis] = wrapped(in[1].at(index), in[0].dim(axis));
    return in[0].at(std::move(index));
  })});
}

Expected<te::Program> gather_nd(const ir::OpContext& c) {
  const int64_t batch_attr = c.integer("batch_dims");
  if (c.rank(0) == 0 || c.rank(1) == 0) return c.error("expected data and indices of rank 1 or more");
  const size_t r = c.rank(0), q = c.rank(1);
  if (batch_attr < 0 || batch_attr >= static_cast<int64_t>(std::min(r, q)))
    return c.error(fmt::format("batch_dims {} is out of range for ranks {} and {}", batch_attr, r, q));
  const auto batch = static_cast<size_t>(batch_attr);
  const auto depth = c.dim(1, q - 1).constant();
  if (!depth) return c.error("the last extent of input 'indices' must be known");
  if (*depth < 0 || *depth > static_cast<int64_t>(r - batch))
    return c.error(
        fmt::format("indices of {} numbers do not fit data of rank {} with batch_dims {}", *depth, r, batch));
  const auto n = static_cast<size_t>(*depth);
  std::vector<Dim> dims;
  for (size_t a = 0; a < batch; ++a) {
    ISOMER_TRY(const Dim d, same_dim(c, c.dim(0, a), c.dim(1, a), "batch extents"));
    dims.push_back(d);
  }
  for (size_t a = batch; a + 1 < q; ++a) dims.push_back(c.dim(1, a));
  for (size_t a = batch + n; a < r; ++a) dims.push_back(c.dim(0, a));
  te::Builder b;
  const auto in = c.declare(b);
  return b.finish({b.map("output", c.dtype(0), dims, [&](auto i) {
    std::vector<te::Expr> index(i.begin(), i.begin() + static_cast<ptrdiff_t>(batch));
    for (size_t k = 0; k < n; ++k) {
      std::vector<te::Expr> at(i.begin(), i.begin() + static_cast<ptrdiff_t>(q - 1));
      at.emplace_back(static_cast<int64_t>(k));
      index.push_back(wrapped(in[1].at(std::move(at)), in[0].dim(batch + k)));
    }
    index.insert(index.end(), i.begin() + static_cast<ptrdiff_t>(q - 1), i.end());
    return in[0].at(std::move(index));
  })});
}

}  // namespace

ir::OpDef op_gather() {
  ir::OpDef op;
  op.name = "gather";
  op.doc = "Slices of data along an axis, at the positions that indices holds.";
  op.inputs = {{"data", "T", kAllTypes}, {"indices", "I", kIndexInts}};
  op.outputs = {{"output", "T"}};
  op.attrs = {{"axis", ir::AttrKind::Int, int64_t{0}}};
  op.compute = gather;
  op.samples = {"gather(f32[4,3], i64[2] in 0..4)", "gather(f32[2,5], i32[2,2] in -5..5){axis=1}",
                "gather(i64[4], i64 -1)"};
  op.onnx = {{.type = "Gather", .since = {1, 11, 13}, .stable = 11}};
  return op;
}

ir::OpDef op_gather_elements() {
  ir::OpDef op;
  op.name = "gather_elements";
  op.doc = "Each element read from data at its own place, with the index along one axis taken from indices.";
  op.inputs = {{"data", "T", kAllTypes}, {"indices", "I", kIndexInts}};
  op.outputs = {{"output", "T"}};
  op.attrs = {{"axis", ir::AttrKind::Int, int64_t{0}}};
  op.compute = gather_elements;
  op.samples = {"gather_elements(f32[3,3], i64[2,3] in 0..3)", "gather_elements(i32[2,4], i32[2,5] in -4..4){axis=1}"};
  op.onnx = {{.type = "GatherElements", .since = {11, 13}, .stable = 11}};
  return op;
}

ir::OpDef op_gather_nd() {
  ir::OpDef op;
  op.name = "gather_nd";
  op.doc = "Slices of data at the multi-dimensional positions held by the last axis of indices.";
  op.inputs = {{"data", "T", kAllTypes}, {"indices", "I", DType::I64}};
  op.outputs = {{"output", "T"}};
  op.attrs = {{"batch_dims", ir::AttrKind::Int, int64_t{0}}};
  op.compute = gather_nd;
  op.samples = {"gather_nd(f32[2,3], i64[4,2] in 0..2)", "gather_nd(f32[2,3], i64[2,1] in -2..2)",
                "gather_nd(f32[2,3,2], i64[2,1] in 0..3){batch_dims=1}"};
  op.onnx = {{.type = "GatherND", .since = {11, 12, 13}, .stable = 12}};
  return op;
}

}  // namespace isomer::ops
