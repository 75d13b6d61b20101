// Random architectures that run: blocks that networks are made of, in a random order and at sizes where the compiler takes
// its fast algorithms, wholes hosted in others and threads that share the work. One seed, one network; fewer blocks give one that
// is the beginning of the longer one.
#pragma once

#include <fmt/format.h>

#include "ops/table.h"
#include "tensor/random_fill.h"
#include "test/image_blocks.h"
#include "test/random_model.h"
#include "test/signal_blocks.h"
#include "test/token_blocks.h"

namespace isomer::testing {

// Patches of an image as tokens, with or without one that stands for all of it.
inline Value tokens_of_image(Parts& p, Value x) {
  const int64_t d = p.one_of<int64_t>({16, 24, 32, 48, 64}), patch = p.dim(x, 2) >= 8 && p.dim(x, 3) >= 8 ? 2 : 1;
  x = p.net.conv(x, {.out = d, .kernel = {patch}, .stride = {patch}, .bias = true});
  const int64_t s = p.dim(x, 2) * p.dim(x, 3);
  x = p.net.transpose(p.net.reshape(x, {0, d, s}), {0, 2, 1});
  if (p.dim(x, 0) == 1 && p.random.flip(0.3)) x = p.net.concat({p.net.weight("class", {1, 1, d}, 1), x}, 1);
  return p.net.add(x, p.net.weight("position", {1, p.dim(x, 1), d}, 0.5));
}

inline Value vector_of_tokens(Parts& p, Value x) {
  switch (p.random.below(3)) {
    case 0: return p.net.call("reduce_mean", {x, p.net.ints({1})}, {{"keepdims", int64_t{0}}});
    case 1: return p.net.call("gather", {x, p.net.call("squeeze", {p.net.ints({0})})}, {{"axis", int64_t{1}}});
    default: return p.net.reshape(x, {0, p.dim(x, 1) * p.dim(x, 2)});
  }
}

inline Value head(Parts& p, Value x) {
  const size_t rank = p.net.rank(x);
  if (rank > 3) x = p.net.call("flatten", {p.random.flip() ? p.net.global_average(x) : x});
  if (rank == 3) x = vector_of_tokens(p, p.row_norm(x));
  for (int64_t k = p.random.between(1, 3); k > 0; --k) {
    x = p.dense(x, p.one_of<int64_t>({10, 16, 32, 50}));
    if (k > 1 && p.random.flip()) x = p.net.batch_norm(x);
    if (k > 1) x = p.activation(x);
  }
  return p.random.flip(0.3) ? p.net.call("softmax", {x}, {{"axis", int64_t{-1}}}) : x;
}

enum class Looks : uint8_t { AtImages, AtTokens, AtSignals };

inline std::vector<int64_t> input_dims(Parts& p, Looks looks) {
  const int64_t n = p.one_of<int64_t>({1, 1, 1, 2, 3}), channels = p.one_of<int64_t>({1, 3, 3, 8, 16, 32, 48});
  const auto side = [&] { return p.one_of<int64_t>({7, 8, 12, 14, 16, 17, 20, 28, 32}); };
  switch (looks) {
    case Looks::AtImages: {
      const int64_t height = side();
      return {n, channels, height, side()};
    }
    case Looks::AtTokens: {
      const int64_t tokens = p.one_of<int64_t>({1, 4, 7, 8, 16, 20, 33, 48});
      return {n, tokens, p.one_of<int64_t>({12, 16, 24, 32, 48, 64})};
    }
    case Looks::AtSignals: break;
  }
  if (p.random.flip(0.6)) return {n, channels, p.one_of<int64_t>({7, 16, 33, 64, 100, 200})};
  const int64_t frames = p.one_of<int64_t>({2, 4, 7}), small = p.one_of<int64_t>({6, 8, 9, 12});
  return {n, std::min<int64_t>(channels, 16), frames, small, p.one_of<int64_t>({6, 8, 13})};
}

// What follows on a value; a network that looks at images may go on with their patches.
inline Value next_block(Parts& p, Looks& looks, Value x, bool last) {
  if (looks == Looks::AtImages && !last && p.random.flip(0.1)) {
    looks = Looks::AtTokens;
    return tokens_of_image(p, x);
  }
  if (looks == Looks::AtTokens) return token::kBlocks[p.random.below(std::size(token::kBlocks))](p, x);
  const bool image = looks == Looks::AtImages;
  x = image ? image::kBlocks[p.random.below(std::size(image::kBlocks))](p, x)
            : signal::kBlocks[p.random.below(std::size(signal::kBlocks))](p, x);
  return p.dim(x, 1) > 96 ? conv(p, x, 32, 1) : x;
}

inline Expected<RandomModel> random_architecture(uint64_t seed, size_t blocks) {
  zoo::Options options;
  options.seed = seed;
  options.fused_norms = seed % 2 == 0;
  Parts p{Random(seed), zoo::Net(ops::table(), "architecture", options)};
  Looks looks = p.one_of({Looks::AtImages, Looks::AtImages, Looks::AtTokens, Looks::AtSignals});
  const std::vector<int64_t> dims = input_dims(p, looks);
  Value x = p.net.input("x", DType::F32, dims);
  std::vector<Value> made;
  for (size_t k = 0; k < blocks; ++k) made.push_back(x = next_block(p, looks, x, k + 1 == blocks));
  if (p.random.flip()) made.push_back(head(p, x));
  p.net.output("last", made.back());
  for (size_t k = 0; k + 1 < made.size(); ++k)
    if (p.random.flip(0.15)) p.net.output(fmt::format("block{}", k), made[k]);
  RandomModel out;
  ISOMER_TRY(out.graph, std::move(p.net).finish());
  out.inputs.push_back(random_tensor(DType::F32, dims, p.random, {.low = -2, .high = 2}));
  return out;
}

}  // namespace isomer::testing
