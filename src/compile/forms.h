// What a stage is, read off its expression alone: how a read's indices run with the stage's axes, whether a sum is a
// contraction, what an element costs. Nobody asks which operator it came from.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "compile/stage_graph.h"

namespace isomer::compile {

// constant + sum of coefficient * axis, over axis ids.
struct Linear {
  int64_t constant = 0;
  std::map<int, int64_t> terms;  // no zero coefficients
  int64_t of(int axis) const {
    const auto it = terms.find(axis);
    return it == terms.end() ? 0 : it->second;
  }
  bool operator==(const Linear&) const = default;
};

// An index that is a linear form of variables; nothing when it is not (quotients, data).
std::optional<Linear> linear(const te::Expr& index);
// When an index is exactly one variable: its axis id.
std::optional<int> plain_var(const te::Expr& index);

// Whether it is this operation of two.
bool is_binary(const te::Expr& e, te::BinaryOp op);

// Scales between these are finite, and far enough from the ends of a float that the product of two is too.
constexpr double kSmallestScale = 1e-30, kLargestScale = 1e30;

// Element-by-element reads of one value in an expression.
std::vector<te::Expr> reads_of(const te::Expr& e, int value);

// A rough price of one evaluation of the expression, in arithmetic operations; reductions count once.
int64_t price(const te::Expr& e);
// Whether it holds functions that cost tens of operations (exp, erf, pow, ...).
bool has_function(const te::Expr& e);
// A body that only moves elements: one read, whatever its indices.
bool is_move(const te::Expr& body);

// C[b, m, n] = sum over k of A[b, m, k] * B[b, k, n] for linear indices, a guard allowed on A's side (padding). Floats, or bytes
// that are summed in I32; then B is a constant.
// Axis ids; each axis of the stage and of its reduction is in exactly one list. Axes of extent 1 are in m.
struct Contraction {
  // An axis of the stage that counts as two, because an operand is read at its quotient (the group of a convolution):
  // axis = outer * extent of inner + inner. The reads and the lists have the two in its place.
  struct Split {
    int axis;
    te::Axis outer, inner;
  };
  std::optional<Split> split;
  te::Expr a, b;  // the two reads
  std::vector<int> batch, m, n, k;
  te::Expr where;  // where A counts; literal true when there is no guard
  te::Expr fill;   // what A counts as elsewhere: a number or one element of a value; empty: zero
  bool bytes() const { return a.dtype() != DType::F32; }  // of products of bytes, summed in I32
};
// `values` are those of the stage's graph.
std::optional<Contraction> contraction(const ModelStage& stage, const std::vector<StageValue>& values);
// Whether it is a sum over windows with so few columns that vectors run along positions rather than columns (planes.cc).
bool thin(const Contraction& contraction, const ModelStage& stage);
// The stage's axes, the two parts in place of one that is split.
std::vector<te::Axis> axes_of(const Contraction& contraction, const ModelStage& stage);

}  // namespace isomer::compile
