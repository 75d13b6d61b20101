#include "te/expr_parser.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "te/parse.h"

namespace isomer::te {
namespace {

struct Deeper {  // counts nesting while it lives
  explicit Deeper(int& depth) : depth_(++depth) {}
  ~Deeper() { --depth_; }
  int& depth_;
};

bool only_float(UnaryOp op) {
  return (op >= UnaryOp::Exp && op <= UnaryOp::Erf) || op == UnaryOp::IsNan || op == UnaryOp::IsInf;
}
bool only_bits(BinaryOp op) { return op >= BinaryOp::And && op <= BinaryOp::Shr; }

// A literal's text as a number of the type; nothing when it is none or does not fit.
std::optional<Expr> literal_of(std::string_view text, DType type) {
  const char* end = text.data() + text.size();
  if (is_float(type)) {
    const bool negative = text.starts_with('-');
    const std::string_view word = text.substr(negative ? 1 : 0);
    double v = 0;
    if (word.starts_with("nan")) {
      uint64_t payload = uint64_t{1} << 51;
      if (word.size() > 3) std::from_chars(word.data() + 4, end, payload);
      if (payload == 0 || payload >> 52) return std::nullopt;
      v = std::bit_cast<double>((uint64_t{0x7FF} << 52) | payload);
    } else if (word == "inf") {
      v = std::numeric_limits<double>::infinity();
    } else if (const auto r = std::from_chars(word.data(), end, v); r.ec != std::errc() || r.ptr != end) {
      return std::nullopt;
    }
    return Expr::real(type, negative ? std::copysign(v, -1.0) : v);
  }
  if (!is_int(type)) return std::nullopt;
  int64_t v = 0;
  auto r = std::from_chars(text.data(), end, v);
  if (r.ec == std::errc::result_out_of_range && type == DType::U64) {
    uint64_t u = 0;
    r = std::from_chars(text.data(), end, u);
    v = static_cast<int64_t>(u);
  } else if (v < 0 && is_unsigned_int(type)) {
    return std::nullopt;
  }
  if (r.ec != std::errc() || r.ptr != end || wrap_to(type, v) != v) return std::nullopt;
  return Expr::integer(type, v);
}

}  // namespace

Expected<Expr> ExprParser::expression(std::vector<Axis> axes, std::optional<DType> alone) {
  scope_ = std::move(axes);
  ISOMER_TRY(Operand x, binary_chain(Strength::Or));
  scope_.clear();
  if (!x.bare.empty() && alone) ISOMER_CHECK_OK(retype(x, *alone));
  return x.e;
}

Expected<Axis> ExprParser::binder() {
  Axis a;
  ISOMER_TRY(a.name, in_.name("an axis"));
  ISOMER_TRY(const auto id, in_.id());
  a.id = id.value_or(next_id_);
  if (a.id >= kMaxParseAxisId) return in_.fail(fmt::format("expected fewer than {} axes", kMaxParseAxisId));
  next_id_ = a.id + 1;
  ISOMER_CHECK_OK(in_.expect("<"));
  ISOMER_TRY(a.extent, in_.dim());
  return a;
}

Expected<int> ExprParser::tensor_slot() {
  const Token start = in_.peek();
  ISOMER_TRY(const std::string tensor, in_.name("a tensor"));
  ISOMER_TRY(const auto wanted, in_.id());
  const int count = static_cast<int>(program_.inputs.size() + program_.stages.size());
  int seen = 0, slot = -1;
  for (int s = 0; s < count; ++s) {
    const auto u = static_cast<size_t>(s);
    const size_t inputs = program_.inputs.size();
    if ((u < inputs ? program_.inputs[u].name : program_.stages[u - inputs].name) != tensor) continue;
    if (wanted && *wanted != s) continue;
    ++seen, slot = s;
  }
  if (seen == 1) return slot;
  if (seen == 0)
    return in_.fail_at(start, "E-te-name",
                       fmt::format("expected the name of an input or an earlier stage, found {}", quoted(tensor)));
  return in_.fail_at(start, "E-te-name",
                     fmt::format("{} names {} tensors; write its slot as NAME@SLOT", quoted(tensor), seen));
}

Expected<void> ExprParser::retype(Operand& x, DType type) {
  const auto v = literal_of(x.bare, type);
  if (!v)
    return in_.fail(
        fmt::format("expected a number of type {} before this place, found {}", isomer::name(type), quoted(x.bare)));
  x = {*v};
  return {};
}
// A literal without a type takes that of its neighbour.
Expected<void> ExprParser::unify(Operand& a, Operand& b) {
  if (!a.bare.empty() && (b.bare.empty() || is_float(b.e.dtype()))) ISOMER_CHECK_OK(retype(a, b.e.dtype()));
  if (!b.bare.empty()) ISOMER_CHECK_OK(retype(b, a.e.dtype()));
  return {};
}

Expected<ExprParser::Operand> ExprParser::built(const Token& at, Expr e, int depth) {
  if (depth >= kMaxParseDepth)
    return in_.fail_at(at, "E-te-depth", fmt::format("expected an expression of depth below {}", kMaxParseDepth));
  return Operand{std::move(e), {}, depth + 1};
}

Expected<ExprParser::Operand> ExprParser::make_binary(const Token& at, BinaryOp op, Operand a, Operand b) {
  ISOMER_CHECK_OK(unify(a, b));
  const DType t = a.e.dtype();
  if (t != b.e.dtype())
    return in_.fail_at(at, "E-te-type",
                       fmt::format("expected operands of one type for '{}', found {} and {}; write a cast", name(op),
                                   isomer::name(t), isomer::name(b.e.dtype())));
  if (only_bits(op) && is_float(t))
    return in_.fail_at(at, "E-te-type",
                       fmt::format("expected integers or booleans for '{}', found {}", name(op), isomer::name(t)));
  return built(at, binary(op, a.e, b.e), std::max(a.depth, b.depth));
}

Expected<ExprParser::Operand> ExprParser::make_unary(const Token& at, UnaryOp op, const Operand& x) {
  const DType t = x.e.dtype();
  if (is_float(t) ? op == UnaryOp::Not : only_float(op))
    return in_.fail_at(at, "E-te-type", fmt::format("'{}' has no meaning for {}", name(op), isomer::name(t)));
  return built(at, unary(op, x.e), x.depth);
}

// The operator at this place, if one of at least this strength is there; > and >= swap their operands.
std::optional<std::pair<BinaryOp, bool>> ExprParser::infix(Strength at_least) const {
  if (in_.peek().kind != Token::Kind::Sign) return std::nullopt;
  std::string_view sign = in_.peek().text;
  const bool swapped = sign == ">" || sign == ">=";
  if (swapped) sign = sign == ">" ? "<" : "<=";
  for (int i = 0; i <= static_cast<int>(BinaryOp::Le); ++i) {
    const auto op = static_cast<BinaryOp>(i);
    if (name(op) == sign && strength(op) != Strength::Primary && strength(op) >= at_least)
      return std::pair(op, swapped);
  }
  return std::nullopt;
}

Expected<ExprParser::Operand> ExprParser::binary_chain(Strength at_least) {
  const Deeper deeper(nesting_);
  if (nesting_ > kMaxParseDepth)
    return in_.fail_at(in_.peek(), "E-te-depth", fmt::format("expected fewer than {} nested brackets", kMaxParseDepth));
  ISOMER_TRY(Operand left, unary_operand());
  bool compared = false;
  while (const auto op = infix(at_least)) {
    const Token at = in_.peek();
    const bool compare = is_compare(op->first);
    if (compare && compared) return in_.fail("expected parentheses round one of two comparisons");
    compared = compared || compare;
    in_.skip();
    ISOMER_TRY(Operand right, binary_chain(tighter(strength(op->first))));
    if (op->second) std::swap(left, right);
    ISOMER_TRY(left, make_binary(at, op->first, std::move(left), std::move(right)));
    if (strength(op->first) < Strength::Compare) compared = false;
  }
  return left;
}

Expected<ExprParser::Operand> ExprParser::unary_operand() {
  const Deeper deeper(nesting_);
  if (nesting_ > kMaxParseDepth) return in_.fail_at(in_.peek(), "E-te-depth", "expected fewer nested operators");
  const Token at = in_.peek();
  if (in_.eat("!")) {
    ISOMER_TRY(const Operand x, unary_operand());
    return make_unary(at, UnaryOp::Not, x);
  }
  if (!in_.eat("-")) return primary();
  if (in_.peek().kind == Token::Kind::Number || in_.is_word("inf") || in_.is_word("nan")) return number("-");
  ISOMER_TRY(const Operand x, unary_operand());
  return make_unary(at, UnaryOp::Neg, x);
}

Expected<ExprParser::Operand> ExprParser::number(const std::string& sign) {
  std::string digits = sign + in_.peek().text;
  const bool real = digits.find_first_of(".einfa") != std::string::npos || digits.find('E') != std::string::npos;
  const bool nan = in_.is_word("nan");
  in_.skip();
  if (nan && in_.is("(") && in_.peek(1).kind == Token::Kind::Number && in_.is(")", 2)) {
    digits += "(" + in_.peek(1).text + ")";
    in_.skip(3);
  }
  const bool typed = in_.eat(":");
  DType type = real ? DType::F32 : DType::I64;
  if (typed) {
    ISOMER_TRY(type, in_.dtype());
  }
  auto e = literal_of(digits, type);
  if (!e && !typed && !real) e = literal_of(digits, DType::U64);  // a neighbour may yet say that it is u64
  if (!e) return in_.fail(fmt::format("expected a number of type {}, found {}", isomer::name(type), quoted(digits)));
  return Operand{*e, typed ? "" : digits};
}

Expected<ExprParser::Operand> ExprParser::primary() {
  const Token at = in_.peek();
  if (in_.eat("(")) {
    ISOMER_TRY(Operand x, binary_chain(Strength::Or));
    ISOMER_CHECK_OK(in_.expect(")"));
    return x;
  }
  if (at.kind == Token::Kind::Number || in_.is_word("inf") || in_.is_word("nan")) return number("");
  if (in_.eat_word("true")) return Operand{truth(true)};
  if (in_.eat_word("false")) return Operand{truth(false)};
  if (in_.is("$")) return read_by_slot();
  if (at.kind == Token::Kind::Name && in_.is("(", 1)) return call();
  if (!in_.is_name()) return in_.fail(fmt::format("expected an expression, found {}", in_.found()));
  const bool id = in_.is("@", 1);
  if (in_.is("[", id ? 3 : 1)) {
    ISOMER_TRY(const int slot, tensor_slot());
    return read(at, slot, program_.slot_dtype(slot), program_.slot_dims(slot).size());
  }
  return variable();
}

Expected<ExprParser::Operand> ExprParser::variable() {
  const Token at = in_.peek();
  ISOMER_TRY(std::string text, in_.name("an axis"));
  ISOMER_TRY(const auto id, in_.id());
  for (size_t k = scope_.size(); k-- > 0;)
    if (id ? scope_[k].id == *id : scope_[k].name == text) return Operand{Expr(scope_[k])};
  if (context_ && !id)
    for (const auto& [bound, value] : context_->names)
      if (bound == text) return Operand{value};
  if (context_ && id) return Operand{Expr(Axis{*id, std::move(text), Dim(0)})};
  return in_.fail_at(at, "E-te-name",
                     fmt::format("expected the name of an axis in scope, found {}; a size is written size({})",
                                 quoted(text), printable(text)));
}

Expected<ExprParser::Operand> ExprParser::read_by_slot() {
  const Token at = in_.peek();
  in_.skip();
  const auto slot = context_ ? in_.whole_number() : std::nullopt;
  if (!slot) return in_.fail(fmt::format("expected a tensor's name, found {}", in_.found()));
  ISOMER_CHECK_OK(in_.expect(":"));
  ISOMER_TRY(const DType type, in_.dtype());
  return read(at, *slot, type, std::nullopt);
}

Expected<ExprParser::Operand> ExprParser::read(const Token& at, int slot, DType type, std::optional<size_t> rank) {
  ISOMER_CHECK_OK(in_.expect("["));
  std::vector<Expr> indices;
  int depth = 0;
  while (!in_.is("]")) {
    if (!indices.empty()) ISOMER_CHECK_OK(in_.expect(","));
    ISOMER_TRY(const Operand x, binary_chain(Strength::Or));
    if (is_float(x.e.dtype()))
      return in_.fail_at(at, "E-te-type", fmt::format("expected integer indices, found {}", isomer::name(x.e.dtype())));
    indices.push_back(x.e);
    depth = std::max(depth, x.depth);
  }
  in_.skip();
  if (rank && *rank != indices.size())
    return in_.fail_at(at, "E-te-type", fmt::format("expected {} indices, found {}", *rank, indices.size()));
  return built(at, Expr::read(slot, type, std::move(indices)), depth);
}

std::optional<Combiner> ExprParser::reduction_start() const {
  for (int i = 0; i <= static_cast<int>(Combiner::ArgMinLast); ++i) {
    const auto c = static_cast<Combiner>(i);
    if (name(c) != in_.peek().text) continue;
    const bool function = c == Combiner::Max || c == Combiner::Min;
    const bool axes = in_.is_name(2) && in_.is("<", in_.is("@", 3) ? 5 : 3);
    const bool none = in_.is(")", 2) || (in_.peek(2).kind == Token::Kind::Name && in_.peek(2).text == "where");
    if (!function || axes || none) return c;
  }
  return std::nullopt;
}

Expected<ExprParser::Operand> ExprParser::call() {
  const Token at = in_.peek();
  if (const auto c = reduction_start()) return reduction(at, *c);
  in_.skip(2);
  if (at.text == "size") {
    ISOMER_TRY(const Dim d, in_.dim());
    ISOMER_CHECK_OK(in_.expect(")"));
    return Operand{Expr(d)};
  }
  std::vector<Operand> args;
  while (!in_.is(")")) {
    if (!args.empty()) ISOMER_CHECK_OK(in_.expect(","));
    ISOMER_TRY(Operand x, binary_chain(Strength::Or));
    args.push_back(std::move(x));
    if (args.size() > 3) break;
  }
  ISOMER_CHECK_OK(in_.expect(")"));
  return apply(at, std::move(args));
}

Expected<ExprParser::Operand> ExprParser::apply(const Token& at, std::vector<Operand> args) {
  if (args.size() == 1) {
    if (const auto type = dtype_from_name(at.text); type && *type != DType::Opaque)
      return built(at, cast(*type, args[0].e), args[0].depth);
    for (int i = 0; i <= static_cast<int>(UnaryOp::IsInf); ++i)
      if (name(static_cast<UnaryOp>(i)) == at.text) return make_unary(at, static_cast<UnaryOp>(i), args[0]);
  }
  if (args.size() == 2)
    for (int i = 0; i <= static_cast<int>(BinaryOp::Le); ++i)
      if (name(static_cast<BinaryOp>(i)) == at.text)
        return make_binary(at, static_cast<BinaryOp>(i), std::move(args[0]), std::move(args[1]));
  if (at.text != "select" || args.size() != 3)
    return in_.fail_at(at, "E-te-name",
                       fmt::format("expected a function of {} operands, found {}", args.size(), quoted(at.text)));
  ISOMER_CHECK_OK(unify(args[1], args[2]));
  if (args[0].e.dtype() != DType::Bool || args[1].e.dtype() != args[2].e.dtype())
    return in_.fail_at(at, "E-te-type", "expected select(condition of type bool, a, b) with a and b of one type");
  return built(at, select(args[0].e, args[1].e, args[2].e), std::max({args[0].depth, args[1].depth, args[2].depth}));
}

Expected<ExprParser::Operand> ExprParser::reduction(const Token& at, Combiner c) {
  in_.skip(2);
  const size_t outer = scope_.size();
  std::vector<Axis> axes;
  while (!in_.is(")") && !in_.is_word("where")) {
    if (!axes.empty()) ISOMER_CHECK_OK(in_.expect(","));
    ISOMER_TRY(Axis a, binder());
    scope_.push_back(a);
    axes.push_back(std::move(a));
  }
  Operand where{truth(true)};
  if (in_.eat_word("where")) {
    ISOMER_TRY(where, binary_chain(Strength::Or));
    if (where.e.dtype() != DType::Bool)
      return in_.fail_at(
          at, "E-te-type",
          fmt::format("expected a condition of type bool after 'where', found {}", isomer::name(where.e.dtype())));
  }
  ISOMER_CHECK_OK(in_.expect(")"));
  ISOMER_TRY(const Operand body, binary_chain(Strength::Product));
  scope_.resize(outer);
  return built(at, reduce(c, std::move(axes), body.e, where.e), std::max(body.depth, where.depth));
}

}  // namespace isomer::te
