#include "base/stolen_time.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <sstream>

namespace isomer {
namespace {

double seconds_in(const char* text) {
  std::istringstream stat(text);
  return stolen_seconds(stat);
}

TEST(StolenTime, IsTheEighthNumberOfAllProcessors) {
  const auto per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
  EXPECT_EQ(seconds_in("cpu  604 0 342 2432 275 0 35 941 7 0\ncpu0 28 0 15 13 8 0 1 474 0 0\n"), 941 / per_second);
}

// Systems of old tell seven numbers, others have no such file.
TEST(StolenTime, IsNoneWhereNobodyTells) {
  EXPECT_EQ(seconds_in("cpu  604 0 342 2432 275 0 35\ncpu0 28 0 15 13 8 0 1\n"), 0);
  EXPECT_EQ(seconds_in("ctxt 1 2 3 4 5 6 7 8 9\n"), 0);
  EXPECT_EQ(seconds_in(""), 0);
}

TEST(StolenTime, IsNeverGivenBack) {
  double last = 0;
  for (int i = 0; i < 100; ++i) {
    const double now = stolen_seconds();
    EXPECT_GE(now, last);
    last = now;
  }
}

}  // namespace
}  // namespace isomer
