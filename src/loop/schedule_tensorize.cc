#include <fmt/format.h>

#include <algorithm>

#include "loop/emitter.h"
#include "loop/schedule.h"
#include "te/simplify.h"

namespace isomer::loop {
namespace {

using te::Expr;
using te::Kind;

// Binds the reads of an intrinsic's expression to those of a block's value.
class Matcher {
 public:
  explicit Matcher(size_t inputs) : operands(inputs) {}
  std::vector<Expr> operands;

  bool match(const Expr& pattern, const Expr& e) {
    if (pattern->kind == Kind::Read) {
      Expr& operand = operands[static_cast<size_t>(pattern->tensor)];
      if (e->kind != Kind::Read || e.dtype() != pattern.dtype() || !operand.empty()) return false;
      operand = e;
      return true;
    }
    if (pattern->kind != e->kind || pattern.dtype() != e.dtype() || pattern->args.size() != e->args.size())
      return false;
    if (pattern->kind == Kind::Int && pattern->integer != e->integer) return false;
    if (pattern->kind == Kind::Real && pattern->real != e->real) return false;
    if (pattern->kind == Kind::Var || pattern->kind == Kind::Reduce) return false;
    if (pattern->kind == Kind::Unary && pattern->unary != e->unary) return false;
    if (pattern->kind != Kind::Binary) return all(pattern, e);
    if (pattern->binary != e->binary) return false;
    const std::vector<Expr> before = operands;
    if (all(pattern, e)) return true;
    operands = before;
    const bool swaps = e->binary == te::BinaryOp::Add || e->binary == te::BinaryOp::Mul;
    return swaps && match(pattern->args[0], e->args[1]) && match(pattern->args[1], e->args[0]);
  }

 private:
  bool all(const Expr& pattern, const Expr& e) {
    for (size_t k = 0; k < e->args.size(); ++k)
      if (!match(pattern->args[k], e->args[k])) return false;
    return true;
  }
};

struct AxisRole {
  std::vector<bool> used;  // by each operand, the output last
  bool reduce = false;
  bool operator==(const AxisRole&) const = default;
};

bool indexes(const std::vector<Expr>& indices, int var) {
  return std::any_of(indices.begin(), indices.end(), [&](const Expr& i) { return uses(i, var); });
}

const te::Node* find_read(const Expr& e, int tensor) {
  const te::Node* found = nullptr;
  each_read(e, [&](const te::Node& n) {
    if (n.tensor == tensor) found = &n;
  });
  return found;
}

struct Shape {  // what an intrinsic's program says
  const te::Stage& stage;
  std::vector<te::Axis> axes;
  size_t spatial;
  size_t inputs;

  explicit Shape(const Intrinsic& i)
      : stage(i.meaning.stages[0]), axes(stage.axes), spatial(axes.size()), inputs(i.meaning.inputs.size()) {
    axes.insert(axes.end(), stage.body->axes.begin(), stage.body->axes.end());
  }
  std::optional<AxisRole> role(size_t axis) const {
    AxisRole r;
    for (size_t s = 0; s < inputs; ++s) {
      const te::Node* read = find_read(stage.body->args[0], static_cast<int>(s));
      if (!read) return std::nullopt;
      r.used.push_back(indexes(read->args, axes[axis].id));
    }
    r.used.push_back(axis < spatial);
    r.reduce = axis >= spatial;
    return r;
  }
};

// How far a loop moves an operand, when its index is a sum.
struct Step {
  bool sum = true;
  int64_t last = 0;        // coefficient in the last index
  bool elsewhere = false;  // in another index
  bool contiguous() const { return last == 1 && !elsewhere; }
};

Step step_of(const std::vector<Expr>& indices, int var) {
  Step s;
  for (size_t d = 0; d < indices.size(); ++d) {
    const Affine a = affine_of(indices[d]);
    for (const Affine::Term& t : a.terms) {
      if (!uses(t.atom, var)) continue;
      s.sum &= t.atom->kind == Kind::Var;
      if (d + 1 == indices.size())
        s.last = t.coefficient;
      else
        s.elsewhere = true;
    }
  }
  return s;
}

// Fits the loops from one on, and the block they hold, to an intrinsic.
class Fitter {
 public:
  Fitter(Nest& nest, const Path& root, IntrinsicPtr intrinsic)
      : nest_(nest), intrinsic_(std::move(intrinsic)), shape_(*intrinsic_), match_(shape_.inputs) {
    for (const Loop* l : loops_around(nest, root)) ranges_.push_back({l->var, "", Dim(l->extent)});
    root_ = &item_at(nest, root);
  }

  Decision run() {
    for (const auto step : {&Fitter::loops, &Fitter::expression, &Fitter::places, &Fitter::axes, &Fitter::extents,
                            &Fitter::guards, &Fitter::strides})
      if (const Decision d = (this->*step)(); !d) return d;
    TilePlan plan;
    plan.intrinsic = intrinsic_;
    plan.root = loops_[0]->var;
    plan.operands = match_.operands;
    for (const auto& axis : by_axis_) {
      plan.axes.emplace_back();
      for (const Loop* l : axis) plan.axes.back().push_back(l->var);
    }
    block_->tile = std::move(plan);
    if (!tiles_fit(nest_))
      return Decision::no("the strides do not fit: the loops of one axis do not walk evenly in memory");
    return Decision::yes();
  }

 private:
  Decision loops() {
    Item* item = root_;
    for (; item->is_loop(); item = &item->body[0]) {
      if (item->body.size() != 1) return Decision::no("the loop holds more than one block");
      if (item->loop.kind != LoopKind::Serial && item->loop.kind != LoopKind::Unroll)
        return Decision::no("a parallel or vector loop cannot be part of a tile");
      loops_.push_back(&item->loop);
      ranges_.push_back({item->loop.var, "", Dim(item->loop.extent)});
    }
    block_ = &*item->block;
    return Decision::yes();
  }

  Decision expression() {
    const Block& b = *block_;
    const te::Node& meaning = *shape_.stage.body;
    if (b.tile || b.prefetch) return Decision::no("the block is a tile already");
    if (!b.reduces() || *b.combiner != meaning.combiner) return Decision::no("the block combines otherwise");
    if (!b.where.empty()) return Decision::no("the reduction has a condition");
    if (nest_.buffers[static_cast<size_t>(b.buffer)].dtype != shape_.stage.dtype)
      return Decision::no("the result has another element type");
    if (!match_.match(meaning.args[0], b.value)) return Decision::no("the block computes another expression");
    return Decision::yes();
  }

  // The indices of the operands, the result last, over loop variables.
  Decision places() {
    const Substitution bound = bindings_of(*block_);
    for (const Expr& o : match_.operands) places_.push_back(o->args);
    places_.push_back(block_->indices);
    for (std::vector<Expr>& p : places_)
      for (Expr& i : p) {
        if (has_read(i)) return Decision::no("an operand is indexed by data");
        i = te::simplify(substitute(i, bound), ranges_);
      }
    return Decision::yes();
  }

  AxisRole role_of(const Loop& l) const {
    AxisRole own;
    for (const auto& p : places_) own.used.push_back(indexes(p, l.var));
    const std::vector<int> reducing = reduce_loops(*block_);
    own.reduce = std::find(reducing.begin(), reducing.end(), l.var) != reducing.end();
    return own;
  }

  // Every loop goes to the axis that moves the same operands. Of several such axes each takes one loop, from the
  // innermost on, and the first takes what is left.
  Decision axes() {
    by_axis_.resize(shape_.axes.size());
    std::vector<bool> placed(loops_.size());
    for (size_t a = shape_.axes.size(); a-- > 0;) {
      const auto role = shape_.role(a);
      if (!role) return Decision::no("the intrinsic does not read one of its operands");
      bool first_of_kind = true;
      for (size_t e = 0; e < a; ++e) first_of_kind &= shape_.role(e) != role;
      for (size_t k = loops_.size(); k-- > 0;) {
        if (placed[k]) continue;
        const AxisRole own = role_of(*loops_[k]);
        const bool still = loops_[k]->extent == 1 && own.used == std::vector<bool>(own.used.size());
        if (!still && own != *role) continue;
        placed[k] = true;
        by_axis_[a].insert(by_axis_[a].begin(), loops_[k]);
        if (!still && !first_of_kind) break;
      }
    }
    if (std::find(placed.begin(), placed.end(), false) != placed.end())
      return Decision::no("a loop moves the operands as no axis of the intrinsic does");
    return Decision::yes();
  }

  Decision extents() {
    for (size_t a = 0; a < shape_.axes.size(); ++a) {
      int64_t n = 1;
      for (const Loop* l : by_axis_[a]) n *= l->extent;
      const int64_t own = shape_.axes[a].extent.constant().value_or(INT64_MAX);  // a symbol: any
      const bool tail = a < intrinsic_->tail.size() && intrinsic_->tail[a];
      if (n > own || (n != own && !tail)) return Decision::no("the loops do not have the extents of the intrinsic");
      bool cut = false;
      for (const Affine& g : block_->guards)
        for (const Loop* l : by_axis_[a]) cut |= uses(to_expr(g), l->var);
      if (cut && !tail) return Decision::no("a tail cuts an axis that the intrinsic takes whole");
      if (cut && by_axis_[a].size() > 1) return Decision::no("a tail cuts an axis that is made of several loops");
    }
    return Decision::yes();
  }

  Decision guards() {
    for (const Affine& g : block_->guards) {
      int inside = 0;
      bool upper = true;
      for (const Loop* l : loops_) {
        if (!uses(to_expr(g), l->var)) continue;
        ++inside;
        upper &= g.coefficient(l->var) < 0;
      }
      if (inside > 1 || !upper) return Decision::no("a guard is no upper bound of one of the tile's loops");
    }
    return Decision::yes();
  }

  // Vectors run along the last axis of the result: the result and what has the axis are contiguous there. Where
  // several elements are packed into one lane, these are adjacent and the lanes follow each other.
  Decision strides() {
    const size_t lane = shape_.spatial - 1;
    const bool packs = intrinsic_->emit == Emit::DotProduct;
    for (size_t s = 0; s < places_.size(); ++s) {
      const bool result = s + 1 == places_.size();
      for (size_t a = 0; a < by_axis_.size(); ++a) {
        const Loop* inner = nullptr;
        for (const Loop* l : by_axis_[a]) {
          if (!step_of(places_[s], l->var).sum) return Decision::no("an operand's index is no sum of the tile's loops");
          if (l->extent > 1) inner = l;
        }
        if (!inner || !indexes(places_[s], inner->var)) continue;
        const Step step = step_of(places_[s], inner->var);
        if (packs && a + 1 == by_axis_.size() && !step.contiguous())
          return Decision::no("the strides do not fit: packed elements are not adjacent");
        if (a != lane) continue;
        const bool fits = packs && !result ? follows_packed(s, step) : step.contiguous();
        if (!fits) return Decision::no("the strides do not fit: vectors are not contiguous in memory");
      }
    }
    return Decision::yes();
  }

  bool follows_packed(size_t operand, const Step& step) const {
    const int buffer = match_.operands[operand]->tensor;
    const std::vector<int64_t>& dims = nest_.buffers[static_cast<size_t>(buffer)].dims;
    const Dim packed = shape_.axes.back().extent;
    return dims.size() > 1 && packed == Dim(dims.back()) && step.last == 0;
  }

  Nest& nest_;
  IntrinsicPtr intrinsic_;
  Shape shape_;
  Matcher match_;
  Item* root_ = nullptr;
  std::vector<te::Axis> ranges_;
  std::vector<const Loop*> loops_;
  Block* block_ = nullptr;
  std::vector<std::vector<Expr>> places_;
  std::vector<std::vector<const Loop*>> by_axis_;
};

}  // namespace

Decision Schedule::tensorize(std::string_view loop, std::string_view intrinsic) {
  const auto to = find_loop(nest_, loop);
  if (!to) return Decision::no("there is no loop of this name");
  IntrinsicPtr chosen;
  for (const IntrinsicPtr& i : intrinsics_)
    if (i->name == intrinsic) chosen = i;
  if (!chosen || chosen->meaning.stages.size() != 1 || chosen->meaning.stages[0].body->kind != Kind::Reduce)
    return Decision::no("there is no intrinsic of this name that updates by a reduction");
  Nest next = nest_;
  if (const Decision d = Fitter(next, *to, chosen).run(); !d) return d;
  return done(std::move(next), fmt::format("tensorize {} {}", loop, intrinsic));
}

}  // namespace isomer::loop
