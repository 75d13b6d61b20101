// Operators of ONNX Runtime's own domain that fuse standard ones: each is written as the graph it stands for.
#include <fmt/format.h>

#include <algorithm>

#include "ir/graph.h"
#include "ops/conv.h"
#include "ops/elementwise.h"

namespace isomer::ops {
namespace {

using ir::AttrKind;
using ir::Value;
using te::Expr;

using Results = Expected<std::vector<Value>>;

std::vector<ir::OnnxForm> microsoft(const char* type) { return {{.type = type, .domain = "com.microsoft"}}; }

Value scalar(ir::GraphBuilder& b, DType type, double value) { return b.constant(Tensor::scalar(type, value)); }

// The activation that a fused operator names, with its parameters.
Expected<Value> activate(const ir::OpContext& c, ir::GraphBuilder& b, Value x, const std::string& activation,
                         const std::vector<double>& params) {
  const auto param = [&](size_t i, double standard) { return i < params.size() ? params[i] : standard; };
  if (activation.empty()) return x;
  if (activation == "Relu") return b.add1("relu", {x});
  if (activation == "Tanh") return b.add1("tanh", {x});
  if (activation == "Sigmoid") return b.add1("sigmoid", {x});
  if (activation == "LeakyRelu") return b.add1("leaky_relu", {x}, {{"alpha", param(0, 0.01)}});
  if (activation == "HardSigmoid")
    return b.add1("hard_sigmoid", {x}, {{"alpha", param(0, 0.2)}, {"beta", param(1, 0.5)}});
  if (activation == "Clip" && params.size() == 2) {
    const DType t = b.type(x).dtype;
    return b.add1("clip", {x, scalar(b, t, params[0]), scalar(b, t, params[1])});
  }
  return c.error(fmt::format("activation {} with {} parameters is not known", quoted(activation), params.size()));
}

}  // namespace

ir::OpDef op_ms_gelu() {
  ir::OpDef op;
  op.name = "ms_gelu";
  op.doc = "Exact gelu.";
  op.inputs = {{"x", "T", kFloats}};
  op.outputs = {{"y", "T"}};
  op.expand = [](const ir::OpContext&, ir::GraphBuilder& b, std::span<const Value> in) -> Results {
    return b.add("gelu", {in[0]});
  };
  op.samples = {"ms_gelu(f32[2,3])"};
  op.onnx = microsoft("Gelu");
  return op;
}

ir::OpDef op_ms_bias_gelu() {
  ir::OpDef op;
  op.name = "ms_bias_gelu";
  op.doc = "Exact gelu of a sum.";
  op.inputs = {{"a", "T", kFloats}, {"b", "T", kFloats}};
  op.outputs = {{"c", "T"}};
  op.expand = [](const ir::OpContext&, ir::GraphBuilder& b, std::span<const Value> in) -> Results {
    ISOMER_TRY(const Value sum, b.add1("add", {in[0], in[1]}));
    return b.add("gelu", {sum});
  };
  op.samples = {"ms_bias_gelu(f32[2,3], f32[3])"};
  op.onnx = microsoft("BiasGelu");
  return op;
}

ir::OpDef op_ms_bias_split_gelu() {
  ir::OpDef op;
  op.name = "ms_bias_split_gelu";
  op.doc = "The first half of x + bias along the last axis, times the exact gelu of the second.";
  op.inputs = {{"x", "T", kFloats}, {"bias", "T", kFloats}};
  op.outputs = {{"y", "T"}};
  op.expand = [](const ir::OpContext& c, ir::GraphBuilder& b, std::span<const Value> in) -> Results {
    if (c.rank(0) < 1 || c.rank(1) != 1)
      return c.error(fmt::format("expected a tensor and a bias of rank 1, found {} and {}", c.shape(0).to_string(),
                                 c.shape(1).to_string()));
    const Dim& width = c.dim(0, c.rank(0) - 1);
    if (!(width == c.dim(1, 0)) || (width.is_const() && width.value() % 2 != 0))
      return c.error(fmt::format("expected a bias of {} elements, an even number, found {}", width.to_string(),
                                 c.dim(1, 0).to_string()));
    ISOMER_TRY(const Value sum, b.add1("add", {in[0], in[1]}));
    ISOMER_TRY(const std::vector<Value> half,
               b.add("split", {sum}, {{"axis", int64_t{-1}}, {"num_outputs", int64_t{2}}}, {}, 2));
    ISOMER_TRY(const Value gate, b.add1("gelu", {half[1]}));
    return b.add("mul", {half[0], gate});
  };
  op.samples = {"ms_bias_split_gelu(f32[1,2,6], f32[6])", "ms_bias_split_gelu(f32[2,4], f32[4])"};
  op.onnx = microsoft("BiasSplitGelu");
  return op;
}

ir::OpDef op_ms_fast_gelu() {
  ir::OpDef op;
  op.name = "ms_fast_gelu";
  op.doc = "Gelu approximated by tanh, of x plus an optional bias.";
  op.inputs = {{"x", "T", kFloats}, {"bias", "T", kFloats, ir::Arity::Optional}};
  op.outputs = {{"y", "T"}};
  op.expand = [](const ir::OpContext& c, ir::GraphBuilder& b, std::span<const Value> in) -> Results {
    Value x = in[0];
    if (c.has(1)) {
      ISOMER_TRY(x, b.add1("add", {in[0], in[1]}));
    }
    return b.add("gelu", {x}, {{"approximate", std::string("tanh")}});
  };
  op.samples = {"ms_fast_gelu(f32[2,3])", "ms_fast_gelu(f32[2,3], f32[3])"};
  op.onnx = microsoft("FastGelu");
  return op;
}

ir::OpDef op_ms_quick_gelu() {
  return unary({.name = "ms_quick_gelu",
                .doc = "x * sigmoid(alpha * x).",
                .attrs = {{"alpha", AttrKind::Real, 1.702}},
                .onnx = microsoft("QuickGelu")},
               [](const Expr& x, const ir::OpContext& c) {
                 return x / (exp(-(x * Expr::real(x.dtype(), c.real("alpha")))) + 1);
               });
}

ir::OpDef op_ms_fused_conv() {
  ir::OpDef op;
  op.name = "ms_fused_conv";
  op.doc = "Convolution, plus an optional tensor, then an activation.";
  op.inputs = {{"x", "T", kFloats},
               {"w", "T", kFloats},
               {"b", "T", kFloats, ir::Arity::Optional},
               {"z", "T", kFloats, ir::Arity::Optional}};
  op.outputs = {{"y", "T"}};
  op.attrs = conv_attrs();
  op.attrs.push_back({"activation", AttrKind::String, std::string()});
  op.attrs.push_back({"activation_params", AttrKind::Reals});
  op.expand = [](const ir::OpContext& c, ir::GraphBuilder& b, std::span<const Value> in) -> Results {
    ir::Attrs attrs = c.attrs();
    attrs.erase("activation");
    attrs.erase("activation_params");
    ISOMER_TRY(Value y, b.add1("conv", {in[0], in[1], c.has(2) ? in[2] : Value::none()}, attrs));
    if (c.has(3)) {
      ISOMER_TRY(y, b.add1("add", {y, in[3]}));
    }
    ISOMER_TRY(y, activate(c, b, y, c.text("activation"), c.reals("activation_params")));
    return std::vector<Value>{y};
  };
  op.samples = {"ms_fused_conv(f32[1,2,4], f32[3,2,2]){activation=\"Relu\"}",
                "ms_fused_conv(f32[1,2,4], f32[3,2,2], f32[3], f32[1,3,3])"
                "{activation=\"LeakyRelu\", activation_params=[0.1]}"};
  op.onnx = microsoft("FusedConv");
  return op;
}

ir::OpDef op_ms_fused_gemm() {
  ir::OpDef op;
  op.name = "ms_fused_gemm";
  op.doc = "gemm, then an activation.";
  op.inputs = {{"a", "T", kFloats}, {"b", "T", kFloats}, {"c", "T", kFloats, ir::Arity::Optional}};
  op.outputs = {{"y", "T"}};
  op.attrs = {{"activation", AttrKind::String, std::string()},
              {"activation_alpha", AttrKind::Real},
              {"activation_beta", AttrKind::Real},
              {"activation_gamma", AttrKind::Real},
              {"alpha", AttrKind::Real, 1.0},
              {"beta", AttrKind::Real, 1.0},
              {"transA", AttrKind::Int, int64_t{0}},
              {"transB", AttrKind::Int, int64_t{0}}};
  op.expand = [](const ir::OpContext& c, ir::GraphBuilder& b, std::span<const Value> in) -> Results {
    ISOMER_TRY(Value y, b.add1("gemm", {in[0], in[1], c.has(2) ? in[2] : Value::none()},
                               {{"alpha", c.real("alpha")},
                                {"beta", c.real("beta")},
                                {"transA", c.integer("transA")},
                                {"transB", c.integer("transB")}}));
    std::vector<double> params;
    for (const char* name : {"activation_alpha", "activation_beta", "activation_gamma"})
      if (c.has_attr(name)) params.push_back(c.real(name));
    ISOMER_TRY(y, activate(c, b, y, c.text("activation"), params));
    return std::vector<Value>{y};
  };
  op.samples = {"ms_fused_gemm(f32[2,3], f32[3,4], f32[4]){activation=\"Relu\"}",
                "ms_fused_gemm(f32[3,2], f32[3,4]){transA=1, activation=\"Tanh\", alpha=0.5}"};
  op.onnx = microsoft("FusedGemm");
  return op;
}

namespace {

// The last two axes swapped when `swap`, after the first axis has moved behind the batch axes when `batch_inside`.
std::vector<int64_t> operand_order(size_t rank, bool swap, bool batch_inside) {
  std::vector<int64_t> order;
  for (size_t i = 0; i < rank; ++i) order.push_back(static_cast<int64_t>(i));
  if (batch_inside && rank > 2) std::rotate(order.begin(), order.begin() + 1, order.end() - 1);
  if (swap && rank >= 2) std::swap(order[rank - 1], order[rank - 2]);
  return order;
}

}  // namespace

ir::OpDef op_ms_fused_matmul() {
  ir::OpDef op;
  op.name = "ms_fused_matmul";
  op.doc = "alpha times the matrix product of operands that may be stored transposed.";
  op.inputs = {{"a", "T", kFloats}, {"b", "T", kFloats}};
  op.outputs = {{"y", "T"}};
  op.attrs = {{"alpha", AttrKind::Real, 1.0},
              {"transA", AttrKind::Int, int64_t{0}},
              {"transB", AttrKind::Int, int64_t{0}},
              {"transBatchA", AttrKind::Int, int64_t{0}},
              {"transBatchB", AttrKind::Int, int64_t{0}}};
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    te::Builder b;
    const auto in = c.declare(b);
    std::vector<int64_t> order[2] = {operand_order(c.rank(0), c.flag("transA"), c.flag("transBatchA")),
                                     operand_order(c.rank(1), c.flag("transB"), c.flag("transBatchB"))};
    for (size_t side : {0, 1})
      if (c.rank(side) < 2) return c.error("expected operands of rank 2 or more");
    // Axis k of operand `side` as the product sees it.
    const auto dim = [&](size_t side, size_t k) { return c.dim(side, static_cast<size_t>(order[side][k])); };
    const size_t ra = c.rank(0), rb = c.rank(1), batch = std::max(ra, rb) - 2;
    const Dim inner = dim(0, ra - 1);
    if (inner.is_const() && dim(1, rb - 2).is_const() && !(inner == dim(1, rb - 2)))
      return c.error(fmt::format("the contracted extents {} and {} differ", inner.value(), dim(1, rb - 2).value()));
    std::vector<Dim> dims;
    for (size_t k = 0; k < batch; ++k) {
      const Dim da = k + ra < batch + 2 ? Dim(1) : dim(0, k + ra - batch - 2);
      const Dim db = k + rb < batch + 2 ? Dim(1) : dim(1, k + rb - batch - 2);
      if (da.is_const() && db.is_const() && !(da == db) && !(da == Dim(1)) && !(db == Dim(1)))
        return c.error(fmt::format("the batch extents {} and {} do not broadcast", da.value(), db.value()));
      dims.push_back(da == Dim(1) ? db : da);
    }
    dims.push_back(dim(0, ra - 2));
    dims.push_back(dim(1, rb - 1));
    return b.finish({b.map("y", c.dtype(0), dims, [&](auto i) {
      const te::Axis k = b.axis("k", inner);
      const auto read = [&](size_t side, const Expr& row, const Expr& column) {
        const size_t rank = c.rank(side);
        std::vector<Expr> at(rank);
        for (size_t a = 0; a < rank; ++a) {
          const auto own = static_cast<size_t>(order[side][a]);
          at[own] = a == rank - 1            ? column
                    : a == rank - 2          ? row
                    : dim(side, a) == Dim(1) ? Expr(0)
                                             : i[a + batch + 2 - rank];
        }
        return in[side].at(at);
      };
      const Expr sum = te::sum({k}, read(0, i[batch], Expr(k)) * read(1, Expr(k), i[batch + 1]));
      return c.real("alpha") == 1 ? sum : sum * Expr::real(c.dtype(0), c.real("alpha"));
    })});
  };
  op.samples = {"ms_fused_matmul(f32[2,3], f32[4,3]){transB=1, alpha=0.5}",
                "ms_fused_matmul(f32[5,3,2], f32[5,3,4]){transA=1}",
                "ms_fused_matmul(f32[2,5,3], f32[5,3,4]){transBatchA=1}"};
  op.onnx = {{.type = "FusedMatMul", .domain = "com.microsoft"},
             {.type = "TransposeMatMul", .domain = "com.microsoft"}};
  return op;
}

}  // namespace isomer::ops
