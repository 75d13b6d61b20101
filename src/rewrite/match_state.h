// MatchState: the search for one pattern from one node on. Tries the choices of a plan depth first and hands every
// match that passes all conditions to a callback.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "rewrite/matcher.h"

namespace isomer::rewrite {

class MatchState {
 public:
  using Emit = std::function<void(Match)>;
  MatchState(const EditGraph& graph, const Pattern& pattern, uint32_t rule, const Emit& emit, Decline* decline);

  void from(uint32_t call, uint32_t node);

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  void step(const std::vector<PlanStep>& plan, size_t at);
  void try_users(const std::vector<PlanStep>& plan, size_t at);
  bool assign(uint32_t call, uint32_t node);
  bool check_call(uint32_t call);
  bool check_attr(uint32_t node, const AttrTest& test);
  bool check_numbers(const AttrTest& test, const SizeList& wanted, std::span<const int64_t> found);
  bool bind_operands(uint32_t call, bool swapped);
  bool bind_operand(const Call& call, const Operand& pattern, ir::Value value);
  bool bind_number(const Operand& pattern, ir::Value value);
  bool bind_attribute(uint32_t variable, ir::AttrValue value, const std::string& what);
  void undo(size_t mark);

  bool finish();
  bool bind_types();
  bool bind_lists();
  bool bind_list(const SizeList& list, std::span<const int64_t> found, const char* what);
  bool solve_sizes();
  bool check_whole_lists();
  bool check_open_sizes();
  bool check_conditions();
  bool check_contents();
  bool check_uses();
  bool check_cycle();
  // A number of an attribute that counts axes, from 0.
  int64_t from_front(uint32_t node, const AttrTest& test, int64_t axis) const;
  // The numbers behind an equation's list; nothing when they are not numbers.
  std::optional<std::vector<int64_t>> numbers(const Equation& e) const;
  std::optional<std::vector<int64_t>> attr_numbers(uint32_t call, const AttrTest& test, size_t length) const;
  std::optional<std::vector<int64_t>> size_numbers(uint32_t call, uint32_t operand) const;

  template <class Reason>
  bool decline(const Reason& reason) {
    const size_t progress = 16 * matched_ + stage_;
    if (decline_ && (progress > decline_->progress || decline_->reason.empty())) {
      decline_->matched = matched_;
      decline_->progress = progress;
      decline_->reason = reason();
    }
    return false;
  }

  const EditGraph& graph_;
  const Pattern& pattern_;
  const Rule& rule_;
  uint32_t index_;
  const Emit& emit_;
  Decline* decline_;

  std::vector<uint32_t> nodes_;
  std::vector<ir::Value> inputs_;
  std::vector<std::optional<ir::AttrValue>> attributes_;
  std::vector<bool> attribute_bound_;
  size_t matched_ = 0, stage_ = 0;  // calls that fit; tests of `finish` that passed
  SizeValues sizes_;
  std::vector<DType> types_;
  std::vector<bool> type_bound_;

  // What to undo: a call, an input or an attribute variable that got its value.
  enum class Kind : uint8_t { Call, Input, Attribute };
  std::vector<std::pair<Kind, uint32_t>> trail_;
};

}  // namespace isomer::rewrite
