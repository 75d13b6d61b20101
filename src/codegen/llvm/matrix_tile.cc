#include "codegen/llvm/matrix_tile.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>

#include <array>
#include <functional>

#include "codegen/llvm/module.h"

namespace isomer::codegen {
namespace {

namespace id = llvm::Intrinsic;

constexpr int64_t kRowBytes = 64;
// Registers: sums 0 to 3, A in 4 and 5, B in 6 and 7.
constexpr int64_t kA = 4, kB = 6;
constexpr uint32_t kFirstCache = 3, kSecondCache = 2;  // how near a prefetch brings a line

class MatrixTileCode {
 public:
  MatrixTileCode(llvm::Module& module, const MatrixTile& shape) : module_(module), s_(shape), b_(module.getContext()) {}

  llvm::Function* run(const loop::Target& target) {
    llvm::Type* p = llvm::PointerType::getUnqual(module_.getContext());
    auto* type = llvm::FunctionType::get(b_.getVoidTy(), {p, p, p, p, p, p}, false);
    f_ = llvm::Function::Create(type, llvm::Function::InternalLinkage, s_.name(), module_);
    set_attributes(*f_, target);
    f_->addFnAttr(llvm::Attribute::NoInline);
    b_.SetInsertPoint(llvm::BasicBlock::Create(module_.getContext(), "entry", f_));
    sums([&](int64_t reg, llvm::Value* place) {
      if (s_.fresh) {
        b_.CreateIntrinsic(id::x86_tilezero, {}, {number(reg)});
      } else {
        b_.CreateIntrinsic(id::x86_tileloadd64, {}, {number(reg), place, bytes(s_.c_row)});
      }
    });
    depth_loop();
    sums([&](int64_t reg, llvm::Value* place) {
      b_.CreateIntrinsic(id::x86_tilestored64, {}, {number(reg), place, bytes(s_.c_row)});
    });
    b_.CreateRetVoid();
    return f_;
  }

 private:
  llvm::Value* number(int64_t reg) { return b_.getInt8(static_cast<uint8_t>(reg)); }
  llvm::Value* bytes(int64_t n) { return b_.getInt64(static_cast<uint64_t>(n)); }
  llvm::Value* step(llvm::Value* p, int64_t by) {
    return b_.CreateConstGEP1_64(b_.getInt8Ty(), p, static_cast<uint64_t>(by));
  }

  int64_t sum(int64_t row, int64_t column) const { return s_.columns * row + column; }

  template <class Body>
  void sums(Body body) {
    for (int64_t i = 0; i < s_.rows; ++i)
      for (int64_t j = 0; j < s_.columns; ++j)
        body(sum(i, j), step(f_->getArg(4), i * kMatrixSide * s_.c_row + j * kRowBytes));
  }
  void load_a(llvm::Value* from) {
    for (int64_t i = 0; i < s_.rows; ++i)
      b_.CreateIntrinsic(id::x86_tileloadd64, {},
                         {number(kA + i), step(from, i * kMatrixSide * s_.a_row), bytes(s_.a_row)});
  }
  void load_b(llvm::Value* from) {
    for (int64_t j = 0; j < s_.columns; ++j)
      b_.CreateIntrinsic(id::x86_tileloadd64, {}, {number(kB + j), step(from, j * kRowBytes), bytes(s_.b_pair)});
  }
  void multiply() {
    for (int64_t i = 0; i < s_.rows; ++i)
      for (int64_t j = 0; j < s_.columns; ++j)
        b_.CreateIntrinsic(bytes_ ? id::x86_tdpbusd : id::x86_tdpbf16ps, {},
                           {number(sum(i, j)), number(kA + i), number(kB + j)});
  }

  // One step of the depth with more rows of registers than A has: they take turns, and both parts of B stay.
  void tall_step(llvm::Value* a_high, llvm::Value* a_low, llvm::Value* b_high, llvm::Value* b_low) {
    b_.CreateIntrinsic(id::x86_tileloadd64, {}, {number(kB), b_high, bytes(s_.b_pair)});
    b_.CreateIntrinsic(id::x86_tileloadd64, {}, {number(kB + 1), b_low, bytes(s_.b_pair)});
    const auto row = [&](int64_t i, llvm::Value* from, int64_t parts) {
      const int64_t a = kA + i % 2;
      b_.CreateIntrinsic(id::x86_tileloadd64, {}, {number(a), step(from, i * kMatrixSide * s_.a_row), bytes(s_.a_row)});
      for (int64_t part = 0; part < parts; ++part)
        b_.CreateIntrinsic(id::x86_tdpbf16ps, {}, {number(sum(i, 0)), number(a), number(kB + part)});
    };
    for (int64_t i = 0; i < s_.rows; ++i) row(i, a_low, 1);
    for (int64_t i = 0; i < s_.rows; ++i) row(i, a_high, 2);
  }

  using Pointers = std::array<llvm::Value*, 5>;  // of the four operands and of what is fetched ahead

  // `count` times, the pointers moved on each time; what they are behind it.
  Pointers repeat(int64_t count, const Pointers& from, const Pointers& by, const std::function<void(Pointers)>& body) {
    auto* inside = llvm::BasicBlock::Create(module_.getContext(), "depth", f_);
    llvm::BasicBlock* before = b_.GetInsertBlock();
    b_.CreateBr(inside);
    b_.SetInsertPoint(inside);
    auto* i = b_.CreatePHI(b_.getInt64Ty(), 2);
    std::array<llvm::PHINode*, 5> phis{};
    Pointers at{};
    for (size_t n = 0; n < at.size(); ++n) {
      at[n] = phis[n] = b_.CreatePHI(from[n]->getType(), 2);
      phis[n]->addIncoming(from[n], before);
    }
    body(at);
    llvm::BasicBlock* end = b_.GetInsertBlock();
    llvm::Value* next = b_.CreateAdd(i, b_.getInt64(1), "", true, true);
    i->addIncoming(b_.getInt64(0), before);
    i->addIncoming(next, end);
    for (size_t n = 0; n < at.size(); ++n) {
      at[n] = b_.CreateGEP(b_.getInt8Ty(), at[n], by[n]);
      phis[n]->addIncoming(at[n], end);
    }
    auto* done = llvm::BasicBlock::Create(module_.getContext(), "done", f_);
    b_.CreateCondBr(b_.CreateICmpSLT(next, bytes(count)), inside, done);
    b_.SetInsertPoint(done);
    return at;
  }

  void depth_loop() {
    Pointers start{};
    for (unsigned n = 0; n < 4; ++n) start[n] = f_->getArg(n);
    start[4] = f_->getArg(5);
    const auto one = [&](const Pointers& at) {
      if (s_.ahead > 0) fetch(at[4]);
      if (s_.rows > 2) return tall_step(at[0], at[1], at[2], at[3]);
      load_a(at[bytes_ ? 0 : 1]);
      load_b(at[2]);
      if (!bytes_) come_near(at[2], 0, kMatrixSide / 2);
      multiply();
      if (bytes_) return;
      // Low by high, high by high, high by low: one side of each pair stays where it is.
      load_a(at[0]);
      come_near(at[2], kMatrixSide / 2, kMatrixSide);
      come_near(at[3], 0, kMatrixSide / 2);
      multiply();
      load_b(at[3]);
      come_near(at[3], kMatrixSide / 2, kMatrixSide);
      multiply();
    };
    llvm::Value *a = bytes(kRowBytes), *b = bytes(kMatrixSide * s_.b_pair), *next = bytes(s_.ahead);
    const Pointers step = {a, a, b, b, next};
    if (s_.runs == 1) {
      repeat(s_.steps, start, step, one);
      return;
    }
    llvm::Value *a_run = bytes(s_.a_run), *b_run = bytes(s_.b_run);
    repeat(s_.runs, start, {a_run, a_run, b_run, b_run, bytes(s_.ahead * s_.steps)},
           [&](const Pointers& at) { repeat(s_.steps, at, step, one); });
  }

  void fetch(llvm::Value* from) {
    for (int64_t at = 0; at < s_.ahead; at += kRowBytes) prefetch(step(from, at), kSecondCache);
  }
  // Rows of the next step's B into the first cache, a few at a time between products, which leave the loads time.
  void come_near(llvm::Value* b, int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row)
      for (int64_t j = 0; j < s_.columns; ++j)
        prefetch(step(b, (kMatrixSide + row) * s_.b_pair + j * kRowBytes), kFirstCache);
  }
  void prefetch(llvm::Value* p, uint32_t cache) {
    b_.CreateIntrinsic(id::prefetch, {p->getType()}, {p, b_.getInt32(0), b_.getInt32(cache), b_.getInt32(1)});
  }

  llvm::Module& module_;
  const MatrixTile s_;
  const bool bytes_ = s_.numbers == MatrixTile::Numbers::Bytes;
  llvm::IRBuilder<> b_;
  llvm::Function* f_ = nullptr;
};

// What LDTILECFG reads: the kind of tiles, bytes of a row of each (16 bits from byte 16 on), their rows (from byte 48 on).
llvm::GlobalVariable* configuration(llvm::Module& module) {
  constexpr const char* kName = "iso.tiles";
  if (auto* known = module.getGlobalVariable(kName, true)) return known;
  std::array<uint8_t, 64> bytes{};
  bytes[0] = 1;
  for (size_t t = 0; t < 8; ++t) {
    bytes[16 + 2 * t] = kRowBytes;
    bytes[48 + t] = kMatrixSide;
  }
  auto* data = llvm::ConstantDataArray::get(module.getContext(), bytes);
  auto* global =
      new llvm::GlobalVariable(module, data->getType(), true, llvm::GlobalValue::PrivateLinkage, data, kName);
  global->setAlignment(llvm::Align(64));
  return global;
}

}  // namespace

bool has_matrix_tiles(const loop::Target& target, MatrixTile::Numbers numbers) {
  return target.has("amx-tile") && target.has(numbers == MatrixTile::Numbers::Bytes ? "amx-int8" : "amx-bf16");
}

std::string MatrixTile::name() const {
  std::string s = (numbers == Numbers::Bytes ? "iso.bytes." : "iso.matrix.") + std::to_string(rows) + "x" +
                  std::to_string(columns) + (fresh ? "z" : "");
  for (const int64_t n : {a_row, b_pair, c_row, runs, steps, a_run, b_run, ahead}) s += "." + std::to_string(n);
  return s;
}

llvm::Function* matrix_tile(llvm::Module& module, const loop::Target& target, const MatrixTile& shape) {
  if (llvm::Function* f = module.getFunction(shape.name())) return f;
  return MatrixTileCode(module, shape).run(target);
}

void configure_matrix_tiles(llvm::IRBuilderBase& builder, llvm::Module& module) {
  builder.CreateIntrinsic(id::x86_ldtilecfg, {}, {configuration(module)});
}
void release_matrix_tiles(llvm::IRBuilderBase& builder) { builder.CreateIntrinsic(id::x86_tilerelease, {}, {}); }

}  // namespace isomer::codegen
