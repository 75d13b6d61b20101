#include "compile/module.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/random.h"
#include "runtime/isomer_seal.h"
#include "test/sample_module.h"

namespace isomer::compile {
namespace {

namespace fs = std::filesystem;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_file(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

class Module : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "isomer-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string file(const std::string& name) const { return (folder_ / name).string(); }

  static loop::Target host() { return *codegen::host_target(); }
  std::string write_host(const std::string& name = "model.so", size_t extra = 0) {
    const Sample s = sample(host(), "k_", extra);
    auto size = write_module(file(name), {s.variant()});
    EXPECT_TRUE(size.ok()) << (size.ok() ? "" : size.error().to_string());
    return file(name);
  }

  fs::path folder_;
};

// Inputs with a known answer.
struct Call {
  alignas(64) std::array<float, kRows * kColumns> x{}, y{};
  std::array<int64_t, kPicks> index{0, 3, 99, 50};
  std::array<float, kPicks> z{};

  Call() {
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 13) - 6;
  }
  int run(iso_context* context, iso_error* error) {
    const iso_buffer in[] = {{x.data(), sizeof x, "x", nullptr, 0, ISO_F32},
                             {index.data(), sizeof index, "index", nullptr, 0, ISO_I64}};
    const iso_buffer out[] = {{y.data(), sizeof y, "y", nullptr, 0, ISO_F32},
                              {z.data(), sizeof z, nullptr, nullptr, 0, 0}};
    return iso_run(context, in, 2, out, 2, error);
  }
  bool right() const {
    for (size_t i = 0; i < x.size(); ++i) {
      const float t = x[i] * sample_weight(i % kColumns);
      if (y[i] != (t > 0 ? t : 0)) return false;
    }
    for (size_t k = 0; k < index.size(); ++k) {
      if (z[k] != x[static_cast<size_t>(index[k])]) return false;
    }
    return true;
  }
};

TEST_F(Module, OpensAndRuns) {
  const std::string path = write_host();
  iso_error error{};
  iso_model* model = iso_open(path.c_str(), ISO_VERIFY, &error);
  ASSERT_NE(model, nullptr) << error.message;
  iso_info info{};
  ASSERT_EQ(iso_describe(model, &info, &error), ISO_OK);
  EXPECT_STREQ(info.model, "sample");
  EXPECT_EQ(info.inputs, 2u);
  EXPECT_STREQ(iso_output(model, 1)->name, "z");
  iso_context* context = iso_new_context(model, 2, ISO_POISON | ISO_PROFILE, &error);
  ASSERT_NE(context, nullptr) << error.message;
  Call call;
  ASSERT_EQ(call.run(context, &error), ISO_OK) << error.message;
  EXPECT_TRUE(call.right());
  iso_profile profile{};
  ASSERT_EQ(iso_step_profile(context, 2, &profile, &error), ISO_OK);
  EXPECT_STREQ(profile.name, "k_pick");
  EXPECT_STREQ(profile.origin, "Gather_2");
  EXPECT_EQ(profile.runs, 1u);
  call.index[1] = kColumns;
  EXPECT_EQ(call.run(context, &error), ISO_RUN_FAILED);
  EXPECT_NE(std::string(error.message).find("'Gather_2': an index is out of range"), std::string::npos)
      << error.message;
  EXPECT_EQ(iso_close(model, &error), ISO_BUSY);
  EXPECT_EQ(iso_free_context(context, &error), ISO_OK);
  EXPECT_EQ(iso_close(model, &error), ISO_OK);
}

TEST_F(Module, EightThreadsGiveTheSameBytes) {
  const std::string path = write_host();
  iso_model* model = iso_open(path.c_str(), 0, nullptr);
  ASSERT_NE(model, nullptr);
  std::array<bool, 8> right{};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < right.size(); ++t) {
    threads.emplace_back([&, t] {
      iso_context* context = iso_new_context(model, 1 + static_cast<int>(t % 3), 0, nullptr);
      right[t] = context != nullptr;
      for (int i = 0; i < 50 && right[t]; ++i) {
        Call call;
        right[t] = call.run(context, nullptr) == ISO_OK && call.right();
      }
      iso_free_context(context, nullptr);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const bool r : right) EXPECT_TRUE(r);
  EXPECT_EQ(iso_close(model, nullptr), ISO_OK);
}

TEST_F(Module, TheSameInputGivesTheSameBytes) {
  const std::string a = read_file(write_host("a.so")), b = read_file(write_host("b.so"));
  EXPECT_FALSE(a.empty());
  EXPECT_EQ(a, b);
  for (const char* target : {"x86-64-v3", "aarch64"}) {
    for (const char* name : {"c.so", "d.so"}) {
      auto size = write_module(file(name), {sample(*loop::parse_target(target)).variant()});
      ASSERT_TRUE(size.ok()) << size.error().to_string();
      EXPECT_EQ(size->file, fs::file_size(file(name)));
      EXPECT_LT(size->file - size->weights, 100u << 10);
    }
    EXPECT_EQ(read_file(file("c.so")), read_file(file("d.so")));
  }
}

TEST_F(Module, ChoosesTheVariantOfTheCpu) {
  loop::Target demanding = host();
  demanding.name = "of-the-future";
  demanding.features.push_back(host().arch == loop::Arch::X86_64 ? "fma4" : "f64mm");  // hardly any CPU has it
  const Sample first = sample(demanding, "a_"), second = sample(host(), "b_");
  auto size = write_module(file("model.so"), {first.variant(), second.variant()});
  ASSERT_TRUE(size.ok()) << size.error().to_string();
  auto alone = write_module(file("alone.so"), {second.variant()});
  ASSERT_TRUE(alone.ok());
  EXPECT_EQ(size->weights, alone->weights);  // both variants use the same
  iso_error error{};
  iso_model* model = iso_open(file("model.so").c_str(), 0, &error);
  ASSERT_NE(model, nullptr) << error.message;
  iso_info info{};
  iso_describe(model, &info, nullptr);
  EXPECT_EQ(info.target, host().name);
  iso_context* context = iso_new_context(model, 1, 0, &error);
  Call call;
  EXPECT_EQ(call.run(context, &error), ISO_OK) << error.message;
  EXPECT_TRUE(call.right());
  iso_free_context(context, nullptr);
  iso_close(model, nullptr);

  ASSERT_TRUE(write_module(file("future.so"), {first.variant()}).ok());
  EXPECT_EQ(iso_open(file("future.so").c_str(), 0, &error), nullptr);
  EXPECT_EQ(error.code, ISO_BAD_CPU);
  EXPECT_NE(std::string(error.message).find("was built for of-the-future and needs the CPU feature"),
            std::string::npos);
}

TEST_F(Module, RefusesWhatCannotBecomeOne) {
  const Sample good = sample(host());
  const auto code = [&](const std::vector<Variant>& variants) {
    auto result = write_module(file("bad.so"), variants);
    EXPECT_FALSE(fs::exists(file("bad.so")));
    return result.ok() ? "ok" : result.error().code;
  };
  EXPECT_EQ(code({}), "E-module");
  EXPECT_EQ(code({good.variant(), good.variant()}), "E-module");  // the same kernels twice
  Variant v = good.variant();
  v.plan.steps[0].arguments[0] = {Space::Address, 0, 1234};
  EXPECT_EQ(code({v}), "E-module");
  v = good.variant();
  v.plan.steps[0].function = "missing";
  EXPECT_EQ(code({v}), "E-linker");
  v = good.variant();
  v.objects[0] = "no object";
  EXPECT_EQ(code({v}), "E-linker");
  v = good.variant();
  v.plan.outputs[0].dims[0] = 9;
  Sample other = sample(host(), "other_");
  EXPECT_EQ(code({other.variant(), v}), "E-module");
  EXPECT_EQ(write_module(file("no/such/folder.so"), {good.variant()}).error().code, "E-file");
  ::setenv("ISOMER_LINKER", "/no/such/linker", 1);
  EXPECT_EQ(code({good.variant()}), "E-linker");
  ::unsetenv("ISOMER_LINKER");
}

// Every refusal is an answer; nothing of a bad file is loaded.
class BadModule : public Module {
 protected:
  std::string refusal(std::string_view bytes, int expected, uint32_t flags = 0) {
    write_file(file("bad.so"), bytes);
    iso_error error{};
    iso_model* model = iso_open(file("bad.so").c_str(), flags, &error);
    EXPECT_EQ(model, nullptr);
    if (model) iso_close(model, nullptr);
    EXPECT_EQ(error.code, expected) << error.message;
    return error.message;
  }
};

TEST_F(BadModule, TruncatedAnywhere) {
  const std::string whole = read_file(write_host("model.so", 300000));
  for (size_t size = 0; size < whole.size(); size += 4096)
    refusal(std::string_view(whole).substr(0, size), ISO_BAD_FILE);
  for (size_t cut = 1; cut < 100; cut += 7)
    refusal(std::string_view(whole).substr(0, whole.size() - cut), ISO_BAD_FILE);
  refusal(whole + "x", ISO_BAD_FILE);
}

TEST_F(BadModule, BitsFlipped) {
  const std::string whole = read_file(write_host());
  Random random(1);
  for (int i = 0; i < 300; ++i) {
    std::string bytes = whole;
    const size_t at = i < 100   ? random.below(4096)
                      : i < 150 ? bytes.size() - 1 - random.below(80)
                                : random.below(bytes.size());
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(8)));
    refusal(bytes, ISO_BAD_FILE);
  }
}

TEST_F(BadModule, LargeWeightsAreComparedOnRequest) {
  std::string bytes = read_file(write_host("model.so", 20u << 20));
  bytes[bytes.size() - (5u << 20)] ^= 1;
  refusal(bytes, ISO_BAD_FILE, ISO_VERIFY);
  write_file(file("bad.so"), bytes);
  iso_model* model = iso_open(file("bad.so").c_str(), 0, nullptr);
  EXPECT_NE(model, nullptr);
  iso_close(model, nullptr);
}

TEST_F(BadModule, OtherFiles) {
  EXPECT_NE(refusal("", ISO_BAD_FILE).find("is no Isomer module"), std::string::npos);
  EXPECT_NE(refusal(std::string(5000, 'x'), ISO_BAD_FILE).find("is no Isomer module"), std::string::npos);
  refusal(read_file("/proc/self/exe"), ISO_BAD_FILE);
  iso_error error{};
  EXPECT_EQ(iso_open(file("missing.so").c_str(), 0, &error), nullptr);
  EXPECT_NE(std::string(error.message).find("cannot be opened: No such file"), std::string::npos) << error.message;
  EXPECT_EQ(iso_open(folder_.c_str(), 0, &error), nullptr);
  EXPECT_EQ(iso_open(nullptr, 0, &error), nullptr);
  EXPECT_EQ(error.code, ISO_BAD_ARGUMENT);
}

TEST_F(BadModule, OfAnotherMachineOrVersion) {
  const bool x86 = host().arch == loop::Arch::X86_64;
  ASSERT_TRUE(
      write_module(file("model.so"), {sample(*loop::parse_target(x86 ? "aarch64" : "x86-64-v3")).variant()}).ok());
  std::string bytes = read_file(file("model.so"));
  EXPECT_NE(refusal(bytes, ISO_BAD_CPU).find(x86 ? "is for aarch64" : "is for x86-64"), std::string::npos);
  iso_seal seal{};
  std::memcpy(&seal, bytes.data() + bytes.size() - sizeof seal, sizeof seal);
  seal.version = 99;
  seal.seal_hash = iso_seal_hash(&seal);
  std::memcpy(bytes.data() + bytes.size() - sizeof seal, &seal, sizeof seal);
  refusal(bytes, ISO_BAD_VERSION);
}

// The program of docs/deploy.md, built by a C compiler and run on a module.
class Deployed : public Module {
 protected:
  void write_program() {
    const std::string page = read_file(ISOMER_SOURCE_DIR "/docs/deploy.md");
    const size_t begin = page.find("```c\n") + 5, end = page.find("\n```", begin);
    ASSERT_NE(end, std::string::npos);
    write_file(file("main.c"), page.substr(begin, end - begin + 1));
  }
  static int shell(const std::string& command) {
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  int build(const std::string& compiler) {
    const std::string sources = ISOMER_SOURCE_DIR "/src/runtime";
    return shell(compiler + " -std=c99 -Wpedantic -Wall -Wextra -Werror -O1 -I" + sources + " " + file("main.c") + " " +
                 sources + "/isomer_loader.c -o " + file("main") + " -ldl -lpthread");
  }
  void expect_answer() {
    const std::string text = read_file(file("log"));
    EXPECT_NE(text.find("model sample for "), std::string::npos) << text;
    EXPECT_NE(text.find("input x: type 1, dims 8 100, 3200 bytes"), std::string::npos) << text;
    // x[i] = (i % 17) / 16 - 0.5 is positive from i = 9; the weights are 1, 1.25, 1.5, 1.75, 2 and again.
    EXPECT_NE(text.find("output y: type 1, dims 8 100, 3200 bytes\n  0 0 0 0 0 0 0 0\n"), std::string::npos) << text;
    EXPECT_NE(text.find("output z: type 1, dims 4, 16 bytes\n  -0.5 -0.5 -0.5 -0.5\n"), std::string::npos) << text;
  }
  static bool found(const char* program) { return shell(std::string("command -v ") + program + " >/dev/null") == 0; }
};

TEST_F(Deployed, OnThisMachine) {
  ASSERT_TRUE(found("cc")) << "there is no C compiler: run scripts/bootstrap";
  write_host();
  write_program();
  ASSERT_EQ(build("cc"), 0);
  EXPECT_EQ(shell(file("main") + " " + file("model.so") + " 2 >" + file("log")), 0);
  expect_answer();
  EXPECT_EQ(shell("cd " + folder_.string() + " && ./main model.so >log"), 0);
  expect_answer();
  EXPECT_EQ(shell(file("main") + " " + file("main.c") + " 2>" + file("log")), 1);
  EXPECT_NE(read_file(file("log")).find("is no Isomer module. (code 5)"), std::string::npos);
}

TEST_F(Deployed, OnAnotherArchitecture) {
  const bool x86 = host().arch == loop::Arch::X86_64;
  const std::string triple = x86 ? "aarch64-linux-gnu" : "x86_64-linux-gnu";
  const std::string compiler = triple + "-gcc", emulator = x86 ? "qemu-aarch64" : "qemu-x86_64";
  ASSERT_TRUE(found(compiler.c_str()) && found(emulator.c_str()))
      << compiler << " and " << emulator << " are needed: run scripts/bootstrap";
  const Sample s = sample(*loop::parse_target(x86 ? "aarch64" : "x86-64-v3"));
  ASSERT_TRUE(write_module(file("model.so"), {s.variant()}).ok());
  write_program();
  ASSERT_EQ(build(compiler), 0);
  const std::string run =
      emulator + (x86 ? "" : " -cpu max") + " -L /usr/" + triple + " " + file("main") + " " + file("model.so");
  ASSERT_EQ(shell(run + " 2 >" + file("log")), 0);
  expect_answer();
}

}  // namespace
}  // namespace isomer::compile
