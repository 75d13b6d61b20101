#include "interp/evaluate.h"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>

#include "interp/block_compile.h"

namespace isomer::interp {
namespace {

int64_t machine_memory() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? pages * page : int64_t{1} << 34;
}

}  // namespace

Session::Session(const Options& options) : options_(options), pool_(options.threads) {
  max_live_bytes_ = options.max_live_bytes > 0 ? options.max_live_bytes : machine_memory() / 4 * 3;
  if (options.max_seconds > 0)
    deadline_ =
        std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                               std::chrono::duration<double>(std::min(options.max_seconds, 1e9)));
}

bool Session::late() const { return deadline_ && std::chrono::steady_clock::now() >= *deadline_; }

Expected<void> Session::admit(const std::string& what, int64_t bytes) const {
  if (bytes > options_.max_value_bytes)
    return Diagnostic("E-too-large", fmt::format("{} takes {} bytes, more than the limit of {} for one value", what,
                                                 bytes, options_.max_value_bytes));
  if (bytes > max_live_bytes_ - std::min(live_bytes, max_live_bytes_))
    return Diagnostic("E-too-large", fmt::format("{} takes {} bytes beside {} bytes alive, more than the limit of {}",
                                                 what, bytes, live_bytes, max_live_bytes_));
  return {};
}

namespace {

Expected<Tensor> run_stage(const te::Stage& stage, const std::vector<const Tensor*>& slots, Session& session) {
  const Options& options = session.options();
  std::vector<int64_t> dims;
  for (const te::Axis& a : stage.axes) {
    if (!a.extent.is_const())
      return Diagnostic("E-eval", fmt::format("the extent {} is not known", a.extent.to_string()));
    dims.push_back(a.extent.value());
  }
  const DType storage = options.wide && stage.dtype == DType::F32 ? DType::F64 : stage.dtype;
  if (size_of(storage) == 0)
    return Diagnostic("E-eval", fmt::format("stage {} has no element type that can be computed", quoted(stage.name)));
  ISOMER_TRY(const int64_t elements, checked_elements(storage, dims));
  ISOMER_CHECK_OK(session.admit("stage " + quoted(stage.name), elements * static_cast<int64_t>(size_of(storage))));
  Tensor out(storage, dims);
  if (elements == 0) return out;
  ISOMER_TRY(const BlockProgram program, compile_stage(stage, dims, slots, {.round_f32 = !options.wide}));
  ISOMER_CHECK_OK(run_blocks(program, out, session.pool(), session.deadline()));
  return out;
}

}  // namespace

Expected<std::vector<Tensor>> evaluate(const te::Program& program, const std::vector<const Tensor*>& inputs,
                                       Session& session) {
  std::vector<const Tensor*> slots(inputs.begin(), inputs.end());
  slots.resize(program.inputs.size(), nullptr);
  std::vector<Tensor> results;
  results.reserve(program.stages.size());  // slots point into it
  const int64_t held = session.live_bytes;
  for (const te::Stage& stage : program.stages) {
    auto result = run_stage(stage, slots, session);
    if (!result.ok()) {
      session.live_bytes = held;
      return std::move(result).error();
    }
    results.push_back(*std::move(result));
    slots.push_back(&results.back());
    session.live_bytes += static_cast<int64_t>(results.back().byte_size());
  }
  session.live_bytes = held;
  std::vector<Tensor> out;
  for (int slot : program.outputs) {
    const Tensor* t = slots[static_cast<size_t>(slot)];
    if (!t) return Diagnostic("E-eval", "a program gives back an input that is absent");
    out.push_back(*t);
  }
  return out;
}

Expected<std::vector<Tensor>> evaluate(const te::Program& program, const std::vector<const Tensor*>& inputs,
                                       const Options& options) {
  Session session(options);
  return evaluate(program, inputs, session);
}

}  // namespace isomer::interp
