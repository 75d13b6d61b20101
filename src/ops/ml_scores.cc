#include "ops/ml_scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace isomer::ops {
namespace {

constexpr const char* kNames[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};

// Winitzki's approximation, which the runtimes use.
double inverse_erf(double x) {
  const double pi = 3.14159265358979323846, a = 0.147;
  const double l = std::log((1 - x) * (1 + x));
  const double v = 2 / (pi * a) + 0.5 * l;
  const double r = std::sqrt(std::sqrt(v * v - l / a) - v);
  return x < 0 ? -r : r;
}

void softmax(std::vector<double>& scores, bool keep_zeros) {
  const double top = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& s : scores) {
    if (keep_zeros && std::abs(s) <= 1e-7) {
      s *= std::exp(-top);
      continue;
    }
    s = std::exp(s - top);
    sum += s;
  }
  for (double& s : scores) s = sum == 0 ? 0 : s / sum;
}

}  // namespace

ir::AttrDef post_transform_attr() {
  return {.name = "post_transform", .kind = ir::AttrKind::String, .standard = ir::AttrValue(std::string("NONE"))};
}

Expected<PostTransform> post_transform_of(const ir::OpContext& c) {
  const std::string& text = c.text("post_transform");
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (text == kNames[i]) return static_cast<PostTransform>(i);
  return c.error(fmt::format("unknown post_transform {}", quoted(text)));
}

double logistic(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }

void apply(PostTransform transform, std::vector<double>& scores) {
  if (scores.empty()) return;
  switch (transform) {
    case PostTransform::None: return;
    case PostTransform::Softmax: return softmax(scores, false);
    case PostTransform::SoftmaxZero: return softmax(scores, true);
    case PostTransform::Logistic:
      for (double& s : scores) s = logistic(s);
      return;
    case PostTransform::Probit:
      for (double& s : scores) s = std::sqrt(2.0) * inverse_erf(2 * s - 1);
      return;
  }
}

Expected<Rows> rows_of(const ir::OpContext& c) {
  if (c.rank(0) == 1) return Rows{1, c.dim(0, 0)};
  if (c.rank(0) == 2) return Rows{c.dim(0, 0), c.dim(0, 1)};
  return c.error(fmt::format("expected rows of features of shape [N,F], found {}", c.shape(0).to_string()));
}

Expected<std::vector<int64_t>> int_labels(const ir::OpContext& c, std::string_view ints, std::string_view strings) {
  if (!c.strings(strings).empty()) return c.error("labels are strings, which Isomer does not compute with");
  std::vector<int64_t> labels = c.ints(ints);
  if (labels.empty()) return c.error(fmt::format("attribute '{}' is missing", ints));
  return labels;
}

Expected<std::vector<double>> reals_or_tensor(const ir::OpContext& c, const std::string& name) {
  const Tensor* t = c.tensor(name + "_as_tensor");
  if (!t) return c.reals(name);
  if (!is_float(t->dtype())) return c.error(fmt::format("attribute '{}_as_tensor' is not of a float type", name));
  if (!c.reals(name).empty()) return c.error(fmt::format("attributes '{0}' and '{0}_as_tensor' are both given", name));
  return t->to_reals();
}

}  // namespace isomer::ops
