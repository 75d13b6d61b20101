// com.microsoft's Attention, MultiHeadAttention and GroupQueryAttention.
#include <fmt/format.h>

#include <algorithm>

#include "ir/op.h"
#include "ops/attention_core.h"

namespace isomer::ops {
namespace {

// Masks as integers. Rank 1: lengths by batch, or lengths then starts, or lengths then sums of lengths; rank 2:
// [B,keys]; rank 3: [B,queries,keys]; rank 4: [B,1,most,most]. The result is none or broadcasts to the scores.
Expected<ir::Value> keep_of(Compose& f, const ir::OpContext& c, size_t input, ir::Value mask, const Attention& a) {
  const auto positive = [&](ir::Value v) { return f("greater", {v, f.scalar(f.type(v).dtype, 0)}); };
  switch (c.rank(input)) {
    case 1: {
      const Dim batch = f.type(a.q).shape[0], n = c.dim(input, 0);
      if (n == batch) return first_keys(f, mask, extent(f, a.k, 2));
      if (!batch.is_const() || !n.is_const()) return c.error("a mask of rank 1 needs the batch size as a number");
      const int64_t b = batch.value();
      if (n.value() != 2 * b && n.value() != 3 * b + 2)
        return c.error(fmt::format("a mask of {} lengths does not fit a batch of {}", n.value(), b));
      const ir::Value keep = first_keys(f, f.slice(mask, 0, 0, b), extent(f, a.k, 2));
      if (n.value() != 2 * b) return keep;
      const ir::Value before = first_keys(f, f.slice(mask, 0, b, 2 * b), extent(f, a.k, 2));
      return f("and", {keep, f("not", {before})});
    }
    case 2: return positive(f.unsqueeze(mask, {1, 2}));
    case 3: return positive(f.unsqueeze(mask, {1}));
    default: return c.error(fmt::format("masks of shape {} are not supported", c.shape(input).to_string()));
  }
}

// Element k of an axis of a packed input, without the axis.
ir::Value part(Compose& f, ir::Value v, int64_t axis, int64_t k) {
  return f("squeeze", {f.slice(v, axis, k, k + 1), f.ints({axis})});
}

std::vector<ir::AttrDef> attention_attrs() {
  using enum ir::AttrKind;
  return {{.name = "mask_filter_value", .kind = Real, .standard = ir::AttrValue(-10000.0)},
          {.name = "num_heads", .kind = Int, .required = true},
          {.name = "scale", .kind = Real},
          {.name = "unidirectional", .kind = Int, .standard = ir::AttrValue(int64_t{0})}};
}

void set_common(const ir::OpContext& c, Attention& a, ir::Value past_length) {
  // A scale of 0 is how this domain writes "the default".
  if (c.has_attr("scale") && c.real("scale") != 0) a.scale = c.real("scale");
  a.offset = past_length;
  a.causal = c.flag("unidirectional");
  a.filter = c.real("mask_filter_value");
}

// The inputs of MultiHeadAttention, by place.
struct Mha {
  enum : size_t { Query, Key, Value, Bias, PaddingMask, AttentionBias, PastKey, PastValue, PastLength, Beams };
};

Expected<void> split_inputs(Compose& f, const ir::OpContext& c, std::span<const ir::Value> in, Attention& a) {
  const int64_t heads = c.integer("num_heads");
  const auto to_heads = [&](ir::Value v) { return f.transpose(v, {0, 2, 1, 3}); };
  if (c.rank(Mha::Query) == 5) {
    a.q = to_heads(part(f, in[Mha::Query], 3, 0));
    a.k = to_heads(part(f, in[Mha::Query], 3, 1));
    a.v = to_heads(part(f, in[Mha::Query], 3, 2));
    return c.has(Mha::Bias) ? c.error("a bias beside packed queries, keys and values is not supported")
                            : Expected<void>();
  }
  if (c.rank(Mha::Query) != 3 || !c.has(Mha::Key))
    return c.error("expected a query of rank 3 with a key, or of rank 5 without");
  ir::Value q = in[Mha::Query], k = input_at(in, Mha::Key), v = input_at(in, Mha::Value);
  const bool plain = c.rank(Mha::Key) == 3 && c.has(Mha::Value) && c.rank(Mha::Value) == 3;
  if (c.has(Mha::Bias)) {
    const auto wq = c.dim(Mha::Query, 2).constant(), wv = plain ? c.dim(Mha::Value, 2).constant() : wq;
    if (!wq || !wv || c.rank(Mha::Bias) != 1) return c.error("a bias needs widths that are numbers");
    const auto parts = f.split(in[Mha::Bias], 0, std::vector<int64_t>{*wq, *wq, *wv});
    q = f.add(q, parts[0]);
    // Keys and values that come by heads have theirs already.
    if (plain) k = f.add(k, parts[1]), v = f.add(v, parts[2]);
  }
  a.q = split_heads(f, c, q, heads);
  if (c.rank(Mha::Key) == 5) {
    a.k = to_heads(part(f, k, 3, 0));
    a.v = to_heads(part(f, k, 3, 1));
  } else if (plain) {
    a.k = split_heads(f, c, k, heads);
    a.v = split_heads(f, c, v, heads);
  } else if (c.has(Mha::Value) && c.rank(Mha::Key) == 4 && c.rank(Mha::Value) == 4) {
    a.k = k, a.v = v;
  } else {
    return c.error("expected keys and values of rank 3 or 4, or packed keys of rank 5");
  }
  return {};
}

Expected<std::vector<ir::Value>> expand_mha(const ir::OpContext& c, ir::GraphBuilder& b,
                                            std::span<const ir::Value> in) {
  if (c.has(Mha::Beams) || c.has(Mha::PastLength)) return c.error("a shared past buffer and beams are not supported");
  if (c.has(Mha::PastKey) != c.has(Mha::PastValue))
    return c.error("'past_key' and 'past_value' must be given together");
  if (c.has(Mha::PastKey) && (c.rank(Mha::PastKey) != 4 || c.rank(Mha::PastValue) != 4))
    return c.error("past keys and values must have rank 4");
  Compose f(b);
  Attention a;
  ISOMER_CHECK_OK(split_inputs(f, c, in, a));
  a.k = append(f, input_at(in, Mha::PastKey), a.k);
  a.v = append(f, input_at(in, Mha::PastValue), a.v);
  a.bias = input_at(in, Mha::AttentionBias);
  if (f.failed()) return f.finish({});
  set_common(c, a, c.has(Mha::PastKey) ? extent_scalar(f, in[Mha::PastKey], 2) : f.scalar(DType::I64, 0));
  if (c.has(Mha::PaddingMask)) {
    ISOMER_TRY(a.keep, keep_of(f, c, Mha::PaddingMask, in[Mha::PaddingMask], a));
  }
  const Attended r = attend(f, c, a);
  if (f.failed()) return f.finish({});
  std::vector<ir::Value> out = {merge_heads(f, r.y), a.k, a.v, r.scores};
  out.resize(c.output_count());
  return f.finish(std::move(out));
}

Expected<std::vector<ir::Value>> expand_merged(const ir::OpContext& c, ir::GraphBuilder& b,
                                               std::span<const ir::Value> in) {
  enum : size_t { X, Weights, MergedBias, Mask, Past, ScoreBias, Length };
  if (c.flag("do_rotary") || c.flag("past_present_share_buffer") || c.has(Length))
    return c.error("'do_rotary' and a shared past buffer are not supported");
  if (c.rank(X) != 3 || c.rank(Weights) != 2) return c.error("expected an input of rank 3 and weights of rank 2");
  const auto total = c.dim(Weights, 1).constant();
  std::vector<int64_t> widths = c.ints("qkv_hidden_sizes");
  if (widths.empty() && total) widths.assign(3, *total / 3);
  if (!total || widths.size() != 3)
    return c.error("needs the width of the weights as a number, and three hidden sizes");
  for (int64_t w : widths)
    if (w < 1 || w > *total) return c.error(fmt::format("a hidden size is {}, expected 1 to {}", w, *total));
  if (widths[0] + widths[1] + widths[2] != *total || widths[0] != widths[1])
    return c.error(fmt::format("the hidden sizes do not make the width {} of the weights", *total));
  if (c.has(Past) && c.rank(Past) != 5) return c.error("'past' must have rank 5");
  Compose f(b);
  const ir::Value merged = f.sum(f.matmul(in[X], in[Weights]), input_at(in, MergedBias));
  const auto parts = f.split(merged, 2, widths);
  Attention a;
  const int64_t heads = c.integer("num_heads");
  a.q = split_heads(f, c, parts[0], heads);
  a.k = split_heads(f, c, parts[1], heads);
  a.v = split_heads(f, c, parts[2], heads);
  ir::Value past_length = f.scalar(DType::I64, 0);
  if (c.has(Past)) {
    a.k = append(f, part(f, in[Past], 0, 0), a.k);
    a.v = append(f, part(f, in[Past], 0, 1), a.v);
    past_length = extent_scalar(f, in[Past], 3);
  }
  a.bias = input_at(in, ScoreBias);
  set_common(c, a, past_length);
  if (f.failed()) return f.finish({});
  if (c.has(Mask)) {
    ISOMER_TRY(a.keep, keep_of(f, c, Mask, in[Mask], a));
  }
  const Attended r = attend(f, c, a);
  if (f.failed()) return f.finish({});
  std::vector<ir::Value> out = {merge_heads(f, r.y)};
  if (c.output_count() > 1) out.push_back(f.concat({f.unsqueeze(a.k, {0}), f.unsqueeze(a.v, {0})}, 0));
  return f.finish(std::move(out));
}

// The inputs of GroupQueryAttention, by place.
struct Gqa {
  enum : size_t { Query, Key, Value, PastKey, PastValue, Lengths, TotalLength, Cos, Sin };
};

// The steps turned by their positions, which are counted from the end of the past.
ir::Value rotated(Compose& f, const ir::OpContext& c, std::span<const ir::Value> in, ir::Value x,
                  ir::Value past_length) {
  const ir::Value count = f("range", {f.scalar(DType::I64, 0), extent_scalar(f, x, 2), f.scalar(DType::I64, 1)});
  const ir::Value positions = f.unsqueeze(f.add(count, past_length), {0});
  Rotary r;
  r.x = f.transpose(x, {0, 2, 1, 3});
  r.cos = f("gather", {in[Gqa::Cos], positions}, {{"axis", int64_t{0}}});
  r.sin = f("gather", {in[Gqa::Sin], positions}, {{"axis", int64_t{0}}});
  r.interleaved = c.flag("rotary_interleaved");
  if (const auto half = c.dim(Gqa::Cos, 1).constant()) r.rotated = *half <= (1 << 30) ? 2 * *half : -1;
  return f.transpose(rotate(f, c, r), {0, 2, 1, 3});
}

// Queries, keys and values by heads; without keys the queries hold all three side by side.
Expected<void> group_inputs(Compose& f, const ir::OpContext& c, std::span<const ir::Value> in, Attention& a) {
  const int64_t heads = c.integer("num_heads"), shared = c.integer("kv_num_heads");
  std::vector<ir::Value> parts = {in[Gqa::Query], input_at(in, Gqa::Key), input_at(in, Gqa::Value)};
  if (!c.has(Gqa::Key)) {
    const auto width = c.dim(Gqa::Query, 2).constant();
    if (!width || heads < 1 || shared < 1 || heads > *width || shared > *width || *width % (heads + 2 * shared) != 0)
      return c.error(fmt::format("packed queries, keys and values of shape {} do not split into {} and twice {} heads",
                                 c.shape(Gqa::Query).to_string(), heads, shared));
    const int64_t size = *width / (heads + 2 * shared);
    parts = f.split(in[Gqa::Query], 2, std::vector<int64_t>{heads * size, shared * size, shared * size});
  }
  if (f.failed()) return {};
  a.q = split_heads(f, c, parts[0], heads);
  a.k = split_heads(f, c, parts[1], shared);
  a.v = split_heads(f, c, parts[2], shared);
  return {};
}

Expected<std::vector<ir::Value>> expand_gqa(const ir::OpContext& c, ir::GraphBuilder& b,
                                            std::span<const ir::Value> in) {
  if (c.has(Gqa::Key) != c.has(Gqa::Value))
    return c.error("'key' and 'value' must be given together, or be packed in 'query'");
  for (size_t i : {Gqa::Query, Gqa::Key, Gqa::Value})
    if (c.has(i) && c.rank(i) != 3) return c.error(fmt::format("'{}' must have rank 3", c.op().inputs[i].name));
  if (c.has(Gqa::PastKey) != c.has(Gqa::PastValue))
    return c.error("'past_key' and 'past_value' must be given together");
  if (c.has(Gqa::PastKey) && (c.rank(Gqa::PastKey) != 4 || c.rank(Gqa::PastValue) != 4))
    return c.error("past keys and values must have rank 4");
  Compose f(b);
  Attention a;
  ISOMER_CHECK_OK(group_inputs(f, c, in, a));
  if (f.failed()) return f.finish({});
  const ir::Value past_length = c.has(Gqa::PastKey) ? extent_scalar(f, in[Gqa::PastKey], 2) : f.scalar(DType::I64, 0);
  if (c.flag("do_rotary")) {
    if (!c.has(Gqa::Cos) || !c.has(Gqa::Sin) || c.rank(Gqa::Cos) != 2 || c.rank(Gqa::Sin) != 2)
      return c.error("'do_rotary' needs 'cos_cache' and 'sin_cache' of rank 2");
    a.q = rotated(f, c, in, a.q, past_length);
    a.k = rotated(f, c, in, a.k, past_length);
  }
  a.k = append(f, input_at(in, Gqa::PastKey), a.k);
  a.v = append(f, input_at(in, Gqa::PastValue), a.v);
  a.offset = past_length;
  a.causal = true;
  if (c.has_attr("scale") && c.real("scale") != 0) a.scale = c.real("scale");
  a.softcap = c.real("softcap");
  a.smooth = c.integer("smooth_softmax") == 1;
  if (c.integer("local_window_size") > 0) a.before = c.integer("local_window_size") - 1;
  const ir::Value lengths = f.add(f.cast(in[Gqa::Lengths], DType::I64), f.scalar(DType::I64, 1));
  if (f.failed()) return f.finish({});
  a.keep = first_keys(f, lengths, extent(f, a.k, 2));
  a.filter = -1e30;  // a query of padding has no key at all: a finite filter keeps it a number
  const Attended r = attend(f, c, a);
  if (f.failed()) return f.finish({});
  std::vector<ir::Value> out = {merge_heads(f, r.y), a.k, a.v};
  out.resize(c.output_count());
  return f.finish(std::move(out));
}

}  // namespace

ir::OpDef op_ms_multi_head_attention() {
  using enum ir::Arity;
  ir::OpDef op;
  op.name = "ms_multi_head_attention";
  op.doc = "Attention of several heads over projected queries, keys and values.";
  op.inputs = {{"query", "T", kFloats},
               {"key", "T", kFloats, Optional},
               {"value", "T", kFloats, Optional},
               {"bias", "T", kFloats, Optional},
               {"key_padding_mask", "M", DType::I32, Optional},
               {"attention_bias", "T", kFloats, Optional},
               {"past_key", "T", kFloats, Optional},
               {"past_value", "T", kFloats, Optional},
               {"past_sequence_length", "M", DType::I32, Optional},
               {"cache_indirection", "M", DType::I32, Optional}};
  op.outputs = {
      {"output", "T"}, {"present_key", "T", Optional}, {"present_value", "T", Optional}, {"qk", "T", Optional}};
  op.attrs = attention_attrs();
  op.expand = expand_mha;
  op.samples = {
      "ms_multi_head_attention(f32[2,3,8], f32[2,5,8], f32[2,5,4], f32[20]){num_heads=2}",
      "ms_multi_head_attention(f32[2,3,8], f32[2,3,8], f32[2,3,8], _, i32[2,3] in 0..2){num_heads=4, unidirectional=1}",
      "ms_multi_head_attention(f32[2,3,2,3,4]){num_heads=2, scale=0.25}"};
  op.onnx = {{.type = "MultiHeadAttention", .since = {1}, .domain = "com.microsoft"}};
  return op;
}

ir::OpDef op_ms_attention() {
  using enum ir::AttrKind;
  using enum ir::Arity;
  ir::OpDef op;
  op.name = "ms_attention";
  op.doc = "Attention of several heads, with the projections of queries, keys and values as one product.";
  op.inputs = {{"input", "T", kFloats},
               {"weights", "T", kFloats},
               {"bias", "T", kFloats, Optional},
               {"mask_index", "M", DType::I32, Optional},
               {"past", "T", kFloats, Optional},
               {"attention_bias", "T", kFloats, Optional},
               {"past_sequence_length", "M", DType::I32, Optional}};
  op.outputs = {{"output", "T"}, {"present", "T", Optional}};
  op.attrs = attention_attrs();
  op.attrs.push_back({.name = "do_rotary", .kind = Int, .standard = ir::AttrValue(int64_t{0})});
  op.attrs.push_back({.name = "past_present_share_buffer", .kind = Int, .standard = ir::AttrValue(int64_t{0})});
  op.attrs.push_back({.name = "qkv_hidden_sizes", .kind = Ints});
  op.attrs.push_back({.name = "rotary_embedding_dim", .kind = Int, .standard = ir::AttrValue(int64_t{0})});
  op.expand = expand_merged;
  op.samples = {"ms_attention(f32[2,3,4], f32[4,12], f32[12]){num_heads=2}",
                "ms_attention(f32[2,3,4], f32[4,12], f32[12], i32[2] in 1..4){num_heads=2, unidirectional=1}"};
  op.onnx = {{.type = "Attention", .since = {1}, .domain = "com.microsoft"}};
  return op;
}

ir::OpDef op_ms_group_query_attention() {
  using enum ir::AttrKind;
  using enum ir::Arity;
  ir::OpDef op;
  op.name = "ms_group_query_attention";
  op.doc = "Causal attention in which groups of query heads share a head of keys and values.";
  op.inputs = {{"query", "T", kFloats},
               {"key", "T", kFloats, Optional},
               {"value", "T", kFloats, Optional},
               {"past_key", "T", kFloats, Optional},
               {"past_value", "T", kFloats, Optional},
               {"seqlens_k", "M", DType::I32},
               {"total_sequence_length", "M", DType::I32},
               {"cos_cache", "T", kFloats, Optional},
               {"sin_cache", "T", kFloats, Optional}};
  op.outputs = {{"output", "T"}, {"present_key", "T", Optional}, {"present_value", "T", Optional}};
  op.attrs = {{.name = "do_rotary", .kind = Int, .standard = ir::AttrValue(int64_t{0})},
              {.name = "kv_num_heads", .kind = Int, .required = true},
              {.name = "local_window_size", .kind = Int, .standard = ir::AttrValue(int64_t{-1})},
              {.name = "num_heads", .kind = Int, .required = true},
              {.name = "rotary_interleaved", .kind = Int, .standard = ir::AttrValue(int64_t{0})},
              {.name = "scale", .kind = Real},
              {.name = "smooth_softmax", .kind = Int, .standard = ir::AttrValue(int64_t{0})},
              {.name = "softcap", .kind = Real, .standard = ir::AttrValue(0.0)}};
  op.expand = expand_gqa;
  op.samples = {
      "ms_group_query_attention(f32[1,3,8], f32[1,3,4], f32[1,3,4], _, _, i32[1] [2], i32[1] [3])"
      "{num_heads=4, kv_num_heads=2}",
      "ms_group_query_attention(f32[1,3,16], _, _, _, _, i32[1] [2], i32[1] [3])"
      "{num_heads=4, kv_num_heads=2, local_window_size=2, smooth_softmax=1, softcap=2.0}"};
  op.onnx = {{.type = "GroupQueryAttention", .since = {1}, .domain = "com.microsoft"}};
  return op;
}

}  // namespace isomer::ops
