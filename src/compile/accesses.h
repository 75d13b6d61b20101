// Reads and writes of values as positions in flat buffers of a kernel, and the loop axes that run along them.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compile/kernel.h"
#include "te/substitute.h"

namespace isomer::compile {

struct LoopAxis {
  int var = -1;
  std::string name;
  int64_t extent = 1;

  te::Axis axis() const { return {var, name, Dim(extent)}; }
  te::Expr expr() const { return te::Expr(axis()); }
};

// The buffers of one kernel. A value that only the kernel's own group reads is scratch, of the part inside one row; every
// other one is an argument. A value that is read at positions found in data keeps its dims, so that each index is checked.
class Accesses {
 public:
  // `rows` as in Group, for each stage the axes that are not inside.
  Accesses(const Scene& scene, const Group& group, const std::vector<std::vector<int>>& rows, Kernel& kernel);

  // The expression with reads of values turned into reads of buffers. `scope` are the loop axes round it.
  te::Expr flat(const te::Expr& e, const std::vector<te::Axis>& scope);
  // From now on constants are stored so that they run along memory with this loop variable.
  void along(int var) { along_ = var; }
  // From now on reads of `value` are reads of this buffer at this position.
  void pin(int value, int buffer, te::Expr position);
  // The buffer and position of the element of `value` at these indices, one per dim.
  std::pair<int, te::Expr> write(int value, const std::vector<te::Expr>& at, const std::vector<te::Axis>& scope);

 private:
  struct Place {
    int buffer = -1;
    std::vector<int64_t> strides;  // by dim of the value; 0 for a dim that is a row of scratch
    std::vector<int> order;        // when the buffer keeps its dims
  };
  const Place& place(int value, bool written, const std::vector<te::Expr>& at);
  std::optional<Packing> turned(int value, const std::vector<te::Expr>& at, Place& p) const;
  std::vector<te::Expr> position(const Place& p, const std::vector<te::Expr>& at, const std::vector<te::Axis>& scope);

  const Scene& scene_;
  Kernel& kernel_;
  std::map<int, std::vector<int64_t>> scratch_;  // value -> extents inside the row by dim, 0 where it is a row
  std::set<int> checked_;                        // values read at positions found in data
  std::map<int, Place> places_;
  std::map<int, std::pair<int, te::Expr>> pinned_;
  int along_ = -1;
};

// The step in memory of the largest read in `e` when the axis moves by one; nothing when it is no linear position.
std::optional<int64_t> stride_of_main_read(const te::Expr& e, int var, const loop::Function& function);

// Whether every position in `e` moves with the two axes as with one axis of both extents, and nothing else sees them.
bool run_together(const te::Expr& e, const LoopAxis& outer, const LoopAxis& inner);
bool index_runs_together(const te::Expr& index, const LoopAxis& outer, const LoopAxis& inner);
// Joins neighbours among `axes` (outermost first) wherever everything runs together with them, and rewrites the
// expressions: `bodies` with reads in them, `indices` that are positions themselves. Empty expressions are skipped.
void join_axes(std::vector<LoopAxis>& axes, const std::vector<te::Expr*>& bodies, const std::vector<te::Expr*>& indices,
               int& next_var);
// Gives each axis its part of a position that counts through all of them, row-major.
void unflatten_into(te::Substitution& names, const std::vector<LoopAxis>& axes, te::Expr position);

loop::Stmt substitute(const loop::Stmt& s, te::Substitution& names);
// The statement on other buffers: `number` gives the new number of each.
loop::Stmt on_buffers(const loop::Stmt& s, const std::vector<int>& number);

// The same, and places in them: what the index, or the step of a tile's operand, is in a buffer of the new number.
struct Places {
  std::function<te::Expr(int buffer, const te::Expr& index)> index;
  std::function<int64_t(int buffer, int64_t stride)> stride;
};
loop::Stmt moved(const loop::Stmt& s, const std::vector<int>& number, const Places& places);

// Statements that name buffers by these new numbers; the list of buffers is the caller's.
void renumber_buffers(loop::Function& function, const std::vector<int>& number);

// Brings the buffers into the order that a function must have, arguments before the rest, and renumbers its statements.
void arguments_first(loop::Function& function);

}  // namespace isomer::compile
