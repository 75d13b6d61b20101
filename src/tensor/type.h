// Shape: known rank with a Dim per axis, or of unknown rank. Type: element type and shape of a graph's value.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tensor/dim.h"
#include "tensor/dtype.h"

namespace isomer {

class Shape {
 public:
  Shape() = default;                                        // a scalar
  Shape(std::vector<Dim> dims) : dims_(std::move(dims)) {}  // NOLINT
  Shape(std::initializer_list<Dim> dims) : dims_(dims) {}
  static Shape of(const std::vector<int64_t>& dims) { return Shape(std::vector<Dim>(dims.begin(), dims.end())); }
  static Shape unknown() {
    Shape s;
    s.ranked_ = false;
    return s;
  }

  bool has_rank() const { return ranked_; }
  size_t rank() const { return dims_.size(); }  // only when has_rank()
  const std::vector<Dim>& dims() const { return dims_; }
  const Dim& operator[](size_t i) const { return dims_[i]; }
  bool is_static() const;               // every dim a number
  std::vector<int64_t> values() const;  // only when is_static()
  Dim elements() const;                 // product of the dims
  bool operator==(const Shape&) const = default;
  std::string to_string() const;  // "[N,3,224]", "[]" for a scalar, "[*]" for unknown rank

 private:
  std::vector<Dim> dims_;
  bool ranked_ = true;
};

struct Type {
  DType dtype = DType::F32;
  Shape shape;
  // For DType::Opaque only: how the source file wrote the type, carried for re-export.
  std::shared_ptr<const std::string> foreign;

  bool operator==(const Type& o) const;
  std::string to_string() const;  // "f32[N,3]"
};

}  // namespace isomer
