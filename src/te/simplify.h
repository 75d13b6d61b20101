// Simplifies expressions without changing what they compute. Bottom-up to a fixpoint: constants are folded, integer
// sums brought to affine normal form (affine.h), trivial reductions removed, and the rules of rules.cc applied; the
// result is simplified again to itself.
//
// What "without changing" means:
// - Data integers wrap, and every rule for them is right under wrapping, at the type's extremes too.
// - Index arithmetic (i64 over axes, sizes and literals up to 2^40) is taken not to overflow: where all extents are
//   numbers this is checked by interval arithmetic, and only where symbolic sizes take part is it assumed, because the
//   positions of an in-range program fit in 64 bits. A symbolic size is taken to be at least 0.
// - Reals keep every bit: NaN, infinities and the sign of zero. Nothing is reassociated.
// - A value that was defined stays so; an undefined one (a division by zero, a read out of range) may become defined.
//   Nothing leaves the branch of a select or the `where` of a reduction that guards it.
// - Shared nodes are simplified once, and the depth of the expression costs no stack.
#pragma once

#include <span>

#include "te/program.h"

namespace isomer::te {

Program simplify(const Program& program);

// `axes` are those that the expression uses and does not bind itself; any other variable may have any value.
Expr simplify(const Expr& e, std::span<const Axis> axes = {});

// e + by of a simplified integer, in the same form; much cheaper than simplifying the sum.
Expr moved(const Expr& e, int64_t by);

}  // namespace isomer::te
