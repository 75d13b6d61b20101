// Scalar expressions: what one element of a tensor equals, as data. A closed, immutable, shared set of nodes.
//
// Meaning, on which every reader relies:
// - Every expression has an element type. Operands of an arithmetic node have one type, which the result keeps;
//   comparisons give Bool. Literals take the type they are made with.
// - Float types stand for real numbers; readers evaluate them in double (or in their own number type) and round only
//   where a stage or a Cast stores them. Sums may be taken in any order; the reference takes them in axis order.
// - Integer arithmetic wraps to its type after each operation. Div and Rem truncate to zero; FloorDiv and FloorMod
//   round to minus infinity. An integer division by zero is an error at run time, never a trap.
// - Max, Min and the Max/Min/Arg reductions propagate NaN. Comparisons with NaN are false, Ne is true.
// - Round is to nearest, ties to even. Cast from float to integer truncates and saturates, NaN gives 0 (true for Bool).
//   Shifts by the width or more give 0. And, Or, Xor, Not on Bool are logical, on integers bit by bit.
// - Select evaluates only the branch that is taken; a Reduce evaluates its body only where `where` holds. A Read
//   that is evaluated must be in range: affine indices are the record's duty, data-dependent ones are checked.
// - An empty Sum is 0, Product 1, Max the lowest value (-inf), Min the highest (+inf). Arg gives the position,
//   row-major over its axes, of the first (or last) extremum.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "tensor/dim.h"
#include "tensor/dtype.h"

namespace isomer::te {

enum class Kind : uint8_t { Int, Real, Var, Size, Read, Unary, Binary, Select, Cast, Reduce };

enum class UnaryOp : uint8_t {
  Neg,
  Abs,
  Not,
  Exp,
  Log,
  Sqrt,
  Sin,
  Cos,
  Tan,
  Asin,
  Acos,
  Atan,
  Sinh,
  Cosh,
  Tanh,
  Asinh,
  Acosh,
  Atanh,
  Erf,
  Floor,
  Ceil,
  Round,
  Trunc,
  IsNan,
  IsInf
};
enum class BinaryOp : uint8_t {
  Add,
  Sub,
  Mul,
  Div,
  Rem,
  FloorDiv,
  FloorMod,
  Pow,
  Min,
  Max,
  And,
  Or,
  Xor,
  Shl,
  Shr,
  Eq,
  Ne,
  Lt,
  Le
};
enum class Combiner : uint8_t { Sum, Product, Max, Min, ArgMax, ArgMin, ArgMaxLast, ArgMinLast };

std::string_view name(UnaryOp op);
std::string_view name(BinaryOp op);  // the operator's sign or function name in the text form
std::string_view name(Combiner c);
constexpr bool is_compare(BinaryOp op) { return op >= BinaryOp::Eq; }
constexpr bool is_arg(Combiner c) { return c >= Combiner::ArgMax; }

// A loop axis: a variable that runs over 0 <= var < extent. Two axes are the same iff their ids are.
struct Axis {
  int id = -1;
  std::string name;
  Dim extent;
};

class Expr;

struct Node {
  Kind kind;
  DType dtype;
  // Which of the following are set depends on kind.
  int64_t integer = 0;                // Int
  double real = 0;                    // Real
  int var = -1;                       // Var: the axis id
  std::string var_name;               // Var
  Dim size;                           // Size
  int tensor = -1;                    // Read: slot, inputs first, then stages
  UnaryOp unary = UnaryOp::Neg;       // Unary
  BinaryOp binary = BinaryOp::Add;    // Binary
  Combiner combiner = Combiner::Sum;  // Reduce
  std::vector<Axis> axes;             // Reduce
  // Read: indices. Unary, Cast: x. Binary: a, b. Select: condition, then, else. Reduce: body, where (Bool).
  std::vector<Expr> args;
  Hash128 hash;  // of all of the above, set when the node is made
};

class Expr {
 public:
  Expr() = default;                               // empty: only to be assigned to
  Expr(int v) : Expr(static_cast<int64_t>(v)) {}  // NOLINT: index literal
  Expr(int64_t v);                                // NOLINT: index literal (I64)
  Expr(const Dim& extent);                        // NOLINT: Size, or Int when the extent is a number
  Expr(const Axis& axis);                         // NOLINT: Var

  static Expr integer(DType dtype, int64_t v);  // wraps to dtype; also for Bool
  static Expr real(DType dtype, double v);
  static Expr literal(DType dtype, double v);  // integer or real, as dtype asks
  static Expr read(int tensor, DType dtype, std::vector<Expr> indices);
  static Expr make(Node node);
  static Expr make_hashed(Node node);  // whose hash is set

  // No conversion to bool: `!e` is an expression.
  bool empty() const { return node_ == nullptr; }
  const Node* operator->() const { return node_.get(); }
  const Node& operator*() const { return *node_; }
  DType dtype() const { return node_->dtype; }
  bool same_node(const Expr& o) const { return node_ == o.node_; }
  const void* identity() const { return node_.get(); }

 private:
  explicit Expr(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  std::shared_ptr<const Node> node_;
};

// Structural equality and hash; axis ids count, axis names do not.
bool equal(const Expr& a, const Expr& b);
bool equal(const Node& a, const Node& b);  // whose hashes are set
Hash128 content_hash(const Node& n);
inline Hash128 hash(const Expr& e) { return e->hash; }

Expr unary(UnaryOp op, Expr x);
Expr binary(BinaryOp op, Expr a, Expr b);  // an index literal beside a typed operand takes the operand's type
Expr select(Expr condition, Expr then, Expr otherwise);
Expr cast(DType to, Expr x);  // x itself when it has the type
Expr reduce(Combiner c, std::vector<Axis> axes, Expr body, Expr where = {});

inline Expr operator+(Expr a, Expr b) { return binary(BinaryOp::Add, std::move(a), std::move(b)); }
inline Expr operator-(Expr a, Expr b) { return binary(BinaryOp::Sub, std::move(a), std::move(b)); }
inline Expr operator*(Expr a, Expr b) { return binary(BinaryOp::Mul, std::move(a), std::move(b)); }
inline Expr operator/(Expr a, Expr b) { return binary(BinaryOp::Div, std::move(a), std::move(b)); }
inline Expr operator-(Expr a) { return unary(UnaryOp::Neg, std::move(a)); }
inline Expr operator!(Expr a) { return unary(UnaryOp::Not, std::move(a)); }
inline Expr operator&&(Expr a, Expr b) { return binary(BinaryOp::And, std::move(a), std::move(b)); }
inline Expr operator||(Expr a, Expr b) { return binary(BinaryOp::Or, std::move(a), std::move(b)); }
inline Expr operator<(Expr a, Expr b) { return binary(BinaryOp::Lt, std::move(a), std::move(b)); }
inline Expr operator<=(Expr a, Expr b) { return binary(BinaryOp::Le, std::move(a), std::move(b)); }
inline Expr operator>(Expr a, Expr b) { return binary(BinaryOp::Lt, std::move(b), std::move(a)); }
inline Expr operator>=(Expr a, Expr b) { return binary(BinaryOp::Le, std::move(b), std::move(a)); }
inline Expr eq(Expr a, Expr b) { return binary(BinaryOp::Eq, std::move(a), std::move(b)); }
inline Expr ne(Expr a, Expr b) { return binary(BinaryOp::Ne, std::move(a), std::move(b)); }
inline Expr min(Expr a, Expr b) { return binary(BinaryOp::Min, std::move(a), std::move(b)); }
inline Expr max(Expr a, Expr b) { return binary(BinaryOp::Max, std::move(a), std::move(b)); }
inline Expr pow(Expr a, Expr b) { return binary(BinaryOp::Pow, std::move(a), std::move(b)); }
inline Expr floor_div(Expr a, Expr b) { return binary(BinaryOp::FloorDiv, std::move(a), std::move(b)); }
inline Expr floor_mod(Expr a, Expr b) { return binary(BinaryOp::FloorMod, std::move(a), std::move(b)); }
inline Expr exp(Expr x) { return unary(UnaryOp::Exp, std::move(x)); }
inline Expr log(Expr x) { return unary(UnaryOp::Log, std::move(x)); }
inline Expr sqrt(Expr x) { return unary(UnaryOp::Sqrt, std::move(x)); }
inline Expr tanh(Expr x) { return unary(UnaryOp::Tanh, std::move(x)); }
inline Expr erf(Expr x) { return unary(UnaryOp::Erf, std::move(x)); }
inline Expr abs(Expr x) { return unary(UnaryOp::Abs, std::move(x)); }
inline Expr floor(Expr x) { return unary(UnaryOp::Floor, std::move(x)); }
inline Expr ceil(Expr x) { return unary(UnaryOp::Ceil, std::move(x)); }
inline Expr round(Expr x) { return unary(UnaryOp::Round, std::move(x)); }
inline Expr sum(std::vector<Axis> axes, Expr body, Expr where = {}) {
  return reduce(Combiner::Sum, std::move(axes), std::move(body), std::move(where));
}
// 0 <= i < extent, as a conjunction of linear inequalities.
Expr in_range(const Expr& i, const Expr& extent);
Expr all_of(const std::vector<Expr>& conditions);  // true when empty
Expr truth(bool v);

}  // namespace isomer::te
