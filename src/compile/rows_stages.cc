// What stands inside one row of RowsKernel: element-wise stages and reductions, by vectors.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "compile/rows_kernel.h"
#include "te/scalar.h"
#include "te/simplify.h"
#include "te/substitute.h"

namespace isomer::compile {

using loop::LoopKind;
using loop::Stmt;
using te::Combiner;
using te::Expr;
using te::Kind;

namespace {

constexpr int64_t kChains = 4;  // partial results of a reduction at a time
constexpr int64_t kLongReduction = 64;
constexpr int64_t kShortRow = 8;  // elements that are worth a vector

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

}  // namespace

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

// Vectors along an axis that stays: one accumulator a lane. Long reductions take several vectors side by side, so that one step need
// not wait for the one before, and share what does not depend on the axis.
Stmt RowsKernel::reduce_across(Inner& s) {
  const LoopAxis inner = s.spatial.back();
  const int64_t lanes = lanes_of(s);
  const DType type = accumulator(s.body.dtype());
  int64_t steps = 1;
  for (const LoopAxis& a : s.reduce) steps *= a.extent;
  const int64_t side = steps >= kLongReduction && !cut_ ? std::clamp<int64_t>(inner.extent / lanes, 1, kChains) : 1;
  const int acc = local(type, side * lanes);
  const std::vector<int> guards = s.where.empty() ? std::vector<int>{} : te::free_vars(s.where);
  const bool lanewise = std::find(guards.begin(), guards.end(), inner.var) != guards.end();
  const Block body = [&](const Expr& start, int64_t count) {
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
  };
  LoopAxis wide = inner;
  wide.extent -= inner.extent % (side * lanes);
  std::vector<Stmt> loops = {side == 1 ? blocks(inner, lanes, body) : blocks(wide, side * lanes, body)};
  for (int64_t from = wide.extent; side > 1 && from < inner.extent; from += lanes)
    loops.push_back(body(Expr(from), std::min(lanes, inner.extent - from)));
  return nest({s.spatial.begin(), s.spatial.end() - 1}, Stmt::seq(std::move(loops)));
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

}  // namespace isomer::compile
