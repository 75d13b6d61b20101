#include "passes/linear.h"

#include <algorithm>

#include "passes/channel.h"

namespace isomer::passes {
namespace {

int64_t integer(const ir::Node& n, std::string_view name, int64_t standard) {
  const int64_t* v = n.attrs.get<int64_t>(name);
  return v ? *v : standard;
}

double real(const ir::Node& n, std::string_view name, double standard) {
  const double* v = n.attrs.get<double>(name);
  return v ? *v : standard;
}

bool pads(const ir::Node& n) {
  const std::string* automatic = n.attrs.get<std::string>("auto_pad");
  if (automatic && *automatic == "VALID") return false;
  if (automatic && *automatic != "NOTSET") return true;
  const auto* given = n.attrs.get<std::vector<int64_t>>("pads");
  return given && std::any_of(given->begin(), given->end(), [](int64_t p) { return p != 0; });
}

// Contents of a bias of n numbers, or of one that broadcasts to them; empty when it differs by rows.
std::vector<double> bias_of(const Editor& e, Value bias, size_t n) {
  if (bias.is_none()) return std::vector<double>(n, 0);
  const Tensor* t = e.constant(bias);
  if (!t || t->rank() > 2 || (t->rank() == 2 && t->dims()[0] != 1)) return {};
  std::vector<double> v = t->to_reals();
  if (v.size() == 1) v.assign(n, v[0]);
  return v.size() == n ? v : std::vector<double>();
}

}  // namespace

std::optional<Linear> linear(const Editor& e, uint32_t id) {
  const ir::Node& n = e.node(id);
  const std::string& op = n.op->name;
  Linear l;
  using Kind = Linear::Kind;
  if (op == "conv")
    l.kind_ = Kind::Conv;
  else if (op == "conv_transpose")
    l.kind_ = Kind::ConvTranspose;
  else if (op == "gemm")
    l.kind_ = Kind::Gemm;
  else if (op == "matmul")
    l.kind_ = Kind::MatMul;
  else
    return std::nullopt;
  const auto input = [&](size_t i) { return i < n.inputs.size() ? n.inputs[i] : Value::none(); };
  l.node = id;
  l.x = input(0);
  l.weight = input(1);
  l.bias = l.kind_ == Kind::MatMul ? Value::none() : input(2);
  const Tensor* w = e.constant(l.weight);
  const Shape& shape = n.types[0].shape;
  if (!w || w->rank() < 2 || w->size() == 0 || !is_float(w->dtype()) || !shape.has_rank() || e.constant(l.x))
    return std::nullopt;
  const auto extent = [&](size_t axis) { return static_cast<size_t>(w->dims()[axis]); };
  switch (l.kind_) {
    case Kind::Conv:
      l.groups_ = static_cast<size_t>(integer(n, "group", 1));
      l.out_axis = 1, l.outputs = extent(0);
      l.in_axis = 1, l.inputs = extent(1) * l.groups_;
      l.takes_bias = true, l.padded = pads(n);
      break;
    case Kind::ConvTranspose:
      l.groups_ = static_cast<size_t>(integer(n, "group", 1));
      l.out_axis = 1, l.outputs = extent(1) * l.groups_;
      l.in_axis = 1, l.inputs = extent(0);
      l.takes_bias = true, l.padded = true;
      break;
    case Kind::Gemm: {
      if (w->rank() != 2) return std::nullopt;
      const bool turned = integer(n, "transB", 0) != 0;
      l.out_dim_ = turned ? 0 : 1, l.in_dim_ = turned ? 1 : 0;
      l.out_axis = 1, l.outputs = extent(l.out_dim_), l.inputs = extent(l.in_dim_);
      l.in_axis = integer(n, "transA", 0) != 0 ? 0 : 1;
      l.takes_bias = true;
      l.alpha_ = real(n, "alpha", 1);
      break;
    }
    case Kind::MatMul:
      l.out_dim_ = w->rank() - 1, l.in_dim_ = w->rank() - 2;
      if (!e.shape(l.x).has_rank() || shape.rank() == 0 || e.shape(l.x).rank() == 0) return std::nullopt;
      l.out_axis = shape.rank() - 1, l.outputs = extent(l.out_dim_), l.inputs = extent(l.in_dim_);
      l.in_axis = e.shape(l.x).rank() - 1;
      break;
  }
  if (l.takes_bias) {
    l.bias_values = bias_of(e, l.bias, l.outputs);
    if (l.bias_values.empty()) return std::nullopt;
    if (const double beta = l.kind_ == Kind::Gemm ? real(n, "beta", 1) : 1; beta != 1)
      for (double& b : l.bias_values) b *= beta;
  }
  return l;
}

std::optional<Tensor> Linear::scale_outputs(const Tensor& w, const std::vector<double>& f) const {
  if (kind_ == Kind::Conv) return scaled(w, 0, f);
  if (kind_ != Kind::ConvTranspose) return scaled(w, out_dim_, f);
  const auto rows = static_cast<size_t>(w.dims()[0]), columns = static_cast<size_t>(w.dims()[1]);
  std::vector<double> pairs;
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < columns; ++j) pairs.push_back(f[i / (rows / groups_) * columns + j]);
  return scaled_pairs(w, pairs);
}

std::optional<Tensor> Linear::scale_inputs(const Tensor& w, const std::vector<double>& f) const {
  if (kind_ == Kind::ConvTranspose) return scaled(w, 0, f);
  if (kind_ != Kind::Conv) return scaled(w, in_dim_, f);
  const auto rows = static_cast<size_t>(w.dims()[0]), columns = static_cast<size_t>(w.dims()[1]);
  std::vector<double> pairs;
  for (size_t o = 0; o < rows; ++o)
    for (size_t i = 0; i < columns; ++i) pairs.push_back(f[o / (rows / groups_) * columns + i]);
  return scaled_pairs(w, pairs);
}

std::vector<double> Linear::response(const Tensor& w, const std::vector<double>& in) const {
  std::vector<double> out(outputs, 0);
  if (kind_ == Kind::Conv) {
    const auto columns = static_cast<size_t>(w.dims()[1]);
    const size_t taps = static_cast<size_t>(w.size()) / (outputs * columns);
    for (size_t o = 0, at = 0; o < outputs; ++o)
      for (size_t i = 0; i < columns; ++i)
        for (size_t k = 0; k < taps; ++k, ++at)
          out[o] += w.real(static_cast<int64_t>(at)) * in[o / (outputs / groups_) * columns + i];
    return out;
  }
  const size_t out_stride = out_dim_ == 0 ? inputs : 1, in_stride = out_dim_ == 0 ? 1 : outputs;
  for (size_t o = 0; o < outputs; ++o)
    for (size_t i = 0; i < inputs; ++i)
      out[o] += alpha_ * w.real(static_cast<int64_t>(o * out_stride + i * in_stride)) * in[i];
  return out;
}

Value Linear::with(Editor& e, Value new_x, Value new_weight, Value new_bias) const {
  const ir::Node& n = e.node(node);
  ir::Attrs attrs = n.attrs;
  attrs.erase("beta");  // bias_values have it already
  return e.add(n.op->name, {new_x, new_weight, new_bias}, std::move(attrs));
}

}  // namespace isomer::passes
