// Schedule: a nest and the steps that made it what it is. Each primitive changes how a nest runs, never what it computes,
// and declines, with the reason, where it cannot show that; a declined step leaves no trace. The steps are a text that
// can be saved, edited and replayed (docs/schedules.md).
//
// Loops are named BLOCK.NAME; the names given to new loops are without the block. In the sketches below a loop is
// written as its variable and `..` is the rest of the nest.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "loop/intrinsics.h"
#include "loop/nest.h"

namespace isomer::loop {

using Names = std::vector<std::string>;

class Schedule {
 public:
  explicit Schedule(Nest nest, std::vector<IntrinsicPtr> intrinsics = {})
      : nest_(std::move(nest)), intrinsics_(std::move(intrinsics)) {}

  const Nest& nest() const { return nest_; }
  std::string text() const;  // one line a step
  // Does one step of the text form.
  Decision apply(std::string_view line);

  Names blocks() const;
  Names loops(std::string_view block) const;    // around the block, outermost first
  int64_t extent(std::string_view loop) const;  // 0: there is no such loop
  // Loops of the block that drive its reduction, or that do not, outermost first.
  Names reduction_loops(std::string_view block) const;
  Names spatial_loops(std::string_view block) const;
  std::string buffer_of(std::string_view block) const;  // the buffer it writes

  // i --> i0 { i1 }, i = i0*factor + i1. A factor that does not divide leaves a guard, which `finish` turns into a shorter
  // last iteration.  `split C.i 8 -> i0 i1`
  Decision split(std::string_view loop, int64_t factor, std::string_view outer, std::string_view inner);
  // a { b } --> a0 { b0 { a1 { b1 } } }: two splits and a reorder.  `tile C.i C.j 8 16 -> i0 j0 i1 j1`
  Decision tile(std::string_view a, std::string_view b, int64_t factor_a, int64_t factor_b, std::string_view a0,
                std::string_view b0, std::string_view a1, std::string_view b1);
  // a { b } --> f, a = f / extent(b), b = f % extent(b). b is all that a holds.  `fuse C.i C.j -> f`
  Decision fuse(std::string_view a, std::string_view b, std::string_view name);
  // a { b { c } } --> c { a { b } }: the loops take each other's places, in the given order from the outermost; between
  // them each loop holds only the next.  `reorder C.k C.i C.j`
  Decision reorder(const Names& loops);
  // for i --> vector i: all iterations at once. Holds blocks only.  `vectorize C.j1`
  Decision vectorize(std::string_view loop);
  // for i --> unroll i: the body repeated.  `unroll C.i1`
  Decision unroll(std::string_view loop);
  // for i --> parallel i: iterations are tasks. At the root.  `parallel C.i0`
  Decision parallel(std::string_view loop);
  // A loop on a named axis of the machine: "task" is parallel, "lane" is vectorize.  `bind C.i task`
  Decision bind(std::string_view loop, std::string_view axis);
  // Leaves a word for whoever reads the nest; nothing changes.  `annotate C.i key value`
  Decision annotate(std::string_view loop, std::string_view key, std::string_view value);

  // P { p }; C { i { c } } --> C { i { P { p, what this i needs }; c } }. All that read p stand under the loop. The
  // loops of P are made anew.  `compute_at P C.i`
  Decision compute_at(std::string_view block, std::string_view loop);
  // P { i { p } }; C { c } --> P { i { p; C { c, what this i completes } } }. Every part of p that the block reads is
  // complete after an iteration.  `reverse_compute_at C P.i`
  Decision reverse_compute_at(std::string_view block, std::string_view loop);
  // P { p = e }; C { c(p) } --> C { c(e) }. No reductions, no outputs.  `compute_inline P`
  Decision compute_inline(std::string_view block);

  // C { c(X) } --> N { n = X }; C { c(n) }: a block that copies, to be placed by compute_at.  `cache_read C X -> N`
  Decision cache_read(std::string_view block, std::string_view buffer, std::string_view name);
  // C { c } --> C { n }; C_out { c = n }: C computes into a buffer of its own, and a block copies it out, to be placed
  // by reverse_compute_at.  `cache_write C -> N`
  Decision cache_write(std::string_view block, std::string_view name);
  // k0 { k1 { c += e } } --> k0 { k1 { n[k1] += e } }; k1' { c += n[k1'] }: partial results along one reduction loop.
  // `rfactor C.k1 -> N`: the new block and its buffer are N.
  Decision rfactor(std::string_view loop, std::string_view name);
  // i { k { c (+)= e } } --> i { c = 0; k { c += e } }: the start of a reduction as a block of its own (C_init) in
  // front of the loop, which no loop of the reduction surrounds.  `decompose_reduction C C.k`
  Decision decompose_reduction(std::string_view block, std::string_view loop);

  // b[k,n] --> b[n/32,k,n%32]: another order of a buffer's axes in memory, blocked or not; extents are rounded up. Each
  // entry is dN, dN/c or dN%c of the old axes.  `transform_layout B -> d1/32 d0 d1%32`
  Decision transform_layout(std::string_view buffer, const Names& entries);
  // i1 { j1 { k { c += a*b } } } --> one tile of an intrinsic that means the same.  `tensorize C.i1 fma_6x16_f32`
  Decision tensorize(std::string_view loop, std::string_view intrinsic);
  // i { .. } --> i { prefetch what the block reads of the buffer first in iteration i+1; .. }.  `prefetch C X C.i`
  Decision prefetch(std::string_view block, std::string_view buffer, std::string_view loop);

 private:
  Decision done(Nest next, std::string line);
  bool free_loop_name(const Nest& nest, std::string_view own, const std::string& full) const;
  bool free_name(std::string_view name) const;  // for a block and its buffer

  Nest nest_;
  std::vector<IntrinsicPtr> intrinsics_;
  Names lines_;
};

// Lines that are empty or start with # are skipped.
Expected<Schedule> replay(Nest nest, std::string_view text, std::vector<IntrinsicPtr> intrinsics = {});

}  // namespace isomer::loop
