#include "driver/compile_module.h"

#if ISOMER_HAS_COMPILER

#include <chrono>
#include <utility>

#include "codegen/codegen.h"
#include "compile/lower.h"
#include "compile/module.h"
#include "ops/table.h"
#include "passes/manager.h"

namespace isomer::driver {

namespace {

class Stopwatch {
 public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    return std::chrono::duration<double>(now - std::exchange(start_, now)).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

Expected<loop::Target> target_of(const std::string& name) {
  return name == "host" ? codegen::host_target() : loop::parse_target(name);
}

// Kernels of two variants are different functions of one library.
void rename(compile::Lowered& lowered, const std::string& prefix) {
  for (loop::Function& function : lowered.functions) function.name = prefix + function.name;
  for (compile::Step& step : lowered.plan.steps) step.function = prefix + step.function;
}

}  // namespace

Expected<CompileReport> compile_module(const ir::Graph& graph, const CompileOptions& options, const std::string& path) {
  CompileReport report;
  Stopwatch watch;
  ISOMER_TRY(const ir::Graph prepared, passes::run_pipeline(graph, ops::table(), options.pipeline));
  report.pass_seconds = watch.lap();
  std::vector<compile::Plan> plans;
  std::vector<std::vector<codegen::Object>> objects;
  for (size_t i = 0; i < options.targets.size(); ++i) {
    ISOMER_TRY(loop::Target target, target_of(options.targets[i]));
    // Where the module is refused later, "host" would say nothing.
    if (target.name == "host" && !target.cpu.empty()) target.name = target.cpu;
    compile::LowerOptions lower;
    lower.target = target;
    lower.winograd = !options.strict;
    ISOMER_TRY(compile::Lowered lowered, compile::lower(prepared, ops::table(), lower));
    if (options.targets.size() > 1) rename(lowered, "v" + std::to_string(i) + "_");
    report.lower_seconds += watch.lap();
    if (!options.dump_dir.empty()) ISOMER_CHECK_OK(compile::dump_loops(lowered, options.dump_dir));
    codegen::Options code;
    code.threads = options.threads;
    code.dump_dir = options.dump_dir;
    ISOMER_TRY(auto emitted, codegen::emit_objects(lowered.functions, target, code));
    report.code_seconds += watch.lap();
    report.variants.push_back({target.name, lowered.plan.steps.size(), lowered.functions.size(),
                               lowered.plan.arena_bytes, lowered.least_arena_bytes});
    plans.push_back(std::move(lowered.plan));
    objects.push_back(std::move(emitted));
  }
  std::vector<compile::Variant> variants;
  for (size_t i = 0; i < plans.size(); ++i) {
    variants.push_back({std::move(plans[i]), {}});
    for (const codegen::Object& object : objects[i]) variants.back().objects.push_back(object.bytes);
  }
  ISOMER_TRY(const compile::ModuleSize size, compile::write_module(path, variants));
  report.file_bytes = size.file;
  report.weight_bytes = size.weights;
  report.link_seconds = watch.lap();
  return report;
}

}  // namespace isomer::driver

#else

namespace isomer::driver {

Expected<CompileReport> compile_module(const ir::Graph&, const CompileOptions&, const std::string&) {
  return Diagnostic("E-no-compiler",
                    "This build of Isomer has no code generator; build it where LLVM 19 is installed.");
}

}  // namespace isomer::driver

#endif
