#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "ir/op.h"

namespace isomer::ops {
namespace {

// Elimination with row exchanges, destroying `a` (n x n, row-major).
double determinant(std::vector<double>& a, size_t n) {
  double det = 1;
  for (size_t k = 0; k < n; ++k) {
    size_t pivot = k;
    for (size_t i = k + 1; i < n; ++i)
      if (std::fabs(a[i * n + k]) > std::fabs(a[pivot * n + k])) pivot = i;
    if (pivot != k) {
      for (size_t j = 0; j < n; ++j) std::swap(a[pivot * n + j], a[k * n + j]);
      det = -det;
    }
    det *= a[k * n + k];
    if (a[k * n + k] == 0) return 0;
    for (size_t i = k + 1; i < n; ++i) {
      const double f = a[i * n + k] / a[k * n + k];
      for (size_t j = k; j < n; ++j) a[i * n + j] -= f * a[k * n + j];
    }
  }
  return det;
}

}  // namespace

ir::OpDef op_det() {
  ir::OpDef op;
  op.name = "det";
  op.doc = "Determinants of the square matrices in the last two axes.";
  op.inputs = {{"x", "T", kFloats}};
  op.outputs = {{"y", "T"}};
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    if (c.rank(0) < 2) return c.error(fmt::format("expected matrices, found the shape {}", c.shape(0).to_string()));
    std::vector<Dim> dims = c.shape(0).dims();
    const Dim columns = dims.back();
    dims.pop_back();
    if (columns.is_const() && dims.back().is_const() && !(columns == dims.back()))
      return c.error(fmt::format("expected square matrices, found the shape {}", c.shape(0).to_string()));
    dims.pop_back();
    return std::vector{c.out(0, Shape(std::move(dims)))};
  };
  // The pivot depends on the data, so this is no tensor expression.
  op.kernel = [](const ir::OpContext& c) -> Expected<std::vector<Tensor>> {
    const Tensor& x = *c.value(0);
    std::vector<int64_t> dims(x.dims().begin(), x.dims().end() - 2);
    const int64_t n = x.dims().back();
    Tensor y(x.dtype(), dims);
    for (int64_t m = 0; m < y.size(); ++m) {
      std::vector<double> a;
      for (int64_t i = 0; i < n * n; ++i) a.push_back(x.real(m * n * n + i));
      y.set_real(m, determinant(a, static_cast<size_t>(n)));
    }
    return std::vector{std::move(y)};
  };
  op.laws = {"det(matmul(?a, ?b)) == mul(det(?a), det(?b))"};
  op.samples = {"det(f32[3,3])", "det(f32[2,4,4])", "det(f32[2,0,0])"};
  op.onnx = {{.type = "Det", .since = {11, 22}, .stable = 11}};
  return op;
}

}  // namespace isomer::ops
