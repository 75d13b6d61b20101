#include "passes/manager.h"

#include <filesystem>

#include "passes/bisect.h"
#include "test/unit/passes/before_after.h"

namespace isomer::testing {
namespace {

const char* const kScaled = R"((%x: f32[1,2,2]) {
  %one = add(const f32[] 0.5, const f32[] 0.5)
  %h = identity(conv(%x, const f32[2,2,1] [1,2,3,4]))
  return "y"=mul(add(%h, %one), const f32[] 2)
})";

TEST(Manager, TheTableIsSortedAndEveryPipelineNamesPassesOfIt) {
  const auto all = passes::table();
  for (size_t i = 1; i < all.size(); ++i) EXPECT_LT(all[i - 1].name, all[i].name);
  for (const passes::Pass& p : all) {
    EXPECT_EQ(passes::find(p.name), &p);
    EXPECT_TRUE(p.doc.ends_with('.')) << p.name;
  }
  for (const passes::Pipeline& p : passes::pipelines())
    for (const passes::Step& s : p.steps)
      for (const std::string& name : s.passes) EXPECT_NE(passes::find(name), nullptr) << name;
}

TEST(Manager, UnknownNamesAreDiagnostics) {
  const ir::Graph g = graph_of(kScaled);
  EXPECT_EQ(passes::parse_passes("fold_constants,nonsense").error().code, "E-pass");
  EXPECT_EQ(passes::find_pipeline("nonsense").error().code, "E-pass");
  passes::Options options;
  options.disabled = {"nonsense"};
  EXPECT_EQ(passes::run_pipeline(g, ops::table(), "inference", options).error().code, "E-pass");
}

TEST(Manager, ADisabledPassDoesNotRun) {
  const auto g = passes::run_pipeline(graph_of(kScaled), ops::table(), "inference", {.disabled = {"fold_scale"}});
  ASSERT_TRUE(g.ok());
  EXPECT_EQ(count(*g, "mul"), 1);
  EXPECT_EQ(count(*g, "identity"), 0);
}

TEST(Manager, ARunStopsAfterSoManyApplications) {
  const ir::Graph g = graph_of(kScaled);
  const auto steps = *passes::find_pipeline("inference");
  const auto whole = passes::run(g, ops::table(), steps);
  ASSERT_TRUE(whole.ok());
  ASSERT_GE(whole->applications, 3);
  for (int64_t n = 0; n <= whole->applications; ++n) {
    const auto part = passes::run(g, ops::table(), steps, {.verify = true, .stop_after = n});
    ASSERT_TRUE(part.ok()) << part.error().to_string();
    EXPECT_EQ(part->applications, n);
    expect_same_function(part->graph, g);
  }
}

TEST(Manager, ReportsSayWhatChanged) {
  const auto r = passes::run(graph_of(kScaled), ops::table(), *passes::parse_passes("simplify_inference,dead_code"));
  ASSERT_TRUE(r.ok());
  ASSERT_EQ(r->reports.size(), 2u);
  EXPECT_TRUE(r->reports[0].changed);
  EXPECT_EQ(r->reports[0].before.at("identity"), 1);
  EXPECT_EQ(r->reports[0].after.count("identity"), 0u);
  EXPECT_FALSE(r->reports[1].changed);
}

TEST(Manager, DumpsTheTextBeforeAndAfterEachChange) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "isomer_manager_test";
  std::filesystem::remove_all(folder);
  const auto r = passes::run(graph_of(kScaled), ops::table(), *passes::parse_passes("simplify_inference,dead_code"),
                             {.dump = folder.string()});
  ASSERT_TRUE(r.ok()) << r.error().to_string();
  EXPECT_TRUE(std::filesystem::exists(folder / "00_simplify_inference.before.iso"));
  EXPECT_TRUE(std::filesystem::exists(folder / "00_simplify_inference.after.iso"));
  EXPECT_FALSE(std::filesystem::exists(folder / "01_dead_code.before.iso"));
  std::filesystem::remove_all(folder);
}

TEST(Manager, BisectingFindsTheApplicationThatOverstepsTheTolerance) {
  const ir::Graph g = graph_of(
      "(%x: f32[2,3]) { return \"y\"=matmul(mul(relu(identity(%x)), const f32[] 0.1), "
      "const f32[3,2] [0.3,0.7,0.9,0.11,0.13,0.17]) }");
  const auto steps = *passes::parse_passes("simplify_inference,fold_scale");
  // Rounding is the only difference there is: nothing at a real tolerance, the fold at none.
  const auto none = passes::bisect(g, ops::table(), steps, {}, random_inputs(g), 1e-4);
  ASSERT_TRUE(none.ok()) << none.error().to_string();
  EXPECT_FALSE(none->has_value());
  const auto found = passes::bisect(g, ops::table(), steps, {}, random_inputs(g), 0);
  ASSERT_TRUE(found.ok()) << found.error().to_string();
  ASSERT_TRUE(found->has_value());
  EXPECT_EQ((*found)->pass, "fold_scale");
  EXPECT_EQ((*found)->application, 2);
}

}  // namespace
}  // namespace isomer::testing
