// Scaled dot-product attention over heads, from which the attention operators are composed, and rotary positions.
#pragma once

#include <optional>

#include "ops/compose.h"

namespace isomer::ops {

// q is [batch, heads, queries, size], k and v are [batch, kv heads, keys, size]; absent values are none.
struct Attention {
  ir::Value q, k, v;
  ir::Value keep;     // bool, broadcasts to [batch, heads, queries, keys]: false positions are not attended to
  ir::Value bias;     // added to the scores, broadcasts likewise
  double filter = 0;  // what is added to the score of a position that `keep` drops; 0: minus infinity
  // Query i stands at key i + offset: a scalar i64, or i64 [batch,1,1,1]; wanted where one of the next three is.
  ir::Value offset;
  bool causal = false;              // no key behind its own place is attended to,
  int64_t before = -1, after = -1;  // none further before, or behind it; -1: no bound
  bool empty_is_zero = false;       // a query that attends to no key has zeros for a result, not NaN
  std::optional<double> scale;      // 1 / sqrt(size) by default
  double softcap = 0;               // scores are bent into (-softcap, softcap) before biases and masks; 0: they are not
  bool smooth = false;              // one more score of 0, which belongs to no key, takes its part of the softmax
  DType softmax_type = DType::Opaque;  // Opaque: that of the scores
};

struct Attended {
  ir::Value y;                                      // [batch, heads, queries, size of v]
  ir::Value scores, capped, masked, probabilities;  // [batch, heads, queries, keys]
};

Attended attend(Compose& f, const ir::OpContext& c, Attention a);

// [batch, n, heads * size] -> [batch, heads, n, size] and back.
ir::Value split_heads(Compose& f, const ir::OpContext& c, ir::Value x, int64_t heads);
ir::Value merge_heads(Compose& f, ir::Value x);
// The extent of an axis as a value, [1] or a scalar.
ir::Value extent(Compose& f, ir::Value x, int64_t axis);
ir::Value extent_scalar(Compose& f, ir::Value x, int64_t axis);
// bool [batch,1,1,keys]: the first lengths[b] keys; `keys` is an i64 vector of one element.
ir::Value first_keys(Compose& f, ir::Value lengths, ir::Value keys);
// Adds the new keys or values behind the past ones; a past that is none is empty.
ir::Value append(Compose& f, ir::Value past, ir::Value fresh);

struct Rotary {
  ir::Value x;          // [batch, n, heads, size]
  ir::Value cos, sin;   // [batch, n, rotated / 2]
  int64_t rotated = 0;  // 0: all
  bool interleaved = false;
};
ir::Value rotate(Compose& f, const ir::OpContext& c, const Rotary& r);

}  // namespace isomer::ops
