// Random kernels over one loop: expressions of all element types with reads that are plain, strided, guarded by a
// condition or looked up, and what they mean as a program.
#pragma once

#include <limits>

#include "base/random.h"
#include "te/program.h"
#include "test/run_kernel.h"

namespace isomer {

inline constexpr DType kKernelTypes[] = {DType::F64, DType::F32, DType::F16, DType::BF16, DType::I64,
                                         DType::I32, DType::I16, DType::I8,  DType::U64,  DType::U32,
                                         DType::U16, DType::U8,  DType::Bool};

class RandomKernel {
  using BinaryOp = te::BinaryOp;
  using Expr = te::Expr;
  using Stmt = loop::Stmt;
  using UnaryOp = te::UnaryOp;

 public:
  RandomKernel(uint64_t seed, bool floats) : random_(seed), floats_(floats) {}

  void make() {
    extent_ = random_.flip(0.1) ? 1 : random_.between(2, 70);
    const int count = static_cast<int>(random_.between(1, 4));
    for (int i = 0; i < count; ++i) {
      const DType type = any_type();
      const std::vector<int64_t> dims =
          random_.flip() ? std::vector<int64_t>{2 * extent_ + 3} : std::vector<int64_t>{random_.between(1, 3), extent_};
      inputs.push_back(tensor(type, dims));
      handles_.push_back(builder_.input("x", type, std::vector<Dim>(dims.begin(), dims.end())));
    }
    axis_ = builder_.axis("i", extent_);
    const DType type = any_type();
    body = expr(type, 4);
    output = Tensor(type, {extent_});
    program = builder_.finish({builder_.stage("y", type, {axis_}, body)});
  }

  loop::Function function(loop::LoopKind kind) const {
    loop::Function f;
    f.name = "kernel";
    for (const Tensor& t : inputs) f.buffers.push_back(argument("x", t.dtype(), t.dims()));
    f.buffers.push_back(argument("y", output.dtype(), output.dims(), true));
    f.arguments = static_cast<int>(f.buffers.size());
    const Stmt store = Stmt::store(f.arguments - 1, {Expr(axis_)}, body);
    f.body = Stmt::loop(axis_.id, "i", Expr(extent_), kind, store);
    return f;
  }

  te::Program program;
  Expr body;
  std::vector<Tensor> inputs;
  Tensor output;

 private:
  DType any_type() { return floats_ ? kKernelTypes[random_.below(13)] : kKernelTypes[4 + random_.below(9)]; }

  Tensor tensor(DType type, const std::vector<int64_t>& dims) {
    Tensor t(type, dims);
    for (int64_t i = 0; i < t.size(); ++i) {
      if (is_float(type)) {
        const double u = random_.uniform();
        t.set_real(i, u < 0.02   ? std::numeric_limits<double>::infinity()
                      : u < 0.04 ? std::numeric_limits<double>::quiet_NaN()
                      : u < 0.08 ? -0.0
                      : u < 0.12 ? random_.uniform(-1e20, 1e20)
                                 : random_.uniform(-4, 4));
      } else {
        t.set_integer(i, random_.flip(0.8) ? random_.between(-2, 6) : static_cast<int64_t>(random_.next()));
      }
    }
    return t;
  }

  Expr expr(DType type, int depth) {
    if (depth == 0 || random_.flip(0.15)) return leaf(type);
    if (random_.flip(0.15))
      return te::select(expr(DType::Bool, depth - 1), expr(type, depth - 1), expr(type, depth - 1));
    if (random_.flip(0.15)) return te::cast(type, expr(any_type(), depth - 1));
    if (type == DType::Bool) return boolean(depth);
    return is_float(type) ? real(type, depth) : integer(type, depth);
  }

  Expr leaf(DType type) {
    if (random_.flip(0.3)) {
      if (type == DType::I64 && random_.flip()) return Expr(axis_);
      if (is_float(type)) return Expr::real(type, round_to(type, random_.uniform(-3, 3)));
      return Expr::integer(type, random_.between(type == DType::Bool ? 0 : -2, type == DType::Bool ? 1 : 9));
    }
    return te::cast(type, read());
  }

  // A place that is in range, one behind a guard, or one that is looked up.
  Expr read() {
    const te::Handle& h = handles_[random_.below(handles_.size())];
    const int64_t last = *h.dim(h.rank() - 1).constant();
    const Expr i(axis_);
    Expr at = i;
    Expr guard;
    if (h.rank() == 1) {
      switch (random_.below(7)) {
        case 0: at = i * Expr(2) + Expr(random_.between(0, 2)); break;
        case 1: at = i + Expr(3); break;
        case 2: at = Expr(last - 1) - i; break;
        case 3: at = te::floor_div(i, Expr(random_.between(1, 5))); break;
        case 4: at = te::floor_mod(i, Expr(random_.between(1, 5))); break;
        case 5: at = i + Expr(random_.between(-5, 5)), guard = te::in_range(at, Expr(last)); break;
        default: break;
      }
    } else if (random_.flip(0.2)) {
      at =
          te::cast(DType::I64, handles_[random_.below(handles_.size())].broadcast(std::vector<Expr>{Expr(0), Expr(0)}));
    }
    if (random_.flip(0.1)) at = te::binary(BinaryOp::Max, Expr(0), te::cast(DType::I64, plain_read()));
    std::vector<Expr> indices;
    if (h.rank() == 2) indices.push_back(random_.flip(0.2) ? te::floor_mod(i, h.dim(0)) : Expr(0));
    indices.push_back(at);
    const Expr r = h.at(indices);
    if (guard.empty()) return r;
    return te::select(guard, r, Expr::literal(h.dtype(), 1));
  }

  Expr plain_read() {
    const te::Handle& h = handles_[random_.below(handles_.size())];
    return h.rank() == 1 ? h.at({Expr(axis_)}) : h.at({Expr(0), Expr(axis_)});
  }

  Expr real(DType type, int depth) {
    static constexpr BinaryOp kBinary[] = {BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul,      BinaryOp::Div,
                                           BinaryOp::Min, BinaryOp::Max, BinaryOp::FloorMod, BinaryOp::FloorDiv,
                                           BinaryOp::Rem, BinaryOp::Pow};
    if (random_.flip(0.6)) return te::binary(kBinary[random_.below(10)], expr(type, depth - 1), expr(type, depth - 1));
    UnaryOp op = static_cast<UnaryOp>(random_.below(static_cast<uint64_t>(UnaryOp::IsNan)));
    if (op == UnaryOp::Not) op = UnaryOp::Neg;
    return te::unary(op, expr(type, depth - 1));
  }

  Expr integer(DType type, int depth) {
    if (random_.flip(0.15)) {
      static constexpr UnaryOp kUnary[] = {UnaryOp::Neg, UnaryOp::Abs, UnaryOp::Not, UnaryOp::Floor};
      return te::unary(kUnary[random_.below(4)], expr(type, depth - 1));
    }
    auto op = static_cast<BinaryOp>(random_.below(static_cast<uint64_t>(BinaryOp::Eq)));
    Expr y = expr(type, depth - 1);
    if (is_division(op) && random_.flip(0.8))
      y = te::select(te::eq(y, Expr::integer(type, 0)), Expr::integer(type, 3), y);
    return te::binary(op, expr(type, depth - 1), y);
  }
  static bool is_division(BinaryOp op) { return op >= BinaryOp::Div && op <= BinaryOp::FloorMod; }

  Expr boolean(int depth) {
    if (random_.flip(0.2)) return !expr(DType::Bool, depth - 1);
    static constexpr BinaryOp kLogic[] = {BinaryOp::And, BinaryOp::Or, BinaryOp::Xor};
    if (random_.flip(0.3))
      return te::binary(kLogic[random_.below(3)], expr(DType::Bool, depth - 1), expr(DType::Bool, depth - 1));
    const DType type = any_type();
    if (is_float(type) && random_.flip(0.3))
      return te::unary(random_.flip() ? UnaryOp::IsNan : UnaryOp::IsInf, expr(type, depth - 1));
    static constexpr BinaryOp kCompare[] = {BinaryOp::Eq, BinaryOp::Ne, BinaryOp::Lt, BinaryOp::Le};
    return te::binary(kCompare[random_.below(4)], expr(type, depth - 1), expr(type, depth - 1));
  }

  Random random_;
  bool floats_;
  int64_t extent_ = 1;
  te::Builder builder_;
  te::Axis axis_;
  std::vector<te::Handle> handles_;
};

}  // namespace isomer
