#include "compile/host_program.h"

#include <cstring>
#include <deque>
#include <utility>

#include "compile/arena.h"
#include "runtime/cpu.h"
#include "runtime/memory.h"

namespace isomer::compile {

namespace {

uint64_t padded_size(const Weight& weight) { return rounded_up(weight.size + ISO_SLACK); }

}  // namespace

struct HostProgram::Tables {
  // Memory from the system, in large pages where it is large.
  class Mapped {
   public:
    Mapped() = default;
    ~Mapped() { iso_unmap(memory_, size_); }
    Mapped(const Mapped&) = delete;
    Mapped& operator=(const Mapped&) = delete;
    std::byte* allocate(uint64_t size) {
      size_ = size;
      memory_ = iso_map(size);
      return static_cast<std::byte*>(memory_);
    }

   private:
    void* memory_ = nullptr;
    uint64_t size_ = 0;
  };

  Plan plan;
  std::string features;
  std::vector<iso_tensor> inputs, outputs;
  std::vector<iso_step> steps;
  std::deque<std::string> texts;
  std::deque<std::vector<iso_place>> places;
  std::deque<std::vector<iso_range>> ranges;
  std::vector<uint64_t> run_dims;
  Mapped copies;
  std::vector<const std::byte*> weights;
  iso_program program{};

  Expected<void> load_weights();
  Expected<void> add_step(const Step& step, const Lookup& lookup);
  Expected<iso_place> place(const Place& place, const Step& step) const;
  void finish();
};

namespace {

iso_tensor tensor_of(const Port& port) {
  return {port.name.c_str(),
          onnx_number(port.dtype),
          static_cast<int32_t>(port.dims.size()),
          port.dims.data(),
          port.byte_size(),
          port.alignment ? port.alignment : static_cast<uint32_t>(size_of(port.dtype)),
          port.slack,
          port.run_dims ? 1U : 0U};
}

}  // namespace

Expected<void> HostProgram::Tables::load_weights() {
  uint64_t size = 0;
  for (const Weight& weight : plan.weights) size += weight.padded ? 0 : padded_size(weight);
  std::byte* next = size ? copies.allocate(size) : nullptr;
  if (size && !next) return Diagnostic("E-memory", "There is no memory for the model's weights.");
  for (Weight& weight : plan.weights) {
    if (weight.padded) {
      weights.push_back(weight.bytes.get());
      continue;
    }
    weights.push_back(next);
    if (weight.size) std::memcpy(next, weight.bytes.get(), weight.size);
    next += padded_size(weight);
    weight.bytes.reset();  // the copy is the weight now
  }
  return {};
}

Expected<iso_place> HostProgram::Tables::place(const Place& at, const Step& step) const {
  switch (at.space) {
    case Space::Arena: return iso_place{ISO_IN_ARENA, 0, at.offset};
    case Space::Input: return iso_place{ISO_IN_INPUT, at.index, at.offset};
    case Space::Output: return iso_place{ISO_IN_OUTPUT, at.index, at.offset};
    case Space::Address: return iso_place{ISO_AT_ADDRESS, 0, at.offset};
    case Space::Weight: break;
  }
  if (at.index >= weights.size() || at.offset > plan.weights[at.index].size) {
    return Diagnostic("E-plan",
                      "The kernel " + isomer::quoted(step.function) + " reads a weight that the plan does not have.");
  }
  return iso_place{ISO_AT_ADDRESS, 0, reinterpret_cast<uintptr_t>(weights[at.index]) + at.offset};
}

Expected<void> HostProgram::Tables::add_step(const Step& step, const Lookup& lookup) {
  const bool runs = step.control == Control::Kernel;
  const iso_kernel kernel = runs ? lookup(step.function) : nullptr;
  if (runs && !kernel)
    return Diagnostic("E-plan", "The kernel " + isomer::quoted(step.function) + " of the plan was not compiled.");
  std::vector<iso_place>& arguments = places.emplace_back();
  for (const Place& at : step.arguments) {
    ISOMER_TRY(const iso_place resolved, place(at, step));
    arguments.push_back(resolved);
  }
  std::vector<iso_range>& freed = ranges.emplace_back();
  for (const Range& range : step.freed) freed.push_back({range.offset, range.bytes});
  const std::string& origin = texts.emplace_back(origin_text(step.origin));
  steps.push_back({kernel, step.function.c_str(), origin.c_str(), arguments.data(), freed.data(),
                   static_cast<uint32_t>(arguments.size()), static_cast<uint32_t>(freed.size()), step.tasks,
                   step.scratch_bytes, step.flops, step.bytes, static_cast<uint32_t>(step.control), step.target,
                   step.backward ? 1U : 0U});
  return {};
}

void HostProgram::Tables::finish() {
  for (const Port& port : plan.inputs) inputs.push_back(tensor_of(port));
  for (const Port& port : plan.outputs) {
    outputs.push_back(tensor_of(port));
    run_dims.push_back(port.run_dims.value_or(UINT64_MAX));
  }
  program.run_dims = run_dims.data();
  features = feature_text(plan.target);
  program.abi_version = ISO_ABI_VERSION;
  program.model = plan.model.c_str();
  program.target = plan.target.name.c_str();
  program.features = features.c_str();
  program.inputs = inputs.data();
  program.input_count = static_cast<uint32_t>(inputs.size());
  program.outputs = outputs.data();
  program.output_count = static_cast<uint32_t>(outputs.size());
  program.steps = steps.data();
  program.step_count = static_cast<uint32_t>(steps.size());
  program.arena_bytes = plan.arena_bytes;
  program.scratch_bytes = plan.scratch_bytes();
}

Expected<std::unique_ptr<HostProgram>> HostProgram::make(Plan plan, const Lookup& lookup) {
  auto tables = std::make_unique<Tables>();
  tables->plan = std::move(plan);
  ISOMER_CHECK_OK(tables->load_weights());
  for (const Step& step : tables->plan.steps) ISOMER_CHECK_OK(tables->add_step(step, lookup));
  tables->finish();
  return std::unique_ptr<HostProgram>(new HostProgram(std::move(tables)));
}

HostProgram::HostProgram(std::unique_ptr<Tables> tables) : tables_(std::move(tables)) {}
HostProgram::~HostProgram() = default;
const iso_program* HostProgram::get() const { return &tables_->program; }
const Plan& HostProgram::plan() const { return tables_->plan; }

std::string origin_text(const std::vector<std::string>& origin) {
  std::string text;
  for (const std::string& node : origin) text += (text.empty() ? "" : ", ") + node;
  return text;
}

std::string feature_text(const loop::Target& target) {
  const uint32_t machine = target.arch == loop::Arch::X86_64 ? ISO_MACHINE_X86_64 : ISO_MACHINE_AARCH64;
  std::string text;
  for (const std::string& feature : target.features) {
    if (!iso_knows_feature(machine, feature.c_str(), feature.size())) continue;
    text += (text.empty() ? "" : ",") + feature;
  }
  return text;
}

}  // namespace isomer::compile
