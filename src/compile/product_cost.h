// What a contraction costs by each of the ways to compute it, in units of one multiplication or addition by vector
// instructions at their best: the model by which the way is chosen. Numbers were fitted to bench/contractions.
#pragma once

#include <cstdint>

#include "compile/convolution_shape.h"
#include "loop/intrinsics.h"

namespace isomer::compile {

// A matrix product, in the sizes that the code computes.
struct ProductSize {
  int64_t batch = 1, rows = 1, columns = 1, depth = 1;
  double flops() const {
    return 2.0 * static_cast<double>(batch * rows) * static_cast<double>(columns) * static_cast<double>(depth);
  }
};

// The register tile for products of so many rows and columns; null where the target has none. The first one of the target,
// unless the edges that it leaves cost more than those of another.
loop::IntrinsicPtr vector_tile(const loop::Target& target, int64_t rows, int64_t columns);

// By vector registers; `gathered` elements of the left side are brought together first.
double vector_product_cost(const ProductSize& size, int64_t gathered);

// By tile registers, floats in two parts. Sizes with all that fills up tiles. A core whose other half uses tile registers too
// has 2/7 of their rate, for seconds on end: they must pay even then, nearly.
double split_product_cost(const ProductSize& size);
// To take so many elements of the left side apart: from memory, or just computed.
double split_cost(int64_t elements);
double grouped_split_cost(int64_t elements);  // each group of channels to an image of its own
double near_split_cost(int64_t elements);

// By tiles of windows (windows.cc), whose groups of channels stay apart.
double window_cost(double flops);

// To copy so many elements of the left side line by line.
double turned_cost(int64_t elements);

// To bring so many elements to where they are wanted, through a step of its own.
double pass_cost(int64_t elements);

// By Winograd's F(4x4,3x3).
double filtered_cost(const ConvolutionShape& shape);
// The same of blocks: so many rows of products, patches transformed and transformed back, and blocks that transform all taps.
double filtered_block_cost(int64_t points, const ConvolutionShape& shape, double rows, double patches, double tiles,
                           double blocks);

}  // namespace isomer::compile
