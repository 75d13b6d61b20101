// The ONNX project's own models, among them the decompositions of its functions, give the same results after the passes.
#include "passes/manager.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "driver/inputs.h"
#include "driver/model.h"
#include "interp/interp.h"
#include "ops/table.h"
#include "tensor/compare.h"

namespace isomer {
namespace {

namespace fs = std::filesystem;

std::set<std::string> cases() {
  std::set<std::string> out;
#ifdef ISOMER_ONNX_TESTDATA
  for (const char* kind : {"node", "simple", "pytorch-operator", "pytorch-converted"}) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(fs::path(ISOMER_ONNX_TESTDATA) / kind, error))
      if (fs::exists(entry.path() / "model.onnx")) out.insert(entry.path().string());
  }
#endif
  return out;
}

// The case's inputs; nothing where some are of a kind that Isomer does not read.
std::optional<std::vector<Tensor>> inputs_of(const std::string& folder, const ir::Graph& g) {
  auto set = driver::load_data_set(folder + "/test_data_set_0", g.input_count());
  if (!set.ok()) return std::nullopt;
  std::vector<Tensor> out;
  for (auto& t : set->inputs) {
    if (!t) return std::nullopt;
    out.push_back(*std::move(t));
  }
  return out;
}

// Whether the case could be run at all; compares its results before and after the passes.
bool compare_case(const std::string& folder, const std::string& pipeline) {
  const auto model = driver::load_model(folder + "/model.onnx");
  if (!model.ok()) return false;
  for (const ir::Node& n : model->graph.nodes())
    if (!n.op->pure) return false;
  passes::Options options;
  options.verify = true;
  const auto after = passes::run_pipeline(model->graph, ops::table(), pipeline, options);
  EXPECT_TRUE(after.ok()) << folder << ": " << after.error().to_string();
  const auto inputs = inputs_of(folder, model->graph);
  if (!after.ok() || !inputs) return false;
  const auto expected = interp::run(model->graph, ops::table(), *inputs),
             found = interp::run(*after, ops::table(), *inputs);
  EXPECT_EQ(expected.ok(), found.ok()) << folder << ": " << (expected.ok() ? found : expected).error().to_string();
  if (!expected.ok() || !found.ok()) return false;
  for (size_t i = 0; i < found->size(); ++i) {
    const Comparison c = compare((*found)[i], (*expected)[i], {.absolute = 1e-5, .relative = 1e-4});
    EXPECT_TRUE(c.ok()) << folder << ", output " << i << ": " << c.to_string();
  }
  return true;
}

TEST(OnnxModels, KeepTheirResultsThroughThePasses) {
  const std::set<std::string> all = cases();
  if (all.empty()) FAIL() << "the ONNX test data is missing; configure with -DISOMER_ONNX_TESTDATA=FOLDER";
  for (const char* pipeline : {"inference", "composites"}) {
    int64_t ran = 0;
    for (const std::string& folder : all) ran += compare_case(folder, pipeline);
    EXPECT_GT(ran, 800) << "of " << all.size() << " cases";
  }
}

}  // namespace
}  // namespace isomer
