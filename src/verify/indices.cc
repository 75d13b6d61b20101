// Integer and truth expressions of a program as polynomials and guards, by cases where they have cases.
#include "verify/meaning.h"

namespace isomer::verify {

using te::BinaryOp;
using te::Kind;

namespace {

std::vector<Guards> product(const std::vector<Guards>& a, const std::vector<Guards>& b) {
  std::vector<Guards> out;
  for (const Guards& x : a)
    for (const Guards& y : b) out.push_back(joined(x, y));
  return out;
}

void append(std::vector<Guards>& to, const std::vector<Guards>& more) { to.insert(to.end(), more.begin(), more.end()); }

}  // namespace

// The larger or smaller of two, as two cases where the context does not decide.
std::vector<Meaning::Case> Meaning::chosen(const Case& c, BinaryOp op, const Poly& a, const Poly& b,
                                           const Guards& context) {
  const bool max = op == BinaryOp::Max;
  const Guards inner = joined(context, c.guards);
  if (solver_.entails(inner, a - b)) return {{c.guards, max ? a : b}};
  if (solver_.entails(inner, b - a)) return {{c.guards, max ? b : a}};
  Case more{c.guards, max ? a : b}, less{c.guards, max ? b : a};
  more.guards.push_back(a - b);
  less.guards.push_back(b - a - Poly(1));
  return {more, less};
}

std::vector<Meaning::Case> Meaning::integer_binary(const te::Expr& e, const Frame& frame, const Env& env,
                                                   const Guards& context) {
  std::vector<Case> out;
  for (const Case& x : integer(e->args[0], frame, env, context))
    for (const Case& y : integer(e->args[1], frame, env, joined(context, x.guards))) {
      const Case both{joined(x.guards, y.guards), 0};
      const Poly &a = x.value, &b = y.value;
      const auto divisor = [&](bool rounds_down) {
        const Guards inner = joined(context, both.guards);
        if (!solver_.entails(inner, b - Poly(1))) throw GiveUp{"an index is divided by what may be 0"};
        if (!rounds_down && !solver_.entails(inner, a)) throw GiveUp{"an index below 0 is divided towards 0"};
        // What the context decides is decided at once: nested quotients grow beyond what can be seen through.
        const Division parts = divide(a, b);
        if (solver_.entails(inner, parts.rest) && solver_.entails(inner, b - Poly(1) - parts.rest))
          return parts.quotient;
        return atoms_.quotient(a, b);
      };
      switch (e->binary) {
        case BinaryOp::Add: out.push_back({both.guards, a + b}); break;
        case BinaryOp::Sub: out.push_back({both.guards, a - b}); break;
        case BinaryOp::Mul: out.push_back({both.guards, a * b}); break;
        case BinaryOp::FloorDiv: out.push_back({both.guards, divisor(true)}); break;
        case BinaryOp::Div: out.push_back({both.guards, divisor(false)}); break;
        case BinaryOp::FloorMod: out.push_back({both.guards, a - b * divisor(true)}); break;
        case BinaryOp::Rem: out.push_back({both.guards, a - b * divisor(false)}); break;
        case BinaryOp::Max:
        case BinaryOp::Min:
          for (Case& c : chosen(both, e->binary, a, b, context)) out.push_back(std::move(c));
          break;
        default: refuse(frame, "an index is computed bit by bit");
      }
    }
  return out;
}

std::vector<Meaning::Case> Meaning::integer(const te::Expr& e, const Frame& frame, const Env& env,
                                            const Guards& context) {
  switch (e->kind) {
    case Kind::Int: return {{{}, Poly(e->integer)}};
    case Kind::Size: return {{{}, sizes_.poly(e->size)}};
    case Kind::Var: {
      const auto it = env.find(e->var);
      if (it == env.end()) refuse(frame, "a variable is not bound");
      return {{{}, it->second}};
    }
    case Kind::Unary: {
      if (e->unary != te::UnaryOp::Neg) break;
      std::vector<Case> out = integer(e->args[0], frame, env, context);
      for (Case& c : out) c.value = -c.value;
      return out;
    }
    case Kind::Binary: return integer_binary(e, frame, env, context);
    case Kind::Cast:
      // Between the index types alone; anything else rounds or wraps.
      if (e.dtype() != DType::I64 || e->args[0].dtype() == DType::Bool || is_float(e->args[0].dtype())) break;
      return integer(e->args[0], frame, env, context);
    case Kind::Select: {
      const Cells cells = truth(e->args[0], frame, env, context);
      std::vector<Case> out;
      for (const bool yes : {true, false})
        for (const Guards& g : yes ? cells.yes : cells.no)
          for (const Case& c : integer(e->args[yes ? 1 : 2], frame, env, joined(context, g)))
            out.push_back({joined(g, c.guards), c.value});
      return out;
    }
    case Kind::Read: return {{{}, known_integer(e, frame, env, context)}};
    case Kind::Real:
    case Kind::Reduce: break;
  }
  refuse(frame, "an index depends on data");
}

// An element of an operand that holds known integers or sizes.
Poly Meaning::known_integer(const te::Expr& e, const Frame& frame, const Env& env, const Guards& context) {
  const auto slot = static_cast<size_t>(e->tensor);
  if (slot >= frame.program->inputs.size()) refuse(frame, "an index depends on data");
  const ir::Value v = builder_->graph().node(frame.node).inputs[slot];
  std::vector<Dim> contents;
  if (const auto* sizes = builder_->known_sizes(v)) contents = *sizes;
  if (const Tensor* t = builder_->known(v); t && contents.empty() && !is_float(t->dtype()))
    for (int64_t x : t->to_ints()) contents.emplace_back(x);
  const Shape& shape = builder_->type(v).shape;
  int64_t flat = 0;
  for (size_t i = 0; i < e->args.size(); ++i) {
    const std::vector<Case> at = integer(e->args[i], frame, env, context);
    const auto extent = shape[i].constant();
    if (at.size() != 1 || !extent) refuse(frame, "an index depends on data");
    // An axis of one element is read at 0 whatever the index is called.
    if (*extent != 1 && !at[0].value.is_const()) refuse(frame, "an index depends on data");
    flat = flat * *extent + (*extent == 1 ? 0 : at[0].value.constant());
  }
  if (flat < 0 || flat >= static_cast<int64_t>(contents.size())) refuse(frame, "an index depends on data");
  return sizes_.poly(contents[static_cast<size_t>(flat)]);
}

Meaning::Cells Meaning::compared(BinaryOp op, const Poly& d) const {
  // d = right - left.
  switch (op) {
    case BinaryOp::Lt: return {{{d - Poly(1)}}, {{-d}}};
    case BinaryOp::Le: return {{{d}}, {{-d - Poly(1)}}};
    case BinaryOp::Eq: return {{{d, -d}}, {{d - Poly(1)}, {-d - Poly(1)}}};
    default: return {{{d - Poly(1)}, {-d - Poly(1)}}, {{d, -d}}};
  }
}

// Disjoint conjunctions of guards that together say when the expression is true, and when false.
Meaning::Cells Meaning::truth(const te::Expr& e, const Frame& frame, const Env& env, const Guards& context) {
  if (e.dtype() != DType::Bool) refuse(frame, "a condition is no truth value");
  if (e->kind == Kind::Int) return e->integer != 0 ? Cells{{{}}, {}} : Cells{{}, {{}}};
  if (e->kind == Kind::Unary && e->unary == te::UnaryOp::Not) {
    Cells c = truth(e->args[0], frame, env, context);
    std::swap(c.yes, c.no);
    return c;
  }
  if (e->kind != Kind::Binary) refuse(frame, "a condition depends on data");
  if (e->binary == BinaryOp::And || e->binary == BinaryOp::Or) {
    Cells a = truth(e->args[0], frame, env, context), b = truth(e->args[1], frame, env, context);
    const bool conjunction = e->binary == BinaryOp::And;
    if (!conjunction) std::swap(a.yes, a.no), std::swap(b.yes, b.no);
    Cells c{product(a.yes, b.yes), a.no};
    append(c.no, product(a.yes, b.no));
    if (!conjunction) std::swap(c.yes, c.no);
    return c;
  }
  if (!te::is_compare(e->binary) || is_float(e->args[0].dtype()) || e->args[0].dtype() == DType::Bool)
    refuse(frame, "a condition depends on data");
  Cells out;
  for (const Case& x : integer(e->args[0], frame, env, context))
    for (const Case& y : integer(e->args[1], frame, env, joined(context, x.guards))) {
      const Guards both = joined(x.guards, y.guards);
      const Cells c = compared(e->binary, y.value - x.value);
      append(out.yes, product({both}, c.yes));
      append(out.no, product({both}, c.no));
    }
  return out;
}

}  // namespace isomer::verify
