// Emits items of a nest as statements: bindings are put in, guards become shorter loops where they can, else branches
// as far out as they stay the same, and loops are cut in two where a tail would keep a vector loop from being whole.
#pragma once

#include <utility>
#include <vector>

#include "loop/nest.h"
#include "loop/storage.h"

namespace isomer::loop {

class Emitter {
 public:
  // `buffers[b]` is the function's number of the nest's buffer b. A tile whose operands do not lie as the intrinsic
  // needs them is an error when `strict`, else plain loops.
  Emitter(const Nest& nest, const std::vector<Storage>& storage, const std::vector<int>& buffers, bool strict)
      : storage_(storage), buffers_(buffers), strict_(strict), next_var_(nest.next_var) {}

  Expected<Stmt> run(const std::vector<const Item*>& items);

 private:
  struct Cut {  // a guard that holds for all of a loop's body when `atom` < full
    Affine guard;
    te::Expr atom;
    int64_t full = 0, count = 0;
  };
  using Stmts = std::vector<Stmt>;

  Expected<void> emit(Item item, Stmts& out);
  Expected<void> loop(Item& item, Stmts& out);
  Expected<void> body(const Item& item, Stmts& out);
  Expected<void> block(const Block& b, Stmts& out);
  Expected<void> plain_loop(Item& item, te::Expr extent, LoopKind kind, Stmts& out);
  Expected<void> cut_loop(const Item& item, const Cut& cut, Stmts& out);
  Expected<void> cut_body(const Item& item, Stmts& out);
  Expected<void> tile(const Item& item, const Block& b, Stmts& out);
  Expected<TileOperand> operand(const Block& b, int buffer, const std::vector<te::Expr>& indices,
                                const std::map<int, int64_t>& tile_loops) const;
  const Block* tile_at(const Item& item) const;

  Substitution bind(int var, const te::Expr& value);  // what was known before, to be put back
  te::Expr now(const te::Expr& e) const;
  Affine now(const Affine& a) const;
  te::Expr stored(const te::Expr& e, const Block& b) const;  // reads at their stored places, iterations bound
  std::vector<te::Expr> place(int buffer, const std::vector<te::Expr>& indices, const Block& b) const;
  bool in_scope(const Affine& a) const;
  std::optional<Cut> find_cut(const Item& item) const;
  std::optional<te::Expr> bound_by(const Affine& guard, const Item& item, bool& exact) const;
  // The extent that guards leave of a loop; they are taken out of the item.
  te::Expr tighten(Item& item);

  const std::vector<Storage>& storage_;
  const std::vector<int>& buffers_;
  bool strict_;
  int next_var_;
  Ranges ranges_;
  std::vector<te::Axis> axes_;
  Substitution vars_;
  std::vector<std::pair<te::Expr, te::Expr>> atoms_;  // known values
  std::vector<Affine> uncut_;                         // guards that a branch around leaves open
  std::vector<int> lanes_;                            // variables of vector loops around
  bool root_ = true;
  int cuts_ = 0;  // that are open
};

// Whether every tile of the nest can be written as one, as things stand.
bool tiles_fit(const Nest& nest);

}  // namespace isomer::loop
