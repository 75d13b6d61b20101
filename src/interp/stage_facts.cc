#include "interp/stage_facts.h"

#include <fmt/format.h>

#include <algorithm>

namespace isomer::interp {
namespace {

using te::Expr;
using te::Kind;
using te::Node;

constexpr int kMaxDepth = 6000;

}  // namespace

StageFacts::StageFacts(const te::Stage& stage, const std::vector<int64_t>& dims,
                       const std::vector<const Tensor*>& slots)
    : affine(extents), stage_(stage), dims_(dims), tensors_(slots), divided_(dims.size()) {
  for (size_t i = 0; i < dims_.size(); ++i) extents[stage_.axes[i].id] = dims_[i];
  collect(stage_.body, 0);
}

void StageFacts::fail(std::string why) {
  if (why_.empty()) why_ = std::move(why);
}

int StageFacts::axis(int id) const {
  for (size_t i = stage_.axes.size(); i-- > 0;)
    if (stage_.axes[i].id == id) return static_cast<int>(i);
  return -1;
}

int StageFacts::lane_axis() const {
  int best = -1, whole = -1;
  for (int i = static_cast<int>(dims_.size()) - 1; i >= 0; --i)
    if (!divided_[static_cast<size_t>(i)] &&
        (whole < 0 || dims_[static_cast<size_t>(i)] > dims_[static_cast<size_t>(whole)]))
      whole = i;
  if (whole >= 0 && dims_[static_cast<size_t>(whole)] >= 4) {
    for (int i = static_cast<int>(dims_.size()) - 1; i >= 0; --i)
      if (!divided_[static_cast<size_t>(i)] && dims_[static_cast<size_t>(i)] >= 24) return i;
    return whole;
  }
  for (int i = static_cast<int>(dims_.size()) - 1; i >= 0; --i) {
    const int64_t d = dims_[static_cast<size_t>(i)];
    if (d >= 24) return i;
    if (best < 0 || d > dims_[static_cast<size_t>(best)]) best = i;
  }
  return best;
}

// Also that the depth is one which recursion can bear.
void StageFacts::collect(const Expr& e, int depth) {
  if (depth > kMaxDepth) {
    fail(fmt::format("stage {}: an expression is nested more than {} deep", quoted(stage_.name), kMaxDepth));
    return;
  }
  if (free_.count(&*e) || !why_.empty()) return;
  for (const te::Axis& a : e->axes) {
    if (!a.extent.is_const()) {
      fail("the extent " + a.extent.to_string() + " is not known");
      return;
    }
    hides_axis_ = hides_axis_ || axis(a.id) >= 0;
    const auto [it, fresh] = extents.emplace(a.id, a.extent.value());
    if (!fresh) it->second = std::max(it->second, a.extent.value());
  }
  std::vector<int> vars;
  if (e->kind == Kind::Var) vars.push_back(e->var);
  for (const Expr& x : e->args) {
    collect(x, depth + 1);
    if (!why_.empty()) return;
    const auto& inner = free_[&*x];
    vars.insert(vars.end(), inner.begin(), inner.end());
  }
  std::sort(vars.begin(), vars.end());
  vars.erase(std::unique(vars.begin(), vars.end()), vars.end());
  for (const te::Axis& a : e->axes) std::erase(vars, a.id);
  if (e->kind == Kind::Binary && (e->binary == te::BinaryOp::FloorDiv || e->binary == te::BinaryOp::FloorMod))
    for (int v : vars)
      if (const int i = axis(v); i >= 0) divided_[static_cast<size_t>(i)] = true;
  free_[&*e] = std::move(vars);
}

bool StageFacts::can_fail(const Expr& e) {
  const auto it = fails_.find(&*e);
  if (it != fails_.end()) return it->second;
  const bool r = compute_can_fail(e);
  return fails_[&*e] = r;
}

bool StageFacts::compute_can_fail(const Expr& e) {
  if (e->kind == Kind::Reduce && contraction(e)) return false;
  for (const Expr& x : e->args)
    if (can_fail(x)) return true;
  if (e->kind == Kind::Read) return !safe_read(*e);
  if (e->kind != Kind::Binary || is_float(e->args[0].dtype())) return false;
  if (e->binary < te::BinaryOp::Div || e->binary > te::BinaryOp::FloorMod) return false;
  const Expr& d = e->args[1];
  return !(d->kind == Kind::Int && d->integer != 0);
}

bool StageFacts::safe_read(const Node& n) {
  const Tensor* t = tensor(n);
  if (!t) return false;
  for (size_t i = 0; i < n.args.size(); ++i) {
    const auto& a = affine.read(n.args[i]);
    const auto r = a ? range_of(*a, extents) : std::nullopt;
    if (!r || r->low < 0 || r->high >= t->dims()[i]) return false;
  }
  return true;
}

const Tensor* StageFacts::tensor(const Node& n) {
  const auto slot = static_cast<size_t>(n.tensor);
  const Tensor* t = slot < tensors_.size() ? tensors_[slot] : nullptr;
  if (!t || t->rank() != n.args.size() || is_float(t->dtype()) != is_float(n.dtype) || t->dtype() == DType::Opaque) {
    fail(fmt::format("stage {} reads slot {} as {} of rank {}, which it is not", quoted(stage_.name), slot,
                     isomer::name(n.dtype), n.args.size()));
    return nullptr;
  }
  return t;
}

const ContractionMatch* StageFacts::contraction(const Expr& e) {
  const auto [it, fresh] = contractions_.try_emplace(&*e);
  if (fresh) it->second = match_contraction(*e, tensors_, affine, extents);
  return it->second ? &*it->second : nullptr;
}

}  // namespace isomer::interp
