// A tape computes what the evaluator computes over the field, and tells equal arithmetic from equal values.
#include "propose/tape.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ir/text.h"
#include "ops/table.h"

namespace isomer::propose {
namespace {

std::vector<uint64_t> run(const std::string& text, Algebra algebra = Algebra::Field) {
  const auto graph = ir::parse(text, ops::table());
  EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.error().to_string());
  if (!graph.ok()) return {};
  const auto tape = record(*graph, ops::table());
  EXPECT_TRUE(tape.ok()) << (tape.ok() ? "" : tape.error().to_string());
  if (!tape.ok()) return {};
  std::vector<uint64_t> registers;
  for (size_t i = 0; i < tape->inputs * Tape::kLanes; ++i) registers.push_back(1000 + i * i * 977);
  tape->run(registers, algebra);
  std::vector<uint64_t> out;
  for (const uint32_t o : tape->outputs)
    for (size_t l = 0; l < Tape::kLanes; ++l) out.push_back(registers[o * Tape::kLanes + l]);
  return out;
}

const std::string kHead = "graph @g(%a: f32[2,3], %b: f32[2,3]) {\n  ";

TEST(Tape, ComputesIdentitiesOfTheReals) {
  EXPECT_EQ(run(kHead + "%y = add(%a, %b)\n  return %y\n}"), run(kHead + "%y = add(%b, %a)\n  return %y\n}"));
  EXPECT_EQ(run(kHead + "%s = add(%a, %b)\n  %y = mul(%s, %a)\n  return %y\n}"),
            run(kHead + "%p = mul(%a, %a)\n  %q = mul(%b, %a)\n  %y = add(%p, %q)\n  return %y\n}"));
  EXPECT_EQ(run(kHead + "%q = div(%a, %b)\n  %y = mul(%q, %b)\n  return %y\n}"),
            run(kHead + "%z = sub(%a, %b)\n  %y = add(%z, %b)\n  return %y\n}"));
  EXPECT_NE(run(kHead + "%y = sub(%a, %b)\n  return %y\n}"), run(kHead + "%y = sub(%b, %a)\n  return %y\n}"));
}

TEST(Tape, TellsEqualArithmeticFromEqualValues) {
  const std::string left = kHead + "%s = add(%a, %b)\n  %y = mul(%s, %a)\n  return %y\n}";
  const std::string right = kHead + "%p = mul(%a, %a)\n  %q = mul(%b, %a)\n  %y = add(%p, %q)\n  return %y\n}";
  EXPECT_NE(run(left, Algebra::Terms), run(right, Algebra::Terms));
  EXPECT_EQ(run(kHead + "%y = add(%a, %b)\n  return %y\n}", Algebra::Terms),
            run(kHead + "%y = add(%b, %a)\n  return %y\n}", Algebra::Terms));
}

TEST(Tape, ReluKeepsAboutHalf) {
  const auto all = run("graph @g(%a: f32[20,20]) {\n  %y = relu(%a)\n  return %y\n}");
  const auto zeros = std::count(all.begin(), all.end(), uint64_t{0});
  EXPECT_GT(zeros, static_cast<int64_t>(all.size() / 4));
  EXPECT_LT(zeros, static_cast<int64_t>(all.size() * 3 / 4));
}

TEST(Tape, RefusesWhatAFieldHasNot) {
  const auto graph = ir::parse("graph @g(%a: f32[2]) {\n  %y = arg_max(%a)\n  return %y\n}", ops::table());
  ASSERT_TRUE(graph.ok());
  EXPECT_FALSE(record(*graph, ops::table()).ok());
}

}  // namespace
}  // namespace isomer::propose
