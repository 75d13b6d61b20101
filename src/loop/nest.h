// Nest: loops in the form that schedules work on: a tree of loops with blocks as leaves. A block says what it computes
// over its own iteration variables, and only its bindings say how the loops around it drive them; so loops can be split,
// fused and moved without reading what a block computes.
//
// Invariants:
// - Iterations of the loops around a block, where its guards hold, give every point of its iteration space exactly once
//   (a block that was moved under a consumer: every point that is needed there, at least once).
// - In program order a buffer is written before it is read. Buffers have their whole logical size; `finish` stores no
//   more of an intermediate than one iteration of the loop that holds all its uses needs.
// - Names of blocks, of buffers and of loops are unique; a loop's name starts with that of the block it was made for.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loop/affine.h"
#include "loop/intrinsic.h"
#include "loop/stmt.h"
#include "te/program.h"

namespace isomer::loop {

struct Loop {
  int var = -1;
  std::string name;  // "C.i"
  int64_t extent = 1;
  LoopKind kind = LoopKind::Serial;
  std::map<std::string, std::string> notes;  // annotate
};

struct IterVar {
  te::Axis axis;  // the extent is a number
  bool reduce = false;
  te::Expr binding;  // of loop variables
};

// How a tensorized block maps to its intrinsic.
struct TilePlan {
  std::shared_ptr<const Intrinsic> intrinsic;
  int root = -1;                       // the outermost loop that the tile takes in
  std::vector<std::vector<int>> axes;  // loop variables of each axis of the intrinsic, outermost first
  std::vector<te::Expr> operands;      // the reads of the block's value, in the order of the intrinsic's inputs
};

struct Block {
  std::string name;
  std::vector<IterVar> iters;
  std::vector<Affine> guards;            // over loop variables, all >= 0 where the block runs
  te::Expr where;                        // over iteration variables; of a reduction: the points that count. Empty: all
  int buffer = -1;                       // what it writes
  std::vector<te::Expr> indices;         // over iteration variables
  te::Expr value;                        // over iteration variables; reads name buffers of the nest
  std::optional<te::Combiner> combiner;  // a reduction: Sum, Product, Max or Min
  bool init = false;                     // a reduction that still has to store its identity first
  std::optional<TilePlan> tile;
  bool prefetch = false;  // reads nothing and writes nothing: brings buffer[indices] near

  bool reduces() const { return combiner.has_value(); }
};

// A loop with a body, or a block.
struct Item {
  std::optional<Block> block;
  Loop loop;
  std::vector<Item> body;

  bool is_loop() const { return !block.has_value(); }
};

struct Nest {
  std::vector<Buffer> buffers;  // inputs, outputs, then intermediates
  int inputs = 0, outputs = 0;
  std::vector<Item> roots;
  int next_var = 0;

  int argument_count() const { return inputs + outputs; }
  int buffer(std::string_view name) const;  // -1: none
};

// Where an item stands: positions from the roots down.
using Path = std::vector<size_t>;
std::optional<Path> find_block(const Nest& nest, std::string_view name);
std::optional<Path> find_loop(const Nest& nest, std::string_view name);
Item& item_at(Nest& nest, const Path& path);
const Item& item_at(const Nest& nest, const Path& path);
// The items that `path` stands among.
std::vector<Item>& siblings(Nest& nest, const Path& path);
// Loops around the item at `path`, outermost first; the item itself is not one of them.
std::vector<const Loop*> loops_around(const Nest& nest, const Path& path);

template <class F>
void each_block(const Item& item, F visit) {
  if (item.block) return visit(*item.block);
  for (const Item& i : item.body) each_block(i, visit);
}
template <class F>
void each_block(Item& item, F visit) {
  if (item.block) return visit(*item.block);
  for (Item& i : item.body) each_block(i, visit);
}
template <class F>
void each_block(const Nest& nest, F visit) {
  for (const Item& i : nest.roots) each_block(i, visit);
}
template <class F>
void each_block(Nest& nest, F visit) {
  for (Item& i : nest.roots) each_block(i, visit);
}
// Every read of a buffer in an expression, once per node.
void each_read(const te::Expr& e, const std::function<void(const te::Node&)>& visit);
bool reads(const Block& block, int buffer);

te::Expr var_expr(const Loop& loop);
Item in_loops(Block block, std::vector<Loop> loops);  // the block inside the loops, outermost first
Substitution bindings_of(const Block& block);         // iteration variable -> binding
std::vector<int> reduce_loops(const Block& block);    // variables in bindings of reduce iterations
std::vector<int> spatial_loops(const Block& block);
te::Expr identity_of(te::Combiner combiner, DType dtype);
Affine substitute(const Affine& a, const Substitution& variables);
// Substitutes loop variables in the bindings and guards of all blocks below.
void substitute_loops(Item& item, const Substitution& variables);

// Puts a block that stores the identity in front of the item at the first `depth` steps of `block`, with copies of the
// spatial loops from there on.
void decompose(Nest& nest, const Path& block, size_t depth);

// The nest of a program whose extents are numbers: one block a stage, in order. Reductions inside of expressions
// become stages of their own, which are computed only where the expression would have been; positions of extrema
// become a reduction of values and one of positions; sums of 16-bit floats are taken in f32.
Expected<Nest> nest_of(const te::Program& program);

// A kernel and the buffers of the nest that its arguments are, in order.
struct Kernel {
  Function function;
  std::vector<int> arguments;
};

// The whole nest as one function: inputs and outputs are its arguments. Several items at the root run one after the
// other, so none of them may be parallel.
Expected<Function> finish(const Nest& nest, std::string name);
// One function for each item at the root; intermediates that more than one of them uses are arguments.
Expected<std::vector<Kernel>> finish_all(const Nest& nest, const std::string& name);

std::string print(const Nest& nest);

}  // namespace isomer::loop
