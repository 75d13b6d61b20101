#include "codegen/llvm/microkernel.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/Module.h>

#include <algorithm>

#include "codegen/llvm/byte_dot.h"
#include "codegen/llvm/carried_loop.h"
#include "codegen/llvm/module.h"

namespace isomer::codegen {
namespace {

constexpr int64_t kNarrowAhead = 1024;  // bytes of each stream

class OuterProduct {
 public:
  OuterProduct(llvm::Module& module, const loop::Target& target, const TileShape& shape)
      : module_(module),
        s_(shape),
        b_(module.getContext()),
        lane_splats_(target.arch == loop::Arch::AArch64),
        four_(byte_dot_of(target, s_.product == Product::DotI8I8, s_.product != Product::DotU8U8, s_.lanes)) {
    scalar_ = s_.dtype == DType::F64 ? b_.getDoubleTy()
              : s_.dtype == DType::F32
                  ? b_.getFloatTy()
                  : static_cast<llvm::Type*>(b_.getIntNTy(static_cast<unsigned>(8 * size_of(s_.dtype))));
    vector_ = s_.lanes > 1 ? llvm::FixedVectorType::get(scalar_, static_cast<unsigned>(s_.lanes)) : scalar_;
    group_ = static_cast<int>(16 / size_of(s_.dtype));
    dot_ = s_.product != Product::MultiplyAdd && s_.product != Product::Narrow;
    narrow_ = s_.product == Product::Narrow;
    unit_ = dot_ ? b_.getInt8Ty() : scalar_;
    right_unit_ = narrow_ ? b_.getInt8Ty() : unit_;
    next_ = dot_ ? 4 : 1;
  }

  llvm::Function* run(const loop::Target& target) {
    llvm::Type* p = llvm::PointerType::getUnqual(module_.getContext());
    llvm::Type* i64 = b_.getInt64Ty();
    auto* type = llvm::FunctionType::get(b_.getVoidTy(), {p, p, p, i64, i64, i64, p}, false);
    f_ = llvm::Function::Create(type, llvm::Function::InternalLinkage, s_.name(), module_);
    set_attributes(*f_, target);
    f_->addFnAttr(llvm::Attribute::NoInline);
    for (unsigned i = 0; i < 3; ++i) {
      f_->addParamAttr(i, llvm::Attribute::NoAlias);
      f_->addParamAttr(i, llvm::Attribute::NoCapture);
    }
    b_.SetInsertPoint(llvm::BasicBlock::Create(module_.getContext(), "entry", f_));
    if (s_.masked) mask_ = live_lanes();
    for (int i = 0; i < s_.rows; ++i)
      for (int j = 0; j < s_.vectors; ++j)
        sums_.push_back(s_.fresh ? llvm::Constant::getNullValue(vector_) : load(vector_, c_place(i, j), masked(j)));
    depth_loop();
    for (int i = 0; i < s_.rows; ++i)
      for (int j = 0; j < s_.vectors; ++j) store(sums_[at(i, j)], c_place(i, j), masked(j));
    b_.CreateRetVoid();
    return f_;
  }

 private:
  size_t at(int i, int j) const { return static_cast<size_t>(i * s_.vectors + j); }
  bool masked(int j) const { return s_.masked && j == s_.vectors - 1; }
  llvm::Align align() const { return llvm::Align(size_of(s_.dtype)); }

  llvm::Value* live_lanes() {
    llvm::SmallVector<llvm::Constant*, 16> numbers;
    for (int i = 0; i < s_.lanes; ++i) numbers.push_back(b_.getInt64(static_cast<uint64_t>(i)));
    llvm::Value* live = b_.CreateVectorSplat(static_cast<unsigned>(s_.lanes), f_->getArg(5));
    return b_.CreateICmpULT(llvm::ConstantVector::get(numbers), live);
  }
  llvm::Value* load(llvm::Type* type, llvm::Value* p, bool with_mask) { return load(type, p, with_mask, align()); }
  llvm::Value* load(llvm::Type* type, llvm::Value* p, bool with_mask, llvm::Align alignment) {
    if (!with_mask) return b_.CreateAlignedLoad(type, p, alignment);
    return b_.CreateMaskedLoad(type, p, alignment, mask_, llvm::Constant::getNullValue(type));
  }
  // Of A and B.
  llvm::Value* fetch(llvm::Type* type, llvm::Value* p, bool with_mask) {
    return load(type, p, with_mask, dot_ ? llvm::Align(1) : align());
  }
  void store(llvm::Value* v, llvm::Value* p, bool with_mask) {
    if (with_mask) {
      b_.CreateMaskedStore(v, p, align(), mask_);
    } else {
      b_.CreateAlignedStore(v, p, align());
    }
  }
  llvm::Value* step(llvm::Value* p, int64_t elements) {  // of A
    return b_.CreateConstGEP1_64(unit_, p, static_cast<uint64_t>(elements));
  }
  llvm::Value* step_right(llvm::Value* p, int64_t elements) {  // of B
    return b_.CreateConstGEP1_64(right_unit_, p, static_cast<uint64_t>(elements));
  }
  llvm::Value* c_place(int i, int j) {
    llvm::Value* row = b_.CreateMul(f_->getArg(3), b_.getInt64(static_cast<uint64_t>(i)));
    llvm::Value* first = b_.CreateGEP(scalar_, f_->getArg(2), row);
    return b_.CreateConstGEP1_64(scalar_, first, static_cast<uint64_t>(int64_t{j} * s_.lanes));
  }
  llvm::Value* splat(llvm::Value* x) {
    return s_.lanes > 1 ? b_.CreateVectorSplat(static_cast<unsigned>(s_.lanes), x) : x;
  }
  llvm::Value* splat_lane(llvm::Value* v, int lane) {
    if (!v->getType()->isVectorTy()) return splat(v);
    if (s_.lanes == 1) return b_.CreateExtractElement(v, static_cast<uint64_t>(lane));
    return b_.CreateShuffleVector(v, llvm::SmallVector<int, 16>(static_cast<size_t>(s_.lanes), lane));
  }
  void multiply(int i, int j, llvm::Value* a, llvm::Value* b) {
    llvm::Value*& sum = sums_[at(i, j)];
    if (dot_) {
      sum = four_.add(b_, sum, a, b);
    } else if (is_float(s_.dtype)) {
      sum = b_.CreateIntrinsic(llvm::Intrinsic::fma, {vector_}, {a, b, sum});
    } else {
      sum = b_.CreateAdd(b_.CreateMul(a, b), sum);
    }
  }

  // A column of A as few values as possible: whole vectors where rows are neighbours and lanes can be splatted for
  // nothing (AArch64), else one broadcast for each row.
  Values load_a(llvm::Value* pa) {
    Values out;
    int i = 0;
    if (lane_splats_ && s_.a_row == next_)
      for (; i + group_ <= s_.rows; i += group_)
        out.push_back(
            fetch(llvm::FixedVectorType::get(scalar_, static_cast<unsigned>(group_)), step(pa, i * next_), false));
    for (; i < s_.rows; ++i) out.push_back(fetch(scalar_, step(pa, i * s_.a_row), false));
    return out;
  }
  llvm::Value* a_of_row(const Values& a, int i) {
    if (!lane_splats_ || s_.a_row != next_) return splat(a[static_cast<size_t>(i)]);
    const int whole = s_.rows / group_ * group_;
    if (i < whole) return splat_lane(a[static_cast<size_t>(i / group_)], i % group_);
    return splat(a[static_cast<size_t>(whole / group_ + i - whole)]);
  }
  llvm::Value* load_b(llvm::Value* pb, int j) {
    if (narrow_) return load_narrow(pb, j);
    return fetch(vector_, step_right(pb, int64_t{j} * s_.lanes * next_), masked(j));
  }

  // A whole vector of bytes, of which three quarters are spread over the lanes. Columns are there for all lanes, live or not.
  llvm::Value* load_narrow(llvm::Value* pb, int j) {
    auto* bytes = llvm::FixedVectorType::get(b_.getInt8Ty(), static_cast<unsigned>(4 * s_.lanes));
    llvm::Value* v = b_.CreateAlignedLoad(bytes, step_right(pb, int64_t{3} * j * s_.lanes), llvm::Align(1));
    llvm::SmallVector<int, 64> from;
    for (int lane = 0; lane < s_.lanes; ++lane)
      for (int byte = 0; byte < 4; ++byte) from.push_back(byte == 0 ? 4 * s_.lanes : 3 * lane + byte - 1);
    return b_.CreateBitCast(b_.CreateShuffleVector(v, llvm::Constant::getNullValue(bytes), from), vector_);
  }

  void depth_loop() {
    // Four neighbours along k in one load, where that is how A lies and lanes can be splatted for nothing.
    if (lane_splats_ && s_.a_depth == next_ && s_.a_row != next_) {
      grouped_loop();
    } else if (lane_splats_ && s_.rows * s_.vectors >= 16) {
      pipelined_loop();
    } else if (streams() > 1) {
      streamed_loop();
    } else {
      plain_loop(f_->getArg(0), f_->getArg(1), f_->getArg(4));
    }
  }

  // Few sums wait for each other, and one stream of a right side that comes from far waits at every page.
  int streams() const {
    if (lane_splats_ || s_.ahead > 0 || s_.lanes == 1) return 1;
    const int most = s_.lanes >= 16 ? 16 : 8, sums = s_.rows * s_.vectors;
    return 4 * sums <= most ? 4 : 2 * sums <= most ? 2 : 1;
  }

  // The depth in parts of the same length, side by side, each with its own sums.
  void streamed_loop() {
    const auto parts = static_cast<uint64_t>(streams());
    llvm::Value *pa = f_->getArg(0), *pb = f_->getArg(1), *depth = f_->getArg(4);
    llvm::Value* each = b_.CreateUDiv(depth, b_.getInt64(parts));
    const auto behind = [&](llvm::Type* unit, llvm::Value* p, int64_t by, llvm::Value* count) {
      return b_.CreateGEP(unit, p, b_.CreateMul(count, b_.getInt64(static_cast<uint64_t>(by))));
    };
    Values offsets;
    for (uint64_t n = 0; n < parts; ++n) offsets.push_back(b_.CreateMul(each, b_.getInt64(n)));
    Values sums = sums_;
    sums.resize(parts * sums_.size(), llvm::Constant::getNullValue(vector_));
    const auto [qa, qb] = loop(pa, pb, each, 1, sums, [&](llvm::Value* a0, llvm::Value* b0) {
      for (uint64_t n = 0; n < parts; ++n) {
        const auto first = sums.begin() + static_cast<long>(n * sums_.size());
        std::copy_n(first, sums_.size(), sums_.begin());
        llvm::Value* pn = behind(right_unit_, b0, s_.b_depth, offsets[n]);
        for (int64_t at = 0; narrow_ && at < s_.b_depth; at += 64) prefetch(step_right(pn, kNarrowAhead + at), 3);
        products_of(behind(unit_, a0, s_.a_depth, offsets[n]), pn);
        std::copy(sums_.begin(), sums_.end(), first);
      }
    });
    for (size_t i = 0; i < sums_.size(); ++i) {
      sums_[i] = sums[i];
      for (uint64_t n = 1; n < parts; ++n) {
        llvm::Value* other = sums[n * sums_.size() + i];
        sums_[i] = is_float(s_.dtype) ? b_.CreateFAdd(sums_[i], other) : b_.CreateAdd(sums_[i], other);
      }
    }
    llvm::Value* rest = b_.CreateMul(each, b_.getInt64(parts - 1));
    plain_loop(behind(unit_, qa, s_.a_depth, rest), behind(right_unit_, qb, s_.b_depth, rest),
               b_.CreateURem(depth, b_.getInt64(parts)));
  }

  void prefetch(llvm::Value* p, uint32_t locality) {
    b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {p->getType()},
                       {p, b_.getInt32(0), b_.getInt32(locality), b_.getInt32(1)});
  }

  // A loop over `count` iterations of `depth` steps of k, if any; `body` gets the pointers of the iteration and moves the
  // sums on. The pointers behind it.
  std::pair<llvm::Value*, llvm::Value*> loop(llvm::Value* pa, llvm::Value* pb, llvm::Value* count, int64_t depth,
                                             Values& carried,
                                             const std::function<void(llvm::Value*, llvm::Value*)>& body) {
    const size_t sums = carried.size();
    carried.insert(carried.end(), {pa, pb});
    count_down(b_, count, carried, [&](llvm::Value* left) {
      llvm::Value *qa = carried[sums], *qb = carried[sums + 1];
      carried.resize(sums);
      if (s_.ahead > 0) fetch_ahead(b_.CreateSub(count, left), depth);
      body(qa, qb);
      llvm::Value* next_a = step(qa, depth * s_.a_depth);
      carried.insert(carried.end(), {next_a, step_right(qb, depth * s_.b_depth)});
    });
    const std::pair ends(carried[sums], carried[sums + 1]);
    carried.resize(sums);
    return ends;
  }

  // B streams from a farther cache, which the machine's own prefetcher does not follow across pages.
  void prefetch_b(llvm::Value* qb) {
    if (lane_splats_ && s_.rows < 4) return;  // as fast as memory gives already
    const auto bytes = static_cast<int64_t>(dot_ || narrow_ ? 1 : size_of(s_.dtype));
    const int64_t width = int64_t{s_.lanes} * s_.vectors * (narrow_ ? 3 : next_), line = 64 / bytes;
    const int64_t ahead = std::clamp<int64_t>(3072 / (width * bytes), 8, 48);
    const uint32_t locality = lane_splats_ ? 2 : 3;
    for (int64_t at = 0; at < width; at += line) prefetch(step_right(qb, ahead * s_.b_depth + at), locality);
  }

  // The lines that `depth` steps of k have to fetch of what is wanted next.
  void fetch_ahead(llvm::Value* iteration, int64_t depth) {
    const int64_t bytes = s_.ahead * depth;
    llvm::Value* offset = b_.CreateMul(iteration, b_.getInt64(static_cast<uint64_t>(bytes)));
    llvm::Value* first = b_.CreateGEP(b_.getInt8Ty(), f_->getArg(6), offset);
    for (int64_t at = 0; at < bytes; at += 64)
      prefetch(b_.CreateConstGEP1_64(b_.getInt8Ty(), first, static_cast<uint64_t>(at)), 2);
  }

  void plain_loop(llvm::Value* pa, llvm::Value* pb, llvm::Value* count) {
    loop(pa, pb, count, 1, sums_, [&](llvm::Value* qa, llvm::Value* qb) {
      prefetch_b(qb);
      products_of(qa, qb);
    });
  }

  // One step of the depth.
  void products_of(llvm::Value* qa, llvm::Value* qb) {
    Values b;
    for (int j = 0; j < s_.vectors; ++j) b.push_back(load_b(qb, j));
    const Values a = load_a(qa);
    for (int i = 0; i < s_.rows; ++i) {
      llvm::Value* x = a_of_row(a, i);
      for (int j = 0; j < s_.vectors; ++j) multiply(i, j, x, b[static_cast<size_t>(j)]);
    }
  }

  // The operands of one k are loaded between the products of the one before it; in-order dispatch of four instructions
  // then never waits for loads that stand together. The last k is done apart, so that nothing behind the end is read.
  void pipelined_loop() {
    when_some(b_, f_->getArg(4), sums_, [&] {
      Values operands = load_a(f_->getArg(0));
      const size_t a_count = operands.size();
      for (int j = 0; j < s_.vectors; ++j) operands.push_back(load_b(f_->getArg(1), j));
      Values carried = sums_;
      carried.insert(carried.end(), operands.begin(), operands.end());
      auto products = [&](llvm::Value* qa, llvm::Value* qb) {
        sums_.assign(carried.begin(), carried.begin() + static_cast<long>(sums_.size()));
        const Values a(carried.begin() + static_cast<long>(sums_.size()),
                       carried.begin() + static_cast<long>(sums_.size() + a_count));
        for (int j = 0; j < s_.vectors; ++j) {
          llvm::Value*& b = carried[sums_.size() + a_count + static_cast<size_t>(j)];
          for (int i = 0; i < s_.rows; ++i) multiply(i, j, a_of_row(a, i), b);
          if (qb) b = load_b(step_right(qb, s_.b_depth), j);
        }
        if (qb) prefetch_b(qb);
        if (qa)
          std::copy_n(load_a(step(qa, s_.a_depth)).begin(), a_count, carried.begin() + static_cast<long>(sums_.size()));
        std::copy(sums_.begin(), sums_.end(), carried.begin());
      };
      loop(f_->getArg(0), f_->getArg(1), b_.CreateSub(f_->getArg(4), b_.getInt64(1)), 1, carried, products);
      products(nullptr, nullptr);
    });
  }

  // Rows as they lie: a vector of each row holds the next four k. Where there are products enough to hide it, whatever is
  // read for the next k, or of the next four, is loaded behind the last product that needs the register. The last four are
  // done apart, so that nothing behind the end is read.
  void grouped_loop() {
    const auto depth = static_cast<uint64_t>(group_);
    llvm::Value* groups = b_.CreateSDiv(f_->getArg(4), b_.getInt64(depth));
    if (s_.rows * s_.vectors >= 16) {
      pipelined_groups(groups);
    } else {
      plain_groups(groups);
    }
    llvm::Value* done = b_.CreateMul(groups, b_.getInt64(depth));
    llvm::Value* pa =
        b_.CreateGEP(unit_, f_->getArg(0), b_.CreateMul(done, b_.getInt64(static_cast<uint64_t>(s_.a_depth))));
    llvm::Value* pb =
        b_.CreateGEP(right_unit_, f_->getArg(1), b_.CreateMul(done, b_.getInt64(static_cast<uint64_t>(s_.b_depth))));
    plain_loop(pa, pb, b_.CreateSRem(f_->getArg(4), b_.getInt64(depth)));
  }

  llvm::Value* load_group(llvm::Value* pa, int row) {
    return fetch(llvm::FixedVectorType::get(scalar_, static_cast<unsigned>(group_)), step(pa, row * s_.a_row), false);
  }

  void plain_groups(llvm::Value* groups) {
    loop(f_->getArg(0), f_->getArg(1), groups, group_, sums_, [&](llvm::Value* qa, llvm::Value* qb) {
      Values a;
      for (int i = 0; i < s_.rows; ++i) a.push_back(load_group(qa, i));
      for (int k = 0; k < group_; ++k) {
        Values b;
        for (int j = 0; j < s_.vectors; ++j) b.push_back(load_b(step_right(qb, k * s_.b_depth), j));
        for (int i = 0; i < s_.rows; ++i) {
          llvm::Value* x = splat_lane(a[static_cast<size_t>(i)], k);
          for (int j = 0; j < s_.vectors; ++j) multiply(i, j, x, b[static_cast<size_t>(j)]);
        }
      }
    });
  }

  void pipelined_groups(llvm::Value* groups) {
    const size_t count = sums_.size(), rows = static_cast<size_t>(s_.rows);
    when_some(b_, groups, sums_, [&] {
      Values carried = sums_;
      for (int i = 0; i < s_.rows; ++i) carried.push_back(load_group(f_->getArg(0), i));
      for (int j = 0; j < s_.vectors; ++j) carried.push_back(load_b(f_->getArg(1), j));
      auto products = [&](llvm::Value* qa, llvm::Value* qb, bool more) {
        std::copy_n(carried.begin(), count, sums_.begin());
        for (int k = 0; k < group_; ++k)
          for (int j = 0; j < s_.vectors; ++j) {
            llvm::Value*& b = carried[count + rows + static_cast<size_t>(j)];
            for (int i = 0; i < s_.rows; ++i) {
              llvm::Value*& a = carried[count + static_cast<size_t>(i)];
              multiply(i, j, splat_lane(a, k), b);
              if (more && k == group_ - 1 && j == s_.vectors - 1) a = load_group(step(qa, group_ * next_), i);
            }
            if (more || k < group_ - 1) b = load_b(step_right(qb, (k + 1) * s_.b_depth), j);
          }
        std::copy_n(sums_.begin(), count, carried.begin());
      };
      const auto [pa, pb] = loop(f_->getArg(0), f_->getArg(1), b_.CreateSub(groups, b_.getInt64(1)), group_, carried,
                                 [&](llvm::Value* qa, llvm::Value* qb) { products(qa, qb, true); });
      products(pa, pb, false);
    });
  }

  llvm::Module& module_;
  const TileShape s_;
  llvm::IRBuilder<> b_;
  const bool lane_splats_;
  const ByteDot four_;  // of bytes
  bool dot_ = false, narrow_ = false;
  llvm::Type* unit_;        // of the steps of A,
  llvm::Type* right_unit_;  // and of B
  int64_t next_;            // units of what fills one lane: a number, or four bytes
  llvm::Type* scalar_;
  llvm::Type* vector_;
  int group_;
  llvm::Function* f_ = nullptr;
  llvm::Value* mask_ = nullptr;
  Values sums_;
};

}  // namespace

std::string TileShape::name() const {
  std::string s = "iso.tile." + std::to_string(rows) + "x" + std::to_string(vectors) + "x" + std::to_string(lanes);
  s += std::string(masked ? "m" : "") + (fresh ? "z." : ".");
  s += std::string(isomer::name(dtype)) + "." + std::to_string(static_cast<int>(product));
  for (const int64_t n : {a_row, a_depth, b_depth, ahead}) s += "." + std::to_string(n);
  return s;
}

llvm::Function* outer_product(llvm::Module& module, const loop::Target& target, const TileShape& shape) {
  if (llvm::Function* f = module.getFunction(shape.name())) return f;
  return OuterProduct(module, target, shape).run(target);
}

}  // namespace isomer::codegen
