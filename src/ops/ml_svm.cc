// Support vector machines: ai.onnx.ml's SVMClassifier and SVMRegressor.
#include <fmt/format.h>

#include <algorithm>

#include "base/arithmetic.h"
#include "ir/op.h"
#include "ops/ml_scores.h"

namespace isomer::ops {
namespace {

using Results = Expected<std::vector<ir::Value>>;

enum class Kernel : uint8_t { Linear, Poly, Rbf, Sigmoid };

// Vectors (support vectors, or the coefficients of a linear model) that rows are compared with by a kernel.
struct Machine {
  Kernel kernel = Kernel::Linear;
  double gamma = 0, offset = 0, degree = 3;
  std::vector<double> coefficients, vectors, rho;
  size_t count = 0, features = 0;
  PostTransform transform = PostTransform::None;
  Rows rows;
};

// Rows [N,F] beside all vectors: [N,V] in f64.
ir::Value compare(Compose& g, const Machine& m, ir::Value x) {
  const auto count = static_cast<int64_t>(m.count), features = static_cast<int64_t>(m.features);
  const ir::Value rows = g.cast(as_rows(g, x), DType::F64);
  if (m.kernel == Kernel::Rbf) {
    const ir::Value d = g.sub(g.unsqueeze(rows, {1}), reals(g, m.vectors, {1, count, features}));
    const ir::Value sum = g("reduce_sum", {g.mul(d, d), g.ints({2})}, {{"keepdims", int64_t{0}}});
    return g("exp", {g.scale(sum, -m.gamma)});
  }
  const ir::Value sum = g.matmul(rows, g.transpose(reals(g, m.vectors, {count, features}), {1, 0}));
  if (m.kernel == Kernel::Linear) return sum;
  const ir::Value z = g.add(g.scale(sum, m.gamma), g.scalar(DType::F64, m.offset));
  if (m.kernel == Kernel::Sigmoid) return g("tanh", {z});
  return g("pow", {z, g.scalar(DType::F64, m.degree)});
}

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

struct SvmClassifier {
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

Expected<SvmClassifier> svm_classifier_of(const ir::OpContext& c) {
  SvmClassifier r;
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

// What the vectors of each class say with each row of coefficients, [N,classes*(classes-1)].
ir::Value class_sums(Compose& g, const SvmClassifier& r, ir::Value near) {
  const auto rows = static_cast<int64_t>(r.classes()) - 1, count = static_cast<int64_t>(r.machine.count);
  const ir::Value factors = reals(g, r.machine.coefficients, {rows, count});
  std::vector<ir::Value> parts;
  for (size_t k = 0; k < r.classes(); ++k) {
    const auto from = static_cast<int64_t>(r.start[k]), to = from + r.per_class[k];
    parts.push_back(g.matmul(g.slice(near, 1, from, to), g.transpose(g.slice(factors, 1, from, to), {1, 0})));
  }
  return g.concat(parts, 1);
}

// Scores of all pairs of classes, [N,pairs].
ir::Value duel(Compose& g, const SvmClassifier& r, ir::Value x) {
  const auto k = static_cast<int64_t>(r.classes()), pairs = static_cast<int64_t>(r.pairs());
  std::vector<int64_t> first, second;
  for (int64_t i = 0; i < k; ++i)
    for (int64_t j = i + 1; j < k; ++j) {
      first.push_back(i * (k - 1) + j - 1);
      second.push_back(j * (k - 1) + i);
    }
  const ir::Value sums = class_sums(g, r, compare(g, r.machine, x));
  const auto at = [&](const std::vector<int64_t>& places) {
    return g("gather", {sums, g.ints(places)}, {{"axis", int64_t{1}}});
  };
  const std::vector<double>& rho = r.machine.rho;
  return g.add(g.add(reals(g, {rho.begin(), rho.begin() + pairs}, {pairs}), at(first)), at(second));
}

// Numbers of pairs as [N,k,k]: those of i before j, those of j before i, and a diagonal of zeros.
ir::Value pair_matrix(Compose& g, const SvmClassifier& r, ir::Value upper, ir::Value lower) {
  const auto k = static_cast<int64_t>(r.classes()), pairs = static_cast<int64_t>(r.pairs());
  const ir::Value first = g.slice(upper, 1, 0, 1), none = g.sub(first, first);
  std::vector<int64_t> from(static_cast<size_t>(k * k), 2 * pairs);
  int64_t at = 0;
  for (int64_t i = 0; i < k; ++i)
    for (int64_t j = i + 1; j < k; ++j, ++at) {
      from[static_cast<size_t>(i * k + j)] = at;
      from[static_cast<size_t>(j * k + i)] = pairs + at;
    }
  const ir::Value all = g.concat({upper, lower, none}, 1);
  return g.reshape(g("gather", {all, g.ints(from)}, {{"axis", int64_t{1}}}), {0, k, k});
}

// How many pairs each class wins, [N,classes]: where a score is positive the first of a pair does, else the second.
ir::Value wins(Compose& g, const SvmClassifier& r, ir::Value scores) {
  const ir::Value won = g.cast(g("greater", {scores, g.scalar(DType::F64, 0)}), DType::F64);
  const ir::Value all = pair_matrix(g, r, won, g.sub(g.scalar(DType::F64, 1), won));
  return g("reduce_sum", {all, g.ints({2})}, {{"keepdims", int64_t{0}}});
}

// Probabilities of pairs, [N,k,k]: element i, j is that of i against j.
ir::Value pairwise(Compose& g, const SvmClassifier& r, ir::Value scores) {
  const auto pairs = static_cast<int64_t>(r.pairs());
  const auto number = [&](double v) { return g.scalar(DType::F64, v); };
  const ir::Value z = g.add(g.mul(scores, reals(g, {r.prob_a.begin(), r.prob_a.begin() + pairs}, {pairs})),
                            reals(g, {r.prob_b.begin(), r.prob_b.begin() + pairs}, {pairs}));
  const ir::Value p = g("clip", {g.sub(number(1), g("sigmoid", {z})), number(1e-7), number(1 - 1e-7)});
  return pair_matrix(g, r, p, g.sub(number(1), p));
}

Results classify_svm(const ir::OpContext& c, ir::GraphBuilder& b, std::span<const ir::Value> in) {
  ISOMER_TRY(const SvmClassifier r, svm_classifier_of(c));
  const Machine& m = r.machine;
  Compose g(b);
  const auto results = [&](ir::Value label, ir::Value scores) { return g.finish({label, g.cast(scores, DType::F32)}); };
  if (r.linear) {
    const ir::Value s = g.add(compare(g, m, in[0]), g.scalar(DType::F64, m.rho[0]));
    ir::Value label = largest_label(g, s, r.labels);
    // Of two classes the second is taken as soon as a score says so, as the runtimes do.
    if (r.classes() == 2 && r.prob_a.empty()) {
      const ir::Value best = g("reduce_max", {s, g.ints({1})}, {{"keepdims", int64_t{0}}});
      const char* above = r.positive ? "greater_or_equal" : "greater";
      const ir::Value taken = g(above, {best, g.scalar(DType::F64, r.positive ? 0.5 : 0)});
      label = g.where(taken, g.constant(Tensor::int_scalar(DType::I64, r.labels[1])), label);
    }
    return results(label, transformed(g, m.transform, s));
  }
  const ir::Value s = duel(g, r, in[0]), label = largest_label(g, wins(g, r, s), r.labels);
  if (!r.prob_a.empty()) return results(label, transformed(g, m.transform, g("ml_couple", {pairwise(g, r, s)})));
  if (r.classes() != 2) return results(label, transformed(g, m.transform, s));
  const ir::Value other = m.transform == PostTransform::None ? g("neg", {s}) : g.sub(g.scalar(DType::F64, 1), s);
  return results(label, g.concat({other, s}, 1));
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
    ISOMER_TRY(const SvmClassifier r, svm_classifier_of(c));
    const Dim n = r.machine.rows.count;
    std::vector<Type> types = {c.out(0, {n}), c.out(1, {n, Dim(static_cast<int64_t>(r.columns()))})};
    types.resize(c.output_count());
    return types;
  };
  op.expand = classify_svm;
  op.samples = {
      "ml_svm_classifier(f32[4,1]){coefficients=[1.0,-1.0,-1.0,1.0,1.0,-1.0], rho=[1.0,2.0,3.0], "
      "support_vectors=[1.0,2.0,3.0], vectors_per_class=[1,1,1], classlabels_ints=[7,8,9]} -> 2",
      "ml_svm_classifier(f32[4,1]){coefficients=[1.0,-1.0], rho=[0.5], support_vectors=[1.0,2.0], "
      "vectors_per_class=[1,1], classlabels_ints=[0,1], prob_a=[-1.0], prob_b=[0.25], kernel_type=\"RBF\", "
      "kernel_params=[0.5,0.0,3.0]} -> 2"};
  op.onnx = {classifier_form("SVMClassifier", {1}, 1, "classlabels_ints")};
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
  op.expand = [checked](const ir::OpContext& c, ir::GraphBuilder& b, std::span<const ir::Value> in) -> Results {
    ISOMER_TRY(const Machine m, checked(c));
    Compose g(b);
    const auto count = static_cast<int64_t>(m.count);
    const bool linear = c.integer("n_supports") == 0;
    const std::vector<double> factors = linear ? std::vector<double>(m.count, 1) : m.coefficients;
    ir::Value sum = g.matmul(compare(g, m, in[0]), reals(g, factors, {count, 1}));
    sum = g.add(sum, g.scalar(DType::F64, m.rho[0]));
    if (c.flag("one_class"))
      sum = g.where(g("greater", {sum, g.scalar(DType::F64, 0)}), g.scalar(DType::F64, 1), g.scalar(DType::F64, -1));
    return g.finish({g.cast(transformed(g, m.transform, sum), DType::F32)});
  };
  op.samples = {
      "ml_svm_regressor(f32[3,2]){coefficients=[0.5,-1.0], rho=[0.25], support_vectors=[1.0,2.0,3.0,4.0], "
      "n_supports=2, kernel_type=\"RBF\", kernel_params=[0.5,0.0,3.0]}",
      "ml_svm_regressor(i64[3,2]){coefficients=[0.5,-1.0], rho=[0.25], one_class=1}"};
  op.onnx = {{.type = "SVMRegressor", .since = {1}, .domain = "ai.onnx.ml"}};
  return op;
}

}  // namespace isomer::ops
