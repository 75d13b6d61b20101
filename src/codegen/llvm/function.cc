#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include "codegen/llvm/emitter.h"
#include "codegen/llvm/module.h"

namespace isomer::codegen {
namespace {

constexpr int64_t kAlignment = 64;       // of scratch and local buffers
constexpr int64_t kMostLocal = 1 << 18;  // bytes of local buffers, on the stack of any thread

// The body takes each buffer as a parameter of its own: only there can it be said that they do not overlap.
class Builder {
 public:
  Builder(llvm::Module& module, const loop::Function& function, const loop::Target& target, const Options& options)
      : module_(module),
        context_(module.getContext()),
        function_(function),
        target_(target),
        numbers_(context_, options.wide),
        b_(context_) {
    pointer_ = llvm::PointerType::getUnqual(context_);
    llvm::FastMathFlags contract;
    contract.setAllowContract(!options.wide);
    b_.setFastMathFlags(contract);
  }

  Expected<void> run() {
    int64_t local = 0;
    for (const loop::Buffer& buffer : function_.buffers)
      if (buffer.scope == loop::Scope::Local) local += buffer.elements() * 8;
    if (local > kMostLocal) {
      return Diagnostic("E-codegen", "the function " + isomer::quoted(function_.name) + " keeps " +
                                         std::to_string(local) + " bytes of buffers on the stack; make them scratch");
    }
    llvm::Function* body = declare_body();
    ISOMER_CHECK_OK(fill_body(*body));
    fill_entry(*body);
    return {};
  }

 private:
  bool passed(const loop::Buffer& buffer) const { return buffer.scope != loop::Scope::Local; }

  llvm::Function* declare_body() {
    llvm::SmallVector<llvm::Type*, 16> types;
    for (const loop::Buffer& buffer : function_.buffers)
      if (passed(buffer)) types.push_back(pointer_);
    types.append(2, b_.getInt64Ty());
    auto* f = llvm::Function::Create(llvm::FunctionType::get(b_.getInt32Ty(), types, false),
                                     llvm::Function::InternalLinkage, function_.name + ".body", module_);
    set_attributes(*f, target_);
    f->addFnAttr(llvm::Attribute::NoInline);
    unsigned i = 0;
    for (const loop::Buffer& buffer : function_.buffers) {
      if (!passed(buffer)) continue;
      const bool scratch = buffer.scope == loop::Scope::Scratch;
      llvm::AttrBuilder attributes(context_);
      attributes.addAttribute(llvm::Attribute::NoAlias);
      attributes.addAttribute(llvm::Attribute::NoCapture);
      attributes.addAlignmentAttr(scratch ? kAlignment : static_cast<int64_t>(size_of(buffer.dtype)));
      if (!scratch && !buffer.written) attributes.addAttribute(llvm::Attribute::ReadOnly);
      f->getArg(i)->setName(buffer.name);
      f->addParamAttrs(i++, attributes);
    }
    return f;
  }

  Place place(const loop::Buffer& buffer, llvm::Value* pointer) const {
    Place p{pointer, buffer.dtype, std::vector<int64_t>(buffer.dims.size(), 1), buffer.elements()};
    p.flushed = buffer.flushed && buffer.dtype == DType::BF16 && target_.has("avx512bf16") && !numbers_.wide();
    if (buffer.scope == loop::Scope::Local && numbers_.wide() && is_float(buffer.dtype)) p.dtype = DType::F64;
    for (size_t i = buffer.dims.size(); i-- > 1;) p.strides[i - 1] = p.strides[i] * buffer.dims[i];
    return p;
  }

  Expected<void> fill_body(llvm::Function& f) {
    b_.SetInsertPoint(llvm::BasicBlock::Create(context_, "entry", &f));
    std::vector<Place> places;
    unsigned next = 0;
    for (const loop::Buffer& buffer : function_.buffers) {
      Place p = place(buffer, passed(buffer) ? f.getArg(next++) : nullptr);
      if (!p.pointer) {
        auto* type = llvm::ArrayType::get(numbers_.stored(p.dtype), static_cast<uint64_t>(p.elements));
        llvm::AllocaInst* slot = b_.CreateAlloca(type, nullptr, buffer.name);
        slot->setAlignment(llvm::Align(kAlignment));
        p.pointer = slot;
      }
      places.push_back(std::move(p));
    }
    llvm::AllocaInst* status = b_.CreateAlloca(b_.getInt32Ty(), nullptr, "status");
    b_.CreateStore(b_.getInt32(0), status);
    auto* start = llvm::BasicBlock::Create(context_, "start", &f);
    b_.CreateBr(start);
    b_.SetInsertPoint(start);
    Emitter emitter(b_, numbers_, module_, target_, function_);
    emitter.run(std::move(places), status, f.getArg(next), f.getArg(next + 1));
    if (emitter.error())
      return Diagnostic("E-codegen",
                        "the function " + isomer::quoted(function_.name) + " cannot be compiled: " + *emitter.error());
    b_.CreateRet(b_.CreateLoad(b_.getInt32Ty(), status));
    return {};
  }

  void fill_entry(llvm::Function& body) {
    llvm::Type* i64 = b_.getInt64Ty();
    auto* f = llvm::Function::Create(llvm::FunctionType::get(b_.getInt32Ty(), {pointer_, i64, i64, pointer_}, false),
                                     llvm::Function::ExternalLinkage, function_.name, module_);
    f->setVisibility(llvm::GlobalValue::HiddenVisibility);
    set_attributes(*f, target_);
    b_.SetInsertPoint(llvm::BasicBlock::Create(context_, "entry", f));
    llvm::SmallVector<llvm::Value*, 16> arguments;
    uint64_t index = 0, offset = 0;
    for (const loop::Buffer& buffer : function_.buffers) {
      if (buffer.scope == loop::Scope::Argument) {
        llvm::Value* at = b_.CreateConstGEP1_64(pointer_, f->getArg(0), index++);
        arguments.push_back(b_.CreateAlignedLoad(pointer_, at, llvm::Align(8)));
      } else if (buffer.scope == loop::Scope::Scratch) {
        arguments.push_back(b_.CreateConstGEP1_64(b_.getInt8Ty(), f->getArg(3), offset));
        const uint64_t bytes = buffer.bytes();
        offset += (bytes + kAlignment - 1) / kAlignment * kAlignment;
      }
    }
    arguments.push_back(f->getArg(1));
    arguments.push_back(f->getArg(2));
    b_.CreateRet(b_.CreateCall(&body, arguments));
  }

  llvm::Module& module_;
  llvm::LLVMContext& context_;
  const loop::Function& function_;
  const loop::Target& target_;
  Numbers numbers_;
  llvm::IRBuilder<> b_;
  llvm::Type* pointer_;
};

}  // namespace

void set_attributes(llvm::Function& f, const loop::Target& target) {
  f.setDoesNotThrow();
  f.addFnAttr(llvm::Attribute::NoFree);
  f.addFnAttr("target-cpu", base_cpu(target));
  if (!target.cpu.empty()) f.addFnAttr("tune-cpu", target.cpu);
  f.addFnAttr("target-features", feature_string(target));
  f.addFnAttr("no-trapping-math", "true");
  if (target.has("avx512f") && target.vector_bytes >= 64) {
    f.addFnAttr("prefer-vector-width", "512");
    f.addFnAttr("min-legal-vector-width", "512");
  }
}

Expected<void> add_function(llvm::Module& module, const loop::Function& function, const loop::Target& target,
                            const Options& options) {
  return Builder(module, function, target, options).run();
}

}  // namespace isomer::codegen
