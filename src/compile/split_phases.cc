#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "compile/group.h"
#include "loop/affine.h"
#include "te/simplify.h"
#include "te/substitute.h"

namespace isomer::compile {

using te::BinaryOp;
using te::Expr;
using te::Kind;

namespace {

constexpr int64_t kMostPhases = 16;  // each is kernels of its own, which take time to make

// (linear form of one axis of the stage and one of the reduction) mod `modulus` == 0
struct Comb {
  size_t dim = 0;  // of the stage
  size_t tap = 0;  // of the reduction's axes
  int64_t modulus = 1;
  int64_t of_dim = 0, of_tap = 0, constant = 0;
};

void conjuncts(const Expr& e, std::vector<Expr>& out) {
  if (e->kind == Kind::Binary && e->binary == BinaryOp::And) {
    conjuncts(e->args[0], out);
    conjuncts(e->args[1], out);
  } else {
    out.push_back(e);
  }
}

int64_t floor_mod(int64_t a, int64_t b) { return ((a % b) + b) % b; }

std::optional<Comb> comb(const Expr& e, const ModelStage& s) {
  if (e->kind != Kind::Binary || e->binary != BinaryOp::Eq) return std::nullopt;
  const bool left = e->args[0]->kind == Kind::Binary;
  const Expr &remainder = e->args[left ? 0 : 1], &value = e->args[left ? 1 : 0];
  if (remainder->kind != Kind::Binary || remainder->binary != BinaryOp::FloorMod) return std::nullopt;
  if (value->kind != Kind::Int || remainder->args[1]->kind != Kind::Int) return std::nullopt;
  const auto form = linear(remainder->args[0]);
  Comb out;
  out.modulus = remainder->args[1]->integer;
  if (!form || out.modulus < 2 || form->terms.size() != 2) return std::nullopt;
  out.constant = form->constant - value->integer;
  const auto dim = std::find_if(s.axes.begin(), s.axes.end(), [&](const te::Axis& a) { return form->of(a.id) != 0; });
  const std::vector<te::Axis>& taps = s.body->axes;
  const auto tap = std::find_if(taps.begin(), taps.end(), [&](const te::Axis& a) { return form->of(a.id) != 0; });
  if (dim == s.axes.end() || tap == taps.end()) return std::nullopt;
  out.dim = static_cast<size_t>(dim - s.axes.begin());
  out.tap = static_cast<size_t>(tap - taps.begin());
  out.of_dim = form->of(dim->id);
  out.of_tap = form->of(tap->id);
  return out;
}

// The taps that a phase of an axis has: first, first + step, ...
struct Taps {
  int64_t first = 0, step = 1, count = 0;
};

Taps taps_of(const Comb& c, int64_t phase, int64_t extent) {
  Taps out;
  out.step = c.modulus / std::gcd(c.modulus, std::abs(c.of_tap));
  for (int64_t k = 0; k < std::min(out.step, extent); ++k)
    if (floor_mod(c.of_dim * phase + c.of_tap * k + c.constant, c.modulus) == 0) {
      out.first = k;
      out.count = (extent - k + out.step - 1) / out.step;
    }
  return out;
}

class Splitting {
 public:
  explicit Splitting(StageGraph& g) : g_(g) {}

  void run() {
    bool changed = false;
    for (size_t s = 0; s < g_.stages.size(); ++s) {
      combs_.clear();
      if (!find(g_.stages[s])) continue;
      if (!changed) readers_ = g_.readers();
      changed = true;
      split(s);
    }
    if (!changed) return;
    insert();
    g_.prune();
  }

 private:
  struct Phase {
    std::vector<int64_t> start, step;  // by dim
    std::vector<Taps> taps;            // by comb
  };

  // Sums with a condition on remainders: every phase of the axes has taps of its own.
  bool find(const ModelStage& s) {
    if (!s.runs() || !s.is_reduction() || s.body->combiner != te::Combiner::Sum) return false;
    std::vector<Expr> parts;
    conjuncts(s.body->args[1], parts);
    rest_.clear();
    int64_t phases = 1;
    for (const Expr& e : parts) {
      const auto c = comb(e, s);
      if (!c) {
        rest_.push_back(e);
        continue;
      }
      for (const Comb& other : combs_)
        if (other.dim == c->dim || other.tap == c->tap) return false;
      if (s.axes[c->dim].extent.value() < c->modulus || (phases *= c->modulus) > kMostPhases) return false;
      combs_.push_back(*c);
    }
    return !combs_.empty();
  }

  // What is computed of every element of the sum and of constants, while nobody else needs what is between.
  std::vector<size_t> followers(size_t s) const {
    std::vector<size_t> out;
    for (int value = g_.stages[s].value;;) {
      const auto& users = readers_[static_cast<size_t>(value)];
      if (users.size() != 1 || std::find(g_.outputs.begin(), g_.outputs.end(), value) != g_.outputs.end()) return out;
      const auto user = static_cast<size_t>(users[0]);
      if (!follows(g_.stages[user], value)) return out;
      out.push_back(user);
      value = g_.stages[user].value;
    }
  }

  bool follows(const ModelStage& user, int value) const {
    const StageValue& from = g_.values[static_cast<size_t>(value)];
    const StageValue& to = g_.values[static_cast<size_t>(user.value)];
    if (user.is_reduction() || !user.runs() || from.dims != to.dims || is_move(user.body)) return false;
    for (const int v : values_read(user.body))
      if (v != value && !g_.values[static_cast<size_t>(v)].constant) return false;
    const std::vector<Expr> reads = reads_of(user.body, value);
    if (reads.size() != 1) return false;
    for (size_t d = 0; d < user.axes.size(); ++d)
      if (from.dims[d] > 1 && plain_var(reads[0]->args[d]) != user.axes[d].id) return false;
    return true;
  }

  std::vector<Phase> phases(const ModelStage& s) const {
    Phase all;
    all.start.assign(s.axes.size(), 0);
    all.step.assign(s.axes.size(), 1);
    std::vector<Phase> out = {all};
    for (const Comb& c : combs_) {
      std::vector<Phase> next;
      for (const Phase& p : out)
        for (int64_t i = 0; i < c.modulus; ++i) {
          Phase more = p;
          more.start[c.dim] = i;
          more.step[c.dim] = c.modulus;
          more.taps.push_back(taps_of(c, i, s.body->axes[c.tap].extent.value()));
          next.push_back(std::move(more));
        }
      out = std::move(next);
    }
    return out;
  }

  void split(size_t index) {
    const std::vector<size_t> chain = followers(index);
    const size_t last = chain.empty() ? index : chain.back();
    const int whole = g_.stages[last].value;
    std::vector<std::pair<Phase, int>> parts;
    for (const Phase& p : phases(g_.stages[index])) {
      int value = add(phase_of(g_.stages[index], p), p, index);
      int before = g_.stages[index].value;
      for (const size_t s : chain) {
        ModelStage part = at_phase(g_.stages[s], p);
        te::Substitution names;
        names.reads([&](const te::Node& n, const std::vector<Expr>&) {
          return n.tensor == before ? Expr::read(value, n.dtype, te::exprs(part.axes)) : Expr();
        });
        part.body = te::simplify(names(part.body), part.axes);
        value = add(std::move(part), p, index);
        before = g_.stages[s].value;
      }
      StageValue& v = g_.values[static_cast<size_t>(value)];
      v.host = whole;
      v.host_start = p.start;
      v.host_step = p.step;
      parts.emplace_back(p, value);
    }
    join(g_.stages[last], parts);
  }

  // The stage on the points of a phase only.
  static ModelStage at_phase(const ModelStage& s, const Phase& p) {
    ModelStage out = s;
    te::Substitution names;
    for (size_t d = 0; d < s.axes.size(); ++d) {
      if (p.step[d] == 1) continue;
      out.axes[d].extent = Dim((s.axes[d].extent.value() - p.start[d] + p.step[d] - 1) / p.step[d]);
      names.var(s.axes[d].id, Expr(out.axes[d]) * Expr(p.step[d]) + Expr(p.start[d]));
    }
    if (!s.is_reduction()) out.body = names(s.body);
    return out;
  }

  // The sum on a phase, over the taps that it has, which are counted so that the left side runs forward.
  ModelStage phase_of(const ModelStage& s, const Phase& p) const {
    ModelStage out = at_phase(s, p);
    if (std::any_of(p.taps.begin(), p.taps.end(), [](const Taps& t) { return t.count == 0; })) {
      out.body = Expr::literal(s.body->dtype, 0);
      return out;
    }
    std::vector<te::Axis> axes = s.body->axes;
    te::Substitution names;
    for (size_t d = 0; d < s.axes.size(); ++d)
      if (p.step[d] != 1) names.var(s.axes[d].id, Expr(out.axes[d]) * Expr(p.step[d]) + Expr(p.start[d]));
    for (size_t i = 0; i < combs_.size(); ++i) {
      const Comb& c = combs_[i];
      const Taps& t = p.taps[i];
      te::Axis& axis = axes[c.tap];
      axis.extent = Dim(t.count);
      const bool backward = (c.of_tap < 0) != (c.of_dim < 0);
      const int64_t from = backward ? t.first + (t.count - 1) * t.step : t.first;
      names.var(axis.id, Expr(from) + Expr(axis) * Expr(backward ? -t.step : t.step));
    }
    std::vector<te::Axis> scope = out.axes;
    scope.insert(scope.end(), axes.begin(), axes.end());
    out.body = te::reduce(s.body->combiner, axes, te::simplify(names(s.body->args[0]), scope),
                          te::simplify(names(te::all_of(rest_)), scope));
    return out;
  }

  int add(ModelStage part, const Phase& p, size_t before) {
    StageValue v;
    const StageValue& from = g_.values[static_cast<size_t>(part.value)];
    v.name = from.name;
    for (size_t d = 0; d < p.start.size(); ++d)
      if (p.step[d] != 1) v.name += "." + std::to_string(p.start[d]);
    v.dtype = from.dtype;
    for (const te::Axis& a : part.axes) v.dims.push_back(a.extent.value());
    part.value = static_cast<int>(g_.values.size());
    g_.values.push_back(std::move(v));
    added_.emplace_back(before, std::move(part));
    return added_.back().second.value;
  }

  // What the parts are together, for those that follow values; nothing computes it.
  void join(ModelStage& s, const std::vector<std::pair<Phase, int>>& parts) const {
    Expr body;
    for (size_t i = parts.size(); i-- > 0;) {
      const auto& [phase, value] = parts[i];
      std::vector<Expr> at, here;
      for (size_t d = 0; d < s.axes.size(); ++d) {
        const Expr x(s.axes[d]), step(phase.step[d]);
        at.push_back(phase.step[d] == 1 ? x : floor_div(x, step));
        if (phase.step[d] != 1) here.push_back(eq(te::floor_mod(x, step), Expr(phase.start[d])));
      }
      const Expr read = Expr::read(value, g_.values[static_cast<size_t>(value)].dtype, std::move(at));
      body = body.empty() ? read : te::select(te::all_of(here), read, body);
    }
    s.body = body;
    s.in_parts = true;
  }

  // The new stages, each where the sum was that it is a part of.
  void insert() {
    std::vector<ModelStage> stages;
    size_t next = 0;
    for (size_t s = 0; s < g_.stages.size(); ++s) {
      for (; next < added_.size() && added_[next].first == s; ++next) stages.push_back(std::move(added_[next].second));
      stages.push_back(std::move(g_.stages[s]));
    }
    g_.stages = std::move(stages);
  }

  StageGraph& g_;
  std::vector<std::vector<int>> readers_;
  std::vector<Comb> combs_;  // of the stage at hand
  std::vector<Expr> rest_;   // its other conditions
  std::vector<std::pair<size_t, ModelStage>> added_;
};

// Taps of a sum that a guard leaves out at every element: those of a wide dilation on a small image stand in the padding.
class Trimming {
 public:
  explicit Trimming(ModelStage& s) : s_(s), axes_(s.body->axes) {}

  void run() {
    const auto guards = loop::inequalities(s_.body->args[1]);
    if (!guards) return;
    bool changed = false;
    te::Substitution names;
    for (te::Axis& a : axes_) {
      const int64_t extent = a.extent.value();
      int64_t first = 0, last = extent - 1;
      for (const loop::Affine& g : *guards) narrow(g, a.id, first, last);
      if (first > last || (first == 0 && last == extent - 1)) continue;
      a.extent = Dim(last - first + 1);
      names.var(a.id, Expr(a) + Expr(first));
      changed = true;
    }
    if (!changed) return;
    std::vector<te::Axis> scope = s_.axes;
    scope.insert(scope.end(), axes_.begin(), axes_.end());
    s_.body = te::reduce(s_.body->combiner, axes_, te::simplify(names(s_.body->args[0]), scope),
                         te::simplify(names(s_.body->args[1]), scope));
  }

 private:
  // The places of an axis at which g can be at least 0, the other axes where they make it largest.
  void narrow(const loop::Affine& g, int axis, int64_t& first, int64_t& last) const {
    const int64_t by = g.coefficient(axis);
    int64_t most = g.constant;
    for (const auto& t : g.terms) {
      if (t.atom->kind != Kind::Var) return;
      if (t.atom->var == axis) continue;
      const int64_t extent = extent_of(t.atom->var);
      if (extent < 1) return;
      most += std::max<int64_t>(0, t.coefficient * (extent - 1));
    }
    while (by > 0 && first <= last && most + by * first < 0) ++first;
    while (by < 0 && first <= last && most + by * last < 0) --last;
  }

  int64_t extent_of(int id) const {
    for (const std::vector<te::Axis>* list : {&std::as_const(s_.axes), &s_.body->axes})
      for (const te::Axis& a : *list)
        if (a.id == id) return a.extent.value();
    return 0;
  }

  ModelStage& s_;
  std::vector<te::Axis> axes_;
};

}  // namespace

void split_phases(StageGraph& graph) {
  Splitting(graph).run();
  for (ModelStage& s : graph.stages)
    if (s.runs() && s.is_reduction() && !te::is_arg(s.body->combiner) && s.body->args[1]->kind != Kind::Int)
      Trimming(s).run();
}

}  // namespace isomer::compile
