// Normalisations of ONNX Runtime's own operators.
#include <fmt/format.h>

#include "ir/graph.h"
#include "ir/op.h"

namespace isomer::ops {
namespace {

using ir::AttrKind;
using ir::Value;
using te::Expr;

Expected<Value> residual(const ir::OpContext& c, ir::GraphBuilder& b, std::span<const Value> in, size_t bias) {
  ISOMER_TRY(Value sum, b.add1("add", {in[0], in[1]}));
  if (c.has(bias)) {
    ISOMER_TRY(sum, b.add1("add", {sum, in[bias]}));
  }
  return sum;
}

std::vector<ir::OutputDef> skip_outputs() {
  return {{"output", "T"},
          {"mean", "f32", ir::Arity::Optional},
          {"inv_std_var", "f32", ir::Arity::Optional},
          {"input_skip_bias_sum", "T", ir::Arity::Optional}};
}

}  // namespace

ir::OpDef op_ms_skip_layer_normalization() {
  ir::OpDef op;
  op.name = "ms_skip_layer_normalization";
  op.doc = "Layer normalisation of input + skip (+ bias) over the last axis.";
  op.inputs = {{"input", "T", kFloats},
               {"skip", "T", kFloats},
               {"gamma", "T", kFloats},
               {"beta", "T", kFloats, ir::Arity::Optional},
               {"bias", "T", kFloats, ir::Arity::Optional}};
  op.outputs = skip_outputs();
  op.attrs = {{"epsilon", AttrKind::Real, 1e-12}};
  op.expand = [](const ir::OpContext& c, ir::GraphBuilder& b,
                 std::span<const Value> in) -> Expected<std::vector<Value>> {
    ISOMER_TRY(const Value sum, residual(c, b, in, 4));
    ISOMER_TRY(std::vector<Value> out,
               b.add("layer_normalization", {sum, in[2], c.has(3) ? in[3] : Value::none()},
                     {{"axis", int64_t{-1}}, {"epsilon", c.real("epsilon")}}, {}, c.output_count() > 1 ? 3 : 1));
    if (c.output_count() > 3) out.push_back(sum);
    return out;
  };
  op.samples = {"ms_skip_layer_normalization(f32[2,3,4], f32[2,3,4], f32[4], f32[4])",
                "ms_skip_layer_normalization(f32[2,3,4], f32[2,3,4], f32[4], f32[4], f32[4]){epsilon=0.01}"};
  op.onnx = {{.type = "SkipLayerNormalization", .domain = "com.microsoft"}};
  return op;
}

ir::OpDef op_ms_skip_simplified_layer_normalization() {
  ir::OpDef op;
  op.name = "ms_skip_simplified_layer_normalization";
  op.doc = "Root-mean-square normalisation of input + skip (+ bias) over the last axis.";
  op.inputs = {{"input", "T", kFloats},
               {"skip", "T", kFloats},
               {"gamma", "T", kFloats},
               {"bias", "T", kFloats, ir::Arity::Optional}};
  op.outputs = skip_outputs();
  op.attrs = {{"epsilon", AttrKind::Real, 1e-12}};
  op.expand = [](const ir::OpContext& c, ir::GraphBuilder& b,
                 std::span<const Value> in) -> Expected<std::vector<Value>> {
    ISOMER_TRY(const Value sum, residual(c, b, in, 3));
    ISOMER_TRY(const std::vector<Value> normal,
               b.add("simplified_layer_normalization", {sum, in[2]}, {{"epsilon", c.real("epsilon")}}, {}, 2));
    std::vector<Value> out = {normal[0]};
    if (c.output_count() == 1) return out;
    // No mean is taken off; the output exists so that both operators have one list of outputs.
    ISOMER_TRY(const Value zero, b.add1("sub", {normal[1], normal[1]}));
    out.insert(out.end(), {zero, normal[1], sum});
    return out;
  };
  op.samples = {"ms_skip_simplified_layer_normalization(f32[2,3,4], f32[2,3,4], f32[4])",
                "ms_skip_simplified_layer_normalization(f32[2,3,4], f32[2,3,4], f32[4], f32[4]){epsilon=0.01}"};
  op.onnx = {{.type = "SkipSimplifiedLayerNormalization", .domain = "com.microsoft"}};
  return op;
}

ir::OpDef op_simplified_layer_normalization() {
  ir::OpDef op;
  op.name = "simplified_layer_normalization";
  op.doc = "x divided by the root of its mean square over the axes from `axis` on, then scaled.";
  op.inputs = {{"x", "T", kFloats}, {"scale", "V", kFloats}};
  op.outputs = {{"y", "V"}, {"inv_std_var", "f32", ir::Arity::Optional}};
  op.attrs = {{"axis", AttrKind::Int, int64_t{-1}},
              {"epsilon", AttrKind::Real, 1e-5},
              {"stash_type", AttrKind::DType, DType::F32}};
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    te::Builder b;
    const auto in = c.declare(b);
    const size_t rank = c.rank(0);
    ISOMER_TRY(const size_t axis, c.axis(c.integer("axis"), rank));
    if (c.rank(1) > rank - axis)
      return c.error(fmt::format("a scale of shape {} does not fit the axes from {} on of {}", c.shape(1).to_string(),
                                 axis, c.shape(0).to_string()));
    for (size_t k = 0; k < c.rank(1); ++k) {
      const Dim &s = c.dim(1, k), &d = c.dim(0, rank - c.rank(1) + k);
      if (s.is_const() && d.is_const() && !(s == d) && !(s == Dim(1)))
        return c.error(
            fmt::format("a scale of shape {} does not fit {}", c.shape(1).to_string(), c.shape(0).to_string()));
    }
    std::vector<Dim> outer = c.shape(0).dims();
    Dim count(1);
    for (size_t k = axis; k < rank; ++k) count = count * outer[k], outer[k] = Dim(1);
    const te::Handle inv = b.map("inv_std_var", DType::F32, outer, [&](auto i) {
      std::vector<te::Axis> axes;
      std::vector<Expr> at(i.begin(), i.end());
      for (size_t k = axis; k < rank; ++k) {
        axes.push_back(b.axis("r" + std::to_string(k), c.dim(0, k)));
        at[k] = Expr(axes.back());
      }
      const Expr x = cast(DType::F32, in[0].at(at));
      const Expr mean = te::sum(axes, x * x) / cast(DType::F32, Expr(count));
      return Expr(1) / sqrt(mean + Expr::real(DType::F32, c.real("epsilon")));
    });
    const te::Handle y = b.map("y", c.dtype(1), in[0].dims(), [&](auto i) {
      std::vector<Expr> group(i.begin(), i.end());
      for (size_t k = axis; k < rank; ++k) group[k] = Expr(0);
      const Expr x = cast(DType::F32, in[0].at({i.begin(), i.end()}));
      return cast(c.dtype(1), x * inv.at(group) * cast(DType::F32, in[1].broadcast(i)));
    });
    return b.finish({y, inv});
  };
  op.samples = {"simplified_layer_normalization(f32[2,3], f32[3])",
                "simplified_layer_normalization(f32[2,3,4], f32[3,4]){axis=1, epsilon=0.1}"};
  op.onnx = {{.type = "SimplifiedLayerNormalization"}};
  return op;
}

namespace {

// Sums of the rows that the identifiers choose from each table.
Expected<te::Handle> embed(te::Builder& b, const ir::OpContext& c, std::span<const te::Handle> in) {
  for (size_t table : {2, 3, 4})
    if (c.has(table) && c.rank(table) != 2)
      return c.error(
          fmt::format("expected '{}' of rank 2, found {}", c.op().inputs[table].name, c.shape(table).to_string()));
  if (c.rank(0) != 2) return c.error(fmt::format("expected input_ids of rank 2, found {}", c.shape(0).to_string()));
  if (c.has(1) != c.has(4)) return c.error("segment_ids and segment_embedding go together");
  const auto same = [&](size_t i) {
    return c.rank(i) == 2 && (c.dim(i, 1) == c.dim(0, 1) || !c.dim(i, 1).is_const() || !c.dim(0, 1).is_const());
  };
  for (size_t i : {1, 7, 8})
    if (c.has(i) && !same(i))
      return c.error(fmt::format("'{}' has shape {}, expected that of input_ids, {}", c.op().inputs[i].name,
                                 c.shape(i).to_string(), c.shape(0).to_string()));
  const Dim& hidden = c.dim(2, 1);
  for (size_t i : {3, 4, 5, 6})
    if (c.has(i) && c.rank(i) >= 1 && c.dim(i, c.rank(i) - 1).is_const() && hidden.is_const() &&
        !(c.dim(i, c.rank(i) - 1) == hidden))
      return c.error(fmt::format("'{}' has shape {}, expected a last extent of {}", c.op().inputs[i].name,
                                 c.shape(i).to_string(), hidden.value()));
  const std::vector<Dim> dims = {c.dim(0, 0), c.dim(0, 1), hidden};
  return b.map("embedding_sum", c.dtype(2), dims, [&](auto i) {
    const auto row = [&](const te::Handle& ids) {
      return cast(DType::I64, ids.at({ids.dim(0) == Dim(1) ? Expr(0) : i[0], i[1]}));
    };
    const Expr place = c.has(8) ? row(in[8]) : i[1];
    Expr sum = in[2].at({row(in[0]), i[2]}) + in[3].at({place, i[2]});
    if (c.has(4)) sum = sum + in[4].at({row(in[1]), i[2]});
    return sum;
  });
}

Expected<te::Program> embed_layer_normalization(const ir::OpContext& c) {
  te::Builder b;
  const auto in = c.declare(b);
  ISOMER_TRY(const te::Handle sum, embed(b, c, in));
  for (size_t i : {5, 6})
    if (c.rank(i) != 1) return c.error(fmt::format("expected '{}' of rank 1", c.op().inputs[i].name));
  const Dim hidden = sum.dim(2);
  const std::vector<Dim> tokens = {sum.dim(0), sum.dim(1)}, batch = {sum.dim(0)};
  const Expr count = cast(DType::F64, Expr(hidden));
  const auto mean_of = [&](std::span<const Expr> i, const std::function<Expr(const Expr&)>& f) {
    const te::Axis h = b.axis("h", hidden);
    return te::sum({h}, f(cast(DType::F64, sum.at({i[0], i[1], Expr(h)})))) / count;
  };
  const te::Handle mean =
      b.map("mean", DType::F64, tokens, [&](auto i) { return mean_of(i, [](const Expr& x) { return x; }); });
  const te::Handle variance = b.map("variance", DType::F64, tokens, [&](auto i) {
    return mean_of(i, [&](const Expr& x) { return (x - mean.at({i[0], i[1]})) * (x - mean.at({i[0], i[1]})); });
  });
  const te::Handle y = b.map("output", c.dtype(2), sum.dims(), [&](auto i) {
    const Expr x = cast(DType::F64, sum.at({i.begin(), i.end()})) - mean.at({i[0], i[1]});
    const Expr root = sqrt(variance.at({i[0], i[1]}) + Expr::real(DType::F64, c.real("epsilon")));
    return cast(c.dtype(2), x / root * cast(DType::F64, in[5].at({i[2]})) + cast(DType::F64, in[6].at({i[2]})));
  });
  const te::Handle mask = b.map("mask_index", DType::I32, batch, [&](auto i) {
    if (!c.has(7)) return Expr::integer(DType::I32, 0);
    const te::Axis s = b.axis("s", c.dim(7, 1));
    return te::sum({s}, select(eq(in[7].at({i[0], Expr(s)}), Expr(1)), Expr::integer(DType::I32, 1),
                               Expr::integer(DType::I32, 0)));
  });
  return b.finish({y, mask, sum});
}

}  // namespace

ir::OpDef op_ms_embed_layer_normalization() {
  ir::OpDef op;
  op.name = "ms_embed_layer_normalization";
  op.doc = "Sum of word, position and segment embeddings, layer-normalised; and the length of each sequence.";
  op.inputs = {{"input_ids", "I", kIndexInts},
               {"segment_ids", "I", kIndexInts, ir::Arity::Optional},
               {"word_embedding", "T", kFloats},
               {"position_embedding", "T", kFloats},
               {"segment_embedding", "T", kFloats, ir::Arity::Optional},
               {"gamma", "T", kFloats},
               {"beta", "T", kFloats},
               {"mask", "I", kIndexInts, ir::Arity::Optional},
               {"position_ids", "I", kIndexInts, ir::Arity::Optional}};
  op.outputs = {
      {"output", "T"}, {"mask_index", "i32", ir::Arity::Optional}, {"embedding_sum", "T", ir::Arity::Optional}};
  op.attrs = {{"epsilon", AttrKind::Real, 1e-12}, {"mask_index_type", AttrKind::Int, int64_t{0}}};
  op.compute = embed_layer_normalization;
  op.samples = {
      "ms_embed_layer_normalization(i32[2,3] in 0..5, i32[2,3] in 0..2, f32[5,4], f32[3,4], f32[2,4], f32[4], f32[4])"};
  op.onnx = {{.type = "EmbedLayerNormalization", .domain = "com.microsoft"}};
  return op;
}

}  // namespace isomer::ops
