#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/op.h"

namespace isomer::ops {
namespace {

constexpr int kRounds = 100;

// The second method of Wu, Lin and Weng, "Probability estimates for multi-class classification by pairwise coupling".
std::vector<double> couple(size_t k, const double* r) {
  std::vector<double> q(k * k, 0), p(k, 1.0 / static_cast<double>(k)), qp(k);
  for (size_t i = 0; i < k; ++i)
    for (size_t j = 0; j < k; ++j)
      if (i != j) {
        q[i * k + i] += r[j * k + i] * r[j * k + i];
        q[i * k + j] = -r[j * k + i] * r[i * k + j];
      }
  const double tolerance = 0.005 / static_cast<double>(k);
  for (int round = 0; round < kRounds; ++round) {
    double pqp = 0, error = 0;
    for (size_t i = 0; i < k; ++i) {
      qp[i] = 0;
      for (size_t j = 0; j < k; ++j) qp[i] += q[i * k + j] * p[j];
      pqp += p[i] * qp[i];
    }
    for (size_t i = 0; i < k; ++i) error = std::max(error, std::abs(qp[i] - pqp));
    if (error < tolerance) break;
    for (size_t i = 0; i < k; ++i) {
      const double step = (pqp - qp[i]) / q[i * k + i];
      p[i] += step;
      pqp = (pqp + step * (step * q[i * k + i] + 2 * qp[i])) / ((1 + step) * (1 + step));
      for (size_t j = 0; j < k; ++j) {
        qp[j] = (qp[j] + step * q[i * k + j]) / (1 + step);
        p[j] /= 1 + step;
      }
    }
  }
  return p;
}

}  // namespace

ir::OpDef op_ml_couple() {
  ir::OpDef op;
  op.name = "ml_couple";
  op.doc = "Probabilities of classes from those of pairs of classes; element i, j is that of class i against class j.";
  op.inputs = {{"pairs", "T", DType::F64}};
  op.outputs = {{"probabilities", "T"}};
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    if (c.rank(0) != 3) return c.error(fmt::format("expected matrices of pairs, found {}", c.shape(0).to_string()));
    if (c.dim(0, 1).is_const() && c.dim(0, 2).is_const() && !(c.dim(0, 1) == c.dim(0, 2)))
      return c.error(fmt::format("expected square matrices, found the shape {}", c.shape(0).to_string()));
    return std::vector{c.out(0, Shape{c.dim(0, 0), c.dim(0, 1)})};
  };
  // It ends when the probabilities have settled, so this is no tensor expression.
  op.kernel = [](const ir::OpContext& c) -> Expected<std::vector<Tensor>> {
    const std::vector<double> pairs = c.value(0)->to_reals();
    const int64_t rows = c.dim(0, 0).value(), k = c.dim(0, 1).value();
    Tensor y(DType::F64, {rows, k});
    for (int64_t r = 0; r < rows; ++r) {
      const std::vector<double> p = couple(static_cast<size_t>(k), pairs.data() + r * k * k);
      for (int64_t i = 0; i < k; ++i) y.set_real(r * k + i, p[static_cast<size_t>(i)]);
    }
    return std::vector<Tensor>{y};
  };
  op.samples = {"ml_couple(f64[2,3,3] in 0..1)"};
  op.onnx = {{.type = "CouplePairs", .domain = "isomer"}};
  return op;
}

}  // namespace isomer::ops
