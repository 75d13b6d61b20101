#include "ir/file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "ops/table.h"

namespace isomer::ir {
namespace {

std::string scratch(const std::string& name) { return ::testing::TempDir() + "/isomer_file_" + name; }

Graph with_weights() {
  GraphBuilder b(ops::table(), "g");
  Tensor big(DType::F32, {7, 11}), other(DType::I8, {100});
  for (int64_t i = 0; i < 77; ++i) big.set_real(i, static_cast<double>(i) / 7);
  for (int64_t i = 0; i < 100; ++i) other.set_integer(i, i);
  b.output("big", b.constant(big, "w1"));
  b.output("other", b.constant(other, "w2"));
  return *std::move(b).finish();
}

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream s;
  s << file.rdbuf();
  return s.str();
}

TEST(File, SavesAndLoads) {
  const Graph g = with_weights();
  const std::string path = scratch("g.iso");
  ASSERT_TRUE(save_text(g, path).ok());
  const auto back = load_text(path, ops::table());
  ASSERT_TRUE(back.ok()) << back.error().to_string();
  EXPECT_TRUE(identical(g, *back));
}

TEST(File, EveryDamagedWeightsFileIsRefused) {
  ConstantPool pool;
  print(with_weights(), &pool);
  const std::string path = scratch("w.weights");
  ASSERT_TRUE(save_weights(pool, path).ok());
  ASSERT_TRUE(load_weights(path).ok());
  const std::string good = content(path);
  const auto refused = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    return !load_weights(path).ok();
  };
  for (size_t n = 0; n < good.size(); ++n) EXPECT_TRUE(refused(good.substr(0, n))) << n;
  EXPECT_TRUE(refused(good + "x"));
  const size_t table_end = 32 + 2 * 64 + 3 * 8;
  for (size_t i = 0; i < table_end; ++i)
    for (const char flip : {'\x01', '\x80'}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ flip);
      EXPECT_TRUE(refused(bad)) << "byte " << i;
    }
  std::string flipped = good;
  flipped.back() = static_cast<char>(flipped.back() ^ 1);
  EXPECT_TRUE(refused(flipped));
}

TEST(File, WhatIsMissingIsSaid) {
  EXPECT_EQ(load_text(scratch("nothing.iso"), ops::table()).error().code, "E-file");
  EXPECT_EQ(load_text(::testing::TempDir(), ops::table()).error().code, "E-not-a-file");
}

}  // namespace
}  // namespace isomer::ir
