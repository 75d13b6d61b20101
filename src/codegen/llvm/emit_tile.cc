#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <array>
#include <cmath>
#include <set>

#include "codegen/llvm/emitter.h"
#include "codegen/llvm/microkernel.h"
#include "loop/intrinsic.h"
#include "te/eval.h"

namespace isomer::codegen {

using loop::StmtNode;
using te::Expr;

namespace {

constexpr int64_t kMostPoints = 8192;  // of an enumeration

}  // namespace

// The values that an extent takes, when its variables can be run through; else all from 1 to `most`.
std::set<int64_t> Emitter::values_of(const Expr& e, int64_t most) {
  std::set<int64_t> out;
  std::vector<int> variables;
  loop::variables(e, variables);
  int64_t points = 1;
  std::vector<int64_t> extents;
  for (const int v : variables) {
    const loop::Range r = ranges_.range(Expr(te::Axis{v, "", Dim(0)}));
    const int64_t n = r.low == 0 && r.high >= 0 && r.high < kMostPoints ? r.high + 1 : kMostPoints + 1;
    extents.push_back(n);
    points = points > kMostPoints ? points : points * n;
  }
  te::DoubleDomain domain;
  te::Evaluator<te::DoubleDomain> evaluator(domain);
  for (int64_t p = 0; p < points && points <= kMostPoints && !loop::has_read(e); ++p) {
    std::vector<int64_t> at;
    int64_t rest = p;
    for (size_t i = 0; i < variables.size(); rest /= extents[i++]) {
      const auto v = static_cast<size_t>(variables[i]);
      if (at.size() <= v) at.resize(v + 1);
      at[v] = rest % extents[i];
    }
    const auto value = evaluator.eval_int(e, at);
    if (value && *value >= 1 && *value <= most) out.insert(*value);
  }
  if (out.empty())
    for (int64_t i = 1; i <= most; ++i) out.insert(i);
  return out;
}

// Whether `loop` does nothing but set to 0 exactly the elements that `tile` then adds to.
bool Emitter::clears(const StmtNode& loop, const StmtNode& tile) {
  if (tile.kind != loop::StmtKind::Tile || tile.operands.size() != 3 || tile.extents.size() != 3) return false;
  if (loop.kind != loop::StmtKind::For || loop.body.size() != 1 || loop.body[0].empty()) return false;
  const StmtNode& inner = *loop.body[0];
  if (inner.kind != loop::StmtKind::For || inner.body.size() != 1 || inner.body[0].empty()) return false;
  const StmtNode& store = *inner.body[0];
  const loop::TileOperand& c = tile.operands[2];
  if (store.kind != loop::StmtKind::Store || store.combiner || store.buffer != c.buffer) return false;
  if (store.value->kind != te::Kind::Real || store.value->real != 0 || std::signbit(store.value->real)) return false;
  if (store.indices.size() != 1 || c.indices.size() != 1) return false;
  if (!te::equal(loop.extent, tile.extents[0]) || !te::equal(inner.extent, tile.extents[1])) return false;
  loop::Affine place = loop::affine_of(store.indices[0]);
  const bool steps = place.coefficient(loop.var) == c.strides[0] && place.coefficient(inner.var) == c.strides[1];
  place = loop::add(place, loop::affine_of(c.indices[0]), -1);
  place.add(Expr(te::Axis{loop.var, "", Dim(0)}), -c.strides[0]);
  place.add(Expr(te::Axis{inner.var, "", Dim(0)}), -c.strides[1]);
  return steps && place.is_number() && place.constant == 0;
}

void Emitter::tile(const StmtNode& n, bool fresh) {
  if (lanes_ > 1) {
    fail("a tile stands in a vector loop");
    return;
  }
  if (n.intrinsic->emit != loop::Emit::OuterProduct || n.operands.size() != 3 || n.extents.size() != 3) {
    fail("there is no code for the intrinsic " + n.intrinsic->name);
    return;
  }
  const DType dtype = n.intrinsic->meaning.stages[0].dtype;
  bool fits = n.operands[1].strides[1] == 1 && n.operands[2].strides[1] == 1;
  fits = fits && (dtype == DType::F32 || dtype == DType::F64 || is_int(dtype));
  for (const loop::TileOperand& o : n.operands) fits = fits && places_[static_cast<size_t>(o.buffer)].dtype == dtype;
  memo_.emplace_back();
  if (fits) {
    tile_calls(n, {dtype, fresh, {}, nullptr});
  } else {
    tile_loops(n, fresh);
  }
  memo_.pop_back();
}

void Emitter::repeat(llvm::Value* count, const std::function<void(llvm::Value*)>& body) {
  llvm::Function* f = b_.GetInsertBlock()->getParent();
  auto* inside = llvm::BasicBlock::Create(b_.getContext(), "repeat", f);
  auto* done = llvm::BasicBlock::Create(b_.getContext(), "done", f);
  llvm::BasicBlock* before = b_.GetInsertBlock();
  b_.CreateCondBr(b_.CreateICmpSGT(count, b_.getInt64(0)), inside, done);
  b_.SetInsertPoint(inside);
  llvm::PHINode* i = b_.CreatePHI(b_.getInt64Ty(), 2);
  i->addIncoming(b_.getInt64(0), before);
  body(i);
  llvm::Value* next = b_.CreateAdd(i, b_.getInt64(1), "", true, true);
  i->addIncoming(next, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpSLT(next, count), inside, done);
  b_.SetInsertPoint(done);
}

// What the intrinsic means, element by element: for operands that lie otherwise than its code wants them.
void Emitter::tile_loops(const StmtNode& n, bool fresh) {
  llvm::Value* origin[3];
  llvm::Value* extent[3];
  for (size_t i = 0; i < 3; ++i) origin[i] = address(n.operands[i].buffer, n.operands[i].indices).offset.v;
  for (size_t i = 0; i < 3; ++i) extent[i] = value(n.extents[i]).v;
  const DType dtype = n.intrinsic->meaning.stages[0].dtype;
  llvm::AllocaInst* sum = local(numbers_.computed(dtype), "sum");
  auto offset = [&](size_t operand, std::array<llvm::Value*, 3> at) {
    llvm::Value* r = origin[operand];
    for (size_t a = 0; a < 3; ++a)
      r = b_.CreateAdd(r, b_.CreateMul(at[a], b_.getInt64(static_cast<uint64_t>(n.operands[operand].strides[a]))));
    return r;
  };
  auto place = [&](size_t operand) -> const Place& { return places_[static_cast<size_t>(n.operands[operand].buffer)]; };
  auto get = [&](size_t operand, std::array<llvm::Value*, 3> at) {
    const Lanes v = load(place(operand), {{offset(operand, at), false, 0}, nullptr, true});
    return numbers_.load_form(b_, place(operand).dtype, v.v);
  };
  repeat(extent[0], [&](llvm::Value* i) {
    repeat(extent[1], [&](llvm::Value* j) {
      llvm::Value* none = b_.getInt64(0);
      b_.CreateStore(fresh ? llvm::Constant::getNullValue(sum->getAllocatedType()) : get(2, {i, j, none}), sum);
      repeat(extent[2], [&](llvm::Value* k) {
        llvm::Value* product = arith_.binary(te::BinaryOp::Mul, dtype, get(0, {i, j, k}), get(1, {i, j, k}));
        llvm::Value* old = b_.CreateLoad(sum->getAllocatedType(), sum);
        b_.CreateStore(arith_.binary(te::BinaryOp::Add, dtype, old, product), sum);
      });
      llvm::Value* total = b_.CreateLoad(sum->getAllocatedType(), sum);
      const llvm::Align align(size_of(place(2).dtype));
      llvm::Value* pointer = element(place(2), offset(2, {i, j, none}));
      b_.CreateAlignedStore(numbers_.store_form(b_, place(2).dtype, total), pointer, align);
    });
  });
}

// One call for each size that can occur, chosen by what the extents are at run time.
void Emitter::tile_calls(const StmtNode& n, TileCall call) {
  const te::Stage& stage = n.intrinsic->meaning.stages[0];
  const int64_t most_rows = stage.axes[0].extent.value(), most_columns = stage.axes[1].extent.value();
  for (size_t i = 0; i < 3; ++i) {
    const Address at = address(n.operands[i].buffer, n.operands[i].indices);
    call.pointers[i] = element(places_[static_cast<size_t>(n.operands[i].buffer)], at.offset.v);
  }
  llvm::Value* rows = value(n.extents[0]).v;
  llvm::Value* columns = value(n.extents[1]).v;
  call.depth = value(n.extents[2]).v;
  for (const int64_t r : values_of(n.extents[0], most_rows))
    when(b_.CreateICmpEQ(rows, b_.getInt64(static_cast<uint64_t>(r))), [&] {
      for (const int64_t c : values_of(n.extents[1], most_columns))
        when(b_.CreateICmpEQ(columns, b_.getInt64(static_cast<uint64_t>(c))), [&] { tile_body(n, call, r, c); });
    });
}

// Columns in whole vectors and one with a mask; where there are no masks, the rest is done column by column.
void Emitter::tile_body(const StmtNode& n, const TileCall& call, int64_t rows, int64_t columns) {
  TileShape shape;
  shape.dtype = call.dtype;
  shape.fresh = call.fresh;
  shape.rows = static_cast<int>(rows);
  shape.a_row = n.operands[0].strides[0];
  shape.a_depth = n.operands[0].strides[2];
  shape.b_depth = n.operands[1].strides[2];
  const int64_t lanes = target_.vector_bytes / static_cast<int64_t>(size_of(call.dtype));
  llvm::Value* row_step = b_.getInt64(static_cast<uint64_t>(n.operands[2].strides[0]));
  auto part = [&](int64_t from, int64_t width, int64_t vectors, bool masked, int64_t live) {
    if (vectors == 0) return;
    shape.lanes = static_cast<int>(width);
    shape.vectors = static_cast<int>(vectors);
    shape.masked = masked;
    llvm::Type* type = numbers_.stored(call.dtype);
    llvm::Value* b = b_.CreateConstGEP1_64(type, call.pointers[1], static_cast<uint64_t>(from));
    llvm::Value* c = b_.CreateConstGEP1_64(type, call.pointers[2], static_cast<uint64_t>(from));
    b_.CreateCall(outer_product(module_, target_, shape),
                  {call.pointers[0], b, c, row_step, call.depth, b_.getInt64(static_cast<uint64_t>(live))});
  };
  const int64_t whole = columns / lanes, rest = columns % lanes;
  if (rest != 0 && masks_are_cheap(call.dtype)) return part(0, lanes, whole + 1, true, rest);
  part(0, lanes, whole, false, lanes);
  part(whole * lanes, 1, rest, false, 1);
}

}  // namespace isomer::codegen
