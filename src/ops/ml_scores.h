// What the ai.onnx.ml estimators share: rows of features, class labels, and what becomes of raw scores.
#pragma once

#include <string>
#include <vector>

#include "ir/op.h"

namespace isomer::ops {

inline constexpr DTypeSet kFeatures = DTypeSet(DType::F32) | DType::F64 | DType::I64 | DType::I32;

enum class PostTransform : uint8_t { None, Softmax, Logistic, SoftmaxZero, Probit };
ir::AttrDef post_transform_attr();
Expected<PostTransform> post_transform_of(const ir::OpContext& c);
// In place, over the scores of one row.
void apply(PostTransform transform, std::vector<double>& scores);
double logistic(double x);

// Input 0 as rows of features: [N,F], or [F] for one row.
struct Rows {
  Dim count, features;
};
Expected<Rows> rows_of(const ir::OpContext& c);

// The integer labels of a classifier; labels that are strings are refused.
Expected<std::vector<int64_t>> int_labels(const ir::OpContext& c, std::string_view ints, std::string_view strings);

// A list of reals given as an attribute or as a tensor attribute of the same name with `_as_tensor`.
Expected<std::vector<double>> reals_or_tensor(const ir::OpContext& c, const std::string& name);

}  // namespace isomer::ops
