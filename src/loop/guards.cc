#include "loop/guards.h"
#include "base/contains.h"

#include <algorithm>

namespace isomer::loop {

bool is_true(const te::Expr& e) { return e->kind == te::Kind::Int && e->integer; }

std::vector<int> variables_of(const Affine& a) {
  std::vector<int> out;
  for (const Affine::Term& t : a.terms) variables(t.atom, out);
  return out;
}

bool uses_any(const Affine& a, const std::vector<int>& set) {
  const std::vector<int> used = variables_of(a);
  return std::any_of(used.begin(), used.end(), [&](int v) { return contains(set, v); });
}

void drop_guard(Item& item, const Affine& guard) {
  each_block(item, [&](Block& b) { std::erase_if(b.guards, [&](const Affine& g) { return same(g, guard); }); });
}

// Guards that every block of the item has.
std::vector<Affine> shared_guards(const Item& item) {
  std::vector<Affine> out;
  bool first = true;
  each_block(item, [&](const Block& b) {
    if (first) out = b.guards;
    first = false;
    std::erase_if(out, [&](const Affine& g) {
      return std::none_of(b.guards.begin(), b.guards.end(), [&](const Affine& o) { return same(o, g); });
    });
  });
  return out;
}

void inner_loops(const Item& item, std::vector<const Loop*>& out) {
  if (!item.is_loop()) return;
  out.push_back(&item.loop);
  for (const Item& i : item.body) inner_loops(i, out);
}

}  // namespace isomer::loop
