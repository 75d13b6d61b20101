// Random models that run: chains of operators on values that fit, nodes from the operators' own samples, with data for
// every input. One seed, one model; fewer steps give a model that is the beginning of the longer one.
// Jumps (comparisons, roundings, choices) read only values that are exact, so that a result that is rounded otherwise is never
// on the other side of one: a step marks what it makes as exact when it only moves or copies.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "base/random.h"
#include "ir/graph.h"
#include "ir/sample.h"
#include "ops/table.h"
#include "tensor/random_fill.h"
#include "test/copied_node.h"

namespace isomer::testing {

struct RandomModel {
  ir::Graph graph;
  std::vector<Tensor> inputs;
};

class RandomModels {
 public:
  RandomModels() {
    for (const ir::OpDef& op : ops::table().records())
      for (const std::string& text : op.samples)
        if (op.pure)
          if (auto s = ir::make_sample(text, ops::table(), 1); s.ok() && s->graph.nodes().size() < 16)
            samples_.push_back(*std::move(s));
  }

  std::optional<RandomModel> make(uint64_t seed, size_t steps) const {
    State s{Random(seed), ir::GraphBuilder(ops::table(), "random")};
    s.builder.set_verbatim(s.random.flip(0.3));
    fresh(s, DType::F32, shape(s.random));
    for (size_t i = 0; i < steps; ++i) step(s);
    return finish(s);
  }

 private:
  struct Item {
    ir::Value value;
    bool exact = false;
  };
  struct State {
    Random random;
    ir::GraphBuilder builder;
    std::vector<Item> items = {};
    std::map<std::string, Tensor> data = {};  // constants that become inputs, by name
  };

  static std::vector<int64_t> shape(Random& r) {
    static const std::vector<int64_t> kOdd = {0, 1, 15, 16, 17, 31, 32, 33, 40};
    const auto extent = [&](int64_t most) { return r.flip(0.1) ? kOdd[r.below(kOdd.size())] : r.between(1, most); };
    switch (r.below(6)) {
      case 0: return {};
      case 1: return {extent(40)};
      case 2: return {extent(9), extent(20)};
      case 3: return {r.between(1, 2), extent(5), extent(12)};
      default: return {r.between(1, 2), extent(9), r.between(1, 8), r.between(1, 8)};
    }
  }

  static Tensor values(Random& r, DType t, std::vector<int64_t> dims) {
    return random_tensor(t, std::move(dims), r, {.low = -2, .high = 2, .int_low = -3, .int_high = 5});
  }

  // Data that the finished model has as an input.
  static Item fresh_data(State& s, Tensor t) {
    const std::string name = fmt::format("in{}", s.data.size());
    s.data.emplace(name, t);
    return {s.builder.constant(std::move(t), name), true};
  }
  static void fresh(State& s, DType t, std::vector<int64_t> dims) {
    s.items.push_back(fresh_data(s, values(s.random, t, std::move(dims))));
  }

  static const Type& type(const State& s, const Item& x) { return s.builder.type(x.value); }
  static std::vector<int64_t> dims(const State& s, const Item& x) { return type(s, x).shape.values(); }
  static ir::Value ints(State& s, const std::vector<int64_t>& v) { return s.builder.constant(Tensor::ints(v)); }

  static constexpr int64_t kMostElements = 6000;

  // Adds a node unless its record refuses it or a result is too large.
  static bool add(State& s, std::string_view op, std::vector<ir::Value> in, ir::Attrs attrs, bool exact,
                  size_t results = 1) {
    const ir::OpDef* record = ops::table().find(op);
    if (!record) return false;
    const auto made = s.builder.add(*record, std::move(in), std::move(attrs), {}, results);
    if (!made.ok()) return false;
    for (const ir::Value& v : *made) {
      const Type& t = s.builder.type(v);
      if (!t.shape.is_static()) continue;
      const auto n = checked_elements(t.dtype, t.shape.values());
      if (n.ok() && *n <= kMostElements) s.items.push_back({v, exact});
    }
    return true;
  }

  static std::optional<Item> pick(State& s, const std::function<bool(const Type&)>& fits, bool exact = false) {
    std::vector<Item> found;
    for (const Item& i : s.items)
      if ((i.exact || !exact) && fits(type(s, i))) found.push_back(i);
    if (found.empty()) return std::nullopt;
    // The newest are taken more often, so that chains grow.
    const size_t n = found.size();
    return found[s.random.flip(0.6) ? n - 1 - s.random.below(std::min<size_t>(n, 3)) : s.random.below(n)];
  }
  static bool real(const Type& t) { return t.dtype == DType::F32; }

  void step(State& s) const {
    Random& r = s.random;
    if (r.flip(0.08)) return fresh(s, r.flip(0.8) ? DType::F32 : kInts[r.below(std::size(kInts))], shape(r));
    if (r.flip(0.3)) return sample_step(s);
    const auto x = pick(s, real);
    if (!x) return fresh(s, DType::F32, shape(r));
    switch (r.below(14)) {
      case 12: return control(s, *x);
      case 0:
      case 1: return unary(s, *x);
      case 2:
      case 3: return binary(s, *x);
      case 4: return move(s, *x);
      case 5: return reduce(s, *x);
      case 6: return product(s, *x);
      case 7: return window(s, *x);
      case 8: return norm(s, *x);
      case 9: return choose(s);
      case 10: return convert(s);
      case 11: return quantised(s);
      default: return join(s, *x);
    }
  }

  static constexpr DType kInts[] = {DType::I64, DType::I32, DType::U8, DType::I8, DType::Bool, DType::I16, DType::U32};

  static void unary(State& s, const Item& x) {
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

  // A shape that broadcasts with this one.
  static std::vector<int64_t> broadcast(Random& r, std::vector<int64_t> d) {
    for (int64_t& n : d)
      if (r.flip(0.3)) n = 1;
    if (!d.empty() && r.flip(0.4)) d.erase(d.begin(), d.begin() + static_cast<int64_t>(r.below(d.size() + 1)));
    return d;
  }

  static void binary(State& s, const Item& x) {
    static const char* const kOps[] = {"add", "sub", "mul", "max", "min", "add", "mul", "mean", "sum", "p_relu"};
    const auto same = pick(s, [&](const Type& t) { return t == type(s, x); });
    const Item y = same && s.random.flip(0.6) ? *same : operand(s, broadcast(s.random, dims(s, x)));
    const bool swap = s.random.flip(0.2);
    add(s, kOps[s.random.below(std::size(kOps))], {swap ? y.value : x.value, swap ? x.value : y.value}, {}, false);
  }
  // A constant or an input of this shape.
  static Item operand(State& s, std::vector<int64_t> d) {
    Tensor t = values(s.random, DType::F32, std::move(d));
    return s.random.flip() ? Item{s.builder.constant(std::move(t)), true} : fresh_data(s, std::move(t));
  }

  static void move(State& s, const Item& x) {
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

  static void reduce(State& s, const Item& x) {
    static const char* const kOps[] = {"reduce_sum", "reduce_mean", "reduce_max",
                                       "reduce_min", "reduce_l2",   "reduce_sum_square"};
    std::vector<int64_t> axes;
    for (int64_t i = 0; i < static_cast<int64_t>(dims(s, x).size()); ++i)
      if (s.random.flip(0.4)) axes.push_back(i);
    if (axes.empty()) return;
    add(s, kOps[s.random.below(std::size(kOps))], {x.value, ints(s, axes)}, {{"keepdims", int64_t{s.random.flip()}}},
        false);
  }

  static void product(State& s, const Item& x) {
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

  // Dense layers of one width with rows in between, as exporters write them: for matrices, or for the rows of any shape.
  static void layers(State& s, Item x) {
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

  // Bytes by constant bytes, with or without zero points: as integers, or as the numbers that they stand for.
  static void quantised(State& s) {
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

  static void window(State& s, const Item& x) {
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

  static void norm(State& s, const Item& x) {
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
  static void choose(State& s) {
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
        if (!add(s, kTests[r.below(std::size(kTests))], {x->value, operand(s, broadcast(r, d)).value}, {}, true))
          return;
        const Item test = s.items.back();
        const auto y = pick(s, real);
        if (y) add(s, "where", {test.value, x->value, y->value}, {}, x->exact && y->exact);
      }
    }
  }

  static void convert(State& s) {
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

  static void join(State& s, const Item& x) {
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

  // Wholes that have parts in common, of which some are parts of others.
  static void wholes(State& s, const Item& x, int64_t axis) {
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

  // A body: one or two operations on its floats, of which the last is handed on.
  static ir::Value inside(Random& r, ir::GraphBuilder& b, const ir::Value& x, const ir::Value& y) {
    static const char* const kOne[] = {"tanh", "sigmoid", "cos", "abs", "neg"};
    static const char* const kTwo[] = {"add", "mul", "sub", "max", "min"};
    const ir::Value both = *b.add1(kTwo[r.below(std::size(kTwo))], {x, y});
    return *b.add1(kOne[r.below(std::size(kOne))], {both});
  }

  // Loops, scans and branches over a value, with one that they capture.
  static void control(State& s, const Item& x) {
    Random& r = s.random;
    const std::vector<int64_t> d = dims(s, x);
    const ir::Value captured = operand(s, r.flip() ? std::vector<int64_t>{} : broadcast(r, d)).value;
    ir::GraphBuilder b(ops::table(), "body");
    const size_t kind = r.below(d.empty() ? 2 : 3);
    const Type whole = type(s, x), other = s.builder.type(captured);
    if (kind == 0) return branch(s, x, captured);
    const Type scalar{DType::I64, Shape(std::vector<Dim>{})}, flag{DType::Bool, Shape(std::vector<Dim>{})};
    if (kind == 1) {
      const ir::Value i = *b.input("i", scalar), c = *b.input("c", flag), v = *b.input("v", whole),
                      k = *b.input("k", other), next = inside(r, b, v, k);
      b.output("c", c);
      b.output("next", b.type(next) == whole ? next : v);
      b.output("each", r.flip() ? i : v);
      add(s, "loop", {s.builder.constant(Tensor::int_scalar(DType::I64, r.between(0, 4))), {}, x.value, captured},
          {{"body", std::make_shared<const ir::Graph>(*std::move(b).finish())}, {"captures", int64_t{1}}}, false, 2);
      return;
    }
    const auto axis = r.below(d.size());
    std::vector<int64_t> one = d;
    one.erase(one.begin() + static_cast<ptrdiff_t>(axis));
    const ir::Value first = operand(s, one).value;
    const Type element = s.builder.type(first);
    const ir::Value v = *b.input("v", element), e = *b.input("e", element), next = inside(r, b, v, e);
    b.output("next", next);
    b.output("each", r.flip() ? next : inside(r, b, e, v));
    add(s, "scan", {first, x.value},
        {{"body", std::make_shared<const ir::Graph>(*std::move(b).finish())},
         {"num_scan_inputs", int64_t{1}},
         {"scan_input_axes", std::vector<int64_t>{static_cast<int64_t>(axis)}},
         {"scan_input_directions", std::vector<int64_t>{r.flip()}},
         {"scan_output_axes", std::vector<int64_t>{r.between(0, static_cast<int64_t>(one.size()))}},
         {"scan_output_directions", std::vector<int64_t>{r.flip()}}},
        false, 2);
  }

  static void branch(State& s, const Item& x, ir::Value captured) {
    Random& r = s.random;
    ir::Attrs attrs{{"captures", int64_t{2}}};
    for (const char* name : {"then_branch", "else_branch"}) {
      ir::GraphBuilder b(ops::table(), name);
      const ir::Value v = *b.input("v", type(s, x)), k = *b.input("k", s.builder.type(captured));
      const ir::Value made = inside(r, b, v, k);
      b.output("result", b.type(made) == type(s, x) ? made : v);
      attrs.set(name, std::make_shared<const ir::Graph>(*std::move(b).finish()));
    }
    const Item condition = fresh_data(s, Tensor::int_scalar(DType::Bool, r.flip()));
    add(s, "if", {condition.value, x.value, captured}, std::move(attrs), false);
  }

  // A node as one of the samples has it, on values that fit where there are some, else on data of its own.
  void sample_step(State& s) const {
    const ir::Sample& sample = samples_[s.random.below(samples_.size())];
    std::vector<ir::Value> map;
    for (size_t i = 0; i < sample.graph.input_count(); ++i) {
      const Type& t = sample.graph.inputs()[i].types[0];
      const auto known =
          is_float(t.dtype) && s.random.flip(0.6) ? pick(s, [&](const Type& o) { return o == t; }, true) : std::nullopt;
      map.push_back((known ? *known : fresh_data(s, sample.inputs[i])).value);
    }
    for (size_t i = sample.graph.input_count(); i < sample.graph.nodes().size(); ++i) {
      const ir::Node& n = sample.graph.nodes()[i];
      if (n.op == &ir::const_op()) {
        map.push_back(s.builder.constant(*n.attrs.get<Tensor>("value")));
        continue;
      }
      std::vector<ir::Value> in;
      for (const ir::Value& v : n.inputs) in.push_back(v.is_none() ? v : map[v.node]);
      add(s, n.op->name, std::move(in), n.attrs, false, n.types.size());
      return;
    }
  }

  // The graph with its data as inputs. What nothing reads is an output.
  std::optional<RandomModel> finish(State& s) const {
    auto built = std::move(s.builder).finish();
    if (!built.ok()) return std::nullopt;
    const ir::Graph& g = *built;
    RandomModel out;
    ir::GraphBuilder b(ops::table(), g.name());
    Copied now(g.nodes().size());
    std::vector<bool> read(g.nodes().size());
    for (uint32_t i = 0; i < g.nodes().size(); ++i) {
      for (const ir::Value& v : g.node(i).inputs)
        if (!v.is_none()) read[v.node] = true;
      const auto data = g.node(i).names.empty() ? s.data.end() : s.data.find(g.node(i).names[0]);
      if (data == s.data.end()) continue;
      out.inputs.push_back(data->second);
      now[i] = {*b.input(data->first, data->second.type())};
    }
    std::vector<ir::Value> results;
    for (uint32_t i = 0; i < g.nodes().size(); ++i) {
      const ir::Node& n = g.node(i);
      if (!now[i].empty()) continue;
      auto made = copied_node(b, n, now);
      if (!made.ok()) return std::nullopt;
      now[i] = *std::move(made);
      if (!read[i] && ir::is_computed(n))
        for (const ir::Value& v : now[i])
          if (b.type(v).dtype != DType::Opaque) results.push_back(v);
    }
    if (results.empty()) return std::nullopt;
    for (size_t k = 0; k < results.size(); ++k) b.output(fmt::format("out{}", k), results[k]);
    auto graph = std::move(b).finish();
    if (!graph.ok()) return std::nullopt;
    out.graph = *std::move(graph);
    return out;
  }

  std::vector<ir::Sample> samples_;
};

}  // namespace isomer::testing
