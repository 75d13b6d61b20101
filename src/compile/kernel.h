// Kernel: one loop function of a plan and what its arguments are. A scheme turns a group of stages into kernels.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compile/cut.h"
#include "compile/group.h"
#include "compile/rounding.h"
#include "compile/storage.h"
#include "loop/stmt.h"
#include "loop/target.h"

namespace isomer::compile {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }  // of numbers that are not negative

// A constant rearranged when the model is compiled: element (b, p, k, c) of the packed array is
// source[batch[b] + depth[k] + column[p * width + c]], zero where p * width + c is past the last column.
struct Packing {
  std::vector<int64_t> batch, depth, column;  // offsets in elements
  int64_t width = 1;
  // Each float as two BF16, high and low: (b, p, chunk, part, k / 2, c, k % 2) for chunks of so many steps of the depth, an
  // even number; 0: as it is. kNothing in the depth is zeros.
  int64_t split = 0;
  int64_t together = 1;  // (b, p, k / together, c, k % together), the depth filled up with kNothing
  bool narrow = false;   // the upper three bytes of each float, the lowest first
  static constexpr int64_t kNothing = INT64_MIN;

  int64_t panels() const { return (static_cast<int64_t>(column.size()) + width - 1) / width; }
  int64_t elements() const {
    return static_cast<int64_t>(batch.size()) * panels() * width * static_cast<int64_t>(depth.size()) *
           (split > 0 ? 2
            : narrow  ? 3
                      : 1);
  }
  bool operator==(const Packing&) const = default;
};

struct Argument {
  int value = -1;
  std::optional<Packing> packing;  // of a constant that is wanted packed
};

struct Kernel {
  loop::Function function;  // its arguments are flat buffers
  std::vector<Argument> arguments;
  double flops = 0, bytes = 0;
  Rounding rounding;
};

// What a scheme sees of the model.
struct Scene {
  const StageGraph* graph = nullptr;
  const std::vector<Layout>* layouts = nullptr;
  const std::vector<std::vector<int>>* readers = nullptr;  // by value: stages
  loop::Target target;
  // A value that only kernels know: a new number of elements of a type in the arena.
  std::function<int(DType, int64_t)> temporary;
  // A constant that is made when the model is compiled: `fill` writes its elements, in float.
  std::function<int(int64_t elements, const std::function<void(float*)>& fill)> made_constant;

  const ModelStage& stage(int s) const { return graph->stages[static_cast<size_t>(s)]; }
  const StageValue& value(int v) const { return graph->values[static_cast<size_t>(v)]; }
  const Layout& layout(int v) const { return (*layouts)[static_cast<size_t>(v)]; }
  int lanes(DType t) const;  // elements of one machine vector
};

// Any group, as loops over its rows with the stages inside; vectors along what lies together in memory.
Kernel rows_kernel(const Scene& scene, const Group& group, std::string name);

// The same with tasks that others prescribe: `rows` rows for each of `batch`, `block` of them a task, the last one of a batch
// perhaps fewer. Nothing where the group has other rows.
struct RowBlocks {
  int64_t batch = 1, rows = 1, block = 1;
};
std::optional<Kernel> rows_kernel_in_blocks(const Scene& scene, const Group& group, const RowBlocks& blocks);

// What a contraction's left side is made of, as a kernel of its own.
Kernel prologue_kernel(const Scene& scene, const Group& group);

// A reduction over windows whose channels stay apart or in small groups (depthwise and grouped convolutions, pools), by
// register tiles of neighbouring positions. Nothing where it does not apply.
// `totals`, where it is given, names a stage that sums the group's last value over all axes but the channels. Where the
// kernel can, it adds up each line of the result on the way, into a value of its own: [lines, channels].
struct Totals {
  int stage = -1;
  int value = -1;  // the sums of the lines; -1: not done
  int64_t lines = 0, channels = 0;
  int channel = -1;  // the axis of the stage that runs along the channels
};
// Whether window_kernel would take the group, by its shape.
bool goes_by_windows(const Scene& scene, const Group& group);
std::optional<Kernel> window_kernel(const Scene& scene, const Group& group, std::string name, Totals* totals = nullptr);

// The same between values whose positions lie together and whose channels do not (a model's inputs and outputs). Nothing
// where it does not apply.
std::optional<Kernel> plane_kernel(const Scene& scene, const Group& group, std::string name);

// A contraction with its epilogue, by register tiles: rows of the left side as they lie or gathered into scratch, the
// right side in packed panels. Nothing where no intrinsic of the target fits.
std::optional<std::vector<Kernel>> contraction_kernels(const Scene& scene, const Group& group, const std::string& name,
                                                       const Cut& cut = {});

// The same with floats as two BF16 each, by tile registers: some of 17 bits of a product, at several times the speed. Nothing
// where the target has no such registers or it does not pay.
enum class SplitRows : uint8_t {
  WherePays,  // by the model of product_cost.h
  Windows,    // of an image where there is one, also where it does not pay
  Gathered,   // never of an image; nothing where there is none
};
std::optional<std::vector<Kernel>> split_kernels(const Scene& scene, const Group& group, const std::string& name,
                                                 SplitRows rows = SplitRows::WherePays, const Cut& cut = {});

// Other cuts of such a product that are worth a try, by tile registers or by vectors.
std::vector<Cut> product_cuts(const Scene& scene, const Group& group, bool split, SplitRows rows);

// Convolutions with 3x3 taps one apart, by Winograd's minimal filtering: fewer products, other roundings. Nothing where it
// does not apply. `split`: the products on tile registers, floats in two parts.
std::optional<Kernel> winograd_kernel(const Scene& scene, const Group& group, const std::string& name,
                                      const Cut& cut = {}, bool split = false);
// Whether it is expected to pay: over groups of channels transforms weigh more than elsewhere, and windows less.
bool filtering_pays(const Scene& scene, const Group& group);
std::vector<Cut> winograd_cuts(const Scene& scene, const Group& group, bool split = false);

}  // namespace isomer::compile
