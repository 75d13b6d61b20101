// The door for graphs: what it refuses to call proved.
#include "verify/prove.h"

#include <gtest/gtest.h>

#include "ops/table.h"

namespace isomer::verify {
namespace {

Dim n() { return Dim::symbol("N"); }
Type type(DType dtype, std::vector<Dim> dims) { return {dtype, Shape(std::move(dims)), nullptr}; }

ir::Graph graph(const std::function<ir::Value(ir::GraphBuilder&, ir::Value)>& body, DType dtype = DType::F32) {
  ir::GraphBuilder b(ops::table(), "g");
  const auto x = b.input("x", type(dtype, {n()}));
  b.output("y", body(b, *x));
  return *std::move(b).finish();
}

TEST(ProveEqual, RoundingToANarrowerTypeIsNotTheIdentity) {
  const auto there_and_back = graph([](ir::GraphBuilder& b, ir::Value x) {
    return *b.add1("cast", {*b.add1("cast", {x}, {{"to", DType::F16}})}, {{"to", DType::F32}});
  });
  const auto same = graph([](ir::GraphBuilder&, ir::Value x) { return x; });
  EXPECT_FALSE(prove_equal(there_and_back, same, {}, ops::table()).proved());
  const auto wider = graph([](ir::GraphBuilder& b, ir::Value x) {
    return *b.add1("cast", {*b.add1("cast", {x}, {{"to", DType::F64}})}, {{"to", DType::F32}});
  });
  EXPECT_FALSE(prove_equal(wider, same, {}, ops::table()).refuted());
}

TEST(ProveEqual, ConditionsThatNothingMeetsProveNothing) {
  const auto a = graph([](ir::GraphBuilder& b, ir::Value x) { return *b.add1("relu", {x}); });
  const auto c = graph([](ir::GraphBuilder& b, ir::Value x) { return *b.add1("neg", {x}); });
  Conditions impossible;
  impossible.not_negative = {Dim(0) - n()};
  EXPECT_EQ(prove_equal(a, c, impossible, ops::table()).kind, Verdict::Kind::Unknown);
}

TEST(ProveEqual, OpaqueOperatorsAreUnsupported) {
  const auto a = graph([](ir::GraphBuilder& b, ir::Value x) { return *b.add1("non_zero", {x}); });
  const Verdict v = prove_equal(a, a, {}, ops::table());
  EXPECT_FALSE(v.proved());
}

TEST(ProveEqual, DifferentShapesAreRefuted) {
  const auto a =
      graph([](ir::GraphBuilder& b, ir::Value x) { return *b.add1("concat", {x, x}, {{"axis", int64_t{0}}}); });
  const auto c = graph([](ir::GraphBuilder& b, ir::Value x) { return *b.add1("relu", {x}); });
  const Verdict v = prove_equal(a, c, {}, ops::table());
  ASSERT_TRUE(v.refuted());
  EXPECT_EQ(v.counterexample->element, "shape");
}

}  // namespace
}  // namespace isomer::verify
