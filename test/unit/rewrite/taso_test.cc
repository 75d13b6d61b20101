// TASO's text, on samples of our own.
#include "rewrite/taso.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "ops/table.h"

namespace isomer::rewrite {
namespace {

constexpr std::string_view kSame = "{kernel_h=3, kernel_w=3, stride_h=1, stride_w=1, pad=same, activation=relu}";

TEST(Taso, InfersShapesFromBothSides) {
  const auto rules = read_taso(R"(
rule 1
  %0 = matmul(?a, ?d); %1 = matmul(%0, ?e); return %1
  => %0 = matmul(?d, ?e); %1 = matmul(?a, %0); return %1
rule 2
  %0 = relu(?g); %1 = relu(?h); return %0, %1
  => %0 = concat(?g, ?h) {rank=4, axis=0}; %1 = relu(%0); %2 = split(%1) {axis=0}; return %2.0, %2.1
rule 3
  %0 = add(?g, ?h); %1 = mul(%0, ?i); return %1
  => %0 = mul(?g, ?i); %1 = mul(?h, ?i); %2 = add(%0, %1); return %2
)",
                               ops::table());
  ASSERT_TRUE(rules.ok()) << rules.error().to_string();
  ASSERT_EQ(rules->size(), 3u);
  for (const TasoRule& r : *rules) EXPECT_TRUE(r.rule) << r.problem << "\n" << r.text;
  EXPECT_NE((*rules)[2].text.find("T[S...]"), std::string::npos);
}

TEST(Taso, SaysWhereNoShapesFit) {
  const std::string text = fmt::format(R"(
rule 99
  %0 = conv2d(?g, ?j) {0}; %1 = conv2d(?h, ?k) {0}; %2 = concat(%0, %1) {{rank=4, axis=1}}; return %2
  => %0 = concat(?g, ?h) {{rank=4, axis=1}}; %1 = concat(?j, ?k) {{rank=4, axis=0}}; %2 = conv2d(%0, %1) {0}; return %2
)",
                                       kSame);
  const auto rules = read_taso(text, ops::table());
  ASSERT_TRUE(rules.ok()) << rules.error().to_string();
  EXPECT_FALSE(rules->front().rule);
  EXPECT_NE(rules->front().problem.find("is 0"), std::string::npos) << rules->front().problem;
}

TEST(Taso, RefusesBrokenText) {
  EXPECT_FALSE(read_taso("rule 1 %0 = frobnicate(?a); return %0 => return ?a", ops::table()).ok());
  EXPECT_FALSE(read_taso("rule 1 %0 = relu(%3); return %0 => return ?a", ops::table()).ok());
  EXPECT_FALSE(read_taso("rule x", ops::table()).ok());
}

// With the release's file at hand ($ISOMER_TASO_RULES): all of it is read, and all but the four known rules are stated.
TEST(Taso, ReadsTheRelease) {
  const char* path = std::getenv("ISOMER_TASO_RULES");
  if (!path)
    GTEST_SKIP() << "TASO's released rules are not ours to ship; set ISOMER_TASO_RULES to their text (CONTRIBUTING.md)";
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  const auto rules = read_taso(text.str(), ops::table(), path);
  ASSERT_TRUE(rules.ok()) << rules.error().to_string();
  EXPECT_EQ(rules->size(), 133u);
  std::vector<int64_t> open;
  for (const TasoRule& r : *rules)
    if (!r.rule) {
      open.push_back(r.number);
      std::printf("rule %lld: %s\n", static_cast<long long>(r.number), r.problem.c_str());
    }
  EXPECT_EQ(open, (std::vector<int64_t>{99, 100, 130, 131}));
}

}  // namespace
}  // namespace isomer::rewrite
