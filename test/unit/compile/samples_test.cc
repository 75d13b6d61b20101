// Every operator's samples as compiled code beside the interpreter. What a module cannot hold is listed here, by name.
#include <memory>
#include <set>

#include "ir/sample.h"
#include "passes/manager.h"
#include "tensor/compare.h"
#include "test/unit/compile/compiled.h"

namespace isomer {
namespace {

const std::set<std::string> kRefused = {};

std::string fault(const ir::Sample& s, std::shared_ptr<const compile::Executable> made) {
  const auto want = interp::run(s.graph, ops::table(), s.inputs);
  if (!want.ok()) return "does not run: " + want.error().to_string();
  auto runner = compile::Runner::make(std::move(made), 2, ISO_POISON);
  if (!runner.ok()) return runner.error().to_string();
  const auto got = runner->run(s.inputs);
  if (!got.ok()) return "does not run compiled: " + got.error().to_string();
  for (size_t k = 0; k < want->size(); ++k) {
    if ((*want)[k].dtype() != (*got)[k].dtype()) return "has another type";
    const Comparison c = compare((*got)[k], (*want)[k], {.absolute = 1e-5, .relative = 2e-3});
    if (!c.ok()) return c.to_string();
  }
  return {};
}

TEST(CompiledSamples, GiveTheInterpretersResults) {
  const auto target = codegen::host_target();
  ASSERT_TRUE(target.ok());
  size_t compiled = 0;
  std::set<std::string> refused;
  for (const ir::OpDef& op : ops::table().records())
    for (const std::string& text : op.samples) {
      const auto s = ir::make_sample(text, ops::table(), 7);
      ASSERT_TRUE(s.ok()) << text;
      auto passed = passes::run_pipeline(s->graph, ops::table(), "module");
      ASSERT_TRUE(passed.ok()) << text << ": " << passed.error().to_string();
      compile::ExecutableOptions options;
      options.lower.target = *target;
      options.lower.bounded = true;
      const auto made = compile::Executable::build(*passed, ops::table(), options);
      if (!made.ok()) {
        EXPECT_TRUE(kRefused.contains(op.name)) << text << ": " << made.error().to_string();
        refused.insert(op.name);
        continue;
      }
      ++compiled;
      EXPECT_EQ(fault(*s, *made), "") << text;
    }
  EXPECT_EQ(refused, kRefused);
  std::printf("%zu samples compiled, %zu operators refused\n", compiled, refused.size());
}

}  // namespace
}  // namespace isomer
