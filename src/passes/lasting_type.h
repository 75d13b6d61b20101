// Types of values when the nodes round them are others: a size that only a run can tell is named after a node, and such
// a name means nothing once that node is gone.
#pragma once

#include "tensor/type.h"

namespace isomer::passes {

bool is_unknown(const Dim& dim);  // known to a run alone
// The parts of a type that still hold; the others are Dim::invalid().
Type lasting(const Type& type);
// `own` with what it does not know taken from `other`, which does not contradict it.
Type completed(const Type& own, const Type& other);

}  // namespace isomer::passes
