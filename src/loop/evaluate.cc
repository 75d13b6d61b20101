#include "loop/evaluate.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <map>

#include "loop/intrinsic.h"
#include "te/scalar.h"

namespace isomer::loop {
namespace {

using te::Expr;
using te::Kind;

struct Number {  // which of the two is used follows from the type
  double real = 0;
  int64_t integer = 0;
};

struct Memory {
  DType dtype;
  std::vector<int64_t> dims;
  std::vector<Number> elements;
};

class Evaluator {
 public:
  explicit Evaluator(const Function& f) : f_(f) {}

  Expected<std::vector<Tensor>> run(const std::vector<Tensor>& arguments) {
    if (arguments.size() != static_cast<size_t>(f_.arguments))
      return Diagnostic("E-input-count", fmt::format("{} takes {} arguments, found {}", isomer::quoted(f_.name),
                                                     f_.arguments, arguments.size()));
    for (size_t i = 0; i < f_.buffers.size(); ++i) {
      const Buffer& b = f_.buffers[i];
      Memory m{b.dtype, b.dims, std::vector<Number>(static_cast<size_t>(b.elements()))};
      if (i < arguments.size()) {
        if (arguments[i].dtype() != b.dtype || arguments[i].size() != b.elements())
          return Diagnostic("E-input-type", "the argument " + isomer::quoted(b.name) + " has another type or size");
        for (int64_t k = 0; k < b.elements(); ++k)
          if (is_float(b.dtype))
            m.elements[static_cast<size_t>(k)].real = arguments[i].real(k);
          else
            m.elements[static_cast<size_t>(k)].integer = arguments[i].integer(k);
      }
      memory_.push_back(std::move(m));
    }
    poison();
    if (!run(f_.body)) return failure_;
    std::vector<Tensor> out;
    for (size_t i = 0; i < arguments.size(); ++i) out.push_back(tensor(memory_[i]));
    return out;
  }

 private:
  static Tensor tensor(const Memory& m) {
    Tensor t(m.dtype, m.dims);
    for (int64_t k = 0; k < t.size(); ++k) {
      const Number& n = m.elements[static_cast<size_t>(k)];
      if (is_float(m.dtype))
        t.set_real(k, n.real);
      else
        t.set_integer(k, n.integer);
    }
    return t;
  }

  bool fail(const char* code, std::string why) {
    failure_ = Diagnostic(code, std::move(why));
    return false;
  }

  // Reading what nothing has written in this task shows.
  void poison() {
    for (size_t i = static_cast<size_t>(f_.arguments); i < memory_.size(); ++i)
      for (Number& n : memory_[i].elements)
        n = {std::numeric_limits<double>::quiet_NaN(), wrap_to(memory_[i].dtype, 0x5a5a5a5a5a5a5a5a)};
  }

  bool run(const Stmt& s) {
    switch (s->kind) {
      case StmtKind::For: {
        Number n;
        if (!eval(s->extent, n)) return false;
        const bool any_order = s->loop == LoopKind::Parallel || s->loop == LoopKind::Vector;
        for (int64_t i = 0; i < n.integer; ++i) {
          variables_[s->var] = any_order ? n.integer - 1 - i : i;
          if (s->loop == LoopKind::Parallel) poison();
          if (!run(s->body[0])) return false;
        }
        return true;
      }
      case StmtKind::If: {
        Number c;
        if (!eval(s->condition, c)) return false;
        if (c.integer) return run(s->body[0]);
        return s->body.size() < 2 || run(s->body[1]);
      }
      case StmtKind::Seq:
        for (const Stmt& b : s->body)
          if (!run(b)) return false;
        return true;
      case StmtKind::Store: {
        size_t at = 0;
        Number v;
        if (!position(s->buffer, s->indices, at) || !eval(s->value, v)) return false;
        store(memory_[static_cast<size_t>(s->buffer)], at, v, s->combiner);
        return true;
      }
      case StmtKind::Tile: return tile(*s);
      case StmtKind::Prefetch: return true;
    }
    return true;
  }

  static void store(Memory& m, size_t at, const Number& v, std::optional<te::Combiner> combiner) {
    Number& place = m.elements[at];
    if (is_float(m.dtype))
      place.real =
          combiner ? te::real_binary(te::combining_op(*combiner), place.real, v.real) : round_to(m.dtype, v.real);
    else
      place.integer = combiner
                          ? te::int_binary(te::combining_op(*combiner), m.dtype, place.integer, v.integer).value_or(0)
                          : wrap_to(m.dtype, v.integer);
  }

  bool position(int buffer, const std::vector<Expr>& indices, size_t& at) {
    const Memory& m = memory_[static_cast<size_t>(buffer)];
    int64_t p = 0;
    for (size_t d = 0; d < indices.size(); ++d) {
      Number i;
      if (!eval(indices[d], i)) return false;
      if (i.integer < 0 || i.integer >= m.dims[d])
        return fail("E-index-range",
                    fmt::format("index {} of {} is {}, beyond {}", d,
                                isomer::quoted(f_.buffers[static_cast<size_t>(buffer)].name), i.integer, m.dims[d]));
      p = p * m.dims[d] + i.integer;
    }
    at = static_cast<size_t>(p);
    return true;
  }

  bool tile(const StmtNode& s) {
    const te::Program& meaning = s.intrinsic->meaning;
    const te::Stage& stage = meaning.stages[0];
    const bool reduces = stage.body->kind == Kind::Reduce;
    std::vector<te::Axis> axes = stage.axes;
    if (reduces) axes.insert(axes.end(), stage.body->axes.begin(), stage.body->axes.end());
    std::vector<int64_t> extents, origin;
    for (const Expr& e : s.extents) {
      Number n;
      if (!eval(e, n)) return false;
      if (n.integer <= 0) return true;
      extents.push_back(n.integer);
    }
    for (const TileOperand& o : s.operands) {
      size_t at = 0;
      if (!position(o.buffer, o.indices, at)) return false;
      origin.push_back(static_cast<int64_t>(at));
    }
    const Expr& body = reduces ? stage.body->args[0] : stage.body;
    std::vector<int64_t> point(axes.size());
    for (;;) {
      std::vector<int64_t> at = origin;
      for (size_t i = 0; i < at.size(); ++i)
        for (size_t a = 0; a < point.size(); ++a) at[i] += s.operands[i].strides[a] * point[a];
      for (size_t i = 0; i < at.size(); ++i)
        if (at[i] < 0 || at[i] >= f_.buffers[static_cast<size_t>(s.operands[i].buffer)].elements())
          return fail("E-index-range", "a tile of " + s.intrinsic->name + " leaves a buffer");
      operands_ = &s.operands;
      places_ = &at;
      Number v;
      const bool ok = eval(body, v);
      operands_ = nullptr;
      if (!ok) return false;
      store(memory_[static_cast<size_t>(s.operands.back().buffer)], static_cast<size_t>(at.back()), v,
            reduces ? std::optional(stage.body->combiner) : std::nullopt);
      size_t a = point.size();
      while (a > 0 && ++point[a - 1] == extents[a - 1]) point[--a] = 0;
      if (a == 0) return true;
    }
  }

  bool eval(const Expr& e, Number& out) {
    const te::Node& n = *e;
    switch (n.kind) {
      case Kind::Int: out.integer = n.integer; return true;
      case Kind::Real: out.real = n.real; return true;
      case Kind::Var: out.integer = variables_[n.var]; return true;
      case Kind::Read: {
        size_t at = 0;
        int buffer = n.tensor;
        if (operands_) {  // inside a tile: reads name operands, and the point says where
          buffer = (*operands_)[static_cast<size_t>(n.tensor)].buffer;
          at = static_cast<size_t>((*places_)[static_cast<size_t>(n.tensor)]);
        } else if (!position(n.tensor, n.args, at)) {
          return false;
        }
        out = memory_[static_cast<size_t>(buffer)].elements[at];
        return true;
      }
      case Kind::Select: {
        Number c;
        return eval(n.args[0], c) && eval(n.args[c.integer ? 1 : 2], out);
      }
      case Kind::Unary: {
        Number x;
        if (!eval(n.args[0], x)) return false;
        if (!is_float(n.args[0].dtype()))
          out.integer = te::int_unary(n.unary, n.dtype, x.integer);
        else if (n.unary == te::UnaryOp::IsNan || n.unary == te::UnaryOp::IsInf)
          out.integer = te::real_test(n.unary, x.real);
        else
          out.real = te::real_unary(n.unary, x.real);
        return true;
      }
      case Kind::Binary: return binary(n, out);
      case Kind::Cast: return cast(n, out);
      case Kind::Size:
      case Kind::Reduce: break;
    }
    return fail("E-loop", "an expression holds a size or a reduction");
  }

  bool binary(const te::Node& n, Number& out) {
    Number a, b;
    if (!eval(n.args[0], a) || !eval(n.args[1], b)) return false;
    if (is_float(n.args[0].dtype())) {
      if (te::is_compare(n.binary))
        out.integer = te::real_compare(n.binary, a.real, b.real);
      else
        out.real = te::real_binary(n.binary, a.real, b.real);
      return true;
    }
    const auto v = te::int_binary(n.binary, n.args[0].dtype(), a.integer, b.integer);
    if (!v) return fail("E-division-by-zero", "an integer was divided by zero in " + isomer::quoted(f_.name));
    out.integer = *v;
    return true;
  }

  bool cast(const te::Node& n, Number& out) {
    Number x;
    if (!eval(n.args[0], x)) return false;
    const DType from = n.args[0].dtype();
    if (is_float(n.dtype))
      out.real = round_to(n.dtype, is_float(from) ? x.real : real_from_int(from, x.integer));
    else
      out.integer = is_float(from) ? int_from_real(n.dtype, x.real) : wrap_to(n.dtype, x.integer);
    return true;
  }

  const Function& f_;
  std::vector<Memory> memory_;
  std::map<int, int64_t> variables_;
  const std::vector<TileOperand>* operands_ = nullptr;
  const std::vector<int64_t>* places_ = nullptr;
  Diagnostic failure_;
};

}  // namespace

Expected<std::vector<Tensor>> evaluate(const Function& function, const std::vector<Tensor>& arguments) {
  return Evaluator(function).run(arguments);
}

}  // namespace isomer::loop
