// Native code of random schedules of random programs: loops of all kinds, locals, scratch, guards and tiles together.
#include <gtest/gtest.h>

#include "test/loop_programs.h"
#include "test/narrower_targets.h"
#include "test/random_schedule.h"
#include "test/run_kernel.h"

namespace isomer::codegen {
namespace {

using loop::Kernel;
using loop::Schedule;

// What is wrong with the code of the kernels, or nothing.
std::string problem(const te::Program& p, const loop::Nest& nest, const std::optional<loop::Target>& target) {
  Random r(1);
  const std::vector<Tensor> inputs = loop::random_inputs(p, r);
  const auto kernels = loop::finish_all(nest, "k");
  if (!kernels.ok()) return kernels.error().to_string();
  std::vector<Tensor> values;
  for (size_t b = 0; b < nest.buffers.size(); ++b)
    values.push_back(b < inputs.size() ? inputs[b] : Tensor(nest.buffers[b].dtype, nest.buffers[b].dims));
  std::string text;
  for (const Kernel& k : *kernels) {
    text += loop::print(k.function);
    std::vector<Tensor> arguments;
    for (const int a : k.arguments) arguments.push_back(values[static_cast<size_t>(a)]);
    const KernelRun run = run_kernel(k.function, arguments, {}, target);
    if (run.status != 0) return "status " + std::to_string(run.status) + "\n" + text;
    for (size_t i = 0; i < run.arguments.size(); ++i) values[static_cast<size_t>(k.arguments[i])] = run.arguments[i];
  }
  const std::vector<Tensor> want = loop::reference(p, inputs);
  for (size_t i = 0; i < want.size(); ++i) {
    const Tensor& got = values[static_cast<size_t>(nest.inputs) + i];
    if (const std::string d = loop::difference(got, want[i]); !d.empty()) return d + "\n" + text;
  }
  return "";
}

void run_cases(uint64_t seed, uint64_t cases, const std::optional<loop::Target>& target = {}) {
  for (uint64_t c = 0; c < cases; ++c) {
    Random r(seed + c);
    const std::string text = loop::ProgramMaker(r).text();
    const te::Program p = loop::parsed(text);
    const auto nest = loop::nest_of(p);
    ASSERT_TRUE(nest.ok()) << nest.error().to_string();
    Schedule s(*nest, loop::random_schedule_intrinsics());
    const int steps = static_cast<int>(r.between(1, 25));
    for (int k = 0; k < steps; ++k) {
      const std::string line = loop::StepMaker(r, s).step(k);
      if (!line.empty()) (void)s.apply(line);
    }
    const std::string wrong = problem(p, s.nest(), target);
    ASSERT_TRUE(wrong.empty()) << "seed " << seed + c << "\n" << text << "\n" << s.text() << "\n" << wrong;
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed + c << "\n" << text << "\n" << s.text();
  }
}

TEST(CodegenSchedule, RandomSchedulesKeepTheValue) { run_cases(500000, 80); }
TEST(CodegenSchedule, OnNarrowerTargets) {
  testing::on_narrower_targets([](const loop::Target& target) { run_cases(600000, 30, target); });
}

}  // namespace
}  // namespace isomer::codegen
