#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <map>
#include <sstream>

#include "base/random.h"
#include "loop/intrinsics.h"
#include "test/narrower_targets.h"
#include "test/run_kernel.h"

namespace isomer::codegen {
namespace {

using loop::LoopKind;
using loop::Stmt;
using te::Expr;

Tensor random_tensor(Random& random, DType type, std::vector<int64_t> dims) {
  Tensor t(type, std::move(dims));
  for (int64_t i = 0; i < t.size(); ++i) t.set_real(i, static_cast<double>(random.between(-8, 8)));
  return t;
}

// C[M,N] += A[M,K] * B[K,N] cut into tiles with tails in both directions; A as it is or as panels of k by rows.
struct Product {
  int64_t m, n, k;
  bool panels;
};

loop::Function product(const loop::IntrinsicPtr& tile, DType dtype, const Product& p) {
  const int64_t rows = *tile->meaning.stages[0].axes[0].extent.constant();
  const int64_t columns = *tile->meaning.stages[0].axes[1].extent.constant();
  const int64_t row_tiles = (p.m + rows - 1) / rows, column_tiles = (p.n + columns - 1) / columns;
  loop::Function f;
  f.name = "product";
  const std::vector<int64_t> a_dims =
      p.panels ? std::vector<int64_t>{row_tiles, p.k, rows} : std::vector<int64_t>{p.m, p.k};
  f.buffers = {argument("A", dtype, a_dims), argument("B", dtype, {p.k, p.n}), argument("C", dtype, {p.m, p.n}, true)};
  f.arguments = 3;
  const Expr i(te::Axis{0, "i", Dim(0)}), j(te::Axis{1, "j", Dim(0)}), zero(0);
  const Expr r0 = i * Expr(rows), c0 = j * Expr(columns);
  loop::TileOperand a =
      p.panels ? loop::TileOperand{0, {i, zero, zero}, {1, 0, rows}} : loop::TileOperand{0, {r0, zero}, {p.k, 0, 1}};
  const Stmt body =
      Stmt::tile(tile, {a, {1, {zero, c0}, {0, 1, p.n}}, {2, {r0, c0}, {p.n, 1, 0}}},
                 {te::min(Expr(rows), Expr(p.m) - r0), te::min(Expr(columns), Expr(p.n) - c0), Expr(p.k)});
  f.body = Stmt::loop(0, "i", Expr(row_tiles), LoopKind::Parallel,
                      Stmt::loop(1, "j", Expr(column_tiles), LoopKind::Serial, body));
  return f;
}

void check(const loop::Target& target, const loop::IntrinsicPtr& tile, DType dtype, const Product& p) {
  Random random(static_cast<uint64_t>(p.m * 31 + p.n * 7 + p.k));
  const loop::Function f = product(tile, dtype, p);
  EXPECT_TRUE(loop::verify(f).ok()) << loop::verify(f).error().to_string();
  const Tensor a = random_tensor(random, dtype, f.buffers[0].dims), b = random_tensor(random, dtype, {p.k, p.n});
  const Tensor c = random_tensor(random, dtype, {p.m, p.n});
  const KernelRun run = run_kernel(f, {a, b, c}, {}, target);
  ASSERT_EQ(run.status, 0);
  const int64_t rows = *tile->meaning.stages[0].axes[0].extent.constant();
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j) {
      double want = c.real(i * p.n + j);
      for (int64_t k = 0; k < p.k; ++k)
        want += a.real(p.panels ? (i / rows * p.k + k) * rows + i % rows : i * p.k + k) * b.real(k * p.n + j);
      ASSERT_EQ(run.arguments[2].real(i * p.n + j), want) << tile->name << " at " << i << ", " << j;
    }
}

void check_target(const loop::Target& target) {
  for (const DType dtype : {DType::F32, DType::F64}) {
    const auto tiles = loop::intrinsics_for(target, dtype);
    EXPECT_FALSE(tiles.empty());
    for (const loop::IntrinsicPtr& tile : tiles) {
      EXPECT_EQ((*loop::find_intrinsic(tile->name))->name, tile->name);
      for (const bool panels : {false, true})
        for (const Product& p : {Product{31, 70, 19, panels}, Product{1, 5, 3, panels}, Product{24, 96, 1, panels}})
          check(target, tile, dtype, p);
    }
  }
}

TEST(Tile, ProductsWithTails) {
  auto host = host_target();
  ASSERT_TRUE(host.ok());
  check_target(*host);
}

TEST(Tile, ProductsWithTailsOnNarrowerTargets) {
  testing::on_narrower_targets([](const loop::Target& target) { check_target(target); });
}

// The text between a label and the branch back to it, for every loop without a loop inside.
std::vector<std::string> inner_loops(const std::string& text) {
  std::vector<std::string> out;
  std::map<std::string, size_t> labels;
  size_t last = 0;  // where the last loop ended
  std::istringstream lines(text);
  size_t at = 0;
  for (std::string line; std::getline(lines, line); at += line.size() + 1) {
    if (line.starts_with(".LBB")) labels[line.substr(0, line.find(':'))] = at;
    const size_t target = line.find(".LBB", 1);
    if (target == std::string::npos || !line.starts_with("\tb")) continue;
    const auto label = labels.find(line.substr(target, line.find_first_of(" \t", target) - target));
    if (label == labels.end() || label->second < last) continue;
    last = at;
    out.push_back(text.substr(label->second, at - label->second));
  }
  return out;
}

// Rows as they lie: sums, rows and columns of every tile of NEON stay in registers.
TEST(Tile, NeonTilesDoNotSpill) {
  const loop::Target target = *loop::parse_target("aarch64");
  for (const loop::IntrinsicPtr& tile : loop::intrinsics_for(target, DType::F32)) {
    const int64_t rows = *tile->meaning.stages[0].axes[0].extent.constant();
    const int64_t columns = *tile->meaning.stages[0].axes[1].extent.constant();
    const loop::Function f = product(tile, DType::F32, {rows, columns, 64, false});
    Options options;
    options.dump_dir = ::testing::TempDir();
    ASSERT_TRUE(emit_objects({&f, 1}, target, options).ok());
    std::ifstream file(options.dump_dir + "/product.s");
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    size_t products = 0;
    for (const std::string& loop : inner_loops(text)) {
      size_t n = 0;
      for (size_t i = loop.find("fmla"); i != std::string::npos; i = loop.find("fmla", i + 1)) ++n;
      products = std::max(products, n);
      EXPECT_TRUE(n < 4 || loop.find("[sp") == std::string::npos) << tile->name << "\n" << loop;
    }
    EXPECT_EQ(products, static_cast<size_t>(rows * columns)) << tile->name;  // four steps of vectors of four
  }
}

// Byte products: by the machine's instruction, and where it has none by what they mean.
void check_bytes(const loop::Target& target, const loop::IntrinsicPtr& tile, int64_t m, int64_t n, int64_t k) {
  const DType left = tile->meaning.inputs[0].dtype, right = tile->meaning.inputs[1].dtype;
  loop::Function f;
  f.name = "bytes";
  f.buffers = {argument("A", left, {m, k, 4}), argument("B", right, {k, n, 4}),
               argument("C", DType::I32, {m, n}, true)};
  f.arguments = 3;
  f.body =
      Stmt::tile(tile, {{0, {0, 0, 0}, {4 * k, 0, 4, 1}}, {1, {0, 0, 0}, {0, 4, 4 * n, 1}}, {2, {0, 0}, {n, 1, 0, 0}}},
                 {Expr(m), Expr(n), Expr(k), Expr(4)});
  EXPECT_TRUE(loop::verify(f).ok()) << loop::verify(f).error().to_string();
  Random random(9);
  auto bytes = [&](DType type, std::vector<int64_t> dims) {
    Tensor t(type, std::move(dims));
    for (int64_t i = 0; i < t.size(); ++i) t.set_integer(i, random.between(-128, 255));
    return t;
  };
  const Tensor a = bytes(left, {m, k, 4}), b = bytes(right, {k, n, 4}), c = bytes(DType::I32, {m, n});
  const KernelRun run = run_kernel(f, {a, b, c}, {}, target);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      int64_t want = c.integer(i * n + j);
      for (int64_t l = 0; l < k; ++l)
        for (int64_t q = 0; q < 4; ++q) want += a.integer((i * k + l) * 4 + q) * b.integer((l * n + j) * 4 + q);
      ASSERT_EQ(run.arguments[2].integer(i * n + j), want) << tile->name << " at " << i << ", " << j;
    }
}

TEST(Tile, BytesOfAllKinds) {
  auto host = host_target();
  ASSERT_TRUE(host.ok());
  for (const char* name : {"dot_14x32_u8_i8", "dot_5x16_i8_i8", "dot_5x16_u8_u8"}) {
    const auto tile = loop::find_intrinsic(name);
    ASSERT_TRUE(tile.has_value()) << name;
    check_bytes(*host, *tile, 5, 12, 13);
    check_bytes(*host, *tile, 3, 7, 1);
  }
  // Also what machines have whose features this one has too: sums of four bytes by pairs or halves of 16 bits.
  std::vector<loop::Target> targets = {*host};
  for (const char* name : {"x86-64-v3", "x86-64-v4", "aarch64"}) {
    const auto other = loop::parse_target(name);
    ASSERT_TRUE(other.ok());
    const auto missing = [&](const std::string& f) { return !host->has(f); };
    if (other->arch == host->arch && std::none_of(other->features.begin(), other->features.end(), missing))
      targets.push_back(*other);
  }
  for (const loop::Target& target : targets)
    for (const DType left : {DType::U8, DType::I8})
      for (const loop::IntrinsicPtr& tile : loop::dot_products_for(target, left, DType::I8)) {
        SCOPED_TRACE(target.name + " " + tile->name);
        const auto& axes = tile->meaning.stages[0].axes;
        check_bytes(target, tile, axes[0].extent.value(), axes[1].extent.value(), 37);
        check_bytes(target, tile, axes[0].extent.value() - 1, axes[1].extent.value() - 3, 3);
      }
}

// A tile that is cleared first gives the product alone; a clear of less than the tile stays what it is.
TEST(Tile, ClearedFirst) {
  auto host = host_target();
  ASSERT_TRUE(host.ok());
  const loop::IntrinsicPtr tile = loop::intrinsics_for(*host, DType::F32)[0];
  for (const int64_t cleared : {4, 3}) {
    loop::Function f;
    f.name = "product";
    f.buffers = {argument("A", DType::F32, {20}), argument("B", DType::F32, {5 * 7}),
                 argument("C", DType::F32, {4 * 7}, true)};
    f.arguments = 3;
    const Expr r(te::Axis{0, "r", Dim(0)}), c(te::Axis{1, "c", Dim(0)});
    const Stmt clear = Stmt::store(2, {r * Expr(7) + c}, Expr::real(DType::F32, 0));
    f.body =
        Stmt::seq({Stmt::loop(0, "r", Expr(cleared), LoopKind::Serial, Stmt::loop(1, "c", 7, LoopKind::Vector, clear)),
                   Stmt::tile(tile, {{0, {0}, {5, 0, 1}}, {1, {0}, {0, 1, 7}}, {2, {0}, {7, 1, 0}}}, {4, 7, 5})});
    Random random(3);
    const Tensor a = random_tensor(random, DType::F32, {20}), b = random_tensor(random, DType::F32, {35});
    const Tensor old = random_tensor(random, DType::F32, {28});
    const KernelRun run = run_kernel(f, {a, b, old});
    for (int64_t i = 0; i < 4; ++i)
      for (int64_t j = 0; j < 7; ++j) {
        double want = i < cleared ? 0 : old.real(i * 7 + j);
        for (int64_t k = 0; k < 5; ++k) want += a.real(i * 5 + k) * b.real(k * 7 + j);
        EXPECT_EQ(run.arguments[2].real(i * 7 + j), want) << i << ", " << j;
      }
  }
}

TEST(Tile, NamesThatDoNotExist) { EXPECT_FALSE(loop::find_intrinsic("fma_1x1_f32").has_value()); }

// Floats in two parts, in runs of pairs: whole registers by the machine's instruction, other sizes by what they mean.
void check_split(const loop::Target& target, int64_t m, int64_t n, int64_t runs, int64_t k, bool cleared) {
  const loop::IntrinsicPtr tile =
      m > 32 ? loop::split_product(64, 16, "amx-bf16") : loop::split_product(32, 32, "amx-bf16");
  EXPECT_EQ((*loop::find_intrinsic(tile->name))->name, tile->name);
  loop::Function f;
  f.name = "split";
  const std::vector<int64_t> left = {m, runs, k, 2}, right = {runs, k, n, 2};
  f.buffers = {argument("AH", DType::BF16, left), argument("AL", DType::BF16, left), argument("BH", DType::BF16, right),
               argument("BL", DType::BF16, right), argument("C", DType::F32, {m * n}, true)};
  f.arguments = 5;
  const std::vector<Expr> zero(4, Expr(0));
  const std::vector<int64_t> a = {runs * k * 2, 0, k * 2, 2, 1}, b = {0, 2, k * n * 2, n * 2, 1};
  const Stmt product =
      Stmt::tile(tile, {{0, zero, a}, {1, zero, a}, {2, zero, b}, {3, zero, b}, {4, {Expr(0)}, {n, 1, 0, 0, 0}}},
                 {Expr(m), Expr(n), Expr(runs), Expr(k), Expr(2)});
  const Expr i(te::Axis{0, "i", Dim(0)}), j(te::Axis{1, "j", Dim(0)});
  const Stmt clear = Stmt::loop(
      0, "i", Expr(m), LoopKind::Serial,
      Stmt::loop(1, "j", Expr(n), LoopKind::Vector, Stmt::store(4, {i * Expr(n) + j}, Expr::real(DType::F32, 0))));
  f.body = cleared ? Stmt::seq({clear, product}) : product;
  EXPECT_TRUE(loop::verify(f).ok()) << loop::verify(f).error().to_string();
  Random random(static_cast<uint64_t>(m * 31 + n * 7 + k));
  std::vector<Tensor> inputs;
  for (const loop::Buffer& buffer : f.buffers) inputs.push_back(random_tensor(random, buffer.dtype, buffer.dims));
  const KernelRun run = run_kernel(f, inputs, {}, target);
  ASSERT_EQ(run.status, 0);
  for (int64_t r = 0; r < m; ++r)
    for (int64_t c = 0; c < n; ++c) {
      double want = cleared ? 0 : inputs[4].real(r * n + c);
      for (int64_t d = 0; d < runs * k; ++d)
        for (int64_t q = 0; q < 2; ++q) {
          const int64_t x = (r * runs * k + d) * 2 + q, y = (d * n + c) * 2 + q;
          want += inputs[0].real(x) * (inputs[2].real(y) + inputs[3].real(y)) + inputs[1].real(x) * inputs[2].real(y);
        }
      ASSERT_EQ(run.arguments[4].real(r * n + c), want) << m << "x" << n << " at " << r << ", " << c;
    }
}

TEST(Tile, FloatsInTwoParts) {
  auto host = host_target();
  ASSERT_TRUE(host.ok());
  for (const bool cleared : {false, true}) {
    check_split(*host, 32, 32, 1, 48, cleared);
    check_split(*host, 16, 32, 3, 16, cleared);
    check_split(*host, 32, 16, 2, 32, cleared);
    check_split(*host, 7, 5, 2, 3, cleared);
    check_split(*host, 64, 16, 3, 32, cleared);
    check_split(*host, 48, 16, 1, 16, cleared);
    check_split(*host, 53, 11, 2, 16, cleared);
  }
}

// Floats without their last byte: few rows, tails of columns, depths that parts of it share unevenly.
void check_narrow(const loop::Target& target, int64_t m, int64_t n, int64_t k) {
  const loop::IntrinsicPtr tile = loop::narrow_product(8, 32, "avx512vbmi");
  EXPECT_EQ((*loop::find_intrinsic(tile->name))->name, tile->name);
  constexpr int64_t kWidth = 32;
  loop::Function f;
  f.name = "narrow";
  f.buffers = {argument("A", DType::F32, {m * k}), argument("B", DType::U8, {k * kWidth * 3 + 64}),
               argument("C", DType::F32, {m * n}, true)};
  f.arguments = 3;
  const std::vector<int64_t> b = {0, 3, 3 * kWidth};
  f.body = Stmt::tile(
      tile,
      {{0, {Expr(0)}, {k, 0, 1}}, {1, {Expr(0)}, b}, {1, {Expr(1)}, b}, {1, {Expr(2)}, b}, {2, {Expr(0)}, {n, 1, 0}}},
      {Expr(m), Expr(n), Expr(k)});
  EXPECT_TRUE(loop::verify(f).ok()) << loop::verify(f).error().to_string();
  Random random(static_cast<uint64_t>(m * 31 + n * 7 + k));
  const Tensor a = random_tensor(random, DType::F32, {m * k}), c = random_tensor(random, DType::F32, {m * n});
  Tensor bytes(DType::U8, {k * kWidth * 3 + 64});
  std::vector<double> numbers;
  for (int64_t i = 0; i < k * kWidth; ++i) {
    const auto x = static_cast<float>(random.between(-2000, 2000)) * (i % 5 == 0 ? 0x1p-20F : 0x1p-9F);
    numbers.push_back(x);
    const auto bits = std::bit_cast<uint32_t>(x);
    ASSERT_EQ(bits & 0xff, 0u);
    for (int64_t byte = 0; byte < 3; ++byte)
      bytes.mutable_as<uint8_t>()[3 * i + byte] = static_cast<uint8_t>(bits >> (8 * byte + 8));
  }
  const KernelRun run = run_kernel(f, {a, bytes, c}, {}, target);
  ASSERT_EQ(run.status, 0);
  for (int64_t r = 0; r < m; ++r)
    for (int64_t j = 0; j < n; ++j) {
      double want = c.real(r * n + j);
      for (int64_t d = 0; d < k; ++d) want += a.real(r * k + d) * numbers[static_cast<size_t>(d * kWidth + j)];
      ASSERT_NEAR(run.arguments[2].real(r * n + j), want, 1e-4)
          << m << "x" << n << "x" << k << " at " << r << ", " << j;
    }
}

TEST(Tile, FloatsInThreeBytes) {
  auto host = host_target();
  ASSERT_TRUE(host.ok());
  auto plain = loop::parse_target("x86-64-v4");
  ASSERT_TRUE(plain.ok());
  for (const int64_t m : {1, 2, 3, 5, 8})
    for (const int64_t n : {32, 16, 7})
      for (const int64_t k : {1, 3, 64, 131}) check_narrow(*host, m, n, k);
  if (host->has("avx512f")) check_narrow(*plain, 2, 7, 5);
}

}  // namespace
}  // namespace isomer::codegen
