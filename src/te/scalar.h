// The meaning of the scalar operations on doubles and on typed 64-bit integers, as expr.h states it. Every evaluator
// that computes with machine numbers calls these, so they cannot disagree.
#pragma once

#include <cstdint>
#include <optional>

#include "te/expr.h"

namespace isomer::te {

double real_unary(UnaryOp op, double x);              // not for IsNan, IsInf, Not
bool real_test(UnaryOp op, double x);                 // IsNan, IsInf
double real_binary(BinaryOp op, double a, double b);  // not for comparisons and bit operations
bool real_compare(BinaryOp op, double a, double b);

int64_t int_unary(UnaryOp op, DType type, int64_t x);
// Nothing when a division has a zero divisor. Comparisons give 0 or 1.
std::optional<int64_t> int_binary(BinaryOp op, DType type, int64_t a, int64_t b);

// Whether `candidate` replaces `best` in an arg reduction; equal values replace only in the "last" combiners.
bool arg_better(Combiner c, double candidate, double best);
bool arg_better_int(Combiner c, DType type, int64_t candidate, int64_t best);

double real_identity(Combiner c);  // of Sum, Product, Max, Min
int64_t int_identity(Combiner c, DType type);
BinaryOp combining_op(Combiner c);  // Add, Mul, Max, Min

}  // namespace isomer::te
