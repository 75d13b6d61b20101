#include "ops/ml_scores.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

namespace isomer::ops {
namespace {

constexpr const char* kNames[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};

ir::Value sum_of_rows(Compose& g, ir::Value v) { return g("reduce_sum", {v, g.ints({1})}); }

// Winitzki's approximation, which the runtimes use.
ir::Value inverse_erf(Compose& g, ir::Value x) {
  const double pi = 3.14159265358979323846, a = 0.147;
  const auto number = [&](double v) { return g.scalar(DType::F64, v); };
  const ir::Value l = g("log", {g.mul(g.sub(number(1), x), g.add(number(1), x))});
  const ir::Value v = g.add(number(2 / (pi * a)), g.mul(number(0.5), l));
  const ir::Value root = g("sqrt", {g.sub(g.mul(v, v), g("div", {l, number(a)}))});
  const ir::Value r = g("sqrt", {g.sub(root, v)});
  return g.where(g("less", {x, number(0)}), g("neg", {r}), r);
}

// A softmax in which scores of nothing stay nothing and do not count.
ir::Value softmax_zero(Compose& g, ir::Value s) {
  const ir::Value zero = g.scalar(DType::F64, 0), top = g("reduce_max", {s, g.ints({1})});
  const ir::Value small = g("less_or_equal", {g("abs", {s}), g.scalar(DType::F64, 1e-7)});
  const ir::Value large = g("exp", {g.sub(s, top)}), kept = g.mul(s, g("exp", {g("neg", {top})}));
  const ir::Value sum = sum_of_rows(g, g.where(small, zero, large));
  return g.where(g("equal", {sum, zero}), zero, g("div", {g.where(small, kept, large), sum}));
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

ir::Value transformed(Compose& g, PostTransform transform, ir::Value scores) {
  switch (transform) {
    case PostTransform::None: return scores;
    case PostTransform::Softmax: return g("softmax", {scores}, {{"axis", int64_t{-1}}});
    case PostTransform::SoftmaxZero: return softmax_zero(g, scores);
    case PostTransform::Logistic: return g("sigmoid", {scores});
    case PostTransform::Probit: {
      const ir::Value x = g.sub(g.scale(scores, 2), g.scalar(DType::F64, 1));
      return g.scale(inverse_erf(g, x), std::sqrt(2.0));
    }
  }
  return scores;
}

ir::Value as_rows(Compose& g, ir::Value x) { return g.type(x).shape.rank() == 1 ? g.unsqueeze(x, {0}) : x; }

ir::Value reals(Compose& g, const std::vector<double>& v, std::vector<int64_t> dims) {
  return g.constant(Tensor::of(DType::F64, std::move(dims), v));
}

ir::Value largest_label(Compose& g, ir::Value scores, const std::vector<int64_t>& labels) {
  const ir::Value best = g("arg_max", {scores}, {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}});
  return g("gather", {g.ints(labels), best});
}

ir::Value label_of(Compose& g, ir::Value second, const std::vector<int64_t>& labels) {
  const auto label = [&](size_t i) { return g.constant(Tensor::int_scalar(DType::I64, labels[i])); };
  return g("squeeze", {g.where(second, label(1), label(0)), g.ints({1})});
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

namespace {

// ONNX's type of a vector of strings, as a file writes it: a tensor type of element type 8 with one open dimension.
constexpr std::string_view kStrings("\x0a\x06\x08\x08\x12\x02\x0a\x00", 8);

Expected<ir::Value> as_strings(ir::Value numbers, std::vector<std::string> strings, int64_t version,
                               ir::GraphBuilder& b) {
  ir::Attrs attrs{{"op_type", std::string("LabelEncoder")},
                  {"op_domain", std::string("ai.onnx.ml")},
                  {"op_version", std::max<int64_t>(version, 2)},  // the first with keys
                  {"op_types", std::vector{Type{DType::Opaque, Shape::unknown(), nullptr}.to_string()}},
                  {"op_foreign", std::vector{std::string(kStrings)}}};
  std::vector<int64_t> keys(strings.size());
  std::iota(keys.begin(), keys.end(), int64_t{0});
  attrs.set("keys_int64s", std::move(keys));
  attrs.set("values_strings", std::move(strings));
  return b.add1("opaque", {numbers}, std::move(attrs));
}

}  // namespace

ir::OnnxForm classifier_form(const char* type, std::vector<int> since, int stable, std::string ints) {
  ir::OnnxForm form{.type = type, .since = std::move(since), .stable = stable, .domain = "ai.onnx.ml"};
  form.always = true;
  form.import = [ints = std::move(ints)](ir::ForeignNode& n, ir::GraphBuilder& b) -> Expected<std::vector<ir::Value>> {
    const auto* given = n.attrs.get<std::vector<std::string>>("classlabels_strings");
    if (!given || given->empty()) return ir::add_as_is(n, b);
    std::vector<std::string> strings = *given;
    std::vector<int64_t> numbers(strings.size());
    std::iota(numbers.begin(), numbers.end(), int64_t{0});
    n.attrs.erase("classlabels_strings");
    n.attrs.set(ints, std::move(numbers));
    ISOMER_TRY(std::vector<ir::Value> results, ir::add_as_is(n, b));
    ISOMER_TRY(results[0], as_strings(results[0], std::move(strings), n.version, b));
    return results;
  };
  return form;
}

Expected<std::vector<double>> reals_or_tensor(const ir::OpContext& c, const std::string& name) {
  const Tensor* t = c.tensor(name + "_as_tensor");
  if (!t) return c.reals(name);
  if (!is_float(t->dtype())) return c.error(fmt::format("attribute '{}_as_tensor' is not of a float type", name));
  if (!c.reals(name).empty()) return c.error(fmt::format("attributes '{0}' and '{0}_as_tensor' are both given", name));
  return t->to_reals();
}

}  // namespace isomer::ops
