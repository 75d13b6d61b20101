// What leaving an attribute out means where the record gives no standard value: no strides are strides of 1, a kernel's
// shape is that of the weights. Nobody writes that down a second time: it is found from the record itself, by comparing
// the tensor expressions of its samples with the attribute left out and written out. The same way an integer is found
// to be an axis, which counts from the end when negative.
#pragma once

#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace isomer::rewrite {

struct AbsentAttr {
  enum class Kind : uint8_t { Zeros, Ones, Reversed, DimsOfInput };
  std::string name;
  Kind kind = Kind::Zeros;
  size_t input = 0;  // DimsOfInput: the last dims of this input
};

struct AttrHabits {
  std::vector<AbsentAttr> absent;
  std::vector<std::string> axes;  // integers that count along input 0

  bool is_axis(std::string_view name) const;
  const AbsentAttr* find(std::string_view name) const;
  // The list that an absent attribute stands for, when it would have `length` elements.
  static std::vector<int64_t> meaning(const AbsentAttr& a, size_t length, std::span<const Shape> inputs);
  // The attributes of a node without those that say what their absence says, and with axes counted from 0.
  ir::Attrs canonical(const ir::Attrs& attrs, std::span<const Shape> inputs) const;
};

// Any number of threads may ask.
class AttrHabitTable {
 public:
  explicit AttrHabitTable(const ir::OpTable& table) : table_(&table) {}
  const AttrHabits& of(const ir::OpDef& op);

 private:
  const ir::OpTable* table_;
  std::mutex mutex_;  // of what follows
  std::map<std::string, AttrHabits> known_;
};

}  // namespace isomer::rewrite
