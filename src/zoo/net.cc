#include "zoo/net.h"

#include <fmt/format.h>

#include <cmath>

namespace isomer::zoo {
namespace {

std::vector<int64_t> repeated(const std::vector<int64_t>& v, size_t n) {
  return v.size() == n ? v : std::vector<int64_t>(n, v.empty() ? 1 : v[0]);
}

std::vector<int64_t> both_sides(const std::vector<int64_t>& pad) {
  std::vector<int64_t> out = pad;
  out.insert(out.end(), pad.begin(), pad.end());
  return out;
}

}  // namespace

Net::Net(const ir::OpTable& table, std::string name, const Options& options)
    : options_(options), builder_(table, std::move(name)), random_(options.seed) {}

Value Net::input(const std::string& name, DType dtype, std::vector<int64_t> dims) {
  if (error_) return {};
  auto v = builder_.input(name, {dtype, Shape::of(dims), nullptr});
  if (v.ok()) return *v;
  error_ = v.error();
  return {};
}

std::vector<Value> Net::calls(const std::string& op, std::vector<Value> inputs, ir::Attrs attrs, size_t outputs) {
  if (error_) return std::vector<Value>(outputs);
  const std::string label = fmt::format("{}_{}", path(op), serial_++);
  auto r =
      builder_.add(op, std::move(inputs), std::move(attrs), {.names = {}, .label = label, .origin = {label}}, outputs);
  if (r.ok()) return *std::move(r);
  error_ = r.error();
  return std::vector<Value>(outputs);
}

Value Net::call(const std::string& op, std::vector<Value> inputs, ir::Attrs attrs) {
  return calls(op, std::move(inputs), std::move(attrs), 1)[0];
}

Value Net::weight(const std::string& name, std::vector<int64_t> dims, double spread, double centre) {
  if (error_) return {};
  const auto size = checked_elements(DType::F32, dims);
  if (!size.ok()) {
    error_ = size.error();
    return {};
  }
  Tensor t(DType::F32, std::move(dims));
  auto* p = t.mutable_as<float>();
  for (int64_t i = 0; i < t.size(); ++i) p[i] = static_cast<float>(random_.uniform(centre - spread, centre + spread));
  return builder_.constant(std::move(t), path(name) + fmt::format("_{}", serial_++));
}

Value Net::ints(const std::vector<int64_t>& values) {
  return error_ ? Value{} : builder_.constant(Tensor::ints(values));
}
Value Net::scalar(double value) { return error_ ? Value{} : builder_.constant(Tensor::scalar(DType::F32, value)); }

int64_t Net::dim(Value v, size_t axis) const {
  if (error_ || v.is_none() || axis >= builder_.type(v).shape.rank()) return 1;
  return builder_.type(v).shape[axis].constant().value_or(1);
}

size_t Net::rank(Value v) const { return error_ || v.is_none() ? 0 : builder_.type(v).shape.rank(); }

Value Net::conv(Value x, const Conv& c) {
  if (error_) return {};
  const size_t spatial = rank(x) - 2;
  const int64_t in = dim(x, 1) / c.groups;
  const std::vector<int64_t> kernel = repeated(c.kernel, spatial);
  std::vector<int64_t> dims = {c.out, in};
  double fan_in = static_cast<double>(in);
  for (int64_t k : kernel) {
    dims.push_back(k);
    fan_in *= static_cast<double>(k);
  }
  std::vector<Value> inputs = {x, weight("weight", dims, std::sqrt(6.0 / fan_in))};
  if (c.bias) inputs.push_back(weight("bias", {c.out}, 1.0 / std::sqrt(fan_in)));
  return call("conv", std::move(inputs),
              {{"kernel_shape", kernel},
               {"strides", repeated(c.stride, spatial)},
               {"pads", both_sides(repeated(c.pad, spatial))},
               {"dilations", std::vector<int64_t>(spatial, c.dilation)},
               {"group", c.groups}});
}

Value Net::batch_norm(Value x) {
  const int64_t channels = dim(x, 1);
  const Value scale = weight("bn.weight", {channels}, 0.2, 0.8), shift = weight("bn.bias", {channels}, 0.1);
  const Value mean = weight("bn.running_mean", {channels}, 0.1),
              variance = weight("bn.running_var", {channels}, 0.3, 1.0);
  return call("batch_normalization", {x, scale, shift, mean, variance}, {{"epsilon", 1e-5}, {"momentum", 0.9}});
}

Value Net::pool(const std::string& op, Value x, const Pool& p) {
  if (error_) return {};
  const size_t spatial = rank(x) - 2;
  ir::Attrs attrs{{"kernel_shape", std::vector<int64_t>(spatial, p.kernel)},
                  {"strides", std::vector<int64_t>(spatial, p.stride)},
                  {"pads", std::vector<int64_t>(2 * spatial, p.pad)},
                  {"ceil_mode", int64_t{p.ceil}}};
  if (op == "average_pool") attrs.set("count_include_pad", int64_t{1});
  return call(op, {x}, std::move(attrs));
}

Value Net::fully_connected(Value x, int64_t out) {
  const int64_t in = dim(x, 1);
  const double spread = 1.0 / std::sqrt(static_cast<double>(in));
  const Value w = weight("weight", {out, in}, spread), b = weight("bias", {out}, spread);
  return call("gemm", {x, w, b}, {{"transB", int64_t{1}}});
}

Value Net::classifier(Value x, int64_t classes) {
  return fully_connected(call("flatten", {global_average(x)}, {{"axis", int64_t{1}}}), classes);
}

Value Net::linear(Value x, int64_t out, bool bias) {
  if (error_) return {};
  const int64_t in = dim(x, rank(x) - 1);
  const double spread = 1.0 / std::sqrt(static_cast<double>(in));
  const Value y = call("matmul", {x, weight("weight", {in, out}, spread)});
  return bias ? add(y, weight("bias", {out}, spread)) : y;
}

Value Net::layer_norm(Value x, double epsilon) {
  if (error_) return {};
  const int64_t width = dim(x, rank(x) - 1);
  const Value scale = weight("weight", {width}, 0.2, 1.0), shift = weight("bias", {width}, 0.1);
  if (options_.fused_norms)
    return call("layer_normalization", {x, scale, shift}, {{"axis", int64_t{-1}}, {"epsilon", epsilon}});
  const Value axes = ints({-1});
  const Value centred = call("sub", {x, call("reduce_mean", {x, axes})});
  const Value variance = call("reduce_mean", {call("pow", {centred, scalar(2)}), axes});
  const Value normal = call("div", {centred, call("sqrt", {add(variance, scalar(epsilon))})});
  return add(mul(normal, scale), shift);
}

void Net::output(const std::string& name, Value v) {
  if (!error_) builder_.output(name, v);
}

Expected<ir::Graph> Net::finish() && {
  if (error_) return *std::move(error_);
  builder_.set_metadata({.opsets = {{"", 17}}, .properties = {}, .producer = "isomer zoo", .doc = "", .ir_version = 8});
  return std::move(builder_).finish();
}

}  // namespace isomer::zoo
