// Loops in their final form: what a schedule leaves and what a code generator reads. A closed, immutable, shared set of
// statements over te's scalar expressions.
//
// Meaning, on which every reader relies:
// - Buffers are dense, row-major and have numbers as dims. Arguments come first, in the order the caller passes them.
// - Expressions are te::Expr without Reduce and Size: Var is a loop variable of an enclosing For (I64), Read names a
//   buffer with one index per dim. Bodies of floats are computed in float (f64 in f64); F16 and BF16 values are widened
//   to float when read and rounded when stored. Integers wrap to their type. Select and If evaluate one side only.
// - A Read or Store that is evaluated is in range where its indices are made of variables alone. An index that is read
//   from a buffer is checked: out of range makes the function return Status::OutOfRange and touches no memory outside.
//   An integer division by zero makes it return Status::DivisionByZero.
// - A Store with a combiner updates: buffer[i] = combine(buffer[i], value). Without, it overwrites.
// - Iterations of a Parallel or Vector loop do not depend on each other, except through a Store with a combiner whose
//   place is the same for all lanes of a Vector loop (a reduction across lanes, taken in any order).
// - A Parallel loop stands only at the root of a function; its iterations are the function's tasks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/expected.h"
#include "te/expr.h"

namespace isomer::loop {

// Where a buffer lives. Argument: the caller's. Scratch: one worker's own memory for the time of one task, any size.
// Local: small, on the stack or in registers; a code generator keeps it in registers when all its indices are numbers
// after unrolling.
enum class Scope : uint8_t { Argument, Scratch, Local };

struct Buffer {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> dims;
  Scope scope = Scope::Argument;
  bool written = false;  // Argument: false means read only, and then it overlaps no written one
  bool flushed = false;  // BF16: subnormal numbers may be stored as zero

  int64_t elements() const;  // 1 for a scalar
  uint64_t bytes() const;
  bool operator==(const Buffer&) const = default;
};

enum class LoopKind : uint8_t {
  Serial,
  Parallel,  // tasks
  Vector,    // all iterations at once, in one or more machine vectors; the extent is a number below 4096
  Unroll     // the body is repeated; the extent is a number below 4096
};

enum class StmtKind : uint8_t { For, If, Seq, Store, Tile, Prefetch };

class Stmt;
struct Intrinsic;  // loop/intrinsic.h

// One operand of a Tile: the element at `indices` is its origin, and axis a of the intrinsic moves it by strides[a]
// elements.
struct TileOperand {
  int buffer = -1;
  std::vector<te::Expr> indices;
  std::vector<int64_t> strides;  // one per axis of the intrinsic; 0: the operand does not have the axis
};

struct StmtNode {
  StmtKind kind;
  // For: for var in 0 .. extent. `extent` is an expression of outer variables (a tail: min(8, M - 8*i)).
  int var = -1;
  std::string var_name;
  te::Expr extent;
  LoopKind loop = LoopKind::Serial;
  // If
  te::Expr condition;
  // Store, Prefetch
  int buffer = -1;
  std::vector<te::Expr> indices;
  te::Expr value;
  std::optional<te::Combiner> combiner;  // Sum, Product, Max or Min
  // Tile: a tensor intrinsic on sub-boxes of buffers. extents[a] <= the intrinsic's own extent of axis a where the
  // intrinsic takes tails, else equal.
  std::shared_ptr<const Intrinsic> intrinsic;
  std::vector<TileOperand> operands;
  std::vector<te::Expr> extents;
  // What is wanted after the tile, fetched towards the caches while it runs: strides.back() elements for each step of the
  // last axis. It means nothing, and may name places behind the buffer's end.
  std::optional<TileOperand> ahead;
  // For: the body. If: then, and else when there is one. Seq: in order.
  std::vector<Stmt> body;
};

class Stmt {
 public:
  Stmt() = default;  // empty: only to be assigned to
  static Stmt loop(int var, std::string name, te::Expr extent, LoopKind kind, Stmt body);
  static Stmt branch(te::Expr condition, Stmt then, Stmt otherwise = {});
  static Stmt seq(std::vector<Stmt> body);
  static Stmt store(int buffer, std::vector<te::Expr> indices, te::Expr value,
                    std::optional<te::Combiner> combiner = std::nullopt);
  static Stmt tile(std::shared_ptr<const Intrinsic> intrinsic, std::vector<TileOperand> operands,
                   std::vector<te::Expr> extents, std::optional<TileOperand> ahead = std::nullopt);
  static Stmt prefetch(int buffer, std::vector<te::Expr> indices);

  bool empty() const { return node_ == nullptr; }
  const StmtNode* operator->() const { return node_.get(); }
  const StmtNode& operator*() const { return *node_; }

 private:
  explicit Stmt(std::shared_ptr<const StmtNode> node) : node_(std::move(node)) {}
  std::shared_ptr<const StmtNode> node_;
};

// What a function returns; the numbers are part of the kernels' binary interface (runtime/abi.h).
enum class Status : int32_t { Ok = 0, OutOfRange = 1, DivisionByZero = 2 };

// One kernel: tasks that may run at the same time, over buffers.
struct Function {
  std::string name;  // an identifier, unique in its module
  std::vector<Buffer> buffers;
  int arguments = 0;  // how many of them the caller passes
  Stmt body;
  std::vector<std::string> origin;  // the source nodes it came from

  int64_t tasks() const;          // the extent of the Parallel loop at the root, else 1
  int64_t scratch_bytes() const;  // of one worker: each Scratch buffer at a multiple of 64 bytes, in order
};

// Every rule above that can be checked without running: ranks, element types, variables in scope, kinds of loops,
// affine indices in range by interval arithmetic. For tests and for texts read from a file.
Expected<void> verify(const Function& function);

}  // namespace isomer::loop
