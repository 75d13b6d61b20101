// A module of the code generator's library for some functions: built, optimised, written as text or as an object.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/expected.h"
#include "codegen/codegen.h"

namespace llvm {
class Function;
class LLVMContext;
class Module;
class TargetMachine;
}  // namespace llvm

namespace isomer::codegen {

struct Machine {
  Machine();
  Machine(Machine&&) noexcept;
  Machine& operator=(Machine&&) noexcept;
  ~Machine();
  std::unique_ptr<llvm::TargetMachine> machine;
};
Expected<Machine> make_machine(const loop::Target& target, int opt);
std::string feature_string(const loop::Target& target);
const char* base_cpu(const loop::Target& target);
void set_attributes(llvm::Function& function, const loop::Target& target);  // what every function of a target has

// Adds the function, with the interface of runtime/abi.h, to the module.
Expected<void> add_function(llvm::Module& module, const loop::Function& function, const loop::Target& target,
                            const Options& options);
Expected<void> optimise(llvm::Module& module, Machine& machine, int opt);

}  // namespace isomer::codegen
