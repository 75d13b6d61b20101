// A group of stages as loops over shared rows. The rows are the outer loops; inside one row the stages follow each
// other, values that only the group needs stay in the worker's scratch memory, and vectors run along the axis that lies
// together. rows.cc has the axes and the tasks, rows_stages.cc what stands inside one row.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compile/accesses.h"
#include "compile/finish.h"
#include "compile/kernel.h"

namespace isomer::compile {

class RowsKernel {
 public:
  RowsKernel(const Scene& scene, const Group& group, std::string name) : scene_(scene), group_(group) {
    kernel_.function.name = std::move(name);
  }

  Kernel make();
  // As tasks of a function that deals its rows out in these blocks; nothing where they do not fit.
  std::optional<Kernel> make(const RowBlocks& blocks);

 private:
  struct Inner {
    std::vector<LoopAxis> spatial;  // inside the row, outermost first
    std::vector<LoopAxis> reduce;
    te::Expr body;   // over flat reads; of a reduction: what is combined
    te::Expr where;  // of a reduction; empty: always
    std::optional<te::Combiner> combiner;
    DType dtype = DType::F32;  // of the value
    te::Expr address;          // of the element that is written
    int buffer = -1;
    te::Expr position;  // Arg reductions: row-major over the reduced axes
  };

  int fresh() { return next_var_++; }

  void collect();
  void collect_stage(size_t i);
  std::vector<int> row_order() const;
  bool vectors_along_last_row() const;
  void merge_axes();
  void cut_long_axis();
  void merge(std::vector<LoopAxis>& axes, const std::vector<Inner*>& users);
  loop::Stmt stage_loops(Inner& s);
  loop::Stmt pointwise(Inner& s);
  loop::Stmt reduction(Inner& s);
  loop::Stmt reduce_across(Inner& s);
  loop::Stmt reduce_lanes(Inner& s);
  loop::Stmt arg_reduction(Inner& s);
  loop::Stmt guarded(const Inner& s, loop::Stmt body) const;
  // Loops round `body`, outermost first.
  static loop::Stmt nest(const std::vector<LoopAxis>& axes, loop::Stmt body);
  // An axis cut into blocks of `lanes`, the rest as a shorter one; `body` is given a block's start and length.
  using Block = std::function<loop::Stmt(const te::Expr& start, int64_t count)>;
  loop::Stmt blocks(const LoopAxis& axis, int64_t lanes, const Block& body);
  // A vector loop over one block; `body` is given the position on the axis and the number of the lane.
  using Lanes = std::function<loop::Stmt(const te::Expr& position, const te::Expr& lane)>;
  loop::Stmt vector(const te::Expr& start, int64_t count, const Lanes& body);
  int64_t lanes_of(const Inner& s) const;
  int local(DType t, int64_t elements);
  std::vector<loop::Stmt> all_loops();
  int64_t row_count() const;
  void describe();
  loop::Stmt rows_beside(const std::vector<loop::Stmt>& parts, int64_t beside, const te::Expr& first);
  void in_tasks(const std::vector<loop::Stmt>& parts);
  void in_blocks(const std::vector<loop::Stmt>& parts, const RowBlocks& blocks);
  int64_t rows_at_once(int64_t count) const;
  std::vector<int> own_buffers(size_t first, bool copied);
  double work(const Inner& s) const;

  const Scene& scene_;
  const Group& group_;
  Kernel kernel_;
  int next_var_ = 0;
  std::vector<std::vector<int>> rows_of_stages_;  // as Group::rows, less an axis that is taken for vectors
  std::vector<LoopAxis> rows_;
  std::vector<Inner> stages_;
  // When the only axis was cut into pieces that do not divide it: the last one is shorter.
  struct Cut {
    LoopAxis piece;
    int64_t total;
  };
  std::optional<Cut> cut_;
  std::optional<Accesses> accesses_;
};

}  // namespace isomer::compile
