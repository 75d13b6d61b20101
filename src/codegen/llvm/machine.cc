#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include <mutex>

#include "codegen/llvm/module.h"

namespace isomer::codegen {
namespace {

void register_targets() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
  });
}

}  // namespace

Machine::Machine() = default;
Machine::Machine(Machine&&) noexcept = default;
Machine& Machine::operator=(Machine&&) noexcept = default;
Machine::~Machine() = default;

// The features alone decide: the CPU is the least of its architecture, and its real name is used for scheduling only. A
// machine may hide what its CPU's name implies.
std::string feature_string(const loop::Target& target) {
  std::string s;
  for (const std::string& f : target.features) s += (s.empty() ? "+" : ",+") + f;
  return s;
}
const char* base_cpu(const loop::Target& target) { return target.arch == loop::Arch::X86_64 ? "x86-64" : "generic"; }

Expected<Machine> make_machine(const loop::Target& target, int opt) {
  register_targets();
  const std::string triple =
      target.arch == loop::Arch::X86_64 ? "x86_64-unknown-linux-gnu" : "aarch64-unknown-linux-gnu";
  std::string why;
  const llvm::Target* t = llvm::TargetRegistry::lookupTarget(triple, why);
  if (!t) return Diagnostic("E-codegen", "the code generator has no back end for " + triple + ": " + why);
  const auto level = opt == 0 ? llvm::CodeGenOptLevel::None : llvm::CodeGenOptLevel::Default;
  Machine m;
  m.machine.reset(t->createTargetMachine(triple, base_cpu(target), feature_string(target), llvm::TargetOptions(),
                                         llvm::Reloc::PIC_, llvm::CodeModel::Small, level));
  if (!m.machine)
    return Diagnostic("E-codegen", "the code generator has no machine for " + isomer::quoted(target.name));
  return m;
}

// Loops are scheduled already: what is left is to clean up what was written plainly. Nothing unrolls or vectorises.
Expected<void> optimise(llvm::Module& module, Machine& machine, int opt) {
  std::string broken;
  llvm::raw_string_ostream out(broken);
  if (llvm::verifyModule(module, &out))
    return Diagnostic("E-codegen", "the generated code is malformed, which is a defect of Isomer: " + out.str());
  if (opt == 0) return {};
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(machine.machine.get());
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graphs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graphs, modules);
  llvm::ModulePassManager passes;
  constexpr const char* kPipeline =
      "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,"
      "loop-mssa(loop-instsimplify,licm),early-cse<memssa>,sroa,instcombine<no-verify-fixpoint>,"
      "loop-mssa(licm),simplifycfg)";
  if (llvm::Error e = builder.parsePassPipeline(passes, kPipeline))
    return Diagnostic("E-codegen", "a pass of the code generator is unknown: " + llvm::toString(std::move(e)));
  passes.run(module, modules);
  return {};
}

}  // namespace isomer::codegen
