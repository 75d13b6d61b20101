// Palette: what graphs are enumerated from, as data: operators by name with their attribute choices, and small input
// tensors with their shapes. What an operator means and where it is well-typed comes from its record alone.
//
// A set is a list of families. A family is enumerated by itself: its shapes meet each other, those of two families do
// not, so graphs over both would fall apart into two.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/expected.h"
#include "ir/attrs.h"
#include "ir/op.h"
#include "tensor/dim.h"

namespace isomer::propose {

inline constexpr size_t kMaxOperands = 5;

// An operand of a call inside a template.
struct OperandSpec {
  enum class Kind : uint8_t { Operand, Call, Number, Sizes, Parts };
  Kind kind = Kind::Operand;
  uint32_t index = 0;      // Operand: of the template; Call: an earlier call; Parts: the axis that is cut
  double number = 0;       // Number
  std::vector<Dim> sizes;  // Sizes: over the family's symbols and the operands' extents "$0.1"
};

struct CallSpec {
  std::string op;
  std::vector<OperandSpec> operands;
  ir::Attrs attrs;
  std::vector<std::pair<std::string, Dim>> sizes = {};  // integer attributes that are sizes
};

// What one operator of an enumerated graph may be. Several calls count as one operator: a constant kernel is one thing
// to the search, whatever it is written with.
struct Template {
  struct Extent {
    uint8_t operand, axis;
    Dim value;
  };
  std::vector<CallSpec> calls;
  uint8_t operands = 0, results = 1;
  std::vector<int8_t> ranks = {};  // of the operands; -1: any
  std::vector<Extent> extents = {};
  bool same_shape = false;   // of all operands: no broadcasting
  bool inputs_only = false;  // operands are inputs of the graph
  bool distinct = false;     // no value is two operands: what holds only of such calls is of no use
  uint8_t cut = 0;           // Parts: which of the ways to cut the axis where a concatenation joined it
};

struct InputClass {
  std::string name;
  std::vector<Dim> shape;
  uint8_t count = 1;
};

struct Family {
  std::string name;
  std::vector<InputClass> inputs;
  std::vector<Template> templates;
  std::map<std::string, int64_t> sizes;  // of the enumeration; other sizes test what it finds
  int max_operators = 4;                 // a larger size is not asked of this family
};

struct OperatorSet {
  std::string name;
  std::vector<Family> families;
};

// "taso": the 12 operators and 4 constants of TASO's generator. "full": all that the issue of substitutions names.
Expected<OperatorSet> operator_set(std::string_view name);

// The text of a template as a rule writes it, for messages and tests: "concat($0, $1){axis=1}".
std::string to_string(const Template& t);

}  // namespace isomer::propose
