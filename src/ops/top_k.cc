#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ops/element_order.h"
#include "ops/legacy_inputs.h"
#include "ops/shape_operand.h"

namespace isomer::ops {
namespace {

Expected<std::vector<Type>> infer_top_k(const ir::OpContext& c) {
  ISOMER_TRY(const size_t axis, c.axis(c.integer("axis"), c.rank(0)));
  ISOMER_TRY(const auto k, scalar_operand(c, 1));
  const auto n = c.dim(0, axis).constant();
  if (k && k->is_const() && (k->value() < 0 || (n && k->value() > *n)))
    return c.error(
        fmt::format("k is {}, expected 0 to {}, the extent of axis {}", k->value(), c.dim(0, axis).to_string(), axis));
  std::vector<Dim> dims = c.shape(0).dims();
  dims[axis] = k.value_or(Dim::invalid());
  std::vector<Type> types{c.out(0, Shape(dims))};
  if (c.output_count() > 1) types.push_back(c.out(1, Shape(dims)));
  return types;
}

// The first k positions in order of value; equal values in order of position.
Expected<std::vector<Tensor>> top_k(const ir::OpContext& c) {
  const Tensor& x = *c.value(0);
  ISOMER_TRY(const size_t axis, c.axis(c.integer("axis"), x.rank()));
  const int64_t k = c.value(1)->integer(0), n = x.dims()[axis];
  const bool largest = c.flag("largest");
  int64_t inner = 1;
  for (size_t a = axis + 1; a < x.rank(); ++a) inner *= x.dims()[a];
  std::vector<int64_t> dims = x.dims();
  dims[axis] = k;
  Tensor values(x.dtype(), dims), indices(DType::I64, dims);
  const int64_t rows = n == 0 ? 0 : x.size() / n;
  std::vector<int64_t> order(static_cast<size_t>(n));
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t outer = r / inner, column = r % inner;
    const auto at = [&](int64_t i) { return (outer * n + i) * inner + column; };
    std::iota(order.begin(), order.end(), int64_t{0});
    std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
      return largest ? element_less(x, at(j), at(i)) : element_less(x, at(i), at(j));
    });
    for (int64_t i = 0; i < k; ++i) {
      const int64_t to = (outer * k + i) * inner + column, from = at(order[static_cast<size_t>(i)]);
      if (is_float(x.dtype()))
        values.set_real(to, x.real(from));
      else
        values.set_integer(to, x.integer(from));
      indices.set_integer(to, order[static_cast<size_t>(i)]);
    }
  }
  std::vector<Tensor> out{std::move(values)};
  if (c.output_count() > 1) out.push_back(std::move(indices));
  return out;
}

Expected<std::vector<ir::Value>> import_top_k(ir::ForeignNode& node, ir::GraphBuilder& builder) {
  if (node.version < 10)
    if (const auto k = take_int(node, "k")) put_input(node, 1, builder.constant(Tensor::ints({*k})));
  return ir::add_as_is(node, builder);
}

}  // namespace

ir::OpDef op_top_k() {
  ir::OpDef op;
  op.name = "top_k";
  op.doc = "The k largest or smallest elements along an axis and their positions; equal ones by lower position.";
  op.inputs = {{"x", "T", kNumbers}, {"k", "K", DType::I64}};
  op.outputs = {{"values", "T"}, {"indices", "i64"}};
  op.attrs = {{"axis", ir::AttrKind::Int, int64_t{-1}},
              {"largest", ir::AttrKind::Int, int64_t{1}},
              {"sorted", ir::AttrKind::Int, int64_t{1}}};
  op.infer = infer_top_k;
  op.kernel = top_k;
  op.samples = {"top_k(f32[3,5], [2])", "top_k(i32[4,3], [3]){axis=0, largest=0}"};
  op.onnx = {{.type = "TopK", .since = {1, 10, 11}, .stable = 11, .import = import_top_k}};
  return op;
}

}  // namespace isomer::ops
