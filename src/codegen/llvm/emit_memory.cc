#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <algorithm>

#include "codegen/llvm/emitter.h"

namespace isomer::codegen {

using te::Expr;
using te::Node;

namespace {

llvm::Value* zeros(llvm::Type* type) { return llvm::Constant::getNullValue(type); }

}  // namespace

Emitter::Address Emitter::address(int buffer, const std::vector<Expr>& indices) {
  const loop::Buffer& shape = function_.buffers[static_cast<size_t>(buffer)];
  const Place& place = places_[static_cast<size_t>(buffer)];
  Address at{{b_.getInt64(0), false, 0}, nullptr, true};
  for (size_t i = 0; i < indices.size(); ++i) {
    const Lanes index = value(indices[i]);
    at.offset = add(at.offset, times(index, place.strides[i]));
    if (inside(indices[i], 0, shape.dims[i])) continue;
    if (!reads(indices[i])) {
      at.safe = false;
      continue;
    }
    llvm::Value* v = index.uniform() ? index.v : widen(index);
    llvm::Value* good = b_.CreateICmpULT(v, llvm::ConstantInt::get(v->getType(), static_cast<uint64_t>(shape.dims[i])));
    if (!at.valid) {
      at.valid = good;
    } else {
      if (at.valid->getType() != good->getType() && !good->getType()->isVectorTy())
        good = b_.CreateVectorSplat(static_cast<unsigned>(lanes_), good);
      if (at.valid->getType() != good->getType())
        at.valid = b_.CreateVectorSplat(static_cast<unsigned>(lanes_), at.valid);
      at.valid = b_.CreateAnd(at.valid, good);
    }
  }
  if (at.valid) raise(loop::Status::OutOfRange, b_.CreateNot(at.valid));
  return at;
}

llvm::Value* Emitter::element(const Place& place, llvm::Value* offset) {
  return b_.CreateGEP(numbers_.stored(place.dtype), place.pointer, offset);
}

bool Emitter::masks_are_cheap(DType dtype) const {
  if (target_.arch != loop::Arch::X86_64) return false;
  if (size_of(dtype) >= 4) return target_.has("avx512f") || target_.has("avx2");
  return target_.has("avx512bw") && target_.has("avx512vl");
}

Lanes Emitter::read(const Node& n) {
  const auto operand = static_cast<size_t>(n.tensor);
  const Place& place = places_[tile_ ? static_cast<size_t>(tile_->tile->operands[operand].buffer) : operand];
  const Address at = tile_ ? Address{{tile_offset(operand), false, 0}, nullptr, true} : address(n.tensor, n.args);
  const Lanes stored = load(place, at);
  llvm::Value* v = numbers_.load_form(b_, place.dtype, stored.v);
  if (v->getType()->getScalarType() != numbers_.computed(n.dtype))
    return fail("a read of buffer " + place.pointer->getName().str() + " has another type");
  return {v, stored.vector, 0};
}

Lanes Emitter::load(const Place& place, const Address& at) {
  llvm::Type* type = numbers_.stored(place.dtype);
  if (place.elements == 0) return {zeros(type), false, 0};
  const llvm::Align align(size_of(place.dtype));
  if (at.offset.uniform() && (!at.valid || !at.valid->getType()->isVectorTy())) {
    llvm::Value* offset = at.offset.v;
    // Element 0 is always there: a dead read goes to it.
    if (at.valid) offset = b_.CreateSelect(at.valid, offset, b_.getInt64(0));
    if (mask_ && !some_live_ && !at.safe) offset = b_.CreateSelect(any(mask_), offset, b_.getInt64(0));
    return {b_.CreateAlignedLoad(type, element(place, offset), align), false, 0};
  }
  llvm::Value* mask = mask_;
  if (at.safe && !beyond_) mask = nullptr;
  if (at.valid) {
    llvm::Value* valid =
        at.valid->getType()->isVectorTy() ? at.valid : b_.CreateVectorSplat(static_cast<unsigned>(lanes_), at.valid);
    mask = mask ? b_.CreateAnd(mask, valid) : valid;
  }
  if (at.offset.step == 1 && !at.offset.vector && (!mask || masks_are_cheap(place.dtype)))
    return {load_vector(place, at.offset.v, mask), true, 0};
  if (at.offset.step != 0 && !mask) return {load_strided(place, at.offset.v, at.offset.step), true, 0};
  if (llvm::Value* spread = mask ? nullptr : load_spread(place, at.offset)) return {spread, true, 0};
  return {gather(place, widen(at.offset), mask), true, 0};
}

llvm::Value* Emitter::load_vector(const Place& place, llvm::Value* base, llvm::Value* mask) {
  auto* type = llvm::FixedVectorType::get(numbers_.stored(place.dtype), static_cast<unsigned>(lanes_));
  const llvm::Align align(size_of(place.dtype));
  llvm::Value* pointer = element(place, base);
  if (!mask) return b_.CreateAlignedLoad(type, pointer, align);
  return b_.CreateMaskedLoad(type, pointer, align, mask, zeros(type));
}

llvm::Value* Emitter::load_strided(const Place& place, llvm::Value* base, int64_t step) {
  auto* type = llvm::FixedVectorType::get(numbers_.stored(place.dtype), static_cast<unsigned>(lanes_));
  const llvm::Align align(size_of(place.dtype));
  if (step == -1) {
    llvm::Value* first = b_.CreateSub(base, b_.getInt64(static_cast<uint64_t>(lanes_ - 1)));
    llvm::SmallVector<int, 64> order;
    for (int i = lanes_ - 1; i >= 0; --i) order.push_back(i);
    return b_.CreateShuffleVector(load_vector(place, first, nullptr), order);
  }
  // Every second element: all of them are loaded and half is dropped. Wider steps: the machine's gather where it has one.
  if (step == 2) {
    auto* both = llvm::FixedVectorType::get(type->getElementType(), static_cast<unsigned>(2 * lanes_ - 1));
    llvm::SmallVector<int, 64> order;
    for (int i = 0; i < lanes_; ++i) order.push_back(2 * i);
    return b_.CreateShuffleVector(b_.CreateAlignedLoad(both, element(place, base), align), order);
  }
  if (target_.has("avx512f") && lanes_ >= 8 && size_of(place.dtype) >= 4)
    return gather(place, widen({base, false, step}), nullptr);
  llvm::Value* r = llvm::PoisonValue::get(type);
  llvm::Value* pointer = element(place, base);
  for (int i = 0; i < lanes_; ++i) {
    llvm::Value* p = b_.CreateConstGEP1_64(type->getElementType(), pointer, static_cast<uint64_t>(i * step));
    r = b_.CreateInsertElement(r, b_.CreateAlignedLoad(type->getElementType(), p, align), static_cast<uint64_t>(i));
  }
  return r;
}

// Lanes at known places that lie near each other: one vector is loaded and its elements are spread.
llvm::Value* Emitter::load_spread(const Place& place, const Lanes& offset) {
  const auto* known = llvm::dyn_cast<llvm::Constant>(widen(offset));
  if (!known) return nullptr;
  llvm::SmallVector<int64_t, 64> at;
  for (unsigned i = 0; i < static_cast<unsigned>(lanes_); ++i) {
    const auto* element = llvm::dyn_cast_or_null<llvm::ConstantInt>(known->getAggregateElement(i));
    if (!element) return nullptr;
    at.push_back(element->getSExtValue());
  }
  const auto [low, high] = std::minmax_element(at.begin(), at.end());
  const int64_t width = lanes_, first = *low / width * width;
  if (*low < 0 || *high >= first + width || first + width > place.elements) return nullptr;
  llvm::SmallVector<int, 64> order;
  for (const int64_t o : at) order.push_back(static_cast<int>(o - first));
  return b_.CreateShuffleVector(load_vector(place, b_.getInt64(static_cast<uint64_t>(first)), nullptr), order);
}

llvm::Value* Emitter::gather(const Place& place, llvm::Value* offsets, llvm::Value* mask) {
  auto* type = llvm::FixedVectorType::get(numbers_.stored(place.dtype), static_cast<unsigned>(lanes_));
  const llvm::Align align(size_of(place.dtype));
  const int64_t bytes = place.elements * static_cast<int64_t>(size_of(place.dtype));
  if (size_of(place.dtype) >= 4 && masks_are_cheap(place.dtype)) {
    if (bytes < int64_t{1} << 31) offsets = b_.CreateTrunc(offsets, like(offsets, b_.getInt32Ty()));
    llvm::Value* live = mask ? mask : llvm::Constant::getAllOnesValue(like(offsets, b_.getInt1Ty()));
    return b_.CreateMaskedGather(type, element(place, offsets), align, live, zeros(type));
  }
  if (mask) offsets = b_.CreateSelect(mask, offsets, zeros(offsets->getType()));
  llvm::Value* r = llvm::PoisonValue::get(type);
  for (unsigned i = 0; i < static_cast<unsigned>(lanes_); ++i) {
    llvm::Value* p = element(place, b_.CreateExtractElement(offsets, i));
    r = b_.CreateInsertElement(r, b_.CreateAlignedLoad(type->getElementType(), p, align), i);
  }
  return r;
}

void Emitter::store(const loop::StmtNode& n) {
  memo_.emplace_back();
  const Place& place = places_[static_cast<size_t>(n.buffer)];
  const Lanes v = value(n.value);
  if (numbers_.computed(place.dtype) != v.v->getType()->getScalarType())
    fail("a store to buffer " + function_.buffers[static_cast<size_t>(n.buffer)].name + " has another type");
  if (!error_ && !accumulate(n, v) && place.elements != 0) {
    const Address at = address(n.buffer, n.indices);
    const bool one_place = at.offset.uniform() && (!at.valid || !at.valid->getType()->isVectorTy());
    if (one_place) {
      store_uniform(n, place, at, v);
    } else {
      llvm::Value* r = widen(v);
      if (n.combiner) {
        llvm::Value* old = numbers_.load_form(b_, place.dtype, load(place, at).v);
        r = arith_.combine(*n.combiner, place.dtype, old, r);
      }
      if (place.flushed) {
        llvm::Type* half = like(r, llvm::Type::getBFloatTy(b_.getContext()));
        store_lanes(place, at, b_.CreateBitCast(b_.CreateFPTrunc(r, half), like(r, b_.getInt16Ty())));
      } else {
        store_lanes(place, at, numbers_.store_form(b_, place.dtype, r));
      }
    }
  }
  memo_.pop_back();
}

// One place for all lanes: one store, of the lanes' combination when there is a combiner.
void Emitter::store_uniform(const loop::StmtNode& n, const Place& place, const Address& at, const Lanes& value) {
  llvm::Type* type = numbers_.stored(place.dtype);
  const llvm::Align align(size_of(place.dtype));
  auto write = [&] {
    llvm::Value* pointer = element(place, at.offset.v);
    llvm::Value* v = value.v;
    if (lanes_ > 1 && n.combiner) {
      v = widen(value);
      if (mask_)
        v = b_.CreateSelect(
            mask_, v, b_.CreateVectorSplat(static_cast<unsigned>(lanes_), arith_.identity(*n.combiner, place.dtype)));
      v = arith_.reduce(*n.combiner, place.dtype, v);
    } else if (!value.uniform()) {
      v = b_.CreateExtractElement(widen(value), uint64_t{0});
    }
    if (n.combiner) {
      llvm::Value* old = numbers_.load_form(b_, place.dtype, b_.CreateAlignedLoad(type, pointer, align));
      v = arith_.combine(*n.combiner, place.dtype, old, v);
    }
    b_.CreateAlignedStore(numbers_.store_form(b_, place.dtype, v), pointer, align);
  };
  llvm::Value* guard = at.valid;
  if (mask_ && !some_live_) guard = guard ? b_.CreateAnd(guard, any(mask_)) : any(mask_);
  if (guard) {
    when(guard, write);
  } else {
    write();
  }
}

void Emitter::store_lanes(const Place& place, const Address& at, llvm::Value* value) {
  llvm::Type* type = numbers_.stored(place.dtype);
  const llvm::Align align(size_of(place.dtype));
  llvm::Value* mask = mask_;
  if (at.valid) {
    llvm::Value* valid =
        at.valid->getType()->isVectorTy() ? at.valid : b_.CreateVectorSplat(static_cast<unsigned>(lanes_), at.valid);
    mask = mask ? b_.CreateAnd(mask, valid) : valid;
  }
  if (!at.offset.vector && at.offset.step == 1) {
    llvm::Value* pointer = element(place, at.offset.v);
    if (mask) {
      b_.CreateMaskedStore(value, pointer, align, mask);
    } else {
      b_.CreateAlignedStore(value, pointer, align);
    }
    return;
  }
  if (mask) {
    b_.CreateMaskedScatter(value, element(place, widen(at.offset)), align, mask);
    return;
  }
  llvm::Value* base = at.offset.vector ? nullptr : element(place, at.offset.v);
  for (unsigned i = 0; i < static_cast<unsigned>(lanes_); ++i) {
    llvm::Value* p = base ? b_.CreateConstGEP1_64(type, base, static_cast<uint64_t>(i * at.offset.step))
                          : element(place, b_.CreateExtractElement(at.offset.v, i));
    b_.CreateAlignedStore(b_.CreateExtractElement(value, i), p, align);
  }
}

}  // namespace isomer::codegen
