// Code for another machine, run by qemu's user emulation: kernels must give what they give here. Skipped where the
// cross compiler that links the runner, or the emulator, is missing.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "loop/intrinsics.h"
#include "test/random_kernel.h"

namespace isomer::codegen {
namespace {

namespace fs = std::filesystem;
using loop::LoopKind;
using loop::Stmt;
using te::Expr;

// Reads counts, sizes and arguments of each kernel, runs it and writes its status and arguments back.
constexpr const char* kRunner = R"(
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
typedef int32_t (*kernel)(void* const*, int64_t, int64_t, void*);
KERNELS
static int64_t number(FILE* f) { int64_t n = 0; if (fread(&n, 8, 1, f) != 1) exit(3); return n; }
int main(int argc, char** argv) {
  FILE *in = fopen(argv[1], "rb"), *out = fopen(argv[2], "wb");
  if (argc != 3 || !in || !out) return 2;
  for (int i = 0; kernels[i]; ++i) {
    void* arguments[16]; int64_t bytes[16];
    int64_t count = number(in), tasks = number(in), scratch = number(in);
    for (int64_t a = 0; a < count; ++a) {
      bytes[a] = number(in);
      arguments[a] = aligned_alloc(64, (bytes[a] + 127) / 64 * 64);
      if (fread(arguments[a], 1, bytes[a], in) != (size_t)bytes[a]) return 4;
    }
    int64_t status = kernels[i](arguments, 0, tasks, aligned_alloc(64, scratch + 64));
    fwrite(&status, 8, 1, out);
    for (int64_t a = 0; a < count; ++a) fwrite(arguments[a], 1, bytes[a], out);
  }
  return fclose(out);
}
)";

struct Case {
  loop::Function function;
  std::vector<Tensor> arguments;
  bool wide = false;
};

class Emulator {
 public:
  Emulator() {
    std::string pattern = (fs::temp_directory_path() / "isomer-cross-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~Emulator() { fs::remove_all(folder_); }

  static bool available() {
    return std::system("aarch64-linux-gnu-gcc --version >/dev/null 2>&1 && qemu-aarch64 --version >/dev/null 2>&1") ==
           0;
  }

  std::vector<KernelRun> run(const std::vector<Case>& cases, const loop::Target& target) {
    std::string declarations, table, objects;
    std::ofstream input(folder_ / "in", std::ios::binary);
    auto number = [&](int64_t n) { input.write(reinterpret_cast<const char*>(&n), 8); };
    for (size_t i = 0; i < cases.size(); ++i) {
      loop::Function f = cases[i].function;
      f.name = "k" + std::to_string(i);
      auto object = emit_objects({&f, 1}, target, {.wide = cases[i].wide});
      EXPECT_TRUE(object.ok()) << object.error().to_string();
      if (!object.ok()) return {};
      const fs::path path = folder_ / (f.name + ".o");
      std::ofstream(path, std::ios::binary) << (*object)[0].bytes;
      objects += " " + path.string();
      declarations += "int32_t " + f.name + "(void* const*, int64_t, int64_t, void*);\n";
      table += f.name + ", ";
      number(static_cast<int64_t>(cases[i].arguments.size()));
      number(f.tasks());
      number(f.scratch_bytes());
      for (const Tensor& t : cases[i].arguments) {
        number(static_cast<int64_t>(t.byte_size()));
        input.write(reinterpret_cast<const char*>(t.bytes()), static_cast<long>(t.byte_size()));
      }
    }
    input.close();
    std::string source = kRunner;
    source.replace(source.find("KERNELS"), 7, declarations + "static const kernel kernels[] = {" + table + "0};");
    std::ofstream(folder_ / "run.c") << source;
    const std::string folder = folder_.string();
    EXPECT_EQ(
        std::system(("cd " + folder + " && aarch64-linux-gnu-gcc -O1 -static run.c" + objects + " -lm -o run").c_str()),
        0);
    EXPECT_EQ(std::system(("cd " + folder + " && qemu-aarch64 ./run in out").c_str()), 0);
    return results(cases);
  }

 private:
  std::vector<KernelRun> results(const std::vector<Case>& cases) {
    std::vector<KernelRun> runs;
    std::ifstream output(folder_ / "out", std::ios::binary);
    for (const Case& c : cases) {
      KernelRun run;
      int64_t status = -1;
      output.read(reinterpret_cast<char*>(&status), 8);
      run.status = static_cast<int32_t>(status);
      for (const Tensor& t : c.arguments) {
        Tensor got(t.dtype(), t.dims());
        output.read(reinterpret_cast<char*>(got.mutable_bytes()), static_cast<long>(got.byte_size()));
        run.arguments.push_back(got);
      }
      EXPECT_TRUE(output.good());
      runs.push_back(std::move(run));
    }
    return runs;
  }

  fs::path folder_;
};

void add_random(std::vector<Case>& cases) {
  for (uint64_t seed = 70000; seed < 70040; ++seed) {
    RandomKernel g(seed, seed % 2 == 0);
    g.make();
    std::vector<Tensor> arguments = g.inputs;
    arguments.push_back(g.output);
    cases.push_back({g.function(seed % 3 == 0 ? LoopKind::Serial : LoopKind::Vector), arguments, seed % 2 == 0});
  }
}

void add_functions(std::vector<Case>& cases) {
  Tensor x(DType::F32, {3000});
  for (int i = 0; i < 3000; ++i) x.set_real(i, (i - 1500) * 0.0701);
  const Expr i(te::Axis{0, "i", Dim(0)});
  for (const te::UnaryOp op : {te::UnaryOp::Exp, te::UnaryOp::Log, te::UnaryOp::Tanh, te::UnaryOp::Erf}) {
    loop::Function f;
    f.buffers = {argument("x", DType::F32, {3000}), argument("y", DType::F32, {3000}, true)};
    f.arguments = 2;
    f.body =
        Stmt::loop(0, "i", 3000, LoopKind::Vector, Stmt::store(1, {i}, te::unary(op, Expr::read(0, DType::F32, {i}))));
    cases.push_back({f, {x, Tensor(DType::F32, {3000})}});
  }
}

// A product of one tile of A, by rows or as a panel, and one of B; integers, so that any order gives the same sums.
void add_tiles(std::vector<Case>& cases, const loop::Target& target) {
  Random random(5);
  auto tensor = [&](std::vector<int64_t> dims, DType dtype) {
    Tensor t(dtype, std::move(dims));
    for (int64_t i = 0; i < t.size(); ++i) t.set_real(i, static_cast<double>(random.between(-9, 9)));
    return t;
  };
  for (const DType dtype : {DType::F32, DType::F64})
    for (const loop::IntrinsicPtr& tile : loop::intrinsics_for(target, dtype))
      for (const bool panel : {true, false})
        for (const bool tail : {true, false}) {
          const int64_t rows = *tile->meaning.stages[0].axes[0].extent.constant() - (tail ? 1 : 0);
          const int64_t columns = *tile->meaning.stages[0].axes[1].extent.constant() - (tail ? 3 : 0), depth = 11;
          loop::Function f;
          const std::vector<int64_t> a = panel ? std::vector<int64_t>{depth, rows} : std::vector<int64_t>{rows, depth};
          f.buffers = {argument("A", dtype, a), argument("B", dtype, {depth, columns}),
                       argument("C", dtype, {rows, columns}, true)};
          f.arguments = 3;
          f.body = Stmt::tile(tile,
                              {{0, {0, 0}, {panel ? 1 : depth, 0, panel ? rows : 1}},
                               {1, {0, 0}, {0, 1, columns}},
                               {2, {0, 0}, {columns, 1, 0}}},
                              {Expr(rows), Expr(columns), Expr(depth)});
          cases.push_back({f, {tensor(a, dtype), tensor({depth, columns}, dtype), tensor({rows, columns}, dtype)}});
        }
}

void add_bytes(std::vector<Case>& cases, const loop::Target& target) {
  Random random(6);
  for (const DType type : {DType::I8, DType::U8})
    for (const loop::IntrinsicPtr& tile : loop::dot_products_for(target, type, type)) {
      const auto& axes = tile->meaning.stages[0].axes;
      const int64_t m = axes[0].extent.value(), n = axes[1].extent.value() - 1, k = 13;
      auto bytes = [&](std::vector<int64_t> dims) {
        Tensor t(type, std::move(dims));
        for (int64_t i = 0; i < t.size(); ++i) t.set_integer(i, random.between(-128, 255));
        return t;
      };
      loop::Function f;
      f.buffers = {argument("A", type, {m, k, 4}), argument("B", type, {k, n, 4}),
                   argument("C", DType::I32, {m, n}, true)};
      f.arguments = 3;
      f.body = Stmt::tile(
          tile, {{0, {0, 0, 0}, {4 * k, 0, 4, 1}}, {1, {0, 0, 0}, {0, 4, 4 * n, 1}}, {2, {0, 0}, {n, 1, 0, 0}}},
          {Expr(m), Expr(n), Expr(k), Expr(4)});
      cases.push_back({f, {bytes({m, k, 4}), bytes({k, n, 4}), Tensor(DType::I32, {m, n})}});
    }
}

void compare(const std::vector<KernelRun>& runs, std::vector<Case>& cases) {
  ASSERT_EQ(runs.size(), cases.size());
  for (size_t c = 0; c < cases.size(); ++c) {
    SCOPED_TRACE("case " + std::to_string(c));
    cases[c].function.name = "kernel";
    const KernelRun here = run_kernel(cases[c].function, cases[c].arguments, {.wide = cases[c].wide});
    ASSERT_EQ(runs[c].status, here.status);
    if (here.status != 0) continue;
    const Tensor &want = here.arguments.back(), &have = runs[c].arguments.back();
    for (int64_t i = 0; i < want.size(); ++i) {
      if (!is_float(want.dtype())) {
        ASSERT_EQ(have.integer(i), want.integer(i)) << i;
      } else if (!(std::isnan(want.real(i)) && std::isnan(have.real(i))) && want.real(i) != have.real(i)) {
        ASSERT_NEAR(have.real(i), want.real(i), 1e-9 * std::fabs(want.real(i))) << i;
      }
    }
  }
}

TEST(CodegenCross, AArch64GivesWhatThisMachineGives) {
  ASSERT_TRUE(Emulator::available()) << "aarch64-linux-gnu-gcc and qemu-aarch64 are missing: run scripts/bootstrap";
  const auto target = loop::parse_target("aarch64");
  ASSERT_TRUE(target.ok());
  std::vector<Case> cases;
  add_random(cases);
  add_functions(cases);
  add_tiles(cases, *target);
  compare(Emulator().run(cases, *target), cases);
}

TEST(CodegenCross, ByteProductsOfAArch64) {
  ASSERT_TRUE(Emulator::available()) << "aarch64-linux-gnu-gcc and qemu-aarch64 are missing: run scripts/bootstrap";
  // By an instruction, and by halves of 16 bits where there is none.
  for (const auto& [name, count] : {std::pair("aarch64-dotprod", 2u), std::pair("aarch64", 1u)}) {
    const auto target = loop::parse_target(name);
    ASSERT_TRUE(target.ok());
    std::vector<Case> cases;
    add_bytes(cases, *target);
    EXPECT_EQ(cases.size(), count);
    compare(Emulator().run(cases, *target), cases);
  }
}

}  // namespace
}  // namespace isomer::codegen
