#include "cost/store.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/hash.h"
#include "cost/database.h"

namespace isomer::cost {
namespace {

namespace fs = std::filesystem;

class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("isomer_store_test_" + std::to_string(getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name = "kernels.db") const { return folder_ / name; }
  static Timing timing(double seconds) { return {seconds, 0.01, 7}; }
  size_t files_aside() const {
    size_t n = 0;
    for (const auto& f : fs::directory_iterator(folder_))
      n += f.path().string().find(".aside-") != std::string::npos && f.path().extension() != ".db";
    return n;
  }

  fs::path folder_;
};

TEST_F(StoreTest, KeepsTimesPerSetting) {
  {
    const auto store = Store::open(path(), "machine a");
    EXPECT_FALSE(store->find("kernel"));
    store->add("kernel", timing(2e-6));
    store->set_fact("flops", 1e11);
  }
  const auto again = Store::open(path(), "machine a");
  ASSERT_TRUE(again->find("kernel"));
  EXPECT_EQ(again->find("kernel")->seconds, 2e-6);
  EXPECT_EQ(again->find("kernel")->runs, 7U);
  EXPECT_EQ(again->fact("flops"), 1e11);
  EXPECT_FALSE(Store::open(path(), "machine b")->find("kernel"));
  EXPECT_FALSE(Store::open(path(), "machine b")->fact("flops"));
  EXPECT_TRUE(again->take_warnings().empty());
}

TEST_F(StoreTest, AnEqualHashIsNotEnough) {
  Store::open(path(), "m")->add("kernel", timing(2e-6));
  Database db;
  ASSERT_EQ(db.open(path(), true), Fault::None);
  const std::string other = "another kernel";
  ASSERT_EQ(db.run("UPDATE kernels SET hash = ?", {hash_bytes(other.data(), other.size()).hex()}), Fault::None);
  db.close();
  EXPECT_FALSE(Store::open(path(), "m")->find(other));
}

TEST_F(StoreTest, ADamagedFileIsRenamedAndANewOneBegun) {
  std::ofstream(path()) << std::string(10000, 'x');
  {
    const auto store = Store::open(path(), "m");
    store->add("kernel", timing(3e-6));
    const auto warnings = store->take_warnings();
    ASSERT_EQ(warnings.size(), 1U);
    EXPECT_NE(warnings[0].message.find("is damaged"), std::string::npos) << warnings[0].message;
  }
  EXPECT_EQ(files_aside(), 1U);
  EXPECT_TRUE(Store::open(path(), "m")->find("kernel"));
}

TEST_F(StoreTest, PagesThatBreakLaterDoNotStopTheUser) {
  {
    const auto store = Store::open(path(), "m");
    for (int i = 0; i < 2000; ++i) store->add("kernel " + std::to_string(i) + std::string(100, 'k'), timing(1e-6));
  }
  {
    std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096 * 3);
    for (int i = 0; i < 30000; ++i) file.put('\xee');
  }
  const auto store = Store::open(path(), "m");
  for (int i = 0; i < 2000; ++i) store->find("kernel " + std::to_string(i) + std::string(100, 'k'));
  store->add("new", timing(4e-6));
  EXPECT_TRUE(store->find("new"));
  EXPECT_FALSE(store->take_warnings().empty());
}

TEST_F(StoreTest, AnotherVersionIsSetAside) {
  Database db;
  ASSERT_EQ(db.open(path(), true), Fault::None);
  ASSERT_EQ(db.run("CREATE TABLE notes (text)"), Fault::None);
  ASSERT_EQ(db.run("PRAGMA user_version = 99"), Fault::None);
  db.close();
  const auto store = Store::open(path(), "m");
  EXPECT_EQ(store->take_warnings().size(), 1U);
  EXPECT_FALSE(store->in_memory());
  EXPECT_EQ(files_aside(), 1U);
}

TEST_F(StoreTest, ALockedFileLeavesItsUserInMemory) {
  Store::open(path(), "m")->add("kernel", timing(2e-6));
  Database holder;
  ASSERT_EQ(holder.open(path(), true), Fault::None);
  ASSERT_EQ(holder.run("PRAGMA locking_mode = EXCLUSIVE"), Fault::None);
  ASSERT_EQ(holder.run("BEGIN EXCLUSIVE"), Fault::None);
  const auto store = Store::open(path(), "another");
  store->add("kernel", timing(5e-6));
  EXPECT_EQ(store->find("kernel")->seconds, 5e-6);
  EXPECT_FALSE(store->take_warnings().empty());
  EXPECT_EQ(files_aside(), 0U);
}

TEST_F(StoreTest, AFolderThatCannotBeMadeIsNoObstacle) {
  std::ofstream(path("file")) << "not a folder";
  const auto store = Store::open(path("file/kernels.db"), "m");
  EXPECT_TRUE(store->in_memory());
  EXPECT_EQ(store->take_warnings().size(), 1U);
  store->add("kernel", timing(2e-6));
  EXPECT_TRUE(store->find("kernel"));
}

TEST_F(StoreTest, AFullDiskKeepsWhatWasThere) {
  // A limit on the pages of the file is what a full disk looks like to its user.
  const auto store = Store::open(path(), "m");
  store->add("first", timing(2e-6));
  Database db;
  ASSERT_EQ(db.open(path(), true), Fault::None);
  db.run("PRAGMA max_page_count = 1");
  Fault f = Fault::None;
  for (int i = 0; i < 50 && f == Fault::None; ++i)
    f = db.run("INSERT INTO kernels (key) VALUES (?)", {std::string(4000, 'x')});
  EXPECT_EQ(f, Fault::Full);
  EXPECT_TRUE(store->find("first"));
}

TEST_F(StoreTest, TheOldestUseGoesFirst) {
  const auto store = Store::open(path(), "m", {16, 1 << 20});
  for (int i = 0; i < 100; ++i) store->add("kernel " + std::to_string(i), timing(1e-6));
  const auto summary = store->summary();
  ASSERT_TRUE(summary.ok());
  EXPECT_LE(summary->entries, 16);
  EXPECT_GE(summary->entries, 12);
  const auto again = Store::open(path(), "m");
  EXPECT_TRUE(again->find("kernel 99"));
  EXPECT_FALSE(again->find("kernel 0"));
}

TEST_F(StoreTest, KeysAreBoundedInBytes) {
  const auto store = Store::open(path(), "m", {64, 10000});
  for (int i = 0; i < 100; ++i) store->add(std::string(1000, 'k') + std::to_string(i), timing(1e-6));
  EXPECT_LE(store->summary()->key_bytes, 20000);
}

TEST_F(StoreTest, SeveralProcessesWriteAtOnce) {
  constexpr int kProcesses = 4, kTimes = 50;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const auto store = Store::open(path(), "m");
      for (int i = 0; i < kTimes; ++i) store->add(std::to_string(p) + "/" + std::to_string(i), timing(1e-6));
      _exit(store->take_warnings().empty() ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(Store::open(path(), "m")->summary()->entries, kProcesses * kTimes);
}

TEST_F(StoreTest, ExportAndImport) {
  {
    const auto store = Store::open(path(), "m");
    store->add("a", timing(1e-6));
    store->add("b", timing(2e-6));
    ASSERT_TRUE(store->write_to(path("out.db")).ok());
    EXPECT_FALSE(store->write_to(path("out.db")).ok());  // never over a file
  }
  const auto other = Store::open(path("other.db"), "m");
  other->add("a", timing(9e-6));
  const auto fresh = other->read_from(path("out.db"));
  ASSERT_TRUE(fresh.ok()) << fresh.error().message;
  EXPECT_EQ(*fresh, 1);
  EXPECT_EQ(Store::open(path("other.db"), "m")->find("a")->seconds, 9e-6);
  EXPECT_EQ(Store::open(path("other.db"), "m")->find("b")->seconds, 2e-6);
  std::ofstream(path("junk.db")) << "junk, and no store at all";
  EXPECT_FALSE(other->read_from(path("junk.db")).ok());
  EXPECT_FALSE(other->read_from(path("absent.db")).ok());
  EXPECT_EQ(*other->clear(), 2);
  EXPECT_FALSE(other->find("a"));
}

TEST_F(StoreTest, TimesThatAreNoTimesAreNotBelieved) {
  Store::open(path(), "m")->add("a", timing(1e-6));
  Database db;
  ASSERT_EQ(db.open(path(), true), Fault::None);
  ASSERT_EQ(db.run("UPDATE kernels SET seconds = -1"), Fault::None);
  db.close();
  EXPECT_FALSE(Store::open(path(), "m")->find("a"));
}

}  // namespace
}  // namespace isomer::cost
