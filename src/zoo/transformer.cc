// Transformers: BERT base, GPT-2 small, ViT-B/16. Width 768, twelve heads.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "zoo/architectures.h"

namespace isomer::zoo {
namespace {

constexpr int64_t kWidth = 768, kHeads = 12, kHead = kWidth / kHeads;

// x * 0.5 * (1 + erf(x / sqrt 2)), as exporters write it.
Value gelu_erf(Net& net, Value x) {
  const Value e = net.call("erf", {net.call("div", {x, net.scalar(std::sqrt(2.0))})});
  return net.mul(net.mul(x, net.add(e, net.scalar(1))), net.scalar(0.5));
}

// 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))).
Value gelu_tanh(Net& net, Value x) {
  const Value cubic = net.mul(net.call("pow", {x, net.scalar(3)}), net.scalar(0.044715));
  const Value t = net.tanh(net.mul(net.add(x, cubic), net.scalar(0.7978845608028654)));
  return net.mul(net.mul(x, net.scalar(0.5)), net.add(t, net.scalar(1)));
}

// [B, S, 768] -> [B, 12, S, 64], or [B, 12, 64, S] for keys.
Value heads(Net& net, Value x, bool key = false) {
  const Value split = net.reshape(x, {net.options().batch, -1, kHeads, kHead});
  return net.transpose(split, key ? std::vector<int64_t>{0, 2, 3, 1} : std::vector<int64_t>{0, 2, 1, 3});
}

// Softmax(q k / sqrt(64), masked) v, heads joined again. `mask` is added to the scores; none for no mask.
Value attend(Net& net, Value q, Value k, Value v, Value mask) {
  Value scores = net.call("div", {net.call("matmul", {q, k}), net.scalar(8)});
  if (!mask.is_none()) scores = net.add(scores, mask);
  const Value y = net.call("matmul", {net.call("softmax", {scores}, {{"axis", int64_t{-1}}}), v});
  return net.reshape(net.transpose(y, {0, 2, 1, 3}), {net.options().batch, -1, kWidth});
}

// One merged projection split in three.
Value merged_attention(Net& net, Value x, Value mask) {
  const Value sizes = net.ints({kWidth, kWidth, kWidth});
  const std::vector<Value> qkv = net.calls("split", {net.linear(x, 3 * kWidth), sizes}, {{"axis", int64_t{2}}}, 3);
  return net.linear(attend(net, heads(net, qkv[0]), heads(net, qkv[1], true), heads(net, qkv[2]), mask), kWidth);
}

// Normalisation before each half, as GPT-2 and ViT have it.
Value pre_norm_block(Net& net, Value x, Value mask, double epsilon, Value (*gelu)(Net&, Value)) {
  x = net.add(x, merged_attention(net, net.layer_norm(x, epsilon), mask));
  const Value h = gelu(net, net.linear(net.layer_norm(x, epsilon), 4 * kWidth));
  return net.add(x, net.linear(h, kWidth));
}

Value embedding(Net& net, const char* name, int64_t rows, Value ids, double spread = 0.05) {
  return net.call("gather", {net.weight(name, {rows, kWidth}, spread), ids}, {{"axis", int64_t{0}}});
}

// The first rows of a table for `most` positions, or more where the sequence is longer.
Value positions(Net& net, const char* name, int64_t most, double spread) {
  std::vector<int64_t> ids(static_cast<size_t>(net.options().sequence));
  std::iota(ids.begin(), ids.end(), 0);
  return embedding(net, name, std::max(most, net.options().sequence), net.ints(ids), spread);
}

}  // namespace

void bert_base(Net& net) {
  const Options& o = net.options();
  const Value ids = net.input("input_ids", DType::I64, {o.batch, o.sequence});
  const Value attention = net.input("attention_mask", DType::I64, {o.batch, o.sequence});
  const Value types = net.input("token_type_ids", DType::I64, {o.batch, o.sequence});
  net.scope("embeddings");
  Value x = net.add(embedding(net, "word", 30522, ids), embedding(net, "token_type", 2, types));
  x = net.layer_norm(net.add(x, positions(net, "position", 512, 0.05)), 1e-12);
  // Masked positions get a score far below all others.
  const Value wide = net.call("unsqueeze", {attention, net.ints({1, 2})});
  const Value absent = net.call("sub", {net.scalar(1), net.call("cast", {wide}, {{"to", DType::F32}})});
  const Value mask = net.mul(absent, net.scalar(std::numeric_limits<float>::lowest()));
  for (int64_t i = 0; i < o.layers; ++i) {
    net.scope(fmt::format("encoder.layer.{}", i));
    const Value q = heads(net, net.linear(x, kWidth)), k = heads(net, net.linear(x, kWidth), true);
    const Value v = heads(net, net.linear(x, kWidth));
    x = net.layer_norm(net.add(net.linear(attend(net, q, k, v, mask), kWidth), x), 1e-12);
    const Value h = gelu_erf(net, net.linear(x, 4 * kWidth));
    x = net.layer_norm(net.add(net.linear(h, kWidth), x), 1e-12);
  }
  net.output("last_hidden_state", x);
  net.scope("pooler");
  const Value first = net.call("gather", {x, net.call("squeeze", {net.ints({0})})}, {{"axis", int64_t{1}}});
  net.output("pooler_output", net.tanh(net.linear(first, kWidth)));
}

void gpt2_small(Net& net) {
  const Options& o = net.options();
  constexpr int64_t kVocabulary = 50257;
  const Value ids = net.input("input_ids", DType::I64, {o.batch, o.sequence});
  net.scope("transformer");
  const Value table = net.weight("wte", {kVocabulary, kWidth}, 0.05);
  Value x = net.call("gather", {table, ids}, {{"axis", int64_t{0}}});
  x = net.add(x, positions(net, "wpe", 1024, 0.02));
  // Each position sees itself and what came before.
  const Value ones = net.call("expand", {net.scalar(1), net.ints({o.sequence, o.sequence})});
  const Value later = net.call("sub", {net.scalar(1), net.call("trilu", {ones}, {{"upper", int64_t{0}}})});
  const Value mask = net.mul(later, net.scalar(-1e9));
  for (int64_t i = 0; i < o.layers; ++i) {
    net.scope(fmt::format("transformer.h.{}", i));
    x = pre_norm_block(net, x, mask, 1e-5, gelu_tanh);
  }
  net.scope("lm_head");
  net.output("logits", net.call("matmul", {net.layer_norm(x, 1e-5), net.transpose(table, {1, 0})}));
}

void vit_b_16(Net& net) {
  const Options& o = net.options();
  Value x = image_input(net);
  net.scope("patches");
  x = net.conv(x, {.out = kWidth, .kernel = {16}, .stride = {16}, .bias = true});
  const int64_t patches = net.dim(x, 2) * net.dim(x, 3);
  x = net.transpose(net.reshape(x, {o.batch, kWidth, patches}), {0, 2, 1});
  const Value token =
      net.call("expand", {net.weight("class_token", {1, 1, kWidth}, 0.02), net.ints({o.batch, 1, kWidth})});
  x = net.add(net.concat({token, x}, 1), net.weight("position", {1, patches + 1, kWidth}, 0.02));
  for (int64_t i = 0; i < o.layers; ++i) {
    net.scope(fmt::format("encoder.layer.{}", i));
    x = pre_norm_block(net, x, Value::none(), 1e-6, gelu_erf);
  }
  net.scope("head");
  const Value first =
      net.call("gather", {net.layer_norm(x, 1e-6), net.call("squeeze", {net.ints({0})})}, {{"axis", int64_t{1}}});
  net.output("output", net.fully_connected(first, 1000));
}

}  // namespace isomer::zoo
