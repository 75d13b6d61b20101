#include <gtest/gtest.h>
#include <sys/resource.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "runtime/cpu.h"
#include "test/unit/runtime/small_program.h"

namespace isomer::runtime_test {
namespace {

class RuntimeErrors : public testing::Test {
 protected:
  void SetUp() override {
    model = iso_open_program(&small.program, &error);
    ASSERT_NE(model, nullptr) << error.message;
    context = iso_new_context(model, 2, 0, &error);
    ASSERT_NE(context, nullptr) << error.message;
  }
  void TearDown() override {
    EXPECT_EQ(iso_free_context(context, &error), ISO_OK);
    EXPECT_EQ(iso_close(model, &error), ISO_OK);
  }
  // Every refusal has a code and a sentence, and leaves the context usable.
  void expect(int code, const std::string& words) {
    EXPECT_EQ(buffers.run(context, &error), code) << error.message;
    EXPECT_EQ(error.code, code);
    EXPECT_NE(std::string(error.message).find(words), std::string::npos) << error.message;
    EXPECT_EQ(error.message[std::strlen(error.message) - 1], '.');
    EXPECT_EQ(buffers.run(context, nullptr), code);
    Buffers good;
    EXPECT_EQ(good.run(context, nullptr), ISO_OK);
  }

  SmallProgram small;
  iso_model* model = nullptr;
  iso_context* context = nullptr;
  iso_error error{};
  Buffers buffers;
};

TEST_F(RuntimeErrors, WrongBuffers) {
  const std::array<int64_t, 2> dims{kTasks, kBlock}, turned{kBlock, kTasks};
  buffers.in[0].data = nullptr;
  expect(ISO_BAD_ARGUMENT, "the input 'x' is NULL");
  buffers.in[0].data = buffers.x.data();
  buffers.in[0].bytes -= 4;
  expect(ISO_BAD_SHAPE, "'x' is f32[37,64], which is 9472 bytes, and the buffer has 9468");
  buffers.in[0].bytes += 4;
  buffers.in[0].dims = turned.data();
  buffers.in[0].rank = 2;
  expect(ISO_BAD_SHAPE, "and the buffer is f32[64,37]");
  buffers.in[0].rank = 1;
  expect(ISO_BAD_SHAPE, "and the buffer is f32[64]");
  buffers.in[0].rank = -1;
  expect(ISO_BAD_SHAPE, "and the buffer is f32[]");
  buffers.in[0].dims = dims.data();
  buffers.in[0].rank = 2;
  buffers.in[0].dtype = ISO_F64;
  expect(ISO_BAD_TYPE, "and the buffer holds f64");
  buffers.in[0].dtype = 99;
  expect(ISO_BAD_TYPE, "and the buffer holds ?");
  buffers.in[0].dtype = ISO_F32;
  buffers.out[0].data = buffers.x.data() + 4;
  expect(ISO_BAD_ARGUMENT, "the output 'y' overlaps that of the input 'x'");
  buffers.out[0].data = reinterpret_cast<void*>(UINTPTR_MAX - 8);
  expect(ISO_BAD_ARGUMENT, "is no memory");
  buffers.out[0].data = buffers.y.data();
  EXPECT_EQ(buffers.run(context, &error), ISO_OK) << error.message;
}

TEST_F(RuntimeErrors, WrongNames) {
  buffers.in[0].name = "X\n\x1b[2J";
  expect(ISO_BAD_NAME, "no input named 'X??[2J'; its first one is 'x'");
  buffers.in[0].name = "index";
  expect(ISO_BAD_SHAPE, "'index' is i64[8]");
  buffers.in[0].name = buffers.in[1].name = "x";
  buffers.in[1] = buffers.in[0];
  expect(ISO_BAD_NAME, "'x' was given twice");
}

TEST_F(RuntimeErrors, NamesGiveTheOrder) {
  std::swap(buffers.in[0], buffers.in[1]);
  buffers.in[0].name = "index";
  buffers.in[1].name = "x";
  std::swap(buffers.out[0], buffers.out[1]);
  buffers.out[0].name = "z";
  buffers.out[1].name = "y";
  ASSERT_EQ(buffers.run(context, &error), ISO_OK) << error.message;
  EXPECT_EQ(buffers.y[0], small.expected(buffers.x.data())[0]);
  EXPECT_EQ(buffers.z[1], buffers.x[1]);
}

TEST_F(RuntimeErrors, WrongCounts) {
  EXPECT_EQ(iso_run(context, buffers.in.data(), 1, buffers.out.data(), 2, &error), ISO_BAD_SHAPE);
  EXPECT_STREQ(error.message, "The model 'small' has 2 inputs, and 1 buffers were given.");
  EXPECT_EQ(iso_run(context, buffers.in.data(), 2, buffers.out.data(), 7, &error), ISO_BAD_SHAPE);
  EXPECT_EQ(iso_run(context, nullptr, 2, buffers.out.data(), 2, &error), ISO_BAD_ARGUMENT);
  EXPECT_EQ(iso_run(context, buffers.in.data(), 2, nullptr, 2, &error), ISO_BAD_ARGUMENT);
  EXPECT_EQ(iso_run(nullptr, buffers.in.data(), 2, buffers.out.data(), 2, &error), ISO_BAD_ARGUMENT);
  EXPECT_EQ(iso_input(model, 2), nullptr);
  EXPECT_EQ(iso_output(nullptr, 0), nullptr);
  iso_profile profile;
  EXPECT_EQ(iso_step_profile(context, 3, &profile, &error), ISO_BAD_ARGUMENT);
  EXPECT_EQ(iso_step_profile(context, 0, nullptr, &error), ISO_BAD_ARGUMENT);
  EXPECT_EQ(iso_describe(model, nullptr, &error), ISO_BAD_ARGUMENT);
  EXPECT_EQ(iso_set_threads(context, -1, &error), ISO_BAD_ARGUMENT);
  EXPECT_EQ(iso_set_threads(context, ISO_MAX_THREADS + 1, &error), ISO_BAD_ARGUMENT);
  EXPECT_EQ(iso_new_context(nullptr, 1, 0, &error), nullptr);
  EXPECT_EQ(iso_new_context(model, -2, 0, &error), nullptr);
}

TEST_F(RuntimeErrors, AKernelNamesItsSourceNode) {
  buffers.index[3] = kSize;
  expect(ISO_RUN_FAILED,
         "stopped at the kernel gather, which computes 'Gather_3': an index is out of range (status 1)");
}

TEST_F(RuntimeErrors, AModelWithContextsStaysOpen) {
  EXPECT_EQ(iso_close(model, &error), ISO_BUSY);
  EXPECT_STREQ(error.message, "The model 'small' has 1 open contexts; free them before it is closed.");
}

TEST_F(RuntimeErrors, ABusyContextSaysSo) {
  static std::mutex mutex;
  static std::condition_variable changed;
  static int state;
  state = 0;
  small.steps[0].kernel = [](void* const*, int64_t, int64_t, void*) {
    std::unique_lock lock(mutex);
    if (state == 0) {
      state = 1;
      changed.notify_all();
    }
    changed.wait(lock, [] { return state == 2; });
    return int32_t{0};
  };
  std::thread runner([&] { buffers.run(context, nullptr); });
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [] { return state == 1; });
  }
  Buffers second;
  EXPECT_EQ(second.run(context, &error), ISO_BUSY);
  EXPECT_EQ(iso_free_context(context, &error), ISO_BUSY);
  EXPECT_EQ(iso_set_threads(context, 3, &error), ISO_BUSY);
  {
    std::unique_lock lock(mutex);
    state = 2;
    changed.notify_all();
  }
  runner.join();
}

TEST_F(RuntimeErrors, TooLittleMemory) {
  SmallProgram huge;
  huge.program.arena_bytes = uint64_t{1} << 62;
  iso_model* big = iso_open_program(&huge.program, &error);
  ASSERT_NE(big, nullptr) << error.message;
  EXPECT_EQ(iso_new_context(big, 1, 0, &error), nullptr);
  EXPECT_EQ(error.code, ISO_NO_MEMORY);
  EXPECT_EQ(iso_close(big, &error), ISO_OK);
}

TEST(RuntimeProgram, IsRefusedWhereItDoesNotFit) {
  iso_error error{};
  EXPECT_EQ(iso_open_program(nullptr, &error), nullptr);
  const auto refuse = [&](auto change, int code) {
    SmallProgram small;
    change(small);
    EXPECT_EQ(iso_open_program(&small.program, &error), nullptr);
    EXPECT_EQ(error.code, code) << error.message;
  };
  refuse([](SmallProgram& s) { s.program.abi_version = 77; }, ISO_BAD_VERSION);
  refuse([](SmallProgram& s) { s.program.inputs = nullptr; }, ISO_BAD_FILE);
  refuse([](SmallProgram& s) { s.program.weights = nullptr; }, ISO_BAD_FILE);
  refuse([](SmallProgram& s) { s.steps[1].kernel = nullptr; }, ISO_BAD_FILE);
  refuse([](SmallProgram& s) { s.scale_places[0].index = 2; }, ISO_BAD_FILE);
  refuse([](SmallProgram& s) { s.scale_places[0].space = 9; }, ISO_BAD_FILE);
  refuse([](SmallProgram& s) { s.scale_places[2].offset = kSize * 8; }, ISO_BAD_FILE);
  refuse([](SmallProgram& s) { s.freed[0].bytes = UINT64_MAX; }, ISO_BAD_FILE);
  refuse([](SmallProgram& s) { s.program.scratch_bytes = 4; }, ISO_BAD_FILE);
}

TEST(RuntimeProgram, IsRefusedOnACpuThatLacksAFeature) {
  SmallProgram small;
  iso_error error{};
  small.program.target = "some-cpu";
  small.program.features = "no-such-feature";
  EXPECT_EQ(iso_open_program(&small.program, &error), nullptr);
  EXPECT_EQ(error.code, ISO_BAD_CPU);
  EXPECT_STREQ(
      error.message,
      "The model 'small' was built for some-cpu and needs the CPU feature no-such-feature, which this machine does "
      "not have; compile it for this machine.");
}

TEST(RuntimeCpu, HasTheBaseOfItsArchitecture) {
  size_t length = 0;
#if defined(__x86_64__)
  EXPECT_EQ(iso_missing_feature("sse2,cx8,64bit,,fxsr", &length), nullptr);
#else
  EXPECT_EQ(iso_missing_feature("neon,fp-armv8", &length), nullptr);
#endif
  const char* features = ",ss,more";
  EXPECT_EQ(iso_missing_feature(features, &length), features + 1);
  EXPECT_EQ(length, 2u);
  EXPECT_EQ(iso_missing_feature(nullptr, &length), nullptr);
  EXPECT_TRUE(iso_knows_feature(ISO_MACHINE_X86_64, "avx512vnni", 10));
  EXPECT_TRUE(iso_knows_feature(ISO_MACHINE_AARCH64, "i8mm,", 4));
  EXPECT_FALSE(iso_knows_feature(ISO_MACHINE_AARCH64, "avx2", 4));
}

}  // namespace
}  // namespace isomer::runtime_test
