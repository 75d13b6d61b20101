// Encodings of categories: ai.onnx.ml's LabelEncoder and OneHotEncoder, over numbers.
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <map>

#include "ir/graph.h"
#include "ir/op.h"
#include "ops/ml_scores.h"

namespace isomer::ops {
namespace {

constexpr DTypeSet kCategories = kFeatures | DType::I16;

// One side of the mapping, or an empty tensor: NAME_floats, NAME_int64s or NAME_tensor.
Expected<Tensor> side(const ir::OpContext& c, const std::string& name) {
  if (!c.strings(name + "_strings").empty())
    return c.error(fmt::format("'{}_strings': labels are strings, which Isomer does not compute with", name));
  Tensor found(DType::I64, {0});
  int given = 0;
  if (const auto v = c.ints(name + "_int64s"); !v.empty()) ++given, found = Tensor::ints(v);
  if (const auto v = c.reals(name + "_floats"); !v.empty())
    ++given, found = Tensor::of(DType::F32, {static_cast<int64_t>(v.size())}, v);
  if (const Tensor* t = c.tensor(name + "_tensor")) ++given, found = *t;
  if (given != 1) return c.error(fmt::format("expected exactly one of the attributes '{}_*', found {}", name, given));
  return found;
}

struct Mapping {
  Tensor keys, values, otherwise;
};

Expected<Mapping> mapping_of(const ir::OpContext& c) {
  Mapping m;
  ISOMER_TRY(m.keys, side(c, "keys"));
  ISOMER_TRY(m.values, side(c, "values"));
  if (m.keys.size() != m.values.size())
    return c.error(fmt::format("{} keys are given for {} values", m.keys.size(), m.values.size()));
  if (is_float(m.keys.dtype()) != is_float(c.dtype(0)))
    return c.error(fmt::format("keys are {}, the input is {}", name(m.keys.dtype()), name(c.dtype(0))));
  if (const Tensor* t = c.tensor("default_tensor")) {
    if (t->dtype() != m.values.dtype() || t->size() != 1) return c.error("'default_tensor' must be one value");
    m.otherwise = *t;
  } else if (is_float(m.values.dtype())) {
    m.otherwise = Tensor::scalar(m.values.dtype(), c.real("default_float"));
  } else {
    m.otherwise = Tensor::int_scalar(m.values.dtype(), c.integer("default_int64"));
  }
  return m;
}

// A number as a key that is equal for equal numbers, NaN included.
int64_t key_of(const Tensor& t, int64_t i) {
  if (!is_float(t.dtype())) return t.integer(i);
  const double v = t.real(i);
  if (std::isnan(v)) return INT64_MIN;
  return std::bit_cast<int64_t>(v == 0 ? 0.0 : v);
}

Expected<std::vector<Tensor>> encode(const ir::OpContext& c) {
  ISOMER_TRY(const Mapping m, mapping_of(c));
  std::map<int64_t, int64_t> place;
  for (int64_t i = 0; i < m.keys.size(); ++i) place.emplace(key_of(m.keys, i), i);
  const Tensor& x = *c.value(0);
  Tensor y(m.values.dtype(), x.dims());
  for (int64_t i = 0; i < x.size(); ++i) {
    const auto it = place.find(key_of(x, i));
    const Tensor& from = it == place.end() ? m.otherwise : m.values;
    const int64_t at = it == place.end() ? 0 : it->second;
    if (is_float(y.dtype()))
      y.set_real(i, from.real(at));
    else
      y.set_integer(i, from.integer(at));
  }
  return std::vector<Tensor>{y};
}

Expected<std::vector<int64_t>> categories(const ir::OpContext& c) {
  return int_labels(c, "cats_int64s", "cats_strings");
}

Expected<std::vector<Tensor>> one_hot(const ir::OpContext& c) {
  ISOMER_TRY(const std::vector<int64_t> cats, categories(c));
  std::map<int64_t, int64_t> place;
  for (size_t i = 0; i < cats.size(); ++i) place.emplace(cats[i], static_cast<int64_t>(i));
  const Tensor& x = *c.value(0);
  std::vector<int64_t> dims = x.dims();
  dims.push_back(static_cast<int64_t>(cats.size()));
  ISOMER_CHECK_OK(checked_elements(DType::F32, dims));
  Tensor y(DType::F32, dims);
  for (int64_t i = 0; i < x.size(); ++i) {
    const auto it = place.find(x.integer(i));
    if (it != place.end())
      y.set_real(i * dims.back() + it->second, 1);
    else if (!c.flag("zeros"))
      return c.error(fmt::format("{} is none of the categories, and 'zeros' is 0", x.integer(i)));
  }
  return std::vector<Tensor>{y};
}

}  // namespace

ir::OpDef op_ml_label_encoder() {
  using enum ir::AttrKind;
  ir::OpDef op;
  op.name = "ml_label_encoder";
  op.doc = "Maps keys to values, and anything else to a default.";
  op.inputs = {{"x", "T", kCategories}};
  op.outputs = {{"y", "V"}};
  op.attrs = {{.name = "default_float", .kind = Real, .standard = ir::AttrValue(-0.0)},
              {.name = "default_int64", .kind = Int, .standard = ir::AttrValue(int64_t{-1})},
              {.name = "default_string", .kind = String, .standard = ir::AttrValue(std::string("_Unused"))},
              {.name = "default_tensor", .kind = Tensor}};
  for (const std::string s : {"keys", "values"}) {
    op.attrs.push_back({.name = s + "_floats", .kind = Reals});
    op.attrs.push_back({.name = s + "_int64s", .kind = Ints});
    op.attrs.push_back({.name = s + "_strings", .kind = Strings});
    op.attrs.push_back({.name = s + "_tensor", .kind = Tensor});
  }
  op.infer_unranked = true;
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    ISOMER_TRY(const Mapping m, mapping_of(c));
    return std::vector<Type>{{m.values.dtype(), c.shape(0), nullptr}};
  };
  op.kernel = encode;
  op.samples = {"ml_label_encoder(i64[5] in 0..4){keys_int64s=[0,1,2], values_floats=[0.5,1.5,2.5]}",
                "ml_label_encoder(i64[2,2] in 0..4){keys_int64s=[0,3], values_int64s=[7,8], default_int64=9}"};
  op.onnx = {{.type = "LabelEncoder",
              .since = {1, 2, 4},
              .stable = 2,
              .domain = "ai.onnx.ml",
              .import = [](ir::ForeignNode& n, ir::GraphBuilder& b) -> Expected<std::vector<ir::Value>> {
                if (n.version < 2)
                  return Diagnostic("E-op", "ml_label_encoder: labels are strings, which Isomer does not compute with");
                return ir::add_as_is(n, b);
              }}};
  return op;
}

ir::OpDef op_ml_one_hot_encoder() {
  ir::OpDef op;
  op.name = "ml_one_hot_encoder";
  op.doc = "A vector for each number, 1 at the place of its category and 0 elsewhere.";
  op.inputs = {{"x", "T", kFeatures}};
  op.outputs = {{"y", "f32"}};
  op.attrs = {{.name = "cats_int64s", .kind = ir::AttrKind::Ints},
              {.name = "cats_strings", .kind = ir::AttrKind::Strings},
              {.name = "zeros", .kind = ir::AttrKind::Int, .standard = ir::AttrValue(int64_t{1})}};
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    ISOMER_TRY(const std::vector<int64_t> cats, categories(c));
    std::vector<Dim> dims = c.shape(0).dims();
    dims.push_back(static_cast<int64_t>(cats.size()));
    return std::vector<Type>{c.out(0, Shape(dims))};
  };
  op.kernel = one_hot;
  op.samples = {"ml_one_hot_encoder(i64[2,3] in 0..5){cats_int64s=[1,3,4]}"};
  op.onnx = {{.type = "OneHotEncoder", .since = {1}, .domain = "ai.onnx.ml"}};
  return op;
}

}  // namespace isomer::ops
