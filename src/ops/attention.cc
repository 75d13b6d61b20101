#include <fmt/format.h>

#include <limits>

#include "ir/op.h"
#include "ops/attention_core.h"

namespace isomer::ops {
namespace {

// The inputs, by place.
struct AttentionInput {
  enum Place : size_t { Q, K, V, Mask, PastKey, PastValue, Lengths };
};

Expected<void> check(const ir::OpContext& c, bool flat) {
  using enum AttentionInput::Place;
  for (size_t i : {Q, K, V})
    if (c.rank(i) != (flat ? 3u : 4u))
      return c.error(fmt::format("'{}' is {}; Q, K and V must all have rank 3, or all rank 4", c.op().inputs[i].name,
                                 c.shape(i).to_string()));
  if (c.has(PastKey) != c.has(PastValue)) return c.error("'past_key' and 'past_value' must be given together");
  for (size_t i : {PastKey, PastValue})
    if (c.has(i) && c.rank(i) != 4) return c.error(fmt::format("'{}' must have rank 4", c.op().inputs[i].name));
  if (flat && (!c.has_attr("q_num_heads") || !c.has_attr("kv_num_heads")))
    return c.error("inputs of rank 3 need 'q_num_heads' and 'kv_num_heads'");
  if (c.has(Mask) && (c.rank(Mask) < 1 || c.rank(Mask) > 4)) return c.error("'attn_mask' must have rank 1 to 4");
  if (c.has(Lengths) && (c.rank(Lengths) != 1 || c.has(PastKey)))
    return c.error("'nonpad_kv_seqlen' must have rank 1, and goes without 'past_key' and 'past_value'");
  for (const char* side : {"left_window_size", "right_window_size"})
    if (c.integer(side) < -1) return c.error(fmt::format("'{}' is {}, expected -1 or more", side, c.integer(side)));
  const int64_t mode = c.integer("qk_matmul_output_mode");
  if (mode < 0 || mode > 3) return c.error(fmt::format("'qk_matmul_output_mode' is {}, expected 0 to 3", mode));
  return {};
}

// A mask that ends before the keys do keeps the others away; one of a single column is for all of them.
ir::Value to_all_keys(Compose& f, ir::Value mask, ir::Value keys) {
  if (f.failed()) return mask;
  const Type& t = f.type(mask);
  const Dim have = t.shape[t.shape.rank() - 1], want = f.type(keys).shape[2];
  if (!have.is_const() || !want.is_const() || have.value() == 1 || have.value() >= want.value()) return mask;
  std::vector<int64_t> pads(2 * t.shape.rank());
  pads.back() = want.value() - have.value();
  const double never = t.dtype == DType::Bool ? 0 : -std::numeric_limits<double>::infinity();
  return f("pad", {mask, f.ints(pads), f.scalar(t.dtype, never)});
}

// Which keys a query may see: by the mask, by how many there are, and by its own place among them.
void restrict(Compose& f, const ir::OpContext& c, std::span<const ir::Value> in, Attention& a) {
  using enum AttentionInput::Place;
  if (c.has(Mask) && c.dtype(Mask) == DType::Bool) a.keep = to_all_keys(f, in[Mask], a.k);
  if (c.has(Mask) && c.dtype(Mask) != DType::Bool) a.bias = to_all_keys(f, f.cast(in[Mask], c.dtype(Q)), a.k);
  a.causal = c.flag("is_causal");
  a.before = c.integer("left_window_size");
  a.after = c.integer("right_window_size");
  a.offset = c.has(PastKey) ? extent_scalar(f, in[PastKey], 2) : f.scalar(DType::I64, 0);
  a.empty_is_zero = true;
  if (!c.has(Lengths)) return;
  const ir::Value lengths = f.cast(in[Lengths], DType::I64), there = first_keys(f, lengths, extent(f, a.k, 2));
  a.keep = a.keep.is_none() ? there : f("and", {a.keep, there});
  a.offset = f.reshape(f.sub(lengths, extent_scalar(f, a.q, 2)), {-1, 1, 1, 1});
}

Expected<std::vector<ir::Value>> expand(const ir::OpContext& c, ir::GraphBuilder& b, std::span<const ir::Value> in) {
  using enum AttentionInput::Place;
  const bool flat = c.rank(Q) == 3;
  ISOMER_CHECK_OK(check(c, flat));
  Compose f(b);
  Attention a;
  a.q = flat ? split_heads(f, c, in[Q], c.integer("q_num_heads")) : in[Q];
  a.k = append(f, input_at(in, PastKey), flat ? split_heads(f, c, in[K], c.integer("kv_num_heads")) : in[K]);
  a.v = append(f, input_at(in, PastValue), flat ? split_heads(f, c, in[V], c.integer("kv_num_heads")) : in[V]);
  restrict(f, c, in, a);
  if (c.has_attr("scale")) a.scale = c.real("scale");
  a.softcap = c.real("softcap");
  if (c.has_attr("softmax_precision")) a.softmax_type = c.dtype_attr("softmax_precision");
  const Attended r = attend(f, c, a);
  const ir::Value scores[] = {r.scores, r.capped, r.masked, r.probabilities};
  std::vector<ir::Value> out = {flat && !f.failed() ? merge_heads(f, r.y) : r.y, a.k, a.v,
                                scores[c.integer("qk_matmul_output_mode")]};
  out.resize(c.output_count());
  return f.finish(std::move(out));
}

}  // namespace

ir::OpDef op_attention() {
  using enum ir::AttrKind;
  using enum ir::Arity;
  ir::OpDef op;
  op.name = "attention";
  op.doc = "Scaled dot-product attention, with grouped heads, masks and past keys and values.";
  op.inputs = {{"q", "T1", kFloats},
               {"k", "T1", kFloats},
               {"v", "T2", kFloats},
               {"attn_mask", "U", kAllTypes, Optional},
               {"past_key", "T1", kFloats, Optional},
               {"past_value", "T2", kFloats, Optional},
               {.name = "nonpad_kv_seqlen", .var = "L", .types = kIndexInts, .arity = Optional, .since = 24}};
  op.outputs = {{"y", "T1"},
                {"present_key", "T1", Optional},
                {"present_value", "T2", Optional},
                {"qk_matmul_output", "T1", Optional}};
  op.attrs = {{.name = "is_causal", .kind = Int, .standard = ir::AttrValue(int64_t{0})},
              {.name = "kv_num_heads", .kind = Int},
              {.name = "left_window_size", .kind = Int, .standard = ir::AttrValue(int64_t{-1}), .since = 25},
              {.name = "q_num_heads", .kind = Int},
              {.name = "qk_matmul_output_mode", .kind = Int, .standard = ir::AttrValue(int64_t{0})},
              {.name = "right_window_size", .kind = Int, .standard = ir::AttrValue(int64_t{-1}), .since = 25},
              {.name = "scale", .kind = Real},
              {.name = "softcap", .kind = Real, .standard = ir::AttrValue(0.0)},
              {.name = "softmax_precision", .kind = DType}};
  op.expand = expand;
  op.samples = {
      "attention(f32[2,2,3,4], f32[2,2,5,4], f32[2,2,5,6])",
      "attention(f32[1,4,3,2], f32[1,2,3,2], f32[1,2,3,2]){is_causal=1, softcap=2.0}",
      "attention(f32[1,2,3,4], f32[1,2,3,4], f32[1,2,3,4], bool[3,3]){qk_matmul_output_mode=3}",
      "attention(f32[2,1,2,4], f32[2,1,5,4], f32[2,1,5,4], f32[2,4]){left_window_size=1, right_window_size=2}",
      "attention(f32[2,3,8], f32[2,3,4], f32[2,3,4]){q_num_heads=2, kv_num_heads=1, scale=0.5}"};
  op.onnx = {{.type = "Attention", .since = {23, 24, 25}, .stable = 23}};
  return op;
}

}  // namespace isomer::ops
