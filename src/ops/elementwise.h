// Families of element-wise operators: one line makes one record.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/op.h"

namespace isomer::ops {

// What varies between element-wise operators beside their expression.
struct Elementwise {
  std::string name;
  std::string doc;
  DTypeSet types = kFloats;
  std::string result = "T";  // element type of the output: "T" or a type name
  std::vector<ir::AttrDef> attrs = {};
  // Old opsets are imported as the family does it (consumed_inputs, broadcast at an axis) unless the form says how.
  std::vector<ir::OnnxForm> onnx = {};
  std::vector<std::string> laws = {};
  std::vector<std::string> samples = {};  // one over the first type of `types` is made when empty
  std::vector<std::string> inputs = {};   // names; "x", or "a" and "b", when empty
  std::string output = {};                // name; "y", or "c" for two operands, when empty
  // What must hold beside the types and the broadcasting.
  std::function<Expected<void>(const ir::OpContext&)> check = nullptr;
};

// y[i] = f(x[i]).
using UnaryBody = std::function<te::Expr(const te::Expr& x, const ir::OpContext&)>;
ir::OpDef unary(Elementwise e, UnaryBody f);

// c[i] = f(a[i], b[i]) with broadcasting.
using BinaryBody = std::function<te::Expr(const te::Expr& a, const te::Expr& b, const ir::OpContext&)>;
ir::OpDef binary(Elementwise e, BinaryBody f);

// The type in which results of a float type are computed when they pass through several stages: half types widen.
constexpr DType accumulator(DType t) { return t == DType::F16 || t == DType::BF16 ? DType::F32 : t; }
// The type in which a real function of any numeric type is computed: integers count as doubles.
constexpr DType real_type(DType t) { return is_float(t) ? accumulator(t) : DType::F64; }

}  // namespace isomer::ops
