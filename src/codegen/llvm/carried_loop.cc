#include "codegen/llvm/carried_loop.h"

#include <llvm/IR/IRBuilder.h>

#include <algorithm>

namespace isomer::codegen {
namespace {

llvm::BasicBlock* block(llvm::IRBuilderBase& b, const char* name) {
  return llvm::BasicBlock::Create(b.getContext(), name, b.GetInsertBlock()->getParent());
}

llvm::Value* either(llvm::IRBuilderBase& b, llvm::Value* x, llvm::BasicBlock* from, llvm::Value* y,
                    llvm::BasicBlock* other) {
  auto* phi = b.CreatePHI(x->getType(), 2);
  phi->addIncoming(x, from);
  phi->addIncoming(y, other);
  return phi;
}

}  // namespace

void count_down(llvm::IRBuilderBase& b, llvm::Value* count, Values& carried,
                const std::function<void(llvm::Value* left)>& body) {
  llvm::BasicBlock *inside = block(b, "depth"), *done = block(b, "done"), *before = b.GetInsertBlock();
  b.CreateCondBr(b.CreateICmpSGT(count, b.getInt64(0)), inside, done);
  b.SetInsertPoint(inside);
  auto* left = b.CreatePHI(b.getInt64Ty(), 2);
  const Values starts = carried;
  std::vector<llvm::PHINode*> phis;
  for (llvm::Value* v : starts) phis.push_back(b.CreatePHI(v->getType(), 2));
  std::copy(phis.begin(), phis.end(), carried.begin());
  body(left);
  llvm::Value* fewer = b.CreateSub(left, b.getInt64(1));
  llvm::BasicBlock* last = b.GetInsertBlock();
  left->addIncoming(count, before);
  left->addIncoming(fewer, last);
  b.CreateCondBr(b.CreateICmpEQ(fewer, b.getInt64(0)), done, inside);
  b.SetInsertPoint(done);
  for (size_t n = 0; n < starts.size(); ++n) {
    phis[n]->addIncoming(starts[n], before);
    phis[n]->addIncoming(carried[n], last);
    carried[n] = either(b, starts[n], before, carried[n], last);
  }
}

void when_some(llvm::IRBuilderBase& b, llvm::Value* count, Values& carried, const std::function<void()>& body) {
  llvm::BasicBlock *some = block(b, "some"), *join = block(b, "join"), *before = b.GetInsertBlock();
  const Values old = carried;
  b.CreateCondBr(b.CreateICmpSGT(count, b.getInt64(0)), some, join);
  b.SetInsertPoint(some);
  body();
  llvm::BasicBlock* last = b.GetInsertBlock();
  b.CreateBr(join);
  b.SetInsertPoint(join);
  for (size_t n = 0; n < carried.size(); ++n) carried[n] = either(b, old[n], before, carried[n], last);
}

}  // namespace isomer::codegen
