// Loops and branches of a micro-kernel through which values are carried in registers.
#pragma once

#include <functional>
#include <vector>

namespace llvm {
class IRBuilderBase;
class Value;
}  // namespace llvm

namespace isomer::codegen {

using Values = std::vector<llvm::Value*>;

// `count` times, if it is above 0: `body` gets the count down from `count` to 1 and puts into `carried`, which holds what the
// iteration begins with, what the next one does. Behind the loop `carried` is what the last one left.
void count_down(llvm::IRBuilderBase& b, llvm::Value* count, Values& carried,
                const std::function<void(llvm::Value* left)>& body);

// `body`, which changes `carried`, if `count` is above 0.
void when_some(llvm::IRBuilderBase& b, llvm::Value* count, Values& carried, const std::function<void()>& body);

}  // namespace isomer::codegen
