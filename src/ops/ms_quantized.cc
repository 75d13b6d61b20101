// Quantised operators of ONNX Runtime's own domain.
#include <fmt/format.h>

#include "ir/graph.h"
#include "ops/broadcast.h"
#include "ops/quantize.h"

namespace isomer::ops {
namespace {

using ir::Arity;
using ir::AttrKind;
using ir::Value;
using te::Expr;

using Results = Expected<std::vector<Value>>;

// a op b on quantised tensors with broadcasting; `f` maps the two operands, as reals divided by the result's scale.
using QuantisedPair = std::function<Expr(const Expr& a, const Expr& sa, const Expr& b, const Expr& sb, const Expr& sc)>;

ir::OpDef quantised_binary(std::string name, std::string doc, const char* type, QuantisedPair f) {
  ir::OpDef op;
  op.samples = {fmt::format("{}(u8[2,3], f32[] 0.1, u8[] 128, u8[3], f32[] 0.2, u8[] 100, f32[] 0.3, u8[] 120)", name),
                fmt::format("{}(i8[2,3], f32[] 0.1, _, i8[2,1], f32[] 0.2, i8[] -3, f32[] 0.3)", name)};
  op.name = std::move(name);
  op.doc = std::move(doc);
  op.inputs = {{"a", "T", kBytes},
               {"a_scale", "S", DType::F32},
               {"a_zero_point", "T", kBytes, Arity::Optional},
               {"b", "T", kBytes},
               {"b_scale", "S", DType::F32},
               {"b_zero_point", "T", kBytes, Arity::Optional},
               {"c_scale", "S", DType::F32},
               {"c_zero_point", "T", kBytes, Arity::Optional}};
  op.outputs = {{"c", "T"}};
  op.compute = [f = std::move(f)](const ir::OpContext& c) -> Expected<te::Program> {
    te::Builder b;
    const auto in = c.declare(b);
    PerAxis scale[3], zero[3];
    for (size_t k : {0, 1, 2}) {
      ISOMER_TRY(scale[k], one_number(c, in, k == 2 ? 6 : 3 * k + 1));
      ISOMER_TRY(zero[k], one_number(c, in, k == 2 ? 7 : 3 * k + 2));
    }
    const std::vector<Dim> shapes[] = {c.shape(0).dims(), c.shape(3).dims()};
    ISOMER_TRY(const std::vector<Dim> dims, broadcast_dims(c, shapes));
    const auto centre = [&](size_t k, std::span<const Expr> i) {
      const Expr x = cast(DType::I32, in[3 * k].broadcast(i));
      return cast(DType::F32, zero[k].present ? x - cast(DType::I32, zero[k].at(Expr(0))) : x);
    };
    return b.finish({b.map("c", c.dtype(0), dims, [&](auto i) {
      const Expr ratio =
          f(centre(0, i), scale[0].at(Expr(0)), centre(1, i), scale[1].at(Expr(0)), scale[2].at(Expr(0)));
      return to_quantised(c.dtype(0), stored(ratio), zero[2].present ? zero[2].at(Expr(0)) : Expr(0));
    })});
  };
  op.onnx = {{.type = type, .domain = "com.microsoft"}};
  return op;
}

}  // namespace

ir::OpDef op_ms_qlinear_add() {
  return quantised_binary("ms_qlinear_add", "Sum of quantised tensors, quantised again.", "QLinearAdd",
                          [](const Expr& a, const Expr& sa, const Expr& b, const Expr& sb, const Expr& sc) {
                            return stored(stored(a * sa) + stored(b * sb)) / sc;
                          });
}

ir::OpDef op_ms_qlinear_mul() {
  return quantised_binary("ms_qlinear_mul", "Product of quantised tensors, quantised again.", "QLinearMul",
                          [](const Expr& a, const Expr& sa, const Expr& b, const Expr& sb, const Expr& sc) {
                            return stored(a * b) * stored(stored(sa * sb) / sc);
                          });
}

namespace {

Value or_none(const ir::OpContext& c, std::span<const Value> in, size_t i) { return c.has(i) ? in[i] : Value::none(); }

Expected<Value> dequantise(const ir::OpContext& c, ir::GraphBuilder& b, std::span<const Value> in, size_t x,
                           size_t scale, size_t zero) {
  return b.add1("dequantize_linear", {in[x], in[scale], or_none(c, in, zero)});
}

// Back to integers of the type of input `like`.
Results quantise(const ir::OpContext& c, ir::GraphBuilder& b, std::span<const Value> in, Value y, size_t scale,
                 size_t zero, DType type) {
  ir::Attrs attrs;
  if (!c.has(zero)) attrs.set("output_dtype", type);
  return b.add("quantize_linear", {y, in[scale], or_none(c, in, zero)}, attrs);
}

using RealPart = std::function<Expected<Value>(const ir::OpContext&, ir::GraphBuilder&, Value)>;

// quantize(f(dequantize(x))): inputs x, its scale and zero point, the result's scale and zero point.
ir::OpDef quantised_unary(std::string name, std::string doc, const char* type, RealPart f) {
  ir::OpDef op;
  op.samples = {fmt::format("{}(u8[2,3,4], f32[] 0.1, u8[] 128, f32[] 0.01, u8[] 3)", name)};
  op.name = std::move(name);
  op.doc = std::move(doc);
  op.inputs = {{"x", "T", kBytes},
               {"x_scale", "S", DType::F32},
               {"x_zero_point", "T", kBytes, Arity::Optional},
               {"y_scale", "S", DType::F32},
               {"y_zero_point", "T", kBytes, Arity::Optional}};
  op.outputs = {{"y", "T"}};
  op.expand = [f = std::move(f)](const ir::OpContext& c, ir::GraphBuilder& b, std::span<const Value> in) -> Results {
    ISOMER_TRY(const Value x, dequantise(c, b, in, 0, 1, 2));
    ISOMER_TRY(const Value y, f(c, b, x));
    return quantise(c, b, in, y, 3, 4, c.dtype(0));
  };
  op.onnx = {{.type = type, .domain = "com.microsoft"}};
  return op;
}

}  // namespace

ir::OpDef op_ms_qlinear_sigmoid() {
  return quantised_unary("ms_qlinear_sigmoid", "Sigmoid of a quantised tensor, quantised again.", "QLinearSigmoid",
                         [](const ir::OpContext&, ir::GraphBuilder& b, Value x) { return b.add1("sigmoid", {x}); });
}

ir::OpDef op_ms_qlinear_leaky_relu() {
  ir::OpDef op = quantised_unary("ms_qlinear_leaky_relu", "Leaky relu of a quantised tensor, quantised again.",
                                 "QLinearLeakyRelu", [](const ir::OpContext& c, ir::GraphBuilder& b, Value x) {
                                   return b.add1("leaky_relu", {x}, {{"alpha", c.real("alpha")}});
                                 });
  op.attrs = {{"alpha", AttrKind::Real, 0.01}};
  return op;
}

ir::OpDef op_ms_qlinear_softmax() {
  ir::OpDef op =
      quantised_unary("ms_qlinear_softmax", "Softmax of a quantised tensor, quantised again.", "QLinearSoftmax",
                      [](const ir::OpContext& c, ir::GraphBuilder& b, Value x) -> Expected<Value> {
                        const int64_t axis = c.integer("axis");
                        if (c.integer("opset") >= 13 || axis == -1) return b.add1("softmax", {x}, {{"axis", axis}});
                        // Before opset 13 all axes from `axis` on were one.
                        ISOMER_TRY(const Value shape, b.add1("shape", {x}));
                        ISOMER_TRY(const Value rows, b.add1("flatten", {x}, {{"axis", axis}}));
                        ISOMER_TRY(const Value y, b.add1("softmax", {rows}, {{"axis", int64_t{1}}}));
                        return b.add1("reshape", {y, shape}, {{"allowzero", int64_t{1}}});
                      });
  op.attrs = {{"axis", AttrKind::Int, int64_t{-1}}, {.name = "opset", .kind = AttrKind::Int, .required = true}};
  op.samples = {"ms_qlinear_softmax(u8[2,3], f32[] 0.1, u8[] 128, f32[] 0.004, u8[] 0){opset=13}",
                "ms_qlinear_softmax(u8[2,3,2], f32[] 0.1, u8[] 128, f32[] 0.004, u8[] 0){opset=12, axis=1}"};
  return op;
}

namespace {

// f of x, which has its channels in front or, by `channels_last`, behind.
Expected<Value> channels_first(const ir::OpContext& c, ir::GraphBuilder& b, Value x,
                               const std::function<Expected<Value>(Value)>& f) {
  if (!c.flag("channels_last")) return f(x);
  if (c.rank(0) < 3) return c.error(fmt::format("expected rank 3 or more, found {}", c.shape(0).to_string()));
  std::vector<int64_t> order = {0, static_cast<int64_t>(c.rank(0)) - 1}, back = {0};
  for (size_t k = 1; k + 1 < c.rank(0); ++k) {
    order.push_back(static_cast<int64_t>(k));
    back.push_back(static_cast<int64_t>(k) + 1);
  }
  back.push_back(1);
  ISOMER_TRY(const Value first, b.add1("transpose", {x}, {{"perm", order}}));
  ISOMER_TRY(const Value y, f(first));
  return b.add1("transpose", {y}, {{"perm", back}});
}

}  // namespace

ir::OpDef op_ms_qlinear_global_average_pool() {
  ir::OpDef op = quantised_unary(
      "ms_qlinear_global_average_pool", "Mean of each channel of a quantised tensor, quantised again.",
      "QLinearGlobalAveragePool", [](const ir::OpContext& c, ir::GraphBuilder& b, Value x) -> Expected<Value> {
        return channels_first(c, b, x, [&](Value v) { return b.add1("global_average_pool", {v}); });
      });
  op.attrs = {{"channels_last", AttrKind::Int, int64_t{0}}};
  op.samples.push_back(
      "ms_qlinear_global_average_pool(u8[2,3,4,2], f32[] 0.1, u8[] 128, f32[] 0.01, u8[] 3){channels_last=1}");
  return op;
}

ir::OpDef op_ms_qlinear_average_pool() {
  ir::OpDef op = quantised_unary(
      "ms_qlinear_average_pool", "average_pool of a quantised tensor, quantised again.", "QLinearAveragePool",
      [](const ir::OpContext& c, ir::GraphBuilder& b, Value x) -> Expected<Value> {
        ir::Attrs attrs = c.attrs();
        attrs.erase("channels_last");
        return channels_first(c, b, x, [&](Value v) { return b.add1("average_pool", {v}, attrs); });
      });
  op.attrs = {{"auto_pad", AttrKind::String, std::string("NOTSET")},
              {"ceil_mode", AttrKind::Int, int64_t{0}},
              {"channels_last", AttrKind::Int, int64_t{0}},
              {"count_include_pad", AttrKind::Int, int64_t{0}},
              {"kernel_shape", AttrKind::Ints, std::nullopt, true},
              {"pads", AttrKind::Ints},
              {"strides", AttrKind::Ints}};
  op.samples = {
      "ms_qlinear_average_pool(u8[1,2,5], f32[] 0.1, u8[] 128, f32[] 0.2, u8[] 3)"
      "{kernel_shape=[3], strides=[2], pads=[1,1]}"};
  return op;
}

ir::OpDef op_ms_qlinear_concat() {
  ir::OpDef op;
  op.name = "ms_qlinear_concat";
  op.doc = "Joins quantised tensors along an axis, each brought to the result's scale.";
  op.inputs = {{"y_scale", "S", DType::F32},
               {"y_zero_point", "T", kBytes},
               {"inputs", "", kBytes | DType::F32, Arity::Variadic, 3}};
  op.outputs = {{"y", "T"}};
  op.attrs = {{.name = "axis", .kind = AttrKind::Int, .required = true}};
  op.expand = [](const ir::OpContext& c, ir::GraphBuilder& b, std::span<const Value> in) -> Results {
    if ((c.input_count() - 2) % 3 != 0) return c.error("expected inputs in threes: tensor, scale, zero point");
    std::vector<Value> parts;
    for (size_t k = 2; k < c.input_count(); k += 3) {
      ISOMER_TRY(const Value x, dequantise(c, b, in, k, k + 1, k + 2));
      parts.push_back(x);
    }
    ISOMER_TRY(const Value y, b.add1("concat", parts, {{"axis", c.integer("axis")}}));
    return quantise(c, b, in, y, 0, 1, c.dtype(1));
  };
  op.samples = {
      "ms_qlinear_concat(f32[] 0.2, u8[] 3, u8[2,2], f32[] 0.1, u8[] 128, u8[2,3], f32[] 0.3, u8[] 7){axis=1}"};
  op.onnx = {{.type = "QLinearConcat", .domain = "com.microsoft"}};
  return op;
}

ir::OpDef op_ms_dynamic_quantize_matmul() {
  ir::OpDef op;
  op.name = "ms_dynamic_quantize_matmul";
  op.doc = "Matrix product of reals, quantised by their own range, with quantised weights; the result is real.";
  op.inputs = {{"a", "T1", DType::F32},
               {"b", "T2", kBytes},
               {"b_scale", "T1", DType::F32},
               {"b_zero_point", "T2", kBytes, Arity::Optional},
               {"bias", "T1", DType::F32, Arity::Optional}};
  op.outputs = {{"y", "T1"}};
  op.expand = [](const ir::OpContext& c, ir::GraphBuilder& b, std::span<const Value> in) -> Results {
    ISOMER_TRY(const std::vector<Value> q, b.add("dynamic_quantize_linear", {in[0]}));
    return b.add("ms_matmul_integer_to_float", {q[0], in[1], q[1], in[2], q[2], or_none(c, in, 3), or_none(c, in, 4)});
  };
  op.samples = {"ms_dynamic_quantize_matmul(f32[2,3], i8[3,4], f32[] 0.1)",
                "ms_dynamic_quantize_matmul(f32[2,3], u8[3,2], f32[2] [0.1,0.2], u8[2] [3,4], f32[2])"};
  op.onnx = {{.type = "DynamicQuantizeMatMul", .domain = "com.microsoft"}};
  return op;
}

ir::OpDef op_ms_nhwc_max_pool() {
  ir::OpDef op;
  op.name = "ms_nhwc_max_pool";
  op.doc = "max_pool of quantised images whose channels are the last axis.";
  op.inputs = {{"x", "T", kBytes}};
  op.outputs = {{"y", "T"}};
  op.attrs = {{"auto_pad", AttrKind::String, std::string("NOTSET")},
              {"ceil_mode", AttrKind::Int, int64_t{0}},
              {"dilations", AttrKind::Ints},
              {.name = "kernel_shape", .kind = AttrKind::Ints, .required = true},
              {"pads", AttrKind::Ints},
              {"strides", AttrKind::Ints}};
  op.expand = [](const ir::OpContext& c, ir::GraphBuilder& b, std::span<const Value> in) -> Results {
    const auto rank = static_cast<int64_t>(c.rank(0));
    if (rank < 3) return c.error(fmt::format("expected rank 3 or more, found {}", rank));
    std::vector<int64_t> inward = {0, rank - 1}, outward = {0};
    for (int64_t a = 1; a < rank - 1; ++a) inward.push_back(a);
    for (int64_t a = 2; a < rank; ++a) outward.push_back(a);
    outward.push_back(1);
    ISOMER_TRY(const Value x, b.add1("transpose", {in[0]}, {{"perm", inward}}));
    ISOMER_TRY(const Value y, b.add1("max_pool", {x}, c.attrs()));
    return b.add("transpose", {y}, {{"perm", outward}});
  };
  op.samples = {"ms_nhwc_max_pool(u8[1,4,5,2]){kernel_shape=[2,3], strides=[2,1]}",
                "ms_nhwc_max_pool(i8[1,5,2]){kernel_shape=[3], pads=[1,1], dilations=[2]}"};
  op.onnx = {{.type = "NhwcMaxPool", .domain = "com.microsoft"}};
  return op;
}

namespace {

struct Packed {
  int64_t k = 0, n = 0, bits = 0, block = 0, blocks = 0;
};

Expected<Packed> packed(const ir::OpContext& c) {
  const Packed p0{c.integer("K"), c.integer("N"), c.integer("bits"), c.integer("block_size"), 0};
  if (p0.bits != 4 && p0.bits != 8) return c.error(fmt::format("expected 4 or 8 bits, found {}", p0.bits));
  if (p0.k <= 0 || p0.n <= 0) return c.error(fmt::format("expected positive K and N, found {} and {}", p0.k, p0.n));
  if (p0.block < 16 || p0.block > (1 << 20) || (p0.block & (p0.block - 1)) != 0)
    return c.error(fmt::format("expected a block_size that is a power of 2 and at least 16, found {}", p0.block));
  Packed p = p0;
  p.blocks = (p.k - 1) / p.block + 1;
  if (c.rank(0) < 1 || (c.dim(0, c.rank(0) - 1).is_const() && !(c.dim(0, c.rank(0) - 1) == Dim(p.k))))
    return c.error(fmt::format("expected a last extent K = {} of a, found shape {}", p.k, c.shape(0).to_string()));
  const Dim n(p.n), blocks(p.blocks);
  const auto holds = [&](size_t i, const Dim& elements) { return c.shape(i).elements() == elements; };
  if (c.rank(1) != 3 || !(c.shape(1) == Shape{n, blocks, Dim(p.block / 8 * p.bits)}))
    return c.error(fmt::format("the packed weights have shape {}, expected [{},{},{}]", c.shape(1).to_string(), p.n,
                               p.blocks, p.block / 8 * p.bits));
  if (!holds(2, n * blocks))
    return c.error(fmt::format("expected {} scales, found shape {}", (n * blocks).to_string(), c.shape(2).to_string()));
  if (c.has(3) && !holds(3, is_float(c.dtype(3)) ? n * blocks : n * ceil_div(blocks * Dim(p.bits), Dim(8))))
    return c.error(fmt::format("the zero points have shape {}, which does not fit the blocks", c.shape(3).to_string()));
  if (c.has(4)) return c.error("a g_idx input is not supported; reorder the weights");
  if (c.has(5) && !holds(5, n)) return c.error(fmt::format("expected a bias of {} elements", p.n));
  return p;
}

// Element `position` of a tensor of any shape, in row-major order.
Expr flat(const te::Handle& h, const Expr& position) { return h.at(te::unflatten(position, h.dims())); }

// Number `i` of a row of packed bytes: the low half of a byte comes first.
Expr unpack(const Packed& p, const Expr& i, const std::function<Expr(const Expr& byte)>& byte) {
  if (p.bits == 8) return cast(DType::I32, byte(i));
  const Expr pair = cast(DType::I32, byte(floor_div(i, Expr(2))));
  return select(eq(floor_mod(i, Expr(2)), Expr(0)), floor_mod(pair, Expr(16)), floor_div(pair, Expr(16)));
}

Expected<te::Program> matmul_nbits(const ir::OpContext& c) {
  te::Builder b;
  const auto in = c.declare(b);
  ISOMER_TRY(const Packed p, packed(c));
  const DType t = c.dtype(0);
  const std::vector<Dim> weights = {Dim(p.n), Dim(p.k)};
  const te::Handle w = b.map("w", t, weights, [&](auto i) {
    const Expr block = floor_div(i[1], Expr(p.block));
    const Expr q =
        unpack(p, floor_mod(i[1], Expr(p.block)), [&](const Expr& byte) { return in[1].at({i[0], block, byte}); });
    const Expr of_block = i[0] * Expr(p.blocks) + block;
    const int64_t row = (p.blocks * p.bits + 7) / 8;
    Expr centred = cast(t, q);
    if (c.has(3) && is_float(c.dtype(3)))
      centred = centred - cast(t, flat(in[3], of_block));
    else if (c.has(3))
      centred = cast(t, q - unpack(p, block, [&](const Expr& byte) { return flat(in[3], i[0] * Expr(row) + byte); }));
    else
      centred = cast(t, q - Expr(int64_t{1} << (p.bits - 1)));
    return centred * flat(in[2], of_block);
  });
  std::vector<Dim> dims = c.shape(0).dims();
  dims.back() = Dim(p.n);
  return b.finish({b.map("y", t, dims, [&](auto i) {
    const te::Axis k = b.axis("k", Dim(p.k));
    std::vector<Expr> at(i.begin(), i.end());
    at.back() = Expr(k);
    const Expr sum = te::sum({k}, in[0].at(at) * w.at({i.back(), Expr(k)}));
    return c.has(5) ? sum + flat(in[5], i.back()) : sum;
  })});
}

}  // namespace

ir::OpDef op_ms_matmul_nbits() {
  ir::OpDef op;
  op.name = "ms_matmul_nbits";
  op.doc = "Matrix product with weights of 4 or 8 bits, quantised in blocks along the contracted axis.";
  op.inputs = {{"a", "T1", kFloats},
               {"b", "T2", DType::U8},
               {"scales", "T1", kFloats},
               {"zero_points", "T3", kFloats | DType::U8, Arity::Optional},
               {"g_idx", "T4", DType::I32, Arity::Optional},
               {"bias", "T1", kFloats, Arity::Optional}};
  op.outputs = {{"y", "T1"}};
  op.attrs = {{.name = "K", .kind = AttrKind::Int, .required = true},
              {.name = "N", .kind = AttrKind::Int, .required = true},
              {"accuracy_level", AttrKind::Int, int64_t{0}},
              {"bits", AttrKind::Int, int64_t{4}},
              {.name = "block_size", .kind = AttrKind::Int, .required = true}};
  op.compute = matmul_nbits;
  op.samples = {"ms_matmul_nbits(f32[2,20], u8[3,2,8], f32[6]){K=20, N=3, block_size=16}",
                "ms_matmul_nbits(f32[1,2,20], u8[3,2,8], f32[6], u8[3]){K=20, N=3, block_size=16}",
                "ms_matmul_nbits(f32[2,20], u8[3,2,16], f32[6], u8[6]){K=20, N=3, block_size=16, bits=8}"};
  op.onnx = {{.type = "MatMulNBits", .domain = "com.microsoft"}};
  return op;
}

}  // namespace isomer::ops
