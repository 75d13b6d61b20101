#include "base/caches.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace isomer {
namespace {

class CachesTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ("caches." + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void add(int index, const char* level, const char* type, const char* size) {
    const std::filesystem::path one = folder_ / ("index" + std::to_string(index));
    std::filesystem::create_directories(one);
    std::ofstream(one / "level") << level << "\n";
    std::ofstream(one / "type") << type << "\n";
    if (size) std::ofstream(one / "size") << size << "\n";
  }
  std::filesystem::path folder_;
};

TEST_F(CachesTest, DataCachesOfACore) {
  add(0, "1", "Data", "64K");
  add(1, "1", "Instruction", "32K");
  add(2, "2", "Unified", "1M");
  add(3, "3", "Unified", "32768K");
  const Caches c = read_caches(folder_.string());
  EXPECT_EQ(c.l1_bytes, 64 << 10);
  EXPECT_EQ(c.l2_bytes, 1 << 20);
}

TEST_F(CachesTest, WhatIsNotToldIsZero) {
  EXPECT_EQ(read_caches(folder_.string()).l1_bytes, 0);
  add(0, "1", "Data", nullptr);
  add(1, "2", "Unified", "99999999999999999999K");
  const Caches c = read_caches(folder_.string());
  EXPECT_EQ(c.l1_bytes, 0);
  EXPECT_EQ(c.l2_bytes, 0);
}

}  // namespace
}  // namespace isomer
