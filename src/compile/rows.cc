#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "compile/rows_kernel.h"
#include "te/simplify.h"
#include "te/substitute.h"

namespace isomer::compile {

using loop::LoopKind;
using loop::Stmt;
using te::Expr;
using te::Kind;

int Scene::lanes(DType t) const {
  const auto bytes = static_cast<int>(std::max<size_t>(size_of(t), 4));  // narrower types are computed in 4 bytes
  return std::max(1, target.vector_bytes / bytes);
}

namespace {

constexpr double kTaskWork = 20000;  // operations that are worth a task of their own
constexpr int64_t kMostTasks = 256;
constexpr int64_t kRowsAtOnce = 1024;  // elements of the rows that are reduced at a time

}  // namespace

Kernel RowsKernel::make() {
  const std::vector<Stmt> parts = all_loops();
  describe();
  if (rows_.empty())
    kernel_.function.body = Stmt::seq(parts);
  else
    in_tasks(parts);
  arguments_first(kernel_.function);
  return std::move(kernel_);
}

std::optional<Kernel> RowsKernel::make(const RowBlocks& blocks) {
  const std::vector<Stmt> parts = all_loops();
  describe();
  if (row_count() != blocks.batch * blocks.rows || cut_) return std::nullopt;
  in_blocks(parts, blocks);
  arguments_first(kernel_.function);
  return std::move(kernel_);
}

// The rows in the order in which the last stage's value stores them, as positions in rows_of_stages_.
std::vector<int> RowsKernel::row_order() const {
  const ModelStage& last = scene_.stage(group_.stages.back());
  const std::vector<int>& ids = rows_of_stages_.back();
  std::vector<int> order;
  for (const int d : scene_.layout(last.value).order)
    for (size_t r = 0; r < ids.size(); ++r)
      if (last.axes[static_cast<size_t>(d)].id == ids[r]) order.push_back(static_cast<int>(r));
  return order;
}

void RowsKernel::collect() {
  kernel_.function.buffers.clear();
  kernel_.arguments.clear();
  rows_.clear();
  stages_.clear();
  accesses_.emplace(scene_, group_, rows_of_stages_, kernel_);
  const ModelStage& last = scene_.stage(group_.stages.back());
  for (const int r : row_order())
    for (const te::Axis& a : last.axes)
      if (a.id == rows_of_stages_.back()[static_cast<size_t>(r)]) rows_.push_back({fresh(), a.name, a.extent.value()});
  for (size_t i = 0; i < group_.stages.size(); ++i) collect_stage(i);
}

void RowsKernel::collect_stage(size_t i) {
  const ModelStage& s = scene_.stage(group_.stages[i]);
  const std::vector<int> order = row_order();
  Inner inner;
  te::Substitution names;
  std::vector<Expr> at(s.axes.size());
  std::vector<te::Axis> scope;
  for (const int d : scene_.layout(s.value).order) {
    const te::Axis& a = s.axes[static_cast<size_t>(d)];
    Expr var = Expr(0);
    const std::vector<int>& ids = rows_of_stages_[i];
    const auto row = std::find(ids.begin(), ids.end(), a.id);
    if (row != ids.end()) {
      const auto r = std::find(order.begin(), order.end(), static_cast<int>(row - ids.begin()));
      var = rows_[static_cast<size_t>(r - order.begin())].expr();
    } else if (a.extent.value() != 1) {
      inner.spatial.push_back({fresh(), a.name, a.extent.value()});
      var = inner.spatial.back().expr();
    }
    names.var(a.id, var);
    at[static_cast<size_t>(d)] = var;
  }
  if (s.is_reduction())
    for (const te::Axis& a : s.body->axes) {
      if (a.extent.value() == 1) {
        names.var(a.id, Expr(0));
        continue;
      }
      inner.reduce.push_back({fresh(), a.name, a.extent.value()});
      names.var(a.id, inner.reduce.back().expr());
    }
  for (const auto* list : {&rows_, &inner.spatial, &inner.reduce})
    for (const LoopAxis& a : *list) scope.push_back(a.axis());
  if (!inner.spatial.empty()) accesses_->along(inner.spatial.back().var);
  inner.dtype = scene_.value(s.value).dtype;
  std::tie(inner.buffer, inner.address) = accesses_->write(s.value, at, scope);
  if (s.is_reduction()) {
    inner.combiner = s.body->combiner;
    inner.body = accesses_->flat(names(s.body->args[0]), scope);
    const Expr where = accesses_->flat(names(s.body->args[1]), scope);
    if (where->kind != Kind::Int) inner.where = where;
    if (where->kind == Kind::Int && where->integer == 0) inner.where = where;
    if (te::is_arg(*inner.combiner)) {
      Expr position(0);
      for (const LoopAxis& a : inner.reduce) position = position * Expr(a.extent) + a.expr();
      inner.position = te::simplify(position, scope);
    }
  } else {
    inner.body = accesses_->flat(names(s.body), scope);
  }
  stages_.push_back(std::move(inner));
}

// Where all of the group is rows, the last row becomes the axis of vectors, unless a reduction runs along memory.
bool RowsKernel::vectors_along_last_row() const {
  if (rows_.empty()) return false;
  for (const Inner& s : stages_) {
    if (!s.spatial.empty()) return false;
    if (!s.combiner || s.reduce.empty() || s.reduce.back().extent < 4) continue;
    if (stride_of_main_read(s.body, s.reduce.back().var, kernel_.function) == 1) return false;
  }
  return true;
}

void RowsKernel::merge(std::vector<LoopAxis>& axes, const std::vector<Inner*>& users) {
  std::vector<Expr*> bodies, indices;
  for (Inner* s : users) {
    for (Expr* e : {&s->body, &s->where, &s->position}) bodies.push_back(e);
    indices.push_back(&s->address);
  }
  join_axes(axes, bodies, indices, next_var_);
}

void RowsKernel::merge_axes() {
  std::vector<Inner*> all;
  for (Inner& s : stages_) all.push_back(&s);
  merge(rows_, all);
  for (Inner& s : stages_) merge(s.spatial, {&s});
  for (Inner& s : stages_) {
    if (!s.combiner || te::is_arg(*s.combiner)) continue;
    // Lanes run along the innermost reduced axis: the one that lies together.
    if (s.spatial.empty() && s.where.empty())
      std::stable_sort(s.reduce.begin(), s.reduce.end(), [&](const LoopAxis& a, const LoopAxis& b) {
        const auto stride = [&](const LoopAxis& x) {
          return std::abs(stride_of_main_read(s.body, x.var, kernel_.function).value_or(0));
        };
        return stride(a) > stride(b);
      });
    merge(s.reduce, {&s});
  }
  // One stage alone: the last row and the inside may be one axis.
  if (stages_.size() == 1 && stages_[0].spatial.size() == 1 && !rows_.empty()) {
    std::vector<LoopAxis> axes = {rows_.back(), stages_[0].spatial[0]};
    merge(axes, all);
    if (axes.size() == 1) {
      rows_.pop_back();
      stages_[0].spatial = axes;
    }
  }
  cut_long_axis();
}

// One stage over one long axis: the axis is cut into rows, so that there are tasks.
void RowsKernel::cut_long_axis() {
  if (stages_.size() != 1 || !rows_.empty() || stages_[0].spatial.size() != 1) return;
  Inner& s = stages_[0];
  const LoopAxis axis = s.spatial[0];
  const int64_t lanes = lanes_of(s);
  const auto pieces = std::min<int64_t>(static_cast<int64_t>(work(s) / kTaskWork), kMostTasks);
  if (pieces < 2 || axis.extent < 4 * lanes) return;
  const int64_t chunk = std::max<int64_t>(1, ceil_div(axis.extent / pieces, lanes)) * lanes;
  const int64_t count = (axis.extent + chunk - 1) / chunk;
  if (count < 2) return;
  const LoopAxis piece{fresh(), "piece", count}, inside{fresh(), axis.name, chunk};
  te::Substitution names;
  names.var(axis.var, piece.expr() * Expr(chunk) + inside.expr());
  for (Expr* e : {&s.body, &s.where, &s.address, &s.position})
    if (!e->empty()) *e = names(*e);
  rows_ = {piece};
  s.spatial = {inside};
  if (axis.extent % chunk != 0) cut_ = Cut{piece, axis.extent};
}

double RowsKernel::work(const Inner& s) const {
  double n = 1;
  for (const auto* axes : {&s.spatial, &s.reduce})
    for (const LoopAxis& a : *axes) n *= static_cast<double>(a.extent);
  return n * static_cast<double>(1 + price(s.body));
}

// Short rows are reduced several at a time: what one waits for, the last steps of a reduction, others fill.
int64_t RowsKernel::rows_at_once(int64_t count) const {
  int64_t longest = 0;
  bool reduces = false;
  for (const Inner& s : stages_) {
    int64_t n = 1;
    for (const auto* axes : {&s.spatial, &s.reduce})
      for (const LoopAxis& a : *axes) n *= a.extent;
    longest = std::max(longest, n);
    if (s.combiner && te::is_arg(*s.combiner)) return 1;
    reduces = reduces || (s.combiner && s.spatial.empty() && !s.reduce.empty());
  }
  if (!reduces || stages_.size() < 2) return 1;
  for (const int64_t rows : {4, 2})
    if (longest * rows <= kRowsAtOnce && count % rows == 0) return rows;
  return 1;
}

// The `first` buffers of the kernel, with copies of those that hold one row for the rows that run beside the first.
std::vector<int> RowsKernel::own_buffers(size_t first, bool copied) {
  auto& buffers = kernel_.function.buffers;
  std::vector<int> number(first);
  for (size_t i = 0; i < first; ++i) {
    number[i] = static_cast<int>(i);
    if (!copied || buffers[i].scope == loop::Scope::Argument) continue;
    number[i] = static_cast<int>(buffers.size());
    buffers.push_back(buffers[i]);
  }
  return number;
}

std::vector<Stmt> RowsKernel::all_loops() {
  rows_of_stages_ = group_.rows;
  collect();
  if (vectors_along_last_row()) {
    const int last = row_order().back();
    for (auto& rows : rows_of_stages_) rows.erase(rows.begin() + last);
    collect();
  }
  merge_axes();
  std::vector<Stmt> parts;
  for (Inner& s : stages_) parts.push_back(stage_loops(s));
  return parts;
}

int64_t RowsKernel::row_count() const {
  int64_t count = 1;
  for (const LoopAxis& a : rows_) count *= a.extent;
  return count;
}

void RowsKernel::describe() {
  double inside = 0;
  for (const Inner& s : stages_) inside += work(s);
  for (const Argument& a : kernel_.arguments) kernel_.bytes += static_cast<double>(scene_.value(a.value).bytes());
  kernel_.flops = inside * static_cast<double>(row_count());
  add_origin(kernel_.function, scene_, group_);
}

// `beside` rows from `first` on, stage after stage.
Stmt RowsKernel::rows_beside(const std::vector<Stmt>& parts, int64_t beside, const Expr& first) {
  std::vector<std::vector<int>> own;
  const auto held = kernel_.function.buffers.size();
  for (int64_t i = 0; i < beside; ++i) own.push_back(own_buffers(held, i > 0));
  std::vector<Stmt> all;
  for (const Stmt& part : parts)
    for (int64_t i = 0; i < beside; ++i) {
      te::Substitution names;
      unflatten_into(names, rows_, te::simplify(first + Expr(i)));
      all.push_back(substitute(on_buffers(part, own[static_cast<size_t>(i)]), names));
    }
  return Stmt::seq(std::move(all));
}

// The loops over rows, cut into tasks of enough work.
void RowsKernel::in_tasks(const std::vector<Stmt>& parts) {
  const int64_t count = row_count(), beside = rows_at_once(count);
  const auto wanted = static_cast<int64_t>(kernel_.flops / kTaskWork);
  const int64_t tasks = std::clamp<int64_t>(wanted, 1, std::min(kMostTasks, count));
  const int64_t chunk = ceil_div(ceil_div(count, tasks), beside) * beside, made = ceil_div(count, chunk);
  const LoopAxis task{fresh(), "task", made}, each{fresh(), "row", chunk / beside};
  const bool single = chunk == beside && count % chunk == 0;
  const Expr first = task.expr() * Expr(chunk);
  Stmt rows = rows_beside(parts, beside, single ? first : first + each.expr() * Expr(beside));
  if (!single) {
    Expr length(chunk);
    if (count % chunk != 0) length = te::min(length, Expr(count) - first);
    if (beside > 1) length = te::floor_div(length, Expr(beside));
    rows = Stmt::loop(each.var, each.name, te::simplify(length), LoopKind::Serial, rows);
  }
  kernel_.function.body =
      Stmt::loop(task.var, task.name, Expr(made), made > 1 ? LoopKind::Parallel : LoopKind::Serial, rows);
}

void RowsKernel::in_blocks(const std::vector<Stmt>& parts, const RowBlocks& b) {
  const int64_t blocks = ceil_div(b.rows, b.block), beside = rows_at_once(std::gcd(b.rows, b.block));
  const LoopAxis task{fresh(), "task", b.batch * blocks}, each{fresh(), "row", b.block / beside};
  const Expr first = te::floor_mod(task.expr(), Expr(blocks)) * Expr(b.block);
  const Expr row = te::floor_div(task.expr(), Expr(blocks)) * Expr(b.rows) + first + each.expr() * Expr(beside);
  Expr length(b.block);
  if (b.rows % b.block != 0) length = te::min(length, Expr(b.rows) - first);
  if (beside > 1) length = te::floor_div(length, Expr(beside));
  const Stmt rows = Stmt::loop(each.var, each.name, te::simplify(length, std::vector<te::Axis>{task.axis()}),
                               LoopKind::Serial, rows_beside(parts, beside, row));
  kernel_.function.body =
      Stmt::loop(task.var, task.name, Expr(task.extent), task.extent > 1 ? LoopKind::Parallel : LoopKind::Serial, rows);
}

std::optional<Kernel> rows_kernel_in_blocks(const Scene& scene, const Group& group, const RowBlocks& blocks) {
  return RowsKernel(scene, group, "kernel").make(blocks);
}

Kernel prologue_kernel(const Scene& scene, const Group& group) {
  return rows_kernel(scene, alone(*scene.graph, group.prologue), "kernel");
}

Kernel rows_kernel(const Scene& scene, const Group& group, std::string name) {
  return RowsKernel(scene, group, std::move(name)).make();
}

}  // namespace isomer::compile
