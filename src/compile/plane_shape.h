// What a reduction over windows must look like to be computed plane by plane (planes.cc), read off its expression: positions
// lie together in memory, and what is read moves inside of a plane with the taps alone.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "compile/kernel.h"

namespace isomer::compile {

// Where a read stands along one of the two axes of a plane: step * position + sum of by * tap + start + first, where start is
// what taps that move backwards take away at most.
struct Along {
  te::Axis axis;  // of the result
  int64_t size;   // of the plane
  int64_t step, first, start;
  std::vector<std::pair<te::Axis, int64_t>> taps;  // and how far each moves
  int64_t span;                                    // from the first element that is read to the last

  int64_t extent() const { return axis.extent.value(); }
  int64_t points() const {
    int64_t n = 1;
    for (const auto& t : taps) n *= t.first.extent.value();
    return n;
  }
};

struct PlaneShape {
  Along x, y;
  std::vector<te::Axis> outer;  // the other axes above 1 of the result
  int channel = -1;             // that axis among them of which `shared` neighbours read the same planes
  int64_t shared = 1;
  std::vector<te::Axis> deep;  // reduced axes that choose a plane
  int64_t across = 1;          // elements from one place of a line to the next; above 1, planes lie side by side
  const te::Node* read = nullptr;
  te::Expr copied, tap;  // what is made of it alone, and what that is multiplied by: empty for nothing
  bool thin = false;     // a convolution with few outputs, all of which read all planes
  double outside = 0;    // what a place outside of the plane counts as

  int64_t planes() const {
    int64_t n = 1;
    for (const te::Axis& a : deep) n *= a.extent.value();
    return n;
  }
};

std::optional<PlaneShape> plane_shape(const Scene& scene, const Group& group);

}  // namespace isomer::compile
