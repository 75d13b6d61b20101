// What is known of a stage's expressions before code is made of them: extents and free variables, which axes indices
// divide, what may end in an error, which reductions are contractions. Answers are kept by node: the stage must stay.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "interp/affine.h"
#include "interp/contract_match.h"
#include "te/program.h"
#include "tensor/tensor.h"

namespace isomer::interp {

class StageFacts {
 public:
  StageFacts(const te::Stage& stage, const std::vector<int64_t>& dims, const std::vector<const Tensor*>& slots);
  StageFacts(const StageFacts&) = delete;
  StageFacts& operator=(const StageFacts&) = delete;

  // Why there can be no code, empty so far; the first reason stays.
  const std::string& why() const { return why_; }
  void fail(std::string why);

  int axis(int id) const;  // the stage's axis with this id, or -1
  // The axis whose points are lanes: the innermost that fills a block well, or else the longest; best one that no index
  // divides, since a quotient that is the same in all lanes keeps the index affine.
  int lane_axis() const;
  bool hides_axis() const { return hides_axis_; }  // a reduction has an axis of the stage again
  const std::vector<int>& free(const te::Node& n) { return free_[&n]; }

  // Whether evaluating the expression may end in an error, so that it must not be evaluated where it is not asked for.
  bool can_fail(const te::Expr& e);
  const Tensor* tensor(const te::Node& n);  // that a read reads; null when it is not as the read says
  const ContractionMatch* contraction(const te::Expr& e);

  Extents extents;  // of the stage's axes, of reductions and of axes that whoever makes code adds
  AffineReader affine;

 private:
  void collect(const te::Expr& e, int depth);
  bool compute_can_fail(const te::Expr& e);
  bool safe_read(const te::Node& n);

  const te::Stage& stage_;
  const std::vector<int64_t>& dims_;
  const std::vector<const Tensor*>& tensors_;
  std::vector<bool> divided_;  // stage axes that stand in a quotient
  bool hides_axis_ = false;
  std::unordered_map<const te::Node*, std::vector<int>> free_;
  std::unordered_map<const te::Node*, bool> fails_;
  std::unordered_map<const te::Node*, std::optional<ContractionMatch>> contractions_;
  std::string why_;
};

}  // namespace isomer::interp
