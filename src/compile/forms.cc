#include "compile/forms.h"

#include <algorithm>

#include "te/substitute.h"

namespace isomer::compile {

using te::BinaryOp;
using te::Expr;
using te::Kind;

namespace {

void add_scaled(Linear& to, const Linear& from, int64_t factor) {
  to.constant += from.constant * factor;
  for (const auto& [axis, c] : from.terms) {
    int64_t& sum = to.terms[axis];
    sum += c * factor;
    if (sum == 0) to.terms.erase(axis);
  }
}

}  // namespace

std::optional<Linear> linear(const Expr& e) {
  Linear out;
  switch (e->kind) {
    case Kind::Int: out.constant = e->integer; return out;
    case Kind::Var: out.terms[e->var] = 1; return out;
    case Kind::Binary: break;
    default: return std::nullopt;
  }
  const auto a = linear(e->args[0]);
  const auto b = a ? linear(e->args[1]) : std::nullopt;
  if (!b) return std::nullopt;
  if (e->binary == BinaryOp::Add || e->binary == BinaryOp::Sub) {
    out = *a;
    add_scaled(out, *b, e->binary == BinaryOp::Add ? 1 : -1);
    return out;
  }
  if (e->binary == BinaryOp::Mul && (a->terms.empty() || b->terms.empty())) {
    const bool left = a->terms.empty();
    add_scaled(out, left ? *b : *a, left ? a->constant : b->constant);
    return out;
  }
  return std::nullopt;
}

std::optional<int> plain_var(const Expr& index) {
  return index->kind == Kind::Var ? std::optional<int>(index->var) : std::nullopt;
}

std::vector<Expr> reads_of(const Expr& e, int value) {
  std::vector<Expr> out;
  te::for_each_node(e, [&](const Expr& n) {
    if (n->kind != Kind::Read || n->tensor != value) return;
    for (const Expr& seen : out)
      if (te::equal(seen, n)) return;
    out.push_back(n);
  });
  return out;
}

bool has_function(const Expr& e) {
  bool found = false;
  te::for_each_node(e, [&](const Expr& n) {
    if (n->kind == Kind::Unary)
      found = found || (n->unary >= te::UnaryOp::Exp && n->unary <= te::UnaryOp::Erf && n->unary != te::UnaryOp::Sqrt);
    if (n->kind == Kind::Binary) found = found || n->binary == BinaryOp::Pow;
  });
  return found;
}

int64_t price(const Expr& e) {
  int64_t cost = 0;
  te::for_each_node(e, [&](const Expr& n) {
    if (n->kind == Kind::Unary || n->kind == Kind::Binary || n->kind == Kind::Select || n->kind == Kind::Cast) ++cost;
  });
  return cost + (has_function(e) ? 20 : 0);
}

bool is_move(const Expr& body) { return body->kind == Kind::Read; }

namespace {

bool mentions(const Expr& read, int axis) {
  const std::vector<int> vars = te::free_vars(read);
  return std::find(vars.begin(), vars.end(), axis) != vars.end();
}

bool is_linear_read(const Expr& e) {
  if (e->kind != Kind::Read) return false;
  return std::all_of(e->args.begin(), e->args.end(), [](const Expr& i) { return linear(i).has_value(); });
}

}  // namespace

std::optional<Contraction> contraction(const ModelStage& stage) {
  const Expr& r = stage.body;
  if (r->kind != Kind::Reduce || r->combiner != te::Combiner::Sum || r->dtype != DType::F32) return std::nullopt;
  const Expr& body = r->args[0];
  if (body->kind != Kind::Binary || body->binary != BinaryOp::Mul) return std::nullopt;
  Contraction c;
  c.a = body->args[0];
  c.b = body->args[1];
  c.where = r->args[1];
  if (!is_linear_read(c.a) || !is_linear_read(c.b)) return std::nullopt;
  // The side whose rows are many streams past the other, whose columns stay.
  int64_t only_a = 1, only_b = 1;
  const auto sort = [&] {
    c.batch.clear(), c.m.clear(), c.n.clear(), c.k.clear();
    only_a = only_b = 1;
    for (const te::Axis& x : stage.axes) {
      const bool in_a = mentions(c.a, x.id), in_b = mentions(c.b, x.id);
      const int64_t extent = x.extent.value();
      if (extent > 1 && in_a && in_b) c.batch.push_back(x.id);
      if (extent > 1 && in_a && !in_b) c.m.push_back(x.id), only_a *= extent;
      if (extent > 1 && !in_a && in_b) c.n.push_back(x.id), only_b *= extent;
      if (extent == 1) c.m.push_back(x.id);
      if (extent > 1 && !in_a && !in_b) return false;
    }
    return true;
  };
  if (!sort()) return std::nullopt;
  const std::vector<int> guarded = te::free_vars(c.where);
  const auto guards = [&](const std::vector<int>& axes) {
    return std::any_of(axes.begin(), axes.end(),
                       [&](int a) { return std::find(guarded.begin(), guarded.end(), a) != guarded.end(); });
  };
  // Columns should be long and never guarded: vectors run along them.
  if (guards(c.n) || (!guards(c.m) && only_b < 8 && only_a > only_b)) {
    std::swap(c.a, c.b);
    if (!sort()) return std::nullopt;
  }
  if (guards(c.n) || c.n.empty()) return std::nullopt;
  for (const te::Axis& x : r->axes) {
    if (x.extent.value() > 1 && (!mentions(c.a, x.id) || !mentions(c.b, x.id))) return std::nullopt;
    c.k.push_back(x.id);
  }
  bool plain = true;  // a guard by data would not be a contraction
  te::for_each_node(c.where, [&](const Expr& n) { plain = plain && n->kind != Kind::Read; });
  return plain ? std::optional<Contraction>(c) : std::nullopt;
}

}  // namespace isomer::compile
