#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

namespace isomer {
namespace {

std::string scratch(const std::string& name) { return ::testing::TempDir() + "/isomer_mapped_" + name; }

TEST(MappedFile, GivesTheBytes) {
  const std::string path = scratch("bytes");
  std::ofstream(path) << "hello";
  const auto file = MappedFile::open(path);
  ASSERT_TRUE(file.ok()) << file.error().to_string();
  const auto bytes = (*file)->bytes();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), "hello");
}

TEST(MappedFile, AnEmptyFileIsAnEmptySpan) {
  const std::string path = scratch("empty");
  std::ofstream(path).flush();
  const auto file = MappedFile::open(path);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE((*file)->bytes().empty());
}

TEST(MappedFile, RefusesWhatIsNoRegularFile) {
  EXPECT_EQ(MappedFile::open(::testing::TempDir()).error().code, "E-not-a-file");
  EXPECT_EQ(MappedFile::open("/dev/null").error().code, "E-not-a-file");
  const std::string pipe = scratch("pipe");
  ::unlink(pipe.c_str());
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::open(pipe).error().code, "E-not-a-file");
  EXPECT_EQ(MappedFile::open(scratch("missing")).error().code, "E-file");
  EXPECT_EQ(MappedFile::open(std::string("a\0b", 3)).error().code, "E-file");
}

}  // namespace
}  // namespace isomer
