// The left side of a contraction: rows where they lie, gathered or staged.
#include <fmt/format.h>

#include <algorithm>

#include "compile/contraction_kernel.h"
#include "compile/finish.h"
#include "compile/rows_apart.h"
#include "te/simplify.h"

namespace isomer::compile {

using loop::LoopKind;
using loop::Stmt;
using te::Expr;

bool ContractionKernel::in_place(bool split) const {
  if (split || takes_prologue()) return false;
  const bool always = c_.where->kind == te::Kind::Int && c_.where->integer != 0;
  if (!always || !one_step(left_.at, m_) || !one_step(left_.at, k_)) return false;
  if (!k_.list.empty() && step(left_.at, k_) != 1) return false;
  // Tiles read whole steps of the depth and whole registers of rows.
  if (bytes_ && (k_.total() % unit() != 0 || whole_tiles(m_.total()) != m_.total())) return false;
  return m_.total() <= 4 || !worth_gathering(step(left_.at, m_) * element_bytes(), n_.total());
}

// A prologue is computed on the way where no element is brought along twice.
bool ContractionKernel::takes_prologue() const {
  if (group_.prologue < 0) return false;
  return image_ || batch_.total() * m_.total() * k_.total() <= scene_.value(c_.a->tensor).elements();
}

// From now on left_value is in terms of this kernel's arguments.
void ContractionKernel::open_left(Kernel& kernel) {
  if (takes_prologue()) {
    if (&kernel != &main_) before_accesses_.emplace(scene_, Group{}, std::vector<std::vector<int>>{}, kernel);
    left_accesses_ = &kernel == &main_ ? &*accesses_ : &*before_accesses_;
    return;
  }
  const StageValue& v = scene_.value(c_.a->tensor);
  left_.buffer =
      add_argument(kernel, {"left", v.dtype, {scene_.layout(c_.a->tensor).span}, loop::Scope::Argument, false},
                   {c_.a->tensor, std::nullopt});
}

// The element of the left side's value at these indices.
Expr ContractionKernel::left_value(const std::vector<Expr>& at, const std::vector<te::Axis>& scope) {
  if (takes_prologue()) {
    const ModelStage& p = scene_.stage(group_.prologue);
    te::Substitution names;
    for (size_t d = 0; d < at.size(); ++d) names.var(p.axes[d].id, at[d]);
    return left_accesses_->flat(names(p.body), scope);
  }
  Expr place(0);
  const std::vector<int64_t>& strides = scene_.layout(c_.a->tensor).strides;
  for (size_t d = 0; d < at.size(); ++d) place = place + at[d] * Expr(strides[d]);
  return Expr::read(left_.buffer, c_.a.dtype(), {te::simplify(place, scope)});
}

// The element of the left side that batch, row and depth meet, over their loop variables.
Expr ContractionKernel::left_element() {
  if (!takes_prologue()) return Expr::read(left_.buffer, c_.a.dtype(), {expr_of(left_.at)});
  std::vector<te::Axis> scope;
  for (const Axes* axes : {&batch_, &m_, &k_})
    for (const LoopAxis& a : axes->list) scope.push_back(a.axis());
  std::vector<Expr> at;
  for (const Expr& index : c_.a->args) {
    const Linear by = *linear(index);
    Expr sum(by.constant);
    for (const te::Axis& a : scope)
      for (const auto& [id, var] : var_of_)
        if (var == a.id) sum = sum + Expr(a) * Expr(by.of(id));
    at.push_back(te::simplify(sum, scope));
  }
  return left_value(at, scope);
}

// Rows are read as they lie where they are one step apart; gathered into scratch where they are not, by the task that
// needs them; or by a step before when several tasks need the same ones.
void ContractionKernel::left() {
  if (group_.prologue >= 0 && !takes_prologue()) before_.push_back(prologue_kernel(scene_, group_));
  if (image_) return image();
  if (in_place()) {
    rows_ = Rows::InPlace;
    row_step_ = step(left_.at, m_);
    open_left(main_);
    return;
  }
  if (splits_ == 1 && !split_ && turns()) {
    rows_ = Rows::Turned;
    row_step_ = 1;
    turned_step_ = odd_lines(turned_lines() * m_.list.back().extent);
    open_left(main_);
    main_.function.buffers.push_back(
        {"rows", DType::F32, {k_.total() * turned_step_}, loop::Scope::Scratch, true, true});
    gathered_ = static_cast<int>(main_.function.buffers.size()) - 1;
    return;
  }
  const DType dtype = row_type();
  const auto line = static_cast<int64_t>(64 / size_of(dtype));
  row_step_ = odd_lines(depth(), line);
  if (splits_ == 1) {
    rows_ = Rows::Gathered;
    open_left(main_);
    const int64_t elements = whole_tiles(block_rows_) * row_step_;
    const auto scratch = [&](const char* name) {
      main_.function.buffers.push_back({name, dtype, {elements}, loop::Scope::Scratch, true, true});
      return static_cast<int>(main_.function.buffers.size()) - 1;
    };
    gathered_ = scratch("rows");
    if (split_) gathered_low_ = scratch("low");
    return;
  }
  rows_ = Rows::Staged;
  const int64_t m = m_.total(), rows = whole_tiles(m), elements = batch_.total() * rows * row_step_;
  Kernel before;
  before.function.name = main_.function.name + "_rows";
  open_left(before);
  std::vector<Argument> staged;
  const auto stage_rows = [&](const char* name) {
    staged.push_back({scene_.temporary(dtype, elements), std::nullopt});
    return add_argument(before, {name, dtype, {elements}, loop::Scope::Argument, true, true}, staged.back());
  };
  gathered_ = stage_rows("rows");
  if (split_) gathered_low_ = stage_rows("low");
  const LoopAxis task = fresh("task", batch_.total() * ceil_div(m, tile_rows_));
  const Expr number = te::floor_div(task.expr(), Expr(ceil_div(m, tile_rows_)));
  const Expr first = te::floor_mod(task.expr(), Expr(ceil_div(m, tile_rows_))) * Expr(tile_rows_);
  te::Substitution batch;
  unflatten_into(batch, batch_.list, number);
  const Stmt body =
      gather_rows(before, first, te::min(Expr(tile_rows_), Expr(m) - first), number * Expr(rows) + first, batch);
  before.function.body = loop(task, body, task.extent > 1 ? LoopKind::Parallel : LoopKind::Serial);
  finish(before, scene_, group_, 0);
  before_.push_back(std::move(before));
  const auto read_rows = [&](const char* name, const Argument& from) {
    return add_argument(main_, {name, dtype, {elements}, loop::Scope::Argument, false}, from);
  };
  gathered_ = read_rows("rows", staged[0]);
  if (split_) gathered_low_ = read_rows("low", staged[1]);
}

// Rows first .. first + count of the left side, to rows `to_row` and on of the buffer gathered_.
Stmt ContractionKernel::gather_rows(Kernel& kernel, const Expr& first, const Expr& count, const Expr& to_row,
                                    te::Substitution& batch) {
  const LoopAxis row = fresh("r", block_rows_);
  te::Substitution names;
  unflatten_into(names, m_.list, first + row.expr());
  Expr where = named(c_.where), value = left_element();
  std::vector<LoopAxis> depth = k_.list;
  Expr to = (to_row + row.expr()) * Expr(row_step_);
  Expr at_depth(0);
  for (const LoopAxis& a : depth) at_depth = at_depth * Expr(a.extent) + a.expr();
  to = te::simplify(to + at_depth);
  const bool always = where->kind == te::Kind::Int && where->integer != 0;
  if (always) where = {};
  join_axes(depth, {&where, &value}, {&to}, next_var_);
  value = te::simplify(batch(names(value)));
  if (!where.empty()) where = te::simplify(batch(names(where)));
  const Expr zero = where.empty() ? Expr::literal(c_.a.dtype(), 0) : outside(kernel);
  if (depth.empty()) {
    const Expr v = where.empty() ? value : te::select(where, value, zero);
    return loop(row, store_row(to, v), LoopKind::Serial, count);
  }
  const LoopAxis inner = depth.back();
  const std::vector<int> guarded = where.empty() ? std::vector<int>{} : te::free_vars(where);
  const bool by_lane = std::find(guarded.begin(), guarded.end(), inner.var) != guarded.end();
  const int64_t lanes = std::min<int64_t>(inner.extent, 4 * scene_.lanes(DType::F32));
  const auto copy = [&](const Expr& v) {
    std::vector<Stmt> parts;
    const auto emit = [&](const Expr& start, int64_t length) {
      const LoopAxis lane = fresh("v", length);
      te::Substitution at;
      at.var(inner.var, te::simplify(start + lane.expr()));
      return loop(lane, store_row(at(to), at(v)), LoopKind::Vector);
    };
    const int64_t whole = inner.extent / lanes, rest = inner.extent % lanes;
    if (whole > 0) {
      const LoopAxis block = fresh(inner.name, whole);
      parts.push_back(whole == 1 ? emit(Expr(0), lanes) : loop(block, emit(block.expr() * Expr(lanes), lanes)));
    }
    if (rest > 0) parts.push_back(emit(Expr(whole * lanes), rest));
    return Stmt::seq(std::move(parts));
  };
  Stmt body = where.empty() ? copy(value)
              : by_lane     ? copy(te::select(where, value, zero))
                            : Stmt::branch(where, copy(value), copy(zero));
  for (size_t i = depth.size() - 1; i-- > 0;) body = loop(depth[i], body);
  // What meets zeros of the right side must not be NaN.
  if (const int64_t rest = split_ ? run_ - k_.total() : 0; rest > 0) {
    const LoopAxis lane = fresh("v", rest);
    const Expr place = te::simplify((to_row + row.expr()) * Expr(row_step_) + Expr(k_.total()) + lane.expr());
    body = Stmt::seq({body, loop(lane, store_row(place, zero), LoopKind::Vector)});
  }
  return loop(row, body, LoopKind::Serial, count);
}

Expr ContractionKernel::outside(Kernel& kernel) const {
  const DType type = c_.a.dtype();
  if (c_.fill.empty()) return Expr::literal(type, 0);
  if (c_.fill->kind == te::Kind::Int) return Expr::integer(type, c_.fill->integer);
  const bool turned = c_.fill->kind == te::Kind::Cast;
  const Expr& read = turned ? c_.fill->args[0] : c_.fill;
  const Layout& layout = scene_.layout(read->tensor);
  int64_t at = 0;
  for (size_t d = 0; d < read->args.size(); ++d) at += linear(read->args[d])->constant * layout.strides[d];
  const int buffer = add_argument(kernel, {"fill", read.dtype(), {layout.span}, loop::Scope::Argument, false},
                                  {read->tensor, std::nullopt});
  return te::cast(type, Expr::read(buffer, read.dtype(), {Expr(at)}));
}

// One element of the rows: as it is, or as the nearest BF16 and what that leaves.
Stmt ContractionKernel::store_row(const Expr& place, const Expr& value) const {
  if (!split_) return Stmt::store(gathered_, {place}, value);
  return store_parts(gathered_, place, gathered_low_, place, value);
}

Stmt ContractionKernel::store_parts(int high_buffer, const Expr& high, int low_buffer, const Expr& low,
                                    const Expr& value) {
  const Expr rest = value - te::cast(DType::F32, Expr::read(high_buffer, DType::BF16, {high}));
  return Stmt::seq({Stmt::store(high_buffer, {high}, value), Stmt::store(low_buffer, {low}, rest)});
}

}  // namespace isomer::compile
