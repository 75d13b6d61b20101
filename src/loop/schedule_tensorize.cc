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

// How far a loop moves an operand, when its index is a sum; dims are the logical ones.
struct Step {
  bool sum = true;
  int64_t last = 0;        // coefficient in the last index
  bool elsewhere = false;  // in another index
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

}  // namespace

Decision Schedule::tensorize(std::string_view loop, std::string_view intrinsic) {
  const auto to = find_loop(nest_, loop);
  if (!to) return Decision::no("there is no loop of this name");
  IntrinsicPtr chosen;
  for (const IntrinsicPtr& i : intrinsics_)
    if (i->name == intrinsic) chosen = i;
  if (!chosen || chosen->meaning.stages.size() != 1 || chosen->meaning.stages[0].body->kind != Kind::Reduce)
    return Decision::no("there is no intrinsic of this name that updates by a reduction");
  const Shape shape(*chosen);

  Nest next = nest_;
  const Item* item = &item_at(next, *to);
  std::vector<const Loop*> loops;
  for (; item->is_loop(); item = &item->body[0]) {
    if (item->body.size() != 1) return Decision::no("the loop holds more than one block");
    if (item->loop.kind != LoopKind::Serial && item->loop.kind != LoopKind::Unroll)
      return Decision::no("a parallel or vector loop cannot be part of a tile");
    loops.push_back(&item->loop);
  }
  Block& b = const_cast<Block&>(*item->block);
  if (b.tile || b.prefetch) return Decision::no("the block is a tile already");
  if (!b.reduces() || *b.combiner != shape.stage.body->combiner) return Decision::no("the block combines otherwise");
  if (!b.where.empty()) return Decision::no("the reduction has a condition");
  if (b.value.dtype() != shape.stage.dtype || nest_.buffers[static_cast<size_t>(b.buffer)].dtype != shape.stage.dtype)
    return Decision::no("the result has another element type");
  Matcher m(shape.inputs);
  if (!m.match(shape.stage.body->args[0], b.value)) return Decision::no("the block computes another expression");

  // Where every operand moves with the loops.
  std::vector<te::Axis> ranges;
  for (const Loop* l : loops_around(next, *to)) ranges.push_back({l->var, "", Dim(l->extent)});
  for (const Loop* l : loops) ranges.push_back({l->var, "", Dim(l->extent)});
  const Substitution bound = bindings_of(b);
  std::vector<std::vector<Expr>> places;
  for (const Expr& o : m.operands) places.push_back(o->args);
  places.push_back(b.indices);
  for (std::vector<Expr>& p : places)
    for (Expr& i : p) {
      if (has_read(i)) return Decision::no("an operand is indexed by data");
      i = te::simplify(substitute(i, bound), ranges);
    }

  TilePlan plan;
  plan.intrinsic = chosen;
  plan.root = loops[0]->var;
  plan.operands = m.operands;
  plan.axes.resize(shape.axes.size());
  const std::vector<int> reducing = reduce_loops(b);
  std::vector<std::vector<const Loop*>> by_axis(shape.axes.size());
  std::vector<bool> placed(loops.size());
  for (size_t a = shape.axes.size(); a-- > 0;) {
    const auto role = shape.role(a);
    if (!role) return Decision::no("the intrinsic does not read one of its operands");
    bool first_of_kind = true;
    for (size_t e = 0; e < a; ++e) first_of_kind &= shape.role(e) != role;
    for (size_t k = loops.size(); k-- > 0;) {
      if (placed[k]) continue;
      AxisRole own;
      for (const auto& p : places) own.used.push_back(indexes(p, loops[k]->var));
      own.reduce = std::find(reducing.begin(), reducing.end(), loops[k]->var) != reducing.end();
      if (loops[k]->extent == 1 && own.used == std::vector<bool>(own.used.size())) {
        placed[k] = true;  // moves nothing
        by_axis[a].insert(by_axis[a].begin(), loops[k]);
        continue;
      }
      if (own != *role) continue;
      placed[k] = true;
      by_axis[a].insert(by_axis[a].begin(), loops[k]);
      if (!first_of_kind) break;
    }
  }
  if (std::find(placed.begin(), placed.end(), false) != placed.end())
    return Decision::no("a loop moves the operands as no axis of the intrinsic does");

  for (size_t a = 0; a < shape.axes.size(); ++a) {
    int64_t n = 1;
    for (const Loop* l : by_axis[a]) {
      plan.axes[a].push_back(l->var);
      n *= l->extent;
    }
    const int64_t own = shape.axes[a].extent.constant().value_or(INT64_MAX);  // a symbol: any
    const bool tail = a < chosen->tail.size() && chosen->tail[a];
    if (n > own || (n != own && !tail)) return Decision::no("the loops do not have the extents of the intrinsic");
    bool cut = false;
    for (const Affine& g : b.guards)
      for (const Loop* l : by_axis[a]) cut |= uses(to_expr(g), l->var);
    if (cut && !tail) return Decision::no("a tail cuts an axis that the intrinsic takes whole");
    if (cut && by_axis[a].size() > 1) return Decision::no("a tail cuts an axis that is made of several loops");
  }
  for (const Affine& g : b.guards) {
    int inside = 0;
    for (const Loop* l : loops) {
      inside += uses(to_expr(g), l->var);
      if (uses(to_expr(g), l->var) && g.coefficient(l->var) >= 0)
        return Decision::no("a guard is no upper bound of one of the tile's loops");
    }
    if (inside > 1) return Decision::no("a guard is no upper bound of one of the tile's loops");
  }
  // Vectors run along the last axis of the result: the result and what has the axis are contiguous there.
  const size_t lane = shape.spatial - 1;
  const int64_t packed = chosen->emit == Emit::DotProduct ? shape.axes.back().extent.constant().value_or(1) : 1;
  for (size_t s = 0; s < places.size(); ++s) {
    for (size_t a = 0; a < shape.axes.size(); ++a) {
      for (const Loop* l : by_axis[a]) {
        const Step step = step_of(places[s], l->var);
        if (!step.sum) return Decision::no("an operand's index is no sum of the tile's loops");
        if (l != by_axis[a].back() || !indexes(places[s], l->var)) continue;
        const bool output = s + 1 == places.size();
        const bool byte_axis = chosen->emit == Emit::DotProduct && a + 1 == shape.axes.size();
        const bool contiguous = step.last == 1 && !step.elsewhere;
        if (byte_axis && !contiguous) return Decision::no("the strides do not fit: packed elements are not adjacent");
        if (a != lane) continue;
        if ((output || packed == 1) && !contiguous)
          return Decision::no("the strides do not fit: vectors are not contiguous in memory");
        // In a packed operand the lanes are as far apart as the packed elements are many.
        if (!output && packed != 1) {
          const std::vector<int64_t>& dims = nest_.buffers[static_cast<size_t>(m.operands[s]->tensor)].dims;
          if (dims.empty() || dims.back() != packed || step.last != 0)
            return Decision::no("the strides do not fit: vectors are not contiguous in memory");
        }
      }
    }
  }
  b.tile = std::move(plan);
  if (!tiles_fit(next))
    return Decision::no("the strides do not fit: the loops of one axis do not walk evenly in memory");
  return done(std::move(next), fmt::format("tensorize {} {}", loop, intrinsic));
}

}  // namespace isomer::loop
