// Runs one node on given values through the builder and the reference executor, as a model would.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "interp/interp.h"
#include "ir/graph.h"
#include "ops/table.h"

namespace isomer {

using Operand = std::optional<Tensor>;  // nothing: an optional input that is absent

inline Expected<std::vector<Tensor>> run_one(const std::string& op, const std::vector<Operand>& operands,
                                             ir::Attrs attrs = {}, size_t outputs = 1) {
  ir::GraphBuilder b(ops::table(), "test");
  std::vector<ir::Value> in;
  std::vector<Tensor> values;
  for (const Operand& t : operands) {
    in.push_back(ir::Value::none());
    if (!t) continue;
    ISOMER_TRY(in.back(), b.input("in" + std::to_string(in.size()), t->type()));
    values.push_back(*t);
  }
  ISOMER_TRY(const std::vector<ir::Value> out, b.add(op, in, std::move(attrs), {}, outputs));
  for (size_t k = 0; k < out.size(); ++k) b.output("out" + std::to_string(k), out[k]);
  ISOMER_TRY(const ir::Graph g, std::move(b).finish());
  return interp::run(g, ops::table(), values);
}

inline Tensor f32(std::vector<int64_t> dims, const std::vector<double>& values) {
  return Tensor::of(DType::F32, std::move(dims), values);
}

// Numbers from -1 to 1 that a seed decides.
inline Tensor noise(std::vector<int64_t> dims, int seed) {
  Tensor t(DType::F32, std::move(dims));
  uint64_t state = static_cast<uint64_t>(seed) * 7919 + 1;
  for (int64_t i = 0; i < t.size(); ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    t.set_real(i, static_cast<double>(state >> 40) / (1 << 24) * 2 - 1);
  }
  return t;
}

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

inline void expect_near(const Tensor& t, const std::vector<double>& expected, double tolerance = 1e-5) {
  const std::vector<double> found = t.to_reals();
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    if (std::isnan(found[i]) && std::isnan(expected[i])) continue;
    EXPECT_NEAR(found[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << "at " << i;
  }
}

}  // namespace isomer
