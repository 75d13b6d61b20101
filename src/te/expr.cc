#include "te/expr.h"

#include <fmt/format.h>

#include <bit>

#include "base/check.h"

namespace isomer::te {

std::string_view name(UnaryOp op) {
  static constexpr std::string_view kNames[] = {
      "-",    "abs",  "!",     "exp",   "log",   "sqrt", "sin",   "cos",  "tan",   "asin",  "acos",  "atan", "sinh",
      "cosh", "tanh", "asinh", "acosh", "atanh", "erf",  "floor", "ceil", "round", "trunc", "isnan", "isinf"};
  return kNames[static_cast<size_t>(op)];
}

std::string_view name(BinaryOp op) {
  static constexpr std::string_view kNames[] = {"+",  "-",  "*",   "/",   "rem", "floordiv", "mod", "pow", "min", "max",
                                                "&&", "||", "xor", "shl", "shr", "==",       "!=",  "<",   "<="};
  return kNames[static_cast<size_t>(op)];
}

std::string_view name(Combiner c) {
  static constexpr std::string_view kNames[] = {"sum",    "product", "max",         "min",
                                                "argmax", "argmin",  "argmax_last", "argmin_last"};
  return kNames[static_cast<size_t>(c)];
}

Hash128 content_hash(const Node& n) {
  Hasher h;
  h.add(static_cast<uint64_t>(n.kind)).add(static_cast<uint64_t>(n.dtype));
  switch (n.kind) {
    case Kind::Int: h.add(static_cast<uint64_t>(n.integer)); break;
    case Kind::Real: h.add(std::bit_cast<uint64_t>(n.real)); break;
    case Kind::Var: h.add(static_cast<uint64_t>(n.var)); break;
    case Kind::Size: h.add(n.size.to_string()); break;
    case Kind::Read: h.add(static_cast<uint64_t>(n.tensor)); break;
    case Kind::Unary: h.add(static_cast<uint64_t>(n.unary)); break;
    case Kind::Binary: h.add(static_cast<uint64_t>(n.binary)); break;
    case Kind::Reduce:
      h.add(static_cast<uint64_t>(n.combiner));
      for (const Axis& a : n.axes) h.add(static_cast<uint64_t>(a.id)).add(a.extent.to_string());
      break;
    case Kind::Select:
    case Kind::Cast: break;
  }
  for (const Expr& x : n.args) h.add(x->hash);
  return h.digest();
}

namespace {

// A node whose operands are let go one after the other, not one inside the other: depth costs no stack.
struct Held : Node {
  explicit Held(Node node) : Node(std::move(node)) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() {
    if (args.empty()) return;
    thread_local std::vector<Expr>* waiting = nullptr;
    if (waiting != nullptr) {
      for (Expr& x : args) waiting->push_back(std::move(x));
      return;
    }
    std::vector<Expr> list = std::move(args);
    waiting = &list;
    while (!list.empty()) {
      const Expr last = std::move(list.back());
      list.pop_back();
    }
    waiting = nullptr;
  }
};

}  // namespace

Expr Expr::make(Node node) {
  node.hash = content_hash(node);
  return make_hashed(std::move(node));
}

Expr Expr::make_hashed(Node node) { return Expr(std::make_shared<const Held>(std::move(node))); }

Expr Expr::integer(DType dtype, int64_t v) {
  Node n{.kind = Kind::Int, .dtype = dtype};
  n.integer = wrap_to(dtype, v);
  return make(std::move(n));
}

Expr Expr::real(DType dtype, double v) {
  Node n{.kind = Kind::Real, .dtype = dtype};
  n.real = v;
  return make(std::move(n));
}

Expr Expr::literal(DType dtype, double v) {
  return is_float(dtype) ? real(dtype, v) : integer(dtype, static_cast<int64_t>(v));
}

Expr::Expr(int64_t v) : Expr(integer(DType::I64, v)) {}

Expr::Expr(const Dim& extent) {
  if (extent.is_const()) {
    *this = Expr(extent.value());
    return;
  }
  Node n{.kind = Kind::Size, .dtype = DType::I64};
  n.size = extent;
  *this = make(std::move(n));
}

Expr::Expr(const Axis& axis) {
  Node n{.kind = Kind::Var, .dtype = DType::I64};
  n.var = axis.id;
  n.var_name = axis.name;
  *this = make(std::move(n));
}

Expr Expr::read(int tensor, DType dtype, std::vector<Expr> indices) {
  Node n{.kind = Kind::Read, .dtype = dtype};
  n.tensor = tensor;
  n.args = std::move(indices);
  return make(std::move(n));
}

namespace {

// An index literal beside an operand of another type is meant in that type.
Expr retyped_literal(const Expr& e, DType dtype) {
  if (e->kind != Kind::Int || e.dtype() != DType::I64 || dtype == DType::I64) return e;
  return Expr::literal(dtype, static_cast<double>(e->integer));
}

bool predicate_result(UnaryOp op) { return op == UnaryOp::IsNan || op == UnaryOp::IsInf; }

}  // namespace

Expr unary(UnaryOp op, Expr x) {
  Node n{.kind = Kind::Unary, .dtype = predicate_result(op) ? DType::Bool : x.dtype()};
  n.unary = op;
  n.args = {std::move(x)};
  return Expr::make(std::move(n));
}

Expr binary(BinaryOp op, Expr a, Expr b) {
  a = retyped_literal(a, b.dtype());
  b = retyped_literal(b, a.dtype());
  ISOMER_ASSERT(a.dtype() == b.dtype(), fmt::format("operands of '{}' are {} and {}", name(op), isomer::name(a.dtype()),
                                                    isomer::name(b.dtype())));
  Node n{.kind = Kind::Binary, .dtype = is_compare(op) ? DType::Bool : a.dtype()};
  n.binary = op;
  n.args = {std::move(a), std::move(b)};
  return Expr::make(std::move(n));
}

Expr select(Expr condition, Expr then, Expr otherwise) {
  then = retyped_literal(then, otherwise.dtype());
  otherwise = retyped_literal(otherwise, then.dtype());
  ISOMER_ASSERT(condition.dtype() == DType::Bool && then.dtype() == otherwise.dtype(), "select of one type");
  Node n{.kind = Kind::Select, .dtype = then.dtype()};
  n.args = {std::move(condition), std::move(then), std::move(otherwise)};
  return Expr::make(std::move(n));
}

Expr cast(DType to, Expr x) {
  if (x.dtype() == to) return x;
  Node n{.kind = Kind::Cast, .dtype = to};
  n.args = {std::move(x)};
  return Expr::make(std::move(n));
}

Expr reduce(Combiner c, std::vector<Axis> axes, Expr body, Expr where) {
  Node n{.kind = Kind::Reduce, .dtype = is_arg(c) ? DType::I64 : body.dtype()};
  n.combiner = c;
  n.axes = std::move(axes);
  n.args = {std::move(body), where.empty() ? truth(true) : std::move(where)};
  return Expr::make(std::move(n));
}

Expr truth(bool v) { return Expr::integer(DType::Bool, v); }

Expr in_range(const Expr& i, const Expr& extent) { return Expr(0) <= i && i < extent; }

Expr all_of(const std::vector<Expr>& conditions) {
  if (conditions.empty()) return truth(true);
  Expr all = conditions[0];
  for (size_t i = 1; i < conditions.size(); ++i) all = all && conditions[i];
  return all;
}

bool equal(const Expr& a, const Expr& b) {
  if (a.same_node(b)) return true;
  return !a.empty() && !b.empty() && equal(*a, *b);
}

bool equal(const Node& a, const Node& b) {
  if (a.hash != b.hash) return false;
  if (a.kind != b.kind || a.dtype != b.dtype || a.args.size() != b.args.size()) return false;
  switch (a.kind) {
    case Kind::Int:
      if (a.integer != b.integer) return false;
      break;
    case Kind::Real:
      if (std::bit_cast<uint64_t>(a.real) != std::bit_cast<uint64_t>(b.real)) return false;
      break;
    case Kind::Var:
      if (a.var != b.var) return false;
      break;
    case Kind::Size:
      if (!(a.size == b.size)) return false;
      break;
    case Kind::Read:
      if (a.tensor != b.tensor) return false;
      break;
    case Kind::Unary:
      if (a.unary != b.unary) return false;
      break;
    case Kind::Binary:
      if (a.binary != b.binary) return false;
      break;
    case Kind::Reduce:
      if (a.combiner != b.combiner || a.axes.size() != b.axes.size()) return false;
      for (size_t i = 0; i < a.axes.size(); ++i)
        if (a.axes[i].id != b.axes[i].id || !(a.axes[i].extent == b.axes[i].extent)) return false;
      break;
    case Kind::Select:
    case Kind::Cast: break;
  }
  for (size_t i = 0; i < a.args.size(); ++i)
    if (!equal(a.args[i], b.args[i])) return false;
  return true;
}

}  // namespace isomer::te
