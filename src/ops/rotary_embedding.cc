// Rotary position embeddings: ONNX's and com.microsoft's.
#include <fmt/format.h>

#include "ir/op.h"
#include "ops/attention_core.h"

namespace isomer::ops {
namespace {

// `x` is [B,S,heads*size] or [B,heads,S,size]; `positions` none: the caches are by batch and step already.
Expected<std::vector<ir::Value>> embed(const ir::OpContext& c, ir::GraphBuilder& b, ir::Value x, ir::Value positions,
                                       ir::Value cos, ir::Value sin) {
  if (c.rank(0) != 3 && c.rank(0) != 4)
    return c.error(fmt::format("expected an input of rank 3 or 4, found {}", c.shape(0).to_string()));
  Compose f(b);
  const int64_t heads = c.integer("num_heads");
  const bool flat = c.rank(0) == 3;
  if (flat && heads < 1) return c.error("an input of rank 3 needs 'num_heads'");
  Rotary r;
  r.x = f.transpose(flat ? split_heads(f, c, x, heads) : x, {0, 2, 1, 3});
  const auto rows = [&](ir::Value cache) {
    return positions.is_none() ? cache : f("gather", {cache, positions}, {{"axis", int64_t{0}}});
  };
  r.cos = rows(cos), r.sin = rows(sin);
  r.rotated = c.integer("rotary_embedding_dim");
  r.interleaved = c.flag("interleaved");
  const Type t = f.type(r.cos);
  if (!f.failed() && t.shape.rank() != 3)
    return c.error(fmt::format("the rows of the caches are {}, expected one per batch and step", t.shape.to_string()));
  ir::Value y = f.transpose(rotate(f, c, r), {0, 2, 1, 3});
  if (flat && !f.failed()) y = merge_heads(f, y);
  return f.finish({y});
}

std::vector<ir::AttrDef> rotary_attrs() {
  std::vector<ir::AttrDef> attrs;
  for (const char* name : {"interleaved", "num_heads", "rotary_embedding_dim"})
    attrs.push_back({.name = name, .kind = ir::AttrKind::Int, .standard = ir::AttrValue(int64_t{0})});
  return attrs;
}

}  // namespace

ir::OpDef op_rotary_embedding() {
  ir::OpDef op;
  op.name = "rotary_embedding";
  op.doc = "Turns pairs of elements of each head by angles that depend on the position.";
  op.inputs = {{"x", "T", kFloats},
               {"cos_cache", "T", kFloats},
               {"sin_cache", "T", kFloats},
               {"position_ids", "I", DType::I64, ir::Arity::Optional}};
  op.outputs = {{"y", "T"}};
  op.attrs = rotary_attrs();
  op.expand = [](const ir::OpContext& c, ir::GraphBuilder& b, std::span<const ir::Value> in) {
    return embed(c, b, in[0], in.size() > 3 ? in[3] : ir::Value::none(), in[1], in[2]);
  };
  op.samples = {"rotary_embedding(f32[2,3,4,6], f32[2,4,3], f32[2,4,3])",
                "rotary_embedding(f32[2,4,12], f32[9,3], f32[9,3], i64[2,4] in 0..9){num_heads=2, interleaved=1}",
                "rotary_embedding(f32[2,3,4,6], f32[2,4,2], f32[2,4,2]){rotary_embedding_dim=4}"};
  op.onnx = {{.type = "RotaryEmbedding", .since = {23}, .stable = 23}};
  return op;
}

ir::OpDef op_ms_rotary_embedding() {
  ir::OpDef op;
  op.name = "ms_rotary_embedding";
  op.doc =
      "Turns pairs of elements of each head by angles that depend on the position, given or counted from an offset.";
  op.inputs = {{"input", "T", kFloats},
               {"position_ids", "I", DType::I64},
               {"cos_cache", "T", kFloats},
               {"sin_cache", "T", kFloats}};
  op.outputs = {{"output", "T"}};
  op.attrs = rotary_attrs();
  op.attrs.push_back({.name = "is_packed_batching", .kind = ir::AttrKind::Int, .standard = ir::AttrValue(int64_t{0})});
  op.attrs.push_back({.name = "scale", .kind = ir::AttrKind::Real, .standard = ir::AttrValue(1.0)});
  op.expand = [](const ir::OpContext& c, ir::GraphBuilder& b,
                 std::span<const ir::Value> in) -> Expected<std::vector<ir::Value>> {
    if (c.flag("is_packed_batching") || c.real("scale") != 1)
      return c.error("'is_packed_batching' and a 'scale' other than 1 are not supported");
    ir::Value positions = in[1];
    if (c.rank(1) == 1) {
      // One offset: the steps of every sequence are counted from it.
      Compose f(b);
      const ir::Value steps = extent_scalar(f, in[0], c.rank(0) == 4 ? 2 : 1);
      positions = f("range", {f.scalar(DType::I64, 0), steps, f.scalar(DType::I64, 1)});
      positions = f.unsqueeze(f.add(positions, in[1]), {0});
      ISOMER_CHECK_OK(f.finish({}));
    }
    return embed(c, b, in[0], positions, in[2], in[3]);
  };
  op.samples = {"ms_rotary_embedding(f32[2,3,4,6], i64[2,4] in 0..9, f32[9,3], f32[9,3])",
                "ms_rotary_embedding(f32[2,4,12], [2], f32[9,3], f32[9,3]){num_heads=2, interleaved=1}"};
  op.onnx = {{.type = "RotaryEmbedding", .since = {1}, .domain = "com.microsoft"}};
  return op;
}

}  // namespace isomer::ops
