#include "te/parse.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "te/lex.h"
#include "te/words.h"

namespace isomer::te {
namespace {

// An expression being built. `bare` is the text of a literal whose type is still open.
struct Operand {
  Expr e;
  std::string bare = {};
  int depth = 1;
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

class Parser {
 public:
  Parser(std::string_view text, std::vector<Token> tokens, const ExprContext* context, const std::string& file)
      : text_(text), tokens_(std::move(tokens)), context_(context), file_(file) {}

  Expected<Program> program() {
    bool finished = false;
    for (skip_newlines(); peek().kind != Token::Kind::End; skip_newlines()) {
      if (finished) return fail("expected the end of the program after 'output'");
      if (eat_word("input")) {
        if (!program_.stages.empty()) return fail("expected inputs before the first stage");
        ISOMER_CHECK_OK(input());
      } else if (eat_word("output")) {
        ISOMER_CHECK_OK(outputs());
        finished = true;
      } else {
        ISOMER_CHECK_OK(stage());
      }
      if (peek().kind != Token::Kind::Newline && peek().kind != Token::Kind::End)
        return fail(fmt::format("expected the end of the line, found {}", found()));
    }
    if (!finished) return fail("expected a last line 'output NAME, ...'");
    return std::move(program_);
  }

  Expected<Expr> whole_expression() {
    skip_newlines();
    ISOMER_TRY(Operand x, binary_chain(Strength::Or));
    if (!x.bare.empty() && context_->alone) ISOMER_CHECK_OK(retype(x, *context_->alone));
    skip_newlines();
    if (peek().kind != Token::Kind::End)
      return fail(fmt::format("expected the end of the expression, found {}", found()));
    return x.e;
  }

 private:
  struct Deeper {  // counts nesting while it lives
    explicit Deeper(int& depth) : depth_(++depth) {}
    ~Deeper() { --depth_; }
    int& depth_;
  };

  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  bool is(std::string_view sign, size_t ahead = 0) const {
    return peek(ahead).kind == Token::Kind::Sign && peek(ahead).text == sign;
  }
  bool eat(std::string_view sign) { return is(sign) ? (++at_, true) : false; }
  bool is_word(std::string_view word) const { return peek().kind == Token::Kind::Name && peek().text == word; }
  bool eat_word(std::string_view word) { return is_word(word) ? (++at_, true) : false; }
  void skip_newlines() {
    while (peek().kind == Token::Kind::Newline) ++at_;
  }
  bool is_name(size_t ahead = 0) const {
    return peek(ahead).kind == Token::Kind::Quoted ||
           (peek(ahead).kind == Token::Kind::Name && is_plain_name(peek(ahead).text));
  }

  std::string found() const {
    switch (peek().kind) {
      case Token::Kind::Newline: return "the end of the line";
      case Token::Kind::End: return "the end of the text";
      default: return quoted(text_.substr(peek().begin, peek().end - peek().begin));
    }
  }
  Diagnostic fail_at(const Token& t, std::string code, std::string message) const {
    return Diagnostic(std::move(code), std::move(message)).at({file_, t.line, t.column});
  }
  Diagnostic fail(std::string message) const { return fail_at(peek(), "E-te-syntax", std::move(message)); }
  Expected<void> expect(std::string_view sign) {
    if (eat(sign)) return {};
    return fail(fmt::format("expected '{}', found {}", sign, found()));
  }

  Expected<std::string> name_token(std::string_view what) {
    if (!is_name()) return fail(fmt::format("expected the name of {}, found {}", what, found()));
    return tokens_[at_++].text;
  }
  // `@ID` after a name, when it is there.
  Expected<std::optional<int>> id_token() {
    if (!eat("@")) return std::optional<int>();
    const std::string& t = peek().text;
    int id = 0;
    const auto r = std::from_chars(t.data(), t.data() + t.size(), id);
    if (peek().kind != Token::Kind::Number || r.ec != std::errc() || r.ptr != t.data() + t.size() ||
        id >= kMaxParseAxisId)
      return fail(fmt::format("expected a number below {} after '@', found {}", kMaxParseAxisId, found()));
    ++at_;
    return std::optional<int>(id);
  }
  Expected<DType> dtype_token() {
    const auto t = peek().kind == Token::Kind::Name ? dtype_from_name(peek().text) : std::nullopt;
    if (!t || *t == DType::Opaque) return fail(fmt::format("expected an element type such as f32, found {}", found()));
    ++at_;
    return *t;
  }

  // A size runs to the next ',', ')', ']' or 'where' outside its own parentheses; its own grammar is Dim's.
  Expected<Dim> dim() {
    const Token& first = peek();
    size_t end = first.begin;
    for (int depth = 0; peek().kind != Token::Kind::End && peek().kind != Token::Kind::Newline;
         end = tokens_[at_++].end) {
      if (depth == 0 && (is(",") || is(")") || is("]") || (end != first.begin && is_word("where")))) break;
      if (is("(")) ++depth;
      if (is(")")) --depth;
    }
    auto d = Dim::parse(text_.substr(first.begin, end - first.begin));
    if (!d) return fail_at(first, "E-te-syntax", d.error().message);
    return d;
  }

  Expected<Axis> binder() {
    Axis a;
    ISOMER_TRY(a.name, name_token("an axis"));
    ISOMER_TRY(const auto id, id_token());
    a.id = id.value_or(next_id_);
    if (a.id >= kMaxParseAxisId) return fail(fmt::format("expected fewer than {} axes", kMaxParseAxisId));
    next_id_ = a.id + 1;
    ISOMER_CHECK_OK(expect("<"));
    ISOMER_TRY(a.extent, dim());
    return a;
  }

  Expected<void> input() {
    Source s{.name = {}, .dtype = DType::F32, .dims = {}};
    ISOMER_TRY(s.name, name_token("an input"));
    ISOMER_CHECK_OK(expect(":"));
    ISOMER_TRY(s.dtype, dtype_token());
    ISOMER_CHECK_OK(expect("["));
    while (!is("]")) {
      if (!s.dims.empty()) ISOMER_CHECK_OK(expect(","));
      ISOMER_TRY(Dim d, dim());
      s.dims.push_back(std::move(d));
    }
    ++at_;
    program_.inputs.push_back(std::move(s));
    return {};
  }

  Expected<void> stage() {
    Stage s{.name = {}, .dtype = DType::F32, .axes = {}, .body = {}};
    ISOMER_TRY(s.name, name_token("an input, a stage or an output"));
    ISOMER_CHECK_OK(expect("["));
    while (!is("]")) {
      if (!s.axes.empty()) ISOMER_CHECK_OK(expect(","));
      ISOMER_TRY(Axis a, binder());
      s.axes.push_back(std::move(a));
    }
    ++at_;
    ISOMER_CHECK_OK(expect(":"));
    ISOMER_TRY(s.dtype, dtype_token());
    ISOMER_CHECK_OK(expect("="));
    scope_ = s.axes;
    const Token start = peek();
    ISOMER_TRY(Operand body, binary_chain(Strength::Or));
    scope_.clear();
    if (!body.bare.empty()) ISOMER_CHECK_OK(retype(body, s.dtype));
    if (body.e.dtype() != s.dtype)
      return fail_at(start, "E-te-type",
                     fmt::format("expected a body of the stage's type {}, found one of {}; write a cast",
                                 isomer::name(s.dtype), isomer::name(body.e.dtype())));
    s.body = body.e;
    program_.stages.push_back(std::move(s));
    return {};
  }

  Expected<void> outputs() {
    while (peek().kind != Token::Kind::Newline && peek().kind != Token::Kind::End) {
      if (!program_.outputs.empty()) ISOMER_CHECK_OK(expect(","));
      ISOMER_TRY(const int slot, tensor_slot());
      program_.outputs.push_back(slot);
    }
    return {};
  }

  // NAME or NAME@SLOT, of a tensor that is already there.
  Expected<int> tensor_slot() {
    const Token start = peek();
    ISOMER_TRY(const std::string tensor, name_token("a tensor"));
    ISOMER_TRY(const auto wanted, id_token());
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
      return fail_at(start, "E-te-name",
                     fmt::format("expected the name of an input or an earlier stage, found {}", quoted(tensor)));
    return fail_at(start, "E-te-name",
                   fmt::format("{} names {} tensors; write its slot as NAME@SLOT", quoted(tensor), seen));
  }

  Expected<void> retype(Operand& x, DType type) {
    const auto v = literal_of(x.bare, type);
    if (!v)
      return fail(
          fmt::format("expected a number of type {} before this place, found {}", isomer::name(type), quoted(x.bare)));
    x = {*v};
    return {};
  }
  // A literal without a type takes that of its neighbour.
  Expected<void> unify(Operand& a, Operand& b) {
    if (!a.bare.empty() && (b.bare.empty() || is_float(b.e.dtype()))) ISOMER_CHECK_OK(retype(a, b.e.dtype()));
    if (!b.bare.empty()) ISOMER_CHECK_OK(retype(b, a.e.dtype()));
    return {};
  }

  Expected<Operand> built(const Token& at, Expr e, int depth) {
    if (depth >= kMaxParseDepth)
      return fail_at(at, "E-te-depth", fmt::format("expected an expression of depth below {}", kMaxParseDepth));
    return Operand{std::move(e), {}, depth + 1};
  }

  Expected<Operand> make_binary(const Token& at, BinaryOp op, Operand a, Operand b) {
    ISOMER_CHECK_OK(unify(a, b));
    const DType t = a.e.dtype();
    if (t != b.e.dtype())
      return fail_at(at, "E-te-type",
                     fmt::format("expected operands of one type for '{}', found {} and {}; write a cast", name(op),
                                 isomer::name(t), isomer::name(b.e.dtype())));
    if (only_bits(op) && is_float(t))
      return fail_at(at, "E-te-type",
                     fmt::format("expected integers or booleans for '{}', found {}", name(op), isomer::name(t)));
    return built(at, binary(op, a.e, b.e), std::max(a.depth, b.depth));
  }

  Expected<Operand> make_unary(const Token& at, UnaryOp op, const Operand& x) {
    const DType t = x.e.dtype();
    if (is_float(t) ? op == UnaryOp::Not : only_float(op))
      return fail_at(at, "E-te-type", fmt::format("'{}' has no meaning for {}", name(op), isomer::name(t)));
    return built(at, unary(op, x.e), x.depth);
  }

  // The operator at this place, if one of at least this strength is there; > and >= swap their operands.
  std::optional<std::pair<BinaryOp, bool>> infix(Strength at_least) const {
    if (peek().kind != Token::Kind::Sign) return std::nullopt;
    std::string_view sign = peek().text;
    const bool swapped = sign == ">" || sign == ">=";
    if (swapped) sign = sign == ">" ? "<" : "<=";
    for (int i = 0; i <= static_cast<int>(BinaryOp::Le); ++i) {
      const auto op = static_cast<BinaryOp>(i);
      if (name(op) == sign && strength(op) != Strength::Primary && strength(op) >= at_least)
        return std::pair(op, swapped);
    }
    return std::nullopt;
  }

  Expected<Operand> binary_chain(Strength at_least) {
    const Deeper deeper(nesting_);
    if (nesting_ > kMaxParseDepth)
      return fail_at(peek(), "E-te-depth", fmt::format("expected fewer than {} nested brackets", kMaxParseDepth));
    ISOMER_TRY(Operand left, unary_operand());
    bool compared = false;
    while (const auto op = infix(at_least)) {
      const Token at = peek();
      const bool compare = is_compare(op->first);
      if (compare && compared) return fail("expected parentheses round one of two comparisons");
      compared = compared || compare;
      ++at_;
      ISOMER_TRY(Operand right, binary_chain(tighter(strength(op->first))));
      if (op->second) std::swap(left, right);
      ISOMER_TRY(left, make_binary(at, op->first, std::move(left), std::move(right)));
      if (strength(op->first) < Strength::Compare) compared = false;
    }
    return left;
  }

  Expected<Operand> unary_operand() {
    const Deeper deeper(nesting_);
    if (nesting_ > kMaxParseDepth) return fail_at(peek(), "E-te-depth", "expected fewer nested operators");
    const Token at = peek();
    if (eat("!")) {
      ISOMER_TRY(const Operand x, unary_operand());
      return make_unary(at, UnaryOp::Not, x);
    }
    if (!eat("-")) return primary();
    if (peek().kind == Token::Kind::Number || is_word("inf") || is_word("nan")) return number("-");
    ISOMER_TRY(const Operand x, unary_operand());
    return make_unary(at, UnaryOp::Neg, x);
  }

  Expected<Operand> number(std::string sign) {
    std::string digits = sign + peek().text;
    const bool real = digits.find_first_of(".einfa") != std::string::npos || digits.find('E') != std::string::npos;
    const bool nan = is_word("nan");
    ++at_;
    if (nan && is("(") && peek(1).kind == Token::Kind::Number && is(")", 2)) {
      digits += "(" + peek(1).text + ")";
      at_ += 3;
    }
    const bool typed = eat(":");
    DType type = real ? DType::F32 : DType::I64;
    if (typed) {
      ISOMER_TRY(type, dtype_token());
    }
    auto e = literal_of(digits, type);
    if (!e && !typed && !real) e = literal_of(digits, DType::U64);  // a neighbour may yet say that it is u64
    if (!e) return fail(fmt::format("expected a number of type {}, found {}", isomer::name(type), quoted(digits)));
    return Operand{*e, typed ? "" : digits};
  }

  Expected<Operand> primary() {
    const Token at = peek();
    if (eat("(")) {
      ISOMER_TRY(Operand x, binary_chain(Strength::Or));
      ISOMER_CHECK_OK(expect(")"));
      return x;
    }
    if (at.kind == Token::Kind::Number || is_word("inf") || is_word("nan")) return number("");
    if (eat_word("true")) return Operand{truth(true)};
    if (eat_word("false")) return Operand{truth(false)};
    if (is("$")) return read_by_slot();
    if (at.kind == Token::Kind::Name && is("(", 1)) return call();
    if (!is_name()) return fail(fmt::format("expected an expression, found {}", found()));
    const bool id = is("@", 1);
    if (is("[", id ? 3 : 1)) {
      ISOMER_TRY(const int slot, tensor_slot());
      return read(at, slot, program_.slot_dtype(slot), program_.slot_dims(slot).size());
    }
    return variable();
  }

  Expected<Operand> variable() {
    const Token at = peek();
    ISOMER_TRY(std::string text, name_token("an axis"));
    ISOMER_TRY(const auto id, id_token());
    for (size_t k = scope_.size(); k-- > 0;)
      if (id ? scope_[k].id == *id : scope_[k].name == text) return Operand{Expr(scope_[k])};
    if (context_ && !id)
      for (const auto& [bound, value] : context_->names)
        if (bound == text) return Operand{value};
    if (context_ && id) return Operand{Expr(Axis{*id, std::move(text), Dim(0)})};
    return fail_at(at, "E-te-name",
                   fmt::format("expected the name of an axis in scope, found {}; a size is written size({})",
                               quoted(text), printable(text)));
  }

  Expected<Operand> read_by_slot() {
    const Token at = peek();
    ++at_;
    int slot = -1;
    const std::string& t = peek().text;
    const auto r = std::from_chars(t.data(), t.data() + t.size(), slot);
    if (!context_ || peek().kind != Token::Kind::Number || r.ec != std::errc() || r.ptr != t.data() + t.size())
      return fail(fmt::format("expected a tensor's name, found {}", found()));
    ++at_;
    ISOMER_CHECK_OK(expect(":"));
    ISOMER_TRY(const DType type, dtype_token());
    return read(at, slot, type, std::nullopt);
  }

  Expected<Operand> read(const Token& at, int slot, DType type, std::optional<size_t> rank) {
    ISOMER_CHECK_OK(expect("["));
    std::vector<Expr> indices;
    int depth = 0;
    while (!is("]")) {
      if (!indices.empty()) ISOMER_CHECK_OK(expect(","));
      ISOMER_TRY(const Operand x, binary_chain(Strength::Or));
      if (is_float(x.e.dtype()))
        return fail_at(at, "E-te-type", fmt::format("expected integer indices, found {}", isomer::name(x.e.dtype())));
      indices.push_back(x.e);
      depth = std::max(depth, x.depth);
    }
    ++at_;
    if (rank && *rank != indices.size())
      return fail_at(at, "E-te-type", fmt::format("expected {} indices, found {}", *rank, indices.size()));
    return built(at, Expr::read(slot, type, std::move(indices)), depth);
  }

  std::optional<Combiner> reduction_start() const {
    for (int i = 0; i <= static_cast<int>(Combiner::ArgMinLast); ++i) {
      const auto c = static_cast<Combiner>(i);
      if (name(c) != peek().text) continue;
      const bool function = c == Combiner::Max || c == Combiner::Min;
      const bool axes = is_name(2) && is("<", is("@", 3) ? 5 : 3);
      const bool none = is(")", 2) || (peek(2).kind == Token::Kind::Name && peek(2).text == "where");
      if (!function || axes || none) return c;
    }
    return std::nullopt;
  }

  Expected<Operand> call() {
    const Token at = peek();
    if (const auto c = reduction_start()) return reduction(at, *c);
    at_ += 2;
    if (at.text == "size") {
      ISOMER_TRY(const Dim d, dim());
      ISOMER_CHECK_OK(expect(")"));
      return Operand{Expr(d)};
    }
    std::vector<Operand> args;
    while (!is(")")) {
      if (!args.empty()) ISOMER_CHECK_OK(expect(","));
      ISOMER_TRY(Operand x, binary_chain(Strength::Or));
      args.push_back(std::move(x));
      if (args.size() > 3) break;
    }
    ISOMER_CHECK_OK(expect(")"));
    return apply(at, std::move(args));
  }

  Expected<Operand> apply(const Token& at, std::vector<Operand> args) {
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
      return fail_at(at, "E-te-name",
                     fmt::format("expected a function of {} operands, found {}", args.size(), quoted(at.text)));
    ISOMER_CHECK_OK(unify(args[1], args[2]));
    if (args[0].e.dtype() != DType::Bool || args[1].e.dtype() != args[2].e.dtype())
      return fail_at(at, "E-te-type", "expected select(condition of type bool, a, b) with a and b of one type");
    return built(at, select(args[0].e, args[1].e, args[2].e), std::max({args[0].depth, args[1].depth, args[2].depth}));
  }

  Expected<Operand> reduction(const Token& at, Combiner c) {
    at_ += 2;
    const size_t outer = scope_.size();
    std::vector<Axis> axes;
    while (!is(")") && !is_word("where")) {
      if (!axes.empty()) ISOMER_CHECK_OK(expect(","));
      ISOMER_TRY(Axis a, binder());
      scope_.push_back(a);
      axes.push_back(std::move(a));
    }
    Operand where{truth(true)};
    if (eat_word("where")) {
      ISOMER_TRY(where, binary_chain(Strength::Or));
      if (where.e.dtype() != DType::Bool)
        return fail_at(
            at, "E-te-type",
            fmt::format("expected a condition of type bool after 'where', found {}", isomer::name(where.e.dtype())));
    }
    ISOMER_CHECK_OK(expect(")"));
    ISOMER_TRY(const Operand body, binary_chain(Strength::Product));
    scope_.resize(outer);
    return built(at, reduce(c, std::move(axes), body.e, where.e), std::max(body.depth, where.depth));
  }

  std::string_view text_;
  std::vector<Token> tokens_;
  const ExprContext* context_;  // null inside a program
  const std::string& file_;
  size_t at_ = 0;
  int nesting_ = 0;
  int next_id_ = 0;
  std::vector<Axis> scope_;
  Program program_;
};

}  // namespace

Expected<Program> parse_program(std::string_view text, const std::string& file) {
  ISOMER_TRY(std::vector<Token> tokens, tokenize(text, file));
  return Parser(text, std::move(tokens), nullptr, file).program();
}

Expected<Expr> parse_expr(std::string_view text, const ExprContext& context, const std::string& file) {
  ISOMER_TRY(std::vector<Token> tokens, tokenize(text, file));
  return Parser(text, std::move(tokens), &context, file).whole_expression();
}

}  // namespace isomer::te
