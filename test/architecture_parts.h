// Parts that random architectures are made of: a network under construction with a source of choices, and the layers that
// every block writes in one of the ways that exporters do.
#pragma once

#include <vector>

#include "base/random.h"
#include "zoo/net.h"

namespace isomer::testing {

using zoo::Value;

struct Parts {
  Random random;
  zoo::Net net;

  template <class T>
  T one_of(std::initializer_list<T> choices) {
    return choices.begin()[random.below(choices.size())];
  }
  int64_t dim(Value x, size_t axis) const { return net.dim(x, axis); }

  Value number(double x) { return net.scalar(x); }
  Value slice(Value x, int64_t axis, int64_t from, int64_t to, int64_t step = 1) {
    return net.call("slice", {x, net.ints({from}), net.ints({to}), net.ints({axis}), net.ints({step})});
  }
  std::vector<Value> halves(Value x, int64_t axis) {
    if (random.flip()) return net.calls("split", {x}, {{"axis", axis}, {"num_outputs", int64_t{2}}}, 2);
    const int64_t size = dim(x, static_cast<size_t>(axis)), middle = (size + 1) / 2;
    return {slice(x, axis, 0, middle), slice(x, axis, middle, size)};
  }

  Value activation(Value x) {
    switch (random.below(9)) {
      case 0: return net.mul(x, net.sigmoid(x));
      case 1: return net.call("hard_swish", {x});
      case 2: return net.call("clip", {x, number(0), number(6)});
      case 3: return net.call("leaky_relu", {x}, {{"alpha", 0.1}});
      case 4: return gelu(x);
      case 5: return net.tanh(x);
      case 6:
        return net.call("div",
                        {net.mul(x, net.call("clip", {net.add(x, number(3)), number(0), number(6)})), number(6)});
      default: return net.relu(x);
    }
  }
  Value gelu(Value x) {
    switch (random.below(3)) {
      case 0: return net.call("gelu", {x});
      case 1: {
        const Value inner = net.add(x, net.mul(net.call("pow", {x, number(3)}), number(0.044715)));
        return net.mul(net.mul(x, number(0.5)), net.add(net.tanh(net.mul(inner, number(0.7978845608))), number(1)));
      }
      default:
        return net.mul(net.mul(x, number(0.5)),
                       net.add(net.call("erf", {net.call("div", {x, number(1.4142135623730951)})}), number(1)));
    }
  }

  // Of the last axis, in one of the spellings there are.
  Value row_norm(Value x) {
    const int64_t width = dim(x, net.rank(x) - 1);
    switch (random.below(4)) {
      case 0: return net.layer_norm(x, 1e-5);
      case 1: {  // root mean square by parts
        const Value square = random.flip() ? net.mul(x, x) : net.call("pow", {x, number(2)});
        const Value mean = net.add(net.call("reduce_mean", {square, net.ints({-1})}), number(1e-6));
        return net.mul(net.weight("norm", {width}, 0.2, 1),
                       random.flip() ? net.call("div", {x, net.call("sqrt", {mean})})
                                     : net.mul(x, net.call("reciprocal", {net.call("sqrt", {mean})})));
      }
      default:
        return net.call("layer_normalization",
                        {x, net.weight("norm", {width}, 0.2, 1), net.weight("shift", {width}, 0.1)},
                        {{"axis", int64_t{-1}}, {"epsilon", 1e-5}});
    }
  }
  // Of the channels of an image.
  Value channel_norm(Value x) {
    const int64_t c = dim(x, 1);
    const auto vector = [&](double spread, double centre) { return net.weight("norm", {c}, spread, centre); };
    switch (random.below(6)) {
      case 0: return net.call("instance_normalization", {x, vector(0.2, 1), vector(0.1, 0)}, {{"epsilon", 1e-4}});
      case 1:
        return net.call("group_normalization", {x, vector(0.2, 1), vector(0.1, 0)},
                        {{"num_groups", c % 4 == 0 ? int64_t{4} : int64_t{1}}, {"epsilon", 1e-4}});
      case 2: {
        const Value mean = net.call("reduce_mean", {x, net.ints({1})}), centred = net.call("sub", {x, mean});
        const Value variance = net.call("reduce_mean", {net.mul(centred, centred), net.ints({1})});
        const Value normal = net.call("div", {centred, net.call("sqrt", {net.add(variance, number(1e-5))})});
        return net.mul(normal, net.weight("scale", {c, 1, 1}, 0.2, 1));
      }
      default: return net.batch_norm(x);
    }
  }

  // Rows by a weight: as a product of any rank, as a gemm of the rows, or with the weight turned at run time.
  Value dense(Value x, int64_t out, bool bias = true) {
    const size_t rank = net.rank(x);
    if (rank == 2 && random.flip()) return net.fully_connected(x, out);
    if (rank != 3 || random.flip(0.7)) return net.linear(x, out, bias);
    return net.reshape(net.fully_connected(net.reshape(x, {-1, dim(x, 2)}), out), {-1, dim(x, 1), out});
  }
};

// Of any number of axes, the same size again where its step is one.
inline Value conv(Parts& p, Value x, int64_t out, int64_t kernel, int64_t stride = 1, int64_t groups = 1,
                  int64_t dilation = 1) {
  return p.net.conv(x, {.out = out,
                        .kernel = {kernel},
                        .stride = {stride},
                        .pad = {dilation * (kernel / 2)},
                        .groups = groups,
                        .dilation = dilation,
                        .bias = p.random.flip(0.4)});
}

}  // namespace isomer::testing
