// Symmetry: the ways to rename the inputs of a family. Inputs of one class have one shape, so a graph and its renamings
// are the same graph to a rule; a class of graphs is known by the least fingerprint over all of them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "propose/sketch.h"

namespace isomer::propose {

using Renaming = std::array<uint8_t, kFirstResult>;

class Symmetry {
 public:
  explicit Symmetry(const Family& family);

  size_t inputs() const { return class_of_.size(); }
  size_t class_of(size_t input) const { return class_of_[input]; }
  size_t first(size_t cls) const { return first_[cls]; }
  size_t classes() const { return first_.size(); }
  size_t count(size_t cls) const { return count_[cls]; }
  // Every way to send the inputs of `used` to inputs of their classes, each once; the first is the identity.
  const std::vector<Renaming>& renamings(uint32_t used);
  // For each renaming of `more`, the place of the one that agrees with it on `used`, a subset.
  const std::vector<uint32_t>& restriction(uint32_t used, uint32_t more);

 private:
  const std::vector<Renaming>& locked_renamings(uint32_t used);

  std::vector<size_t> class_of_, first_, count_;
  std::shared_mutex mutex_;
  std::unordered_map<uint32_t, std::unique_ptr<std::vector<Renaming>>> renamings_;
  std::unordered_map<uint64_t, std::unique_ptr<std::vector<uint32_t>>> restrictions_;
};

Sketch renamed(const Sketch& s, const Renaming& r, const Family& family);

}  // namespace isomer::propose
