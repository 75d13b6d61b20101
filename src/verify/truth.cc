// Conditions as numbers: a truth value is 1 or 0, so that choosing by it is arithmetic. Conditions of indices alone are guards.
#include <algorithm>

#include "verify/meaning.h"

namespace isomer::verify {

using te::BinaryOp;
using te::Kind;

namespace {

// Whether a condition speaks of the contents of tensors, not of indices alone.
bool depends_on_data(const te::Expr& c) {
  if (c->kind == Kind::Read) return true;
  if (c->kind == Kind::Unary && (c->unary == te::UnaryOp::IsInf || c->unary == te::UnaryOp::IsNan)) return true;
  if (c->kind == Kind::Binary && te::is_compare(c->binary) && is_float(c->args[0].dtype())) return true;
  return (c.dtype() == DType::Bool && std::any_of(c->args.begin(), c->args.end(), depends_on_data));
}

}  // namespace

// A comparison of data as a number: 1 where it holds, 0 where it does not.
Form Meaning::comparison(BinaryOp op, const Form& a, const Form& b) {
  const auto opposite = [](const Form& f) { return add(number(1), scale(f, -1)); };
  switch (op) {
    case BinaryOp::Lt: return apply(kLess, {add(a, scale(b, -1))});
    case BinaryOp::Le: return opposite(apply(kLess, {add(b, scale(a, -1))}));
    case BinaryOp::Eq: return apply(kZero, {add(a, scale(b, -1))});
    default: return opposite(apply(kZero, {add(a, scale(b, -1))}));
  }
}

Form Meaning::truth_binary(const te::Expr& e, const Frame& frame, const Env& env, const Guards& context) {
  const te::Expr &x = e->args[0], &y = e->args[1];
  if (te::is_compare(e->binary) && x.dtype() != DType::Bool) {
    if (is_float(x.dtype())) return comparison(e->binary, real(x, frame, env, context), real(y, frame, env, context));
    Form out;
    for (const Guards& g : truth(e, frame, env, context).yes) out = add(std::move(out), guarded(number(1), g));
    return out;
  }
  const Form a = truth_value(x, frame, env, context), b = truth_value(y, frame, env, context);
  const Form both = multiply(atoms_, a, b), sum = add(a, b);
  switch (e->binary) {
    case BinaryOp::And: return both;
    case BinaryOp::Or: return add(sum, scale(both, -1));
    case BinaryOp::Eq: return add(number(1), add(scale(both, 2), scale(sum, -1)));
    case BinaryOp::Ne: return add(sum, scale(both, -2));
    default: refuse(frame, "an operation on truth values has no laws here");
  }
}

// A truth value as the number 0 or 1.
Form Meaning::truth_value(const te::Expr& e, const Frame& frame, const Env& env, const Guards& context) {
  switch (e->kind) {
    case Kind::Int: return e->integer != 0 ? number(1) : Form{};
    case Kind::Read: return real_read(e, frame, env, context);
    case Kind::Binary: return truth_binary(e, frame, env, context);
    case Kind::Select: return selected(e, frame, env, context);
    case Kind::Unary:
      // A real number is neither infinite nor no number.
      if (e->unary == te::UnaryOp::IsInf || e->unary == te::UnaryOp::IsNan) return {};
      if (e->unary != te::UnaryOp::Not) break;
      return add(number(1), scale(truth_value(e->args[0], frame, env, context), -1));
    case Kind::Cast:
      if (!is_float(e->args[0].dtype())) break;
      return comparison(BinaryOp::Ne, real(e->args[0], frame, env, context), {});
    default: break;
  }
  refuse(frame, "a condition depends on data");
}

Form Meaning::selected(const te::Expr& e, const Frame& frame, const Env& env, const Guards& context) {
  const te::Expr& c = e->args[0];
  const auto branch = [&](size_t k, const Guards& inside) {
    return e.dtype() == DType::Bool ? truth_value(e->args[k], frame, env, inside)
                                    : real(e->args[k], frame, env, inside);
  };
  if (depends_on_data(c)) {
    const Form t = truth_value(c, frame, env, context);
    const Form yes = branch(1, context), no = branch(2, context);
    if (t.empty()) return no;
    return add(no, multiply(atoms_, t, add(yes, scale(no, -1))));
  }
  const Cells cells = truth(c, frame, env, context);
  Form out;
  for (const bool yes : {true, false})
    for (const Guards& g : yes ? cells.yes : cells.no) {
      const Guards inner = joined(context, g);
      if (solver_.infeasible(inner)) continue;
      out = add(std::move(out), guarded(branch(yes ? 1 : 2, inner), g));
    }
  return out;
}

}  // namespace isomer::verify
