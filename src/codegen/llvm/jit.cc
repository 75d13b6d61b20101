#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/TargetSelect.h>

#include "codegen/codegen.h"

namespace isomer::codegen {
namespace {

Diagnostic failed(llvm::Error e) {
  return Diagnostic("E-codegen", "the generated code cannot be loaded: " + llvm::toString(std::move(e)));
}

}  // namespace

struct Jit::Impl {
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

Jit::Jit(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Jit::Jit(Jit&&) noexcept = default;
Jit& Jit::operator=(Jit&&) noexcept = default;
Jit::~Jit() = default;

Expected<Jit> Jit::load(std::span<const Object> objects) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto jit = llvm::orc::LLJITBuilder().create();
  if (!jit) return failed(jit.takeError());
  auto process =
      llvm::orc::DynamicLibrarySearchGenerator::GetForCurrentProcess((*jit)->getDataLayout().getGlobalPrefix());
  if (!process) return failed(process.takeError());
  (*jit)->getMainJITDylib().addGenerator(std::move(*process));
  for (const Object& object : objects) {
    auto buffer = llvm::MemoryBuffer::getMemBufferCopy(object.bytes, object.name);
    if (llvm::Error e = (*jit)->addObjectFile(std::move(buffer))) return failed(std::move(e));
  }
  auto impl = std::make_unique<Impl>();
  impl->jit = std::move(*jit);
  return Jit(std::move(impl));
}

void* Jit::find(std::string_view name) const {
  auto address = impl_->jit->lookup(std::string(name));
  if (!address) {
    llvm::consumeError(address.takeError());
    return nullptr;
  }
  return address->toPtr<void*>();
}

}  // namespace isomer::codegen
