// Runs one function of loops as native code of this machine on tensors, for tests.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "codegen/codegen.h"
#include "loop/stmt.h"
#include "runtime/abi.h"
#include "tensor/tensor.h"

namespace isomer {

struct KernelRun {
  int32_t status = -1;
  std::vector<Tensor> arguments;  // after the run
};

// `arguments` in the order of the function's; every one is copied first, with nothing readable promised behind it.
inline KernelRun run_kernel(const loop::Function& function, const std::vector<Tensor>& arguments,
                            codegen::Options options = {}, std::optional<loop::Target> target = {}) {
  KernelRun run;
  options.threads = 1;
  if (!target) {
    auto host = codegen::host_target();
    EXPECT_TRUE(host.ok());
    target = *host;
  }
  auto objects = codegen::emit_objects({&function, 1}, *target, options);
  EXPECT_TRUE(objects.ok()) << objects.error().to_string();
  if (!objects.ok()) return run;
  auto jit = codegen::Jit::load(*objects);
  EXPECT_TRUE(jit.ok()) << jit.error().to_string();
  if (!jit.ok()) return run;
  auto* kernel = reinterpret_cast<iso_kernel>(jit->find(function.name));
  EXPECT_NE(kernel, nullptr) << function.name;
  if (!kernel) return run;
  std::vector<void*> pointers;
  for (const Tensor& t : arguments) {
    Tensor copy(t.dtype(), t.dims());
    if (t.byte_size() != 0) std::copy_n(t.bytes(), t.byte_size(), copy.mutable_bytes());
    run.arguments.push_back(std::move(copy));
  }
  for (Tensor& t : run.arguments) pointers.push_back(t.mutable_bytes());
  std::vector<std::byte> scratch(static_cast<size_t>(function.scratch_bytes()) + 64);
  auto aligned = (reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64;
  run.status = kernel(pointers.data(), 0, function.tasks(), reinterpret_cast<void*>(aligned));
  return run;
}

// Argument buffers with the names given.
inline loop::Buffer argument(std::string name, DType dtype, std::vector<int64_t> dims, bool written = false) {
  return {std::move(name), dtype, std::move(dims), loop::Scope::Argument, written};
}

}  // namespace isomer
