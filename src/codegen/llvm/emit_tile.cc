#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <cmath>
#include <optional>
#include <set>

#include "codegen/llvm/emitter.h"
#include "codegen/llvm/microkernel.h"
#include "loop/intrinsic.h"
#include "loop/intrinsics.h"
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
  if (tile.kind != loop::StmtKind::Tile || tile.operands.empty() || tile.extents.size() < 3) return false;
  if (loop.kind != loop::StmtKind::For || loop.body.size() != 1 || loop.body[0].empty()) return false;
  const StmtNode& inner = *loop.body[0];
  if (inner.kind != loop::StmtKind::For || inner.body.size() != 1 || inner.body[0].empty()) return false;
  const StmtNode& store = *inner.body[0];
  const loop::TileOperand& c = tile.operands.back();
  if (store.kind != loop::StmtKind::Store || store.combiner || store.buffer != c.buffer) return false;
  const bool whole = store.value->kind == te::Kind::Int && store.value->integer == 0;
  if (!whole && (store.value->kind != te::Kind::Real || store.value->real != 0 || std::signbit(store.value->real)))
    return false;
  if (store.indices.size() != 1 || c.indices.size() != 1) return false;
  if (!te::equal(loop.extent, tile.extents[0]) || !te::equal(inner.extent, tile.extents[1])) return false;
  loop::Affine place = loop::affine_of(store.indices[0]);
  const bool steps = place.coefficient(loop.var) == c.strides[0] && place.coefficient(inner.var) == c.strides[1];
  place = loop::add(place, loop::affine_of(c.indices[0]), -1);
  place.add(Expr(te::Axis{loop.var, "", Dim(0)}), -c.strides[0]);
  place.add(Expr(te::Axis{inner.var, "", Dim(0)}), -c.strides[1]);
  return steps && place.is_number() && place.constant == 0;
}

// The product that register code computes, when the operands lie as it wants them.
std::optional<Product> Emitter::tile_product(const StmtNode& n) const {
  const te::Program& meaning = n.intrinsic->meaning;
  if (n.intrinsic->emit == loop::Emit::NarrowProduct)
    return fits_narrow_tile(n) ? std::optional(Product::Narrow) : std::nullopt;
  if (n.operands.size() != 3 || meaning.inputs.size() != 2) return std::nullopt;
  const DType dtype = meaning.stages[0].dtype, left = meaning.inputs[0].dtype, right = meaning.inputs[1].dtype;
  const DType types[] = {left, right, dtype};
  for (size_t i = 0; i < 3; ++i)
    if (places_[static_cast<size_t>(n.operands[i].buffer)].dtype != types[i]) return std::nullopt;
  const auto &a = n.operands[0].strides, &b = n.operands[1].strides, &c = n.operands[2].strides;
  if (c[1] != 1) return std::nullopt;
  if (n.intrinsic->emit == loop::Emit::OuterProduct) {
    const bool fits = n.extents.size() == 3 && b[1] == 1 && left == dtype && right == dtype;
    const bool typed = dtype == DType::F32 || dtype == DType::F64 || is_int(dtype);
    return fits && typed ? std::optional(Product::MultiplyAdd) : std::nullopt;
  }
  if (n.extents.size() != 4 || n.extents[3]->kind != te::Kind::Int || n.extents[3]->integer != 4) return std::nullopt;
  if (a[3] != 1 || b[1] != 4 || b[3] != 1 || dtype != DType::I32) return std::nullopt;
  if (target_.arch == loop::Arch::X86_64) {
    const bool there = target_.has("avx512vnni") || target_.has(target_.vector_bytes == 32 ? "avx2" : "avx512bw");
    return there && left == DType::U8 && right == DType::I8 ? std::optional(Product::DotU8I8) : std::nullopt;
  }
  if (left == DType::U8 && right == DType::I8)
    return target_.has("i8mm") ? std::optional(Product::DotU8I8) : std::nullopt;
  if (left != right || !target_.has(left == DType::I8 ? "neon" : "dotprod")) return std::nullopt;
  return left == DType::I8 ? Product::DotI8I8 : Product::DotU8U8;
}

// Whether the bytes of the right side lie as the code reads them.
bool Emitter::fits_narrow_tile(const StmtNode& n) const {
  if (!target_.has("avx512vbmi") || numbers_.wide() || n.operands.size() != 5 || n.extents.size() != 3) return false;
  const DType types[] = {DType::F32, DType::U8, DType::U8, DType::U8, DType::F32};
  for (size_t i = 0; i < 5; ++i)
    if (places_[static_cast<size_t>(n.operands[i].buffer)].dtype != types[i]) return false;
  for (size_t byte = 0; byte < 3; ++byte) {
    const loop::TileOperand &b = n.operands[1 + byte], &first = n.operands[1];
    if (b.buffer != first.buffer || b.strides != first.strides || b.indices.size() != 1) return false;
    const loop::Affine apart = loop::add(loop::affine_of(b.indices[0]), loop::affine_of(first.indices[0]), -1);
    if (!apart.is_number() || apart.constant != static_cast<int64_t>(byte)) return false;
  }
  return n.operands[1].strides[1] == 3 && n.operands[4].strides[1] == 1;
}

// The same for bytes.
bool Emitter::fits_byte_tile(const StmtNode& n) const {
  if (!loop::uses_tile_registers(*n.intrinsic) || !has_matrix_tiles(target_, MatrixTile::Numbers::Bytes)) return false;
  if (tile_product(n) != Product::DotU8I8) return false;
  for (const Expr& e : n.extents)
    if (e->kind != te::Kind::Int || e->integer < 1) return false;
  for (size_t axis = 0; axis < 2; ++axis)
    if (n.extents[axis]->integer != kMatrixSide && n.extents[axis]->integer != 2 * kMatrixSide) return false;
  return n.extents[2]->integer % kMatrixSide == 0 && n.operands[0].strides[2] == 4;
}

// Whether two-dimensional registers can compute it: whole registers, operands that lie as they are read.
bool Emitter::fits_matrix_tile(const StmtNode& n) const {
  if (n.intrinsic->emit == loop::Emit::DotProduct) return fits_byte_tile(n);
  if (n.intrinsic->emit != loop::Emit::SplitProduct || numbers_.wide()) return false;
  if (!has_matrix_tiles(target_, MatrixTile::Numbers::Split)) return false;
  if (n.operands.size() != 5 || n.extents.size() != 5) return false;
  const DType types[] = {DType::BF16, DType::BF16, DType::BF16, DType::BF16, DType::F32};
  for (size_t i = 0; i < 5; ++i)
    if (places_[static_cast<size_t>(n.operands[i].buffer)].dtype != types[i]) return false;
  for (const Expr& e : n.extents)
    if (e->kind != te::Kind::Int || e->integer < 1) return false;
  const int64_t rows = n.extents[0]->integer / kMatrixSide, columns = n.extents[1]->integer / kMatrixSide;
  if (rows * kMatrixSide != n.extents[0]->integer || columns * kMatrixSide != n.extents[1]->integer) return false;
  if (rows > (columns == 1 ? 4 : 2) || columns > 2) return false;
  if (n.extents[3]->integer % kMatrixSide != 0 || n.extents[4]->integer != 2) return false;
  const auto step = [&](size_t operand) -> const std::vector<int64_t>& { return n.operands[operand].strides; };
  for (const size_t a : {0, 1})
    if (step(a)[0] != step(0)[0] || step(a)[2] != step(0)[2] || step(a)[3] != 2 || step(a)[4] != 1) return false;
  for (const size_t b : {2, 3})
    if (step(b)[1] != 2 || step(b)[2] != step(2)[2] || step(b)[3] != step(2)[3] || step(b)[4] != 1) return false;
  return step(4)[1] == 1;
}

void Emitter::matrix_tile_call(const StmtNode& n, bool fresh) {
  llvm::SmallVector<llvm::Value*, 8> arguments;
  const auto pointer = [&](const loop::TileOperand& o) {
    return element(places_[static_cast<size_t>(o.buffer)], address(o.buffer, o.indices).offset.v);
  };
  const auto bytes = [](DType type, int64_t elements) { return elements * static_cast<int64_t>(size_of(type)); };
  MatrixTile shape;
  if (n.intrinsic->emit == loop::Emit::DotProduct) {
    shape.numbers = MatrixTile::Numbers::Bytes;
    for (const size_t o : {0, 0, 1, 1, 2}) arguments.push_back(pointer(n.operands[o]));
    shape.steps = n.extents[2]->integer / kMatrixSide;
    shape.a_row = n.operands[0].strides[0];
    shape.b_pair = n.operands[1].strides[2];
  } else {
    for (const loop::TileOperand& o : n.operands) arguments.push_back(pointer(o));
    const std::vector<int64_t>&a = n.operands[0].strides, &b = n.operands[2].strides;
    shape.runs = n.extents[2]->integer;
    shape.steps = n.extents[3]->integer / kMatrixSide;
    shape.a_row = bytes(DType::BF16, a[0]);
    shape.a_run = bytes(DType::BF16, a[2]);
    shape.b_pair = bytes(DType::BF16, b[3]);
    shape.b_run = bytes(DType::BF16, b[2]);
  }
  arguments.push_back(n.ahead ? pointer(*n.ahead) : arguments[2]);
  shape.rows = n.extents[0]->integer / kMatrixSide;
  shape.columns = n.extents[1]->integer / kMatrixSide;
  shape.fresh = fresh;
  shape.c_row = bytes(DType::F32, n.operands.back().strides[0]);
  if (n.ahead)
    shape.ahead = bytes(places_[static_cast<size_t>(n.ahead->buffer)].dtype, kMatrixSide * n.ahead->strides.back());
  b_.CreateCall(matrix_tile(module_, target_, shape), arguments);
  matrix_tiles_ = true;
}

void Emitter::tile(const StmtNode& n, bool fresh) {
  if (lanes_ > 1) {
    fail("a tile stands in a vector loop");
    return;
  }
  const auto product = tile_product(n);
  memo_.emplace_back();
  if (fits_matrix_tile(n)) {
    matrix_tile_call(n, fresh);
  } else if (product) {
    tile_calls(n, {n.intrinsic->meaning.stages[0].dtype, *product, fresh, {}, nullptr, nullptr});
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

// What the intrinsic means, element by element: for operands that lie otherwise than its code wants them, and for
// machines that have no such instruction.
void Emitter::tile_loops(const StmtNode& n, bool fresh) {
  const te::Stage& stage = n.intrinsic->meaning.stages[0];
  const te::Node& body = *stage.body;
  if (body.kind != te::Kind::Reduce || te::is_arg(body.combiner) || tile_) {
    fail("the intrinsic " + n.intrinsic->name + " is no reduction");
    return;
  }
  TilePoint point{&n, {}, {}};
  for (const loop::TileOperand& o : n.operands) point.origins.push_back(address(o.buffer, o.indices).offset.v);
  llvm::SmallVector<llvm::Value*, 4> extents;
  for (const Expr& e : n.extents) extents.push_back(value(e).v);
  point.at.assign(extents.size(), b_.getInt64(0));
  tile_ = &point;
  llvm::AllocaInst* sum = local(numbers_.computed(stage.dtype), "sum");
  const Place& c = places_[static_cast<size_t>(n.operands.back().buffer)];
  auto update = [&] {
    memo_.emplace_back();
    llvm::Value* v = value(body.args[0]).v;
    memo_.pop_back();
    llvm::Value* old = b_.CreateLoad(sum->getAllocatedType(), sum);
    b_.CreateStore(arith_.combine(body.combiner, stage.dtype, old, v), sum);
  };
  auto one = [&](auto& self, size_t axis) -> void {
    if (axis == stage.axes.size()) {  // an element of the result: its reduction inside
      for (size_t i = axis; i < point.at.size(); ++i) point.at[i] = b_.getInt64(0);
      llvm::Value* pointer = element(c, tile_offset(n.operands.size() - 1));
      const llvm::Align align(size_of(c.dtype));
      llvm::Value* old = b_.CreateAlignedLoad(numbers_.stored(c.dtype), pointer, align);
      b_.CreateStore(fresh ? arith_.identity(body.combiner, stage.dtype) : numbers_.load_form(b_, c.dtype, old), sum);
      auto reduce = [&](auto& inner, size_t r) -> void {
        if (r == point.at.size()) return update();
        repeat(extents[r], [&](llvm::Value* i) { point.at[r] = i, inner(inner, r + 1); });
      };
      reduce(reduce, axis);
      llvm::Value* total = b_.CreateLoad(sum->getAllocatedType(), sum);
      b_.CreateAlignedStore(numbers_.store_form(b_, c.dtype, total), pointer, align);
      return;
    }
    repeat(extents[axis], [&](llvm::Value* i) { point.at[axis] = i, self(self, axis + 1); });
  };
  one(one, 0);
  tile_ = nullptr;
}

llvm::Value* Emitter::tile_offset(size_t operand) {
  llvm::Value* r = tile_->origins[operand];
  const std::vector<int64_t>& strides = tile_->tile->operands[operand].strides;
  for (size_t a = 0; a < strides.size(); ++a)
    r = b_.CreateAdd(r, b_.CreateMul(tile_->at[a], b_.getInt64(static_cast<uint64_t>(strides[a]))));
  return r;
}

// One call for each size that can occur, chosen by what the extents are at run time.
void Emitter::tile_calls(const StmtNode& n, TileCall call) {
  const te::Stage& stage = n.intrinsic->meaning.stages[0];
  const int64_t most_rows = stage.axes[0].extent.value(), most_columns = stage.axes[1].extent.value();
  for (const size_t i : {size_t{0}, size_t{1}, n.operands.size() - 1}) {
    const Address at = address(n.operands[i].buffer, n.operands[i].indices);
    call.pointers[std::min<size_t>(i, 2)] = element(places_[static_cast<size_t>(n.operands[i].buffer)], at.offset.v);
  }
  llvm::Value* rows = value(n.extents[0]).v;
  llvm::Value* columns = value(n.extents[1]).v;
  call.depth = value(n.extents[2]).v;
  if (n.ahead) {
    const Address at = address(n.ahead->buffer, n.ahead->indices);
    call.ahead = element(places_[static_cast<size_t>(n.ahead->buffer)], at.offset.v);
  }
  for (const int64_t r : values_of(n.extents[0], most_rows))
    when(b_.CreateICmpEQ(rows, b_.getInt64(static_cast<uint64_t>(r))), [&] {
      for (const int64_t c : values_of(n.extents[1], most_columns))
        when(b_.CreateICmpEQ(columns, b_.getInt64(static_cast<uint64_t>(c))), [&] { tile_body(n, call, r, c); });
    });
}

// Columns in whole vectors and one with a mask; where there are no masks, the rest is done column by column.
void Emitter::tile_body(const StmtNode& n, const TileCall& call, int64_t rows, int64_t columns) {
  TileShape shape;
  shape.product = call.product;
  shape.dtype = call.dtype;
  shape.fresh = call.fresh;
  shape.rows = static_cast<int>(rows);
  shape.a_row = n.operands[0].strides[0];
  shape.a_depth = n.operands[0].strides[2];
  shape.b_depth = n.operands[1].strides[2];
  if (call.ahead)
    shape.ahead =
        n.ahead->strides.back() * static_cast<int64_t>(size_of(places_[static_cast<size_t>(n.ahead->buffer)].dtype));
  const int64_t lanes = target_.vector_bytes / static_cast<int64_t>(size_of(call.dtype));
  llvm::Value* row_step = b_.getInt64(static_cast<uint64_t>(n.operands.back().strides[0]));
  auto part = [&](int64_t from, int64_t width, int64_t vectors, bool masked, int64_t live) {
    if (vectors == 0) return;
    shape.lanes = static_cast<int>(width);
    shape.vectors = static_cast<int>(vectors);
    shape.masked = masked;
    llvm::Type* type = numbers_.stored(call.dtype);
    llvm::Value* b =
        b_.CreateConstGEP1_64(type, call.pointers[1], static_cast<uint64_t>(from));  // 4 bytes a column too
    llvm::Value* c = b_.CreateConstGEP1_64(type, call.pointers[2], static_cast<uint64_t>(from));
    b_.CreateCall(outer_product(module_, target_, shape),
                  {call.pointers[0], b, c, row_step, call.depth, b_.getInt64(static_cast<uint64_t>(live)),
                   call.ahead ? call.ahead : call.pointers[1]});
    shape.ahead = 0;  // once is enough
  };
  const int64_t whole = columns / lanes, rest = columns % lanes;
  if (rest != 0 && masks_are_cheap(call.dtype)) return part(0, lanes, whole + 1, true, rest);
  part(0, lanes, whole, false, lanes);
  part(whole * lanes, 1, rest, false, 1);
}

}  // namespace isomer::codegen
