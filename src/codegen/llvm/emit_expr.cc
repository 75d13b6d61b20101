#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <limits>

#include "codegen/llvm/emitter.h"
#include "codegen/llvm/math.h"

namespace isomer::codegen {

using te::BinaryOp;
using te::Expr;
using te::Kind;
using te::Node;

namespace {

bool is_one(const Expr& e) { return e->kind == Kind::Real && e->real == 1.0; }

// x of f(x) + 1.
const Expr* one_more_than(te::UnaryOp f, const Node& sum) {
  if (sum.kind != Kind::Binary || sum.binary != BinaryOp::Add) return nullptr;
  for (const size_t i : {0, 1}) {
    const Expr& e = sum.args[i];
    if (is_one(sum.args[1 - i]) && e->kind == Kind::Unary && e->unary == f) return &e->args[0];
  }
  return nullptr;
}

// x of 1 / (exp(x) + 1) in float.
const Expr* logistic_argument(const Node& n) {
  if (n.binary != BinaryOp::Div || n.dtype != DType::F32 || !is_one(n.args[0])) return nullptr;
  return one_more_than(te::UnaryOp::Exp, *n.args[1]);
}

}  // namespace

Emitter::Emitter(llvm::IRBuilderBase& builder, const Numbers& numbers, llvm::Module& module, const loop::Target& target,
                 const loop::Function& function)
    : b_(builder),
      numbers_(numbers),
      module_(module),
      target_(target),
      function_(function),
      arith_(builder, numbers, module, target) {}

Lanes Emitter::fail(std::string why) {
  if (!error_) error_ = std::move(why);
  return {};
}

Lanes Emitter::value(const Expr& e) {
  for (auto scope = memo_.rbegin(); scope != memo_.rend(); ++scope)
    if (const auto at = scope->find(e.identity()); at != scope->end()) return at->second;
  Lanes r = compute(e);
  if (!r.v) {  // the error is kept; the rest of the code is thrown away
    fail("an expression of kind " + std::to_string(static_cast<int>(e->kind)) + " cannot be compiled");
    r = {llvm::Constant::getNullValue(numbers_.computed(e.dtype())), false, 0};
  }
  if (!memo_.empty()) memo_.back()[e.identity()] = r;
  return r;
}

Lanes Emitter::compute(const Expr& e) {
  const Node& n = *e;
  llvm::Type* type = numbers_.computed(n.dtype);
  switch (n.kind) {
    case Kind::Int: return {llvm::ConstantInt::get(type, static_cast<uint64_t>(n.integer), true), false, 0};
    case Kind::Real: {
      const double v = numbers_.wide() ? n.real : round_to(n.dtype == DType::F64 ? DType::F64 : DType::F32, n.real);
      return {llvm::ConstantFP::get(type, v), false, 0};
    }
    case Kind::Var: {
      const auto at = vars_.find(n.var);
      return at == vars_.end() ? fail("variable " + n.var_name + " has no enclosing loop") : at->second;
    }
    case Kind::Read: return read(n);
    case Kind::Unary: return unary(n);
    case Kind::Binary: return binary(n);
    case Kind::Select: return select(n);
    case Kind::Cast: return cast(n);
    case Kind::Size:
    case Kind::Reduce: break;
  }
  return fail("an expression has a symbolic size or a reduction, which loops in their final form have not");
}

llvm::Value* Emitter::widen(const Lanes& x) {
  if (x.vector || lanes_ == 1) return x.v;
  llvm::Value* splat = b_.CreateVectorSplat(static_cast<unsigned>(lanes_), x.v);
  if (x.step == 0) return splat;
  llvm::SmallVector<llvm::Constant*, 64> steps;
  for (int i = 0; i < lanes_; ++i)
    steps.push_back(llvm::ConstantInt::get(x.v->getType(), static_cast<uint64_t>(i * x.step), true));
  return b_.CreateAdd(splat, llvm::ConstantVector::get(steps));
}

Lanes Emitter::unary(const Node& n) {
  const DType type = n.args[0].dtype();
  const Lanes x = value(n.args[0]);
  if (x.step != 0 && n.unary == te::UnaryOp::Neg) return times(x, -1);
  llvm::Value* v = x.uniform() ? x.v : widen(x);
  return {arith_.unary(n.unary, type, v), !x.uniform(), 0};
}

Lanes Emitter::add(const Lanes& x, const Lanes& y) {
  if (x.vector || y.vector) return {b_.CreateAdd(widen(x), widen(y)), true, 0};
  return {b_.CreateAdd(x.v, y.v), false, x.step + y.step};
}

Lanes Emitter::times(const Lanes& x, int64_t factor) {
  if (factor == 1) return x;
  llvm::Value* by = llvm::ConstantInt::get(x.v->getType(), static_cast<uint64_t>(factor), true);
  return {b_.CreateMul(x.v, by), x.vector, x.step * factor};
}

Lanes Emitter::binary(const Node& n) {
  if (numbers_.computed(DType::F32)->isFloatTy() && n.dtype == DType::F32) {
    const Expr* logistic = logistic_argument(n);
    if (const Expr* x = logistic ? logistic : one_more_than(te::UnaryOp::Erf, n)) {
      const Lanes v = value(*x);
      const bool avx512 = target_.has("avx512f") && target_.has("avx512vl");
      const auto function = logistic ? logistic_f32 : erf_plus_one_f32;
      return {function(b_, v.uniform() ? v.v : widen(v), avx512), !v.uniform(), 0};
    }
  }
  const DType type = n.args[0].dtype();
  const Lanes x = value(n.args[0]), y = value(n.args[1]);
  if (!is_float(type) && Arith::is_division(n.binary)) return division(n, x, y);
  if (x.uniform() && y.uniform()) return {arith_.binary(n.binary, type, x.v, y.v), false, 0};
  if (type == DType::I64 && !x.vector && !y.vector) {
    if (n.binary == BinaryOp::Add) return add(x, y);
    if (n.binary == BinaryOp::Sub) return add(x, times(y, -1));
    if (n.binary == BinaryOp::Mul && n.args[1]->kind == Kind::Int) return times(x, n.args[1]->integer);
    if (n.binary == BinaryOp::Mul && n.args[0]->kind == Kind::Int) return times(y, n.args[0]->integer);
  }
  return {arith_.binary(n.binary, type, widen(x), widen(y)), true, 0};
}

Lanes Emitter::division(const Node& n, Lanes x, Lanes y) {
  const DType type = n.args[0].dtype();
  const int64_t most = std::numeric_limits<int64_t>::max(), limit = int64_t{1} << 31;
  const bool index = type == DType::I64;
  const bool nonnegative = index && inside(n.args[0], 0, most) && inside(n.args[1], 0, most);
  const bool uniform = x.uniform() && y.uniform();
  llvm::Value* a = uniform ? x.v : widen(x);
  llvm::Value* d = uniform ? y.v : widen(y);
  const bool literal = n.args[1]->kind == Kind::Int && n.args[1]->integer != 0;
  if (!literal) {
    llvm::Value* bad = b_.CreateICmpEQ(d, llvm::Constant::getNullValue(d->getType()));
    raise(loop::Status::DivisionByZero, bad);
    d = b_.CreateSelect(bad, llvm::ConstantInt::get(d->getType(), 1), d);
  }
  // Vectors of 64-bit integers have no cheap product; indices nearly always fit half of that.
  if (!uniform && literal && nonnegative && inside(n.args[0], 0, limit) && inside(n.args[1], 0, limit)) {
    llvm::Type* narrow = like(a, b_.getInt32Ty());
    llvm::Value* q = arith_.divide(n.binary, DType::I32, b_.CreateTrunc(a, narrow), b_.CreateTrunc(d, narrow), true);
    return {b_.CreateZExt(q, a->getType()), true, 0};
  }
  return {arith_.divide(n.binary, type, a, d, nonnegative), !uniform, 0};
}

Lanes Emitter::cast(const Node& n) {
  const Lanes x = value(n.args[0]);
  llvm::Value* v = x.uniform() ? x.v : widen(x);
  return {numbers_.cast(b_, n.args[0].dtype(), n.dtype, v), !x.uniform(), 0};
}

Lanes Emitter::select(const Node& n) {
  const Lanes c = value(n.args[0]);
  if (const auto* known = llvm::dyn_cast<llvm::ConstantInt>(c.v)) return value(n.args[known->isZero() ? 2 : 1]);
  const bool guard = must_guard(n.args[1]) || must_guard(n.args[2]);
  if (guard) return c.uniform() ? select_branching(n, c.v) : select_masked(n, c.v);
  const Lanes x = value(n.args[1]), y = value(n.args[2]);
  if (c.uniform() && x.uniform() && y.uniform()) return {b_.CreateSelect(c.v, x.v, y.v), false, 0};
  if (c.uniform() && !x.vector && !y.vector && x.step == y.step) return {b_.CreateSelect(c.v, x.v, y.v), false, x.step};
  return {b_.CreateSelect(c.v, widen(x), widen(y)), true, 0};
}

// Both sides give vectors when either does: which one it will be is known only when both have been written.
Lanes Emitter::select_branching(const Node& n, llvm::Value* condition) {
  const bool scalar = lanes_ == 1;
  auto side = [&](const Expr& e) {
    return [this, &e, scalar] {
      memo_.emplace_back();
      const Lanes v = value(e);
      llvm::Value* r = scalar ? v.v : widen(v);
      memo_.pop_back();
      return r;
    };
  };
  return {when_else(condition, side(n.args[1]), side(n.args[2])), !scalar, 0};
}

Lanes Emitter::select_masked(const Node& n, llvm::Value* condition) {
  llvm::Value* sides[2];
  for (int i = 0; i < 2; ++i) {
    llvm::Value* bits = i == 0 ? condition : b_.CreateNot(condition);
    memo_.emplace_back();
    with_mask(bits, [&] { sides[i] = widen(value(n.args[i == 0 ? 1u : 2u])); });
    memo_.pop_back();
  }
  return {b_.CreateSelect(condition, sides[0], sides[1]), true, 0};
}

llvm::Value* Emitter::scalar_index(const Expr& e) {
  const Lanes v = value(e);
  if (v.uniform()) return v.v;
  return arith_.reduce(te::Combiner::Max, DType::I64, widen(v));
}

bool Emitter::reads(const Expr& e) {
  if (const auto at = reads_.find(e.identity()); at != reads_.end()) return at->second;
  bool r = e->kind == Kind::Read;
  for (const Expr& a : e->args) r = r || reads(a);
  return reads_[e.identity()] = r;
}

bool Emitter::inside(const Expr& e, int64_t low, int64_t end) const {
  const loop::Range r = ranges_.range(e);
  return r.low >= low && r.high < end;
}

bool Emitter::safe_read(const Node& n) {
  const loop::Buffer& buffer = function_.buffers[static_cast<size_t>(n.tensor)];
  for (size_t i = 0; i < n.args.size(); ++i)
    if (!reads(n.args[i]) && !inside(n.args[i], 0, buffer.dims[i])) return false;
  return buffer.elements() > 0;
}

// Whether evaluating it where it should not be could fault or raise.
bool Emitter::must_guard(const Expr& root) {
  std::unordered_set<const void*> seen;
  std::function<bool(const Expr&)> walk = [&](const Expr& e) -> bool {
    if (!seen.insert(e.identity()).second) return false;
    for (const auto& scope : memo_)
      if (scope.contains(e.identity())) return false;
    const Node& n = *e;
    if (n.kind == Kind::Read) {
      if (!safe_read(n)) return true;
      const loop::Buffer& buffer = function_.buffers[static_cast<size_t>(n.tensor)];
      for (size_t i = 0; i < n.args.size(); ++i)
        if (reads(n.args[i]) && !inside(n.args[i], 0, buffer.dims[i])) return true;
    }
    if (n.kind == Kind::Binary && !is_float(n.args[0].dtype()) && Arith::is_division(n.binary) &&
        (n.args[1]->kind != Kind::Int || n.args[1]->integer == 0))
      return true;
    for (const Expr& a : n.args)
      if (walk(a)) return true;
    return false;
  };
  return walk(root);
}

}  // namespace isomer::codegen
