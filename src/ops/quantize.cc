#include "ops/quantize.h"

#include <fmt/format.h>

#include "ir/op.h"

namespace isomer::ops {

using te::Expr;

// A detour through f64, since a cast to a value's own type would be no cast.
Expr stored(const Expr& x) { return x.dtype() == DType::F64 ? x : cast(x.dtype(), cast(DType::F64, x)); }

// In F32 the sum is exact up to 2^24, and beyond that it saturates whatever the zero point is.
Expr to_quantised(DType to, const Expr& ratio, const Expr& zero) {
  const DType sum = ratio.dtype() == DType::F64 ? DType::F64 : DType::F32;
  return cast(to, cast(sum, round(ratio)) + cast(sum, zero));
}

Expr PerAxis::at(const Expr& index) const {
  if (handle.rank() == 0) return handle.at({});
  return handle.at({handle.dim(0) == Dim(1) ? Expr(0) : index});
}

Expected<PerAxis> per_axis(const ir::OpContext& c, std::span<const te::Handle> in, size_t i, const Dim& extent) {
  if (!c.has(i)) return PerAxis{};
  const bool fits = c.rank(i) == 0 || (c.rank(i) == 1 && (c.dim(i, 0) == Dim(1) || !c.dim(i, 0).is_const() ||
                                                          !extent.is_const() || c.dim(i, 0) == extent));
  if (!fits)
    return c.error(fmt::format("expected '{}' as one number or {} numbers, found shape {}", c.op().inputs[i].name,
                               extent.to_string(), c.shape(i).to_string()));
  return PerAxis{in[i], true};
}

Expected<PerAxis> one_number(const ir::OpContext& c, std::span<const te::Handle> in, size_t i) {
  return per_axis(c, in, i, Dim(1));
}

te::Handle centred(te::Builder& b, const te::Handle& x, bool has_zero,
                   const std::function<Expr(std::span<const Expr>)>& zero) {
  return b.map("centred", DType::I32, x.dims(), [&](auto i) {
    const Expr value = cast(DType::I32, x.at({i.begin(), i.end()}));
    return has_zero ? value - cast(DType::I32, zero(i)) : value;
  });
}

namespace {

constexpr DTypeSet kQuantised = kBytes | DType::I16 | DType::U16;

// Where the scale and zero point of an element are: one for all, one per position on an axis, or one per block of it.
struct Granularity {
  size_t axis = 0;
  int64_t block = 0;
  enum class Kind : uint8_t { Tensor, Axis, Block } kind = Kind::Tensor;

  Expr read(const te::Handle& h, std::span<const Expr> i) const {
    if (h.rank() == 0) return h.at({});
    if (kind == Kind::Tensor) return h.at({Expr(0)});
    if (kind == Kind::Axis) return h.at({i[axis]});
    std::vector<Expr> at(i.begin(), i.end());
    at[axis] = floor_div(i[axis], Expr(block));
    return h.at(at);
  }
};

Expected<void> check_blocks(const ir::OpContext& c, size_t input, const Granularity& g) {
  bool fits = c.rank(input) == c.rank(0);
  for (size_t k = 0; fits && k < c.rank(0); ++k) {
    const Dim expected = k == g.axis ? ceil_div(c.dim(0, k), Dim(g.block)) : c.dim(0, k);
    fits = !expected.is_const() || !c.dim(input, k).is_const() || c.dim(input, k) == expected;
  }
  if (fits) return {};
  return c.error(fmt::format("'{}' has shape {}, which is not that of {} in blocks of {} along axis {}",
                             c.op().inputs[input].name, c.shape(input).to_string(), c.shape(0).to_string(), g.block,
                             g.axis));
}

Expected<Granularity> granularity(const ir::OpContext& c) {
  Granularity g;
  g.block = c.integer("block_size");
  if (g.block < 0) return c.error(fmt::format("expected a block_size of 0 or more, found {}", g.block));
  const size_t rank = c.rank(1);
  if (c.has(2)) {
    const bool scalar_pair = rank <= 1 && c.rank(2) <= 1 && (rank == 0 || c.dim(1, 0) == Dim(1)) &&
                             (c.rank(2) == 0 || c.dim(2, 0) == Dim(1));
    bool same = c.rank(2) == rank;
    for (size_t k = 0; same && k < rank; ++k)
      same = !c.dim(1, k).is_const() || !c.dim(2, k).is_const() || c.dim(1, k) == c.dim(2, k);
    if (!same && !scalar_pair)
      return c.error(
          fmt::format("the scale has shape {}, but the zero point {}", c.shape(1).to_string(), c.shape(2).to_string()));
  }
  if (rank == 0 || (rank == 1 && c.dim(1, 0) == Dim(1) && g.block == 0)) return g;
  ISOMER_TRY(g.axis, c.axis(c.integer("axis"), c.rank(0)));
  if (g.block > 0) {
    g.kind = Granularity::Kind::Block;
    ISOMER_CHECK_OK(check_blocks(c, 1, g));
    return g;
  }
  g.kind = Granularity::Kind::Axis;
  const Dim& extent = c.dim(0, g.axis);
  if (rank != 1 || (c.dim(1, 0).is_const() && extent.is_const() && !(c.dim(1, 0) == extent)))
    return c.error(fmt::format("expected a scale of {} numbers, one per position on axis {}, found shape {}",
                               extent.to_string(), g.axis, c.shape(1).to_string()));
  return g;
}

Expected<DType> quantised_type(const ir::OpContext& c) {
  const DType t = c.has(2) ? c.dtype(2) : c.has_attr("output_dtype") ? c.dtype_attr("output_dtype") : DType::U8;
  if (!kQuantised.contains(t))
    return c.error(fmt::format("cannot quantise to element type {}; expected i8, u8, i16 or u16", name(t)));
  if (c.has_attr("output_dtype") && c.dtype_attr("output_dtype") != t)
    return c.error(
        fmt::format("output_dtype is {}, but the zero point is {}", name(c.dtype_attr("output_dtype")), name(t)));
  return t;
}

std::vector<ir::OnnxForm> quantise_forms(const char* type) {
  return {{.type = type, .since = {10, 13, 19, 21, 23}, .stable = 21},
          {.type = type, .since = {1}, .stable = 1, .domain = "com.microsoft"}};
}

}  // namespace

ir::OpDef op_quantize_linear() {
  ir::OpDef op;
  op.name = "quantize_linear";
  op.doc = "Reals to integers: x / scale rounded half to even, plus the zero point, saturated.";
  op.inputs = {{"x", "T1", kFloats | DType::I32},
               {"y_scale", "T2", kFloats | DType::I32},
               {"y_zero_point", "T3", kQuantised, ir::Arity::Optional}};
  op.outputs = {{"y", "T3"}};
  op.attrs = {{"axis", ir::AttrKind::Int, int64_t{1}},
              {"block_size", ir::AttrKind::Int, int64_t{0}},
              {"output_dtype", ir::AttrKind::DType},
              {.name = "precision", .kind = ir::AttrKind::DType, .since = 23},
              {"saturate", ir::AttrKind::Int, int64_t{1}}};
  op.infer_unranked = true;
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    ISOMER_TRY(const DType t, quantised_type(c));
    bool ranked = true;
    for (size_t i = 0; i < c.input_count(); ++i) ranked &= !c.has(i) || c.shape(i).has_rank();
    if (ranked) {
      ISOMER_TRY(const Granularity g, granularity(c));
      static_cast<void>(g);
    }
    return std::vector{Type{t, c.shape(0), nullptr}};
  };
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    te::Builder b;
    const auto in = c.declare(b);
    ISOMER_TRY(const DType t, quantised_type(c));
    ISOMER_TRY(const Granularity g, granularity(c));
    DType step = is_float(c.dtype(1)) ? c.dtype(1) : DType::F32;
    if (c.has_attr("precision") && is_float(c.dtype_attr("precision"))) step = c.dtype_attr("precision");
    return b.finish({b.map("y", t, in[0].dims(), [&](auto i) {
      const Expr ratio = stored(cast(step, in[0].at({i.begin(), i.end()})) / cast(step, g.read(in[1], i)));
      return to_quantised(t, ratio, c.has(2) ? g.read(in[2], i) : Expr(0));
    })});
  };
  op.samples = {"quantize_linear(f32[2,3], f32[] 0.1, u8[] 128)", "quantize_linear(f32[2,3], f32[3] [0.1,0.2,0.3])",
                "quantize_linear(f32[2,6], f32[2,2] [0.5,1,2,4], i8[2,2] [1,-2,3,0]){block_size=3}",
                "quantize_linear(f32[4], f32[] 0.01){output_dtype=i16}"};
  op.onnx = quantise_forms("QuantizeLinear");
  return op;
}

ir::OpDef op_dequantize_linear() {
  ir::OpDef op;
  op.name = "dequantize_linear";
  op.doc = "Integers to reals: (x - zero point) * scale.";
  op.inputs = {{"x", "T1", kQuantised | DType::I32},
               {"x_scale", "T2", kScales},
               {"x_zero_point", "T1", kQuantised | DType::I32, ir::Arity::Optional}};
  op.outputs = {{"y", "$output_dtype|T2"}};
  op.attrs = {{"axis", ir::AttrKind::Int, int64_t{1}},
              {"block_size", ir::AttrKind::Int, int64_t{0}},
              {.name = "output_dtype", .kind = ir::AttrKind::DType, .since = 23}};
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    te::Builder b;
    const auto in = c.declare(b);
    ISOMER_TRY(const Granularity g, granularity(c));
    const DType t = c.has_attr("output_dtype") ? c.dtype_attr("output_dtype") : c.dtype(1);
    if (!is_float(t)) return c.error(fmt::format("'output_dtype' is {}, expected a type of reals", name(t)));
    return b.finish({b.map("y", t, in[0].dims(), [&](auto i) {
      Expr x = cast(DType::I32, in[0].at({i.begin(), i.end()}));
      if (c.has(2)) x = x - cast(DType::I32, g.read(in[2], i));
      return cast(t, cast(DType::F32, x) * cast(DType::F32, g.read(in[1], i)));
    })});
  };
  op.samples = {"dequantize_linear(u8[2,3], f32[] 0.1, u8[] 128)", "dequantize_linear(i8[2,3], f32[3] [0.1,0.2,0.3])",
                "dequantize_linear(i8[6,2], f32[2,2] [0.5,1,2,4], i8[2,2] [1,-2,3,0]){axis=0, block_size=3}",
                "dequantize_linear(i32[4], f32[] 0.5)", "dequantize_linear(i8[4], f32[] 0.5){output_dtype=f16}"};
  op.onnx = quantise_forms("DequantizeLinear");
  return op;
}

ir::OpDef op_dynamic_quantize_linear() {
  ir::OpDef op;
  op.name = "dynamic_quantize_linear";
  op.doc = "Quantises to u8 with the scale and zero point that the data's own range, extended to hold 0, asks for.";
  op.inputs = {{"x", "T", DType::F32}};
  op.outputs = {{"y", "u8"}, {"y_scale", "f32"}, {"y_zero_point", "u8"}};
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    te::Builder b;
    const auto in = c.declare(b);
    const auto extreme = [&](const char* name, te::Combiner combiner) {
      const std::vector<te::Axis> axes = b.axes("r", in[0].dims());
      const Expr e = te::reduce(combiner, axes, in[0].at(te::exprs(axes)));
      const Expr zero = Expr::real(DType::F32, 0);
      return b.stage(name, DType::F32, {}, combiner == te::Combiner::Max ? max(e, zero) : min(e, zero));
    };
    const te::Handle high = extreme("high", te::Combiner::Max), low = extreme("low", te::Combiner::Min);
    const Expr range = stored(high.at({}) - low.at({}));
    // Data that is 0 throughout has no range; any scale stands for it.
    const te::Handle scale =
        b.stage("y_scale", DType::F32, {}, select(eq(high.at({}), low.at({})), Expr(1), range / Expr(255)));
    const Expr start = min(max(stored(-low.at({}) / scale.at({})), Expr(0)), Expr(255));
    const te::Handle zero = b.stage("y_zero_point", DType::U8, {}, cast(DType::U8, round(start)));
    const te::Handle y = b.map("y", DType::U8, in[0].dims(), [&](auto i) {
      return to_quantised(DType::U8, stored(in[0].at({i.begin(), i.end()}) / scale.at({})), zero.at({}));
    });
    return b.finish({y, scale, zero});
  };
  op.samples = {"dynamic_quantize_linear(f32[2,3])", "dynamic_quantize_linear(f32[6])"};
  op.onnx = {{.type = "DynamicQuantizeLinear", .since = {11}, .stable = 11}};
  return op;
}

}  // namespace isomer::ops
