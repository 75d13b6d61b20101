#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <fstream>
#include <memory>
#include <thread>

#include "test/unit/runtime/small_program.h"

namespace isomer::runtime_test {
namespace {

void expect_right(const SmallProgram& small, const Buffers& buffers) {
  const std::vector<float> expected = small.expected(buffers.x.data());
  for (size_t i = 0; i < kSize; ++i) ASSERT_EQ(buffers.y[i], expected[i]) << i;
  for (size_t i = 0; i < 8; ++i) ASSERT_EQ(buffers.z[i], buffers.x[static_cast<size_t>(buffers.index[i])]) << i;
}

TEST(Runtime, ComputesTheSameWithAnyNumberOfThreads) {
  const SmallProgram small;
  iso_error error{};
  iso_model* model = iso_open_program(&small.program, &error);
  ASSERT_NE(model, nullptr) << error.message;
  iso_context* context = iso_new_context(model, 1, 0, &error);
  ASSERT_NE(context, nullptr) << error.message;
  for (const int threads : {1, 2, 3, 8, 64, 1, 0}) {
    ASSERT_EQ(iso_set_threads(context, threads, &error), ISO_OK) << error.message;
    for (int seed = 0; seed < 50; ++seed) {
      Buffers buffers(seed);
      ASSERT_EQ(buffers.run(context, &error), ISO_OK) << error.message;
      expect_right(small, buffers);
    }
  }
  EXPECT_EQ(iso_free_context(context, &error), ISO_OK);
  EXPECT_EQ(iso_close(model, &error), ISO_OK);
}

TEST(Runtime, TakesEveryTaskExactlyOnce) {
  static std::atomic<int> hits[1000];
  const iso_kernel count = [](void* const*, int64_t begin, int64_t end, void*) {
    for (int64_t i = begin; i < end; ++i) ++hits[i];
    return int32_t{0};
  };
  for (const double flops : {0.0, 1e5, 1e9}) {
    for (const int64_t tasks : {0, 1, 2, 3, 7, 64, 1000}) {
      SmallProgram small;
      const uint32_t backward = tasks % 3 == 1 ? 1 : 0;
      small.steps[0] = {count, "count", "n", nullptr, nullptr, 0, 0, tasks, 0, flops, 0, 0, 0, backward};
      small.program.step_count = 1;
      iso_model* model = iso_open_program(&small.program, nullptr);
      for (const int threads : {1, 2, 5}) {
        for (auto& h : hits) h = 0;
        iso_context* context = iso_new_context(model, threads, 0, nullptr);
        Buffers buffers;
        for (int run = 1; run <= 20; ++run) {
          ASSERT_EQ(buffers.run(context, nullptr), ISO_OK);
          for (int64_t i = 0; i < 1000; ++i) ASSERT_EQ(hits[i], i < tasks ? run : 0) << i << " of " << tasks;
        }
        iso_free_context(context, nullptr);
      }
      iso_close(model, nullptr);
    }
  }
}

TEST(Runtime, CopiesBuffersThatKernelsCannotUse) {
  const SmallProgram small;
  iso_model* model = iso_open_program(&small.program, nullptr);
  iso_context* context = iso_new_context(model, 2, 0, nullptr);
  auto x = std::make_unique<std::byte[]>(kSize * 4 + 256), y = std::make_unique<std::byte[]>(kSize * 4 + 256);
  for (const size_t shift : {0, 4, 12, 60, 1}) {
    Buffers buffers;
    std::memcpy(x.get() + shift, buffers.x.data(), kSize * 4);
    std::memset(y.get(), 0x5a, kSize * 4 + 256);
    buffers.in[0].data = x.get() + shift;
    buffers.out[0].data = y.get() + shift;
    ASSERT_EQ(buffers.run(context, nullptr), ISO_OK);
    std::memcpy(buffers.y.data(), y.get() + shift, kSize * 4);
    expect_right(small, buffers);
    for (size_t i = shift + kSize * 4; i < kSize * 4 + 256; ++i) ASSERT_EQ(y[i], std::byte{0x5a});
  }
  iso_free_context(context, nullptr);
  iso_close(model, nullptr);
}

TEST(Runtime, PoisonShowsWhatIsReadBeforeItIsWritten) {
  SmallProgram small;
  std::swap(small.steps[0], small.steps[1]);  // the window is read before its product is computed
  iso_model* model = iso_open_program(&small.program, nullptr);
  iso_context* context = iso_new_context(model, 2, ISO_POISON, nullptr);
  Buffers buffers;
  for (int run = 0; run < 3; ++run) {
    ASSERT_EQ(buffers.run(context, nullptr), ISO_OK);
    for (size_t i = 0; i < kSize; ++i) ASSERT_TRUE(std::isnan(buffers.y[i])) << i;
  }
  iso_free_context(context, nullptr);
  iso_close(model, nullptr);
}

TEST(Runtime, PoisonShowsWhatIsReadAfterItsLastUse) {
  SmallProgram small;
  std::array<iso_range, 1> early{{{64, kSize * 4}}};
  small.steps[0].freed = early.data();
  small.steps[0].freed_count = 1;
  iso_model* model = iso_open_program(&small.program, nullptr);
  for (const uint32_t flags : {0u, ISO_POISON}) {
    iso_context* context = iso_new_context(model, 2, flags, nullptr);
    Buffers buffers;
    ASSERT_EQ(buffers.run(context, nullptr), ISO_OK);
    EXPECT_EQ(std::isnan(buffers.y[5]), flags == ISO_POISON);
    iso_free_context(context, nullptr);
  }
  iso_close(model, nullptr);
}

TEST(Runtime, PoisonLeavesARightProgramAlone) {
  const SmallProgram small;
  iso_model* model = iso_open_program(&small.program, nullptr);
  iso_context* context = iso_new_context(model, 3, ISO_POISON | ISO_PROFILE, nullptr);
  Buffers buffers;
  for (int run = 0; run < 5; ++run) ASSERT_EQ(buffers.run(context, nullptr), ISO_OK);
  expect_right(small, buffers);
  iso_profile profile{};
  ASSERT_EQ(iso_step_profile(context, 1, &profile, nullptr), ISO_OK);
  EXPECT_STREQ(profile.name, "window");
  EXPECT_STREQ(profile.origin, "Add_1,Slice_2");
  EXPECT_EQ(profile.runs, 5u);
  EXPECT_GE(profile.seconds, profile.fastest);
  EXPECT_EQ(iso_set_profile(context, 1, nullptr), ISO_OK);
  ASSERT_EQ(iso_step_profile(context, 1, &profile, nullptr), ISO_OK);
  EXPECT_EQ(profile.runs, 0u);
  iso_free_context(context, nullptr);
  iso_close(model, nullptr);
}

TEST(Runtime, EightContextsAtOnceGiveTheBytesOfOne) {
  const SmallProgram small;
  iso_model* model = iso_open_program(&small.program, nullptr);
  std::vector<std::unique_ptr<Buffers>> serial;
  iso_context* alone = iso_new_context(model, 1, 0, nullptr);
  for (int seed = 0; seed < 8; ++seed) {
    serial.push_back(std::make_unique<Buffers>(seed));
    ASSERT_EQ(serial.back()->run(alone, nullptr), ISO_OK);
  }
  iso_free_context(alone, nullptr);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      iso_context* context = iso_new_context(model, 1 + t % 3, 0, nullptr);
      if (!context) return void(++wrong);
      for (int run = 0; run < 100; ++run) {
        const int seed = (t + run) % 8;
        Buffers mine(seed);
        if (mine.run(context, nullptr) != ISO_OK) ++wrong;
        const Buffers& right = *serial[static_cast<size_t>(seed)];
        if (mine.y != right.y || mine.z != right.z) ++wrong;
      }
      iso_free_context(context, nullptr);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(iso_close(model, nullptr), ISO_OK);
}

long resident_pages() {
  std::ifstream statm("/proc/self/statm");
  long total = 0, resident = 0;
  statm >> total >> resident;
  return resident;
}

#if defined(__has_feature)
#define ISOMER_HAS_FEATURE(x) __has_feature(x)
#else
#define ISOMER_HAS_FEATURE(x) 0
#endif

TEST(Runtime, TenThousandRunsDoNotGrow) {
#if defined(__SANITIZE_ADDRESS__) || ISOMER_HAS_FEATURE(address_sanitizer)
  GTEST_SKIP() << "AddressSanitizer holds freed memory back: its leak check tells what the size of the process cannot";
#endif
  const SmallProgram small;
  iso_model* model = iso_open_program(&small.program, nullptr);
  iso_context* context = iso_new_context(model, 2, 0, nullptr);
  Buffers buffers;
  buffers.in[0].data = buffers.x.data() + 1;  // so that the copy is part of it
  const auto run_some = [&](int count) {
    for (int i = 0; i < count; ++i) ASSERT_EQ(buffers.run(context, nullptr), ISO_OK);
  };
  run_some(500);
  const long before = resident_pages();
  run_some(10000);
  EXPECT_LE(resident_pages(), before + 16);
  iso_free_context(context, nullptr);
  for (int i = 0; i < 200; ++i) {
    iso_context* other = iso_new_context(model, 2, 0, nullptr);
    ASSERT_EQ(buffers.run(other, nullptr), ISO_OK);
    iso_free_context(other, nullptr);
  }
  EXPECT_LE(resident_pages(), before + 128);
  iso_close(model, nullptr);
}

// Tells where it reads its weights, and what the last of them is.
int32_t tell_weights(void* const* a, int64_t, int64_t, void*) {
  const auto* weights = static_cast<const int64_t*>(a[0]);
  auto* told = static_cast<int64_t*>(a[1]);
  told[0] = static_cast<int64_t>(reinterpret_cast<intptr_t>(weights));
  told[1] = weights[(size_t{1} << 18) - 1];
  return 0;
}

TEST(Runtime, ContextsShareACopyOfTheWeightsOrTheWeights) {
  std::vector<int64_t> weights(size_t{1} << 18);
  weights.back() = 42;
  const int64_t dims = 2;
  const iso_tensor out{"told", ISO_I64, 1, &dims, 16, 8, 0, 0};
  const std::array<iso_place, 2> places{{{ISO_IN_WEIGHTS, 0, 0}, {ISO_IN_OUTPUT, 0, 0}}};
  const iso_step step{tell_weights, "tell", "n", places.data(), nullptr, 2, 0, 1, 0, 0, 0, 0, 0, 0};
  iso_program program{};
  program.abi_version = ISO_ABI_VERSION;
  program.model = "weights", program.target = "any", program.features = "";
  program.inputs = &out;
  program.outputs = &out, program.output_count = 1;
  program.steps = &step, program.step_count = 1;
  program.weights = weights.data(), program.weight_bytes = weights.size() * sizeof(int64_t);
  iso_error error{};
  iso_model* model = iso_open_program(&program, &error);
  ASSERT_NE(model, nullptr) << error.message;
  std::vector<int64_t> at;
  for (const uint32_t flags : {0U, ISO_SHARED_WEIGHTS, 0U}) {
    iso_context* context = iso_new_context(model, 1, flags, &error);
    ASSERT_NE(context, nullptr) << error.message;
    std::array<int64_t, 2> told{};
    const iso_buffer buffer{told.data(), sizeof told, nullptr, nullptr, 0, 0};
    ASSERT_EQ(iso_run(context, nullptr, 0, &buffer, 1, &error), ISO_OK) << error.message;
    EXPECT_EQ(told[1], 42);
    at.push_back(told[0]);
    iso_free_context(context, nullptr);
  }
  EXPECT_EQ(at[0], at[2]);
  EXPECT_EQ(at[1], static_cast<int64_t>(reinterpret_cast<intptr_t>(weights.data())));
  EXPECT_EQ(iso_close(model, nullptr), ISO_OK);
}

}  // namespace
}  // namespace isomer::runtime_test
