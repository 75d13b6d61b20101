#include "tensor/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>

#include "base/arithmetic.h"

namespace isomer {

// The bytes and what keeps them alive. The hash is of the bytes alone: reshaped tensors share it.
struct Tensor::Shared {
  std::unique_ptr<std::byte[]> owned;
  std::shared_ptr<const void> owner;
  std::once_flag once;
  std::atomic<bool> hashed{false};
  Hash128 hash;
};

Expected<int64_t> checked_elements(DType dtype, const std::vector<int64_t>& dims) {
  int64_t n = 1;
  bool empty = false;
  for (int64_t d : dims) {
    if (d < 0)
      return Diagnostic("E-tensor-size",
                        fmt::format("expected dimensions of at least 0, found [{}]", fmt::join(dims, ",")));
    empty |= d == 0;
  }
  if (empty) return int64_t{0};
  for (int64_t d : dims) {
    const auto p = checked_mul(n, d);
    if (!p || *p > kMaxTensorBytes / static_cast<int64_t>(std::max<size_t>(1, size_of(dtype))))
      return Diagnostic("E-tensor-size", fmt::format("a tensor {}[{}] is larger than the limit of {} GiB", name(dtype),
                                                     fmt::join(dims, ","), kMaxTensorBytes >> 30));
    n = *p;
  }
  return n;
}

Tensor::Tensor(DType dtype, std::vector<int64_t> dims) : dtype_(dtype), dims_(std::move(dims)) {
  const auto n = checked_elements(dtype_, dims_);
  ISOMER_ASSERT(n.ok(), "tensor size was not checked by the caller");
  size_ = *n;
  shared_ = std::make_shared<Shared>();
  shared_->owned.reset(new std::byte[std::max<size_t>(byte_size(), 1)]());
  bytes_ = shared_->owned.get();
}

Tensor::Tensor(DType dtype, std::vector<int64_t> dims, const std::byte* bytes, std::shared_ptr<const void> owner)
    : dtype_(dtype), dims_(std::move(dims)), bytes_(bytes), shared_(std::make_shared<Shared>()) {
  const auto n = checked_elements(dtype_, dims_);
  ISOMER_ASSERT(n.ok(), "tensor size was not checked by the caller");
  size_ = *n;
  shared_->owner = std::move(owner);
}

std::byte* Tensor::mutable_bytes() {
  ISOMER_ASSERT(shared_->owned && !shared_->hashed, "tensor bytes are shared");
  return shared_->owned.get();
}

namespace {

template <class T>
T load(const std::byte* p, int64_t i) {
  T v;
  std::memcpy(&v, p + static_cast<size_t>(i) * sizeof(T), sizeof(T));
  return v;
}
template <class T>
void store(std::byte* p, int64_t i, T v) {
  std::memcpy(p + static_cast<size_t>(i) * sizeof(T), &v, sizeof(T));
}

}  // namespace

double real_from_int(DType t, int64_t bits) {
  return t == DType::U64 ? static_cast<double>(static_cast<uint64_t>(bits)) : static_cast<double>(bits);
}

int64_t int_from_real(DType t, double v) {
  if (std::isnan(v)) return t == DType::Bool ? 1 : 0;
  if (t == DType::Bool) return v != 0;
  if (t == DType::U64) return v <= 0 ? 0 : v >= 0x1p64 ? -1 : static_cast<int64_t>(static_cast<uint64_t>(v));
  const auto low = static_cast<double>(lowest_int(t)), high = static_cast<double>(highest_int(t));
  if (v <= low) return lowest_int(t);
  if (v >= high) return highest_int(t);
  return static_cast<int64_t>(v);
}

double Tensor::real(int64_t i) const {
  switch (dtype_) {
    case DType::F64: return load<double>(bytes_, i);
    case DType::F32: return load<float>(bytes_, i);
    case DType::F16: return half_to_double(load<uint16_t>(bytes_, i));
    case DType::BF16: return bfloat_to_double(load<uint16_t>(bytes_, i));
    default: return real_from_int(dtype_, integer(i));
  }
}

int64_t Tensor::integer(int64_t i) const {
  switch (dtype_) {
    case DType::I64:
    case DType::U64: return load<int64_t>(bytes_, i);
    case DType::I32: return load<int32_t>(bytes_, i);
    case DType::U32: return load<uint32_t>(bytes_, i);
    case DType::I16: return load<int16_t>(bytes_, i);
    case DType::U16: return load<uint16_t>(bytes_, i);
    case DType::I8: return load<int8_t>(bytes_, i);
    case DType::U8: return load<uint8_t>(bytes_, i);
    case DType::Bool: return load<uint8_t>(bytes_, i) != 0;
    case DType::Opaque: return 0;
    default: return int_from_real(DType::I64, real(i));
  }
}

void Tensor::set_real(int64_t i, double v) {
  std::byte* p = mutable_bytes();
  switch (dtype_) {
    case DType::F64: return store(p, i, v);
    case DType::F32: return store(p, i, static_cast<float>(v));
    case DType::F16: return store(p, i, half_from_double(v));
    case DType::BF16: return store(p, i, bfloat_from_double(v));
    default: return set_integer(i, int_from_real(dtype_, v));
  }
}

void Tensor::set_integer(int64_t i, int64_t v) {
  std::byte* p = mutable_bytes();
  if (is_float(dtype_)) return set_real(i, static_cast<double>(v));
  if (dtype_ == DType::Bool) return store(p, i, static_cast<uint8_t>(v != 0));
  switch (size_of(dtype_)) {
    case 8: return store(p, i, v);
    case 4: return store(p, i, static_cast<uint32_t>(v));
    case 2: return store(p, i, static_cast<uint16_t>(v));
    case 1: return store(p, i, static_cast<uint8_t>(v));
    default: return;
  }
}

std::vector<int64_t> Tensor::to_ints() const {
  std::vector<int64_t> out(static_cast<size_t>(size_));
  for (int64_t i = 0; i < size_; ++i) out[static_cast<size_t>(i)] = integer(i);
  return out;
}

std::vector<double> Tensor::to_reals() const {
  std::vector<double> out(static_cast<size_t>(size_));
  for (int64_t i = 0; i < size_; ++i) out[static_cast<size_t>(i)] = real(i);
  return out;
}

Tensor Tensor::reshaped(std::vector<int64_t> dims) const {
  Tensor t = *this;
  t.dims_ = std::move(dims);
  const auto n = checked_elements(dtype_, t.dims_);
  ISOMER_ASSERT(n.ok() && *n == size_, "reshape keeps the number of elements");
  return t;
}

Tensor Tensor::cast(DType to) const {
  if (to == dtype_) return *this;
  Tensor out(to, dims_);
  const bool through_real = is_float(dtype_) || is_float(to);
  for (int64_t i = 0; i < size_; ++i) through_real ? out.set_real(i, real(i)) : out.set_integer(i, integer(i));
  return out;
}

Hash128 Tensor::content_hash() const {
  std::call_once(shared_->once, [this] {
    shared_->hash = hash_bytes(bytes_, byte_size());
    shared_->hashed = true;
  });
  Hasher h;
  h.add(static_cast<uint64_t>(dtype_)).add(dims_.size());
  for (int64_t d : dims_) h.add(static_cast<uint64_t>(d));
  return h.add(shared_->hash).digest();
}

bool Tensor::operator==(const Tensor& o) const {
  if (dtype_ != o.dtype_ || dims_ != o.dims_) return false;
  return bytes_ == o.bytes_ || std::memcmp(bytes_, o.bytes_, byte_size()) == 0;
}

}  // namespace isomer
