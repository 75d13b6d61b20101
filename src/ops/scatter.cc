// Writes at indices that other tensors hold. A negative index counts from the end.
#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "ir/op.h"
#include "te/scalar.h"

namespace isomer::ops {
namespace {

enum class Reduction { None, Add, Mul, Min, Max };

Expected<Reduction> reduction(const ir::OpContext& c) {
  const std::string& r = c.text("reduction");
  if (r == "none") return Reduction::None;
  if (r == "add") return Reduction::Add;
  if (r == "mul") return Reduction::Mul;
  if (r == "min") return Reduction::Min;
  if (r == "max") return Reduction::Max;
  return c.error(fmt::format("reduction {} is none of none, add, mul, min, max", quoted(r)));
}

te::BinaryOp combining(Reduction r) {
  switch (r) {
    case Reduction::Add: return te::BinaryOp::Add;
    case Reduction::Mul: return te::BinaryOp::Mul;
    case Reduction::Min: return te::BinaryOp::Min;
    default: return te::BinaryOp::Max;
  }
}

// On Bool sums and maxima are "or", products and minima are "and".
int64_t combine_bools(Reduction r, int64_t a, int64_t b) {
  return r == Reduction::Add || r == Reduction::Max ? (a | b) : (a & b);
}

void put(Tensor& out, int64_t at, const Tensor& updates, int64_t from, Reduction r) {
  if (is_float(out.dtype())) {
    const double v = updates.real(from);
    out.set_real(at, r == Reduction::None ? v : te::real_binary(combining(r), out.real(at), v));
    return;
  }
  int64_t v = updates.integer(from);
  if (r != Reduction::None)
    v = out.dtype() == DType::Bool ? combine_bools(r, out.integer(at), v)
                                   : te::int_binary(combining(r), out.dtype(), out.integer(at), v).value_or(v);
  out.set_integer(at, v);
}

Tensor copy_of(const Tensor& t) {
  Tensor out(t.dtype(), t.dims());
  if (t.byte_size() > 0) std::memcpy(out.mutable_bytes(), t.bytes(), t.byte_size());
  return out;
}

Expected<int64_t> checked_index(const ir::OpContext& c, int64_t index, int64_t extent) {
  if (index < -extent || index >= extent)
    return c.error(fmt::format("index {} is out of range for an axis of extent {}", index, extent));
  return index < 0 ? index + extent : index;
}

// The number of elements in one step along each axis.
std::vector<int64_t> strides(const std::vector<int64_t>& dims) {
  std::vector<int64_t> out(dims.size(), 1);
  for (size_t a = dims.size(); a-- > 1;) out[a - 1] = out[a] * dims[a];
  return out;
}

Expected<std::vector<Type>> infer_elements(const ir::OpContext& c) {
  ISOMER_CHECK_OK(reduction(c));
  if (c.rank(0) != c.rank(1) || c.rank(1) != c.rank(2))
    return c.error(fmt::format("data, indices and updates must have one rank, found {}, {} and {}", c.rank(0),
                               c.rank(1), c.rank(2)));
  ISOMER_TRY(const size_t axis, c.axis(c.integer("axis"), c.rank(0)));
  for (size_t a = 0; a < c.rank(0); ++a) {
    const auto n = c.dim(0, a).constant(), i = c.dim(1, a).constant(), u = c.dim(2, a).constant();
    if (i && u && *i != *u)
      return c.error(fmt::format("indices and updates must have one shape, found extents {} and {}", *i, *u));
    if (a != axis && n && i && *i > *n)
      return c.error(fmt::format("indices have extent {} on axis {}, where data has {}", *i, a, *n));
  }
  return std::vector{c.out(0, c.shape(0))};
}

Expected<std::vector<Tensor>> scatter_elements(const ir::OpContext& c) {
  ISOMER_TRY(const Reduction r, reduction(c));
  const Tensor &data = *c.value(0), &indices = *c.value(1), &updates = *c.value(2);
  ISOMER_TRY(const size_t axis, c.axis(c.integer("axis"), data.rank()));
  Tensor out = copy_of(data);
  const std::vector<int64_t> step = strides(data.dims());
  for (int64_t p = 0; p < indices.size(); ++p) {
    int64_t rest = p, at = 0;
    for (size_t a = data.rank(); a-- > 0; rest /= indices.dims()[a])
      if (a != axis) at += rest % indices.dims()[a] * step[a];
    ISOMER_TRY(const int64_t i, checked_index(c, indices.integer(p), data.dims()[axis]));
    put(out, at + i * step[axis], updates, p, r);
  }
  return std::vector{std::move(out)};
}

Expected<std::vector<Type>> infer_nd(const ir::OpContext& c) {
  ISOMER_CHECK_OK(reduction(c));
  if (c.rank(0) == 0 || c.rank(1) == 0) return c.error("expected data and indices of rank 1 or more");
  const size_t q = c.rank(1), r = c.rank(0);
  if (const auto depth = c.dim(1, q - 1).constant()) {
    if (*depth < 0 || *depth > static_cast<int64_t>(r))
      return c.error(fmt::format("indices of {} numbers do not fit data of rank {}", *depth, r));
    std::vector<Dim> expected(c.shape(1).dims().begin(), c.shape(1).dims().end() - 1);
    expected.insert(expected.end(), c.shape(0).dims().begin() + *depth, c.shape(0).dims().end());
    bool fits = c.rank(2) == expected.size();
    for (size_t a = 0; fits && a < expected.size(); ++a)
      fits = !expected[a].is_const() || !c.dim(2, a).is_const() || expected[a] == c.dim(2, a);
    if (!fits)
      return c.error(
          fmt::format("updates must have shape {}, found {}", Shape(expected).to_string(), c.shape(2).to_string()));
  }
  return std::vector{c.out(0, c.shape(0))};
}

Expected<std::vector<Tensor>> scatter_nd(const ir::OpContext& c) {
  ISOMER_TRY(const Reduction r, reduction(c));
  const Tensor &data = *c.value(0), &indices = *c.value(1), &updates = *c.value(2);
  const auto depth = static_cast<size_t>(indices.dims().back());
  const std::vector<int64_t> step = strides(data.dims());
  int64_t slice = 1, count = 1;
  for (size_t a = depth; a < data.rank(); ++a) slice *= data.dims()[a];
  for (size_t a = 0; a + 1 < indices.rank(); ++a) count *= indices.dims()[a];
  Tensor out = copy_of(data);
  for (int64_t p = 0; p < count; ++p) {
    int64_t at = 0;
    for (size_t k = 0; k < depth; ++k) {
      const int64_t written = indices.integer(p * static_cast<int64_t>(depth) + static_cast<int64_t>(k));
      ISOMER_TRY(const int64_t i, checked_index(c, written, data.dims()[k]));
      at += i * step[k];
    }
    for (int64_t e = 0; e < slice; ++e) put(out, at + e, updates, p * slice + e, r);
  }
  return std::vector{std::move(out)};
}

}  // namespace

ir::OpDef op_scatter_elements() {
  ir::OpDef op;
  op.name = "scatter_elements";
  op.doc = "A copy of data with elements of updates written, or combined, at indices along one axis.";
  op.inputs = {{"data", "T", kAllTypes}, {"indices", "I", kIndexInts}, {"updates", "T", kAllTypes}};
  op.outputs = {{"output", "T"}};
  op.attrs = {{"axis", ir::AttrKind::Int, int64_t{0}}, {"reduction", ir::AttrKind::String, std::string("none")}};
  op.infer = infer_elements;
  op.kernel = scatter_elements;
  op.samples = {"scatter_elements(f32[3,3], i64[1,3] in 0..3, f32[1,3])",
                "scatter_elements(f32[1,5], i64[1,2] in -5..5, f32[1,2]){axis=1, reduction=\"add\"}"};
  op.onnx = {{.type = "ScatterElements", .since = {11, 13, 16, 18}, .stable = 18},
             {.type = "Scatter", .since = {9, 11}, .stable = 9}};
  return op;
}

ir::OpDef op_scatter_nd() {
  ir::OpDef op;
  op.name = "scatter_nd";
  op.doc = "A copy of data with slices of updates written, or combined, at multi-dimensional positions.";
  op.inputs = {{"data", "T", kAllTypes}, {"indices", "I", DType::I64}, {"updates", "T", kAllTypes}};
  op.outputs = {{"output", "T"}};
  op.attrs = {{"reduction", ir::AttrKind::String, std::string("none")}};
  op.infer = infer_nd;
  op.kernel = scatter_nd;
  op.samples = {"scatter_nd(f32[4,3], i64[2,1] in 0..4, f32[2,3]){reduction=\"add\"}",
                "scatter_nd(f32[4,3], i64[5,2] in 0..3, f32[5]){reduction=\"max\"}"};
  op.onnx = {{.type = "ScatterND", .since = {11, 13, 16, 18}, .stable = 18}};
  return op;
}

}  // namespace isomer::ops
