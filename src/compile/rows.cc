// Groups of stages as loops over shared rows. The rows are the outer loops; inside one row the stages follow each other,
// values that only the group needs stay in the worker's scratch memory, and vectors run along the axis that lies together.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "compile/accesses.h"
#include "compile/finish.h"
#include "compile/kernel.h"
#include "te/scalar.h"
#include "te/simplify.h"
#include "te/substitute.h"

namespace isomer::compile {

using loop::LoopKind;
using loop::Stmt;
using te::Combiner;
using te::Expr;
using te::Kind;

int Scene::lanes(DType t) const {
  const auto bytes = static_cast<int>(std::max<size_t>(size_of(t), 4));  // narrower types are computed in 4 bytes
  return std::max(1, target.vector_bytes / bytes);
}

namespace {

constexpr double kTaskWork = 20000;  // operations that are worth a task of their own
constexpr int64_t kMostTasks = 256;
constexpr int64_t kChains = 4;         // partial results of a reduction at a time
constexpr int64_t kRowsAtOnce = 1024;  // elements of the rows that are reduced at a time
constexpr int64_t kShortRow = 8;       // elements that are worth a vector

Expr neutral(Combiner c, DType t) {
  return is_float(t) ? Expr::real(t, te::real_identity(c)) : Expr::integer(t, te::int_identity(c, t));
}

// Sums of narrow floats are kept in float until they are stored.
DType accumulator(DType t) { return t == DType::F16 || t == DType::BF16 ? DType::F32 : t; }

bool is_division(const Expr& e) {
  return e->kind == Kind::Binary && e->binary == te::BinaryOp::Div && e->dtype == DType::F32;
}

// Whether what it computes becomes integers: then a quotient is rounded as a division rounds it, since ties show.
bool rounds(const Expr& body) {
  bool found = is_int(body.dtype());
  te::for_each_node(body, [&](const Expr& n) {
    if (n->kind == Kind::Cast) found = found || (is_int(n->dtype) && is_float(n->args[0].dtype()));
    if (n->kind == Kind::Unary) found = found || (n->unary >= te::UnaryOp::Floor && n->unary <= te::UnaryOp::Trunc);
  });
  return found;
}

// What all elements along an axis are divided by: a value that was read and stays the same. Empty when there is none.
Expr common_divisor(const Expr& body, int axis) {
  Expr found;
  if (rounds(body)) return found;
  te::for_each_node(body, [&](const Expr& n) {
    if (!found.empty() || !is_division(n) || n->args[1]->kind != Kind::Read) return;
    const std::vector<int> vars = te::free_vars(n->args[1]);
    if (std::find(vars.begin(), vars.end(), axis) == vars.end()) found = n->args[1];
  });
  return found;
}

// The expression with multiplications by the reciprocal in place of divisions by the divisor. `done`: by node.
Expr times(const Expr& e, const Expr& divisor, const Expr& reciprocal, std::map<const void*, Expr>& done) {
  if (e->args.empty() || e->kind == Kind::Read) return e;
  if (const auto it = done.find(e.identity()); it != done.end()) return it->second;
  te::Node node = *e;
  for (Expr& a : node.args) a = times(a, divisor, reciprocal, done);
  const bool divides = is_division(e) && te::equal(e->args[1], divisor);
  return done[e.identity()] = divides ? node.args[0] * reciprocal : Expr::make(std::move(node));
}

class RowsKernel {
 public:
  RowsKernel(const Scene& scene, const Group& group, std::string name) : scene_(scene), group_(group) {
    kernel_.function.name = std::move(name);
  }

  Kernel make() {
    const std::vector<Stmt> parts = all_loops();
    describe();
    if (rows_.empty())
      kernel_.function.body = Stmt::seq(parts);
    else
      in_tasks(parts);
    arguments_first(kernel_.function);
    return std::move(kernel_);
  }

  std::optional<Kernel> make(const RowBlocks& blocks) {
    const std::vector<Stmt> parts = all_loops();
    describe();
    if (row_count() != blocks.batch * blocks.rows || cut_) return std::nullopt;
    in_blocks(parts, blocks);
    arguments_first(kernel_.function);
    return std::move(kernel_);
  }

 private:
  struct Inner {
    std::vector<LoopAxis> spatial;  // inside the row, outermost first
    std::vector<LoopAxis> reduce;
    Expr body;   // over flat reads; of a reduction: what is combined
    Expr where;  // of a reduction; empty: always
    std::optional<Combiner> combiner;
    DType dtype = DType::F32;  // of the value
    Expr address;              // of the element that is written
    int buffer = -1;
    Expr position;  // Arg reductions: row-major over the reduced axes
  };

  int fresh() { return next_var_++; }

  void collect();
  void collect_stage(size_t i);
  std::vector<int> row_order() const;
  bool vectors_along_last_row() const;
  void merge_axes();
  void cut_long_axis();
  void merge(std::vector<LoopAxis>& axes, const std::vector<Inner*>& users);
  Stmt stage_loops(Inner& s);
  Stmt pointwise(Inner& s);
  Stmt reduction(Inner& s);
  Stmt reduce_across(Inner& s);
  Stmt reduce_lanes(Inner& s);
  Stmt arg_reduction(Inner& s);
  Stmt guarded(const Inner& s, Stmt body) const;
  // Loops round `body`, outermost first.
  static Stmt nest(const std::vector<LoopAxis>& axes, Stmt body);
  // An axis cut into blocks of `lanes`, the rest as a shorter one; `body` is given a block's start and length.
  using Block = std::function<Stmt(const Expr& start, int64_t count)>;
  Stmt blocks(const LoopAxis& axis, int64_t lanes, const Block& body);
  // A vector loop over one block; `body` is given the position on the axis and the number of the lane.
  using Lanes = std::function<Stmt(const Expr& position, const Expr& lane)>;
  Stmt vector(const Expr& start, int64_t count, const Lanes& body);
  int64_t lanes_of(const Inner& s) const;
  int local(DType t, int64_t elements);
  std::vector<Stmt> all_loops();
  int64_t row_count() const;
  void describe();
  Stmt rows_beside(const std::vector<Stmt>& parts, int64_t beside, const Expr& first);
  void in_tasks(const std::vector<Stmt>& parts);
  void in_blocks(const std::vector<Stmt>& parts, const RowBlocks& blocks);
  int64_t rows_at_once(int64_t count) const;
  std::vector<int> own_buffers(size_t first, bool copied);
  double work(const Inner& s) const;

  const Scene& scene_;
  const Group& group_;
  Kernel kernel_;
  int next_var_ = 0;
  std::vector<std::vector<int>> rows_of_stages_;  // as Group::rows, less an axis that is taken for vectors
  std::vector<LoopAxis> rows_;
  std::vector<Inner> stages_;
  // When the only axis was cut into pieces that do not divide it: the last one is shorter.
  struct Cut {
    LoopAxis piece;
    int64_t total;
  };
  std::optional<Cut> cut_;
  std::optional<Accesses> accesses_;
};

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

Stmt RowsKernel::nest(const std::vector<LoopAxis>& axes, Stmt body) {
  for (size_t i = axes.size(); i-- > 0;)
    body = Stmt::loop(axes[i].var, axes[i].name, Expr(axes[i].extent), LoopKind::Serial, body);
  return body;
}

Stmt RowsKernel::blocks(const LoopAxis& axis, int64_t lanes, const Block& body) {
  std::vector<Stmt> parts;
  const auto whole_blocks = [&](const Expr& count) {
    const LoopAxis block{next_var_++, axis.name, axis.extent / lanes};
    return Stmt::loop(block.var, block.name, count, LoopKind::Serial, body(block.expr() * Expr(lanes), lanes));
  };
  if (cut_) {
    const int64_t rest = cut_->total % lanes, before = (cut_->piece.extent - 1) * axis.extent;
    const Expr left = Expr(cut_->total) - cut_->piece.expr() * Expr(axis.extent);
    parts.push_back(whole_blocks(te::floor_div(te::min(Expr(axis.extent), left), Expr(lanes))));
    if (rest > 0)
      parts.push_back(Stmt::branch(te::eq(cut_->piece.expr(), Expr(cut_->piece.extent - 1)),
                                   body(Expr(cut_->total - rest - before), rest)));
    return Stmt::seq(std::move(parts));
  }
  const int64_t whole = axis.extent / lanes, rest = axis.extent % lanes;
  if (whole == 1) parts.push_back(body(Expr(0), lanes));
  if (whole > 1) parts.push_back(whole_blocks(Expr(whole)));
  if (rest > 0) parts.push_back(body(Expr(whole * lanes), rest));
  return Stmt::seq(std::move(parts));
}

Stmt RowsKernel::vector(const Expr& start, int64_t count, const Lanes& body) {
  if (count == 1) return body(start, Expr(0));
  const LoopAxis lane{next_var_++, "v", count};
  return Stmt::loop(lane.var, lane.name, Expr(count), LoopKind::Vector,
                    body(te::simplify(start + lane.expr()), lane.expr()));
}

int64_t RowsKernel::lanes_of(const Inner& s) const {
  int64_t lanes = scene_.lanes(s.dtype);
  te::for_each_node(s.body, [&](const Expr& n) {
    if (n->kind == Kind::Read) lanes = std::min<int64_t>(lanes, scene_.lanes(n->dtype));
  });
  return lanes;
}

int RowsKernel::local(DType t, int64_t elements) {
  auto& buffers = kernel_.function.buffers;
  buffers.push_back({fmt::format("acc{}", buffers.size()), t, {elements}, loop::Scope::Local, true});
  return static_cast<int>(buffers.size()) - 1;
}

Stmt RowsKernel::stage_loops(Inner& s) {
  if (s.combiner) return te::is_arg(*s.combiner) ? arg_reduction(s) : reduction(s);
  return pointwise(s);
}

Stmt RowsKernel::pointwise(Inner& s) {
  if (s.spatial.empty()) return Stmt::store(s.buffer, {s.address}, s.body);
  const LoopAxis inner = s.spatial.back();
  const auto loops = [&](const Expr& body) {
    return blocks(inner, lanes_of(s), [&](const Expr& start, int64_t count) {
      return vector(start, count, [&](const Expr& at, const Expr&) {
        te::Substitution names;
        names.var(inner.var, at);
        return Stmt::store(s.buffer, {names(s.address)}, names(body));
      });
    });
  };
  Stmt all = loops(s.body);
  if (const Expr divisor = common_divisor(s.body, inner.var); !divisor.empty() && inner.extent >= 2 * lanes_of(s)) {
    const int reciprocal = local(DType::F32, 1);
    const Expr one = Expr::real(DType::F32, 1), least = Expr::real(DType::F32, 0x1p-100);
    const Stmt divide = Stmt::store(reciprocal, {Expr(0)}, one / divisor);
    std::map<const void*, Expr> done;
    const Stmt fast = loops(times(s.body, divisor, Expr::read(reciprocal, DType::F32, {Expr(0)}), done));
    all = Stmt::branch(least <= te::abs(divisor), Stmt::seq({divide, fast}), all);
  }
  return nest({s.spatial.begin(), s.spatial.end() - 1}, all);
}

Stmt RowsKernel::reduction(Inner& s) {
  if (!s.spatial.empty()) return reduce_across(s);
  return reduce_lanes(s);
}

Stmt RowsKernel::guarded(const Inner& s, Stmt body) const {
  return s.where.empty() ? body : Stmt::branch(s.where, std::move(body));
}

// Vectors along an axis that stays: one accumulator a lane.
Stmt RowsKernel::reduce_across(Inner& s) {
  const LoopAxis inner = s.spatial.back();
  const int64_t lanes = lanes_of(s);
  const DType type = accumulator(s.body.dtype());
  const int acc = local(type, lanes);
  const std::vector<int> guards = s.where.empty() ? std::vector<int>{} : te::free_vars(s.where);
  const bool lanewise = std::find(guards.begin(), guards.end(), inner.var) != guards.end();
  const Stmt loops = blocks(inner, lanes, [&](const Expr& start, int64_t count) {
    const auto at = [&](const Expr& position, const Expr& e) {
      te::Substitution names;
      names.var(inner.var, position);
      return names(e);
    };
    const Stmt init = vector(start, count, [&](const Expr&, const Expr& lane) {
      return Stmt::store(acc, {lane}, neutral(*s.combiner, type));
    });
    const Stmt update = vector(start, count, [&](const Expr& position, const Expr& lane) {
      Expr value = at(position, s.body);
      if (lanewise) value = te::select(at(position, s.where), value, neutral(*s.combiner, value.dtype()));
      return Stmt::store(acc, {lane}, value, s.combiner);
    });
    const Stmt out = vector(start, count, [&](const Expr& position, const Expr& lane) {
      return Stmt::store(s.buffer, {at(position, s.address)}, Expr::read(acc, type, {lane}));
    });
    return Stmt::seq({init, nest(s.reduce, lanewise ? update : guarded(s, update)), out});
  });
  return nest({s.spatial.begin(), s.spatial.end() - 1}, loops);
}

// Vectors along the innermost reduced axis: partial results in lanes, combined at the end.
Stmt RowsKernel::reduce_lanes(Inner& s) {
  const DType type = accumulator(s.body.dtype());
  const int total = local(type, 1);
  const auto store_total = [&](Expr v) { return Stmt::store(total, {Expr(0)}, std::move(v), s.combiner); };
  std::vector<Stmt> parts = {Stmt::store(total, {Expr(0)}, neutral(*s.combiner, type))};
  const int64_t lanes = lanes_of(s);
  if (s.reduce.empty()) {
    parts.push_back(guarded(s, store_total(s.body)));
  } else if (s.reduce.size() == 1 && s.where.empty() && s.reduce[0].extent >= kShortRow &&
             s.reduce[0].extent < 2 * lanes) {
    // A short row as one vector and the rest of it.
    const LoopAxis inner = s.reduce[0];
    parts.push_back(blocks(inner, lanes, [&](const Expr& start, int64_t count) {
      return vector(start, count, [&](const Expr& at, const Expr&) {
        te::Substitution names;
        names.var(inner.var, at);
        return store_total(names(s.body));
      });
    }));
  } else if (s.reduce.back().extent < 2 * lanes) {
    parts.push_back(nest(s.reduce, guarded(s, store_total(s.body))));
  } else {
    const LoopAxis inner = s.reduce.back();
    // Several partial results side by side, so that one step need not wait for the one before.
    const int64_t chains = std::clamp<int64_t>(inner.extent / (2 * lanes), 1, kChains);
    std::vector<int> acc;
    for (int64_t j = 0; j < chains; ++j) {
      acc.push_back(local(type, lanes));
      parts.push_back(vector(Expr(0), lanes, [&](const Expr&, const Expr& lane) {
        return Stmt::store(acc.back(), {lane}, neutral(*s.combiner, type));
      }));
    }
    const Stmt loops = blocks(inner, chains * lanes, [&](const Expr& start, int64_t count) {
      std::vector<Stmt> steps;
      for (int64_t from = 0; from < count; from += lanes) {
        const int64_t length = std::min(lanes, count - from);
        steps.push_back(vector(start + Expr(from), length, [&](const Expr& at, const Expr& lane) {
          te::Substitution names;
          names.var(inner.var, at);
          Expr value = names(s.body);
          if (!s.where.empty()) value = te::select(names(s.where), value, neutral(*s.combiner, value.dtype()));
          // A part of a vector would have to be written beside the rest of it, through memory.
          if (length < lanes) return store_total(value);
          return Stmt::store(acc[static_cast<size_t>(from / lanes)], {lane}, value, s.combiner);
        }));
      }
      return Stmt::seq(std::move(steps));
    });
    parts.push_back(nest({s.reduce.begin(), s.reduce.end() - 1}, loops));
    for (size_t j = 1; j < acc.size(); ++j)
      parts.push_back(vector(Expr(0), lanes, [&](const Expr&, const Expr& lane) {
        return Stmt::store(acc[0], {lane}, Expr::read(acc[j], type, {lane}), s.combiner);
      }));
    parts.push_back(vector(
        Expr(0), lanes, [&](const Expr&, const Expr& lane) { return store_total(Expr::read(acc[0], type, {lane})); }));
  }
  parts.push_back(Stmt::store(s.buffer, {s.address}, Expr::read(total, type, {Expr(0)})));
  return Stmt::seq(std::move(parts));
}

// The best value so far and its position, side by side. NaN is better than any number; of equals the first or the last.
Stmt RowsKernel::arg_reduction(Inner& s) {
  const DType type = accumulator(s.body.dtype());
  const int best = local(type, 1), place = local(DType::I64, 1);
  const bool largest = *s.combiner == Combiner::ArgMax || *s.combiner == Combiner::ArgMaxLast;
  const bool last = *s.combiner == Combiner::ArgMaxLast || *s.combiner == Combiner::ArgMinLast;
  const Expr now = type == s.body.dtype() ? s.body : te::cast(type, s.body);
  const Expr old = Expr::read(best, type, {Expr(0)}), found = Expr::read(place, DType::I64, {Expr(0)});
  Expr better = largest ? now > old : now < old;
  if (last) better = better || te::eq(now, old);
  if (is_float(type)) {
    const Expr nan = te::unary(te::UnaryOp::IsNan, now), was_nan = te::unary(te::UnaryOp::IsNan, old);
    better = last ? better || nan : better || (nan && !was_nan);
  }
  better = better || found < Expr(0);
  const Stmt take =
      Stmt::branch(better, Stmt::seq({Stmt::store(place, {Expr(0)}, s.position), Stmt::store(best, {Expr(0)}, now)}));
  std::vector<Stmt> parts = {Stmt::store(best, {Expr(0)}, Expr::literal(type, 0)),
                             Stmt::store(place, {Expr(0)}, Expr(-1)), nest(s.reduce, guarded(s, take))};
  Expr result = te::max(found, Expr(0));
  if (s.dtype != DType::I64) result = te::cast(s.dtype, result);
  parts.push_back(Stmt::store(s.buffer, {s.address}, result));
  return nest(s.spatial, Stmt::seq(std::move(parts)));
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

}  // namespace

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
