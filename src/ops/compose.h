// Compose: writes expansions as expressions over values. The first failure sticks: later steps give none and do
// nothing, and `finish` reports it; so a composition needs no check at every step.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace isomer::ops {

class Compose {
 public:
  explicit Compose(ir::GraphBuilder& builder) : builder_(&builder) {}

  // An operator of one result, and one of several.
  ir::Value operator()(std::string_view op, std::vector<ir::Value> inputs, ir::Attrs attrs = {});
  std::vector<ir::Value> many(std::string_view op, std::vector<ir::Value> inputs, ir::Attrs attrs, size_t outputs);

  ir::Value constant(Tensor t) { return builder_->constant(std::move(t)); }
  ir::Value ints(const std::vector<int64_t>& v) { return constant(Tensor::ints(v)); }
  ir::Value scalar(DType t, double v) {
    return constant(is_float(t) ? Tensor::scalar(t, v) : Tensor::int_scalar(t, static_cast<int64_t>(v)));
  }

  ir::Value add(ir::Value a, ir::Value b) { return (*this)("add", {a, b}); }
  ir::Value sub(ir::Value a, ir::Value b) { return (*this)("sub", {a, b}); }
  ir::Value mul(ir::Value a, ir::Value b) { return (*this)("mul", {a, b}); }
  ir::Value scale(ir::Value a, double by);
  // A sum in which an absent term counts as zero.
  ir::Value sum(ir::Value a, ir::Value b) { return a.is_none() ? b : b.is_none() ? a : add(a, b); }
  ir::Value matmul(ir::Value a, ir::Value b) { return (*this)("matmul", {a, b}); }
  ir::Value where(ir::Value cond, ir::Value a, ir::Value b) { return (*this)("where", {cond, a, b}); }
  ir::Value cast(ir::Value a, DType to) { return type(a).dtype == to ? a : (*this)("cast", {a}, {{"to", to}}); }
  ir::Value transpose(ir::Value a, std::vector<int64_t> perm) {
    return (*this)("transpose", {a}, {{"perm", std::move(perm)}});
  }
  // 0 keeps the extent at that place, -1 is what is left.
  ir::Value reshape(ir::Value a, const std::vector<int64_t>& shape) { return (*this)("reshape", {a, ints(shape)}); }
  ir::Value unsqueeze(ir::Value a, const std::vector<int64_t>& axes) { return (*this)("unsqueeze", {a, ints(axes)}); }
  ir::Value concat(std::vector<ir::Value> parts, int64_t axis) {
    return parts.size() == 1 ? parts[0] : (*this)("concat", std::move(parts), {{"axis", axis}});
  }
  ir::Value slice(ir::Value a, int64_t axis, int64_t start, int64_t end) {
    return (*this)("slice", {a, ints({start}), ints({end}), ints({axis})});
  }
  std::vector<ir::Value> split(ir::Value a, int64_t axis, size_t parts);
  std::vector<ir::Value> split(ir::Value a, int64_t axis, const std::vector<int64_t>& sizes);

  const Type& type(ir::Value v) const;
  void fail(Diagnostic d) {
    if (!error_) error_ = std::move(d);
  }
  bool failed() const { return error_.has_value(); }
  Expected<std::vector<ir::Value>> finish(std::vector<ir::Value> results) const;

 private:
  ir::GraphBuilder* builder_;
  std::optional<Diagnostic> error_;
  Type none_;
};

// Input i of a node; none where it is left out. Those left out at the end have no place at all.
inline ir::Value input_at(std::span<const ir::Value> in, size_t i) { return i < in.size() ? in[i] : ir::Value::none(); }

}  // namespace isomer::ops
