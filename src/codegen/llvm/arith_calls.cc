// The operations that are more than an instruction: elementary functions and powers.
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/Module.h>

#include "base/check.h"
#include "codegen/llvm/arith.h"
#include "codegen/llvm/math.h"
#include "codegen/llvm/module.h"

namespace isomer::codegen {

using te::UnaryOp;

namespace {

// The name in libm of an operation that has no code of its own; its float form has an f at the end.
const char* library_name(UnaryOp op) {
  switch (op) {
    case UnaryOp::Exp: return "exp";
    case UnaryOp::Log: return "log";
    case UnaryOp::Sin: return "sin";
    case UnaryOp::Cos: return "cos";
    case UnaryOp::Tan: return "tan";
    case UnaryOp::Asin: return "asin";
    case UnaryOp::Acos: return "acos";
    case UnaryOp::Atan: return "atan";
    case UnaryOp::Sinh: return "sinh";
    case UnaryOp::Cosh: return "cosh";
    case UnaryOp::Tanh: return "tanh";
    case UnaryOp::Asinh: return "asinh";
    case UnaryOp::Acosh: return "acosh";
    case UnaryOp::Atanh: return "atanh";
    case UnaryOp::Erf: return "erf";
    default: check_failed("operation is a function of libm", std::string(te::name(op)));
  }
}

// base to the power of a nonnegative exponent, wrapping, by squaring.
llvm::Function* power_function(llvm::Module& module) {
  if (llvm::Function* f = module.getFunction("iso.power")) return f;
  llvm::LLVMContext& context = module.getContext();
  llvm::Type* i64 = llvm::Type::getInt64Ty(context);
  auto* f = llvm::Function::Create(llvm::FunctionType::get(i64, {i64, i64}, false), llvm::Function::InternalLinkage,
                                   "iso.power", module);
  auto* entry = llvm::BasicBlock::Create(context, "entry", f);
  auto* head = llvm::BasicBlock::Create(context, "head", f);
  auto* body = llvm::BasicBlock::Create(context, "body", f);
  auto* done = llvm::BasicBlock::Create(context, "done", f);
  llvm::IRBuilder<> b(entry);
  b.CreateBr(head);
  b.SetInsertPoint(head);
  auto* result = b.CreatePHI(i64, 2);
  auto* base = b.CreatePHI(i64, 2);
  auto* exponent = b.CreatePHI(i64, 2);
  b.CreateCondBr(b.CreateICmpEQ(exponent, b.getInt64(0)), done, body);
  b.SetInsertPoint(body);
  llvm::Value* odd = b.CreateTrunc(exponent, b.getInt1Ty());
  llvm::Value* next = b.CreateSelect(odd, b.CreateMul(result, base), result);
  result->addIncoming(b.getInt64(1), entry);
  result->addIncoming(next, body);
  base->addIncoming(f->getArg(0), entry);
  base->addIncoming(b.CreateMul(base, base), body);
  exponent->addIncoming(f->getArg(1), entry);
  exponent->addIncoming(b.CreateLShr(exponent, 1), body);
  b.CreateBr(head);
  b.SetInsertPoint(done);
  b.CreateRet(result);
  return f;
}

}  // namespace

llvm::Value* Arith::real_unary(UnaryOp op, llvm::Value* x) {
  const bool single = x->getType()->getScalarType()->isFloatTy();
  const bool avx512 = target_.has("avx512f") && target_.has("avx512vl");
  auto intrinsic = [&](llvm::Intrinsic::ID id) { return b_.CreateUnaryIntrinsic(id, x); };
  switch (op) {
    case UnaryOp::Neg: return b_.CreateFNeg(x);
    case UnaryOp::Abs: return intrinsic(llvm::Intrinsic::fabs);
    case UnaryOp::Sqrt: return intrinsic(llvm::Intrinsic::sqrt);
    case UnaryOp::Floor: return intrinsic(llvm::Intrinsic::floor);
    case UnaryOp::Ceil: return intrinsic(llvm::Intrinsic::ceil);
    case UnaryOp::Round: return intrinsic(llvm::Intrinsic::roundeven);
    case UnaryOp::Trunc: return intrinsic(llvm::Intrinsic::trunc);
    case UnaryOp::IsNan: return b_.CreateFCmpUNO(x, x);
    case UnaryOp::IsInf:
      return b_.CreateFCmpOEQ(intrinsic(llvm::Intrinsic::fabs), llvm::ConstantFP::getInfinity(x->getType()));
    case UnaryOp::Exp:
      if (single) return exp_f32(b_, x, avx512);
      break;
    case UnaryOp::Log:
      if (single) return log_f32(b_, x);
      break;
    case UnaryOp::Tanh:
      if (single) return tanh_f32(b_, x, avx512);
      break;
    case UnaryOp::Erf:
      if (single) return erf_f32(b_, x, avx512);
      break;
    case UnaryOp::Sin:
    case UnaryOp::Cos:
      if (single) return b_.CreateCall(sine_function(op, x->getType()), {x});
      break;
    default: break;
  }
  return library(library_name(op), x);
}

// Angles of any size: those that are too large, infinite or no numbers ask libm, each for itself.
llvm::Function* Arith::sine_function(UnaryOp op, llvm::Type* type) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  const std::string name =
      std::string("iso.") + library_name(op) + "." + std::to_string(vector ? vector->getNumElements() : 1);
  if (llvm::Function* f = module_.getFunction(name)) return f;
  auto* f = llvm::Function::Create(llvm::FunctionType::get(type, {type}, false), llvm::Function::InternalLinkage, name,
                                   module_);
  set_attributes(*f, target_);
  const llvm::IRBuilderBase::InsertPointGuard guard(b_);
  auto* entry = llvm::BasicBlock::Create(module_.getContext(), "entry", f);
  auto* asked = llvm::BasicBlock::Create(module_.getContext(), "asked", f);
  auto* done = llvm::BasicBlock::Create(module_.getContext(), "done", f);
  b_.SetInsertPoint(entry);
  llvm::Value* x = f->getArg(0);
  llvm::Value* large = b_.CreateFCmpUGT(b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x),
                                        llvm::ConstantFP::get(type, static_cast<double>(kLargestAngle)));
  llvm::Value* known = b_.CreateSelect(large, llvm::Constant::getNullValue(type), x);
  llvm::Value* near = sine_f32(b_, known, op == UnaryOp::Cos);
  b_.CreateCondBr(vector ? b_.CreateOrReduce(large) : large, asked, done);
  b_.SetInsertPoint(asked);
  llvm::Value* far = b_.CreateSelect(large, library(library_name(op), x), near);
  b_.CreateBr(done);
  b_.SetInsertPoint(done);
  llvm::PHINode* result = b_.CreatePHI(type, 2);
  result->addIncoming(near, entry);
  result->addIncoming(far, asked);
  b_.CreateRet(result);
  return f;
}

llvm::Value* Arith::library(const char* name, llvm::Value* x, llvm::Value* y) {
  llvm::Type* scalar = x->getType()->getScalarType();
  const std::string symbol = scalar->isFloatTy() ? std::string(name) + "f" : std::string(name);
  llvm::SmallVector<llvm::Type*, 2> parameters(y ? 2 : 1, scalar);
  llvm::FunctionCallee callee = module_.getOrInsertFunction(symbol, llvm::FunctionType::get(scalar, parameters, false));
  auto* f = llvm::cast<llvm::Function>(callee.getCallee());
  f->setDoesNotThrow();
  f->setDoesNotAccessMemory();
  f->setWillReturn();
  auto call = [&](llvm::Value* p, llvm::Value* q) {
    return q ? b_.CreateCall(callee, {p, q}) : b_.CreateCall(callee, {p});
  };
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  if (!vector) return call(x, y);
  llvm::Value* result = llvm::PoisonValue::get(vector);
  for (unsigned i = 0; i < vector->getNumElements(); ++i) {
    llvm::Value* lane = call(b_.CreateExtractElement(x, i), y ? b_.CreateExtractElement(y, i) : nullptr);
    result = b_.CreateInsertElement(result, lane, i);
  }
  return result;
}

llvm::Value* Arith::int_power(DType type, llvm::Value* x, llvm::Value* y) {
  if (const auto* c = llvm::dyn_cast<llvm::ConstantInt>(y)) {
    if (c->equalsInt(2)) return b_.CreateMul(x, x);
  }
  llvm::Function* power = power_function(module_);
  const bool is_signed = is_signed_int(type);
  auto one_lane = [&](llvm::Value* base, llvm::Value* exponent) {
    llvm::Type* narrow = base->getType();
    llvm::Value* p = b_.CreateIntCast(base, b_.getInt64Ty(), is_signed);
    llvm::Value* q = b_.CreateIntCast(exponent, b_.getInt64Ty(), is_signed);
    if (!is_signed) return b_.CreateTrunc(b_.CreateCall(power, {p, q}), narrow);
    // A negative exponent: only 1 and -1 have an integer as their inverse.
    llvm::Value* negative = b_.CreateICmpSLT(q, b_.getInt64(0));
    llvm::Value* positive = b_.CreateCall(power, {p, b_.CreateSelect(negative, b_.getInt64(0), q)});
    llvm::Value* even = b_.CreateICmpEQ(b_.CreateAnd(q, b_.getInt64(1)), b_.getInt64(0));
    llvm::Value* minus = b_.CreateSelect(even, b_.getInt64(1), b_.getInt64(~uint64_t{0}));
    llvm::Value* is_one = b_.CreateICmpEQ(p, b_.getInt64(1));
    llvm::Value* is_minus = b_.CreateICmpEQ(p, b_.getInt64(~uint64_t{0}));
    llvm::Value* inverse = b_.CreateSelect(is_one, b_.getInt64(1), b_.CreateSelect(is_minus, minus, b_.getInt64(0)));
    return b_.CreateTrunc(b_.CreateSelect(negative, inverse, positive), narrow);
  };
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  if (!vector) return one_lane(x, y);
  llvm::Value* result = llvm::PoisonValue::get(vector);
  for (unsigned i = 0; i < vector->getNumElements(); ++i)
    result = b_.CreateInsertElement(result, one_lane(b_.CreateExtractElement(x, i), b_.CreateExtractElement(y, i)), i);
  return result;
}

}  // namespace isomer::codegen
