// Net: writes a network layer by layer with seeded weights. The first failing layer stops the building; later calls
// do nothing, and finish() tells what was wrong, so that an architecture reads as a list of layers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "ir/graph.h"
#include "zoo/zoo.h"

namespace isomer::zoo {

using ir::Value;

struct Conv {
  int64_t out = 0;
  std::vector<int64_t> kernel;  // one number per spatial axis; a single one means a square
  std::vector<int64_t> stride = {1};
  std::vector<int64_t> pad = {0};  // the same on both sides
  int64_t groups = 1;
  int64_t dilation = 1;
  bool bias = false;
};

struct Pool {
  int64_t kernel = 0;
  int64_t stride = 1;
  int64_t pad = 0;
  bool ceil = false;
};

class Net {
 public:
  Net(const ir::OpTable& table, std::string name, const Options& options);
  const Options& options() const { return options_; }

  Value input(const std::string& name, DType dtype, std::vector<int64_t> dims);
  Value call(const std::string& op, std::vector<Value> inputs, ir::Attrs attrs = {});
  std::vector<Value> calls(const std::string& op, std::vector<Value> inputs, ir::Attrs attrs, size_t outputs);
  // A parameter with values spread evenly over [-spread, spread] round `centre`.
  Value weight(const std::string& name, std::vector<int64_t> dims, double spread, double centre = 0);
  Value ints(const std::vector<int64_t>& values);
  Value scalar(double value);

  Value conv(Value x, const Conv& c);
  Value batch_norm(Value x);
  Value conv_bn(Value x, const Conv& c) { return batch_norm(conv(x, c)); }
  Value conv_bn_relu(Value x, const Conv& c) { return relu(conv_bn(x, c)); }
  Value relu(Value x) { return call("relu", {x}); }
  Value sigmoid(Value x) { return call("sigmoid", {x}); }
  Value tanh(Value x) { return call("tanh", {x}); }
  Value add(Value a, Value b) { return call("add", {a, b}); }
  Value mul(Value a, Value b) { return call("mul", {a, b}); }
  Value concat(std::vector<Value> xs, int64_t axis) { return call("concat", std::move(xs), {{"axis", axis}}); }
  Value max_pool(Value x, const Pool& p) { return pool("max_pool", x, p); }
  Value average_pool(Value x, const Pool& p) { return pool("average_pool", x, p); }
  Value global_average(Value x) { return call("global_average_pool", {x}); }
  Value classifier(Value x, int64_t classes);            // global average, flatten, fully connected
  Value fully_connected(Value x, int64_t out);           // on [rows, features]
  Value linear(Value x, int64_t out, bool bias = true);  // on [..., features], as matmul and add
  Value reshape(Value x, const std::vector<int64_t>& dims) { return call("reshape", {x, ints(dims)}); }
  Value transpose(Value x, const std::vector<int64_t>& perm) { return call("transpose", {x}, {{"perm", perm}}); }
  Value layer_norm(Value x, double epsilon);

  int64_t dim(Value v, size_t axis) const;
  size_t rank(Value v) const;
  // Names of what follows start with this path.
  void scope(std::string path) { scope_ = std::move(path); }

  void output(const std::string& name, Value v);
  Expected<ir::Graph> finish() &&;

 private:
  Value pool(const std::string& op, Value x, const Pool& p);
  std::string path(const std::string& leaf) const { return scope_.empty() ? leaf : scope_ + "." + leaf; }

  Options options_;
  ir::GraphBuilder builder_;
  Random random_;
  std::string scope_;
  std::optional<Diagnostic> error_;
  int64_t serial_ = 0;
};

}  // namespace isomer::zoo
