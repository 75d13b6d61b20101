// Operators whose result is as long as the data says: positions of nonzero elements, and slices where a mask holds.
#include <fmt/format.h>

#include <cstring>

#include "ir/op.h"

namespace isomer::ops {
namespace {

bool nonzero(const Tensor& t, int64_t i) { return is_float(t.dtype()) ? t.real(i) != 0 : t.integer(i) != 0; }

Expected<std::vector<Type>> infer_non_zero(const ir::OpContext& c) {
  return std::vector{c.out(0, Shape{Dim(static_cast<int64_t>(c.rank(0))), Dim::invalid()})};
}

// One row per axis, one column per nonzero element in row-major order. A scalar counts as a vector without axes.
Expected<std::vector<Tensor>> non_zero(const ir::OpContext& c) {
  const Tensor& x = *c.value(0);
  std::vector<int64_t> found;
  for (int64_t i = 0; i < x.size(); ++i)
    if (nonzero(x, i)) found.push_back(i);
  const auto n = static_cast<int64_t>(found.size());
  Tensor out(DType::I64, {static_cast<int64_t>(x.rank()), n});
  for (int64_t k = 0; k < n; ++k) {
    int64_t rest = found[static_cast<size_t>(k)];
    for (size_t a = x.rank(); a-- > 0; rest /= x.dims()[a])
      out.set_integer(static_cast<int64_t>(a) * n + k, rest % x.dims()[a]);
  }
  return std::vector{std::move(out)};
}

Expected<std::vector<Type>> infer_compress(const ir::OpContext& c) {
  if (c.rank(1) != 1)
    return c.error(fmt::format("input 'condition' must be a vector, found {}", c.type(1).to_string()));
  if (!c.has_attr("axis")) return std::vector{c.out(0, Shape{Dim::invalid()})};
  ISOMER_TRY(const size_t axis, c.axis(c.integer("axis"), c.rank(0)));
  const auto n = c.dim(0, axis).constant(), m = c.dim(1, 0).constant();
  if (n && m && *m > *n) return c.error(fmt::format("input 'condition' has {} entries for extent {}", *m, *n));
  std::vector<Dim> dims = c.shape(0).dims();
  dims[axis] = Dim::invalid();
  return std::vector{c.out(0, Shape(std::move(dims)))};
}

Expected<std::vector<Tensor>> compress(const ir::OpContext& c) {
  const bool flat = !c.has_attr("axis");
  const Tensor x = flat ? c.value(0)->reshaped({c.value(0)->size()}) : *c.value(0);
  const Tensor& condition = *c.value(1);
  size_t axis = 0;
  if (!flat) {
    ISOMER_TRY(axis, c.axis(c.integer("axis"), x.rank()));
  }
  if (condition.size() > x.dims()[axis])
    return c.error(fmt::format("input 'condition' has {} entries for {}", condition.size(), x.dims()[axis]));
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < condition.size(); ++i)
    if (condition.integer(i)) kept.push_back(i);
  std::vector<int64_t> dims = x.dims();
  dims[axis] = static_cast<int64_t>(kept.size());
  Tensor out(x.dtype(), dims);
  int64_t inner = static_cast<int64_t>(size_of(x.dtype())), outer = 1;
  for (size_t a = axis + 1; a < x.rank(); ++a) inner *= x.dims()[a];
  for (size_t a = 0; a < axis; ++a) outer *= x.dims()[a];
  std::byte* to = out.mutable_bytes();
  for (int64_t o = 0; o < outer && out.size() > 0; ++o)
    for (int64_t i : kept) {
      std::memcpy(to, x.bytes() + (o * x.dims()[axis] + i) * inner, static_cast<size_t>(inner));
      to += inner;
    }
  return std::vector{std::move(out)};
}

}  // namespace

ir::OpDef op_non_zero() {
  ir::OpDef op;
  op.name = "non_zero";
  op.doc = "Positions of the nonzero elements in row-major order: one row per axis, one column per element.";
  op.inputs = {{"x", "T", kAllTypes}};
  op.outputs = {{"y", "i64"}};
  op.infer = infer_non_zero;
  op.kernel = non_zero;
  op.samples = {"non_zero(i32[3,4] in 0..2)", "non_zero(bool[5])"};
  op.onnx = {{.type = "NonZero", .since = {9, 13}, .stable = 9}};
  return op;
}

ir::OpDef op_compress() {
  ir::OpDef op;
  op.name = "compress";
  op.doc = "The slices along an axis, or the elements of the flattened input, where the condition holds.";
  op.inputs = {{"input", "T", kAllTypes}, {"condition", "C", DType::Bool}};
  op.outputs = {{"output", "T"}};
  op.attrs = {{"axis", ir::AttrKind::Int}};
  op.infer = infer_compress;
  op.kernel = compress;
  op.samples = {"compress(f32[3,2], bool[3]){axis=0}", "compress(i32[3,2], bool[5])"};
  op.onnx = {{.type = "Compress", .since = {9, 11}, .stable = 11}};
  return op;
}

}  // namespace isomer::ops
