#include "compile/executable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <utility>

#include "codegen/codegen.h"
#include "compile/host_program.h"
#include "compile/kernel_code.h"

namespace isomer::compile {

using CodeByName = std::map<std::string, Code, std::less<>>;

struct Executable::Impl {
  CodeByName code;
  std::unique_ptr<HostProgram> program;
  iso_model* model = nullptr;
  uint64_t least_arena_bytes = 0;
  size_t functions = 0;
};

Executable::Executable(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Executable::~Executable() {
  if (impl_) iso_close(impl_->model, nullptr);
}

const Plan& Executable::plan() const { return impl_->program->plan(); }
uint64_t Executable::least_arena_bytes() const { return impl_->least_arena_bytes; }
size_t Executable::function_count() const { return impl_->functions; }

namespace {

// Of a buffer that is as large as an output can be, what a run gave.
Tensor first_elements(const Tensor& all, const std::vector<int64_t>& dims) {
  Tensor out(all.dtype(), dims);
  if (out.byte_size() > 0) std::memcpy(out.mutable_bytes(), all.bytes(), out.byte_size());
  return out;
}

Diagnostic failure(const iso_error& error) { return {"E-run", error.message}; }

void add_watch(Plan& plan, const Watch& watch) {
  constexpr double kFlops = 50e9, kBytes = 10e9;  // per second: about what kernels reach
  const bool jumps =
      std::any_of(plan.steps.begin(), plan.steps.end(), [](const Step& s) { return s.control != Control::Kernel; });
  if (!watch.kernel || jumps) return;
  Step look;
  look.function = kWatchStep;
  look.arguments = {{Space::Address, 0, reinterpret_cast<uintptr_t>(watch.argument)}};
  look.tasks = watch.tasks;
  std::vector<Step> steps;
  double since = 0;
  for (Step& s : plan.steps) {
    if (!steps.empty() && since >= watch.seconds) {
      steps.push_back(look);
      since = 0;
    }
    since += std::max(s.flops / kFlops, s.bytes / kBytes);
    steps.push_back(std::move(s));
  }
  plan.steps = std::move(steps);
}

Expected<CodeByName> made_now(const Lowered& lowered, const ExecutableOptions& options) {
  codegen::Options how;
  how.wide = options.wide;
  how.threads = options.compile_threads;
  how.dump_dir = options.dump_dir;
  ISOMER_TRY(const std::vector<codegen::Object> objects,
             codegen::emit_objects(lowered.functions, options.lower.target, how));
  ISOMER_TRY(codegen::Jit loaded, codegen::Jit::load(objects));
  const auto jit = std::make_shared<const codegen::Jit>(std::move(loaded));
  CodeByName out;
  for (const loop::Function& f : lowered.functions)
    out[f.name] = {jit, reinterpret_cast<iso_kernel>(jit->find(f.name))};
  return out;
}

Expected<CodeByName> code_of(const Lowered& lowered, const ExecutableOptions& options) {
  if (!options.code || options.wide || !options.dump_dir.empty()) return made_now(lowered, options);
  std::vector<KernelCode::Wanted> wanted;
  for (size_t i = 0; i < lowered.functions.size(); ++i)
    wanted.push_back({&lowered.functions[i], lowered.signatures[i]});
  const std::vector<Expected<Code>> codes = options.code->of(wanted, options.compile_threads);
  CodeByName out;
  for (size_t i = 0; i < codes.size(); ++i) {
    if (!codes[i].ok()) return made_now(lowered, options);  // it may be another one's fault: some are made together
    out[lowered.functions[i].name] = *codes[i];
  }
  return out;
}

}  // namespace

Expected<std::shared_ptr<const Executable>> Executable::build(const ir::Graph& graph, const ir::OpTable& table,
                                                              const ExecutableOptions& options) {
  ISOMER_TRY(Lowered lowered, lower(graph, table, options.lower));
  if (!options.dump_dir.empty()) ISOMER_CHECK_OK(dump_loops(lowered, options.dump_dir));
  ISOMER_TRY(CodeByName code, code_of(lowered, options));
  auto impl = std::make_unique<Impl>(
      Impl{std::move(code), nullptr, nullptr, lowered.least_arena_bytes, lowered.functions.size()});
  add_watch(lowered.plan, options.watch);
  ISOMER_TRY(impl->program, HostProgram::make(std::move(lowered.plan), [&](std::string_view name) {
               if (name == kWatchStep) return options.watch.kernel;
               const auto it = impl->code.find(name);
               return it == impl->code.end() ? nullptr : it->second.entry;
             }));
  iso_error error;
  impl->model = iso_open_program(impl->program->get(), &error);
  if (!impl->model) return failure(error);
  return std::shared_ptr<const Executable>(new Executable(std::move(impl)));
}

Runner::Runner(std::shared_ptr<const Executable> executable, iso_context* context)
    : executable_(std::move(executable)), context_(context) {}
Runner::Runner(Runner&& o) noexcept
    : executable_(std::move(o.executable_)),
      context_(std::exchange(o.context_, nullptr)),
      threads_(std::move(o.threads_)) {}
Runner& Runner::operator=(Runner&& o) noexcept {
  std::swap(executable_, o.executable_);
  std::swap(context_, o.context_);
  std::swap(threads_, o.threads_);
  return *this;
}
Runner::~Runner() { iso_free_context(context_, nullptr); }

Expected<Runner> Runner::make(std::shared_ptr<const Executable> executable, int threads, uint32_t flags) {
  iso_error error;
  iso_context* context = iso_new_context(executable->impl_->model, threads, flags, &error);
  if (!context) return failure(error);
  return Runner(std::move(executable), context);
}

Expected<Runner> Runner::make(std::shared_ptr<const Executable> executable, std::shared_ptr<Threads> threads,
                              uint32_t flags) {
  ISOMER_TRY(Runner runner, make(std::move(executable), threads->count(), flags | ISO_LENT_THREADS));
  runner.threads_ = std::move(threads);
  return runner;
}

Expected<std::vector<Tensor>> Runner::run(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> outputs;
  for (const Port& p : executable_->plan().outputs) {
    ISOMER_CHECK_OK(checked_elements(p.dtype, p.dims));
    outputs.emplace_back(p.dtype, p.dims);
  }
  ISOMER_CHECK_OK(run_into(inputs, outputs));
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (!executable_->plan().outputs[k].run_dims) continue;
    std::vector<int64_t> dims(outputs[k].rank());
    iso_output_dims(context_, static_cast<uint32_t>(k), dims.data(), nullptr);
    outputs[k] = first_elements(outputs[k], dims);
  }
  return outputs;
}

Expected<void> Runner::run_into(const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs) {
  std::vector<iso_buffer> in, out;
  for (const Tensor& t : inputs) {
    iso_buffer b = {};
    b.data = const_cast<std::byte*>(t.bytes());  // inputs are never written
    b.bytes = t.byte_size();
    b.dims = t.dims().data();
    b.rank = static_cast<int32_t>(t.rank());
    b.dtype = onnx_number(t.dtype());
    in.push_back(b);
  }
  for (Tensor& t : outputs) {
    iso_buffer b = {};
    b.data = t.mutable_bytes();
    b.bytes = t.byte_size();
    out.push_back(b);
  }
  iso_error error;
  iso_pool* pool = nullptr;
  if (threads_) {
    ISOMER_TRY(pool, threads_->take());
    iso_lend_threads(context_, pool);
  }
  const int code = iso_run(context_, in.data(), static_cast<uint32_t>(in.size()), out.data(),
                           static_cast<uint32_t>(out.size()), &error);
  if (threads_) {
    iso_lend_threads(context_, nullptr);
    threads_->give(pool);
  }
  if (code != ISO_OK) return failure(error);
  return {};
}

std::vector<iso_profile> Runner::profile() const {
  std::vector<iso_profile> out;
  iso_profile p;
  for (uint32_t s = 0; s < executable_->plan().steps.size(); ++s)
    if (iso_step_profile(context_, s, &p, nullptr) == ISO_OK) out.push_back(p);
  return out;
}

}  // namespace isomer::compile
