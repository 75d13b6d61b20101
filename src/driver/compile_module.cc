#include "driver/compile_module.h"

#if ISOMER_HAS_COMPILER

#include <fmt/format.h>

#include <algorithm>
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
  for (compile::Step& step : lowered.plan.steps)
    if (step.control == compile::Control::Kernel) step.function = prefix + step.function;
}

// What a user has to say before a module can be made.
Expected<void> check_sizes(const ir::Graph& graph) {
  std::vector<std::string> open;
  for (const ir::Node& n : graph.inputs()) {
    const Shape& shape = n.types[0].shape;
    if (!shape.has_rank())
      return Diagnostic("E-dynamic-dim",
                        fmt::format("input {} has no declared rank; give its shape with --shape {}:1x2x3",
                                    isomer::quoted(n.names[0]), printable(n.names[0])));
    for (const Dim& d : shape.dims())
      if (!d.is_const()) d.symbols(open);
  }
  if (open.empty()) return {};
  std::string options;
  for (size_t i = 0; i < open.size(); ++i)
    if (std::find(open.begin(), open.begin() + static_cast<ptrdiff_t>(i), open[i]) ==
        open.begin() + static_cast<ptrdiff_t>(i))
      options += fmt::format(" --dim {}=N", printable(open[i]));
  return Diagnostic("E-dynamic-dim",
                    fmt::format("a module has fixed sizes, and dimensions of the model are open; give{} (several "
                                "sizes in one module: N,M,...) or --shape",
                                options));
}

std::string sizes_text(const ir::Graph& graph) {
  std::string out;
  for (const ir::Node& n : graph.inputs())
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", printable(n.names[0]), n.types[0].to_string());
  return out;
}

// The plans and objects of one target at one set of sizes.
struct Built {
  compile::Plan plan;
  std::vector<codegen::Object> objects;
};

Expected<Built> build(const ir::Graph& prepared, const CompileOptions& options, loop::Target target,
                      const std::string& prefix, Stopwatch& watch, CompileReport& report) {
  compile::LowerOptions lower;
  lower.target = target;
  lower.winograd = lower.split = !options.strict;
  ISOMER_TRY(compile::Lowered lowered, compile::lower(prepared, ops::table(), lower));
  if (!prefix.empty()) rename(lowered, prefix);
  report.lower_seconds += watch.lap();
  if (!options.dump_dir.empty()) ISOMER_CHECK_OK(compile::dump_loops(lowered, options.dump_dir));
  codegen::Options code;
  code.threads = options.threads;
  code.dump_dir = options.dump_dir;
  ISOMER_TRY(auto emitted, codegen::emit_objects(lowered.functions, target, code));
  report.code_seconds += watch.lap();
  report.variants.push_back({target.name, "", lowered.plan.steps.size(), lowered.functions.size(),
                             lowered.plan.arena_bytes, lowered.least_arena_bytes});
  return Built{std::move(lowered.plan), std::move(emitted)};
}

}  // namespace

Expected<CompileReport> compile_module(const std::vector<ir::Graph>& sizes, const CompileOptions& options,
                                       const std::string& path) {
  CompileReport report;
  Stopwatch watch;
  std::vector<ir::Graph> prepared;
  for (const ir::Graph& graph : sizes) {
    ISOMER_CHECK_OK(check_sizes(graph));
    ISOMER_TRY(ir::Graph g, passes::run_pipeline(graph, ops::table(), options.pipeline));
    prepared.push_back(std::move(g));
  }
  report.pass_seconds = watch.lap();
  std::vector<Built> built;
  const bool several = options.targets.size() * sizes.size() > 1;
  for (const std::string& name : options.targets) {
    ISOMER_TRY(loop::Target target, target_of(name));
    // Where the module is refused later, "host" would say nothing.
    if (target.name == "host" && !target.cpu.empty()) target.name = target.cpu;
    for (size_t i = 0; i < sizes.size(); ++i) {
      const std::string prefix = several ? fmt::format("v{}_", built.size()) : "";
      ISOMER_TRY(Built one, build(prepared[i], options, target, prefix, watch, report));
      if (sizes.size() > 1) report.variants.back().sizes = sizes_text(sizes[i]);
      built.push_back(std::move(one));
    }
  }
  std::vector<compile::Variant> variants;
  for (Built& one : built) {
    variants.push_back({std::move(one.plan), {}});
    for (const codegen::Object& object : one.objects) variants.back().objects.push_back(object.bytes);
  }
  ISOMER_TRY(const compile::ModuleSize size, compile::write_module(path, variants, sizes.size()));
  report.file_bytes = size.file;
  report.weight_bytes = size.weights;
  report.link_seconds = watch.lap();
  return report;
}

}  // namespace isomer::driver

#else

namespace isomer::driver {

Expected<CompileReport> compile_module(const std::vector<ir::Graph>&, const CompileOptions&, const std::string&) {
  return Diagnostic("E-no-compiler",
                    "This build of Isomer has no code generator; build it where LLVM 19 is installed.");
}

}  // namespace isomer::driver

#endif
