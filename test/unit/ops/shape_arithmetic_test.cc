// What exporters compute with shapes must come out as symbolic result shapes.
#include <gtest/gtest.h>

#include "interp/interp.h"
#include "ops/table.h"

namespace isomer {
namespace {

class ShapeArithmetic : public ::testing::Test {
 protected:
  ir::GraphBuilder b{ops::table(), "g"};
  const Dim n = Dim::symbol("N"), s = Dim::symbol("S");

  ir::Value input(Shape shape) { return *b.input("x", {DType::F32, std::move(shape), nullptr}); }
  ir::Value vec(const std::vector<int64_t>& v) { return b.constant(Tensor::ints(v)); }
  ir::Value scalar(int64_t v) { return b.constant(Tensor::int_scalar(DType::I64, v)); }
  ir::Value add(const std::string& op, std::vector<ir::Value> in, ir::Attrs attrs = {}) {
    const auto v = b.add1(op, std::move(in), std::move(attrs));
    EXPECT_TRUE(v.ok()) << v.error().to_string();
    return v.ok() ? *v : ir::Value::none();
  }
  // x.shape[k] as a vector of one.
  ir::Value size(ir::Value x, int64_t k) {
    return add("unsqueeze", {add("gather", {add("shape", {x}), scalar(k)}, {{"axis", int64_t{0}}}), vec({0})});
  }
  std::string type(ir::Value v) { return v.is_none() ? "" : b.type(v).to_string(); }
};

TEST_F(ShapeArithmetic, SplitsHeads) {
  const ir::Value x = input({n, s, 768});
  const ir::Value shape = add("concat", {size(x, 0), size(x, 1), vec({12}), vec({64})}, {{"axis", int64_t{0}}});
  const ir::Value heads = add("transpose", {add("reshape", {x, shape})}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  EXPECT_EQ(type(heads), "f32[N,12,S,64]");
  const ir::Value back = add("transpose", {heads}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  const ir::Value joined = add("concat", {size(x, 0), size(x, 1), vec({-1})}, {{"axis", int64_t{0}}});
  EXPECT_EQ(type(add("reshape", {back, joined})), "f32[N,S,768]");
}

TEST_F(ShapeArithmetic, DividesElementCounts) {
  const ir::Value x = input({n, s, 768});
  EXPECT_EQ(type(add("reshape", {x, vec({-1, 768})})), "f32[N*S,768]");
  EXPECT_EQ(type(add("reshape", {x, vec({0, -1})})), "f32[N,S*768]");
  EXPECT_EQ(type(add("flatten", {x})), "f32[N,S*768]");
  const ir::Value rows = add("reshape", {x, vec({-1, 768})});
  const ir::Value shape = add("concat", {size(x, 0), vec({-1}), vec({768})}, {{"axis", int64_t{0}}});
  EXPECT_EQ(type(add("reshape", {rows, shape})), "f32[N,S,768]");
}

TEST_F(ShapeArithmetic, FollowsSlicesAndProducts) {
  const ir::Value x = input({n, 4, s});
  const ir::Value tail = add("slice", {add("shape", {x}), vec({1}), vec({INT64_MAX}), vec({0})});
  const ir::Value shape = add("concat", {vec({1}), tail}, {{"axis", int64_t{0}}});
  EXPECT_EQ(type(add("constant_of_shape", {shape})), "f32[1,4,S]");
  const ir::Value doubled = add("mul", {size(x, 2), vec({2})});
  EXPECT_EQ(type(add("constant_of_shape", {doubled})), "f32[S*2]");
  EXPECT_EQ(type(add("slice", {x, vec({0}), size(x, 2), vec({2})})), "f32[N,4,S]");
  EXPECT_EQ(type(add("slice", {x, vec({0}), vec({3}), vec({1})})), "f32[N,3,S]");
  EXPECT_EQ(type(add("slice", {x, vec({-1}), vec({INT64_MAX}), vec({1})})), "f32[N,1,S]");
}

TEST_F(ShapeArithmetic, FollowsRangesAndExpansion) {
  const ir::Value x = input({n, s});
  const ir::Value length = add("gather", {add("shape", {x}), scalar(1)});
  const ir::Value positions = add("range", {scalar(0), length, scalar(1)});
  EXPECT_EQ(type(positions), "i64[S]");
  const ir::Value row = add("unsqueeze", {positions, vec({0})});
  EXPECT_EQ(type(add("expand", {row, add("shape", {x})})), "i64[N,S]");
  EXPECT_EQ(type(add("tile", {x, vec({2, 1})})), "f32[N*2,S]");
}

TEST_F(ShapeArithmetic, FollowsComparisonsOfSizes) {
  const ir::Value x = input({n, 1, s});
  const ir::Value wanted = add("concat", {size(x, 0), vec({-1}), size(x, 2)}, {{"axis", int64_t{0}}});
  const ir::Value ones = add("constant_of_shape", {vec({3})}, {{"value", Tensor::ints({1})}});
  const ir::Value minus = add("mul", {ones, scalar(-1)});
  const ir::Value shape = add("where", {add("equal", {wanted, minus}), ones, wanted});
  EXPECT_EQ(type(add("expand", {x, shape})), "f32[N,1,S]");
}

TEST_F(ShapeArithmetic, FollowsDivisionsAndCasts) {
  const ir::Value x = input({n, s, 768});
  const ir::Value width = add("div", {size(x, 2), vec({12})});
  const ir::Value cast = add("cast", {add("cast", {width}, {{"to", DType::I32}})}, {{"to", DType::I64}});
  const ir::Value shape = add("concat", {size(x, 0), vec({-1}), vec({12}), cast}, {{"axis", int64_t{0}}});
  EXPECT_EQ(type(add("reshape", {x, shape})), "f32[N,S,12,64]");
}

}  // namespace
}  // namespace isomer
