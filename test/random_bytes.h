// Random quantised networks: layers on bytes as exporters and quantisers write them, between QuantizeLinear and
// DequantizeLinear, as operators of bytes, or as integer products that are scaled afterwards.
// Invariant: all scales are powers of two and sums stay below 2^24, so that every value is exact in floats, in any order:
// results are the same to the last bit or wrong.
#pragma once

#include <fmt/format.h>

#include <cmath>

#include "base/random.h"
#include "ir/graph.h"
#include "ops/table.h"
#include "tensor/random_fill.h"
#include "test/random_model.h"

namespace isomer::testing {

class RandomBytes {
 public:
  RandomBytes(uint64_t seed, size_t blocks) : r_(seed), b_(ops::table(), "bytes") {
    const bool image = r_.flip(0.65);
    std::vector<int64_t> dims = {one_of({1, 1, 2}), one_of({3, 8, 16, 24, 32})};
    if (image)
      for (int axis = 0; axis < 2; ++axis) dims.push_back(one_of({4, 7, 8, 12, 16, 17}));
    else
      dims = {dims[0], one_of({1, 5, 8, 16, 33}), one_of({8, 16, 20, 32, 64})};
    // Multiples of a sixteenth.
    input_ = random_tensor(DType::I32, dims, r_, {.int_low = -100, .int_high = 100}).cast(DType::F32);
    for (int64_t i = 0; i < input_.size(); ++i) input_.set_real(i, input_.real(i) / 16);
    Bytes x = quantised(*b_.input("x", input_.type()), 4);
    for (size_t k = 0; k < blocks; ++k) {
      x = image ? image_block(x) : row_block(x);
      if (r_.flip(0.15)) b_.output(fmt::format("block{}", k), r_.flip() ? x.bytes : real(x));
    }
    b_.output("last", r_.flip() ? x.bytes : real(x));
  }

  Expected<RandomModel> finish() && {
    RandomModel out;
    ISOMER_TRY(out.graph, std::move(b_).finish());
    out.inputs.push_back(std::move(input_));
    return out;
  }

 private:
  using Value = ir::Value;
  using Ints = std::vector<int64_t>;
  struct Bytes {
    Value bytes;
    double scale = 1;  // a power of two
    Value step, zero;  // as constants
  };
  struct Weight {
    Value bytes, step, zero;
    Ints exponents;  // of each column's scale, or of all
    Value real;      // as floats
  };

  int64_t one_of(std::initializer_list<int64_t> choices) { return choices.begin()[r_.below(choices.size())]; }
  Ints dims(Value v) const { return b_.type(v).shape.values(); }
  Value call(const char* op, std::vector<Value> in, ir::Attrs attrs = {}) {
    auto v = b_.add1(op, std::move(in), std::move(attrs));
    return check_ok(std::move(v));
  }
  template <class T>
  static T check_ok(Expected<T> v) {
    if (!v.ok()) ADD_FAILURE() << v.error().to_string();
    return v.ok() ? *std::move(v) : T{};
  }
  Value number(double x) { return b_.constant(Tensor::scalar(DType::F32, x)); }
  Value ints(const Ints& v) { return b_.constant(Tensor::ints(v)); }

  Value real(const Bytes& x) { return call("dequantize_linear", {x.bytes, x.step, x.zero}); }

  // The step in which numbers of this magnitude fill a byte, or nearly.
  Bytes in_steps(double magnitude, bool positive = false) {
    Bytes out;
    out.scale = std::exp2(std::ceil(std::log2(magnitude / (positive ? 200 : 100))));
    out.step = number(out.scale);
    const DType t = r_.flip(0.7) ? DType::U8 : DType::I8;
    const int64_t low = t == DType::U8 ? 0 : -128, zero = positive    ? low
                                                          : r_.flip() ? low + 128
                                                                      : low + r_.between(90, 160);
    out.zero = b_.constant(Tensor::int_scalar(t, zero));
    return out;
  }
  Bytes quantised(Value x, double magnitude, bool positive = false) {
    Bytes out = in_steps(magnitude, positive);
    out.bytes = call("quantize_linear", {x, out.step, out.zero});
    return out;
  }

  // Of all values or of every index along `axis`.
  Weight weight(const Ints& shape, int64_t axis, bool by_column) {
    Weight w;
    const bool small = r_.flip(0.3), unsigned_ = !by_column && r_.flip(0.3);
    const int64_t most = small ? 7 : 127, middle = unsigned_ ? 128 : 0;
    const DType t = unsigned_ ? DType::U8 : DType::I8;
    w.bytes = b_.constant(random_tensor(t, shape, r_, {.int_low = middle - most, .int_high = middle + most}));
    const int64_t columns = by_column ? shape[static_cast<size_t>(axis)] : 1;
    for (int64_t i = 0; i < columns; ++i) w.exponents.push_back(-r_.between(7, 9));
    Tensor step(DType::F32, by_column ? Ints{columns} : Ints{});
    for (int64_t i = 0; i < columns; ++i) step.set_real(i, std::exp2(w.exponents[static_cast<size_t>(i)]));
    w.step = b_.constant(std::move(step));
    Tensor zero(t, by_column ? Ints{columns} : Ints{});
    for (int64_t i = 0; i < columns; ++i) zero.set_integer(i, middle);
    w.zero = b_.constant(std::move(zero));
    w.real = call("dequantize_linear", {w.bytes, w.step, w.zero}, {{"axis", axis}});
    return w;
  }
  // Multiples of what the products are multiples of.
  Tensor bias(int64_t columns) {
    return random_tensor(DType::I32, {columns}, r_, {.int_low = -3000, .int_high = 3000});
  }
  Value scaled(const Tensor& numbers, const Bytes& x, const Weight& w) {
    Tensor step(DType::F32, {numbers.size()});
    for (int64_t i = 0; i < numbers.size(); ++i) {
      const size_t column = w.exponents.size() == 1 ? 0 : static_cast<size_t>(i);
      step.set_real(i, x.scale * std::exp2(w.exponents[column]));
    }
    if (r_.flip())
      return call("dequantize_linear", {b_.constant(numbers), b_.constant(std::move(step))}, {{"axis", int64_t{0}}});
    for (int64_t i = 0; i < numbers.size(); ++i)
      step.set_real(i, step.real(i) * static_cast<double>(numbers.integer(i)));
    return b_.constant(std::move(step));
  }
  static double magnitude_of(const Bytes& x, int64_t depth) {
    return 2 * 60 * x.scale * 60.0 / 256 * std::sqrt(static_cast<double>(depth));
  }

  struct Conv {
    int64_t out, kernel, stride = 1, group = 1;
  };
  static ir::Attrs conv_attrs(const Conv& c) {
    return {{"kernel_shape", Ints{c.kernel, c.kernel}},
            {"strides", Ints{c.stride, c.stride}},
            {"pads", Ints(4, c.kernel / 2)},
            {"group", c.group}};
  }

  Bytes conv(const Bytes& x, const Conv& c) {
    const int64_t in = dims(x.bytes)[1] / c.group, depth = in * c.kernel * c.kernel;
    const Weight w = weight({c.out, in, c.kernel, c.kernel}, 0, r_.flip());
    const double magnitude = magnitude_of(x, depth);
    switch (r_.below(5)) {
      case 0: {
        Bytes y = in_steps(magnitude);
        std::vector<Value> operands = {x.bytes, x.step, x.zero, w.bytes, w.step, w.zero, y.step, y.zero};
        if (r_.flip()) operands.push_back(b_.constant(bias(c.out)));
        y.bytes = call("qlinear_conv", std::move(operands), conv_attrs(c));
        return y;
      }
      case 1: {
        const Value sums = call("conv_integer", {x.bytes, w.bytes, x.zero, w.zero}, conv_attrs(c));
        Tensor step(DType::F32, {1, c.out, 1, 1});
        for (int64_t i = 0; i < c.out; ++i)
          step.set_real(i, x.scale * std::exp2(w.exponents[w.exponents.size() == 1 ? 0 : static_cast<size_t>(i)]));
        const Value y = call("mul", {call("cast", {sums}, {{"to", DType::F32}}), b_.constant(std::move(step))});
        return activated(y, magnitude);
      }
      default: {
        std::vector<Value> operands = {real(x), w.real};
        if (r_.flip(0.7)) operands.push_back(scaled(bias(c.out), x, w));
        return activated(call("conv", std::move(operands), conv_attrs(c)), magnitude);
      }
    }
  }
  Bytes activated(Value y, double magnitude) {
    if (r_.flip(0.4)) return quantised(y, magnitude);
    if (r_.flip(0.7)) return quantised(call("relu", {y}), magnitude, r_.flip());
    const double most = std::exp2(std::floor(std::log2(magnitude)));
    return quantised(call("clip", {y, number(0), number(most)}), most, true);
  }

  Bytes sum(const Bytes& a, const Bytes& b) {
    const double magnitude = 100 * std::max(a.scale, b.scale);
    if (r_.flip(0.3) && b_.type(a.bytes).dtype == b_.type(b.bytes).dtype) {
      Bytes y = in_steps(magnitude);
      if (b_.type(y.zero).dtype == b_.type(a.bytes).dtype) {
        y.bytes = call("ms_qlinear_add", {a.bytes, a.step, a.zero, b.bytes, b.step, b.zero, y.step, y.zero});
        return y;
      }
    }
    return activated(call("add", {real(a), real(b)}), magnitude);
  }

  Bytes image_block(const Bytes& x) {
    const Ints d = dims(x.bytes);
    const bool large = d[2] >= 6 && d[3] >= 6;
    const int64_t out = one_of({4, 8, 16, 24, 32, 40});
    switch (r_.below(8)) {
      case 0: return conv(x, {out, 1});
      case 1: return conv(x, {d[1], 3, 1, d[1]});
      case 2: {
        const Bytes y = conv(conv(x, {out, 3}), {d[1], 3});
        return sum(x, y);
      }
      case 3:
        if (!large) return conv(x, {out, 3});
        return quantised(call("max_pool", {real(x)},
                              {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}}),
                         100 * x.scale);
      case 4:
        if (!large) return conv(x, {out, 1});
        return quantised(call("average_pool", {real(x)}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}}),
                         100 * x.scale);
      case 5: {
        const Bytes a = conv(x, {8, 1}), b = conv(x, {16, 3});
        return quantised(call("concat", {real(a), real(b)}, {{"axis", int64_t{1}}}), 100 * std::max(a.scale, b.scale));
      }
      case 6: return conv(conv(conv(x, {32, 1}), {32, 3, large ? one_of({1, 2}) : 1, 32}), {out, 1});
      default:
        return conv(x,
                    {out, 3, large ? one_of({1, 1, 2}) : 1, d[1] % 4 == 0 && r_.flip(0.3) ? int64_t{4} : int64_t{1}});
    }
  }

  Bytes dense(const Bytes& x, int64_t out) {
    const int64_t depth = dims(x.bytes).back();
    const Weight w = weight({depth, out}, 1, r_.flip());
    const double magnitude = magnitude_of(x, depth);
    switch (r_.below(4)) {
      case 0: {
        Bytes y = in_steps(magnitude);
        y.bytes = call("qlinear_matmul", {x.bytes, x.step, x.zero, w.bytes, w.step, w.zero, y.step, y.zero});
        return y;
      }
      case 1: {
        const Value sums =
            call("cast", {call("matmul_integer", {x.bytes, w.bytes, x.zero, w.zero})}, {{"to", DType::F32}});
        const Value y = call("mul", {sums, call("mul", {x.step, w.step})});
        return activated(r_.flip() ? call("add", {y, scaled(bias(out), x, w)}) : y, magnitude);
      }
      default: {
        const Value y = call("matmul", {real(x), w.real});
        return activated(r_.flip() ? call("add", {y, scaled(bias(out), x, w)}) : y, magnitude);
      }
    }
  }
  Bytes row_block(const Bytes& x) {
    const Ints d = dims(x.bytes);
    switch (r_.below(5)) {
      case 0: return sum(x, dense(dense(x, one_of({16, 32, 64})), d[2]));
      case 1: {  // products of two computed values
        const Bytes a = dense(x, 16), b = dense(x, 16);
        const Value scores = call("matmul", {real(a), call("transpose", {real(b)}, {{"perm", Ints{0, 2, 1}}})});
        const Bytes s = quantised(scores, 3600 * a.scale * b.scale * 4);
        return quantised(call("matmul", {real(s), real(dense(x, d[2]))}), 100 * x.scale);
      }
      case 2: {
        const Bytes a = dense(x, d[2]), b = dense(x, d[2]);
        return quantised(call("mul", {real(a), real(b)}), 3600 * a.scale * b.scale);
      }
      default: return dense(x, one_of({8, 16, 20, 32, 64}));
    }
  }

  Random r_;
  ir::GraphBuilder b_;
  Tensor input_;
};

}  // namespace isomer::testing
