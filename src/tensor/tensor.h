// Tensor: an immutable dense array on the host, row-major, of a known type and static shape. Copies share the bytes,
// which may be owned memory or a piece of a mapped file; `size() * size_of(dtype())` bytes are always readable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/expected.h"
#include "base/hash.h"
#include "tensor/dtype.h"
#include "tensor/type.h"

namespace isomer {

// No tensor that a model asks for may be larger than this, whatever its shape says (a limit, not a target).
inline constexpr int64_t kMaxTensorBytes = int64_t{1} << 36;

// Number of elements, or a diagnostic when a dim is negative, the product overflows or exceeds kMaxTensorBytes.
Expected<int64_t> checked_elements(DType dtype, const std::vector<int64_t>& dims);

class Tensor {
 public:
  Tensor() : Tensor(DType::F32, {0}) {}
  // Zero-filled. The caller has checked the size (checked_elements).
  Tensor(DType dtype, std::vector<int64_t> dims);
  // Shares `bytes`, kept alive by `owner`.
  Tensor(DType dtype, std::vector<int64_t> dims, const std::byte* bytes, std::shared_ptr<const void> owner);

  template <class T>
  static Tensor of(DType dtype, std::vector<int64_t> dims, const std::vector<T>& values);
  static Tensor ints(const std::vector<int64_t>& values) { return of(DType::I64, {int64_t(values.size())}, values); }
  static Tensor scalar(DType dtype, double value) { return of<double>(dtype, {}, {value}); }
  static Tensor int_scalar(DType dtype, int64_t value) { return of<int64_t>(dtype, {}, {value}); }

  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& dims() const { return dims_; }
  size_t rank() const { return dims_.size(); }
  int64_t size() const { return size_; }
  size_t byte_size() const { return static_cast<size_t>(size_) * size_of(dtype_); }
  Type type() const { return {dtype_, Shape::of(dims_), nullptr}; }
  const std::byte* bytes() const { return bytes_; }
  // Write access, only on a tensor whose bytes this object alone owns (fresh from the first constructor).
  std::byte* mutable_bytes();

  template <class T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(bytes_), static_cast<size_t>(size_)};
  }
  template <class T>
  T* mutable_as() {
    return reinterpret_cast<T*>(mutable_bytes());
  }

  // One element as a number: floats are exact in double; integers and bool keep their bits (U64 as int64 bits).
  double real(int64_t i) const;
  int64_t integer(int64_t i) const;        // floats are truncated and saturate
  void set_real(int64_t i, double v);      // rounds to the element type; integer types truncate and saturate
  void set_integer(int64_t i, int64_t v);  // wraps to the element type

  std::vector<int64_t> to_ints() const;
  std::vector<double> to_reals() const;
  Tensor reshaped(std::vector<int64_t> dims) const;  // same number of elements
  Tensor cast(DType to) const;

  Hash128 content_hash() const;            // over type, shape and bytes; computed once
  bool operator==(const Tensor& o) const;  // same type, shape and bits

 private:
  struct Shared;
  DType dtype_;
  std::vector<int64_t> dims_;
  int64_t size_ = 0;
  const std::byte* bytes_ = nullptr;
  std::shared_ptr<Shared> shared_;
};

template <class T>
Tensor Tensor::of(DType dtype, std::vector<int64_t> dims, const std::vector<T>& values) {
  Tensor t(dtype, std::move(dims));
  for (size_t i = 0; i < values.size(); ++i) {
    if constexpr (std::is_floating_point_v<T>)
      t.set_real(static_cast<int64_t>(i), values[i]);
    else
      t.set_integer(static_cast<int64_t>(i), static_cast<int64_t>(values[i]));
  }
  return t;
}

// Converts a double to an integer type as a cast does: truncates, saturates at the ends of the type, NaN gives 0.
int64_t int_from_real(DType type, double value);
// The number an integer of this type stands for (differs from its bits for U64 only).
double real_from_int(DType type, int64_t bits);

}  // namespace isomer
