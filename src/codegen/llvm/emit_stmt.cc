#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/Module.h>

#include "codegen/llvm/emitter.h"

namespace isomer::codegen {

using loop::LoopKind;
using loop::StmtKind;

void Emitter::run(std::vector<Place> places, llvm::AllocaInst* status, llvm::Value* begin, llvm::Value* end) {
  places_ = std::move(places);
  status_ = status;
  const loop::Stmt& body = function_.body;
  if (body.empty()) return;
  llvm::BasicBlock* before = b_.GetInsertBlock();
  auto* start = llvm::BasicBlock::Create(b_.getContext(), "tasks", before->getParent());
  b_.CreateBr(start);
  b_.SetInsertPoint(start);
  if (body->kind == StmtKind::For && body->loop == LoopKind::Parallel) {
    counted(*body, begin, end, false);
  } else {
    when(b_.CreateICmpSLT(begin, end), [&] { statement(body); });
  }
  if (!matrix_tiles_) return;
  release_matrix_tiles(b_);
  const llvm::IRBuilderBase::InsertPointGuard here(b_);
  b_.SetInsertPoint(before->getTerminator());
  configure_matrix_tiles(b_, module_);
}

void Emitter::statement(const loop::Stmt& s) {
  if (error_ || s.empty()) return;
  switch (s->kind) {
    case StmtKind::For: return loop_statement(*s);
    case StmtKind::If: return branch(*s);
    case StmtKind::Seq:
      for (size_t i = 0; i < s->body.size(); ++i) {
        const bool pair = i + 1 < s->body.size() && !s->body[i].empty() && !s->body[i + 1].empty();
        if (pair && clears(*s->body[i], *s->body[i + 1])) {
          tile(*s->body[++i], true);
        } else {
          statement(s->body[i]);
        }
      }
      return;
    case StmtKind::Store: return store(*s);
    case StmtKind::Tile: return tile(*s, false);
    case StmtKind::Prefetch: return prefetch(*s);
  }
}

void Emitter::loop_statement(const loop::StmtNode& n) {
  if (n.loop == LoopKind::Parallel) {
    fail("a parallel loop stands inside another statement");
    return;
  }
  const bool number = n.extent->kind == te::Kind::Int;
  if ((n.loop == LoopKind::Vector || n.loop == LoopKind::Unroll) && (!number || n.extent->integer > 4096)) {
    fail("the extent of the loop over " + n.var_name + " is no number of at most 4096");
    return;
  }
  if (number && n.extent->integer <= 0) return;
  if (n.loop == LoopKind::Vector && lanes_ == 1) return vector_loop(n);
  if (n.loop == LoopKind::Unroll || (number && n.extent->integer == 1)) return unrolled(n);
  const auto opened = open_accumulators(n);
  memo_.emplace_back();
  const Lanes extent = value(n.extent);
  memo_.pop_back();
  if (extent.uniform()) {
    counted(n, b_.getInt64(0), extent.v, number);
  } else {  // as often as the lane that runs longest, the others masked
    memo_.emplace_back();
    llvm::Value* most = scalar_index(n.extent);
    memo_.pop_back();
    counted(n, b_.getInt64(0), most, false);
  }
  close_accumulators(opened);
}

void Emitter::unrolled(const loop::StmtNode& n) {
  ranges_.push(n.var, n.extent);
  for (int64_t i = 0; i < n.extent->integer; ++i) {
    vars_[n.var] = {b_.getInt64(static_cast<uint64_t>(i)), false, 0};
    for (const loop::Stmt& part : n.body) statement(part);
  }
  ranges_.pop();
  vars_.erase(n.var);
}

void Emitter::counted(const loop::StmtNode& n, llvm::Value* from, llvm::Value* to, bool runs_once_at_least) {
  llvm::Function* f = b_.GetInsertBlock()->getParent();
  auto* body = llvm::BasicBlock::Create(b_.getContext(), n.var_name + ".body", f);
  auto* done = llvm::BasicBlock::Create(b_.getContext(), n.var_name + ".done", f);
  llvm::BasicBlock* before = b_.GetInsertBlock();
  if (runs_once_at_least) {
    b_.CreateBr(body);
  } else {
    b_.CreateCondBr(b_.CreateICmpSLT(from, to), body, done);
  }
  b_.SetInsertPoint(body);
  llvm::PHINode* i = b_.CreatePHI(b_.getInt64Ty(), 2, n.var_name);
  i->addIncoming(from, before);
  ranges_.push(n.var, n.extent);
  vars_[n.var] = {i, false, 0};
  auto all = [&] {
    for (const loop::Stmt& part : n.body) statement(part);
  };
  memo_.emplace_back();
  const Lanes extent = n.loop == LoopKind::Parallel ? Lanes{} : value(n.extent);
  memo_.pop_back();
  if (n.loop == LoopKind::Parallel || extent.uniform()) {
    all();
  } else {
    with_mask(b_.CreateICmpSLT(b_.CreateVectorSplat(static_cast<unsigned>(lanes_), i), widen(extent)), all);
  }
  llvm::Value* next = b_.CreateAdd(i, b_.getInt64(1), "", true, true);
  i->addIncoming(next, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpSLT(next, to), body, done);
  b_.SetInsertPoint(done);
  ranges_.pop();
  vars_.erase(n.var);
}

void Emitter::branch(const loop::StmtNode& n) {
  memo_.emplace_back();
  const Lanes c = value(n.condition);
  memo_.pop_back();
  const bool has_else = n.body.size() > 1 && !n.body[1].empty();
  if (c.uniform()) {
    when(c.v, [&] { statement(n.body[0]); });
    if (has_else) when(b_.CreateNot(c.v), [&] { statement(n.body[1]); });
    return;
  }
  with_mask(c.v, [&] { statement(n.body[0]); });
  if (has_else) with_mask(b_.CreateNot(c.v), [&] { statement(n.body[1]); });
}

void Emitter::prefetch(const loop::StmtNode& n) {
  if (lanes_ > 1) return;
  memo_.emplace_back();
  const Address at = address(n.buffer, n.indices);
  llvm::Value* pointer = element(places_[static_cast<size_t>(n.buffer)], at.offset.v);
  const bool written = function_.buffers[static_cast<size_t>(n.buffer)].written;
  b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {pointer->getType()},
                     {pointer, b_.getInt32(written ? 1 : 0), b_.getInt32(written ? 3 : 2), b_.getInt32(1)});
  memo_.pop_back();
}

void Emitter::with_mask(llvm::Value* bits, const std::function<void()>& body) {
  llvm::Value* const mask = mask_;
  const bool some_live = some_live_;
  mask_ = mask ? b_.CreateAnd(mask, bits) : bits;
  some_live_ = false;
  body();
  mask_ = mask;
  some_live_ = some_live;
}

void Emitter::when(llvm::Value* condition, const std::function<void()>& body) {
  if (const auto* known = llvm::dyn_cast<llvm::ConstantInt>(condition)) {
    if (!known->isZero()) body();
    return;
  }
  llvm::Function* f = b_.GetInsertBlock()->getParent();
  auto* yes = llvm::BasicBlock::Create(b_.getContext(), "when", f);
  auto* done = llvm::BasicBlock::Create(b_.getContext(), "done", f);
  b_.CreateCondBr(condition, yes, done);
  b_.SetInsertPoint(yes);
  body();
  b_.CreateBr(done);
  b_.SetInsertPoint(done);
}

llvm::Value* Emitter::when_else(llvm::Value* condition, const std::function<llvm::Value*()>& then,
                                const std::function<llvm::Value*()>& otherwise) {
  llvm::Function* f = b_.GetInsertBlock()->getParent();
  auto* yes = llvm::BasicBlock::Create(b_.getContext(), "then", f);
  auto* no = llvm::BasicBlock::Create(b_.getContext(), "else", f);
  auto* done = llvm::BasicBlock::Create(b_.getContext(), "join", f);
  b_.CreateCondBr(condition, yes, no);
  b_.SetInsertPoint(yes);
  llvm::Value* x = then();
  llvm::BasicBlock* from_yes = b_.GetInsertBlock();
  b_.CreateBr(done);
  b_.SetInsertPoint(no);
  llvm::Value* y = otherwise();
  llvm::BasicBlock* from_no = b_.GetInsertBlock();
  b_.CreateBr(done);
  b_.SetInsertPoint(done);
  llvm::PHINode* phi = b_.CreatePHI(x->getType(), 2);
  phi->addIncoming(x, from_yes);
  phi->addIncoming(y, from_no);
  return phi;
}

llvm::Value* Emitter::any(llvm::Value* bits) { return bits->getType()->isVectorTy() ? b_.CreateOrReduce(bits) : bits; }

llvm::Value* Emitter::live(llvm::Value* bits) {
  if (!mask_) return bits;
  if (!bits->getType()->isVectorTy()) return some_live_ ? bits : b_.CreateAnd(bits, any(mask_));
  return b_.CreateAnd(bits, mask_);
}

// The first thing that goes wrong is what the function returns.
void Emitter::raise(loop::Status status, llvm::Value* bits) {
  llvm::Value* bad = any(live(bits));
  llvm::Value* old = b_.CreateLoad(b_.getInt32Ty(), status_);
  llvm::Value* first = b_.CreateAnd(bad, b_.CreateICmpEQ(old, b_.getInt32(0)));
  b_.CreateStore(b_.CreateSelect(first, b_.getInt32(static_cast<uint32_t>(status)), old), status_);
}

llvm::AllocaInst* Emitter::local(llvm::Type* type, const char* name) {
  llvm::BasicBlock& entry = b_.GetInsertBlock()->getParent()->getEntryBlock();
  llvm::IRBuilder<> at(&entry, entry.begin());
  return at.CreateAlloca(type, nullptr, name);
}

}  // namespace isomer::codegen
