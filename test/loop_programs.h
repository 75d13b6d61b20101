// Programs, inputs and comparisons for the tests of loops: a scheduled function must compute what te says.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/random.h"
#include "loop/evaluate.h"
#include "loop/nest.h"
#include "loop/print.h"
#include "te/eval.h"
#include "te/parse.h"

namespace isomer::loop {

inline te::Program parsed(const std::string& text) {
  auto p = te::parse_program(text);
  if (!p.ok()) ADD_FAILURE() << p.error().to_string() << "\n" << text;
  return p.ok() ? *p : te::Program{};
}

inline std::vector<Tensor> random_inputs(const te::Program& p, Random& r) {
  std::vector<Tensor> out;
  for (const te::Source& s : p.inputs) {
    std::vector<int64_t> dims;
    for (const Dim& d : s.dims) dims.push_back(d.value());
    Tensor t(s.dtype, dims);
    for (int64_t i = 0; i < t.size(); ++i) {
      if (is_float(s.dtype))
        t.set_real(i, r.uniform(-2, 2));
      else
        t.set_integer(i, r.between(is_unsigned_int(s.dtype) ? 0 : -4, 4));
    }
    out.push_back(std::move(t));
  }
  return out;
}

inline std::vector<Tensor> reference(const te::Program& p, const std::vector<Tensor>& inputs) {
  using Doubles = te::Array<te::DoubleDomain>;
  std::vector<Doubles> in;
  for (const Tensor& t : inputs) {
    Doubles a{t.dtype(), t.dims(), {}, {}};
    for (int64_t i = 0; i < t.size(); ++i)
      if (is_float(t.dtype()))
        a.reals.push_back(t.real(i));
      else
        a.ints.push_back(t.integer(i));
    in.push_back(std::move(a));
  }
  const te::DoubleDomain domain;
  te::Evaluator<te::DoubleDomain> evaluator(domain);
  const auto results = evaluator.run(p, std::move(in));
  if (!results.ok()) {
    ADD_FAILURE() << results.error().to_string();
    return {};
  }
  std::vector<Tensor> out;
  for (const Doubles& a : *results) {
    Tensor t(a.dtype, a.dims);
    for (int64_t i = 0; i < t.size(); ++i)
      if (is_float(a.dtype))
        t.set_real(i, a.reals[static_cast<size_t>(i)]);
      else
        t.set_integer(i, a.ints[static_cast<size_t>(i)]);
    out.push_back(std::move(t));
  }
  return out;
}

// What differs, or nothing.
inline std::string difference(const Tensor& got, const Tensor& want) {
  if (got.dtype() != want.dtype() || got.size() != want.size()) return "another type or size";
  double most = 1e-30;
  for (int64_t i = 0; i < want.size(); ++i)
    if (std::isfinite(want.real(i))) most = std::max(most, std::abs(want.real(i)));
  const double tolerance = want.dtype() == DType::F64   ? 1e-12
                           : want.dtype() == DType::F32 ? 1e-5
                           : is_float(want.dtype())     ? 1e-2
                                                        : 0.0;
  for (int64_t i = 0; i < want.size(); ++i) {
    const double a = got.real(i), b = want.real(i);
    const bool same = a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= tolerance * most;
    if (!same) return "element " + std::to_string(i) + ": " + std::to_string(a) + ", expected " + std::to_string(b);
  }
  return "";
}

// Runs the kernels of a nest one after the other on the program's inputs.
inline Expected<std::vector<Tensor>> run_kernels(const Nest& nest, const std::vector<Kernel>& kernels,
                                                 const std::vector<Tensor>& inputs) {
  std::vector<Tensor> values;
  for (size_t b = 0; b < nest.buffers.size(); ++b)
    values.push_back(b < inputs.size() ? inputs[b] : Tensor(nest.buffers[b].dtype, nest.buffers[b].dims));
  for (const Kernel& k : kernels) {
    ISOMER_CHECK_OK(verify(k.function));
    std::vector<Tensor> arguments;
    for (const int a : k.arguments) arguments.push_back(values[static_cast<size_t>(a)]);
    ISOMER_TRY(const std::vector<Tensor> results, evaluate(k.function, arguments));
    for (size_t i = 0; i < results.size(); ++i) values[static_cast<size_t>(k.arguments[i])] = results[i];
  }
  return std::vector<Tensor>(values.begin() + nest.inputs, values.begin() + nest.inputs + nest.outputs);
}

// An empty text when the nest computes what the program says, on random inputs.
inline std::string check_nest(const te::Program& p, const Nest& nest, uint64_t seed = 1) {
  Random r(seed);
  const std::vector<Tensor> inputs = random_inputs(p, r);
  const auto kernels = finish_all(nest, "k");
  if (!kernels.ok()) return kernels.error().to_string();
  std::string text;
  for (const Kernel& k : *kernels) text += print(k.function);
  const auto got = run_kernels(nest, *kernels, inputs);
  if (!got.ok()) return got.error().to_string() + "\n" + text;
  const std::vector<Tensor> want = reference(p, inputs);
  for (size_t i = 0; i < want.size(); ++i)
    if (const std::string d = difference((*got)[i], want[i]); !d.empty())
      return "output " + std::to_string(i) + ", " + d + "\n" + text;
  return "";
}

}  // namespace isomer::loop
