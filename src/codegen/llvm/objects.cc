#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include <fstream>
#include <optional>

#include "base/cores.h"
#include "base/thread_pool.h"
#include "codegen/llvm/module.h"

namespace isomer::codegen {
namespace {

Expected<std::string> write(llvm::Module& module, Machine& machine, llvm::CodeGenFileType kind) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out(bytes);
  llvm::legacy::PassManager passes;
  if (machine.machine->addPassesToEmitFile(passes, out, nullptr, kind))
    return Diagnostic("E-codegen", "the code generator cannot write this kind of file for the target");
  passes.run(module);
  return std::string(bytes.data(), bytes.size());
}

Expected<void> write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) return Diagnostic("E-write", "cannot write " + isomer::quoted(path));
  return {};
}

Expected<std::string> compile(std::span<const loop::Function> functions, const std::string& name,
                              const loop::Target& target, const Options& options, bool text) {
  ISOMER_TRY(Machine machine, make_machine(target, options.opt));
  llvm::LLVMContext context;
  llvm::Module module(name, context);
  module.setTargetTriple(machine.machine->getTargetTriple().str());
  module.setDataLayout(machine.machine->createDataLayout());
  module.setPICLevel(llvm::PICLevel::BigPIC);
  for (const loop::Function& f : functions) ISOMER_CHECK_OK(add_function(module, f, target, options));
  ISOMER_CHECK_OK(optimise(module, machine, options.opt));
  if (text) {
    std::string ir;
    llvm::raw_string_ostream out(ir);
    module.print(out, nullptr);
    ISOMER_CHECK_OK(write_text(options.dump_dir + "/" + name + ".ll", out.str()));
  }
  return write(module, machine, text ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile);
}

// One module for each function: what the dump shows is what that function alone is.
Expected<void> dump(std::span<const loop::Function> functions, const loop::Target& target, const Options& options) {
  for (const loop::Function& f : functions) {
    ISOMER_TRY(const std::string text, compile({&f, 1}, f.name, target, options, true));
    ISOMER_CHECK_OK(write_text(options.dump_dir + "/" + f.name + ".s", text));
  }
  return {};
}

constexpr size_t kFunctionsPerObject = 8;

}  // namespace

Expected<std::vector<Object>> emit_objects(std::span<const loop::Function> functions, const loop::Target& target,
                                           const Options& options) {
  if (!options.dump_dir.empty()) ISOMER_CHECK_OK(dump(functions, target, options));
  // How functions are shared out does not depend on the number of threads, so neither do the bytes.
  const size_t parts = (functions.size() + kFunctionsPerObject - 1) / kFunctionsPerObject;
  std::vector<std::optional<Expected<std::string>>> results(parts);
  auto part = [&](int i) {
    const size_t p = static_cast<size_t>(i), begin = functions.size() * p / parts;
    const size_t end = functions.size() * (p + 1) / parts;
    results[p] = compile(functions.subspan(begin, end - begin), "kernels" + std::to_string(p), target, options, false);
  };
  const int threads = std::min(options.threads > 0 ? options.threads : cores(), static_cast<int>(parts));
  if (threads > 1) {
    ThreadPool(threads).run(static_cast<int>(parts), part);
  } else {
    for (size_t i = 0; i < parts; ++i) part(static_cast<int>(i));
  }
  std::vector<Object> objects;
  for (size_t i = 0; i < parts; ++i) {
    ISOMER_TRY(std::string bytes, *std::move(results[i]));
    objects.push_back({"kernels" + std::to_string(i) + ".o", std::move(bytes)});
  }
  return objects;
}

}  // namespace isomer::codegen
