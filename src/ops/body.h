// Bodies of control flow: graphs held as attributes whose last inputs are the values captured from outside.
// Invariant: a type that leaves a body speaks of the caller's sizes only; sizes known inside alone become unknown.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/op.h"

namespace isomer::ops {

inline constexpr DTypeSet kCarried = kAllTypes | DType::Opaque;

// Attribute `captures`: how many of the node's last inputs its bodies capture.
ir::AttrDef captures_attr();
Expected<size_t> capture_count(const ir::OpContext& c);
// The values of those inputs, which a run knows.
std::vector<Tensor> captured_values(const ir::OpContext& c, size_t captures);

// A body attribute, checked to take `own` inputs beside the captures and to give at least `results` outputs.
Expected<ir::GraphRef> body_of(const ir::OpContext& c, std::string_view attr, size_t own, size_t captures,
                               size_t results);

// Translates the sizes inside a body to the caller's.
class BodySizes {
 public:
  // Symbols of an inner type stand for the sizes at the same place outside.
  void bind(const Type& inner, const Type& outer);
  // What the captures say.
  void bind_captures(const ir::OpContext& c, const ir::Graph& body, size_t captures);
  Type outside(const Type& inner) const;

 private:
  std::map<std::string, Dim> sizes_;
};

// Body input `inner` can take a value of type `outer`: `what` names it in the diagnostic.
Expected<void> check_passes(const ir::OpContext& c, const std::string& what, const Type& inner, const Type& outer);
// The type of a value that is either of two: what differs is unknown; different element types are a diagnostic.
Expected<Type> join(const ir::OpContext& c, const Type& a, const Type& b);
// `shape` with one more axis.
Shape with_axis(const Shape& shape, size_t axis, const Dim& extent);

// One boolean, whatever the rank it is stored with.
Expected<bool> truth_of(const ir::OpContext& c, const Tensor& t, const std::string& what);
// A single element in the rank that a body input declares.
Tensor single(Tensor value, const Type& declared);
// Follows copies back to where a value comes from.
ir::Value source_of(const ir::Graph& g, ir::Value v, const ir::OpTable& table);

// Collects equal-shaped results of the iterations along a new axis.
class Stacker {
 public:
  Expected<void> push(const ir::OpContext& c, const Tensor& t);
  // All of them, last first when `reversed`; nothing pushed gives an empty tensor of the type's shape.
  Expected<Tensor> stack(const ir::OpContext& c, int64_t axis, bool reversed, const Type& element) const;

 private:
  DType dtype_ = DType::F32;
  std::vector<int64_t> dims_;
  std::vector<std::byte> bytes_;
  int64_t count_ = 0;
};

// Element `index` of a tensor along an axis, without that axis.
Tensor slice_at(const Tensor& t, size_t axis, int64_t index);

}  // namespace isomer::ops
