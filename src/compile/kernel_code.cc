#include "compile/kernel_code.h"

#include <fmt/format.h>

#include <utility>

namespace isomer::compile {

Expected<std::vector<Code>> compile_together(const std::vector<const loop::Function*>& functions,
                                             const loop::Target& target, int threads) {
  std::vector<loop::Function> named;
  for (const loop::Function* f : functions) {
    named.push_back(*f);
    named.back().name = fmt::format("kernel_{}", named.size());
  }
  codegen::Options options;
  options.threads = threads;
  ISOMER_TRY(const std::vector<codegen::Object> objects, codegen::emit_objects(named, target, options));
  ISOMER_TRY(codegen::Jit loaded, codegen::Jit::load(objects));
  const auto jit = std::make_shared<const codegen::Jit>(std::move(loaded));
  std::vector<Code> out;
  for (const loop::Function& f : named) {
    const auto entry = reinterpret_cast<iso_kernel>(jit->find(f.name));
    if (!entry) return Diagnostic("E-codegen", "the kernel was not compiled");
    out.push_back({jit, entry});
  }
  return out;
}

KernelCode::Made* KernelCode::find(const std::string& signature) {
  if (const auto it = recent_.find(signature); it != recent_.end()) return &it->second;
  if (recent_.size() >= capacity_) older_ = std::exchange(recent_, {});
  const auto it = older_.find(signature);
  return it == older_.end() ? nullptr : &(recent_[signature] = it->second);
}

std::vector<Expected<Code>> KernelCode::of(const std::vector<Wanted>& wanted, int threads) {
  std::vector<Made> results;
  std::vector<const loop::Function*> mine;
  std::vector<std::promise<Expected<Code>>> promises;
  {
    const std::lock_guard lock(mutex_);
    for (const Wanted& w : wanted) {
      const std::string signature(w.signature);
      if (const Made* known = find(signature)) {
        results.push_back(*known);
        continue;
      }
      mine.push_back(w.function);
      results.push_back(recent_[signature] = promises.emplace_back().get_future().share());
    }
  }
  // Promises are kept before anything is waited for, so that two threads never wait for each other.
  if (!mine.empty()) {
    const auto codes = compile_together(mine, target_, threads);
    for (size_t i = 0; i < mine.size(); ++i)
      promises[i].set_value(codes.ok() ? Expected<Code>((*codes)[i]) : Expected<Code>(codes.error()));
  }
  std::vector<Expected<Code>> out;
  for (const Made& made : results) out.push_back(made.get());
  return out;
}

}  // namespace isomer::compile
