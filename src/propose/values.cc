#include "propose/values.h"

#include <cstring>

#include "base/random.h"
#include "te/field_domain.h"

namespace isomer::propose {
namespace {

constexpr size_t kBlockWords = size_t{1} << 17;

}  // namespace

uint64_t* ValueStore::allocate(size_t words) {
  if (words > left_) {
    blocks_.push_back(std::make_unique<uint64_t[]>(kBlockWords));
    next_ = blocks_.back().get();
    left_ = kBlockWords;
  }
  uint64_t* at = next_;
  next_ += words;
  left_ -= words;
  return at;
}

size_t ValueStore::bytes() const {
  return blocks_.size() * kBlockWords * 8 + values_.size() * (sizeof(Value) + 32) + made_.size() * sizeof(Made);
}

ValueId ValueStore::intern(ShapeId shape, const uint64_t* data, uint64_t hash) {
  const auto [it, fresh] = by_hash_.try_emplace(hash, static_cast<ValueId>(values_.size()));
  if (!fresh) return it->second;
  const size_t words = kernels_.info(shape).elements * Tape::kLanes;
  uint64_t* kept = allocate(words);
  std::memcpy(kept, data, words * 8);
  values_.push_back({hash, kept, shape});
  return it->second;
}

ValueId ValueStore::add_random(ShapeId shape, uint64_t seed) {
  Random random(seed);
  const ShapeInfo& s = kernels_.info(shape);
  std::vector<uint64_t> data(s.elements * Tape::kLanes);
  uint64_t h = s.hash;
  for (uint64_t& w : data) h = mix(h, w = random.below(te::FieldElement::kPrime));
  return intern(shape, data.data(), h);
}

uint64_t ValueStore::key(uint32_t op, const ValueId* args, size_t count) {
  uint64_t h = mix(0x243F6A8885A308D3ULL, op + 1);
  for (size_t i = 0; i < count; ++i) h = mix(h, args[i] + 1);
  return mix(h, 0x13198A2E03707344ULL) | 1;
}

size_t ValueStore::place(uint64_t key) const {
  const size_t mask = made_.size() - 1;
  size_t at = (key >> 1) & mask;
  while (made_[at].key != 0 && made_[at].key != key) at = (at + 1) & mask;
  return at;
}

const Results* ValueStore::find(uint32_t op, const ValueId* args, size_t count) const {
  const Made& m = made_[place(key(op, args, count))];
  return m.key == 0 ? nullptr : &m.results;
}

void ValueStore::load(const ValueId* args, size_t count, const Kernel& kernel, std::vector<uint64_t>& registers) const {
  if (registers.size() < kernel.tape.registers() * Tape::kLanes)
    registers.resize(kernel.tape.registers() * Tape::kLanes);
  uint64_t* at = registers.data();
  for (size_t i = 0; i < count; ++i) {
    const size_t words = kernels_.info(values_[args[i]].shape).elements * Tape::kLanes;
    std::memcpy(at, values_[args[i]].data, words * 8);
    at += words;
  }
  kernel.tape.run(registers);
}

void ValueStore::evaluate(const Kernel& kernel, const ValueId* args, size_t count, std::vector<uint64_t>& registers,
                          uint64_t* hashes) const {
  load(args, count, kernel, registers);
  const uint32_t* at = kernel.tape.outputs.data();
  for (size_t o = 0; o < kernel.results.size(); ++o) {
    const ShapeInfo& s = kernels_.info(kernel.results[o]);
    uint64_t h = s.hash;
    for (size_t i = 0; i < s.elements; ++i, ++at)
      for (size_t l = 0; l < Tape::kLanes; ++l) h = mix(h, registers[*at * Tape::kLanes + l]);
    hashes[o] = h;
  }
}

Results ValueStore::add(uint32_t op, const Kernel& kernel, const ValueId* args, size_t count) {
  const uint64_t k = key(op, args, count);
  if (const Made& m = made_[place(k)]; m.key != 0) return m.results;
  uint64_t hashes[2] = {};
  evaluate(kernel, args, count, registers_, hashes);
  Results r;
  const uint32_t* at = kernel.tape.outputs.data();
  for (size_t o = 0; o < kernel.results.size(); ++o) {
    const size_t elements = kernels_.info(kernel.results[o]).elements;
    result_.clear();
    for (size_t i = 0; i < elements; ++i, ++at)
      for (size_t l = 0; l < Tape::kLanes; ++l) result_.push_back(registers_[*at * Tape::kLanes + l]);
    r.ids[o] = intern(kernel.results[o], result_.data(), hashes[o]);
  }
  if (++made_count_ * 2 > made_.size()) {
    std::vector<Made> old(made_.size() * 2);
    old.swap(made_);
    for (const Made& m : old)
      if (m.key != 0) made_[place(m.key)] = m;
  }
  made_[place(k)] = {k, r};
  return r;
}

}  // namespace isomer::propose
