// BlockProgram: one stage compiled to instructions over registers that hold a block of lanes, neighbouring points along
// one output axis. Every instruction stands in the outermost loop on whose axis it depends. A uniform register holds
// one value for all lanes. An instruction that can fail has a mask and acts only on lanes where the mask is nonzero.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "te/expr.h"
#include "tensor/tensor.h"

namespace isomer::interp {

// An affine form over the values of variable slots; `lane` is the step from one lane to the next.
struct Form {
  int64_t constant = 0;
  std::vector<std::pair<int, int64_t>> terms;  // slot, coefficient; the lane axis's slot holds the block's first lane
  int64_t lane = 0;

  int64_t at(const int64_t* slots) const {
    int64_t v = constant;
    for (const auto& [slot, k] : terms) v += k * slots[slot];
    return v;
  }
};

enum class Code : uint8_t {
  RealConstant,  // dst := constants
  IntConstant,
  Affine,      // int dst := forms[extra]
  AffineTest,  // int dst := forms[extra] >= 0
  SplatReal,   // dst := a in every lane
  SplatInt,
  RealUnary,
  RealTest,  // int dst from real a
  RealBinary,
  RealCompare,  // int dst from real a, b
  IntUnary,
  IntBinary,  // can fail
  SelectReal,
  SelectInt,  // dst := int c ? a : b
  Round,      // real to real of type
  RealToInt,  // to type
  IntToReal,  // from type
  Wrap,       // int to int of type
  ReadReal,   // reads[extra]; can fail
  ReadInt,    // reads[extra]; can fail
  FillReal,   // dst := identity, before a reduction's loop
  FillInt,
  CombineReal,  // dst := combine(dst, a) where the mask holds
  CombineInt,
  ArgReal,  // dst (int, position), b (real, best), c (int, seen): takes a at position forms[extra]
  ArgInt,
  Contract,    // real dst := contractions[extra]
  SkipUnless,  // leaves the loop's body for this point when a is zero in every lane
  Loop         // loops[extra]
};

struct Instruction {
  Code code;
  uint8_t op = 0;           // UnaryOp, BinaryOp or Combiner
  DType type = DType::F64;  // operand type of integer operations, target or source of conversions
  bool uniform = true;      // dst holds one value
  bool c_uniform = true;    // of the condition of a Select
  bool mask_uniform = true;
  int dst = -1, a = -1, b = -1, c = -1;
  int mask = -1;  // int register; -1: every lane
  int extra = -1;
  double real = 0;
  int64_t integer = 0;
};

struct Loop {
  int slot = -1;
  int64_t extent = 0;
  std::vector<Instruction> body;
};

// A read at affine indices, or at indices held in registers.
struct Read {
  const Tensor* tensor = nullptr;
  bool affine = false;
  Form address;  // affine: in elements
  struct Check {
    Form index;
    int64_t extent;
  };
  std::vector<Check> checks;  // affine: the axes on which the index may leave its range
  struct Index {
    int reg;
    bool uniform;
    int64_t extent, stride;
  };
  std::vector<Index> indices;  // not affine
};

// sum over axes of a[..] * b[..] where all guards are >= 0: the inner loop of products and convolutions.
struct Contraction {
  std::vector<int64_t> extents;
  struct Part {  // an affine form with one more coefficient per reduction axis
    Form form;
    std::vector<int64_t> steps;
  };
  struct Operand {
    const Tensor* tensor = nullptr;
    Part address;
  };
  Operand a, b;
  std::vector<Part> guards;

  // When the contraction can be computed as a matrix product: one operand is the same in all lanes, the other on
  // neighbouring points of the row axes, and each guard is a matter of one of them, which is zero outside of it.
  std::vector<int> row_axes;  // output axes; empty: it cannot
  bool lanes_in_a = false;    // which operand differs between lanes
  std::vector<Part> row_guards, lane_guards;
  const Operand& row_operand() const { return lanes_in_a ? b : a; }
  const Operand& lane_operand() const { return lanes_in_a ? a : b; }
};

// A slot whose value follows from those of others and is the same in all lanes: a quotient or remainder, divided by
// `unit` of which it is a multiple.
struct Derived {
  int slot = -1;
  Form form;  // >= 0
  int64_t divisor = 1;
  bool remainder = false;
  int64_t unit = 1;

  int64_t at(const int64_t* slots) const {
    const int64_t v = form.at(slots);
    return (remainder ? v % divisor : v / divisor) / unit;
  }
};

struct BlockProgram {
  std::vector<Instruction> once;   // constants, run when a worker starts
  std::vector<Instruction> block;  // run for every block
  std::vector<Loop> loops;
  std::vector<Derived> derived;  // in the order in which they follow
  std::vector<Form> forms;
  std::vector<Read> reads;
  std::vector<Contraction> contractions;
  int panel = -1;  // the contraction that is computed for many rows at a time; it stands in `block`
  std::vector<bool> real_uniform, int_uniform;  // one entry per register
  int slots = 0;
  int lane_axis = -1;  // -1: a stage of one element per block
  int result = -1;
  bool result_uniform = false;
  double point_cost = 1;  // operations per lane, estimated
};

}  // namespace isomer::interp
