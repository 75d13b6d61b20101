// What a contraction's group stores for one element of the product, as an expression of the product and of the axes.
#pragma once

#include <map>

#include "compile/accesses.h"
#include "compile/kernel.h"

namespace isomer::compile {

struct Epilogue {
  std::map<int, LoopAxis> axes;  // by axis of the contraction's stage, those above 1: a loop variable of its own
  int buffer = -1;               // what is written
  te::Expr address, body;        // over these variables
};

// The product lies in `product` at `place`, whose own variables are `scope`.
Epilogue epilogue_of(const Scene& scene, const Group& group, Accesses& accesses, int product, const te::Expr& place,
                     std::vector<te::Axis> scope, int& next_var);

}  // namespace isomer::compile
