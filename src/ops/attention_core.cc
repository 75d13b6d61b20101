#include "ops/attention_core.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace isomer::ops {
namespace {

Dim dim_of(const Compose& f, ir::Value v, size_t axis) {
  const Shape& s = f.type(v).shape;
  return s.has_rank() && axis < s.rank() ? s[axis] : Dim::invalid();
}

// Each head of x stands for `times` heads of the queries, one after the other.
ir::Value repeat_heads(Compose& f, ir::Value x, int64_t heads, int64_t times) {
  const Dim size = dim_of(f, x, 3);
  if (times == 1) return x;
  const std::vector<ir::Value> copies(static_cast<size_t>(times), f.unsqueeze(x, {2}));
  return f.reshape(f.concat(copies, 2), {0, heads * times, -1, size.constant().value_or(0)});
}

ir::Value number(Compose& f, int64_t n) { return f.constant(Tensor::int_scalar(DType::I64, n)); }

// 0, 1, 2, ... along an axis of x.
ir::Value places(Compose& f, ir::Value x, int64_t axis) {
  return f("range", {number(f, 0), extent_scalar(f, x, axis), number(f, 1)});
}

// An offset for each sequence of the batch, not one for all.
bool differ(const Compose& f, ir::Value offset) {
  return !offset.is_none() && f.type(offset).shape.has_rank() && f.type(offset).shape.rank() > 0;
}

// bool [queries, keys], or [batch,1,queries,keys] where offsets differ: the keys that each query's place lets it see. None: all.
ir::Value in_sight(Compose& f, const Attention& a) {
  const int64_t after = a.causal ? 0 : a.after;
  if (after < 0 && a.before < 0) return ir::Value::none();
  const auto both = [&](ir::Value x, ir::Value y) { return x.is_none() ? y : y.is_none() ? x : f("and", {x, y}); };
  if (differ(f, a.offset)) {
    const ir::Value ahead = f.sub(f.add(f.unsqueeze(places(f, a.q, 2), {1}), a.offset), places(f, a.k, 2));
    return both(after < 0 ? ir::Value::none() : f("greater_or_equal", {ahead, number(f, -after)}),
                a.before < 0 ? ir::Value::none() : f("less_or_equal", {ahead, number(f, a.before)}));
  }
  const ir::Value shape = f.concat({extent(f, a.q, 2), extent(f, a.k, 2)}, 0);
  const ir::Value all = f("constant_of_shape", {shape}, {{"value", Tensor::of<int64_t>(DType::Bool, {1}, {1})}});
  const auto moved = [&](int64_t by) { return by == 0 ? a.offset : f.add(a.offset, number(f, by)); };
  return both(after < 0 ? ir::Value::none() : f("trilu", {all, moved(after)}, {{"upper", int64_t{0}}}),
              a.before < 0 ? ir::Value::none() : f("trilu", {all, moved(-a.before)}));
}

}  // namespace

Attended attend(Compose& f, const ir::OpContext& c, Attention a) {
  const auto heads = dim_of(f, a.q, 1).constant(), kv = dim_of(f, a.k, 1).constant();
  const auto size = dim_of(f, a.q, 3).constant(), v_size = dim_of(f, a.v, 3).constant();
  if (!f.failed() && (!heads || !kv || !size || !v_size || *kv < 1 || *heads < 1 || *size < 1 || *heads % *kv != 0))
    f.fail(c.error(fmt::format("the queries {} and keys {} do not have numbers of heads and sizes that fit",
                               f.type(a.q).shape.to_string(), f.type(a.k).shape.to_string())));
  if (f.failed()) return {};
  a.k = repeat_heads(f, a.k, *kv, *heads / *kv);
  a.v = repeat_heads(f, a.v, *kv, *heads / *kv);
  const DType dtype = f.type(a.q).dtype;
  Attended r;
  r.scores = f.scale(f.matmul(a.q, f.transpose(a.k, {0, 1, 3, 2})),
                     a.scale.value_or(1 / std::sqrt(static_cast<double>(*size))));
  r.capped = a.softcap > 0 ? f.scale(f("tanh", {f.scale(r.scores, 1 / a.softcap)}), a.softcap) : r.scores;
  ir::Value added;  // to the scores, by all that keeps keys away
  r.masked = r.capped;
  const auto add = [&](ir::Value x) {
    r.masked = f.add(r.masked, x);
    added = f.sum(added, x);
  };
  const auto drop = [&](ir::Value keep, double fill) {
    if (!keep.is_none()) add(f.where(keep, f.scalar(dtype, 0), f.scalar(dtype, fill)));
  };
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  if (!a.bias.is_none()) add(f.cast(a.bias, dtype));
  drop(a.keep, a.filter == 0 ? kNever : a.filter);
  const bool only_causal = added.is_none() && a.before < 0 && a.after < 0 && !differ(f, a.offset);
  drop(in_sight(f, a), kNever);
  const DType wide = a.softmax_type == DType::Opaque ? dtype : a.softmax_type;
  const ir::Value logits = f.cast(r.masked, wide);
  ir::Value shares = f("softmax", {logits}, {{"axis", int64_t{-1}}});
  if (a.smooth) shares = f.mul(shares, f("sigmoid", {f("reduce_log_sum_exp", {logits, f.ints({-1})})}));
  r.probabilities = f.cast(shares, dtype);
  r.y = f.matmul(r.probabilities, f.cast(a.v, dtype));
  // The first key is in the sight of every query of a sequence that goes on: there is no empty row to look for.
  if (!a.empty_is_zero || added.is_none() || only_causal) return r;
  const ir::Value best = f("reduce_max", {added, f.ints({-1})});
  const ir::Value some = f("greater", {best, f.scalar(dtype, kNever)}), zero = f.scalar(dtype, 0);
  r.probabilities = f.where(some, r.probabilities, zero);
  r.y = f.where(some, r.y, zero);
  return r;
}

ir::Value split_heads(Compose& f, const ir::OpContext& c, ir::Value x, int64_t heads) {
  const auto width = dim_of(f, x, 2).constant();
  if (!f.failed() && (!width || heads < 1 || *width % heads != 0 || *width == 0))
    f.fail(c.error(fmt::format("{} cannot be split into {} heads", f.type(x).shape.to_string(), heads)));
  if (f.failed()) return ir::Value::none();
  return f.transpose(f.reshape(x, {0, 0, heads, *width / heads}), {0, 2, 1, 3});
}

ir::Value merge_heads(Compose& f, ir::Value x) {
  const Dim width = dim_of(f, x, 1) * dim_of(f, x, 3);
  return f.reshape(f.transpose(x, {0, 2, 1, 3}), {0, 0, width.constant().value_or(-1)});
}

ir::Value extent(Compose& f, ir::Value x, int64_t axis) {
  return f("shape", {x}, {{"start", axis}, {"end", axis + 1}});
}

ir::Value extent_scalar(Compose& f, ir::Value x, int64_t axis) {
  return f("squeeze", {extent(f, x, axis), f.ints({0})});
}

ir::Value first_keys(Compose& f, ir::Value lengths, ir::Value keys) {
  const ir::Value zero = f.scalar(DType::I64, 0), one = f.scalar(DType::I64, 1);
  const ir::Value position = f("range", {zero, f("squeeze", {keys, f.ints({0})}), one});
  return f("less", {position, f.reshape(f.cast(lengths, DType::I64), {-1, 1, 1, 1})});
}

ir::Value append(Compose& f, ir::Value past, ir::Value fresh) {
  return past.is_none() ? fresh : f.concat({past, fresh}, 2);
}

ir::Value rotate(Compose& f, const ir::OpContext& c, const Rotary& r) {
  const auto size = dim_of(f, r.x, 3).constant();
  const int64_t rotated = r.rotated == 0 && size ? *size : r.rotated;
  if (!f.failed() && (!size || rotated < 2 || rotated % 2 != 0 || rotated > *size))
    f.fail(c.error(
        fmt::format("{} of the elements of {} cannot be rotated in pairs", rotated, f.type(r.x).shape.to_string())));
  if (f.failed()) return ir::Value::none();
  const bool partial = rotated < *size;
  const auto parts =
      partial ? f.split(r.x, 3, std::vector<int64_t>{rotated, *size - rotated}) : std::vector<ir::Value>{r.x};
  const ir::Value cos = f.unsqueeze(r.cos, {2}), sin = f.unsqueeze(r.sin, {2});
  ir::Value a, b;
  if (r.interleaved) {
    const ir::Value pairs = f.reshape(parts[0], {0, 0, 0, rotated / 2, 2});
    a = f("squeeze", {f.slice(pairs, 4, 0, 1), f.ints({4})});
    b = f("squeeze", {f.slice(pairs, 4, 1, 2), f.ints({4})});
  } else {
    const auto halves = f.split(parts[0], 3, std::vector<int64_t>{rotated / 2, rotated / 2});
    a = halves[0], b = halves[1];
  }
  const ir::Value x = f.sub(f.mul(cos, a), f.mul(sin, b)), y = f.add(f.mul(sin, a), f.mul(cos, b));
  ir::Value turned = r.interleaved
                         ? f.reshape(f.concat({f.unsqueeze(x, {4}), f.unsqueeze(y, {4})}, 4), {0, 0, 0, rotated})
                         : f.concat({x, y}, 3);
  return partial ? f.concat({turned, parts[1]}, 3) : turned;
}

}  // namespace isomer::ops
