#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <bit>
#include <set>

#include "codegen/llvm/emitter.h"

namespace isomer::codegen {

using loop::LoopKind;
using loop::StmtKind;
using loop::StmtNode;
using te::Expr;
using te::Kind;

namespace {

constexpr int64_t kUnrolledChunks = 16;  // more vectors than this are a loop
constexpr int64_t kLoopChunks = 4;       // vectors in one iteration of it

void for_each_expr(const StmtNode& n, const std::function<void(const Expr&)>& visit) {
  for (const Expr* e : {&n.extent, &n.condition, &n.value})
    if (!e->empty()) visit(*e);
  for (const Expr& e : n.indices) visit(e);
  for (const Expr& e : n.extents) visit(e);
  for (const loop::TileOperand& o : n.operands)
    for (const Expr& e : o.indices) visit(e);
  if (n.ahead)
    for (const Expr& e : n.ahead->indices) visit(e);
}

void walk(const StmtNode& n, const std::function<void(const StmtNode&)>& visit) {
  visit(n);
  for (const loop::Stmt& s : n.body)
    if (!s.empty()) walk(*s, visit);
}

// Every node of the expression once.
void for_each_node(const Expr& e, std::unordered_set<const void*>& seen,
                   const std::function<void(const Expr&)>& visit) {
  if (!seen.insert(e.identity()).second) return;
  visit(e);
  for (const Expr& a : e->args) for_each_node(a, seen, visit);
}

// How often each buffer is named in a statement.
std::map<int, int> uses(const StmtNode& root) {
  std::map<int, int> count;
  std::unordered_set<const void*> seen;
  walk(root, [&](const StmtNode& n) {
    if (n.kind == StmtKind::Store) ++count[n.buffer];
    for (const loop::TileOperand& o : n.operands) ++count[o.buffer];
    if (n.ahead) ++count[n.ahead->buffer];
    for_each_expr(n, [&](const Expr& e) {
      for_each_node(e, seen, [&](const Expr& x) {
        if (x->kind == Kind::Read) ++count[x->tensor];
      });
    });
  });
  return count;
}

// Stores in Vector loops below `root`, each with its Vector loop.
void vector_stores(const StmtNode& n, const StmtNode* vector,
                   std::vector<std::pair<const StmtNode*, const StmtNode*>>& out) {
  if (!vector && n.kind == StmtKind::For && n.loop == LoopKind::Vector) vector = &n;
  if (n.kind == StmtKind::Store && vector && n.combiner) out.emplace_back(&n, vector);
  for (const loop::Stmt& s : n.body)
    if (!s.empty()) vector_stores(*s, vector, out);
}

}  // namespace

// As many as fill a machine vector with the widest number that is computed with; indices do not count.
int Emitter::lanes_for(const StmtNode& loop) {
  int bytes = 1;
  std::unordered_set<const void*> seen;
  std::function<void(const Expr&)> data = [&](const Expr& e) {
    if (!seen.insert(e.identity()).second) return;
    if (e.dtype() == DType::I64 && !reads(e)) return;
    // Rounding to float, by way of double: no double is left of it.
    const bool rounds = e->kind == Kind::Cast && e.dtype() == DType::F32 && e->args[0]->kind == Kind::Cast &&
                        e->args[0].dtype() == DType::F64 && e->args[0]->args[0].dtype() == DType::F32;
    if (rounds) return data(e->args[0]->args[0]);
    bytes = std::max(bytes, numbers_.computed_bytes(e.dtype()));
    if (e->kind != Kind::Read)
      for (const Expr& a : e->args) data(a);
  };
  walk(loop, [&](const StmtNode& n) {
    if (n.kind == StmtKind::Store) data(n.value);
    if (n.kind == StmtKind::If) data(n.condition);
  });
  return std::max(1, target_.vector_bytes / bytes);
}

void Emitter::vector_loop(const StmtNode& n) {
  const int64_t extent = n.extent->integer;
  const int lanes = lanes_for(n);
  const auto opened = open_accumulators(n);
  ranges_.push(n.var, n.extent);
  if (extent >= lanes) full_chunks(n, extent / lanes, lanes);
  tail_chunks(n, extent / lanes * lanes, extent % lanes);
  ranges_.pop();
  vars_.erase(n.var);
  close_accumulators(opened);
}

void Emitter::full_chunks(const StmtNode& n, int64_t count, int lanes) {
  auto some = [&](llvm::Value* base, int64_t chunks) {
    for (int64_t i = 0; i < chunks; ++i)
      chunk(n, b_.CreateAdd(base, b_.getInt64(static_cast<uint64_t>(i * lanes))), lanes, lanes);
  };
  if (count <= kUnrolledChunks) return some(b_.getInt64(0), count);
  llvm::Function* f = b_.GetInsertBlock()->getParent();
  auto* body = llvm::BasicBlock::Create(b_.getContext(), n.var_name + ".lanes", f);
  auto* done = llvm::BasicBlock::Create(b_.getContext(), n.var_name + ".done", f);
  llvm::BasicBlock* before = b_.GetInsertBlock();
  b_.CreateBr(body);
  b_.SetInsertPoint(body);
  llvm::PHINode* i = b_.CreatePHI(b_.getInt64Ty(), 2, n.var_name);
  i->addIncoming(b_.getInt64(0), before);
  some(i, kLoopChunks);
  const int64_t stride = kLoopChunks * lanes, end = count / kLoopChunks * stride;
  llvm::Value* next = b_.CreateAdd(i, b_.getInt64(static_cast<uint64_t>(stride)), "", true, true);
  i->addIncoming(next, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpSLT(next, b_.getInt64(static_cast<uint64_t>(end))), body, done);
  b_.SetInsertPoint(done);
  some(b_.getInt64(static_cast<uint64_t>(end)), count % kLoopChunks);
}

// What is left over: one masked vector where masks cost nothing, else vectors of half the width, and half of that.
void Emitter::tail_chunks(const StmtNode& n, int64_t from, int64_t count) {
  const bool masked = target_.has("avx512bw") && target_.has("avx512vl");
  while (count > 0) {
    const auto left = static_cast<unsigned>(count);
    const auto lanes = masked ? std::bit_ceil(left) : std::bit_floor(left);
    const auto live = std::min(lanes, left);
    chunk(n, b_.getInt64(static_cast<uint64_t>(from)), static_cast<int>(lanes), static_cast<int>(live));
    from += live;
    count -= live;
  }
}

void Emitter::chunk(const StmtNode& n, llvm::Value* base, int lanes, int live) {
  lanes_ = lanes;
  vars_[n.var] = {base, false, lanes > 1 ? 1 : 0};
  if (live < lanes) {
    llvm::SmallVector<llvm::Constant*, 64> bits;
    for (int i = 0; i < lanes; ++i) bits.push_back(b_.getInt1(i < live));
    mask_ = llvm::ConstantVector::get(bits);
    beyond_ = true;
  }
  for (const loop::Stmt& part : n.body) statement(part);
  mask_ = nullptr;
  beyond_ = false;
  lanes_ = 1;
}

// The stores below `loop` that reduce across lanes to a place that stays the same while the loop runs and that
// nothing else in it touches.
std::vector<const StmtNode*> Emitter::open_accumulators(const StmtNode& loop) {
  std::vector<const StmtNode*> opened;
  std::vector<std::pair<const StmtNode*, const StmtNode*>> found;
  if (lanes_ == 1) vector_stores(loop, nullptr, found);
  if (found.empty()) return opened;
  const auto count = uses(loop);
  std::set<int> bound;
  walk(loop, [&](const StmtNode& n) {
    if (n.kind == StmtKind::For) bound.insert(n.var);
  });
  for (const auto& [store, vector] : found) {
    bool fixed = !accumulators_.contains(store) && count.at(store->buffer) == 1;
    std::unordered_set<const void*> seen;
    for (const Expr& index : store->indices)
      for_each_node(index, seen, [&](const Expr& e) {
        fixed = fixed && e->kind != Kind::Read && (e->kind != Kind::Var || !bound.contains(e->var));
      });
    if (!fixed) continue;
    const Place& place = places_[static_cast<size_t>(store->buffer)];
    const int lanes = static_cast<int>(std::min<int64_t>(
        lanes_for(*vector),
        static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(vector->extent->integer, 1))))));
    if (lanes == 1) continue;
    auto* type = llvm::FixedVectorType::get(numbers_.computed(place.dtype), static_cast<unsigned>(lanes));
    Accumulator a{{}, lanes, 0};
    const int64_t chunks = vector->extent->integer / lanes;
    for (int64_t i = 0; i < std::clamp<int64_t>(chunks, 1, kLoopChunks); ++i) {
      a.slots.push_back(local(type, "acc"));
      b_.CreateStore(b_.CreateVectorSplat(static_cast<unsigned>(lanes), arith_.identity(*store->combiner, place.dtype)),
                     a.slots.back());
    }
    accumulators_[store] = std::move(a);
    opened.push_back(store);
  }
  return opened;
}

bool Emitter::accumulate(const StmtNode& store, const Lanes& value) {
  const auto at = accumulators_.find(&store);
  if (at == accumulators_.end()) return false;
  Accumulator& a = at->second;
  const DType dtype = places_[static_cast<size_t>(store.buffer)].dtype;
  llvm::AllocaInst* slot = a.slots[a.next++ % a.slots.size()];
  llvm::Constant* none = arith_.identity(*store.combiner, dtype);
  llvm::Value* v = lanes_ == 1 ? b_.CreateVectorSplat(1, value.v) : widen(value);
  if (mask_) v = b_.CreateSelect(mask_, v, b_.CreateVectorSplat(static_cast<unsigned>(lanes_), none));
  if (lanes_ < a.lanes) {  // a tail: the lanes it has not add nothing
    llvm::SmallVector<int, 64> order;
    for (int i = 0; i < a.lanes; ++i) order.push_back(i < lanes_ ? i : lanes_);
    v = b_.CreateShuffleVector(v, b_.CreateVectorSplat(static_cast<unsigned>(lanes_), none), order);
  }
  b_.CreateStore(arith_.combine(*store.combiner, dtype, b_.CreateLoad(v->getType(), slot), v), slot);
  return true;
}

void Emitter::close_accumulators(const std::vector<const StmtNode*>& stores) {
  for (const StmtNode* store : stores) {
    const Accumulator a = std::move(accumulators_.extract(store).mapped());
    const DType dtype = places_[static_cast<size_t>(store->buffer)].dtype;
    llvm::Value* total = nullptr;
    for (llvm::AllocaInst* slot : a.slots) {
      llvm::Value* part = b_.CreateLoad(slot->getAllocatedType(), slot);
      total = total ? arith_.combine(*store->combiner, dtype, total, part) : part;
    }
    const Lanes sum{arith_.reduce(*store->combiner, dtype, total), false, 0};
    memo_.emplace_back();
    store_uniform(*store, places_[static_cast<size_t>(store->buffer)], address(store->buffer, store->indices), sum);
    memo_.pop_back();
  }
}

}  // namespace isomer::codegen
