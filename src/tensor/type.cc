#include "tensor/type.h"

#include <algorithm>

namespace isomer {

bool Shape::is_static() const {
  return ranked_ && std::all_of(dims_.begin(), dims_.end(), [](const Dim& d) { return d.is_const(); });
}

std::vector<int64_t> Shape::values() const {
  std::vector<int64_t> out;
  for (const Dim& d : dims_) out.push_back(d.value());
  return out;
}

Dim Shape::elements() const {
  Dim n(1);
  for (const Dim& d : dims_) n = n * d;
  return n;
}

std::string Shape::to_string() const {
  if (!ranked_) return "[*]";
  std::string out = "[";
  for (size_t i = 0; i < dims_.size(); ++i) out += (i ? "," : "") + dims_[i].to_string();
  return out + "]";
}

bool Type::operator==(const Type& o) const {
  if (dtype != o.dtype || shape != o.shape) return false;
  if (foreign == o.foreign) return true;
  return foreign && o.foreign && *foreign == *o.foreign;
}

std::string Type::to_string() const { return std::string(name(dtype)) + shape.to_string(); }

}  // namespace isomer
