#include "passes/channel.h"

#include <algorithm>
#include <cmath>

namespace isomer::passes {
namespace {

// outer x count x inner elements, the middle index having a factor.
std::optional<Tensor> scaled_blocks(const Tensor& w, int64_t outer, int64_t inner, std::span<const double> factors) {
  Tensor out(w.dtype(), w.dims());
  const auto count = static_cast<int64_t>(factors.size());
  bool finite = true;
  if (w.dtype() == DType::F32) {
    const float* from = w.as<float>().data();
    float* to = out.mutable_as<float>();
    for (int64_t b = 0; b < outer * count; ++b) {
      const double f = factors[static_cast<size_t>(b % count)];
      for (int64_t i = b * inner; i < (b + 1) * inner; ++i) {
        to[i] = static_cast<float>(from[i] * f);
        finite &= std::isfinite(to[i]);
      }
    }
  } else {
    for (int64_t b = 0; b < outer * count; ++b)
      for (int64_t i = b * inner; i < (b + 1) * inner; ++i) {
        out.set_real(i, w.real(i) * factors[static_cast<size_t>(b % count)]);
        finite &= std::isfinite(out.real(i));
      }
  }
  return finite ? std::optional(std::move(out)) : std::nullopt;
}

int64_t product(std::span<const int64_t> dims) {
  int64_t p = 1;
  for (int64_t d : dims) p *= d;
  return p;
}

}  // namespace

std::optional<Tensor> scaled(const Tensor& w, size_t axis, std::span<const double> factors) {
  const std::span<const int64_t> dims = w.dims();
  return scaled_blocks(w, product(dims.first(axis)), product(dims.subspan(axis + 1)), factors);
}

std::optional<Tensor> scaled_pairs(const Tensor& w, std::span<const double> factors) {
  return scaled_blocks(w, 1, product(std::span(w.dims()).subspan(2)), factors);
}

bool Affine::finite() const {
  const auto fine = [](double v) { return std::isfinite(v); };
  return std::all_of(scale.begin(), scale.end(), fine) && std::all_of(shift.begin(), shift.end(), fine);
}

bool Affine::scales() const {
  return std::any_of(scale.begin(), scale.end(), [](double v) { return v != 1; });
}

bool Affine::shifts() const {
  return std::any_of(shift.begin(), shift.end(), [](double v) { return v != 0; });
}

Affine Affine::spread(size_t n) const {
  Affine out = *this;
  if (axis) return out;
  out.scale.assign(n, scale[0]);
  out.shift.assign(n, shift[0]);
  return out;
}

std::optional<Channels> channels(const Tensor& t, const Shape& of) {
  if (!is_float(t.dtype()) || !of.has_rank() || t.rank() > of.rank() || t.size() == 0) return std::nullopt;
  Channels c;
  for (size_t i = 0; i < t.rank(); ++i) {
    if (t.dims()[i] == 1) continue;
    const size_t axis = of.rank() - t.rank() + i;
    if (c.axis || !(of[axis] == Dim(t.dims()[i]))) return std::nullopt;
    c.axis = axis;
  }
  c.values = t.to_reals();
  return c;
}

std::optional<Affine> batch_norm_affine(const Editor& e, uint32_t id) {
  const ir::Node& n = e.node(id);
  if (n.op->name != "batch_normalization" || n.inputs.size() != 5 || n.types.size() != 1) return std::nullopt;
  if (const int64_t* training = n.attrs.get<int64_t>("training_mode"); training && *training != 0) return std::nullopt;
  const Shape& shape = e.shape(n.inputs[0]);
  if (!shape.has_rank() || shape.rank() == 0) return std::nullopt;
  std::vector<double> p[4];
  for (size_t k = 0; k < 4; ++k) {
    const Tensor* t = e.constant(n.inputs[k + 1]);
    if (!t || t->rank() != 1) return std::nullopt;
    p[k] = t->to_reals();
    if (p[k].size() != p[0].size() || p[k].empty()) return std::nullopt;
  }
  if (shape.rank() >= 2 && !(shape[1] == Dim(static_cast<int64_t>(p[0].size())))) return std::nullopt;
  const double* given = n.attrs.get<double>("epsilon");
  const double epsilon = given ? *given : std::get<double>(*n.op->attr("epsilon")->standard);
  Affine a{n.inputs[0], std::nullopt, {}, {}};
  if (shape.rank() >= 2) a.axis = 1;
  for (size_t c = 0; c < p[0].size(); ++c) {
    const double s = p[0][c] / std::sqrt(p[3][c] + epsilon);
    a.scale.push_back(s);
    a.shift.push_back(p[1][c] - p[2][c] * s);
  }
  return a;
}

std::optional<Affine> affine(const Editor& e, uint32_t id) {
  const ir::Node& n = e.node(id);
  const std::string& op = n.op->name;
  if (op == "batch_normalization") return batch_norm_affine(e, id);
  if (op == "neg" && is_float(n.types[0].dtype)) return Affine{n.inputs[0], std::nullopt, {-1}, {0}};
  if ((op != "mul" && op != "div" && op != "add" && op != "sub") || n.inputs.size() != 2) return std::nullopt;
  const bool right = e.constant(n.inputs[1]) != nullptr;  // the constant is the right operand
  const Value x = n.inputs[right ? 0 : 1];
  const Tensor* constant = e.constant(n.inputs[right ? 1 : 0]);
  if (!constant || e.constant(x) || (op == "div" && !right)) return std::nullopt;
  // A constant of more axes or a larger extent would make a larger value.
  if (!e.shape(x).has_rank() || !(e.type({id, 0}) == e.type(x))) return std::nullopt;
  auto c = channels(*constant, e.shape(x));
  if (!c) return std::nullopt;
  const size_t count = c->values.size();
  Affine a{x, c->axis, std::vector<double>(count, 1), std::vector<double>(count, 0)};
  for (size_t i = 0; i < count; ++i) {
    const double v = c->values[i];
    if (op == "mul") a.scale[i] = v;
    if (op == "div") a.scale[i] = 1 / v;
    if (op == "add") a.shift[i] = v;
    if (op == "sub") a.shift[i] = right ? -v : v;
    if (op == "sub" && !right) a.scale[i] = -1;
  }
  return a;
}

}  // namespace isomer::passes
