// Random networks that run: chains and joins of the nodes that passes rewrite, with the constants, orders, broadcasts
// and second readers that make the difference between a pattern and its false twin. One seed, one network.
#pragma once

#include <numeric>

#include "base/random.h"
#include "ir/graph.h"
#include "ops/table.h"

namespace isomer::testing {

class RandomNetwork {
 public:
  // `steps`: most nodes to add; a failing case is made smaller by lowering it.
  RandomNetwork(uint64_t seed, size_t steps) : r_(seed), b_(ops::table(), "random") {
    values_.push_back(*b_.input("x", {DType::F32, Shape({2, 4, 3, 6}), nullptr}));
    values_.push_back(*b_.input("m", {DType::F32, Shape({4, 6}), nullptr}));
    for (size_t i = 0; i < steps; ++i) step();
  }

  Expected<ir::Graph> finish() && {
    b_.output("last", values_.back());
    for (size_t i = 0; i < values_.size(); ++i)
      if (r_.flip(0.1)) b_.output("out" + std::to_string(i), values_[i]);
    return std::move(b_).finish();
  }

 private:
  using Value = ir::Value;
  using Ints = std::vector<int64_t>;

  Ints dims(Value v) const { return b_.type(v).shape.values(); }
  // Recent values are taken more often, so that chains grow.
  Value any() { return values_[values_.size() - 1 - r_.below(r_.flip(0.7) ? 1 : values_.size())]; }
  Value constant(Ints d) {
    Tensor t(DType::F32, std::move(d));
    static constexpr double kOften[] = {0, 1, 2, 0.5, 3, 6, -1, 1.4142135};
    const bool plain = r_.flip();
    const double same = kOften[r_.below(std::size(kOften))];
    for (int64_t i = 0; i < t.size(); ++i) t.set_real(i, plain ? same : r_.uniform(-1.5, 1.5));
    return b_.constant(std::move(t));
  }
  // A constant that broadcasts with a value in one of the ways there are: a number, one axis, all, or more axes.
  Value constant_for(Value v) {
    Ints d = dims(v);
    switch (r_.below(6)) {
      case 0: return constant({});
      case 1: return constant(Ints(d.size(), 1));
      case 2: return constant(d);
      case 3: return constant(Ints(d.end() - (d.empty() ? 0 : 1), d.end()));
      default:
        for (size_t i = 0, keep = r_.below(d.size() + 1); i < d.size(); ++i)
          if (i != keep) d[i] = 1;
        return constant(d);
    }
  }
  void push(Expected<std::vector<Value>> made) {
    if (!made.ok()) return;
    for (const Value& v : *made) {
      const Shape& s = b_.type(v).shape;
      if (b_.type(v).dtype == DType::F32 && s.is_static() && s.elements().value() > 0 && s.elements().value() < 4096)
        values_.push_back(v);
    }
  }
  void add(const char* op, std::vector<Value> inputs, ir::Attrs attrs = {}) {
    push(b_.add(op, std::move(inputs), std::move(attrs)));
  }
  Value make(const char* op, std::vector<Value> inputs, ir::Attrs attrs = {}) {
    auto v = b_.add1(op, std::move(inputs), std::move(attrs));
    return v.ok() ? *v : inputs_of_failure_;
  }

  Ints permutation(size_t n) {
    Ints p(n);
    std::iota(p.begin(), p.end(), 0);
    for (size_t i = n; i > 1; --i) std::swap(p[i - 1], p[r_.below(i)]);
    return p;
  }
  Ints other_shape(Value v) {
    Ints d = dims(v);
    const int64_t n = std::accumulate(d.begin(), d.end(), int64_t{1}, std::multiplies<>());
    switch (r_.below(5)) {
      case 0: return {-1};
      case 1: return n % 2 == 0 ? Ints{2, -1} : Ints{-1, 1};
      case 2: return n % 12 == 0 ? Ints{3, -1, 4} : Ints{1, -1};
      case 3: return n % 144 == 0 ? Ints{2, 4, 3, n / 24} : Ints{n, 1};
      default: d.insert(d.begin() + static_cast<std::ptrdiff_t>(r_.below(d.size() + 1)), 1); return d;
    }
  }

  void unary() {
    static constexpr const char* kOps[] = {"relu",    "sigmoid", "tanh", "neg",    "identity",
                                           "dropout", "erf",     "abs",  "softmax"};
    add(kOps[r_.below(std::size(kOps))], {any()});
  }
  void with_constant() {
    static constexpr const char* kOps[] = {"add", "sub", "mul", "div", "mul", "add"};
    const Value v = any(), c = constant_for(v);
    add(kOps[r_.below(std::size(kOps))], r_.flip(0.7) ? std::vector{v, c} : std::vector{c, v});
  }
  void binary() {
    static constexpr const char* kOps[] = {"add", "sub", "mul", "max"};
    add(kOps[r_.below(std::size(kOps))], {any(), any()});
  }
  void layout() {
    const Value v = any();
    const size_t rank = dims(v).size();
    switch (r_.below(6)) {
      case 0:
      case 1: return add("transpose", {v}, {{"perm", permutation(rank)}});
      case 2: return add("transpose", {v});
      case 3: return add("flatten", {v}, {{"axis", static_cast<int64_t>(r_.below(rank + 1))}});
      case 4: return add("squeeze", {v});
      default: return add("reshape", {v, b_.constant(Tensor::ints(other_shape(v)))});
    }
  }
  void window() {
    Value v = any();
    Ints d = dims(v);
    if (d.size() != 4) v = make("reshape", {v, b_.constant(Tensor::ints({1, 1, 2, -1}))});
    if (v.is_none() || (d = dims(v)).size() != 4) return;
    if (r_.flip(0.3)) {
      Ints pads(8, 0);
      for (size_t i : {2, 3, 6, 7}) pads[i] = r_.between(0, 1);
      static constexpr double kFill[] = {0, 1, -std::numeric_limits<double>::infinity()};
      v = make("pad",
               {v, b_.constant(Tensor::ints(pads)), b_.constant(Tensor::scalar(DType::F32, kFill[r_.below(3)]))});
      if (v.is_none()) return;
    }
    const Ints pads = r_.flip() ? Ints{0, 0, 0, 0} : Ints{1, 0, 0, 1};
    const Ints kernel = {2, r_.between(1, 2)};
    switch (r_.below(4)) {
      case 0: return add("max_pool", {v}, {{"kernel_shape", kernel}, {"pads", pads}});
      case 1:
        return add(
            "average_pool", {v},
            {{"kernel_shape", kernel}, {"pads", pads}, {"count_include_pad", static_cast<int64_t>(r_.below(2))}});
      default: break;
    }
    const int64_t group = d[1] % 2 == 0 && r_.flip(0.4) ? (r_.flip() ? d[1] : 2) : 1;
    const bool turned = r_.flip(0.2);
    const Ints weight = turned ? Ints{d[1], 2, 2, kernel[1]} : Ints{2 * group, d[1] / group, 2, kernel[1]};
    std::vector<Value> inputs = {v, constant(weight)};
    if (r_.flip()) inputs.push_back(constant({2 * group}));
    add(turned ? "conv_transpose" : "conv", std::move(inputs), {{"pads", pads}, {"group", group}});
  }
  void normalise() {
    const Value v = any();
    const Ints d = dims(v);
    if (d.empty()) return;
    const Value axes = b_.constant(Tensor::ints({r_.flip(0.8) ? -1 : 0}));
    if (r_.flip(0.4) && d.size() > 1) {
      Tensor variance(DType::F32, {d[1]});
      for (int64_t i = 0; i < d[1]; ++i) variance.set_real(i, r_.uniform(0.5, 2));
      return add("batch_normalization",
                 {v, constant({d[1]}), constant({d[1]}), constant({d[1]}), b_.constant(std::move(variance))},
                 {{"epsilon", 0.01}});
    }
    const Value epsilon = b_.constant(Tensor::scalar(DType::F32, 0.25)),
                two = b_.constant(Tensor::scalar(DType::F32, 2));
    const Value centred = r_.flip() ? make("sub", {v, make("reduce_mean", {v, axes})}) : v;
    const Value square = r_.flip() ? make("pow", {centred, two}) : make("mul", {centred, centred});
    const Value root = make("sqrt", {make("add", {make("reduce_mean", {square, axes}), epsilon})});
    add("div", {centred, root});
  }
  void activation() {
    const Value v = any();
    const auto n = [&](double x) { return b_.constant(Tensor::scalar(DType::F32, x)); };
    switch (r_.below(3)) {
      case 0:
        return add("mul",
                   {make("mul", {v, n(0.5)}),
                    make("add", {make("erf", {make("div", {v, n(r_.flip(0.8) ? 1.4142135623730951 : 1.5)})}), n(1)})});
      case 1: return add("mul", {v, make("sigmoid", {r_.flip(0.7) ? v : any()})});
      default:
        return add("div",
                   {make("mul", {v, make("clip", {make("add", {v, n(3)}), n(0), n(6)})}), n(r_.flip(0.8) ? 6 : 5)});
    }
  }
  void contract() {
    const Value v = any();
    const Ints d = dims(v);
    if (d.size() < 2) return;
    const Value w = constant({d.back(), 3});
    if (d.size() > 2 || r_.flip()) return add("matmul", {v, w});
    const bool turned = r_.flip();
    add("gemm", {v, turned ? make("transpose", {w}) : w, r_.flip() ? constant({3}) : constant({d[0], 1})},
        {{"transB", static_cast<int64_t>(turned)}, {"alpha", r_.flip() ? 1.0 : 0.5}, {"beta", r_.flip() ? 1.0 : 2.0}});
  }
  void cast() {
    const Value v = any();
    const DType to = r_.flip() ? DType::F64 : DType::F16;
    add("cast", {make("cast", {v}, {{"to", to}})}, {{"to", DType::F32}});
  }
  void other() {
    const Value v = any();
    const Ints d = dims(v);
    if (d.empty()) return;
    const int64_t axis = static_cast<int64_t>(r_.below(d.size()));
    switch (r_.below(6)) {
      case 0: return add("concat", r_.flip() ? std::vector{v} : std::vector{v, v}, {{"axis", axis}});
      case 1:
        return add("slice", {v, b_.constant(Tensor::ints({r_.between(0, 1)})), b_.constant(Tensor::ints({99})),
                             b_.constant(Tensor::ints({axis}))});
      case 2: return add("expand", {v, b_.constant(Tensor::ints(Ints(d.size(), 1)))});
      case 3:
        return add("reduce_mean", {v, b_.constant(Tensor::ints({axis}))},
                   {{"keepdims", static_cast<int64_t>(r_.below(2))}});
      case 4: return add("pow", {v, b_.constant(Tensor::scalar(DType::F32, static_cast<double>(r_.between(1, 3))))});
      default: {
        auto shape = b_.add1("shape", {v});
        if (shape.ok()) add("reshape", {v, *shape});
      }
    }
  }

  void step() {
    switch (r_.below(12)) {
      case 0: return unary();
      case 1:
      case 2: return with_constant();
      case 3: return binary();
      case 4:
      case 5: return layout();
      case 6: return window();
      case 7: return normalise();
      case 8: return activation();
      case 9: return contract();
      case 10: return cast();
      default: return other();
    }
  }

  Random r_;
  ir::GraphBuilder b_;
  std::vector<Value> values_;
  const Value inputs_of_failure_ = Value::none();
};

}  // namespace isomer::testing
