// Rebuilds expressions with variables and reads replaced. Shared nodes are rebuilt once and stay shared; a node whose
// parts did not change stays the same node.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "te/expr.h"

namespace isomer::te {

class Substitution {
 public:
  // What a read becomes, given the node and its rebuilt indices; empty: a read of the same tensor at those indices.
  using OnRead = std::function<Expr(const Node& read, std::vector<Expr> indices)>;

  void var(int axis, Expr by) { vars_.insert_or_assign(axis, std::move(by)); }
  void reads(OnRead on_read) { on_read_ = std::move(on_read); }

  // The axes that a Reduce inside `e` binds must not be among the replaced ones, nor occur in what replaces them.
  Expr operator()(const Expr& e);

 private:
  std::unordered_map<int, Expr> vars_;
  OnRead on_read_;
  std::unordered_map<const void*, Expr> done_;
  std::vector<Expr> kept_;  // keeps the keys of done_ alive
};

// Calls `visit` on every node once, operands before users.
void for_each_node(const Expr& e, const std::function<void(const Expr&)>& visit);

// Whether a reduction is part of the expression.
bool has_reduction(const Expr& e);

// Ids of the variables that the expression uses and does not bind, in order of first appearance.
std::vector<int> free_vars(const Expr& e);

}  // namespace isomer::te
