#include "te/match.h"

#include <algorithm>

#include "te/affine.h"

namespace isomer::te {
namespace {

bool is_wild(const Expr& p) { return p->kind == Kind::Var; }
bool takes_many(const Expr& p) { return is_wild(p) && !is_constant_wild(p->var); }
bool is_sum(const Expr& e) {
  return e->kind == Kind::Binary && (e->binary == BinaryOp::Add || e->binary == BinaryOp::Sub);
}

void flatten_pattern(const Expr& p, BinaryOp op, std::vector<Expr>& out) {
  if (p->kind == Kind::Binary && p->binary == op) {
    flatten_pattern(p->args[0], op, out);
    flatten_pattern(p->args[1], op, out);
  } else {
    out.push_back(p);
  }
}

// A first look that saves the search: can the root of the pattern be this node?
bool may_match(const Expr& p, const Expr& s) {
  if (p.dtype() != s.dtype()) return false;
  if (is_wild(p)) return !is_constant_wild(p->var) || is_literal(s);
  if (is_int(p.dtype()) && p->kind == Kind::Binary && p->binary == BinaryOp::Add) return is_sum(s);
  if (p->kind != s->kind) return false;
  if (p->kind == Kind::Binary) return p->binary == s->binary && p->args[0].dtype() == s->args[0].dtype();
  if (p->kind == Kind::Unary) return p->unary == s->unary && p->args[0].dtype() == s->args[0].dtype();
  return true;
}

}  // namespace

bool is_literal(const Expr& e) { return e->kind == Kind::Int || e->kind == Kind::Real; }

// Min and Max of reals are not: of two zeros they give the second.
bool is_commutative(BinaryOp op, DType operands) {
  switch (op) {
    case BinaryOp::Add:
    case BinaryOp::Mul:
    case BinaryOp::Eq:
    case BinaryOp::Ne: return true;
    case BinaryOp::Min:
    case BinaryOp::Max:
    case BinaryOp::And:
    case BinaryOp::Or:
    case BinaryOp::Xor: return !is_float(operands);
    default: return false;
  }
}

bool Matcher::match(const Expr& pattern, const Expr& subject, const Accept& accept) {
  binding_ = {};
  return go({{pattern, subject}}, accept);
}

bool Matcher::bind(const Expr& wild, const Expr& subject, Pairs todo, const Accept& accept) {
  Expr& slot = binding_[static_cast<size_t>(wild->var)];
  if (slot.identity() != nullptr) return slot.same_node(subject) && go(std::move(todo), accept);
  slot = subject;
  if (go(std::move(todo), accept)) return true;
  slot = Expr();
  return false;
}

bool Matcher::go(Pairs todo, const Accept& accept) {
  if (todo.empty()) return accept(binding_);
  // Plain variables and literals first: what they bind narrows the rest.
  const auto easy = std::find_if(todo.begin(), todo.end(),
                                 [](const auto& pair) { return is_wild(pair.first) || is_literal(pair.first); });
  const auto chosen = easy == todo.end() ? todo.begin() : easy;
  const auto [p, s] = *chosen;
  todo.erase(chosen);
  if (!may_match(p, s)) return false;
  if (is_wild(p)) return bind(p, s, std::move(todo), accept);
  if (is_literal(p)) return equal(p, s) && go(std::move(todo), accept);
  if (p->kind == Kind::Binary && is_int(p.dtype()) && (p->binary == BinaryOp::Add || p->binary == BinaryOp::Mul)) {
    std::vector<Expr> patterns;
    flatten_pattern(p, p->binary, patterns);
    return spread(p->binary, std::move(patterns),
                  p->binary == BinaryOp::Add ? terms_of(facts_, s) : factors_of(facts_, s), todo, accept);
  }
  Pairs direct = todo;
  for (size_t i = 0; i < p->args.size(); ++i) direct.emplace_back(p->args[i], s->args[i]);
  if (go(std::move(direct), accept)) return true;
  if (p->kind != Kind::Binary || !is_commutative(p->binary, p->args[0].dtype())) return false;
  todo.emplace_back(p->args[0], s->args[1]);
  todo.emplace_back(p->args[1], s->args[0]);
  return go(std::move(todo), accept);
}

Expr Matcher::join(BinaryOp op, DType dtype, const std::vector<Expr>& parts) {
  return op == BinaryOp::Add ? sum_of(facts_, dtype, parts) : product_of(facts_, dtype, parts);
}

// Gives every pattern one part, and all that is left to one plain variable.
bool Matcher::spread(BinaryOp op, std::vector<Expr> patterns, std::vector<Expr> parts, const Pairs& todo,
                     const Accept& accept) {
  if (patterns.empty() || parts.size() < patterns.size()) return false;
  const DType dtype = patterns[0].dtype();
  // A variable that is bound already must give back its own parts.
  for (size_t i = 0; i < patterns.size(); ++i) {
    if (!is_wild(patterns[i])) continue;
    const Expr& bound = binding_[static_cast<size_t>(patterns[i]->var)];
    if (bound.identity() == nullptr) continue;
    for (const Expr& own : op == BinaryOp::Add ? terms_of(facts_, bound) : factors_of(facts_, bound)) {
      const auto it = std::find_if(parts.begin(), parts.end(), [&](const Expr& e) { return e.same_node(own); });
      if (it == parts.end()) return false;
      parts.erase(it);
    }
    patterns.erase(patterns.begin() + static_cast<std::ptrdiff_t>(i));
    if (patterns.empty()) return parts.empty() && go(todo, accept);
    return spread(op, std::move(patterns), std::move(parts), todo, accept);
  }
  if (patterns.size() == 1) {
    if (!takes_many(patterns[0]) && parts.size() != 1) return false;
    Pairs next = todo;
    next.emplace_back(patterns[0], parts.size() == 1 ? parts[0] : join(op, dtype, parts));
    return go(std::move(next), accept);
  }
  // The most particular pattern chooses its part; among plain variables each may be the one that takes a single part.
  const auto particular = std::find_if(patterns.begin(), patterns.end(), [](const Expr& p) { return !takes_many(p); });
  const bool only_variables = particular == patterns.end();
  for (auto p = only_variables ? patterns.begin() : particular; p != patterns.end(); ++p) {
    std::vector<Expr> others = patterns;
    others.erase(others.begin() + (p - patterns.begin()));
    for (size_t k = 0; k < parts.size(); ++k) {
      if (!may_match(*p, parts[k])) continue;
      std::vector<Expr> rest = parts;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(k));
      Pairs next = todo;
      next.emplace_back(*p, parts[k]);
      if (spread(op, others, std::move(rest), next, accept)) return true;
    }
    if (!only_variables) break;
  }
  return false;
}

}  // namespace isomer::te
