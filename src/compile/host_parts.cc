#include <algorithm>
#include <functional>
#include <set>

#include "compile/group.h"
#include "te/simplify.h"
#include "te/substitute.h"

namespace isomer::compile {

using te::BinaryOp;
using te::Expr;
using te::Kind;

namespace {

struct Part {
  int value;
  int64_t start;
};

struct JoinedParts {
  size_t dim = 0;
  std::vector<Part> parts;  // in order, covering the dim
};

// A read of all of a value, at the stage's own axes, but for `dim` where it is `start` behind.
std::optional<int64_t> part_start(const StageGraph& g, const ModelStage& s, const Expr& read, size_t dim) {
  if (read->kind != Kind::Read) return std::nullopt;
  const StageValue& v = g.values[static_cast<size_t>(read->tensor)];
  if (v.dims.size() != s.axes.size()) return std::nullopt;
  int64_t start = 0;
  for (size_t d = 0; d < v.dims.size(); ++d) {
    const auto index = linear(read->args[d]);
    if (!index) return std::nullopt;
    if (v.dims[d] == 1 && index->terms.empty() && index->constant == 0 && d != dim) continue;
    if (index->terms.size() != 1 || index->of(s.axes[d].id) != 1) return std::nullopt;
    if (d == dim) start = -index->constant;
    if (d != dim && (index->constant != 0 || v.dims[d] != s.axes[d].extent.value())) return std::nullopt;
  }
  return start;
}

// The branches of select(x < c, left, right) over one axis x, in order, each all of one value: those on positions from
// `from` to `to`.
bool take_parts(const StageGraph& g, const ModelStage& s, const Expr& e, int64_t from, int64_t to, JoinedParts& out) {
  const te::Axis& axis = s.axes[out.dim];
  if (e->kind == Kind::Select) {
    const Expr& c = e->args[0];
    if (c->kind != Kind::Binary || c->binary != BinaryOp::Lt || c->args[0]->kind != Kind::Var ||
        c->args[0]->var != axis.id || c->args[1]->kind != Kind::Int)
      return false;
    const int64_t at = c->args[1]->integer;
    return at > from && at < to && take_parts(g, s, e->args[1], from, at, out) &&
           take_parts(g, s, e->args[2], at, to, out);
  }
  const auto start = part_start(g, s, e, out.dim);
  if (!start || *start != from || g.values[static_cast<size_t>(e->tensor)].dims[out.dim] != to - from) return false;
  out.parts.push_back({e->tensor, from});
  return true;
}

std::optional<JoinedParts> joined(const StageGraph& g, const ModelStage& s) {
  if (s.body->kind != Kind::Select) return std::nullopt;
  const Expr& first = s.body->args[0];
  if (first->kind != Kind::Binary || first->args[0]->kind != Kind::Var) return std::nullopt;
  const auto axis =
      std::find_if(s.axes.begin(), s.axes.end(), [&](const te::Axis& a) { return a.id == first->args[0]->var; });
  if (axis == s.axes.end()) return std::nullopt;
  JoinedParts out;
  out.dim = static_cast<size_t>(axis - s.axes.begin());
  if (!take_parts(g, s, s.body, 0, axis->extent.value(), out)) return std::nullopt;
  return out;
}

class Hosting {
 public:
  explicit Hosting(StageGraph& g) : g_(g), pinned_(read_by_index(g)) {
    for (const int v : g.outputs) pin(v);
    for (const ModelStage& s : g.stages)
      if (s.view_of >= 0) pin(s.value), pin(s.view_of);
  }

  // Later wholes first: a smaller one that is the beginning of a larger one then is a part of it.
  void run() {
    for (size_t s = g_.stages.size(); s-- > 0;)
      if (g_.stages[s].runs())
        if (const auto j = joined(g_, g_.stages[s])) host(g_.stages[s], *j);
  }

 private:
  void pin(int v) { pinned_[static_cast<size_t>(v)] = true; }
  StageValue& value(int v) { return g_.values[static_cast<size_t>(v)]; }

  bool free_part(const Part& p, const ModelStage& whole) {
    const StageValue& v = value(p.value);
    return v.stage >= 0 && v.host < 0 && !pinned_[static_cast<size_t>(p.value)] &&
           v.dtype == value(whole.value).dtype && p.value != whole.value && v.elements() > 0;
  }

  void host(ModelStage& s, const JoinedParts& j) {
    if (pinned_[static_cast<size_t>(s.value)]) return;
    for (size_t i = 0; i < j.parts.size(); ++i)
      for (size_t k = 0; k < i; ++k)
        if (j.parts[i].value == j.parts[k].value) return;
    // All parts lie in one later whole, one after another: so does this one, unless another whole has it as a part and counts on
    // finding it there.
    const StageValue& first = value(j.parts[0].value);
    const auto lies_there = [&](const Part& p) {
      const StageValue& v = value(p.value);
      if (v.host < 0 || v.host != first.host || !v.host_step.empty() || !first.host_step.empty()) return false;
      std::vector<int64_t> start = first.host_start;
      if (start.size() != s.axes.size()) return false;
      start[j.dim] += p.start;
      return v.host_start == start;
    };
    if (value(s.value).host < 0 && std::all_of(j.parts.begin(), j.parts.end(), lies_there)) {
      value(s.value).host = first.host;
      value(s.value).host_start = first.host_start;
      s.in_parts = true;
      return;
    }
    if (!std::all_of(j.parts.begin(), j.parts.end(), [&](const Part& p) { return free_part(p, s); })) return;
    for (const Part& p : j.parts) {
      value(p.value).host = s.value;
      value(p.value).host_start.assign(s.axes.size(), 0);
      value(p.value).host_start[j.dim] = p.start;
    }
    s.in_parts = true;
  }

  StageGraph& g_;
  std::vector<bool> pinned_;
};

// What is computed of every element of a whole that nobody else reads is computed of its parts, where it costs no pass of
// its own: relu of a concatenation.
class Sinking {
 public:
  explicit Sinking(StageGraph& g) : g_(g), readers_(g.readers()) {}

  void run() {
    for (size_t s = 0; s < g_.stages.size(); ++s)
      if (const auto j = whole_of(static_cast<int>(s))) sink(g_.stages[s], *j);
    if (changed_) g_.prune();
  }

 private:
  bool only_reader(int value, int stage) const {
    const bool output = std::find(g_.outputs.begin(), g_.outputs.end(), value) != g_.outputs.end();
    return !output && readers_[static_cast<size_t>(value)] == std::vector<int>{stage};
  }

  // The value that stage `s` reads element by element and nothing else but constants, -1 when it is not so.
  int source(const ModelStage& s) const {
    int found = -1;
    for (const int v : values_read(s.body))
      if (!g_.values[static_cast<size_t>(v)].constant) {
        if (found >= 0) return -1;
        found = v;
      }
    if (found < 0) return -1;
    const std::vector<Expr> reads = reads_of(s.body, found);
    if (reads.size() != 1 || reads[0]->args.size() != s.axes.size()) return -1;
    for (size_t d = 0; d < s.axes.size(); ++d) {
      const Expr& i = reads[0]->args[d];
      const bool only = s.axes[d].extent.value() == 1 && i->kind == Kind::Int && i->integer == 0;
      if (!only && plain_var(i) != s.axes[d].id) return -1;
    }
    return found;
  }

  std::optional<JoinedParts> whole_of(int index) const {
    const ModelStage& s = g_.stages[static_cast<size_t>(index)];
    const DType made = g_.values[static_cast<size_t>(s.value)].dtype;
    if (s.is_reduction() || !s.runs() || (made != DType::F32 && made != DType::U8 && made != DType::I8))
      return std::nullopt;
    if (std::find(g_.outputs.begin(), g_.outputs.end(), s.value) != g_.outputs.end()) return std::nullopt;
    const int whole = source(s);
    if (whole < 0 || !only_reader(whole, index)) return std::nullopt;
    const StageValue& v = g_.values[static_cast<size_t>(whole)];
    const bool same = v.dtype == DType::F32 && v.dims == g_.values[static_cast<size_t>(s.value)].dims && v.stage >= 0;
    if (!same || !g_.stages[static_cast<size_t>(v.stage)].runs()) return std::nullopt;
    auto j = joined(g_, g_.stages[static_cast<size_t>(v.stage)]);
    if (!j) return std::nullopt;
    std::set<int> parts;
    for (const Part& p : j->parts) {
      const int maker = g_.values[static_cast<size_t>(p.value)].stage;
      // What stands twice in the whole would be computed twice.
      if (maker < 0 || !only_reader(p.value, v.stage) || !parts.insert(p.value).second) return std::nullopt;
      const ModelStage& m = g_.stages[static_cast<size_t>(maker)];
      // A move has no pass that this could become a part of.
      if (m.is_reduction() || !m.runs() || is_move(m.body)) return std::nullopt;
    }
    return j;
  }

  // The whole and its parts are of the type that is made of them.
  void retype(const JoinedParts& j, int whole, DType type) {
    for (const Part& p : j.parts) g_.values[static_cast<size_t>(p.value)].dtype = type;
    StageValue& v = g_.values[static_cast<size_t>(whole)];
    v.dtype = type;
    ModelStage& s = g_.stages[static_cast<size_t>(v.stage)];
    const std::function<Expr(const Expr&)> retyped = [&](const Expr& e) {
      if (e->kind == Kind::Select) return te::select(e->args[0], retyped(e->args[1]), retyped(e->args[2]));
      return Expr::read(e->tensor, type, e->args);
    };
    s.body = retyped(s.body);
  }

  void sink(ModelStage& s, const JoinedParts& j) {
    const int whole = source(s);
    for (const Part& p : j.parts) {
      ModelStage& m = g_.stages[static_cast<size_t>(g_.values[static_cast<size_t>(p.value)].stage)];
      te::Substitution names;
      for (size_t d = 0; d < s.axes.size(); ++d)
        names.var(s.axes[d].id, Expr(m.axes[d]) + Expr(d == j.dim ? p.start : int64_t{0}));
      names.reads([&](const te::Node& n, const std::vector<Expr>&) { return n.tensor == whole ? m.body : Expr(); });
      m.body = te::simplify(names(s.body), m.axes);
      m.origin.insert(m.origin.end(), s.origin.begin(), s.origin.end());
    }
    retype(j, whole, g_.values[static_cast<size_t>(s.value)].dtype);
    for (const int reader : readers_[static_cast<size_t>(s.value)]) {
      ModelStage& r = g_.stages[static_cast<size_t>(reader)];
      te::Substitution names;
      names.reads([&](const te::Node& n, std::vector<Expr> at) {
        return n.tensor == s.value ? Expr::read(whole, n.dtype, std::move(at)) : Expr();
      });
      r.body = names(r.body);
      if (r.view_of == s.value) r.view_of = whole;
    }
    s.body = Expr::real(DType::F32, 0);  // nobody needs it: it must not count as a reader
    readers_ = g_.readers();
    changed_ = true;
  }

  StageGraph& g_;
  std::vector<std::vector<int>> readers_;
  bool changed_ = false;
};

}  // namespace

void host_parts(StageGraph& graph) {
  Sinking(graph).run();
  Hosting(graph).run();
}

}  // namespace isomer::compile
