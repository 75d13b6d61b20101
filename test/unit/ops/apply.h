// Runs one operator on given tensors, through a graph whose inputs they are: builder, type rules and evaluator together.
// An empty optional stands for an input that is absent.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "interp/interp.h"
#include "ir/graph.h"
#include "ops/table.h"

namespace isomer::ops {

inline Expected<std::vector<Tensor>> apply_all(std::string_view op, const std::vector<std::optional<Tensor>>& values,
                                               ir::Attrs attrs = {}, size_t outputs = 0) {
  ir::GraphBuilder b(table(), "test");
  std::vector<ir::Value> inputs;
  std::vector<Tensor> given;
  for (const auto& t : values) {
    ir::Value v = ir::Value::none();
    if (t) {
      ISOMER_TRY(v, b.input("x" + std::to_string(given.size()), t->type()));
      given.push_back(*t);
    }
    inputs.push_back(v);
  }
  ISOMER_TRY(const std::vector<ir::Value> results, b.add(op, inputs, std::move(attrs), {}, outputs));
  for (size_t k = 0; k < results.size(); ++k) b.output("y" + std::to_string(k), results[k]);
  ISOMER_TRY(const ir::Graph g, std::move(b).finish());
  return interp::run(g, table(), given);
}

inline Expected<Tensor> apply(std::string_view op, const std::vector<std::optional<Tensor>>& values,
                              ir::Attrs attrs = {}) {
  ISOMER_TRY(const std::vector<Tensor> out, apply_all(op, values, std::move(attrs)));
  return out.at(0);
}

inline Tensor reals(std::vector<int64_t> dims, const std::vector<double>& values, DType dtype = DType::F32) {
  return Tensor::of<double>(dtype, std::move(dims), values);
}
inline Tensor integers(std::vector<int64_t> dims, const std::vector<int64_t>& values, DType dtype = DType::I32) {
  return Tensor::of<int64_t>(dtype, std::move(dims), values);
}

}  // namespace isomer::ops
