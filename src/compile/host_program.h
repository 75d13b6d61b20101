// HostProgram: a plan and its kernels, loaded in this process, as the runtime's tables. Owns everything the tables point to
// but the kernels; does not move, so that iso_program* and open models stay valid while it lives.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "base/expected.h"
#include "compile/plan.h"
#include "runtime/abi.h"

namespace isomer::compile {

class HostProgram {
 public:
  // The kernel of a symbol; nullptr where there is none.
  using Lookup = std::function<iso_kernel(std::string_view)>;

  // Weights that are not padded are copied into large pages, and the plan lets go of them; the others stay where they are.
  static Expected<std::unique_ptr<HostProgram>> make(Plan plan, const Lookup& lookup);
  ~HostProgram();
  HostProgram(const HostProgram&) = delete;
  HostProgram& operator=(const HostProgram&) = delete;

  const iso_program* get() const;
  const Plan& plan() const;

 private:
  struct Tables;
  explicit HostProgram(std::unique_ptr<Tables> tables);
  std::unique_ptr<Tables> tables_;
};

// "Conv_0, Relu_1": how a list of source nodes is shown.
std::string origin_text(const std::vector<std::string>& origin);

// Features of the target that a runtime can ask a CPU for, comma-separated. The others are of the system's kind, which no
// generated code uses.
std::string feature_text(const loop::Target& target);

}  // namespace isomer::compile
