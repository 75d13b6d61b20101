// Emitter: writes the code of one function's statements and expressions, scalar or with lanes.
//
// Inside a Vector loop the loop's variable has one value per lane. A value is then one of three: the same in all lanes
// (kept scalar), a ramp (a scalar base and a number as the step from lane to lane: addresses stay scalar and loads
// contiguous), or a vector. `mask_` says which lanes are live: those behind the end of a tail, and those that
// took the other side of a branch, load nothing, store nothing and raise nothing.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "codegen/llvm/arith.h"
#include "codegen/llvm/matrix_tile.h"
#include "codegen/llvm/microkernel.h"
#include "loop/affine.h"
#include "loop/stmt.h"

namespace llvm {
class AllocaInst;
class Function;
}  // namespace llvm

namespace isomer::codegen {

struct Lanes {
  llvm::Value* v = nullptr;  // a scalar, or a vector when `vector`
  bool vector = false;
  int64_t step = 0;  // of a ramp; 0: the same in all lanes

  bool uniform() const { return !vector && step == 0; }
};

// Where a buffer of the function lies.
struct Place {
  llvm::Value* pointer = nullptr;
  DType dtype = DType::F32;      // as it is stored; differs from the buffer's own in wide mode only
  std::vector<int64_t> strides;  // elements
  int64_t elements = 0;
  bool flushed = false;  // BF16 by the machine's own rounding, which takes subnormal numbers as zero
};

class Emitter {
 public:
  Emitter(llvm::IRBuilderBase& builder, const Numbers& numbers, llvm::Module& module, const loop::Target& target,
          const loop::Function& function);

  // The body, at the builder's place. `places` as the function's buffers. Tasks begin <= t < end are run.
  void run(std::vector<Place> places, llvm::AllocaInst* status, llvm::Value* begin, llvm::Value* end);
  const std::optional<std::string>& error() const { return error_; }

 private:
  // Statements (emit_stmt.cc).
  void statement(const loop::Stmt& s);
  void loop_statement(const loop::StmtNode& n);
  void counted(const loop::StmtNode& n, llvm::Value* from, llvm::Value* to, bool runs_once_at_least);
  void unrolled(const loop::StmtNode& n);
  void branch(const loop::StmtNode& n);
  void prefetch(const loop::StmtNode& n);
  void with_mask(llvm::Value* mask, const std::function<void()>& body);

  // Vector loops (emit_vector.cc).
  void vector_loop(const loop::StmtNode& n);
  void full_chunks(const loop::StmtNode& n, int64_t count, int lanes);
  void tail_chunks(const loop::StmtNode& n, int64_t from, int64_t count);
  void chunk(const loop::StmtNode& n, llvm::Value* base, int lanes, int live);
  int lanes_for(const loop::StmtNode& n);
  // A reduction across lanes is kept in vectors while its loops run; several of them, so that additions overlap.
  struct Accumulator {
    std::vector<llvm::AllocaInst*> slots;
    int lanes;
    size_t next = 0;
  };
  std::vector<const loop::StmtNode*> open_accumulators(const loop::StmtNode& loop);
  void close_accumulators(const std::vector<const loop::StmtNode*>& stores);
  bool accumulate(const loop::StmtNode& store, const Lanes& value);

  // Memory (emit_memory.cc).
  struct Address {
    Lanes offset;                  // in elements
    llvm::Value* valid = nullptr;  // lanes (or one bit) whose data-dependent indices are in range; null: all
    bool safe = false;             // in range whatever conditions hold round it
  };
  Address address(int buffer, const std::vector<te::Expr>& indices);
  Lanes read(const te::Node& n);
  Lanes load(const Place& place, const Address& at);
  llvm::Value* load_vector(const Place& place, llvm::Value* base, llvm::Value* mask);
  llvm::Value* load_strided(const Place& place, llvm::Value* base, int64_t step);
  llvm::Value* load_spread(const Place& place, const Lanes& offset);
  llvm::Value* gather(const Place& place, llvm::Value* offsets, llvm::Value* mask);
  void store(const loop::StmtNode& n);
  void store_uniform(const loop::StmtNode& n, const Place& place, const Address& at, const Lanes& value);
  void store_lanes(const Place& place, const Address& at, llvm::Value* value);
  llvm::Value* element(const Place& place, llvm::Value* offset);
  bool masks_are_cheap(DType dtype) const;

  // Expressions (emit_expr.cc).
  Lanes value(const te::Expr& e);
  Lanes compute(const te::Expr& e);
  Lanes unary(const te::Node& n);
  Lanes binary(const te::Node& n);
  Lanes division(const te::Node& n, Lanes x, Lanes y);
  Lanes select(const te::Node& n);
  Lanes select_branching(const te::Node& n, llvm::Value* condition);
  Lanes select_masked(const te::Node& n, llvm::Value* condition);
  Lanes cast(const te::Node& n);
  Lanes add(const Lanes& x, const Lanes& y);
  Lanes times(const Lanes& x, int64_t factor);
  llvm::Value* widen(const Lanes& x);
  llvm::Value* scalar_index(const te::Expr& e);
  bool must_guard(const te::Expr& e);
  bool reads(const te::Expr& e);  // whether it depends on data
  bool safe_read(const te::Node& n);
  bool inside(const te::Expr& e, int64_t low, int64_t end) const;  // low <= e < end, always

  // Branches and marks.
  void when(llvm::Value* condition, const std::function<void()>& body);
  llvm::Value* when_else(llvm::Value* condition, const std::function<llvm::Value*()>& then,
                         const std::function<llvm::Value*()>& otherwise);
  llvm::Value* any(llvm::Value* bits);
  llvm::Value* live(llvm::Value* bits);  // those of `bits` that the mask lets through
  void raise(loop::Status status, llvm::Value* bits);
  llvm::AllocaInst* local(llvm::Type* type, const char* name);
  Lanes fail(std::string why);

  // Tiles (emit_tile.cc).
  // `fresh`: the tile's place would have been cleared just before, and need not be.
  void tile(const loop::StmtNode& n, bool fresh);
  struct TileCall {
    DType dtype;
    Product product;
    bool fresh;
    llvm::Value* pointers[3];
    llvm::Value* depth;
    llvm::Value* ahead = nullptr;
  };
  void tile_calls(const loop::StmtNode& n, TileCall call);
  void tile_body(const loop::StmtNode& n, const TileCall& call, int64_t rows, int64_t columns);
  bool fits_byte_tile(const loop::StmtNode& n) const;
  bool fits_narrow_tile(const loop::StmtNode& n) const;
  bool fits_matrix_tile(const loop::StmtNode& n) const;
  void matrix_tile_call(const loop::StmtNode& n, bool fresh);
  std::optional<Product> tile_product(const loop::StmtNode& n) const;
  void tile_loops(const loop::StmtNode& n, bool fresh);
  llvm::Value* tile_offset(size_t operand);
  void repeat(llvm::Value* count, const std::function<void(llvm::Value*)>& body);
  static bool clears(const loop::StmtNode& loop, const loop::StmtNode& tile);
  std::set<int64_t> values_of(const te::Expr& e, int64_t most);

  llvm::IRBuilderBase& b_;
  const Numbers& numbers_;
  llvm::Module& module_;
  const loop::Target& target_;
  const loop::Function& function_;
  Arith arith_;
  loop::Ranges ranges_;
  std::vector<Place> places_;
  llvm::AllocaInst* status_ = nullptr;
  std::map<int, Lanes> vars_;
  int lanes_ = 1;
  llvm::Value* mask_ = nullptr;
  bool some_live_ = true;  // the mask is known to let a lane through
  bool beyond_ = false;    // the mask hides lanes that are behind the loop's end
  // What has been computed for the statement at hand; the innermost scope last.
  std::vector<std::unordered_map<const void*, Lanes>> memo_;
  std::unordered_map<const void*, bool> reads_;
  std::map<const loop::StmtNode*, Accumulator> accumulators_;
  // Set while the meaning of a tile is written as loops: reads then name its operands, at this point of its axes.
  struct TilePoint {
    const loop::StmtNode* tile;
    std::vector<llvm::Value*> origins;  // offset of each operand
    std::vector<llvm::Value*> at;
  };
  TilePoint* tile_ = nullptr;
  bool matrix_tiles_ = false;  // some tile uses them
  std::optional<std::string> error_;
};

}  // namespace isomer::codegen
