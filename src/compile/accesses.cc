#include "compile/accesses.h"

#include <algorithm>
#include <unordered_set>

#include "base/contains.h"
#include "te/simplify.h"

namespace isomer::compile {

using loop::Stmt;
using loop::StmtKind;
using te::Expr;
using te::Kind;

namespace {

bool has_read(const Expr& e) {
  bool found = false;
  te::for_each_node(e, [&](const Expr& n) { found = found || n->kind == Kind::Read; });
  return found;
}

}  // namespace

Accesses::Accesses(const Scene& scene, const Group& group, const std::vector<std::vector<int>>& rows, Kernel& kernel)
    : scene_(scene), kernel_(kernel) {
  for (size_t i = 0; i < group.stages.size(); ++i) {
    const ModelStage& s = scene.stage(group.stages[i]);
    te::for_each_node(s.body, [&](const Expr& n) {
      if (n->kind == Kind::Read && std::any_of(n->args.begin(), n->args.end(), has_read)) checked_.insert(n->tensor);
    });
    const auto& readers = (*scene.readers)[static_cast<size_t>(s.value)];
    const bool inside = !contains(scene.graph->outputs, s.value) && !readers.empty() &&
                        std::all_of(readers.begin(), readers.end(), [&](int r) { return contains(group.stages, r); });
    if (!inside) continue;
    std::vector<int64_t> extents;
    for (const te::Axis& a : s.axes) extents.push_back(contains(rows[i], a.id) ? 0 : a.extent.value());
    scratch_[s.value] = std::move(extents);
  }
}

// A constant whose position would jump with the axis of vectors: the dim that runs with it becomes the innermost one.
std::optional<Packing> Accesses::turned(int value, const std::vector<Expr>& at, Place& p) const {
  const StageValue& v = scene_.value(value);
  if (!v.constant || along_ < 0 || v.dims.size() < 2 || checked_.count(value)) return std::nullopt;
  for (size_t d = 0; d < at.size(); ++d) {
    const auto index = linear(at[d]);
    if (!index || index->of(along_) != 1 || v.dims[d] == 1 || p.strides[d] == 1) continue;
    Packing packing{{0}, {0}, {}, v.dims[d]};
    for (int64_t i = 0; i < v.dims[d]; ++i) packing.column.push_back(i * p.strides[d]);
    int64_t stride = v.dims[d];
    std::vector<int64_t> strides(v.dims.size(), 0);
    for (size_t o = v.dims.size(); o-- > 0;) {
      if (o == d) continue;
      strides[o] = stride;
      stride *= v.dims[o];
    }
    for (size_t o = 0; o < v.dims.size(); ++o) {
      if (o == d) continue;
      std::vector<int64_t> next;
      for (const int64_t base : packing.depth)
        for (int64_t i = 0; i < v.dims[o]; ++i) next.push_back(base + i * p.strides[o]);
      packing.depth = std::move(next);
    }
    strides[d] = 1;
    p.strides = std::move(strides);
    return packing;
  }
  return std::nullopt;
}

const Accesses::Place& Accesses::place(int value, bool written, const std::vector<Expr>& at) {
  auto& buffers = kernel_.function.buffers;
  if (const auto it = places_.find(value); it != places_.end()) {
    if (written) buffers[static_cast<size_t>(it->second.buffer)].written = true;
    return it->second;
  }
  const StageValue& v = scene_.value(value);
  Place p;
  p.buffer = static_cast<int>(buffers.size());
  if (const auto s = scratch_.find(value); s != scratch_.end()) {
    p.strides.assign(v.dims.size(), 0);
    int64_t stride = 1;
    const std::vector<int>& order = scene_.layout(value).order;
    for (size_t i = order.size(); i-- > 0;) {
      const auto d = static_cast<size_t>(order[i]);
      if (s->second[d] == 0) continue;
      p.strides[d] = stride;
      stride *= s->second[d];
    }
    buffers.push_back({v.name, v.dtype, {stride}, loop::Scope::Scratch, true});
  } else {
    const Layout& layout = scene_.layout(value);
    p.strides = layout.strides;
    std::vector<int64_t> dims = {layout.span};
    if (checked_.count(value)) {
      p.order = layout.order;
      dims.clear();
      for (const int d : layout.order) dims.push_back(v.dims[static_cast<size_t>(d)]);
    }
    buffers.push_back({v.name, v.dtype, std::move(dims), loop::Scope::Argument, written});
    kernel_.arguments.push_back({value, turned(value, at, p)});
  }
  return places_[value] = p;
}

std::vector<Expr> Accesses::position(const Place& p, const std::vector<Expr>& at, const std::vector<te::Axis>& scope) {
  if (!p.order.empty()) {
    std::vector<Expr> out;
    for (const int d : p.order) out.push_back(te::simplify(at[static_cast<size_t>(d)], scope));
    return out;
  }
  Expr sum(0);
  for (size_t d = 0; d < at.size(); ++d)
    if (p.strides[d] != 0) sum = sum + at[d] * Expr(p.strides[d]);
  return {te::simplify(sum, scope)};
}

Expr Accesses::flat(const Expr& e, const std::vector<te::Axis>& scope) {
  te::Substitution s;
  s.reads([&](const te::Node& read, std::vector<Expr> at) {
    if (const auto it = pinned_.find(read.tensor); it != pinned_.end())
      return Expr::read(it->second.first, read.dtype, {it->second.second});
    const Place& p = place(read.tensor, false, at);
    return Expr::read(p.buffer, read.dtype, position(p, at, scope));
  });
  return te::simplify(s(e), scope);
}

void Accesses::pin(int value, int buffer, Expr position) {
  pinned_.insert_or_assign(value, std::pair(buffer, std::move(position)));
}

std::pair<int, Expr> Accesses::write(int value, const std::vector<Expr>& at, const std::vector<te::Axis>& scope) {
  checked_.erase(value);
  const Place& p = place(value, true, at);
  return {p.buffer, position(p, at, scope)[0]};
}

std::optional<int64_t> stride_of_main_read(const Expr& e, int var, const loop::Function& function) {
  int64_t largest = -1;
  std::optional<int64_t> stride;
  te::for_each_node(e, [&](const Expr& n) {
    if (n->kind != Kind::Read || n->args.empty()) return;
    const int64_t elements = function.buffers[static_cast<size_t>(n->tensor)].elements();
    if (elements <= largest) return;
    largest = elements;
    const auto index = linear(n->args.back());
    stride = index && n->args.size() == 1 ? std::optional<int64_t>(index->of(var)) : std::nullopt;
  });
  return stride;
}

bool index_runs_together(const Expr& index, const LoopAxis& outer, const LoopAxis& inner) {
  if (const auto l = linear(index)) return l->of(outer.var) == l->of(inner.var) * inner.extent;
  const std::vector<int> vars = te::free_vars(index);
  return !contains(vars, outer.var) && !contains(vars, inner.var);
}

namespace {

// `seen`: expressions share nodes, and each is looked at once.
bool run_together(const Expr& e, const LoopAxis& outer, const LoopAxis& inner, std::unordered_set<const void*>& seen) {
  if (!seen.insert(e.identity()).second) return true;
  if (e->kind == Kind::Var) return e->var != outer.var && e->var != inner.var;
  return std::all_of(e->args.begin(), e->args.end(), [&](const Expr& a) {
    return e->kind == Kind::Read ? index_runs_together(a, outer, inner) : run_together(a, outer, inner, seen);
  });
}

}  // namespace

bool run_together(const Expr& e, const LoopAxis& outer, const LoopAxis& inner) {
  std::unordered_set<const void*> seen;
  return run_together(e, outer, inner, seen);
}

void join_axes(std::vector<LoopAxis>& axes, const std::vector<Expr*>& bodies, const std::vector<Expr*>& indices,
               int& next_var) {
  for (size_t i = axes.size(); i-- > 1;) {
    const LoopAxis outer = axes[i - 1], inner = axes[i];
    const auto together = [&](const Expr* e) { return e->empty() || run_together(*e, outer, inner); };
    const auto index_together = [&](const Expr* e) { return e->empty() || index_runs_together(*e, outer, inner); };
    if (!std::all_of(bodies.begin(), bodies.end(), together)) continue;
    if (!std::all_of(indices.begin(), indices.end(), index_together)) continue;
    const LoopAxis both{next_var++, inner.name, outer.extent * inner.extent};
    te::Substitution s;
    s.var(outer.var, Expr(0));
    s.var(inner.var, both.expr());
    for (const auto* list : {&bodies, &indices})
      for (Expr* e : *list)
        if (!e->empty()) *e = te::simplify(s(*e), std::vector<te::Axis>{both.axis()});
    axes[i - 1] = both;
    axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void unflatten_into(te::Substitution& names, const std::vector<LoopAxis>& axes, Expr position) {
  for (size_t i = axes.size(); i-- > 0;) {
    const Expr extent(axes[i].extent);
    names.var(axes[i].var, i == 0 ? position : te::floor_mod(position, extent));
    position = te::floor_div(position, extent);
  }
}

namespace {

// Rebuilds a statement; `buffer` gives the new number of each buffer, `places` what is where in one of that number.
Stmt rebuild(const Stmt& s, te::Substitution& names, const std::vector<int>* buffer, const Places& places) {
  const auto number = [&](int b) { return buffer ? (*buffer)[static_cast<size_t>(b)] : b; };
  const auto all = [&](const std::vector<Expr>& list, int b) {
    std::vector<Expr> out;
    for (const Expr& e : list) out.push_back(places.index ? places.index(number(b), names(e)) : names(e));
    return out;
  };
  const auto inner = [&](size_t i) { return rebuild(s->body[i], names, buffer, places); };
  const auto operand = [&](loop::TileOperand o) {
    o.indices = all(o.indices, o.buffer);
    o.buffer = number(o.buffer);
    if (places.stride)
      for (int64_t& by : o.strides) by = places.stride(o.buffer, by);
    return o;
  };
  switch (s->kind) {
    case StmtKind::For: return Stmt::loop(s->var, s->var_name, names(s->extent), s->loop, inner(0));
    case StmtKind::If: return Stmt::branch(names(s->condition), inner(0), s->body.size() > 1 ? inner(1) : Stmt());
    case StmtKind::Seq: {
      std::vector<Stmt> body;
      for (size_t i = 0; i < s->body.size(); ++i) body.push_back(inner(i));
      return Stmt::seq(std::move(body));
    }
    case StmtKind::Store:
      return Stmt::store(number(s->buffer), all(s->indices, s->buffer), names(s->value), s->combiner);
    case StmtKind::Tile: {
      std::vector<loop::TileOperand> operands;
      std::vector<Expr> extents;
      for (const loop::TileOperand& o : s->operands) operands.push_back(operand(o));
      for (const Expr& e : s->extents) extents.push_back(names(e));
      std::optional<loop::TileOperand> ahead;
      if (s->ahead) ahead = operand(*s->ahead);
      return Stmt::tile(s->intrinsic, std::move(operands), std::move(extents), std::move(ahead));
    }
    case StmtKind::Prefetch: return Stmt::prefetch(number(s->buffer), all(s->indices, s->buffer));
  }
  return s;
}

}  // namespace

Stmt substitute(const Stmt& s, te::Substitution& names) { return rebuild(s, names, nullptr, {}); }

Stmt on_buffers(const Stmt& s, const std::vector<int>& number) { return moved(s, number, {}); }

Stmt moved(const Stmt& s, const std::vector<int>& number, const Places& places) {
  te::Substitution names;
  names.reads([&](const te::Node& read, std::vector<Expr> at) {
    const int b = number[static_cast<size_t>(read.tensor)];
    if (places.index)
      for (Expr& e : at) e = places.index(b, e);
    return Expr::read(b, read.dtype, std::move(at));
  });
  return rebuild(s, names, &number, places);
}

void renumber_buffers(loop::Function& f, const std::vector<int>& number) { f.body = on_buffers(f.body, number); }

void arguments_first(loop::Function& f) {
  std::vector<int> number(f.buffers.size());
  std::vector<loop::Buffer> sorted;
  f.arguments = 0;
  for (const bool arguments : {true, false})
    for (size_t i = 0; i < f.buffers.size(); ++i) {
      if ((f.buffers[i].scope == loop::Scope::Argument) != arguments) continue;
      number[i] = static_cast<int>(sorted.size());
      sorted.push_back(f.buffers[i]);
      if (arguments) ++f.arguments;
    }
  renumber_buffers(f, number);
  f.buffers = std::move(sorted);
}

}  // namespace isomer::compile
