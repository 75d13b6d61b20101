#include <gtest/gtest.h>

#include "compile/product_cost.h"

namespace isomer::compile {
namespace {

std::string chosen(const char* target, int64_t rows, int64_t columns) {
  const loop::IntrinsicPtr tile = vector_tile(*loop::parse_target(target), rows, columns);
  return tile ? tile->name : "";
}

TEST(VectorTile, NeonTakesTheOneThatLeavesTheCheapestEdges) {
  EXPECT_EQ(chosen("aarch64", 3136, 64), "fma_5x16_f32");
  EXPECT_EQ(chosen("aarch64", 128, 768), "fma_5x16_f32");
  EXPECT_EQ(chosen("aarch64", 3136, 24), "fma_7x12_f32");
  EXPECT_EQ(chosen("aarch64", 1, 1000), "fma_2x32_f32");  // chains enough to hide the latency of a sum
}

TEST(VectorTile, OthersTakeTheirFirst) {
  EXPECT_EQ(chosen("x86-64-v4", 1, 1000), "fma_14x32_f32");
  EXPECT_EQ(chosen("x86-64-v3", 49, 24), "fma_6x16_f32");
}

TEST(VectorTile, EmptyProducts) { EXPECT_NE(chosen("aarch64", 0, 0), ""); }

}  // namespace
}  // namespace isomer::compile
