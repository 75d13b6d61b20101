// Matrix products and convolutions of quantised integers. Sums are exact in i32; one f32 factor brings them to the
// output's scale.
#include <fmt/format.h>

#include "ir/op.h"
#include "ops/broadcast.h"
#include "ops/conv.h"
#include "ops/quantize.h"

namespace isomer::ops {
namespace {

using te::Expr;

// A scale or zero point of a matrix operand: one number, one per row (of a) or column (of b), or a tensor that
// broadcasts against the operand.
struct MatrixParameter {
  te::Handle handle;
  bool by_row = false;
  // `own`: the index into the operand, batch axes included.
  Expr read(std::span<const Expr> own) const {
    if (handle.rank() == 0) return handle.at({});
    if (handle.rank() > 1) return handle.broadcast(own);
    if (handle.dim(0) == Dim(1)) return handle.at({Expr(0)});
    return handle.at({own[own.size() - (by_row && own.size() > 1 ? 2 : 1)]});
  }
};

Expected<MatrixParameter> matrix_parameter(const ir::OpContext& c, std::span<const te::Handle> in, size_t i,
                                           size_t operand, bool by_row) {
  const size_t rank = c.rank(i), n = c.rank(operand);
  const auto differ = [](const Dim& a, const Dim& b) { return a.is_const() && b.is_const() && !(a == b); };
  bool fits = rank <= std::max<size_t>(n, 1);
  if (rank == 1 && !(c.dim(i, 0) == Dim(1)))
    fits = n >= 1 && !(by_row && n < 2) && !differ(c.dim(i, 0), c.dim(operand, by_row ? n - 2 : n - 1));
  for (size_t k = 0; rank > 1 && fits && k < rank; ++k)
    fits = c.dim(i, k) == Dim(1) || !differ(c.dim(i, k), c.dim(operand, n - rank + k));
  if (!fits)
    return c.error(fmt::format("'{}' of shape {} does not fit the operand {}", c.op().inputs[i].name,
                               c.shape(i).to_string(), c.shape(operand).to_string()));
  return MatrixParameter{in[i], by_row};
}

// A product of two quantised operands, at the inputs where they stand.
struct QuantisedProduct {
  size_t a, a_zero, b, b_zero;
};

struct Accumulated {
  te::Handle sum;  // i32
  std::vector<Dim> batch;
  bool row = false, column = false;  // a vector stands for a matrix of one row, or one column

  // Index into operand a (or b) for an output index; the contracted position is `k`.
  std::vector<Expr> own(const ir::OpContext& c, std::span<const Expr> i, size_t operand, bool left,
                        const Expr& k) const {
    std::vector<Expr> at(i.begin(), i.begin() + static_cast<ptrdiff_t>(batch.size()));
    const size_t n = c.rank(operand) >= 2 ? c.rank(operand) - 2 : 0;
    at.erase(at.begin(), at.end() - static_cast<ptrdiff_t>(n));
    for (size_t d = 0; d < n; ++d)
      if (c.dim(operand, d) == Dim(1)) at[d] = Expr(0);
    if (left && !row) at.push_back(i[batch.size()]);
    at.push_back(k);
    if (!left && !column) at.push_back(i.back());
    return at;
  }
};

Expected<Accumulated> accumulate(te::Builder& b, const ir::OpContext& c, std::span<const te::Handle> in,
                                 QuantisedProduct p) {
  for (size_t operand : {p.a, p.b})
    if (c.rank(operand) == 0) return c.error("expected operands of rank 1 or more, found a scalar");
  const Dim &ka = c.dim(p.a, c.rank(p.a) - 1), &kb = c.dim(p.b, c.rank(p.b) == 1 ? 0 : c.rank(p.b) - 2);
  if (ka.is_const() && kb.is_const() && !(ka == kb))
    return c.error(fmt::format("the contracted extents {} and {} differ in {} x {}", ka.value(), kb.value(),
                               c.shape(p.a).to_string(), c.shape(p.b).to_string()));
  const auto take_zero = [&](size_t x, size_t zero, bool by_row) -> Expected<te::Handle> {
    MatrixParameter m;
    if (c.has(zero)) {
      ISOMER_TRY(m, matrix_parameter(c, in, zero, x, by_row));
    }
    return centred(b, in[x], c.has(zero), [&](auto i) { return m.read(i); });
  };
  ISOMER_TRY(const te::Handle left, take_zero(p.a, p.a_zero, true));
  ISOMER_TRY(const te::Handle right, take_zero(p.b, p.b_zero, false));
  const auto leading = [&](size_t i) {
    std::vector<Dim> d = c.shape(i).dims();
    d.resize(d.size() >= 2 ? d.size() - 2 : 0);
    return d;
  };
  Accumulated out;
  const std::vector<Dim> batches[] = {leading(p.a), leading(p.b)};
  ISOMER_TRY(out.batch, broadcast_dims(c, batches));
  out.row = c.rank(p.a) == 1;
  out.column = c.rank(p.b) == 1;
  std::vector<Dim> dims = out.batch;
  if (!out.row) dims.push_back(c.dim(p.a, c.rank(p.a) - 2));
  if (!out.column) dims.push_back(c.dim(p.b, c.rank(p.b) - 1));
  out.sum = b.map("sum", DType::I32, dims, [&](auto i) {
    const te::Axis k = b.axis("k", ka);
    return te::sum({k}, left.at(out.own(c, i, p.a, true, Expr(k))) * right.at(out.own(c, i, p.b, false, Expr(k))));
  });
  return out;
}

std::vector<ir::InputDef> integer_inputs(const char* a, const char* b) {
  return {{a, "T1", kBytes},
          {b, "T2", kBytes},
          {std::string(a) + "_zero_point", "T1", kBytes, ir::Arity::Optional},
          {std::string(b) + "_zero_point", "T2", kBytes, ir::Arity::Optional}};
}

}  // namespace

ir::OpDef op_matmul_integer() {
  ir::OpDef op;
  op.name = "matmul_integer";
  op.doc = "Matrix product of 8-bit integers less their zero points, in i32.";
  op.inputs = integer_inputs("a", "b");
  op.outputs = {{"y", "i32"}};
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    te::Builder b;
    const auto in = c.declare(b);
    ISOMER_TRY(const Accumulated v, accumulate(b, c, in, {0, 2, 1, 3}));
    return b.finish({v.sum});
  };
  op.samples = {"matmul_integer(u8[2,3], i8[3,4])", "matmul_integer(u8[2,3], u8[3,2], u8[2] [1,2], u8[2] [3,4])",
                "matmul_integer(i8[4,2,3], u8[3,2], i8[] 5)"};
  op.onnx = {{.type = "MatMulInteger", .since = {10}, .stable = 10}};
  return op;
}

ir::OpDef op_qlinear_matmul() {
  ir::OpDef op;
  op.name = "qlinear_matmul";
  op.doc = "Matrix product of quantised tensors, quantised again.";
  op.inputs = {{"a", "T1", kBytes},        {"a_scale", "TS", kScales},    {"a_zero_point", "T1", kBytes},
               {"b", "T2", kBytes},        {"b_scale", "TS", kScales},    {"b_zero_point", "T2", kBytes},
               {"y_scale", "TS", kScales}, {"y_zero_point", "T3", kBytes}};
  op.outputs = {{"y", "T3"}};
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    te::Builder b;
    const auto in = c.declare(b);
    ISOMER_TRY(const MatrixParameter sa, matrix_parameter(c, in, 1, 0, true));
    ISOMER_TRY(const MatrixParameter sb, matrix_parameter(c, in, 4, 3, false));
    ISOMER_TRY(const PerAxis sy, one_number(c, in, 6));
    ISOMER_TRY(const PerAxis zy, one_number(c, in, 7));
    ISOMER_TRY(const Accumulated v, accumulate(b, c, in, {0, 2, 3, 5}));
    return b.finish({b.map("y", c.dtype(7), v.sum.dims(), [&](auto i) {
      const Expr first(0);
      const Expr scale = stored(cast(DType::F32, sa.read(v.own(c, i, 0, true, first))) *
                                cast(DType::F32, sb.read(v.own(c, i, 3, false, first))));
      const Expr factor = stored(scale / cast(DType::F32, sy.at(first)));
      return to_quantised(c.dtype(7), stored(cast(DType::F32, v.sum.at({i.begin(), i.end()})) * factor), zy.at(first));
    })});
  };
  op.samples = {
      "qlinear_matmul(u8[2,3], f32[] 0.1, u8[] 113, u8[3,2], f32[] 0.2, u8[] 120, f32[] 0.3, u8[] 118)",
      "qlinear_matmul(i8[2,2,3], f32[] 0.1, i8[] 1, i8[3,2], f32[2] [0.2,0.1], i8[2] [0,1], f32[] 0.3, i8[] -3)"};
  op.onnx = {{.type = "QLinearMatMul", .since = {10, 21}, .stable = 10}};
  return op;
}

ir::OpDef op_ms_matmul_integer_to_float() {
  ir::OpDef op;
  op.name = "ms_matmul_integer_to_float";
  op.doc = "Matrix product of 8-bit integers less their zero points, scaled to reals.";
  op.inputs = {{"a", "T1", kBytes},
               {"b", "T2", kBytes},
               {"a_scale", "T3", DType::F32},
               {"b_scale", "T3", DType::F32},
               {"a_zero_point", "T1", kBytes, ir::Arity::Optional},
               {"b_zero_point", "T2", kBytes, ir::Arity::Optional},
               {"bias", "T3", DType::F32, ir::Arity::Optional}};
  op.outputs = {{"y", "T3"}};
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    te::Builder b;
    const auto in = c.declare(b);
    ISOMER_TRY(const MatrixParameter sa, matrix_parameter(c, in, 2, 0, true));
    ISOMER_TRY(const MatrixParameter sb, matrix_parameter(c, in, 3, 1, false));
    ISOMER_TRY(const PerAxis bias, per_axis(c, in, 6, c.rank(1) == 0 ? Dim(1) : c.dim(1, c.rank(1) - 1)));
    ISOMER_TRY(const Accumulated v, accumulate(b, c, in, {0, 4, 1, 5}));
    if (bias.present && v.sum.rank() == 0) return c.error("a bias needs a result with an axis");
    return b.finish({b.map("y", DType::F32, v.sum.dims(), [&](auto i) {
      const Expr first(0);
      const Expr scale = stored(sa.read(v.own(c, i, 0, true, first)) * sb.read(v.own(c, i, 1, false, first)));
      const Expr y = stored(cast(DType::F32, v.sum.at({i.begin(), i.end()})) * scale);
      return bias.present ? y + bias.at(i.back()) : y;
    })});
  };
  op.samples = {
      "ms_matmul_integer_to_float(u8[2,3], i8[3,4], f32[] 0.1, f32[] 0.2)",
      "ms_matmul_integer_to_float(u8[2,3], u8[3,2], f32[] 0.1, f32[2] [0.2,0.3], u8[] 7, u8[2] [1,2], f32[2])"};
  op.onnx = {{.type = "MatMulIntegerToFloat", .domain = "com.microsoft"}};
  return op;
}

namespace {

// The exact sums of a convolution of quantised tensors. The weights' zero point may be per output channel.
Expected<te::Handle> convolve_integers(te::Builder& b, const ir::OpContext& c, std::span<const te::Handle> in,
                                       const Convolution& v, QuantisedProduct p) {
  ISOMER_TRY(const PerAxis zx, one_number(c, in, p.a_zero));
  ISOMER_TRY(const PerAxis zw, per_axis(c, in, p.b_zero, v.out_channels));
  const te::Handle x = centred(b, in[p.a], zx.present, [&](auto) { return zx.at(Expr(0)); });
  const te::Handle w = centred(b, in[p.b], zw.present, [&](auto i) { return zw.at(i[0]); });
  return b.map("sum", DType::I32, v.out, [&](auto i) { return convolve(b, v, x, w, i); });
}

}  // namespace

ir::OpDef op_conv_integer() {
  ir::OpDef op;
  op.name = "conv_integer";
  op.doc = "Convolution of 8-bit integers less their zero points, in i32.";
  op.inputs = integer_inputs("x", "w");
  op.outputs = {{"y", "i32"}};
  op.attrs = conv_attrs();
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    te::Builder b;
    const auto in = c.declare(b);
    ISOMER_TRY(const Convolution v, convolution(c, 0, 1, 99));
    ISOMER_TRY(const te::Handle sum, convolve_integers(b, c, in, v, {0, 2, 1, 3}));
    return b.finish({sum});
  };
  op.samples = {"conv_integer(u8[1,1,3,3], u8[1,1,2,2], u8[] 1){pads=[1,1,1,1]}",
                "conv_integer(u8[1,2,5], i8[4,1,3], u8[] 7, i8[4] [1,2,3,4]){group=2}"};
  op.onnx = {{.type = "ConvInteger", .since = {10}, .stable = 10}};
  return op;
}

ir::OpDef op_qlinear_conv() {
  ir::OpDef op;
  op.name = "qlinear_conv";
  op.doc = "Convolution of quantised tensors, quantised again; the bias has the scale of the products.";
  op.inputs = {
      {"x", "T1", kBytes},           {"x_scale", "TS", DType::F32},  {"x_zero_point", "T1", kBytes},
      {"w", "T2", kBytes},           {"w_scale", "TS", DType::F32},  {"w_zero_point", "T2", kBytes},
      {"y_scale", "TS", DType::F32}, {"y_zero_point", "T3", kBytes}, {"b", "T4", DType::I32, ir::Arity::Optional}};
  op.outputs = {{"y", "T3"}};
  op.attrs = conv_attrs();
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    te::Builder b;
    const auto in = c.declare(b);
    ISOMER_TRY(const Convolution v, convolution(c, 0, 3, 8));
    ISOMER_TRY(const PerAxis sx, one_number(c, in, 1));
    ISOMER_TRY(const PerAxis sw, per_axis(c, in, 4, v.out_channels));
    ISOMER_TRY(const PerAxis sy, one_number(c, in, 6));
    ISOMER_TRY(const PerAxis zy, one_number(c, in, 7));
    ISOMER_TRY(const te::Handle sum, convolve_integers(b, c, in, v, {0, 2, 3, 5}));
    return b.finish({b.map("y", c.dtype(7), v.out, [&](auto i) {
      const Expr total = sum.at({i.begin(), i.end()});
      const Expr whole = c.has(8) ? total + in[8].at({i[1]}) : total;
      const Expr factor = stored(stored(sx.at(Expr(0)) * sw.at(i[1])) / sy.at(Expr(0)));
      return to_quantised(c.dtype(7), stored(cast(DType::F32, whole) * factor), zy.at(Expr(0)));
    })});
  };
  op.samples = {
      "qlinear_conv(u8[1,1,4,4], f32[] 0.1, u8[] 132, u8[1,1,2,2], f32[1] [0.2], u8[1] [255], f32[] 0.3, "
      "u8[] 123){pads=[1,1,0,0]}",
      "qlinear_conv(i8[1,2,5], f32[] 0.1, i8[] 1, i8[2,1,3], f32[2] [0.1,0.2], i8[2] [0,1], f32[] 0.4, "
      "i8[] -3, i32[2]){group=2, strides=[2]}"};
  op.onnx = {{.type = "QLinearConv", .since = {10}, .stable = 10}};
  return op;
}

}  // namespace isomer::ops
