#include "te/substitute.h"

#include <algorithm>
#include <unordered_set>

namespace isomer::te {

Expr Substitution::operator()(const Expr& e) {
  if (e.empty()) return e;
  if (e->kind == Kind::Var) {
    const auto it = vars_.find(e->var);
    return it == vars_.end() ? e : it->second;
  }
  if (e->args.empty() && e->kind != Kind::Read) return e;
  if (const auto it = done_.find(e.identity()); it != done_.end()) return it->second;
  bool changed = false;
  std::vector<Expr> args;
  args.reserve(e->args.size());
  for (const Expr& a : e->args) {
    args.push_back((*this)(a));
    changed = changed || !args.back().same_node(a);
  }
  Expr result;
  if (e->kind == Kind::Read && on_read_) result = on_read_(*e, args);
  if (result.empty()) {
    if (!changed) {
      result = e;
    } else {
      Node node = *e;
      node.args = std::move(args);
      result = Expr::make(std::move(node));
    }
  }
  kept_.push_back(e);
  return done_[e.identity()] = result;
}

void for_each_node(const Expr& root, const std::function<void(const Expr&)>& visit) {
  if (root.empty()) return;
  std::unordered_set<const void*> seen;
  struct Frame {
    const Expr* e;
    size_t next = 0;
  };
  std::vector<Frame> stack = {{&root}};
  seen.insert(root.identity());
  while (!stack.empty()) {
    Frame& f = stack.back();
    if (f.next < (*f.e)->args.size()) {
      const Expr& a = (*f.e)->args[f.next++];
      if (!a.empty() && seen.insert(a.identity()).second) stack.push_back({&a});
    } else {
      visit(*f.e);
      stack.pop_back();
    }
  }
}

bool has_reduction(const Expr& e) {
  bool found = false;
  for_each_node(e, [&](const Expr& n) { found |= n->kind == Kind::Reduce; });
  return found;
}

std::vector<int> free_vars(const Expr& e) {
  std::vector<int> used, bound;
  for_each_node(e, [&](const Expr& n) {
    if (n->kind == Kind::Var && std::find(used.begin(), used.end(), n->var) == used.end()) used.push_back(n->var);
    if (n->kind == Kind::Reduce)
      for (const Axis& a : n->axes) bound.push_back(a.id);
  });
  std::erase_if(used, [&](int v) { return std::find(bound.begin(), bound.end(), v) != bound.end(); });
  return used;
}

}  // namespace isomer::te
