// Native code from loops in their final form. No type of the code generator's library shows here: objects are bytes.
// Invariant: the JIT loads exactly the bytes that a module ships, and the same functions, target and options give the
// same bytes with any number of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/expected.h"
#include "loop/stmt.h"
#include "loop/target.h"

namespace isomer::codegen {

struct Options {
  bool wide = false;     // floats are computed, and Local buffers of floats kept, in double: the naive reference
  int threads = 0;       // that compile at the same time; 0: one per core
  int opt = 2;           // 0: no optimisation, for debugging; 2: the code that ships
  std::string dump_dir;  // when not empty: FUNCTION.ll and FUNCTION.s are written there
};

// A relocatable ELF file: position independent, every function hidden, of the kind iso_kernel (runtime/abi.h). It calls
// nothing outside but functions of libm, memcpy and memset.
struct Object {
  std::string name;
  std::string bytes;
};

// The machine this runs on, as it says itself.
Expected<loop::Target> host_target();

// What made the code: another version may make other code of the same functions.
std::string version();

// The functions must satisfy loop::verify; what is found broken on the way is an error, E-codegen.
Expected<std::vector<Object>> emit_objects(std::span<const loop::Function> functions, const loop::Target& target,
                                           const Options& options = {});

// Objects in this process's memory. Addresses are valid as long as the Jit lives.
class Jit {
 public:
  static Expected<Jit> load(std::span<const Object> objects);
  Jit(Jit&&) noexcept;
  Jit& operator=(Jit&&) noexcept;
  ~Jit();

  void* find(std::string_view name) const;  // null when there is no such function

 private:
  struct Impl;
  explicit Jit(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace isomer::codegen
