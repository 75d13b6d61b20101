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
  std::vector<ir::OnnxForm> onnx = {};
  std::vector<std::string> laws = {};
  std::vector<std::string> samples = {};  // one over the first type of `types` is made when empty
};

// y[i] = f(x[i]).
using UnaryBody = std::function<te::Expr(const te::Expr& x, const ir::OpContext&)>;
ir::OpDef unary(Elementwise e, UnaryBody f);

// y[i] = f(a[i], b[i]) with broadcasting.
using BinaryBody = std::function<te::Expr(const te::Expr& a, const te::Expr& b, const ir::OpContext&)>;
ir::OpDef binary(Elementwise e, BinaryBody f);

}  // namespace isomer::ops
