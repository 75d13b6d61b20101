// Features: ai.onnx.ml's Scaler, Normalizer, Binarizer, Imputer, FeatureVectorizer, ArrayFeatureExtractor.
#include <fmt/format.h>

#include "ir/graph.h"
#include "ir/op.h"
#include "ops/elementwise.h"
#include "ops/ml_scores.h"

namespace isomer::ops {
namespace {

using te::Expr;

std::vector<ir::OnnxForm> form(std::string type) {
  return {{.type = std::move(type), .since = {1}, .domain = "ai.onnx.ml"}};
}

// One number for all features or one for each, as a constant beside input 0.
Expected<ir::Value> per_feature(const ir::OpContext& c, ir::GraphBuilder& b, DType dtype, std::string_view name,
                                const std::vector<double>& values) {
  const Dim& last = c.dim(0, c.rank(0) - 1);
  const auto n = static_cast<int64_t>(values.size());
  if (n == 0 || (n != 1 && last.is_const() && !(last == Dim(n))))
    return c.error(fmt::format("attribute '{}' has {} elements for rows of {} features", name, n, last.to_string()));
  return b.constant(Tensor::of(dtype, {n}, values));
}

Expected<std::vector<ir::Value>> expand_scaler(const ir::OpContext& c, ir::GraphBuilder& b,
                                               std::span<const ir::Value> in) {
  if (c.rank(0) == 0) return c.error("expected features, found a scalar");
  ISOMER_TRY(ir::Value x, b.add1("cast", {in[0]}, {{"to", DType::F32}}));
  for (const auto& [attr, op] : {std::pair("offset", "sub"), std::pair("scale", "mul")}) {
    if (c.reals(attr).empty()) continue;
    ISOMER_TRY(const ir::Value v, per_feature(c, b, DType::F32, attr, c.reals(attr)));
    ISOMER_TRY(x, b.add1(op, {x, v}));
  }
  return std::vector<ir::Value>{x};
}

Expected<std::vector<ir::Value>> expand_imputer(const ir::OpContext& c, ir::GraphBuilder& b,
                                                std::span<const ir::Value> in) {
  if (c.rank(0) == 0) return c.error("expected features, found a scalar");
  std::vector<double> values = c.reals("imputed_value_floats");
  double replaced = c.real("replaced_value_float");
  if (!is_float(c.dtype(0))) {
    values.clear();
    for (int64_t v : c.ints("imputed_value_int64s")) values.push_back(static_cast<double>(v));
    replaced = static_cast<double>(c.integer("replaced_value_int64"));
  }
  const char* attr = is_float(c.dtype(0)) ? "imputed_value_floats" : "imputed_value_int64s";
  ISOMER_TRY(const ir::Value imputed, per_feature(c, b, c.dtype(0), attr, values));
  ir::Value missing;
  if (replaced != replaced) {
    ISOMER_TRY(missing, b.add1("is_nan", {in[0]}));
  } else {
    ISOMER_TRY(missing, b.add1("equal", {in[0], b.constant(Tensor::scalar(c.dtype(0), replaced))}));
  }
  ISOMER_TRY(const ir::Value y, b.add1("where", {missing, imputed, in[0]}));
  return std::vector<ir::Value>{y};
}

Expected<te::Program> compute_normalizer(const ir::OpContext& c) {
  const std::string& norm = c.text("norm");
  if (norm != "MAX" && norm != "L1" && norm != "L2")
    return c.error(fmt::format("unknown norm {}, expected MAX, L1 or L2", quoted(norm)));
  if (c.rank(0) == 0) return c.error("expected features, found a scalar");
  te::Builder b;
  const auto in = c.declare(b);
  std::vector<Dim> outer = in[0].dims();
  const te::Axis k = b.axis("k", outer.back());
  outer.pop_back();
  const te::Handle size = b.map("size", DType::F64, outer, [&](auto i) {
    std::vector<Expr> at(i.begin(), i.end());
    at.push_back(Expr(k));
    const Expr x = te::cast(DType::F64, in[0].at(at));
    if (norm == "MAX") return te::reduce(te::Combiner::Max, {k}, x);
    return norm == "L1" ? te::sum({k}, abs(x)) : sqrt(te::sum({k}, x * x));
  });
  return b.finish({b.map("y", DType::F32, in[0].dims(), [&](auto i) {
    const Expr s = size.at(std::vector<Expr>(i.begin(), i.end() - 1));
    const Expr x = te::cast(DType::F64, in[0].at({i.begin(), i.end()}));
    return te::cast(DType::F32, select(eq(s, Expr::real(DType::F64, 0)), x, x / s));
  })});
}

Expected<te::Program> compute_vectorizer(const ir::OpContext& c) {
  const std::vector<int64_t> widths = c.ints("inputdimensions");
  if (widths.size() != c.input_count())
    return c.error(fmt::format("'inputdimensions' has {} elements for {} inputs", widths.size(), c.input_count()));
  te::Builder b;
  const auto in = c.declare(b);
  Dim rows = 1, total = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    if (!c.has(i)) return c.error(fmt::format("input {} is missing", i));
    if (in[i].rank() != 1 && in[i].rank() != 2)
      return c.error(fmt::format("expected inputs of rank 1 or 2, found {}", c.shape(i).to_string()));
    const Dim n = in[i].rank() == 1 ? Dim(1) : in[i].dim(0);
    if (i > 0 && n.is_const() && rows.is_const() && !(n == rows))
      return c.error(fmt::format("inputs have {} and {} rows", rows.value(), n.value()));
    if (i == 0 || n.is_const()) rows = n;
    if (widths[i] < 0) return c.error(fmt::format("'inputdimensions' has a negative element {}", widths[i]));
    total = total + Dim(widths[i]);
  }
  if (total.is_invalid()) return c.error("the sum of 'inputdimensions' is too large");
  const Dim dims[] = {rows, total};
  return b.finish({b.map("y", DType::F32, dims, [&](auto i) {
    Expr y = Expr::real(DType::F32, 0);
    Dim end = total;
    for (size_t k = in.size(); k-- > 0;) {
      const Dim start = end - Dim(widths[k]);
      const Expr j = i[1] - Expr(start);
      const Expr x = in[k].rank() == 1 ? in[k](j) : in[k](i[0], j);
      const Expr held =
          select(j < Expr(in[k].dim(in[k].rank() - 1)), te::cast(DType::F32, x), Expr::real(DType::F32, 0));
      y = k + 1 == in.size() ? held : select(i[1] < Expr(end), held, y);
      end = start;
    }
    return y;
  })});
}

Expected<te::Program> compute_extractor(const ir::OpContext& c) {
  if (c.rank(0) == 0) return c.error("expected features, found a scalar");
  te::Builder b;
  const auto in = c.declare(b);
  std::vector<Dim> dims = in[0].dims();
  if (dims.size() == 1) dims.insert(dims.begin(), Dim(1));
  dims.back() = c.shape(1).elements();
  return b.finish({b.map("z", c.dtype(0), dims, [&](auto i) {
    std::vector<Expr> at(i.begin(), i.end() - 1);
    if (in[0].rank() == 1) at.clear();
    at.push_back(in[1].at(te::unflatten(i.back(), in[1].dims())));
    return in[0].at(at);
  })});
}

}  // namespace

ir::OpDef op_ml_scaler() {
  ir::OpDef op;
  op.name = "ml_scaler";
  op.doc = "(x - offset) * scale, feature by feature.";
  op.inputs = {{"x", "T", kFeatures}};
  op.outputs = {{"y", "f32"}};
  op.attrs = {{.name = "offset", .kind = ir::AttrKind::Reals}, {.name = "scale", .kind = ir::AttrKind::Reals}};
  op.expand = expand_scaler;
  op.samples = {"ml_scaler(f32[3,2]){offset=[1.0,2.0], scale=[0.5]}", "ml_scaler(i64[3,2]){scale=[0.5,2.0]}"};
  op.onnx = form("Scaler");
  return op;
}

ir::OpDef op_ml_imputer() {
  ir::OpDef op;
  op.name = "ml_imputer";
  op.doc = "Replaces a value that stands for a missing one, feature by feature.";
  op.inputs = {{"x", "T", kFeatures}};
  op.outputs = {{"y", "T"}};
  op.attrs = {{.name = "imputed_value_floats", .kind = ir::AttrKind::Reals},
              {.name = "imputed_value_int64s", .kind = ir::AttrKind::Ints},
              {.name = "replaced_value_float", .kind = ir::AttrKind::Real, .standard = ir::AttrValue(0.0)},
              {.name = "replaced_value_int64", .kind = ir::AttrKind::Int, .standard = ir::AttrValue(int64_t{0})}};
  op.expand = expand_imputer;
  op.samples = {"ml_imputer(f32[3,2]){imputed_value_floats=[1.0,2.0], replaced_value_float=0.5}",
                "ml_imputer(i64[3,2]){imputed_value_int64s=[7]}"};
  op.onnx = form("Imputer");
  return op;
}

ir::OpDef op_ml_normalizer() {
  ir::OpDef op;
  op.name = "ml_normalizer";
  op.doc = "Divides rows by their maximum, the sum of magnitudes, or the Euclidean length.";
  op.inputs = {{"x", "T", kFeatures}};
  op.outputs = {{"y", "f32"}};
  op.attrs = {{.name = "norm", .kind = ir::AttrKind::String, .standard = ir::AttrValue(std::string("MAX"))}};
  op.compute = compute_normalizer;
  op.samples = {"ml_normalizer(f32[3,2])", "ml_normalizer(i32[3,2]){norm=\"L1\"}",
                "ml_normalizer(f64[2]){norm=\"L2\"}"};
  op.onnx = form("Normalizer");
  return op;
}

ir::OpDef op_ml_binarizer() {
  return unary({.name = "ml_binarizer",
                .doc = "1 where x is above the threshold, else 0.",
                .types = kFeatures,
                .attrs = {{.name = "threshold", .kind = ir::AttrKind::Real, .standard = ir::AttrValue(0.0)}},
                .onnx = form("Binarizer"),
                .samples = {"ml_binarizer(f32[3,2]){threshold=0.25}"}},
               [](const Expr& x, const ir::OpContext& c) {
                 const DType t = x.dtype();
                 return select(te::cast(DType::F64, x) > Expr::real(DType::F64, c.real("threshold")),
                               Expr::literal(t, 1), Expr::literal(t, 0));
               });
}

ir::OpDef op_ml_feature_vectorizer() {
  ir::OpDef op;
  op.name = "ml_feature_vectorizer";
  op.doc = "Puts the features of its inputs side by side, each cut or padded with zeros to its width.";
  op.inputs = {{"x", "T", kFeatures, ir::Arity::Variadic, 1}};
  op.outputs = {{"y", "f32"}};
  op.attrs = {{.name = "inputdimensions", .kind = ir::AttrKind::Ints}};
  op.compute = compute_vectorizer;
  op.samples = {"ml_feature_vectorizer(f32[3,2], f32[3,4]){inputdimensions=[2,4]}",
                "ml_feature_vectorizer(i64[3,2], i64[3,4]){inputdimensions=[3,2]}"};
  op.onnx = form("FeatureVectorizer");
  return op;
}

ir::OpDef op_ml_array_feature_extractor() {
  ir::OpDef op;
  op.name = "ml_array_feature_extractor";
  op.doc = "Picks features, along the last axis, by their indices.";
  op.inputs = {{"x", "T", kFeatures}, {"y", "I", DType::I64}};
  op.outputs = {{"z", "T"}};
  op.compute = compute_extractor;
  op.samples = {"ml_array_feature_extractor(f32[3,4], i64[2] in 0..4)",
                "ml_array_feature_extractor(i64[4], i64[1,3] in 0..4)",
                "ml_array_feature_extractor(f32[3,4], i64[] in 0..4)"};
  op.onnx = form("ArrayFeatureExtractor");
  return op;
}

}  // namespace isomer::ops
