// Calls one operator on constant tensors: the whole way through the builder and the reference executor.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "interp/interp.h"
#include "ops/table.h"

namespace isomer::test {

using Arg = std::optional<Tensor>;  // nothing: an absent input

inline Expected<std::vector<Tensor>> call(const std::string& op, const std::vector<Arg>& args, ir::Attrs attrs = {},
                                          size_t outputs = 1) {
  ir::GraphBuilder b(ops::table(), "call");
  std::vector<ir::Value> inputs;
  for (const Arg& a : args) inputs.push_back(a ? b.constant(*a) : ir::Value::none());
  ISOMER_TRY(const std::vector<ir::Value> results, b.add(op, inputs, std::move(attrs), {}, outputs));
  for (size_t k = 0; k < results.size(); ++k) b.output("y" + std::to_string(k), results[k]);
  ISOMER_TRY(const ir::Graph g, std::move(b).finish());
  return interp::run(g, ops::table(), {});
}

inline Tensor floats(std::vector<int64_t> dims, const std::vector<double>& values) {
  return Tensor::of(DType::F32, std::move(dims), values);
}
inline Tensor ints(std::vector<int64_t> dims, const std::vector<int64_t>& values) {
  return Tensor::of(DType::I64, std::move(dims), values);
}
// 0, 1, 2, ...
inline Tensor counting(std::vector<int64_t> dims, DType dtype = DType::F32) {
  Tensor t(dtype, std::move(dims));
  for (int64_t i = 0; i < t.size(); ++i) t.set_integer(i, i);
  return t;
}
// "f32[2] 1 2", or the diagnostic.
inline std::string show(const Expected<std::vector<Tensor>>& result, size_t k = 0) {
  if (!result.ok()) return result.error().message;
  const Tensor& t = result->at(k);
  std::string text = t.type().to_string();
  for (int64_t i = 0; i < t.size(); ++i) {
    std::string number = std::to_string(is_float(t.dtype()) ? t.real(i) : static_cast<double>(t.integer(i)));
    while (number.ends_with('0')) number.pop_back();
    if (number.ends_with('.')) number.pop_back();
    text += " " + number;
  }
  return text;
}

}  // namespace isomer::test
