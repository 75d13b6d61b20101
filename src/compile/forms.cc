#include "compile/forms.h"

#include <algorithm>

#include "te/simplify.h"
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

bool is_binary(const Expr& e, BinaryOp op) { return e->kind == Kind::Binary && e->binary == op; }

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

constexpr int kSplitAxes = 1 << 24;    // ids that no stage uses
constexpr int64_t kFewestColumns = 8;  // fewer would leave most lanes of a vector idle

// Splits an axis that one of the reads sees by its quotient, so that both become linear.
void split_axis(Contraction& c, const ModelStage& stage) {
  for (const Expr* side : {&c.a, &c.b})
    te::for_each_node(*side, [&](const Expr& n) {
      if (c.split || n->kind != Kind::Binary || n->binary != BinaryOp::FloorDiv) return;
      if (n->args[0]->kind != Kind::Var || n->args[1]->kind != Kind::Int) return;
      const int64_t by = n->args[1]->integer;
      for (const te::Axis& x : stage.axes)
        if (x.id == n->args[0]->var && by >= kFewestColumns && x.extent.value() % by == 0)
          c.split = Contraction::Split{
              x.id, {kSplitAxes, x.name + "o", Dim(x.extent.value() / by)}, {kSplitAxes + 1, x.name + "i", Dim(by)}};
    });
  if (!c.split) return;
  std::vector<te::Axis> scope = axes_of(c, stage);
  scope.insert(scope.end(), stage.body->axes.begin(), stage.body->axes.end());
  te::Substitution parts;
  parts.var(c.split->axis, Expr(c.split->outer) * Expr(c.split->inner.extent) + Expr(c.split->inner));
  for (Expr* e : {&c.a, &c.b, &c.where}) *e = te::simplify(parts(*e), scope);
}

// Whether a linear read is in range at all points of the axes.
bool stays_inside(const Expr& read, const std::vector<te::Axis>& axes, const std::vector<StageValue>& values) {
  const std::vector<int64_t>& dims = values[static_cast<size_t>(read->tensor)].dims;
  for (size_t d = 0; d < dims.size(); ++d) {
    const Linear index = *linear(read->args[d]);
    int64_t low = index.constant, high = index.constant;
    for (const te::Axis& a : axes) {
      const int64_t most = index.of(a.id) * (a.extent.value() - 1);
      (most < 0 ? low : high) += most;
    }
    if (low < 0 || high >= dims[d]) return false;
  }
  return true;
}

// The byte that is read, when the expression is one as I32.
std::optional<Expr> byte_read(const Expr& e) {
  const bool plain = e->kind == Kind::Cast && e->args[0]->kind == Kind::Read && is_byte(e->args[0].dtype());
  return plain ? std::optional(e->args[0]) : std::nullopt;
}

// One element, the same at all points.
bool is_fixed(const Expr& e) {
  if (e->kind == Kind::Int) return true;
  const Expr& read = e->kind == Kind::Cast ? e->args[0] : e;
  return read->kind == Kind::Read && te::free_vars(read).empty() && is_linear_read(read);
}

// A product of bytes as I32, one of them constant; outside of a guard the other may be something else than zero.
bool take_bytes(Contraction& c, const std::vector<StageValue>& values) {
  if (const auto first = byte_read(c.a); first && values[static_cast<size_t>((*first)->tensor)].constant)
    std::swap(c.a, c.b);
  if (c.a->kind == Kind::Select) {
    if (c.where->kind != Kind::Int || c.where->integer == 0 || !is_fixed(c.a->args[2])) return false;
    c.where = c.a->args[0];
    c.fill = c.a->args[2];
    c.a = Expr(c.a->args[1]);
  }
  const auto a = byte_read(c.a), b = byte_read(c.b);
  if (!a || !b || !values[static_cast<size_t>((*b)->tensor)].constant) return false;
  c.a = *a, c.b = *b;
  return true;
}

}  // namespace

bool thin(const Contraction& c, const ModelStage& stage) {
  constexpr int64_t kFewColumns = 12, kLeastLine = 8;
  if (c.split || c.bytes() || !c.batch.empty()) return false;
  const auto in = [](const std::vector<int>& list, int id) {
    return std::find(list.begin(), list.end(), id) != list.end();
  };
  const auto extent = [&](int id) {
    for (const auto* axes : {&stage.axes, &stage.body->axes})
      for (const te::Axis& a : *axes)
        if (a.id == id) return a.extent.value();
    return int64_t{1};
  };
  // The last two dims of an image are the plane; a tap moves along one of them. Either operand may be the image.
  const auto slides = [&](const te::Expr& image, const std::vector<int>& outputs, const std::vector<int>& positions) {
    int64_t count = 1;
    for (const int id : outputs) count *= extent(id);
    if (count > kFewColumns || image->kind != te::Kind::Read || image->args.size() < 3) return false;
    bool taps = false;
    for (size_t d = image->args.size() - 2; d < image->args.size(); ++d) {
      const auto sum = linear(image->args[d]);
      if (!sum) return false;
      int64_t moved = 0;
      for (const auto& [id, by] : sum->terms) {
        if (in(positions, id)) moved = std::max(moved, extent(id));
        taps = taps || (in(c.k, id) && extent(id) > 1);
      }
      if (moved < kLeastLine) return false;
    }
    return taps;
  };
  return slides(c.a, c.n, c.m) || slides(c.b, c.m, c.n);
}

std::vector<te::Axis> axes_of(const Contraction& c, const ModelStage& stage) {
  std::vector<te::Axis> out;
  for (const te::Axis& a : stage.axes) {
    if (c.split && a.id == c.split->axis) {
      out.push_back(c.split->outer);
      out.push_back(c.split->inner);
    } else {
      out.push_back(a);
    }
  }
  return out;
}

std::optional<Contraction> contraction(const ModelStage& stage, const std::vector<StageValue>& values) {
  const Expr& r = stage.body;
  if (r->kind != Kind::Reduce || r->combiner != te::Combiner::Sum) return std::nullopt;
  const Expr& body = r->args[0];
  if (body->kind != Kind::Binary || body->binary != BinaryOp::Mul) return std::nullopt;
  Contraction c;
  c.a = body->args[0];
  c.b = body->args[1];
  c.where = r->args[1];
  if (r->dtype == DType::I32 && !take_bytes(c, values)) return std::nullopt;
  if (r->dtype != DType::F32 && r->dtype != DType::I32) return std::nullopt;
  if (c.a->kind != Kind::Read || c.b->kind != Kind::Read) return std::nullopt;
  if (!is_linear_read(c.a) || !is_linear_read(c.b)) split_axis(c, stage);
  if (!is_linear_read(c.a) || !is_linear_read(c.b)) return std::nullopt;
  const std::vector<te::Axis> axes = axes_of(c, stage);
  // The side whose rows are many streams past the other, whose columns stay.
  int64_t only_a = 1, only_b = 1;
  const auto sort = [&] {
    c.batch.clear(), c.m.clear(), c.n.clear(), c.k.clear();
    only_a = only_b = 1;
    for (const te::Axis& x : axes) {
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
  const auto guards = [&](const std::vector<int>& list) {
    return std::any_of(list.begin(), list.end(),
                       [&](int a) { return std::find(guarded.begin(), guarded.end(), a) != guarded.end(); });
  };
  // Columns should be long and never guarded: vectors run along them. What the guard keeps inside of its tensor is read
  // only where it holds: that side has the rows.
  const bool always = c.where->kind == Kind::Int && c.where->integer != 0;
  std::vector<te::Axis> scope = axes_of(c, stage);
  scope.insert(scope.end(), r->axes.begin(), r->axes.end());
  const auto needs_guard = [&](const Expr& read) { return !always && !stays_inside(read, scope, values); };
  if (c.bytes() && (only_b < kFewestColumns || guards(c.n))) return std::nullopt;
  if (guards(c.n) || needs_guard(c.b) || (!guards(c.m) && !needs_guard(c.a) && only_b < 8 && only_a > only_b)) {
    if (c.bytes()) return std::nullopt;
    std::swap(c.a, c.b);
    if (!sort()) return std::nullopt;
  }
  if (guards(c.n) || needs_guard(c.b) || c.n.empty()) return std::nullopt;
  for (const te::Axis& x : r->axes) {
    if (x.extent.value() > 1 && (!mentions(c.a, x.id) || !mentions(c.b, x.id))) return std::nullopt;
    c.k.push_back(x.id);
  }
  bool plain = true;  // a guard by data would not be a contraction
  te::for_each_node(c.where, [&](const Expr& n) { plain = plain && n->kind != Kind::Read; });
  return plain ? std::optional<Contraction>(c) : std::nullopt;
}

}  // namespace isomer::compile
