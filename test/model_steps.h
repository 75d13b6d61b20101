// Steps of a random model: each adds an operator, or a few, on values that fit.
#pragma once

#include <numeric>

#include "test/growing_model.h"

namespace isomer::testing::growing {

inline void unary(State& s, const Item& x) {
  static const char* const kSmooth[] = {"tanh",         "sigmoid",    "neg",  "sin",  "cos",  "erf",
                                        "softplus",     "elu",        "gelu", "mish", "selu", "softsign",
                                        "hard_sigmoid", "hard_swish", "celu", "atan"};
  static const char* const kExact[] = {"relu", "abs", "identity", "leaky_relu", "neg"};
  if (s.random.flip(0.3)) {
    add(s, kExact[s.random.below(std::size(kExact))], {x.value}, {}, false);
  } else if (s.random.flip(0.2)) {
    const ir::Value low = s.builder.constant(Tensor::scalar(DType::F32, -1)),
                    high = s.builder.constant(Tensor::scalar(DType::F32, 1.5));
    if (add(s, "clip", {x.value, low, high}, {}, x.exact) && s.random.flip())
      add(s, "exp", {s.items.back().value}, {}, false);
  } else {
    add(s, kSmooth[s.random.below(std::size(kSmooth))], {x.value}, {}, false);
  }
}

inline void binary(State& s, const Item& x) {
  static const char* const kOps[] = {"add", "sub", "mul", "max", "min", "add", "mul", "mean", "sum", "p_relu"};
  const auto same = pick(s, [&](const Type& t) { return t == type(s, x); });
  const Item y = same && s.random.flip(0.6) ? *same : operand(s, broadcast(s.random, dims(s, x)));
  const bool swap = s.random.flip(0.2);
  add(s, kOps[s.random.below(std::size(kOps))], {swap ? y.value : x.value, swap ? x.value : y.value}, {}, false);
}

inline void move_elements(State& s, const Item& x) {
  Random& r = s.random;
  const std::vector<int64_t> d = dims(s, x);
  const auto rank = static_cast<int64_t>(d.size());
  const int64_t n = std::accumulate(d.begin(), d.end(), int64_t{1}, std::multiplies<>());
  switch (r.below(7)) {
    case 0: {
      std::vector<int64_t> perm(d.size());
      std::iota(perm.begin(), perm.end(), 0);
      for (size_t i = perm.size(); i > 1; --i) std::swap(perm[i - 1], perm[r.below(i)]);
      add(s, "transpose", {x.value}, {{"perm", perm}}, x.exact);
      return;
    }
    case 1: {
      std::vector<int64_t> to;
      int64_t left = n;
      for (const int64_t f : {2, 3, 4, 5})
        if (left > 0 && left % f == 0 && r.flip()) to.push_back(f), left /= f;
      to.insert(to.begin() + static_cast<int64_t>(r.below(to.size() + 1)), left);
      add(s, "reshape", {x.value, ints(s, to)}, {}, x.exact);
      return;
    }
    case 2: {
      if (rank == 0) return;
      const int64_t a = r.between(0, rank - 1), size = d[static_cast<size_t>(a)], from = r.between(0, size);
      add(s, "slice",
          {x.value, ints(s, {from}), ints(s, {r.between(from, size + 2)}), ints(s, {a}), ints(s, {r.between(1, 2)})},
          {}, x.exact);
      return;
    }
    case 3: {
      std::vector<int64_t> pads;
      for (int64_t i = 0; i < 2 * rank; ++i) pads.push_back(r.flip(0.6) ? 0 : r.between(0, 2));
      add(s, "pad", {x.value, ints(s, pads)}, {{"mode", std::string(r.flip(0.7) ? "constant" : "edge")}}, x.exact);
      return;
    }
    case 4: {
      if (rank == 0) return;
      const int64_t a = r.between(0, rank - 1), size = d[static_cast<size_t>(a)];
      if (size == 0) return;
      Tensor at = random_tensor(DType::I64, {r.between(1, 4)}, r, {.int_low = -size, .int_high = size - 1});
      const ir::Value index = r.flip() ? s.builder.constant(std::move(at)) : fresh_data(s, std::move(at)).value;
      add(s, "gather", {x.value, index}, {{"axis", a}}, x.exact);
      return;
    }
    case 5:
      if (rank > 0)
        add(s, "split", {x.value}, {{"axis", r.between(0, rank - 1)}, {"num_outputs", int64_t{2}}}, x.exact, 2);
      return;
    default: {
      std::vector<int64_t> repeats;
      for (int64_t i = 0; i < rank; ++i) repeats.push_back(r.flip(0.7) ? 1 : r.between(0, 3));
      add(s, "tile", {x.value, ints(s, repeats)}, {}, x.exact);
      return;
    }
  }
}

inline void reduce(State& s, const Item& x) {
  static const char* const kOps[] = {"reduce_sum", "reduce_mean", "reduce_max",
                                     "reduce_min", "reduce_l2",   "reduce_sum_square"};
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < static_cast<int64_t>(dims(s, x).size()); ++i)
    if (s.random.flip(0.4)) axes.push_back(i);
  if (axes.empty()) return;
  add(s, kOps[s.random.below(std::size(kOps))], {x.value, ints(s, axes)}, {{"keepdims", int64_t{s.random.flip()}}},
      false);
}

// Dense layers of one width with rows in between, as exporters write them: for matrices, or for the rows of any shape.
inline void layers(State& s, Item x) {
  Random& r = s.random;
  const std::vector<int64_t> d = dims(s, x);
  const int64_t width = d.back();
  int64_t rows = 1;
  for (size_t k = 0; k + 1 < d.size(); ++k) rows *= d[k];
  if (rows == 0 || width == 0) return;
  const auto go_on = [&](const char* op, std::vector<ir::Value> inputs, ir::Attrs attrs = {}) {
    const size_t had = s.items.size();
    add(s, op, std::move(inputs), std::move(attrs), false);
    const bool made = s.items.size() > had;
    if (made) x = s.items.back();
    return made;
  };
  for (int64_t k = r.between(2, 4); k > 0; --k) {
    const bool matrix = r.flip();
    if (matrix && !go_on("reshape", {x.value, ints(s, {rows, width})})) return;
    if (!go_on("matmul", {x.value, operand(s, {width, width}).value})) return;
    if (r.flip() && !go_on("add", {x.value, operand(s, {width}).value})) return;
    if (matrix && !go_on("reshape", {x.value, ints(s, d)})) return;
    if (r.flip(0.3)) go_on("tanh", {x.value});
    if (r.flip(0.3)) go_on("softmax", {x.value});
    if (r.flip())
      go_on("layer_normalization", {x.value, operand(s, {width}).value, operand(s, {width}).value},
            {{"axis", int64_t{-1}}});
  }
}

inline void product(State& s, const Item& x) {
  Random& r = s.random;
  const std::vector<int64_t> d = dims(s, x);
  if (d.empty()) return;
  if (r.flip(0.25)) return layers(s, x);
  std::vector<int64_t> w = {d.back(), r.flip(0.2) ? r.between(30, 40) : r.between(1, 20)};
  if (d.size() == 2 && r.flip(0.3)) {
    const bool turned = r.flip();
    if (turned) std::swap(w[0], w[1]);
    add(s, "gemm", {x.value, operand(s, w).value, operand(s, {w[turned ? 0 : 1]}).value},
        {{"transB", int64_t{turned}}, {"alpha", 0.5}}, false);
    return;
  }
  if (d.size() > 2 && r.flip()) w.insert(w.begin(), d[d.size() - 3]);
  add(s, "matmul", {x.value, operand(s, w).value}, {}, false);
}

// Bytes by constant bytes, with or without zero points: as integers, or as the numbers that they stand for.
inline void quantised(State& s) {
  Random& r = s.random;
  const DType types[] = {r.flip() ? DType::U8 : DType::I8, r.flip() ? DType::U8 : DType::I8};
  const auto bytes = [&](DType t, std::vector<int64_t> dims) {
    const int64_t low = t == DType::U8 ? 0 : -128;
    return random_tensor(t, std::move(dims), r, {.int_low = low, .int_high = low + 255});
  };
  const bool image = r.flip();
  std::vector<int64_t> x = {r.between(1, 40), r.between(1, 70)}, w = {x[1], r.between(8, 40)};
  ir::Attrs attrs;
  if (image) {
    const int64_t taps = r.between(1, 3);
    x = {1, r.between(1, 12), r.between(3, 6), r.between(3, 6)};
    w = {r.between(8, 24), x[1], taps, taps};
    attrs.set("pads", std::vector<int64_t>(4, r.between(0, taps - 1)));
  }
  std::vector<ir::Value> in = {fresh_data(s, bytes(types[0], x)).value, s.builder.constant(bytes(types[1], w))}, zero;
  for (const DType t : types)
    if (zero.empty() || r.flip()) zero.push_back(s.builder.constant(bytes(t, {})));
  if (r.flip()) {
    if (r.flip(0.7)) in.insert(in.end(), zero.begin(), zero.end());
    add(s, image ? "conv_integer" : "matmul_integer", std::move(in), std::move(attrs), true);
    return;
  }
  const ir::Value scale = s.builder.constant(Tensor::scalar(DType::F32, 0.0078125));
  for (size_t i = 0; i < in.size(); ++i) {
    std::vector<ir::Value> parts = {in[i], scale};
    if (i < zero.size()) parts.push_back(zero[i]);
    if (!add(s, "dequantize_linear", std::move(parts), {}, true)) return;
    in[i] = s.items.back().value;
  }
  add(s, image ? "conv" : "matmul", std::move(in), std::move(attrs), false);
}

inline void window(State& s, const Item& x) {
  Random& r = s.random;
  const std::vector<int64_t> d = dims(s, x);
  if (d.size() < 3 || d[1] == 0) return;
  const size_t spatial = d.size() - 2;
  std::vector<int64_t> kernel, strides, pads(2 * spatial, 0), dilations;
  for (size_t i = 0; i < spatial; ++i) {
    kernel.push_back(r.between(1, 3));
    strides.push_back(r.between(1, 2));
    dilations.push_back(r.flip(0.8) ? 1 : 2);
  }
  for (size_t i = 0; i < 2 * spatial; ++i) pads[i] = r.between(0, kernel[i % spatial] - 1);
  ir::Attrs attrs{{"kernel_shape", kernel}, {"strides", strides}, {"pads", pads}};
  if (r.flip(0.4)) {
    add(s, r.flip() ? "max_pool" : "average_pool", {x.value}, attrs, false);
    return;
  }
  attrs.set("dilations", dilations);
  const int64_t group = r.flip(0.6) ? 1 : d[1], out = group * r.between(1, group > 1 ? 2 : 20);
  std::vector<int64_t> w = {out, d[1] / group};
  w.insert(w.end(), kernel.begin(), kernel.end());
  attrs.set("group", group);
  std::vector<ir::Value> in = {x.value, operand(s, w).value};
  if (r.flip()) in.push_back(operand(s, {out}).value);
  add(s, "conv", std::move(in), attrs, false);
}

inline void norm(State& s, const Item& x) {
  Random& r = s.random;
  const std::vector<int64_t> d = dims(s, x);
  if (d.empty()) return;
  const auto last = static_cast<int64_t>(d.size()) - 1;
  switch (r.below(4)) {
    case 0: add(s, r.flip(0.7) ? "softmax" : "log_softmax", {x.value}, {{"axis", r.between(0, last)}}, false); return;
    case 1:
      add(s, "layer_normalization", {x.value, operand(s, {d.back()}).value, operand(s, {d.back()}).value},
          {{"axis", last}}, false);
      return;
    case 2:
      if (d.size() > 2)
        add(s, "instance_normalization", {x.value, operand(s, {d[1]}).value, operand(s, {d[1]}).value}, {}, false);
      return;
    default:
      if (d.size() > 1) {
        Tensor var = random_tensor(DType::F32, {d[1]}, r, {.low = 0.5, .high = 2});
        const auto c = [&] { return s.builder.constant(values(r, DType::F32, {d[1]})); };
        add(s, "batch_normalization", {x.value, c(), c(), c(), s.builder.constant(var)}, {}, false);
      }
  }
}

// Jumps: of exact values alone.
inline void choose(State& s) {
  Random& r = s.random;
  const auto x = pick(s, real, true);
  if (!x) return;
  static const char* const kTests[] = {"less", "greater", "equal", "less_or_equal", "greater_or_equal"};
  static const char* const kSteps[] = {"floor", "ceil", "round", "sign"};
  const std::vector<int64_t> d = dims(s, *x);
  switch (r.below(5)) {
    case 0: add(s, kSteps[r.below(std::size(kSteps))], {x->value}, {}, true); return;
    case 1:
      if (!d.empty())
        add(s, r.flip() ? "arg_max" : "arg_min", {x->value},
            {{"axis", r.between(0, static_cast<int64_t>(d.size()) - 1)}, {"keepdims", int64_t{r.flip()}}}, true);
      return;
    case 2:
      if (!d.empty() && d.back() > 0) add(s, "top_k", {x->value, ints(s, {r.between(1, d.back())})}, {}, true, 2);
      return;
    default: {
      if (!add(s, kTests[r.below(std::size(kTests))], {x->value, operand(s, broadcast(r, d)).value}, {}, true)) return;
      const Item test = s.items.back();
      const auto y = pick(s, real);
      if (y) add(s, "where", {test.value, x->value, y->value}, {}, x->exact && y->exact);
    }
  }
}

inline void convert(State& s) {
  static constexpr DType kFloats[] = {DType::F64, DType::F16, DType::BF16};
  Random& r = s.random;
  const bool to_int = r.flip();
  const auto x = pick(s, [](const Type&) { return true; }, to_int);
  if (!x) return;
  const DType from = type(s, *x).dtype;
  DType to = to_int ? kInts[r.below(std::size(kInts))] : kFloats[r.below(std::size(kFloats))];
  if (from != DType::F32 && r.flip(0.7)) to = DType::F32;
  add(s, "cast", {x->value}, {{"to", to}}, x->exact && (from == DType::F32 || to == DType::F32));
}

// Wholes that have parts in common, of which some are parts of others.
inline void wholes(State& s, const Item& x, int64_t axis) {
  Random& r = s.random;
  static const char* const kParts[] = {"relu", "neg", "tanh", "abs", "sigmoid"};
  std::vector<ir::Value> parts;
  for (const char* op : kParts) {
    const size_t had = s.items.size();
    add(s, op, {x.value}, {}, false);
    if (s.items.size() == had) return;
    parts.push_back(s.items.back().value);
  }
  for (int64_t k = r.between(2, 4); k > 0; --k) {
    const size_t from = r.below(parts.size() - 1), count = 2 + r.below(std::min<size_t>(3, parts.size() - from - 1));
    const auto begin = parts.begin() + static_cast<int64_t>(from);
    if (!add(s, "concat", {begin, begin + static_cast<int64_t>(count)}, {{"axis", axis}}, false)) return;
    parts.insert(parts.begin() + static_cast<int64_t>(r.below(parts.size())), s.items.back().value);
    add(s, "cos", {s.items.back().value}, {}, false);
  }
}

inline void join(State& s, const Item& x) {
  const std::vector<int64_t> d = dims(s, x);
  if (d.empty()) return;
  const auto axis = s.random.below(d.size());
  if (s.random.flip(0.3)) return wholes(s, x, static_cast<int64_t>(axis));
  const auto y = pick(s, [&](const Type& t) {
    if (!real(t) || t.shape.rank() != d.size()) return false;
    for (size_t i = 0; i < d.size(); ++i)
      if (i != axis && t.shape[i].value() != d[i]) return false;
    return true;
  });
  if (y) add(s, "concat", {x.value, y->value}, {{"axis", static_cast<int64_t>(axis)}}, x.exact && y->exact);
}

}  // namespace isomer::testing::growing
