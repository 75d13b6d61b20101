// Before and after a pass, as graph texts. The pass must turn the one into the other, and both are executed on the same
// random inputs, so that a test whose two halves differ in meaning fails whoever wrote it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/random.h"
#include "interp/interp.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ops/table.h"
#include "passes/manager.h"
#include "tensor/random_fill.h"

namespace isomer::testing {

// Inputs of numbers only; sizes that are symbols count as `size`.
inline std::vector<Tensor> random_inputs(const ir::Graph& g, int64_t size = 3) {
  Random random(11);
  std::vector<Tensor> out;
  for (const ir::Node& n : g.inputs()) {
    std::vector<int64_t> dims;
    for (const Dim& d : n.types[0].shape.dims()) dims.push_back(d.constant().value_or(size));
    out.push_back(random_tensor(n.types[0].dtype, dims, random, {.int_low = 0, .int_high = 1}));
  }
  return out;
}

// Largest difference of two results relative to the largest magnitude expected; infinite when they do not compare.
inline double distance(const Tensor& found, const Tensor& expected) {
  if (found.dims() != expected.dims() || found.dtype() != expected.dtype()) return INFINITY;
  double error = 0, largest = 1e-30;
  for (int64_t i = 0; i < found.size(); ++i) {
    const double a = found.real(i), b = expected.real(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    if (!std::isfinite(a) || !std::isfinite(b)) return INFINITY;
    error = std::max(error, std::abs(a - b));
  }
  for (int64_t i = 0; i < found.size(); ++i)
    if (std::isfinite(expected.real(i))) largest = std::max(largest, std::abs(expected.real(i)));
  return error == 0 ? 0 : error / largest;
}

inline void expect_same_function(const ir::Graph& found, const ir::Graph& expected, double tolerance = 1e-4) {
  const std::vector<Tensor> inputs = random_inputs(expected);
  const auto a = interp::run(found, ops::table(), inputs), b = interp::run(expected, ops::table(), inputs);
  ASSERT_TRUE(b.ok()) << b.error().to_string();
  ASSERT_TRUE(a.ok()) << a.error().to_string();
  ASSERT_EQ(a->size(), b->size());
  for (size_t i = 0; i < a->size(); ++i) EXPECT_LE(distance((*a)[i], (*b)[i]), tolerance) << "output " << i;
}

// "(%x: f32[2]) { ... return ... }"
inline ir::Graph graph_of(const std::string& text) {
  auto g = ir::parse("graph @g" + text, ops::table());
  EXPECT_TRUE(g.ok()) << g.error().to_string() << "\n" << text;
  return g.ok() ? *std::move(g) : ir::Graph();
}

inline passes::Result run_passes(const std::string& passes, const ir::Graph& g) {
  const auto steps = passes::parse_passes(passes);
  EXPECT_TRUE(steps.ok()) << steps.error().to_string();
  passes::Options options;
  options.verify = true;
  auto r = passes::run(g, ops::table(), *steps, options);
  EXPECT_TRUE(r.ok()) << r.error().to_string();
  return r.ok() ? *std::move(r) : passes::Result();
}

inline void expect_pass(const std::string& passes, const std::string& before, const std::string& after) {
  const ir::Graph from = graph_of(before), to = graph_of(after);
  const passes::Result r = run_passes(passes, from);
  EXPECT_TRUE(ir::equal(r.graph, to)) << "found:\n" << ir::print(r.graph) << "expected:\n" << ir::print(to);
  expect_same_function(to, from);
}

// Something that looks like the pattern and is not: nothing may happen.
inline void expect_untouched(const std::string& passes, const std::string& text) {
  const ir::Graph g = graph_of(text);
  const passes::Result r = run_passes(passes, g);
  EXPECT_TRUE(ir::equal(r.graph, g)) << "found:\n" << ir::print(r.graph) << "expected:\n" << ir::print(g);
}

// Applies, whatever the result looks like, and keeps the function; operators that must have gone, and must be there.
inline passes::Result expect_applies(const std::string& passes, const std::string& text) {
  const ir::Graph g = graph_of(text);
  passes::Result r = run_passes(passes, g);
  EXPECT_FALSE(ir::equal(r.graph, g)) << "nothing happened to\n" << ir::print(g);
  expect_same_function(r.graph, g);
  return r;
}

inline int64_t count(const ir::Graph& g, const std::string& op) {
  const auto counts = passes::count_operators(g);
  const auto it = counts.find(op);
  return it == counts.end() ? 0 : it->second;
}

}  // namespace isomer::testing
