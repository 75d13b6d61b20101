// ValueStore: contents of tensors over the field, each kept once. A value is found again by what computes it (template
// and operands), so a graph that extends another costs one operator. Reading is safe from many threads while nobody adds.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "propose/kernel.h"
#include "propose/sketch.h"

namespace isomer::propose {

using ValueId = uint32_t;

struct Results {
  std::array<ValueId, 2> ids = {};
};

class ValueStore {
 public:
  explicit ValueStore(KernelTable& kernels) : kernels_(kernels) {}

  KernelTable& kernels() { return kernels_; }
  ValueId add_random(ShapeId shape, uint64_t seed);
  ShapeId shape(ValueId v) const { return values_[v].shape; }
  uint64_t hash(ValueId v) const { return values_[v].hash; }
  size_t size() const { return values_.size(); }
  size_t bytes() const;

  // What is already there for these operands.
  const Results* find(uint32_t op, const ValueId* args, size_t count) const;
  // Hashes of the results without keeping them.
  void evaluate(const Kernel& kernel, const ValueId* args, size_t count, std::vector<uint64_t>& registers,
                uint64_t* hashes) const;
  Results add(uint32_t op, const Kernel& kernel, const ValueId* args, size_t count);

 private:
  struct Value {
    uint64_t hash;
    const uint64_t* data;
    ShapeId shape;
  };
  struct Made {
    uint64_t key = 0;  // 0: free
    Results results = {};
  };
  static uint64_t key(uint32_t op, const ValueId* args, size_t count);
  size_t place(uint64_t key) const;  // of the key, or where it would go
  uint64_t* allocate(size_t words);
  ValueId intern(ShapeId shape, const uint64_t* data, uint64_t hash);
  void load(const ValueId* args, size_t count, const Kernel& kernel, std::vector<uint64_t>& registers) const;

  KernelTable& kernels_;
  std::vector<Value> values_;
  std::unordered_map<uint64_t, ValueId> by_hash_;
  std::vector<Made> made_ = std::vector<Made>(1024);  // a table of twice the entries or more, a power of two
  size_t made_count_ = 0;
  std::vector<std::unique_ptr<uint64_t[]>> blocks_;
  size_t left_ = 0;
  uint64_t* next_ = nullptr;
  std::vector<uint64_t> registers_, result_;
};

// Mixes a word into a hash.
inline uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9E3779B97F4A7C15ULL;
  return h ^ (h >> 29);
}

}  // namespace isomer::propose
