// What the emitter asks about guards: which variables they use, and which of them all blocks of an item have.
#pragma once

#include <vector>

#include "loop/nest.h"

namespace isomer::loop {

bool is_true(const te::Expr& condition);  // a literal
std::vector<int> variables_of(const Affine& guard);
bool uses_any(const Affine& guard, const std::vector<int>& variables);
void drop_guard(Item& item, const Affine& guard);                   // from every block of the item
std::vector<Affine> shared_guards(const Item& item);                // that every block of the item has
void inner_loops(const Item& item, std::vector<const Loop*>& out);  // the item's own and all inside, appended

}  // namespace isomer::loop
