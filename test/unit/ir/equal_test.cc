// Equality of graphs: by content and use, whatever the order of nodes.
#include <gtest/gtest.h>

#include "ir/text.h"
#include "ops/table.h"

namespace isomer {
namespace {

bool equal(const std::string& a, const std::string& b) {
  const auto frame = [](const std::string& body) {
    return ir::parse("graph @g(%x: f32[2], %z: f32[2]) {\n" + body + "\n}\n", ops::table());
  };
  const auto x = frame(a), y = frame(b);
  EXPECT_TRUE(x.ok() && y.ok()) << (x.ok() ? y : x).error().to_string();
  if (!x.ok() || !y.ok()) return false;
  EXPECT_EQ(ir::equal(*x, *y), ir::equal(*y, *x));
  return ir::equal(*x, *y);
}

const std::string kTwoDraws = "%a = random_normal_like(%x) : f32[2]\n%b = random_normal_like(%x) : f32[2]\n";

TEST(Equal, TheOrderOfNodesDoesNotCount) {
  EXPECT_TRUE(equal("%a = relu(%x) : f32[2]\n%b = neg(%x) : f32[2]\nreturn \"y\" = %a, \"w\" = %b",
                    "%b = neg(%x) : f32[2]\n%a = relu(%x) : f32[2]\nreturn \"y\" = %a, \"w\" = %b"));
  EXPECT_FALSE(equal("%a = relu(%x) : f32[2]\nreturn \"y\" = %a", "%a = relu(%z) : f32[2]\nreturn \"y\" = %a"));
  EXPECT_FALSE(equal("%a = relu(%x) : f32[2]\nreturn \"y\" = %a", "%a = relu(%x) : f32[2]\nreturn \"w\" = %a"));
}

TEST(Equal, TwoDrawsAreToldApartByTheirUses) {
  const std::string difference = "%y = sub(%a, %b) : f32[2]\nreturn %y", other = "%y = sub(%b, %a) : f32[2]\nreturn %y";
  EXPECT_TRUE(equal(kTwoDraws + difference, kTwoDraws + difference));
  // The same up to which of the two is drawn first.
  EXPECT_TRUE(equal(kTwoDraws + difference, kTwoDraws + other));
  EXPECT_FALSE(equal(kTwoDraws + difference, kTwoDraws + "%y = sub(%a, %a) : f32[2]\nreturn %y"));
  EXPECT_FALSE(equal(kTwoDraws + "return \"y\" = %a, \"w\" = %b", kTwoDraws + "return \"y\" = %a, \"w\" = %a"));
}

TEST(Equal, CopiesShareWhatWasBuiltAndAMovedGraphStaysWhatItWas) {
  const std::string text = "graph @g(%x: f32[2]) {\n%a = relu(%x) : f32[2]\nreturn \"y\" = %a\n}\n";
  ir::Graph one = *ir::parse(text, ops::table());
  const ir::Graph other = *ir::parse(text, ops::table()), copy = one;
  EXPECT_TRUE(copy.shares(one));
  EXPECT_FALSE(copy.shares(other));
  EXPECT_TRUE(ir::identical(copy, other));
  EXPECT_EQ(copy.content_hash(), other.content_hash());
  const ir::Graph moved = std::move(one);
  EXPECT_TRUE(moved.shares(one));  // NOLINT(bugprone-use-after-move): what this test is about
  EXPECT_EQ(one.nodes().size(), 2U);
  EXPECT_TRUE(ir::Graph().nodes().empty());
  EXPECT_TRUE(ir::identical(ir::Graph(), ir::Graph()));
}

}  // namespace
}  // namespace isomer
