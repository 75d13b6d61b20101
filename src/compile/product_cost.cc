#include "compile/product_cost.h"

#include <algorithm>

namespace isomer::compile {
namespace {

constexpr double kGathered = 31;         // an element copied to its row
constexpr double kTurned = 5;            // the same by whole lines
constexpr double kSplit = 22;            // an element read, taken apart and stored
constexpr double kNearSplit = 10;        // the same in the first cache
constexpr double kGroupedSplit = 44;     // the same of a group of channels, whose pixels lie apart
constexpr double kTileRate = 0.68;       // of one operation
constexpr double kTallRate = 0.5;        // the same in one column of registers, which has twice the rows
constexpr double kWindow = 1.3;          // the same of a window's tile: inputs are broadcast, images have borders
constexpr double kPatch = 1600;          // a patch of one channel to its points, or back
constexpr double kTaps = 700;            // the taps of one channel and output to their points
constexpr int64_t kFilteredPoints = 36;  // of a patch
// Of Neoverse-V1, by what register tiles reach there: products of vectors in a cycle, cycles until a sum can be added to again, and
// what tiles of few products take longer than that.
constexpr double kUnits = 4, kLatency = 2, kFewProducts = 16, kFew = 0.6;
constexpr double kClearlyBetter = 0.97;

// Cycles for one step of the depth, all tiles of a product together. Columns that fill no vector are computed one by one.
double tile_cycles(int64_t rows, int64_t columns, int64_t most_rows, int64_t most_columns, int64_t lanes) {
  const int64_t tiles = ceil_div(rows, most_rows), height = ceil_div(rows, tiles);
  const auto strip = [&](int64_t h) {
    const auto part = [&](int64_t width) {
      const auto vectors = static_cast<double>(width / lanes), single = static_cast<double>(width % lanes);
      const auto time = [&](double n) {
        const double products = static_cast<double>(h) * n;
        return n == 0 ? 0 : std::max(products / kUnits + (products < kFewProducts ? kFew : 0), kLatency);
      };
      return time(vectors) + time(single);
    };
    return static_cast<double>(columns / most_columns) * part(most_columns) + part(columns % most_columns);
  };
  const int64_t whole = rows / height;
  return static_cast<double>(whole) * strip(height) + (rows % height == 0 ? 0 : strip(rows % height));
}

}  // namespace

loop::IntrinsicPtr vector_tile(const loop::Target& target, int64_t rows, int64_t columns) {
  const std::vector<loop::IntrinsicPtr> tiles = loop::intrinsics_for(target, DType::F32);
  if (tiles.empty()) return nullptr;
  // Where edges are masked vectors and tiles wide, the first one is the best on all sizes.
  if (target.arch != loop::Arch::AArch64) return tiles[0];
  loop::IntrinsicPtr best;
  double least = 0;
  for (const loop::IntrinsicPtr& tile : tiles) {
    const auto& axes = tile->meaning.stages[0].axes;
    const double cycles = tile_cycles(std::max<int64_t>(1, rows), std::max<int64_t>(1, columns), axes[0].extent.value(),
                                      axes[1].extent.value(), target.vector_bytes / 4);
    if (best && cycles >= kClearlyBetter * least) continue;
    best = tile;
    least = cycles;
  }
  return best;
}

double vector_product_cost(const ProductSize& size, int64_t gathered) {
  return size.flops() + kGathered * static_cast<double>(gathered);
}

double split_product_cost(const ProductSize& size) {
  return (size.columns > loop::kFewColumns ? kTileRate : kTallRate) * size.flops();
}
double split_cost(int64_t elements) { return kSplit * static_cast<double>(elements); }
double grouped_split_cost(int64_t elements) { return kGroupedSplit * static_cast<double>(elements); }
double near_split_cost(int64_t elements) { return kNearSplit * static_cast<double>(elements); }

double window_cost(double flops) { return kWindow * flops; }

double turned_cost(int64_t elements) { return kTurned * static_cast<double>(elements); }

double pass_cost(int64_t elements) { return kGathered * static_cast<double>(elements); }

double filtered_block_cost(int64_t points, const ConvolutionShape& s, double rows, double patches, double tiles,
                           double blocks) {
  const auto channels = static_cast<double>(s.c), outputs = static_cast<double>(s.o);
  const auto frames = static_cast<double>(s.taps_through);
  const double part = static_cast<double>(points) / kFilteredPoints;  // of the work of a transform
  return 2 * static_cast<double>(points) * rows * frames * channels * outputs +
         part * (kPatch * (patches * channels + tiles * outputs) + kTaps * blocks * frames * channels * outputs);
}

double filtered_cost(const ConvolutionShape& s) {
  const int64_t plane = ceil_div(s.oh, 4) * ceil_div(s.ow, 4);
  const auto made = static_cast<double>(s.groups * s.images_made() * plane);
  const auto read = s.taps_through > 1 ? static_cast<double>(s.n * s.d * plane) : made;
  return filtered_block_cost(kFilteredPoints, s, made, read, made, static_cast<double>(s.groups));
}

}  // namespace isomer::compile
