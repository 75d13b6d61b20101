#include "cost/work.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "loop/intrinsic.h"

namespace isomer::cost {
namespace {

using te::BinaryOp;
using te::Expr;
using te::Kind;
using te::UnaryOp;

// Vector instructions that one operation becomes, by what the code generator emits.
double weight(UnaryOp op) {
  switch (op) {
    case UnaryOp::Neg:
    case UnaryOp::Abs:
    case UnaryOp::Not:
    case UnaryOp::Floor:
    case UnaryOp::Ceil:
    case UnaryOp::Round:
    case UnaryOp::Trunc:
    case UnaryOp::IsNan:
    case UnaryOp::IsInf: return 1;
    case UnaryOp::Sqrt: return 8;
    case UnaryOp::Exp:
    case UnaryOp::Erf:
    case UnaryOp::Tanh: return 20;
    case UnaryOp::Log: return 25;
    case UnaryOp::Sin:
    case UnaryOp::Cos:
    case UnaryOp::Tan:
    case UnaryOp::Asin:
    case UnaryOp::Acos:
    case UnaryOp::Atan:
    case UnaryOp::Sinh:
    case UnaryOp::Cosh:
    case UnaryOp::Asinh:
    case UnaryOp::Acosh:
    case UnaryOp::Atanh: return 100;  // calls of the C library, lane by lane
  }
  return 1;
}

double weight(BinaryOp op) {
  switch (op) {
    case BinaryOp::Div:
    case BinaryOp::FloorDiv:
    case BinaryOp::FloorMod:
    case BinaryOp::Rem: return 8;
    case BinaryOp::Pow: return 60;
    default: return 1;
  }
}

class Counter {
 public:
  Counter(const loop::Function& function, const loop::Target& target)
      : f_(function), target_(target), touched_(function.buffers.size(), 0) {}

  Work run() {
    if (!f_.body.empty()) stmt(f_.body, 1);
    for (size_t i = 0; i < static_cast<size_t>(f_.arguments) && i < f_.buffers.size(); ++i)
      work_.of_argument.push_back(std::min(static_cast<double>(f_.buffers[i].elements()), touched_[i]) *
                                  static_cast<double>(size_of(f_.buffers[i].dtype)));
    work_.bytes = std::accumulate(work_.of_argument.begin(), work_.of_argument.end(), 0.0);
    return work_;
  }

 private:
  // The value in the middle of the iteration space: tails and clipped windows are met at their usual size.
  double middle(const Expr& e) const {
    switch (e->kind) {
      case Kind::Int: return static_cast<double>(e->integer);
      case Kind::Real: return e->real;
      case Kind::Var: {
        const auto it = middles_.find(e->var);
        return it == middles_.end() ? 0 : it->second;
      }
      case Kind::Cast: return middle(e->args[0]);
      case Kind::Select: return std::max(middle(e->args[1]), middle(e->args[2]));
      case Kind::Binary: return binary(e->binary, middle(e->args[0]), middle(e->args[1]));
      case Kind::Size:
      case Kind::Read:
      case Kind::Unary:
      case Kind::Reduce: return 1;
    }
    return 1;
  }

  static double binary(BinaryOp op, double a, double b) {
    switch (op) {
      case BinaryOp::Add: return a + b;
      case BinaryOp::Sub: return a - b;
      case BinaryOp::Mul: return a * b;
      case BinaryOp::Div:
      case BinaryOp::FloorDiv: return b == 0 ? 0 : std::floor(a / b);
      case BinaryOp::Rem:
      case BinaryOp::FloorMod: return b == 0 ? 0 : a - b * std::floor(a / b);
      case BinaryOp::Min: return std::min(a, b);
      case BinaryOp::Max: return std::max(a, b);
      default: return a;
    }
  }

  void stmt(const loop::Stmt& s, double times) {
    switch (s->kind) {
      case loop::StmtKind::For: return loop(*s, times);
      case loop::StmtKind::If: {
        work_.instructions += times;
        stmt(s->body[0], times);  // the branch inside is the usual one: what is outside is padding
        return;
      }
      case loop::StmtKind::Seq:
        for (const loop::Stmt& b : s->body) stmt(b, times);
        return;
      case loop::StmtKind::Store: {
        seen_.clear();
        points_ = times * (vector_ < 0 ? 1 : lanes());
        touch(s->buffer, points_);
        work_.instructions += times * (stored(*s) + access(s->buffer, s->indices) + value(s->value));
        return;
      }
      case loop::StmtKind::Prefetch: return;
      case loop::StmtKind::Tile: {
        double flops = 2;
        for (const Expr& e : s->extents) flops *= std::max(0.0, middle(e));
        const bool split = s->intrinsic->emit == loop::Emit::SplitProduct;
        (split ? work_.split_flops : work_.tile_flops) += times * flops;
        for (const loop::TileOperand& o : s->operands) touch(o.buffer, times * flops);
        return;
      }
    }
  }

  // What a store takes beyond its value. A sum in a register takes what it adds as it comes: a product with one operand out of memory
  // is one instruction.
  double stored(const loop::StmtNode& s) const {
    if (!in_register(s.buffer, s.indices)) return s.combiner ? 3 : 1;
    if (!s.combiner) return 0;
    const bool product = s.value->kind == Kind::Binary && s.value->binary == BinaryOp::Mul;
    return product ? (reads(s.value) ? -1 : 0) : 1;
  }

  // Elements of a local buffer at places that are known when the code is made.
  bool in_register(int buffer, const std::vector<Expr>& indices) const {
    return f_.buffers[static_cast<size_t>(buffer)].scope == loop::Scope::Local &&
           std::none_of(indices.begin(), indices.end(), [&](const Expr& i) {
             return std::any_of(running_.begin(), running_.end(), [&](int var) { return uses(i, var); });
           });
  }

  void loop(const loop::StmtNode& s, double times) {
    const double extent = std::max(0.0, middle(s.extent));
    middles_[s.var] = std::floor(extent / 2);
    if (s.loop != loop::LoopKind::Vector) {
      const bool runs = s.loop != loop::LoopKind::Unroll;
      if (runs) work_.instructions += times * extent, running_.push_back(s.var);
      stmt(s.body[0], times * extent);
      if (runs) running_.pop_back();
      return;
    }
    const int outer = vector_;
    vector_ = s.var;
    stmt(s.body[0], times * std::max(1.0, std::ceil(extent / lanes())));
    vector_ = outer;
  }

  void touch(int buffer, double elements) { touched_[static_cast<size_t>(buffer)] += elements; }
  double lanes() const { return target_.vector_bytes / 4.0; }

  bool uses(const Expr& e, int var) const {
    if (e->kind == Kind::Var) return e->var == var;
    return std::any_of(e->args.begin(), e->args.end(), [&](const Expr& a) { return uses(a, var); });
  }

  // What a place costs beyond a plain load or store: one lane at a time where the vector's axis is not the last.
  double access(int buffer, const std::vector<Expr>& indices) const {
    if (vector_ < 0 || f_.buffers[static_cast<size_t>(buffer)].scope == loop::Scope::Local) return 0;
    for (size_t i = 0; i < indices.size(); ++i) {
      if (!uses(indices[i], vector_)) continue;
      if (i + 1 < indices.size() || stride(indices[i]) != 1) return lanes();
    }
    return 0;
  }

  double stride(const Expr& index) const {
    const double at = middles_.count(vector_) ? middles_.at(vector_) : 0;
    Counter probe(f_, target_);
    probe.middles_ = middles_;
    probe.middles_[vector_] = at + 1;
    return probe.middle(index) - middle(index);
  }

  double value(const Expr& e) {
    if (!seen_.insert(e.identity()).second) return 0;
    switch (e->kind) {
      case Kind::Int:
      case Kind::Real:
      case Kind::Var:
      case Kind::Size: return 0;
      case Kind::Read: {
        double inside = 0;
        for (const Expr& i : e->args)
          if (reads(i)) inside += value(i);
        touch(e->tensor, points_);
        return inside + (in_register(e->tensor, e->args) ? 0 : 1) + access(e->tensor, e->args);
      }
      case Kind::Unary: return weight(e->unary) + all(e->args);
      case Kind::Binary: return weight(e->binary) + all(e->args);
      case Kind::Select:
      case Kind::Cast:
      case Kind::Reduce: return 1 + all(e->args);
    }
    return 0;
  }

  bool reads(const Expr& e) const {
    return e->kind == Kind::Read ||
           std::any_of(e->args.begin(), e->args.end(), [&](const Expr& a) { return reads(a); });
  }

  double all(const std::vector<Expr>& args) {
    double sum = 0;
    for (const Expr& a : args) sum += value(a);
    return sum;
  }

  const loop::Function& f_;
  const loop::Target& target_;
  Work work_;
  std::map<int, double> middles_;  // by variable
  std::vector<int> running_;       // variables of the loops that we are in and that stay loops
  std::set<const void*> seen_;     // what is shared is computed once
  int vector_ = -1;                // the variable of the vector loop we are in
  double points_ = 0;              // elements that the statement at hand computes in all
  std::vector<double> touched_;    // elements, by buffer: a table that is looked up in is not read whole
};

}  // namespace

Work work_of(const loop::Function& function, const loop::Target& target) { return Counter(function, target).run(); }

}  // namespace isomer::cost
