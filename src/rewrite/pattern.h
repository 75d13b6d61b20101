// Pattern: the left side of a rule made ready for matching. For each call that a match may start from there is a plan:
// which call to look at next and where its node is found. Everything that is asked of records is asked here once.
#pragma once

#include <cstdint>
#include <vector>

#include "rewrite/absent_attrs.h"
#include "rewrite/rule.h"

namespace isomer::rewrite {

// A step of a plan. Check: the call's node is known; its operands are bound. Users: the node is one of those that use a
// value known by now. Scan: any node of the operator.
struct PlanStep {
  enum class Kind : uint8_t { Check, Users, Scan };
  Kind kind = Kind::Check;
  uint32_t call = 0;
  Operand through = {};  // Users: an input or result that is bound
};

// How one attribute of a call is compared before sizes are solved.
struct AttrTest {
  std::string name;
  const AttrTerm* term = nullptr;
  const ir::AttrDef* def = nullptr;
  const AbsentAttr* absent = nullptr;  // what leaving it out means, where the record says it by itself
  bool axis = false;
};

struct CallPattern {
  const Call* call = nullptr;
  bool commutative = false;
  std::vector<AttrTest> attrs;
};

struct Pattern {
  const Rule* rule = nullptr;
  std::vector<CallPattern> calls;
  std::vector<std::vector<PlanStep>> plans;  // by root
  // Results that the rule maps, by call and index; the others may have no use outside.
  std::vector<std::vector<bool>> mapped;
  // Symbols and lists that the replacement states in attributes or lists of sizes, by their place in the rule.
  std::vector<bool> needs_number, needs_list;
  // Whether all outputs are calls alike, so that the same nodes in another order are the same match.
  bool symmetric = false;
};

// Whether the record has the law op(?a, ?b) == op(?b, ?a).
bool commutative(const ir::OpDef& op);

Pattern compile(const Rule& rule, AttrHabitTable& habits);

}  // namespace isomer::rewrite
