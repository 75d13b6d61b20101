// How much of each intermediate has to be stored: the box that one iteration of the loop around all its uses touches.
#pragma once

#include <vector>

#include "loop/nest.h"

namespace isomer::loop {

struct Storage {
  std::vector<te::Expr> base;  // per dim, over loop variables outside of all uses; the element stored at 0
  std::vector<int64_t> dims;
};

// For every buffer of the nest; `whole[b]` keeps buffer b as it is. Only the given items are looked at.
std::vector<Storage> storage_of(const Nest& nest, const std::vector<const Item*>& items,
                                const std::vector<bool>& whole);

}  // namespace isomer::loop
