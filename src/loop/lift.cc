#include "loop/lift.h"

#include <algorithm>
#include <map>

#include "loop/affine.h"
#include "loop/guards.h"
#include "te/program.h"
#include "te/substitute.h"

namespace isomer::loop {
namespace {

using te::Axis;
using te::Combiner;
using te::Expr;
using te::Kind;

Expr both(const Expr& first, const Expr& then) {
  if (is_true(first)) return then;
  if (is_true(then)) return first;
  return te::select(first, then, te::truth(false));
}

class Lifter {
 public:
  explicit Lifter(const te::Program& p) : in_(p) {
    out_.inputs = p.inputs;
    const auto widest = [&](const Axis& a) { next_axis_ = std::max(next_axis_, a.id + 1); };
    for (const te::Stage& s : p.stages) {
      std::for_each(s.axes.begin(), s.axes.end(), widest);
      te::Expr body = s.body;
      rebuild(body, [&](const Expr& e) {
        std::for_each(e->axes.begin(), e->axes.end(), widest);
        return Expr();
      });
    }
  }

  te::Program run() {
    for (size_t s = 0; s < in_.inputs.size(); ++s) slots_.push_back(static_cast<int>(s));
    for (const te::Stage& s : in_.stages) {
      te::Stage fresh = s;
      fresh.body = moved(apart(s.body));
      rename(fresh.axes, fresh.body);
      slots_.push_back(stage(std::move(fresh)));
    }
    for (const int slot : in_.outputs) out_.outputs.push_back(slots_[static_cast<size_t>(slot)]);
    return std::move(out_);
  }

 private:
  Axis fresh(const Axis& a) { return {next_axis_++, a.name, a.extent}; }

  void rename(std::vector<Axis>& axes, Expr& body) {
    Substitution map;
    for (Axis& a : axes) {
      const Axis old = a;
      a = fresh(a);
      map.emplace(old.id, a);
    }
    body = substitute(body, map);
  }

  // Every Reduce binds axes of its own.
  Expr apart(const Expr& e) {
    return rebuild(e, [&](const Expr& x) {
      if (x->kind != Kind::Reduce) return Expr();
      te::Node n = *x;
      Substitution map;
      for (Axis& a : n.axes) {
        const Axis old = a;
        a = fresh(a);
        map.emplace(old.id, a);
      }
      for (Expr& arg : n.args) arg = substitute(arg, map);
      return Expr::make(std::move(n));
    });
  }

  Expr moved(const Expr& e) {
    return rebuild(e, [&](const Expr& x) {
      if (x->kind != Kind::Read || slots_[static_cast<size_t>(x->tensor)] == x->tensor) return Expr();
      te::Node n = *x;
      n.tensor = slots_[static_cast<size_t>(n.tensor)];
      return Expr::make(std::move(n));
    });
  }

  int add(te::Stage s) {
    out_.stages.push_back(std::move(s));
    return static_cast<int>(out_.inputs.size() + out_.stages.size()) - 1;
  }

  static bool accumulates_wider(const te::Node& r) {
    const bool adds = r.combiner == Combiner::Sum || r.combiner == Combiner::Product;
    return adds && (r.dtype == DType::F16 || r.dtype == DType::BF16);
  }

  int stage(te::Stage s) {
    const bool plain = s.body->kind == Kind::Reduce && !te::is_arg(s.body->combiner) && !accumulates_wider(*s.body);
    memo_.clear();
    const std::vector<Axis> scope = s.axes;
    if (plain) {
      te::Node r = *s.body;
      std::vector<Axis> inner = scope;
      inner.insert(inner.end(), r.axes.begin(), r.axes.end());
      const Expr where = lift(r.args[1], te::truth(true), inner, s.name);
      r.args = {lift(r.args[0], where, inner, s.name), where};
      s.body = Expr::make(std::move(r));
    } else {
      s.body = lift(s.body, te::truth(true), scope, s.name);
    }
    return add(std::move(s));
  }

  // The expression with every Reduce in it replaced by a read of a stage that computes it where `path` holds.
  Expr lift(const Expr& e, const Expr& path, const std::vector<Axis>& scope, const std::string& name) {
    const auto key = std::pair(e.identity(), path.identity());
    if (const auto it = memo_.find(key); it != memo_.end()) return it->second;
    keep_.push_back(e);
    keep_.push_back(path);
    Expr out = e;
    if (e->kind == Kind::Reduce) {
      out = stage_of(e, path, scope, name);
    } else if (e->kind == Kind::Select) {
      const Expr c = lift(e->args[0], path, scope, name);
      const Expr yes = lift(e->args[1], te::has_reduction(e->args[1]) ? both(path, c) : path, scope, name);
      const Expr no = lift(e->args[2], te::has_reduction(e->args[2]) ? both(path, !c) : path, scope, name);
      out = te::select(c, yes, no);
    } else if (!e->args.empty()) {
      te::Node n = *e;
      bool changed = false;
      for (Expr& x : n.args) {
        const Expr y = lift(x, path, scope, name);
        changed |= !y.same_node(x);
        x = y;
      }
      if (changed) out = Expr::make(std::move(n));
    }
    memo_.emplace(key, out);
    return out;
  }

  // A stage over those axes in scope that `reduction` depends on, and the read of it.
  Expr stage_of(const Expr& reduction, const Expr& path, const std::vector<Axis>& scope, const std::string& name) {
    te::Node r = *reduction;
    r.args[1] = both(path, r.args[1]);
    std::vector<int> used;
    variables(r.args[0], used);
    variables(r.args[1], used);
    std::vector<Axis> free;
    for (const Axis& a : scope)
      if (std::find(used.begin(), used.end(), a.id) != used.end()) free.push_back(a);
    const auto memo = std::move(memo_);
    Expr out = te::is_arg(r.combiner) ? position(r, free, name) : value(r, free, name);
    memo_ = memo;
    return out;
  }

  Expr read_stage(const std::string& name, std::vector<Axis> axes, Expr body) {
    const std::vector<Expr> at = te::exprs(axes);
    const DType dtype = body.dtype();
    body = apart(body);
    rename(axes, body);
    return Expr::read(stage({name, dtype, std::move(axes), std::move(body)}), dtype, at);
  }

  Expr value(const te::Node& r, const std::vector<Axis>& free, const std::string& name) {
    const std::string own = name + "_" + std::string(te::name(r.combiner));
    if (!accumulates_wider(r)) return read_stage(own, free, Expr::make(r));
    const Expr wide = te::reduce(r.combiner, r.axes, te::cast(DType::F32, r.args[0]), r.args[1]);
    return te::cast(r.dtype, read_stage(own, free, wide));
  }

  // The extremum first, then the least (or greatest) position that has it. Both look at the same stored numbers.
  Expr position(const te::Node& r, const std::vector<Axis>& free, const std::string& name) {
    const bool most = r.combiner == Combiner::ArgMax || r.combiner == Combiner::ArgMaxLast;
    const bool last = r.combiner == Combiner::ArgMaxLast || r.combiner == Combiner::ArgMinLast;
    Expr v = r.args[0];
    if (v->kind != Kind::Read) {
      std::vector<Axis> all = free;
      all.insert(all.end(), r.axes.begin(), r.axes.end());
      const Expr guarded = is_true(r.args[1]) ? v : te::select(r.args[1], v, Expr::literal(v.dtype(), 0));
      v = read_stage(name + "_values", all, guarded);
    }
    const Expr best = read_stage(name + (most ? "_max" : "_min"), free,
                                 te::reduce(most ? Combiner::Max : Combiner::Min, r.axes, v, r.args[1]));
    Expr hit = te::eq(v, best);
    if (is_float(v.dtype())) hit = hit || te::unary(te::UnaryOp::IsNan, v);
    std::vector<Dim> dims;
    for (const Axis& a : r.axes) dims.push_back(a.extent);
    const Expr at = te::flatten(te::exprs(r.axes), dims);
    const Expr found = read_stage(name + "_position", free,
                                  te::reduce(last ? Combiner::Max : Combiner::Min, r.axes, at, both(r.args[1], hit)));
    return te::select(te::eq(found, Expr(last ? INT64_MIN : INT64_MAX)), Expr(0), found);
  }

  const te::Program& in_;
  te::Program out_;
  std::vector<int> slots_;
  int next_axis_ = 0;
  std::map<std::pair<const void*, const void*>, Expr> memo_;
  std::vector<Expr> keep_;  // identities in the memo stay those of living nodes
};

}  // namespace

te::Program lift_reductions(const te::Program& program) { return Lifter(program).run(); }

}  // namespace isomer::loop
