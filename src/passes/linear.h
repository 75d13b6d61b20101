// Linear operators with constant weights: conv, conv_transpose, gemm, matmul, seen alike. y is linear in x along
// in_axis -> out_axis, plus a bias per output where the operator takes one.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "passes/editor.h"

namespace isomer::passes {

struct Linear {
  uint32_t node = 0;
  Value x, weight, bias;  // bias: none, or a constant of one number per output
  size_t out_axis = 0, outputs = 0;
  std::optional<size_t> in_axis;  // none: x's channels are not the weights' rows alone
  size_t inputs = 0;
  bool takes_bias = false;
  bool padded = false;              // borders see zeros, or fewer terms
  std::vector<double> bias_values;  // zeros when absent; empty when takes_bias is false

  // The weights for outputs, or inputs, multiplied by these factors; none when one is not finite.
  std::optional<Tensor> scale_outputs(const Tensor& w, const std::vector<double>& factors) const;
  std::optional<Tensor> scale_inputs(const Tensor& w, const std::vector<double>& factors) const;
  // What constant inputs give at every output where no padding is seen.
  std::vector<double> response(const Tensor& w, const std::vector<double>& inputs) const;
  // The operator on another input, weights and bias.
  Value with(Editor& editor, Value x, Value weight, Value bias) const;

 private:
  friend std::optional<Linear> linear(const Editor& editor, uint32_t node);
  enum class Kind : uint8_t { Conv, ConvTranspose, Gemm, MatMul };
  Kind kind_ = Kind::Conv;
  size_t groups_ = 1;
  size_t out_dim_ = 0, in_dim_ = 0;  // axes of the weights, where there are no groups
  double alpha_ = 1;
};

// None when the node is another operator, or its weights or bias are no constants, or a size is not known.
std::optional<Linear> linear(const Editor& editor, uint32_t node);

}  // namespace isomer::passes
