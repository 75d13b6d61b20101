#include "ops/compose.h"

namespace isomer::ops {

ir::Value Compose::operator()(std::string_view op, std::vector<ir::Value> inputs, ir::Attrs attrs) {
  return many(op, std::move(inputs), std::move(attrs), 1)[0];
}

std::vector<ir::Value> Compose::many(std::string_view op, std::vector<ir::Value> inputs, ir::Attrs attrs,
                                     size_t outputs) {
  std::vector<ir::Value> none(outputs, ir::Value::none());
  if (error_) return none;
  auto results = builder_->add(op, std::move(inputs), std::move(attrs), {}, outputs);
  if (results.ok()) return *std::move(results);
  error_ = std::move(results).error();
  return none;
}

ir::Value Compose::scale(ir::Value a, double by) { return by == 1 ? a : mul(a, scalar(type(a).dtype, by)); }

std::vector<ir::Value> Compose::split(ir::Value a, int64_t axis, size_t parts) {
  if (parts == 1) return {a};
  return many("split", {a}, {{"axis", axis}, {"num_outputs", static_cast<int64_t>(parts)}}, parts);
}

std::vector<ir::Value> Compose::split(ir::Value a, int64_t axis, const std::vector<int64_t>& sizes) {
  return many("split", {a, ints(sizes)}, {{"axis", axis}}, sizes.size());
}

const Type& Compose::type(ir::Value v) const { return v.is_none() ? none_ : builder_->type(v); }

Expected<std::vector<ir::Value>> Compose::finish(std::vector<ir::Value> results) const {
  if (error_) return *error_;
  return results;
}

}  // namespace isomer::ops
