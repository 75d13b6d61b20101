#include "cost/constants.h"

#include <sys/mman.h>

#include <algorithm>

#include "interp/interp.h"

namespace isomer::cost {
namespace {

// Up to so many elements a result is computed: patterns look at its values.
constexpr int64_t kSmallResult = 256;
// Of integers, which may be sizes, up to so many.
constexpr int64_t kSmallIntegers = 1 << 14;
// And only from inputs that do not make it slow.
constexpr int64_t kSmallInput = 1 << 18;

// Memory that costs nothing until it is written: read pages are the system's page of zeros.
std::shared_ptr<std::byte> lazy_zeros(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  return {static_cast<std::byte*>(p), [bytes](std::byte* q) { munmap(q, bytes); }};
}

// Elements that tell hollow tensors apart, that no pass takes for a neutral one, and that are not all alike.
void mark(Tensor& view, const Hash128& hash) {
  const bool real = is_float(view.dtype());
  const int bits = real ? 8 : view.dtype() == DType::Bool ? 1 : 4;
  for (int64_t i = 0; i < std::min<int64_t>(view.size(), 128 / bits); ++i) {
    const uint64_t word = i * bits < 64 ? hash.low : hash.high;
    const uint64_t part = (word >> (i * bits % 64)) & ((uint64_t{1} << bits) - 1);
    if (real)
      view.set_real(i, 2 + static_cast<double>(part) / 256);
    else
      view.set_integer(i, static_cast<int64_t>(part));
  }
}

Hash128 expression_hash(const ir::OpContext& node) {
  Hasher h;
  h.add(node.op().name).add(node.attrs().hash()).add(node.output_count());
  for (size_t i = 0; i < node.input_count(); ++i) {
    const Tensor* t = node.value(i);
    if (t)
      h.add(t->content_hash());
    else
      h.add(uint64_t{0});
  }
  return h.digest();
}

}  // namespace

std::shared_lock<std::shared_mutex> Constants::use() {
  {
    const std::unique_lock alone(users_, std::try_to_lock);
    const std::lock_guard lock(mutex_);
    if (alone.owns_lock() && entries_.size() > capacity_) {
      entries_.clear();
      hollow_.clear();
    }
  }
  return std::shared_lock(users_);
}

bool Constants::is_hollow(const Tensor& tensor) const {
  const std::lock_guard lock(mutex_);
  return hollow(tensor);
}

bool Constants::same(const Entry& entry, const ir::OpContext& node) {
  if (entry.op != node.op().name || !(entry.attrs == node.attrs()) || entry.inputs.size() != node.input_count())
    return false;
  for (size_t i = 0; i < entry.inputs.size(); ++i) {
    const Tensor* t = node.value(i);
    if (entry.inputs[i].has_value() != (t != nullptr)) return false;
    if (t && t->content_hash() != entry.inputs[i]->content_hash()) return false;
  }
  return true;
}

Expected<std::vector<Tensor>> Constants::evaluate(const ir::OpContext& node) {
  const Hash128 hash = expression_hash(node);
  const std::lock_guard lock(mutex_);
  if (const auto it = entries_.find(hash); it != entries_.end()) {
    if (same(it->second, node)) return it->second.results;
    return Diagnostic("E-cost", "two constant expressions have one hash");
  }
  ISOMER_TRY(std::vector<Tensor> results, make(node, hash));
  Entry& entry = entries_[hash];
  entry.op = node.op().name;
  entry.attrs = node.attrs();
  for (size_t i = 0; i < node.input_count(); ++i)
    entry.inputs.push_back(node.value(i) ? std::optional(*node.value(i)) : std::nullopt);
  entry.results = results;
  return results;
}

Expected<std::vector<Tensor>> Constants::make(const ir::OpContext& node, const Hash128& hash) {
  bool from_hollow = false;
  int64_t input = 0;
  for (size_t i = 0; i < node.input_count(); ++i)
    if (const Tensor* t = node.value(i)) {
      from_hollow |= hollow(*t);
      input = std::max(input, t->size());
    }
  const auto types = ir::infer_types(node);
  bool compute = !types.ok();
  if (types.ok())
    for (const Type& t : *types) {
      const bool sized = t.shape.is_static() && t.dtype != DType::Opaque;
      const auto elements =
          sized ? checked_elements(t.dtype, t.shape.values()) : Expected<int64_t>(Diagnostic("E-cost", ""));
      if (!elements.ok() || size_of(t.dtype) == 0)
        compute = true;
      else if (is_float(t.dtype))
        compute |= !from_hollow && *elements <= kSmallResult && input <= kSmallInput;
      else
        compute |= *elements <= kSmallIntegers;
    }
  if (compute) {
    if (from_hollow) return Diagnostic("E-cost", "the values of a constant are wanted that was not computed");
    interp::Options options;
    options.threads = 1;
    return interp::run_node(node, options);
  }
  std::vector<Tensor> results;
  for (size_t k = 0; k < types->size(); ++k) {
    const Type& t = (*types)[k];
    const std::vector<int64_t> dims = t.shape.values();
    const auto elements = checked_elements(t.dtype, dims);
    const auto memory = lazy_zeros(std::max<size_t>(static_cast<size_t>(*elements) * size_of(t.dtype), 1));
    if (!memory) return Diagnostic("E-cost", "there is no address space for a constant");
    Tensor head(t.dtype, {std::min<int64_t>(*elements, 128)});
    mark(head, Hasher().add(hash).add(k).digest());
    std::copy_n(head.bytes(), head.byte_size(), memory.get());
    results.emplace_back(t.dtype, dims, memory.get(), memory);
    hollow_.insert(memory.get());
  }
  return results;
}

}  // namespace isomer::cost
