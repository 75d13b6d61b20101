// The right side of a contraction: a constant packed when the model is compiled, panels packed by a step before, or as it lies.
#include "compile/contraction_kernel.h"
#include "compile/finish.h"
#include "te/simplify.h"

namespace isomer::compile {

using loop::LoopKind;
using loop::Stmt;
using te::Expr;

// The offsets of all steps of the depth, runs filled up to what tiles take.
std::vector<int64_t> ContractionKernel::packed_depth(const Linear& at) const {
  const std::vector<int64_t> all = offsets(at, k_);
  if (unit() == 1) return all;
  const size_t length = all.size() / static_cast<size_t>(runs_);
  std::vector<int64_t> out;
  for (size_t r = 0; r < static_cast<size_t>(runs_); ++r) {
    out.insert(out.end(), all.begin() + static_cast<long>(r * length),
               all.begin() + static_cast<long>((r + 1) * length));
    out.resize((r + 1) * static_cast<size_t>(run_), Packing::kNothing);
  }
  return out;
}

void ContractionKernel::right() {
  const Linear at = side(c_.b).at;
  const int value = c_.b->tensor;
  const StageValue& v = scene_.value(value);
  if (v.constant) {
    Packing p{offsets(at, batch_), packed_depth(at),       offsets(at, n_), nr_,
              split_ ? chunk_ : 0, bytes_ ? together() : 1};
    for (int64_t& o : p.batch) o += at.constant;
    const loop::Buffer buffer{"right", split_ ? DType::BF16 : v.dtype, {p.elements()}, loop::Scope::Argument, false};
    right_.buffer = add_argument(main_, buffer, {value, std::move(p)});
    return;
  }
  if (one_step(at, n_) && step(at, n_) == 1 && one_step(at, k_) && n_.total() % nr_ == 0) {
    packed_right_ = false;
    right_.at = at;
    right_.buffer = add_argument(main_, {"right", v.dtype, {scene_.layout(value).span}, loop::Scope::Argument, false},
                                 {value, std::nullopt});
    return;
  }
  pack_right(at, value);
}

// A step before: panels of the right side in the order in which tiles read them.
void ContractionKernel::pack_right(const Linear& at, int value) {
  const StageValue v = scene_.value(value);  // a copy: a new temporary moves the values
  const int64_t depth = k_.total(), elements = batch_.total() * panels_ * depth * nr_;
  const int packed = scene_.temporary(v.dtype, elements);
  right_.buffer =
      add_argument(main_, {"right", v.dtype, {elements}, loop::Scope::Argument, false}, {packed, std::nullopt});
  Kernel pack;
  pack.function.name = main_.function.name + "_pack";
  add_argument(pack, {"right", v.dtype, {scene_.layout(value).span}, loop::Scope::Argument, false},
               {value, std::nullopt});
  add_argument(pack, {"panels", v.dtype, {elements}, loop::Scope::Argument, true}, {packed, std::nullopt});
  const LoopAxis task = fresh("task", batch_.total() * panels_), k = fresh("k", depth), c = fresh("c", nr_);
  const Expr panel = te::floor_mod(task.expr(), Expr(panels_)), batch = te::floor_div(task.expr(), Expr(panels_));
  const Expr column = panel * Expr(nr_) + c.expr();
  te::Substitution names;
  unflatten_into(names, batch_.list, batch);
  unflatten_into(names, k_.list, k.expr());
  unflatten_into(names, n_.list, n_.total() % nr_ == 0 ? column : te::min(column, Expr(n_.total() - 1)));
  const std::vector<te::Axis> scope = {task.axis(), k.axis(), c.axis()};
  const Expr from = te::simplify(names(expr_of(at)), scope);
  const Expr to = te::simplify((task.expr() * Expr(depth) + k.expr()) * Expr(nr_) + c.expr(), scope);
  const Stmt store = Stmt::store(1, {to}, Expr::read(0, v.dtype, {from}));
  pack.function.body =
      loop(task, loop(k, loop(c, store, LoopKind::Vector)), task.extent > 1 ? LoopKind::Parallel : LoopKind::Serial);
  finish(pack, scene_, group_, 0);
  before_.push_back(std::move(pack));
}

}  // namespace isomer::compile
