#include "driver/compile_module.h"

#if ISOMER_HAS_COMPILER

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <utility>

#include "codegen/codegen.h"
#include "compile/compose.h"
#include "compile/lower.h"
#include "compile/module.h"
#include "driver/module_file.h"
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

// An `if` is a branch where both sides can be compiled as they are; a selection between both results is the second choice.
Expected<ir::Graph> passed(const ir::Graph& graph, const CompileOptions& options) {
  ISOMER_TRY(ir::Graph g, passes::run_pipeline(graph, ops::table(), options.pipeline));
  const bool branches =
      std::any_of(g.nodes().begin(), g.nodes().end(), [](const ir::Node& n) { return compile::is_control_flow(n); });
  if (options.pipeline != "inference" || !branches || compile::can_lower(g, ops::table()).ok()) return g;
  return passes::run_pipeline(graph, ops::table(), "module");
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

Expected<Built> build(const ir::Graph& prepared, const CompileOptions& options, const compile::Rounding& allowed,
                      const loop::Target& target, const std::string& prefix, Stopwatch& watch, CompileReport& report) {
  compile::LowerOptions lower;
  lower.target = target;
  lower.winograd = allowed.filtering;
  lower.split = allowed.split;
  lower.bounded = true;
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

Expected<std::vector<Built>> build_all(const std::vector<ir::Graph>& sizes, const std::vector<ir::Graph>& prepared,
                                       const std::vector<loop::Target>& targets, const CompileOptions& options,
                                       const compile::Rounding& allowed, Stopwatch& watch, CompileReport& report) {
  std::vector<Built> built;
  report.variants.clear();
  for (const loop::Target& target : targets)
    for (size_t i = 0; i < sizes.size(); ++i) {
      const std::string prefix = targets.size() * sizes.size() > 1 ? fmt::format("v{}_", built.size()) : "";
      ISOMER_TRY(Built one, build(prepared[i], options, allowed, target, prefix, watch, report));
      if (sizes.size() > 1) report.variants.back().sizes = sizes_text(sizes[i]);
      built.push_back(std::move(one));
    }
  return built;
}

compile::Rounding used_by(const std::vector<Built>& built) {
  compile::Rounding all;
  for (const Built& one : built) {
    all.split |= one.plan.rounding.split;
    all.filtering |= one.plan.rounding.filtering;
  }
  return all;
}

Expected<void> write(std::vector<Built> built, size_t sizes, const std::string& path, CompileReport& report) {
  std::vector<compile::Variant> variants;
  for (Built& one : built) {
    variants.push_back({std::move(one.plan), {}});
    for (const codegen::Object& object : one.objects) variants.back().objects.push_back(object.bytes);
  }
  ISOMER_TRY(const compile::ModuleSize size, compile::write_module(path, variants, sizes));
  report.file_bytes = size.file;
  report.weight_bytes = size.weights;
  return {};
}

// The file itself beside the strict form of the model, at all of its sizes. The trial of the first is on its way.
Expected<double> tried(const std::string& path, const std::vector<ir::Graph>& prepared, std::unique_ptr<Trial> trial,
                       const CompileOptions& options) {
  ISOMER_TRY(const std::shared_ptr<const ModuleFile> file, ModuleFile::open(path));
  ISOMER_TRY(ModuleRun run, ModuleRun::make(file, options.threads));
  double most = 0;
  for (const ir::Graph& graph : prepared) {
    if (!trial) trial = std::make_unique<Trial>(graph, options.threads, options.threads);
    ISOMER_TRY(const std::vector<Tensor> inputs, trial->inputs());
    ISOMER_TRY(const std::vector<Tensor> outputs, run.run(inputs));
    ISOMER_TRY(const double difference, trial->difference(outputs));
    most = std::max(most, difference);
    trial = nullptr;
  }
  return most;
}

}  // namespace

Expected<CompileReport> compile_module(const std::vector<ir::Graph>& sizes, const CompileOptions& options,
                                       const std::string& path) {
  CompileReport report;
  Stopwatch watch;
  std::vector<ir::Graph> prepared;
  for (const ir::Graph& graph : sizes) {
    ISOMER_CHECK_OK(check_sizes(graph));
    ISOMER_TRY(ir::Graph g, passed(graph, options));
    prepared.push_back(std::move(g));
  }
  report.pass_seconds = watch.lap();
  ISOMER_TRY(const loop::Target host, codegen::host_target());
  std::vector<loop::Target> targets;
  for (const std::string& name : options.targets) {
    ISOMER_TRY(loop::Target target, target_of(name));
    // Where the module is refused later, "host" would say nothing.
    if (target.name == "host" && !target.cpu.empty()) target.name = target.cpu;
    targets.push_back(std::move(target));
  }
  RoundingChoice choice(prepared[0], options.accuracy);
  for (bool good = false; !good;) {
    ISOMER_TRY(std::vector<Built> built, build_all(sizes, prepared, targets, options, choice.allowed(), watch, report));
    good = choice.settled(used_by(built));
    std::unique_ptr<Trial> trial;
    if (!good && targets[0].arch != host.arch) {
      choice.cannot_try(fmt::format("code for {} does not run here", targets[0].name));
      good = true;
    }
    if (!good) trial = std::make_unique<Trial>(prepared[0], options.threads, options.threads);
    ISOMER_CHECK_OK(write(std::move(built), sizes.size(), path, report));
    report.link_seconds += watch.lap();
    if (good) break;
    good = choice.accept(tried(path, prepared, std::move(trial), options));
    if (!good) std::filesystem::remove(path);
    report.trial_seconds += watch.lap();
  }
  report.accuracy = choice.facts();
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
