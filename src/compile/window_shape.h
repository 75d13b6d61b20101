// What a reduction over windows must look like to be computed by register tiles along one axis (windows.cc), read off its
// expression: every read moves along memory with the channels, by groups of them, or not at all.
#pragma once

#include <optional>
#include <vector>

#include "compile/kernel.h"
#include "loop/affine.h"

namespace isomer::compile {

// Axis ids that no stage uses: the group of a channel, and the channel in its group.
constexpr int kGroupAxis = 1 << 24, kInGroupAxis = kGroupAxis + 1;

struct WindowShape {
  struct Reduced {
    int id;
    int64_t extent;
  };
  // One read of the body: where it lies, as a sum over the axes, in elements.
  struct Source {
    const te::Node* node = nullptr;
    int value = -1;
    DType type = DType::F32;  // or bytes, which the body makes floats of
    Linear at;
    bool packed = false;  // a constant in panels of channels
    bool spread = false;  // channels of one group read the same elements
    int buffer = -1;      // of the kernel
  };

  int channels = -1, along = -1;           // the axis of vectors, and the one that tiles run along
  int64_t c = 0, x = 0;                    // their extents
  int64_t group = 0;                       // channels of a group; 0: there are no groups
  std::vector<te::Axis> outer;             // the other axes above 1, in the order of the result's memory
  std::vector<int> single;                 // axes of extent 1
  std::vector<Reduced> across;             // reduced axes that move with the tile
  std::vector<Reduced> guarded, deep;      // the others: under a guard, or not
  std::vector<loop::Affine> fixed, asked;  // guards of positions along the tile; of other axes
  std::vector<Source> sources;             // in order of first appearance

  int64_t taps() const {
    int64_t n = 1;
    for (const auto* list : {&across, &guarded, &deep})
      for (const Reduced& r : *list) n *= r.extent;
    return n;
  }
};

// A group of one reduction of floats and at most one stage that follows it element by element: the reduction's axes above 1,
// in the order in which the last value stores them. Nothing for any other group.
std::optional<std::vector<te::Axis>> window_axes(const Scene& scene, const Group& group);

std::optional<WindowShape> window_shape(const Scene& scene, const Group& group);

}  // namespace isomer::compile
