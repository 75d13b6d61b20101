// Random schedules on random programs keep the value. Steps are drawn blindly from the names that are there; those that
// a schedule declines are skipped, all others must leave loops that compute what te says. A failing schedule is
// shrunk by leaving out lines. ISOMER_SEED and ISOMER_CASES override the seed and the number of cases.
#include "loop/schedule.h"

#include <cstdlib>
#include <sstream>

#include "test/loop_programs.h"
#include "test/random_schedule.h"
#include "test/setting.h"

namespace isomer::loop {
namespace {

Names lines_of(const std::string& text) {
  Names out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

// What is wrong with the steps; those that are declined are left out.
std::string problem(const te::Program& p, const Names& steps) {
  Schedule s(*nest_of(p), random_schedule_intrinsics());
  for (const std::string& line : steps) (void)s.apply(line);
  return check_nest(p, s.nest());
}

Names shrunk(const te::Program& p, Names steps) {
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (size_t k = steps.size(); k-- > 0;) {
      Names fewer = steps;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(k));
      if (problem(p, fewer).empty()) continue;
      steps = std::move(fewer);
      smaller = true;
    }
  }
  return steps;
}

TEST(ScheduleProperty, RandomSchedulesKeepTheValue) {
  const uint64_t seed = testing::setting("ISOMER_SEED", 20261115);
  const uint64_t cases = testing::setting("ISOMER_CASES", 400);
  RecordProperty("seed", std::to_string(seed));
  std::map<std::string, int> accepted;
  for (uint64_t c = 0; c < cases; ++c) {
    Random r(seed + c);
    const std::string text = ProgramMaker(r).text();
    const te::Program p = parsed(text);
    const auto nest = nest_of(p);
    ASSERT_TRUE(nest.ok()) << nest.error().to_string();
    Schedule s(*nest, random_schedule_intrinsics());
    const int steps = static_cast<int>(r.between(1, 25));
    for (int k = 0; k < steps; ++k) {
      const std::string line = StepMaker(r, s).step(k);
      if (line.empty()) continue;
      const bool look = r.flip(0.1);
      const std::string before = look ? print(s.nest()) + s.text() : "";
      if (const Decision d = s.apply(line)) {
        ++accepted[line.substr(0, line.find(' '))];
      } else {
        ASSERT_NE(std::string(d.reason()), "") << line;
        if (look) {
          ASSERT_EQ(print(s.nest()) + s.text(), before) << "a declined step left a trace: " << line;
        }
      }
    }
    const auto again = replay(*nest, s.text(), random_schedule_intrinsics());
    ASSERT_TRUE(again.ok()) << again.error().to_string() << "\n" << s.text();
    ASSERT_EQ(print(again->nest()), print(s.nest())) << "replayed otherwise, seed " << seed + c << "\n" << s.text();
    if (problem(p, lines_of(s.text())).empty()) continue;
    const Names few = shrunk(p, lines_of(s.text()));
    std::string steps_text;
    for (const std::string& l : few) steps_text += l + "\n";
    FAIL() << "ISOMER_SEED=" << seed + c << " ISOMER_CASES=1\n"
           << text << "\n"
           << steps_text << "\n"
           << problem(p, few);
  }
  for (const auto& [name, count] : accepted) RecordProperty(name, count);
  if (cases < 100) return;
  for (const char* name : {"split", "fuse", "reorder", "vectorize", "unroll", "parallel", "compute_at",
                           "reverse_compute_at", "compute_inline", "cache_read", "cache_write", "rfactor",
                           "decompose_reduction", "transform_layout", "tensorize", "prefetch"})
    EXPECT_GT(accepted[name], 0) << "no case used " << name;
}

}  // namespace
}  // namespace isomer::loop
