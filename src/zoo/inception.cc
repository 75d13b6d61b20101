// Inception v3: blocks of parallel branches whose results are concatenated.
#include <fmt/format.h>

#include "zoo/architectures.h"

namespace isomer::zoo {
namespace {

struct Unit {
  int64_t out, height, width;
  int64_t stride = 1;
  bool valid = false;  // no padding
};

Value unit(Net& net, Value x, const Unit& u) {
  const std::vector<int64_t> pad =
      u.valid ? std::vector<int64_t>{0, 0} : std::vector<int64_t>{u.height / 2, u.width / 2};
  return net.conv_bn_relu(x, {.out = u.out, .kernel = {u.height, u.width}, .stride = {u.stride, u.stride}, .pad = pad});
}

Value chain(Net& net, Value x, std::initializer_list<Unit> units) {
  for (const Unit& u : units) x = unit(net, x, u);
  return x;
}

Value pooled(Net& net, Value x, int64_t out) {
  return unit(net, net.average_pool(x, {.kernel = 3, .stride = 1, .pad = 1}), {out, 1, 1});
}

Value block_a(Net& net, Value x, int64_t pool_out) {
  return net.concat({unit(net, x, {64, 1, 1}), chain(net, x, {{48, 1, 1}, {64, 5, 5}}),
                     chain(net, x, {{64, 1, 1}, {96, 3, 3}, {96, 3, 3}}), pooled(net, x, pool_out)},
                    1);
}

Value block_b(Net& net, Value x) {
  return net.concat({unit(net, x, {384, 3, 3, 2, true}), chain(net, x, {{64, 1, 1}, {96, 3, 3}, {96, 3, 3, 2, true}}),
                     net.max_pool(x, {.kernel = 3, .stride = 2})},
                    1);
}

Value block_c(Net& net, Value x, int64_t inner) {
  return net.concat(
      {unit(net, x, {192, 1, 1}), chain(net, x, {{inner, 1, 1}, {inner, 1, 7}, {192, 7, 1}}),
       chain(net, x, {{inner, 1, 1}, {inner, 7, 1}, {inner, 1, 7}, {inner, 7, 1}, {192, 1, 7}}), pooled(net, x, 192)},
      1);
}

Value block_d(Net& net, Value x) {
  return net.concat({chain(net, x, {{192, 1, 1}, {320, 3, 3, 2, true}}),
                     chain(net, x, {{192, 1, 1}, {192, 1, 7}, {192, 7, 1}, {192, 3, 3, 2, true}}),
                     net.max_pool(x, {.kernel = 3, .stride = 2})},
                    1);
}

// Both a row and a column kernel on one input.
Value crossed(Net& net, Value x) { return net.concat({unit(net, x, {384, 1, 3}), unit(net, x, {384, 3, 1})}, 1); }

Value block_e(Net& net, Value x) {
  return net.concat({unit(net, x, {320, 1, 1}), crossed(net, unit(net, x, {384, 1, 1})),
                     crossed(net, chain(net, x, {{448, 1, 1}, {384, 3, 3}})), pooled(net, x, 192)},
                    1);
}

}  // namespace

void inception_v3(Net& net) {
  Value x = image_input(net);
  net.scope("stem");
  x = chain(net, x, {{32, 3, 3, 2, true}, {32, 3, 3, 1, true}, {64, 3, 3}});
  x = net.max_pool(x, {.kernel = 3, .stride = 2});
  x = chain(net, x, {{80, 1, 1, 1, true}, {192, 3, 3, 1, true}});
  x = net.max_pool(x, {.kernel = 3, .stride = 2});
  int64_t index = 0;
  const auto next = [&](const char* kind) { net.scope(fmt::format("mixed.{}{}", index++, kind)); };
  for (int64_t pool : {32, 64, 64}) next("a"), x = block_a(net, x, pool);
  next("b"), x = block_b(net, x);
  for (int64_t inner : {128, 160, 160, 192}) next("c"), x = block_c(net, x, inner);
  next("d"), x = block_d(net, x);
  for (int i = 0; i < 2; ++i) next("e"), x = block_e(net, x);
  net.scope("fc");
  net.output("output", net.classifier(x, 1000));
}

}  // namespace isomer::zoo
