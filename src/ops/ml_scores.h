// What the ai.onnx.ml estimators share: rows of features, class labels, and what becomes of raw scores.
#pragma once

#include <string>
#include <vector>

#include "ir/op.h"
#include "ops/compose.h"

namespace isomer::ops {

inline constexpr DTypeSet kFeatures = DTypeSet(DType::F32) | DType::F64 | DType::I64 | DType::I32;

enum class PostTransform : uint8_t { None, Softmax, Logistic, SoftmaxZero, Probit };
ir::AttrDef post_transform_attr();
Expected<PostTransform> post_transform_of(const ir::OpContext& c);
// What becomes of scores [N,K] in f64.
ir::Value transformed(Compose& g, PostTransform transform, ir::Value scores);

// Input 0 as rows of features: [N,F], or [F] for one row.
struct Rows {
  Dim count, features;
};
Expected<Rows> rows_of(const ir::OpContext& c);
// The same as a value [N,F].
ir::Value as_rows(Compose& g, ir::Value x);

// Numbers of a model as a constant in f64, in which scores are computed.
ir::Value reals(Compose& g, const std::vector<double>& v, std::vector<int64_t> dims);

// The label of each row, [N], by the position of its largest score.
ir::Value largest_label(Compose& g, ir::Value scores, const std::vector<int64_t>& labels);
// The label of each row of a column [N,1] of truths: that of the second class where it holds.
ir::Value label_of(Compose& g, ir::Value second, const std::vector<int64_t>& labels);

// The integer labels of a classifier; labels that are strings are refused.
Expected<std::vector<int64_t>> int_labels(const ir::OpContext& c, std::string_view ints, std::string_view strings);

// The ONNX form of a classifier, whose integer labels are the attribute `ints`. One with strings gives their numbers, so that
// its scores can be computed; a LabelEncoder that is carried, not run, makes strings of those.
ir::OnnxForm classifier_form(const char* type, std::vector<int> since, int stable, std::string ints);

// A list of reals given as an attribute or as a tensor attribute of the same name with `_as_tensor`.
Expected<std::vector<double>> reals_or_tensor(const ir::OpContext& c, const std::string& name);

}  // namespace isomer::ops
