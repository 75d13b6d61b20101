// Support vector machines: ai.onnx.ml's SVMClassifier and SVMRegressor.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/arithmetic.h"
#include "ir/op.h"
#include "ops/ml_scores.h"

namespace isomer::ops {
namespace {

enum class Kernel : uint8_t { Linear, Poly, Rbf, Sigmoid };

// Vectors (support vectors, or the coefficients of a linear model) that rows are compared with by a kernel.
struct Machine {
  Kernel kernel = Kernel::Linear;
  double gamma = 0, offset = 0, degree = 3;
  std::vector<double> coefficients, vectors, rho;
  size_t count = 0, features = 0;
  PostTransform transform = PostTransform::None;
  Rows rows;

  double compare(const double* row, const double* vector) const {
    double sum = 0;
    for (size_t i = 0; i < features; ++i) {
      const double d = row[i] - vector[i];
      sum += kernel == Kernel::Rbf ? d * d : row[i] * vector[i];
    }
    switch (kernel) {
      case Kernel::Linear: return sum;
      case Kernel::Poly: return std::pow(gamma * sum + offset, degree);
      case Kernel::Rbf: return std::exp(-gamma * sum);
      case Kernel::Sigmoid: return std::tanh(gamma * sum + offset);
    }
    return sum;
  }
};

// `count` support vectors; none makes a linear model whose coefficients are `rows` vectors.
Expected<Machine> machine_of(const ir::OpContext& c, int64_t count, size_t rows) {
  Machine m;
  constexpr const char* names[] = {"LINEAR", "POLY", "RBF", "SIGMOID"};
  const std::string& kernel = c.text("kernel_type");
  const auto found = std::find(std::begin(names), std::end(names), kernel);
  if (found == std::end(names)) return c.error(fmt::format("unknown kernel_type {}", quoted(kernel)));
  m.kernel = static_cast<Kernel>(found - std::begin(names));
  const std::vector<double> p = c.reals("kernel_params");
  if (!p.empty() && p.size() != 3) return c.error(fmt::format("'kernel_params' has {} elements, expected 3", p.size()));
  if (!p.empty()) m.gamma = p[0], m.offset = p[1], m.degree = p[2];
  m.coefficients = c.reals("coefficients");
  m.vectors = c.reals("support_vectors");
  m.rho = c.reals("rho");
  if (m.coefficients.empty() || m.rho.empty()) return c.error("'coefficients' and 'rho' must not be empty");
  if (count < 0) return c.error(fmt::format("the number of support vectors is {}", count));
  if (count == 0) {
    m.kernel = Kernel::Linear;
    m.vectors = m.coefficients;
  }
  m.count = count == 0 ? rows : static_cast<size_t>(count);
  if (m.vectors.size() % m.count != 0)
    return c.error(fmt::format("{} numbers do not make {} vectors", m.vectors.size(), m.count));
  m.features = m.vectors.size() / m.count;
  ISOMER_TRY(m.transform, post_transform_of(c));
  ISOMER_TRY(m.rows, rows_of(c));
  if (m.rows.features.is_const() && m.rows.features.value() != static_cast<int64_t>(m.features))
    return c.error(fmt::format("rows have {} features, the vectors {}", m.rows.features.value(), m.features));
  return m;
}

struct Classifier {
  Machine machine;
  std::vector<int64_t> labels, per_class;
  std::vector<size_t> start;
  std::vector<double> prob_a, prob_b;
  bool linear = false, positive = true;
  size_t classes() const { return labels.size(); }
  size_t pairs() const { return classes() * (classes() - 1) / 2; }
  size_t columns() const {
    if (linear || !prob_a.empty()) return classes();
    return classes() > 2 ? pairs() : 2;
  }
};

Expected<Classifier> classifier_of(const ir::OpContext& c) {
  Classifier r;
  ISOMER_TRY(r.labels, int_labels(c, "classlabels_ints", "classlabels_strings"));
  if (r.classes() > 65535) return c.error("more than 65535 classes");
  r.per_class = c.ints("vectors_per_class");
  int64_t total = 0;
  for (int64_t n : r.per_class) {
    const auto sum = checked_add(total, n);
    if (n < 0 || !sum) return c.error(fmt::format("a class has {} support vectors", n));
    r.start.push_back(static_cast<size_t>(total));
    total = *sum;
  }
  r.linear = total == 0;
  if (!r.linear && r.per_class.size() != r.classes())
    return c.error(fmt::format("'vectors_per_class' has {} elements for {} classes", r.per_class.size(), r.classes()));
  ISOMER_TRY(r.machine, machine_of(c, total, r.classes()));
  r.prob_a = c.reals("prob_a");
  r.prob_b = c.reals("prob_b");
  const size_t coefficients = r.machine.coefficients.size();
  // The product cannot overflow: the vectors have been counted, and classes are few.
  if (!r.linear &&
      (r.classes() < 2 || r.machine.vectors.empty() || coefficients != (r.classes() - 1) * r.machine.count))
    return c.error(fmt::format("{} coefficients are given for {} classes and {} support vectors", coefficients,
                               r.classes(), r.machine.count));
  if (!r.linear && r.machine.rho.size() < r.pairs())
    return c.error(fmt::format("'rho' has {} elements, expected {}", r.machine.rho.size(), r.pairs()));
  if (r.prob_a.size() != r.prob_b.size() || (!r.prob_a.empty() && r.prob_a.size() < r.pairs()))
    return c.error("'prob_a' and 'prob_b' must have one element for each pair of classes");
  for (double v : r.machine.coefficients) r.positive = r.positive && v >= 0;
  return r;
}

// Probabilities of classes from those of pairs: the second method of Wu, Lin and Weng, "Probability estimates for
// multi-class classification by pairwise coupling". r[i * k + j] is the probability of i against j.
std::vector<double> couple(size_t k, const std::vector<double>& r) {
  std::vector<double> q(k * k, 0), p(k, 1.0 / static_cast<double>(k)), qp(k);
  for (size_t i = 0; i < k; ++i)
    for (size_t j = 0; j < k; ++j)
      if (i != j) {
        q[i * k + i] += r[j * k + i] * r[j * k + i];
        q[i * k + j] = -r[j * k + i] * r[i * k + j];
      }
  const double tolerance = 0.005 / static_cast<double>(k);
  for (int round = 0; round < 100; ++round) {
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

// Scores of all pairs of classes; votes for the winners.
std::vector<double> duel(const Classifier& r, const double* row, std::vector<int64_t>& votes) {
  const Machine& m = r.machine;
  std::vector<double> near(m.count), scores;
  for (size_t v = 0; v < m.count; ++v) near[v] = m.compare(row, m.vectors.data() + v * m.features);
  for (size_t i = 0; i < r.classes(); ++i)
    for (size_t j = i + 1; j < r.classes(); ++j) {
      double sum = m.rho[scores.size()];
      for (size_t v = r.start[i]; v < r.start[i] + static_cast<size_t>(r.per_class[i]); ++v)
        sum += m.coefficients[(j - 1) * m.count + v] * near[v];
      for (size_t v = r.start[j]; v < r.start[j] + static_cast<size_t>(r.per_class[j]); ++v)
        sum += m.coefficients[i * m.count + v] * near[v];
      scores.push_back(sum);
      ++votes[sum > 0 ? i : j];
    }
  return scores;
}

std::vector<double> probabilities(const Classifier& r, const std::vector<double>& scores) {
  const size_t k = r.classes();
  std::vector<double> pairwise(k * k, 0);
  size_t at = 0;
  for (size_t i = 0; i < k; ++i)
    for (size_t j = i + 1; j < k; ++j, ++at) {
      const double p = std::clamp(1 - logistic(scores[at] * r.prob_a[at] + r.prob_b[at]), 1e-7, 1 - 1e-7);
      pairwise[i * k + j] = p;
      pairwise[j * k + i] = 1 - p;
    }
  return couple(k, pairwise);
}

// The class of one row; `s` becomes its scores.
size_t classify(const Classifier& r, const double* row, std::vector<double>& s) {
  const Machine& m = r.machine;
  if (r.linear) {
    s.clear();
    for (size_t k = 0; k < r.classes(); ++k) s.push_back(m.compare(row, m.vectors.data() + k * m.features) + m.rho[0]);
    auto best = static_cast<size_t>(std::max_element(s.begin(), s.end()) - s.begin());
    // Of two classes the second is taken as soon as a score says so, as the runtimes do.
    if (r.classes() == 2 && r.prob_a.empty() && (r.positive ? s[best] >= 0.5 : s[best] > 0)) best = 1;
    apply(m.transform, s);
    return best;
  }
  std::vector<int64_t> votes(r.classes(), 0);
  s = duel(r, row, votes);
  const auto best = static_cast<size_t>(std::max_element(votes.begin(), votes.end()) - votes.begin());
  if (!r.prob_a.empty()) {
    s = probabilities(r, s);
  } else if (r.classes() == 2) {
    s = {m.transform == PostTransform::None ? -s[0] : 1 - s[0], s[0]};
    return best;
  }
  apply(m.transform, s);
  return best;
}

std::vector<ir::AttrDef> svm_attrs() {
  using enum ir::AttrKind;
  return {{.name = "coefficients", .kind = Reals},
          {.name = "kernel_params", .kind = Reals},
          {.name = "kernel_type", .kind = String, .standard = ir::AttrValue(std::string("LINEAR"))},
          post_transform_attr(),
          {.name = "rho", .kind = Reals},
          {.name = "support_vectors", .kind = Reals}};
}

}  // namespace

ir::OpDef op_ml_svm_classifier() {
  ir::OpDef op;
  op.name = "ml_svm_classifier";
  op.doc = "The class of each row of features and its scores, by support vectors.";
  op.inputs = {{"x", "T", kFeatures}};
  op.outputs = {{"y", "i64"}, {"z", "f32", ir::Arity::Optional}};
  op.attrs = svm_attrs();
  op.attrs.push_back({.name = "classlabels_ints", .kind = ir::AttrKind::Ints});
  op.attrs.push_back({.name = "classlabels_strings", .kind = ir::AttrKind::Strings});
  op.attrs.push_back({.name = "prob_a", .kind = ir::AttrKind::Reals});
  op.attrs.push_back({.name = "prob_b", .kind = ir::AttrKind::Reals});
  op.attrs.push_back({.name = "vectors_per_class", .kind = ir::AttrKind::Ints});
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    ISOMER_TRY(const Classifier r, classifier_of(c));
    const Dim n = r.machine.rows.count;
    std::vector<Type> types = {c.out(0, {n}), c.out(1, {n, Dim(static_cast<int64_t>(r.columns()))})};
    types.resize(c.output_count());
    return types;
  };
  op.kernel = [](const ir::OpContext& c) -> Expected<std::vector<Tensor>> {
    ISOMER_TRY(const Classifier r, classifier_of(c));
    const std::vector<double> x = c.value(0)->to_reals();
    const int64_t n = r.machine.rows.count.value(), columns = static_cast<int64_t>(r.columns());
    ISOMER_CHECK_OK(checked_elements(DType::F32, {n, columns}));
    Tensor y(DType::I64, {n}), z(DType::F32, {n, columns});
    std::vector<double> s;
    for (int64_t i = 0; i < n; ++i) {
      y.set_integer(i, r.labels[classify(r, x.data() + i * r.machine.rows.features.value(), s)]);
      for (size_t k = 0; k < s.size(); ++k) z.set_real(i * columns + static_cast<int64_t>(k), s[k]);
    }
    std::vector<Tensor> out = {y, z};
    out.resize(c.output_count());
    return out;
  };
  op.samples = {
      "ml_svm_classifier(f32[4,1]){coefficients=[1.0,-1.0,-1.0,1.0,1.0,-1.0], rho=[1.0,2.0,3.0], "
      "support_vectors=[1.0,2.0,3.0], vectors_per_class=[1,1,1], classlabels_ints=[7,8,9]} -> 2",
      "ml_svm_classifier(f32[4,1]){coefficients=[1.0,-1.0], rho=[0.5], support_vectors=[1.0,2.0], "
      "vectors_per_class=[1,1], classlabels_ints=[0,1], prob_a=[-1.0], prob_b=[0.25], kernel_type=\"RBF\", "
      "kernel_params=[0.5,0.0,3.0]} -> 2"};
  op.onnx = {{.type = "SVMClassifier", .since = {1}, .domain = "ai.onnx.ml"}};
  return op;
}

ir::OpDef op_ml_svm_regressor() {
  ir::OpDef op;
  op.name = "ml_svm_regressor";
  op.doc = "A function of rows of features given by support vectors.";
  op.inputs = {{"x", "T", kFeatures}};
  op.outputs = {{"y", "f32"}};
  op.attrs = svm_attrs();
  op.attrs.push_back({.name = "n_supports", .kind = ir::AttrKind::Int, .standard = ir::AttrValue(int64_t{0})});
  op.attrs.push_back({.name = "one_class", .kind = ir::AttrKind::Int, .standard = ir::AttrValue(int64_t{0})});
  const auto checked = [](const ir::OpContext& c) -> Expected<Machine> {
    const int64_t count = c.integer("n_supports");
    ISOMER_TRY(Machine m, machine_of(c, count, 1));
    if (count > 0 && m.coefficients.size() != m.count)
      return c.error(fmt::format("{} coefficients are given for {} support vectors", m.coefficients.size(), m.count));
    return m;
  };
  op.infer = [checked](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    ISOMER_TRY(const Machine m, checked(c));
    return std::vector<Type>{c.out(0, {m.rows.count, 1})};
  };
  op.kernel = [checked](const ir::OpContext& c) -> Expected<std::vector<Tensor>> {
    ISOMER_TRY(const Machine m, checked(c));
    const std::vector<double> x = c.value(0)->to_reals();
    const bool linear = c.integer("n_supports") == 0;
    Tensor y(DType::F32, {m.rows.count.value(), 1});
    for (int64_t i = 0; i < m.rows.count.value(); ++i) {
      double sum = m.rho[0];
      for (size_t v = 0; v < m.count; ++v)
        sum += (linear ? 1 : m.coefficients[v]) *
               m.compare(x.data() + i * m.rows.features.value(), m.vectors.data() + v * m.features);
      std::vector<double> s = {c.flag("one_class") ? (sum > 0 ? 1.0 : -1.0) : sum};
      apply(m.transform, s);
      y.set_real(i, s[0]);
    }
    return std::vector<Tensor>{y};
  };
  op.samples = {
      "ml_svm_regressor(f32[3,2]){coefficients=[0.5,-1.0], rho=[0.25], support_vectors=[1.0,2.0,3.0,4.0], "
      "n_supports=2, kernel_type=\"RBF\", kernel_params=[0.5,0.0,3.0]}",
      "ml_svm_regressor(i64[3,2]){coefficients=[0.5,-1.0], rho=[0.25], one_class=1}"};
  op.onnx = {{.type = "SVMRegressor", .since = {1}, .domain = "ai.onnx.ml"}};
  return op;
}

}  // namespace isomer::ops
