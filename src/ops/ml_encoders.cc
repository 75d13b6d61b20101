// Encodings of categories: ai.onnx.ml's LabelEncoder and OneHotEncoder, over numbers.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "ir/graph.h"
#include "ir/op.h"
#include "ops/ml_scores.h"

namespace isomer::ops {
namespace {

using Results = Expected<std::vector<ir::Value>>;

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

// Keys in order, each with the place that it first stands at; as many as a power of two, the last one repeated.
struct Sorted {
  Tensor keys;
  std::vector<int64_t> places;
  int64_t nan = -1;  // the place of the first NaN
};

Sorted sorted(const Tensor& keys) {
  std::vector<int64_t> order;
  Sorted s;
  const bool real = is_float(keys.dtype());
  for (int64_t i = 0; i < keys.size(); ++i) {
    if (!real || !std::isnan(keys.real(i)))
      order.push_back(i);
    else if (s.nan < 0)
      s.nan = i;
  }
  const auto less = [&](int64_t a, int64_t b) {
    return real ? keys.real(a) < keys.real(b) : keys.integer(a) < keys.integer(b);
  };
  std::stable_sort(order.begin(), order.end(), less);
  for (const int64_t i : order)
    if (s.places.empty() || less(s.places.back(), i)) s.places.push_back(i);
  if (s.places.empty()) return s;
  while (!std::has_single_bit(s.places.size())) s.places.push_back(s.places.back());
  s.keys = Tensor(keys.dtype(), {static_cast<int64_t>(s.places.size())});
  for (size_t k = 0; k < s.places.size(); ++k) {
    if (real)
      s.keys.set_real(static_cast<int64_t>(k), keys.real(s.places[k]));
    else
      s.keys.set_integer(static_cast<int64_t>(k), keys.integer(s.places[k]));
  }
  return s;
}

// The place of each element among the keys (NaN is a key like others), or their number where it is none of them: by halving.
ir::Value place_among(Compose& g, ir::Value x, const Tensor& keys) {
  const auto number = [&](int64_t v) { return g.constant(Tensor::int_scalar(DType::I64, v)); };
  const Sorted s = sorted(keys);
  ir::Value place = number(keys.size());
  if (!s.places.empty()) {
    const ir::Value table = g.constant(s.keys);
    ir::Value at = number(0);
    for (auto step = static_cast<int64_t>(s.places.size() / 2); step > 0; step /= 2) {
      const ir::Value further = g.add(at, number(step));
      at = g.where(g("less_or_equal", {g("gather", {table, further}), x}), further, at);
    }
    place = g.where(g("equal", {g("gather", {table, at}), x}), g("gather", {g.ints(s.places), at}), place);
  }
  if (s.nan >= 0) place = g.where(g("is_nan", {x}), number(s.nan), place);
  return g.type(place).shape == g.type(x).shape ? place : g("expand", {place, g("shape", {x})});
}

// Keys are compared in the wider of two types: those of the input and of the keys.
DType compared_as(DType a, DType b) { return is_float(a) ? DType::F64 : a == b ? a : DType::I64; }

Results encode(const ir::OpContext& c, ir::GraphBuilder& b, std::span<const ir::Value> in) {
  ISOMER_TRY(const Mapping m, mapping_of(c));
  Compose g(b);
  const DType type = compared_as(c.dtype(0), m.keys.dtype());
  const int64_t count = m.keys.size();
  Tensor keys(type, {count}), values(m.values.dtype(), {count + 1});
  for (int64_t i = 0; i <= count; ++i) {
    if (i < count && is_float(type)) keys.set_real(i, m.keys.real(i));
    if (i < count && !is_float(type)) keys.set_integer(i, m.keys.integer(i));
    const Tensor& from = i < count ? m.values : m.otherwise;
    const int64_t at = i < count ? i : 0;
    if (is_float(values.dtype()))
      values.set_real(i, from.real(at));
    else
      values.set_integer(i, from.integer(at));
  }
  return g.finish({g("gather", {g.constant(values), place_among(g, g.cast(in[0], type), keys)})});
}

Expected<std::vector<int64_t>> categories(const ir::OpContext& c) {
  return int_labels(c, "cats_int64s", "cats_strings");
}

// Without zeros a number that is no category is an index out of range.
Results one_hot(const ir::OpContext& c, ir::GraphBuilder& b, std::span<const ir::Value> in) {
  ISOMER_TRY(const std::vector<int64_t> cats, categories(c));
  Compose g(b);
  std::vector<int64_t> places;
  for (size_t i = 0; i < cats.size(); ++i) places.push_back(static_cast<int64_t>(i));
  const ir::Value all = g.ints(places);
  ir::Value place = place_among(g, g.cast(in[0], DType::I64), Tensor::ints(cats));
  if (!c.flag("zeros")) place = g("gather", {all, place});
  return g.finish({g.cast(g("equal", {g.unsqueeze(place, {-1}), all}), DType::F32)});
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
  op.expand = encode;
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
  op.expand = one_hot;
  op.samples = {"ml_one_hot_encoder(i64[2,3] in 0..5){cats_int64s=[1,3,4]}"};
  op.onnx = {{.type = "OneHotEncoder", .since = {1}, .domain = "ai.onnx.ml"}};
  return op;
}

}  // namespace isomer::ops
