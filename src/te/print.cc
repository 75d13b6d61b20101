#include "te/print.h"

#include <fmt/format.h>

#include <bit>
#include <cctype>
#include <cmath>
#include <map>

#include "base/quote.h"
#include "te/match.h"
#include "te/words.h"

namespace isomer::te {

Strength strength(BinaryOp op) {
  switch (op) {
    case BinaryOp::Or: return Strength::Or;
    case BinaryOp::And: return Strength::And;
    case BinaryOp::Eq:
    case BinaryOp::Ne:
    case BinaryOp::Lt:
    case BinaryOp::Le: return Strength::Compare;
    case BinaryOp::Add:
    case BinaryOp::Sub: return Strength::Sum;
    case BinaryOp::Mul:
    case BinaryOp::Div: return Strength::Product;
    default: return Strength::Primary;
  }
}

bool is_plain_name(std::string_view s) {
  if (s.empty() || std::isdigit(static_cast<unsigned char>(s[0]))) return false;
  for (const char c : s)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') return false;
  return s != "true" && s != "false" && s != "inf" && s != "nan" && s != "where" && s != "input" && s != "output";
}

std::string name_in_text(std::string_view s) {
  if (is_plain_name(s)) return std::string(s);
  return quote(s);
}

namespace {

std::string real_text(double v) {
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  if (!std::isnan(v)) return fmt::format("{}", v);
  const auto bits = std::bit_cast<uint64_t>(v);
  const auto plain = std::bit_cast<uint64_t>(std::numeric_limits<double>::quiet_NaN());
  const std::string sign = std::signbit(v) ? "-nan" : "nan";
  if ((bits & ~(uint64_t{1} << 63)) == plain) return sign;
  return fmt::format("{}({})", sign, bits & ((uint64_t{1} << 52) - 1));
}

class Printer {
 public:
  explicit Printer(const Program* program) : program_(program) {
    if (!program) return;
    for (size_t s = 0; s < program->inputs.size() + program->stages.size(); ++s) ++uses_[slot_name(s)];
  }

  std::string program() {
    for (const Source& in : program_->inputs) {
      text_ += fmt::format("input {} : {}[", name_in_text(in.name), isomer::name(in.dtype));
      for (size_t i = 0; i < in.dims.size(); ++i) text_ += (i ? "," : "") + in.dims[i].to_string();
      text_ += "]\n";
    }
    for (const Stage& stage : program_->stages) {
      text_ += name_in_text(stage.name) + "[";
      for (size_t i = 0; i < stage.axes.size(); ++i) binder(stage.axes[i], i != 0);
      text_ += fmt::format("] : {} = ", isomer::name(stage.dtype));
      expr(stage.body, Strength::Or);
      text_ += "\n";
      scope_.clear();
    }
    text_ += "output";
    for (size_t i = 0; i < program_->outputs.size(); ++i)
      text_ += (i ? ", " : " ") + slot(static_cast<size_t>(program_->outputs[i]));
    return text_ + "\n";
  }

  std::string expression(const Expr& e) {
    expr(e, Strength::Or);
    return text_;
  }

 private:
  const std::string& slot_name(size_t s) const {
    return s < program_->inputs.size() ? program_->inputs[s].name : program_->stages[s - program_->inputs.size()].name;
  }
  std::string slot(size_t s) {
    const std::string name = name_in_text(slot_name(s));
    return uses_[slot_name(s)] > 1 ? fmt::format("{}@{}", name, s) : name;
  }

  void binder(const Axis& a, bool comma) {
    if (comma) text_ += ",";
    text_ += name_in_text(a.name);
    if (a.id != next_id_) text_ += fmt::format("@{}", a.id);
    next_id_ = a.id + 1;
    const std::string extent = a.extent.to_string();
    text_ += extent.find("where") == std::string::npos ? "<" + extent : "<(" + extent + ")";
    scope_.push_back(&a);
  }

  void variable(const Node& n) {
    const Axis* bound = nullptr;
    for (const Axis* a : scope_)
      if (a->id == n.var) bound = a;
    if (!bound) {
      text_ += fmt::format("{}@{}", name_in_text(n.var_name), n.var);
      return;
    }
    text_ += name_in_text(bound->name);
    for (size_t k = scope_.size(); k-- > 0;)
      if (scope_[k]->name == bound->name) {
        if (scope_[k]->id != n.var) text_ += fmt::format("@{}", n.var);
        return;
      }
  }

  // A literal beside an operand that is none takes its type from there.
  void literal(const Node& n, bool typed) {
    if (n.dtype == DType::Bool) {
      text_ += n.integer ? "true" : "false";
      return;
    }
    if (n.kind == Kind::Real)
      text_ += real_text(n.real);
    else if (n.dtype == DType::U64)
      text_ += fmt::format("{}", static_cast<uint64_t>(n.integer));
    else
      text_ += fmt::format("{}", n.integer);
    if (typed && n.dtype != DType::I64) text_ += fmt::format(":{}", isomer::name(n.dtype));
  }
  void operand(const Expr& e, const Expr& other, Strength at_least) {
    if (is_literal(e))
      literal(*e, is_literal(other));
    else
      expr(e, at_least);
  }

  void list(const std::vector<Expr>& args) {
    for (size_t i = 0; i < args.size(); ++i) {
      if (i) text_ += ",";
      expr(args[i], Strength::Or);
    }
  }

  static Strength strength_of(const Node& n) {
    if (n.kind == Kind::Binary) return strength(n.binary);
    if (n.kind == Kind::Reduce) return Strength::Reduction;
    if (n.kind == Kind::Unary && (n.unary == UnaryOp::Neg || n.unary == UnaryOp::Not)) return Strength::Unary;
    return Strength::Primary;
  }

  void expr(const Expr& e, Strength at_least) {
    const Node& n = *e;
    const bool parentheses = strength_of(n) < at_least;
    if (parentheses) text_ += "(";
    switch (n.kind) {
      case Kind::Int:
      case Kind::Real: literal(n, true); break;
      case Kind::Var: variable(n); break;
      case Kind::Size: text_ += "size(" + n.size.to_string() + ")"; break;
      case Kind::Read:
        text_ +=
            program_ ? slot(static_cast<size_t>(n.tensor)) : fmt::format("${}:{}", n.tensor, isomer::name(n.dtype));
        text_ += "[";
        list(n.args);
        text_ += "]";
        break;
      case Kind::Unary: unary(n); break;
      case Kind::Binary: binary(n); break;
      case Kind::Select:
        text_ += "select(";
        expr(n.args[0], Strength::Or);
        text_ += ",";
        operand(n.args[1], n.args[2], Strength::Or);
        text_ += ",";
        operand(n.args[2], n.args[1], Strength::Or);
        text_ += ")";
        break;
      case Kind::Cast:
        text_ += std::string(isomer::name(n.dtype)) + "(";
        expr(n.args[0], Strength::Or);
        text_ += ")";
        break;
      case Kind::Reduce: reduction(n); break;
    }
    if (parentheses) text_ += ")";
  }

  void unary(const Node& n) {
    text_ += name(n.unary);
    const bool sign = n.unary == UnaryOp::Neg || n.unary == UnaryOp::Not;
    const bool parentheses = !sign || is_literal(n.args[0]);  // -(3) is a negation, -3 a literal
    if (parentheses) text_ += "(";
    expr(n.args[0], parentheses ? Strength::Or : Strength::Unary);
    if (parentheses) text_ += ")";
  }

  void binary(const Node& n) {
    const Strength s = strength(n.binary);
    const bool sign = s != Strength::Primary;
    // `max(k<K` opens a reduction: a boolean first operand of the function is kept apart by parentheses.
    const bool guarded = n.binary == BinaryOp::Max || n.binary == BinaryOp::Min;
    const Strength left = !sign ? (guarded ? Strength::Sum : Strength::Or) : s == Strength::Compare ? tighter(s) : s;
    if (!sign) text_ += std::string(name(n.binary)) + "(";
    operand(n.args[0], n.args[1], left);
    if (!sign)
      text_ += ",";
    else
      text_ += s == Strength::Product ? std::string(name(n.binary)) : fmt::format(" {} ", name(n.binary));
    operand(n.args[1], n.args[0], sign ? tighter(s) : Strength::Or);
    if (!sign) text_ += ")";
  }

  void reduction(const Node& n) {
    const size_t outer = scope_.size();
    text_ += std::string(name(n.combiner)) + "(";
    for (size_t i = 0; i < n.axes.size(); ++i) binder(n.axes[i], i != 0);
    const Node& where = *n.args[1];
    if (where.kind != Kind::Int || !where.integer) {
      text_ += n.axes.empty() ? "where " : " where ";
      expr(n.args[1], Strength::Or);
    }
    text_ += ") ";
    expr(n.args[0], n.args[0]->kind == Kind::Reduce ? Strength::Reduction : Strength::Product);
    scope_.resize(outer);
  }

  const Program* program_;
  std::map<std::string, int> uses_;
  std::vector<const Axis*> scope_;
  int next_id_ = 0;  // what the parser gives to the next axis when the text does not say
  std::string text_;
};

}  // namespace

std::string print(const Program& program) { return Printer(&program).program(); }
std::string print(const Expr& e, const Program* program) { return Printer(program).expression(e); }

}  // namespace isomer::te
