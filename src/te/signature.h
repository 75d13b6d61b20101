// Signature: bytes that say what expressions and numbers fed into it mean, names of variables aside: variables, and
// tensors where it is asked for, are numbered in the order in which they come. Equal meaning written alike gives equal
// bytes, however nodes are shared. For keys of caches, which need to compare contents and not addresses or names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "te/expr.h"

namespace isomer::te {

class Signature {
 public:
  explicit Signature(bool rename_tensors) : rename_tensors_(rename_tensors) {}

  Signature& add(int64_t number);
  Signature& add(std::string_view text);
  Signature& add(const Expr& e);
  Signature& add(const Dim& dim);
  Signature& add_var(int var) { return add(static_cast<int64_t>(number_of(var))); }
  Signature& add_axis(const Axis& axis) { return add_var(axis.id).add(axis.extent); }
  Signature& add_tensor(int tensor);

  // Tensors in the order of their numbers, where they are renamed; may grow with what is added.
  const std::vector<int>& tensors() const { return tensors_; }
  const std::string& bytes() const { return bytes_; }

 private:
  uint64_t number_of(int var);

  const bool rename_tensors_;
  std::string bytes_;
  std::unordered_map<int, uint64_t> vars_, tensor_numbers_;
  std::vector<int> tensors_;
  std::unordered_map<Hash128, uint64_t> nodes_;  // by content: what came before is named by its number
};

}  // namespace isomer::te
