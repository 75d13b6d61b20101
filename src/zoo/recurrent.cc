// Recurrent networks, unrolled: the NAS cell and an SRU text classifier.
#include <fmt/format.h>

#include "zoo/architectures.h"

namespace isomer::zoo {
namespace {

constexpr int64_t kHidden = 512;
constexpr double kSpread = 0.04;

}  // namespace

void nasrnn(Net& net) {
  const Options& o = net.options();
  std::vector<Value> steps;
  for (int64_t t = 0; t < o.sequence; ++t)
    steps.push_back(net.input(fmt::format("x{}", t), DType::F32, {o.batch, kHidden}));
  Value state = net.input("state", DType::F32, {o.batch, kHidden});
  std::vector<Value> of_input, of_state;
  for (int gate = 0; gate < 8; ++gate) {
    net.scope(fmt::format("gate{}", gate));
    of_input.push_back(net.weight("input", {kHidden, kHidden}, kSpread));
    of_state.push_back(net.weight("state", {kHidden, kHidden}, kSpread));
  }
  for (int64_t t = 0; t < o.sequence; ++t) {
    net.scope(fmt::format("step{}", t));
    std::vector<Value> g;
    for (size_t i = 0; i < 8; ++i)
      g.push_back(net.add(net.call("matmul", {steps[static_cast<size_t>(t)], of_input[i]}),
                          net.call("matmul", {state, of_state[i]})));
    const Value a = net.add(net.relu(g[0]), net.sigmoid(g[3])), b = net.add(net.sigmoid(g[1]), net.tanh(g[2]));
    const Value c = net.mul(net.sigmoid(g[4]), net.tanh(g[5])), d = net.mul(net.sigmoid(g[6]), net.relu(g[7]));
    const Value e = net.add(net.sigmoid(b), net.tanh(c)), f = net.mul(net.tanh(a), net.tanh(d));
    state = net.tanh(net.mul(net.tanh(e), net.tanh(f)));
  }
  net.output("output", state);
}

// Simple recurrent units: the three products do not depend on the state, only the gates' mixing does.
void rnntc(Net& net) {
  const Options& o = net.options();
  const Value ids = net.input("tokens", DType::I64, {o.sequence, o.batch});
  net.scope("embedding");
  Value x = net.call("gather", {net.weight("table", {20000, kHidden}, 0.5), ids}, {{"axis", int64_t{0}}});
  std::vector<Value> steps =
      net.calls("split", {x}, {{"axis", int64_t{0}}, {"num_outputs", o.sequence}}, static_cast<size_t>(o.sequence));
  for (Value& s : steps) s = net.reshape(s, {o.batch, kHidden});
  const Value one = net.scalar(1);
  for (int64_t layer = 0; layer < o.layers; ++layer) {
    net.scope(fmt::format("sru{}", layer));
    const Value w = net.weight("weight", {kHidden, kHidden}, kSpread),
                wf = net.weight("forget", {kHidden, kHidden}, kSpread);
    const Value wr = net.weight("reset", {kHidden, kHidden}, kSpread);
    const Value bf = net.weight("forget_bias", {kHidden}, 0.1), br = net.weight("reset_bias", {kHidden}, 0.1);
    Value cell = net.weight("initial", {1, kHidden}, 0.1);
    for (Value& s : steps) {
      const Value candidate = net.call("matmul", {s, w});
      const Value forget = net.sigmoid(net.add(net.call("matmul", {s, wf}), bf));
      const Value reset = net.sigmoid(net.add(net.call("matmul", {s, wr}), br));
      cell = net.add(net.mul(forget, cell), net.mul(net.call("sub", {one, forget}), candidate));
      s = net.add(net.mul(reset, net.tanh(cell)), net.mul(net.call("sub", {one, reset}), s));
    }
  }
  net.scope("classifier");
  net.output("output", net.fully_connected(steps.back(), 2));
}

}  // namespace isomer::zoo
