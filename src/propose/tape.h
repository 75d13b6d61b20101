// Tape: operators at known shapes, flattened once to straight-line arithmetic of the field of 2^61 - 1 elements, then
// run as often as there are values. It is recorded by te's own evaluator over a domain whose numbers are registers, so
// an operator means here what its record says, and FieldDomain says what the functions are.
//
// Invariant: an instruction reads registers before its own. Registers are the inputs, the constants, then one result
// per instruction.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/expected.h"
#include "ir/graph.h"

namespace isomer::propose {

struct Instruction {
  enum class Code : uint8_t { Add, Sub, Mul, Neg, Inverse, Max, Min, Function };
  Code code = Code::Add;
  uint16_t function = 0;  // Function: which one
  uint32_t a = 0, b = 0;
};

// Field: the real numbers' identities hold. Terms: every operation is a function of its own with nothing known of it but
// that + * max min commute, so equal results mean equal arithmetic.
enum class Algebra : uint8_t { Field, Terms };

class Tape {
 public:
  size_t inputs = 0;  // elements of all inputs
  std::vector<uint64_t> constants;
  std::vector<Instruction> code;
  std::vector<uint32_t> outputs;                  // elements of all outputs
  std::vector<std::vector<int64_t>> output_dims;  // per output

  // Runs `lanes` independent evaluations side by side: register r of lane l is at r * kLanes + l.
  static constexpr size_t kLanes = 2;
  size_t registers() const { return inputs + constants.size() + code.size(); }
  // The first inputs * kLanes entries of `registers` are given; it is grown as needed.
  void run(std::vector<uint64_t>& registers, Algebra algebra = Algebra::Field) const;
};

// A graph of known shapes whose inputs are real numbers. A diagnostic when an operator has no tensor expression or
// needs what a field has not (an order, an integer from a real).
Expected<Tape> record(const ir::Graph& graph, const ir::OpTable& table);

}  // namespace isomer::propose
