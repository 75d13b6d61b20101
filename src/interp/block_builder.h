// Writes a BlockProgram: registers, and nested loops into whose bodies instructions are put. Level 0 runs once, level 1 per
// block, each further level is a reduction's loop; a value's level is that of the outermost loop on which it depends.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "interp/block_program.h"

namespace isomer::interp {

struct Reg {
  int id = -1;
  bool uniform = true;
  int level = 0;
};

// Lanes on which an expression is evaluated: those where the register is not zero; id -1: all.
using Mask = Reg;

class BlockBuilder {
 public:
  BlockBuilder() : scopes_(2) {}

  BlockProgram program;  // all of it but the bodies of loops that are still open

  static Instruction instruction(Code code, bool uniform, const Mask& mask = {});
  Reg put(Instruction i, bool real, int level);  // with a new register for what it gives
  void put_innermost(Instruction i);             // one that gives nothing new

  Reg constant_int(int64_t v);
  Reg constant_real(double v);
  Reg fill(bool real, bool uniform, int level, double r, int64_t v);  // what a reduction begins with
  int form(Form f);                                                   // its place among the program's forms

  // The register with a value per lane, when the instruction that reads it has one.
  int wide(const Reg& r, bool real, bool uniform);
  // The mask of a branch: the context's and the condition (or its opposite).
  Mask narrow(const Mask& mask, const Reg& condition, bool opposite);

  // What was put for this expression under this mask; expressions are known by their address.
  const Reg* known(const te::Node* e, const Mask& mask, int level) const;
  void remember(const te::Node* e, const Mask& mask, int level, const Reg& r);

  // Loops that stand right behind `level` while `body` runs: those deeper than it are set aside, so that what depends on
  // nothing in them is computed outside of them.
  template <class Body>
  Reg in_loops(const std::vector<std::pair<int, int64_t>>& axes, int level, Body body) {
    std::vector<Scope> aside = open(axes, level);
    const Reg r = body();
    close(std::move(aside), level);
    return r;
  }
  int level_of_axis(int id) const;  // 1 where no loop has it
  int slot_of_axis(int id) const;   // -1 where no loop has it

  BlockProgram finish(const Reg& result) &&;

 private:
  struct Scope {
    int axis = -1;
    int slot = -1;
    int64_t extent = 1;
    std::vector<Instruction> body;
    std::map<std::pair<const te::Node*, int>, Reg> known;  // by expression and mask
    std::map<std::pair<bool, int>, Reg> splats;            // by kind and register
  };
  std::vector<Scope> open(const std::vector<std::pair<int, int64_t>>& axes, int level);
  void close(std::vector<Scope> aside, int level);
  double cost(const std::vector<Instruction>& body) const;

  std::vector<Scope> scopes_;
};

}  // namespace isomer::interp
