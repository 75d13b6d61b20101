#include "compile/product_cost.h"

namespace isomer::compile {
namespace {

constexpr double kGathered = 31;        // an element copied to its row
constexpr double kSplit = 22;           // an element read, taken apart and stored
constexpr double kTileRate = 0.72;      // of one operation
constexpr double kPatch = 1600;         // a patch of one channel to its points, or back
constexpr double kTaps = 700;           // the taps of one channel and output to their points
constexpr double kFilteredPoints = 36;  // of a patch

}  // namespace

double vector_product_cost(const ProductSize& size, int64_t gathered) {
  return size.flops() + kGathered * static_cast<double>(gathered);
}

double split_product_cost(const ProductSize& size, int64_t split) {
  return kTileRate * size.flops() + kSplit * static_cast<double>(split);
}

double pass_cost(int64_t elements) { return kGathered * static_cast<double>(elements); }

double filtered_cost(const ConvolutionShape& s) {
  const auto tiles = static_cast<double>(s.n * ceil_div(s.oh, 4) * ceil_div(s.ow, 4));
  const auto channels = static_cast<double>(s.c), outputs = static_cast<double>(s.o);
  return 2 * kFilteredPoints * tiles * channels * outputs + kPatch * tiles * (channels + outputs) +
         kTaps * channels * outputs;
}

}  // namespace isomer::compile
