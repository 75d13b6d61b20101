#include "loop/intrinsics.h"

#include <fmt/format.h>

#include <limits>

namespace isomer::loop {
namespace {

struct Record {
  Arch arch;
  const char* needs;
  int rows, columns;
  DType dtype;
};

// Best first for each feature; a target takes those of its widest feature only. With AVX-512 all of these reach the peak
// on panels in the first cache (bench/microkernel.cc); 14 rows also divide the sizes that convolutions have. With NEON a row
// gives four steps of the depth in one register, so that sums, rows and two or three columns must fit into 32: 8x12 does so
// only where the left side is packed.
constexpr Record kOuterProducts[] = {
    {Arch::X86_64, "avx512f", 14, 32, DType::F32}, {Arch::X86_64, "avx512f", 12, 32, DType::F32},
    {Arch::X86_64, "avx512f", 8, 48, DType::F32},  {Arch::X86_64, "avx512f", 6, 64, DType::F32},
    {Arch::X86_64, "avx512f", 24, 16, DType::F32}, {Arch::X86_64, "avx512f", 14, 16, DType::F64},
    {Arch::X86_64, "avx2", 6, 16, DType::F32},     {Arch::X86_64, "avx2", 4, 24, DType::F32},
    {Arch::X86_64, "avx2", 6, 8, DType::F64},      {Arch::AArch64, "neon", 5, 16, DType::F32},
    {Arch::AArch64, "neon", 7, 12, DType::F32},    {Arch::AArch64, "neon", 8, 8, DType::F32},
    {Arch::AArch64, "neon", 4, 20, DType::F32},    {Arch::AArch64, "neon", 2, 32, DType::F32},
    {Arch::AArch64, "neon", 8, 6, DType::F64},
};

struct DotRecord {
  Arch arch;
  const char* needs;
  int rows, columns;
  DType left, right;
};

// Those without an instruction of their own (avx512bw, avx2, neon) multiply pairs or halves in 16 bits, which is exact, at about the
// rate of floats and a quarter of their bytes.
constexpr DotRecord kDotProducts[] = {
    {Arch::X86_64, "avx512vnni", 14, 32, DType::U8, DType::I8}, {Arch::X86_64, "avxvnni", 6, 16, DType::U8, DType::I8},
    {Arch::AArch64, "dotprod", 5, 16, DType::I8, DType::I8},    {Arch::AArch64, "dotprod", 5, 16, DType::U8, DType::U8},
    {Arch::AArch64, "i8mm", 5, 16, DType::U8, DType::I8},       {Arch::X86_64, "avx512bw", 8, 32, DType::U8, DType::I8},
    {Arch::X86_64, "avx2", 4, 16, DType::U8, DType::I8},        {Arch::AArch64, "neon", 4, 16, DType::I8, DType::I8},
};

constexpr const char* kMatrixTiles = "amx-bf16";
constexpr const char* kByteTiles = "amx-int8";
constexpr const char* kBytePermutes = "avx512vbmi";
constexpr int kNarrowRows = 8, kNarrowColumns = 32;
constexpr int kSplitRows = 32, kSplitColumns = 32;  // four registers of sums, two and two of operands
constexpr int kTallRows = 64,
              kTallColumns = static_cast<int>(kFewColumns);  // as many of sums: none waits for its last product

}  // namespace

IntrinsicPtr dot_product(int rows, int columns, DType left, DType right, std::string needs) {
  Intrinsic i;
  i.name = fmt::format("dot_{}x{}_{}_{}", rows, columns, isomer::name(left), isomer::name(right));
  i.emit = Emit::DotProduct;
  te::Builder b;
  const Dim depth = Dim::symbol("k");
  const te::Handle x = b.input("A", left, {rows, depth, 4}), y = b.input("B", right, {depth, columns, 4});
  const te::Axis m = b.axis("m", rows), n = b.axis("n", columns), k = b.axis("k", depth), q = b.axis("q", 4);
  const te::Expr product = te::cast(DType::I32, x(m, k, q)) * te::cast(DType::I32, y(k, n, q));
  i.meaning = b.finish({b.stage("C", DType::I32, {m, n}, te::sum({k, q}, product))});
  i.tail = {true, true, true, false};
  i.needs = std::move(needs);
  return std::make_shared<const Intrinsic>(std::move(i));
}

std::vector<IntrinsicPtr> dot_products_for(const Target& target, DType left, DType right) {
  std::vector<IntrinsicPtr> out;
  for (const DotRecord& r : kDotProducts)
    if (r.arch == target.arch && r.left == left && r.right == right && target.has(r.needs) && out.empty())
      out.push_back(dot_product(r.rows, r.columns, r.left, r.right, r.needs));
  return out;
}

IntrinsicPtr tiled_dot_product_for(const Target& target, DType left, DType right) {
  if (!target.has(kByteTiles) || left != DType::U8 || right != DType::I8) return nullptr;
  return dot_product(kSplitRows, kSplitColumns, left, right, kByteTiles);
}

bool uses_tile_registers(const Intrinsic& i) { return i.needs == kMatrixTiles || i.needs == kByteTiles; }

IntrinsicPtr split_product(int rows, int columns, std::string needs) {
  Intrinsic i;
  i.name = fmt::format("split_{}x{}_bf16", rows, columns);
  i.emit = Emit::SplitProduct;
  te::Builder b;
  const Dim runs = Dim::symbol("j"), depth = Dim::symbol("k");
  const std::vector<Dim> left = {rows, runs, depth, 2}, right = {runs, depth, columns, 2};
  const te::Handle ah = b.input("A_high", DType::BF16, left), al = b.input("A_low", DType::BF16, left);
  const te::Handle bh = b.input("B_high", DType::BF16, right), bl = b.input("B_low", DType::BF16, right);
  const te::Axis m = b.axis("m", rows), n = b.axis("n", columns);
  const te::Axis j = b.axis("j", runs), k = b.axis("k", depth), q = b.axis("q", 2);
  const auto product = [&](const te::Handle& x, const te::Handle& y) {
    return te::cast(DType::F32, x(m, j, k, q)) * te::cast(DType::F32, y(j, k, n, q));
  };
  i.meaning = b.finish(
      {b.stage("C", DType::F32, {m, n}, te::sum({j, k, q}, product(ah, bh) + product(ah, bl) + product(al, bh)))});
  i.tail = {true, true, true, true, false};
  i.needs = std::move(needs);
  return std::make_shared<const Intrinsic>(std::move(i));
}

IntrinsicPtr split_product_for(const Target& target, int64_t columns) {
  if (!target.has(kMatrixTiles)) return nullptr;
  return columns > kFewColumns ? split_product(kSplitRows, kSplitColumns, kMatrixTiles)
                               : split_product(kTallRows, kTallColumns, kMatrixTiles);
}

IntrinsicPtr narrow_product(int rows, int columns, std::string needs) {
  Intrinsic i;
  i.name = fmt::format("narrow_{}x{}_f32", rows, columns);
  i.emit = Emit::NarrowProduct;
  te::Builder b;
  const Dim depth = Dim::symbol("k");
  const te::Handle x = b.input("A", DType::F32, {rows, depth}), low = b.input("B_0", DType::U8, {depth, columns});
  const te::Handle middle = b.input("B_1", DType::U8, {depth, columns});
  const te::Handle high = b.input("B_2", DType::U8, {depth, columns});
  const te::Axis m = b.axis("m", rows), n = b.axis("n", columns), k = b.axis("k", depth);
  const auto number = [](int v) { return te::Expr::integer(DType::I32, v); };
  const auto real = [](double v) { return te::Expr::real(DType::F32, v); };
  const te::Expr b0 = te::cast(DType::I32, low(k, n)), b1 = te::cast(DType::I32, middle(k, n));
  const te::Expr b2 = te::cast(DType::I32, high(k, n));
  const te::Expr exponent = te::floor_mod(b2, number(128)) * number(2) + te::floor_div(b1, number(128));
  const te::Expr fraction = te::cast(DType::F32, te::floor_mod(b1, number(128)) * number(256) + b0) * real(0x1p-15);
  const te::Expr power = te::pow(real(2), te::cast(DType::F32, exponent - number(127)));
  const te::Expr infinite = te::select(te::eq(fraction, real(0)), real(std::numeric_limits<double>::infinity()),
                                       real(std::numeric_limits<double>::quiet_NaN()));
  const te::Expr size = te::select(te::eq(exponent, number(0)), fraction * real(0x1p-126),
                                   te::select(te::eq(exponent, number(255)), infinite, power * (real(1) + fraction)));
  const te::Expr y = te::select(b2 < number(128), size, -size);
  i.meaning = b.finish({b.stage("C", DType::F32, {m, n}, te::sum({k}, x(m, k) * y))});
  i.tail = {true, true, true};
  i.needs = std::move(needs);
  return std::make_shared<const Intrinsic>(std::move(i));
}

IntrinsicPtr narrow_product_for(const Target& target) {
  return target.has(kBytePermutes) ? narrow_product(kNarrowRows, kNarrowColumns, kBytePermutes) : nullptr;
}

IntrinsicPtr outer_product(int rows, int columns, DType dtype, std::string needs) {
  Intrinsic i;
  i.name = fmt::format("fma_{}x{}_{}", rows, columns, isomer::name(dtype));
  i.emit = Emit::OuterProduct;
  te::Builder b;
  const Dim depth = Dim::symbol("k");
  const te::Handle x = b.input("A", dtype, {rows, depth}), y = b.input("B", dtype, {depth, columns});
  const te::Axis m = b.axis("m", rows), n = b.axis("n", columns), k = b.axis("k", depth);
  i.meaning = b.finish({b.stage("C", dtype, {m, n}, te::sum({k}, x(m, k) * y(k, n)))});
  i.tail = {true, true, true};
  i.needs = std::move(needs);
  return std::make_shared<const Intrinsic>(std::move(i));
}

std::vector<IntrinsicPtr> intrinsics_for(const Target& target, DType dtype) {
  std::vector<IntrinsicPtr> out;
  std::string_view feature;
  for (const Record& r : kOuterProducts) {
    if (r.arch != target.arch || r.dtype != dtype || !target.has(r.needs)) continue;
    if (!feature.empty() && feature != r.needs) break;
    feature = r.needs;
    out.push_back(outer_product(r.rows, r.columns, r.dtype, r.needs));
  }
  return out;
}

std::optional<IntrinsicPtr> find_intrinsic(std::string_view name) {
  for (const Record& r : kOuterProducts) {
    IntrinsicPtr i = outer_product(r.rows, r.columns, r.dtype, r.needs);
    if (i->name == name) return i;
  }
  for (const DotRecord& r : kDotProducts) {
    IntrinsicPtr i = dot_product(r.rows, r.columns, r.left, r.right, r.needs);
    if (i->name == name) return i;
  }
  if (IntrinsicPtr i = narrow_product(kNarrowRows, kNarrowColumns, kBytePermutes); i->name == name) return i;
  for (const auto& [rows, columns] : {std::pair{kSplitRows, kSplitColumns}, {kTallRows, kTallColumns}})
    if (IntrinsicPtr i = split_product(rows, columns, kMatrixTiles); i->name == name) return i;
  if (IntrinsicPtr i = dot_product(kSplitRows, kSplitColumns, DType::U8, DType::I8, kByteTiles); i->name == name)
    return i;
  return std::nullopt;
}

}  // namespace isomer::loop
