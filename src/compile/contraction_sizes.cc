// How a contraction is cut into tiles, blocks and tasks, and what it would gain by tile registers.
#include <algorithm>

#include "compile/contraction_kernel.h"
#include "compile/product_cost.h"

namespace isomer::compile {

namespace {

constexpr double kTaskFlops = 400e3;      // arithmetic that is worth a task of its own,
constexpr double kSplitTaskFlops = 2e6;   // the same by tile registers,
constexpr double kByteTaskFlops = 4e6;    // and of bytes,
constexpr double kTaskBytes = 128 << 10;  // or columns that are: few rows wait for them
constexpr double kSplitFlops = 1e6;       // below, the exact product is as fast
constexpr int64_t kChunkedTasks = 8;      // each goes through all rows, a chunk of the depth at a time
constexpr int64_t kMostGathered = 8;      // second caches that a block's rows may take
constexpr int64_t kLeastTasks = 4;        // whatever is read again for them
constexpr int64_t kTasks = 16;            // enough for an even share of a few workers, and few enough to be cheap
constexpr int64_t kFewTiles = 8;          // that are four blocks rather than one each

// Things that the busiest of some workers has when they go in tasks of `each`, over its even share; for two and for four.
double imbalance(int64_t count, int64_t each) {
  double sum = 0;
  for (const int64_t workers : {2, 4}) {
    const int64_t most = std::min(count, ceil_div(ceil_div(count, each), workers) * each);
    sum += static_cast<double>(most * workers) / static_cast<double>(count);
  }
  return sum;
}

}  // namespace

ProductSize ContractionKernel::size() {
  analyse();
  return {batch_.total(), m_.total(), n_.total(), std::max<int64_t>(1, k_.total())};
}

bool ContractionKernel::pays() { return gain(false) > 0; }

double ContractionKernel::gain(bool near) {
  const ProductSize size = this->size();
  if (size.rows < kSplitSide / 2 || size.columns < kSplitSide || size.flops() < kSplitFlops) return -size.flops();
  const int64_t gathered = size.batch * size.rows * size.depth;
  const int64_t computed = short_tile() > 0 ? ceil_div(rows(), kSplitSide) * kSplitSide : whole_tiles(rows());
  const ProductSize whole{size.batch, computed, ceil_div(size.columns, kSplitSide) * kSplitSide, depth()};
  const int64_t pixels = image_ ? image_->shape.groups * image_->elements() : 0;
  const Linear right = side(c_.b).at;
  const bool constant = scene_.value(c_.b->tensor).constant.has_value();
  const int64_t packed = constant ? 0 : size.batch * size.columns * size.depth;
  const int64_t vector_packed = right_in_place(right) ? 0 : packed;
  const int64_t apart = in_place(false) || turns() ? 0 : gathered;
  double other = vector_product_cost(size, vector_packed + apart) + (turns() ? turned_cost(gathered) : 0);
  const double first = takes_prologue() ? pass_cost(scene_.value(c_.a->tensor).elements()) : 0;
  if (const auto shape = convolution_shape(scene_, group_); shape && filterable(*shape))
    other = std::min(other, filtered_cost(*shape) + first);
  if (goes_by_windows(scene_, group_)) other = std::min(other, window_cost(size.flops()) + first);
  const double left = near      ? near_split_cost(gathered)
                      : turns() ? pass_cost(gathered)
                      : image_  ? (has_groups() ? grouped_split_cost(pixels) : split_cost(pixels))
                                : split_cost(gathered) + pass_cost(apart);
  return other - split_product_cost(whole) - left - pass_cost(packed);
}

bool ContractionKernel::fills_tiles() {
  analyse();
  return 4 * m_.total() >= kSplitSide && 2 * n_.total() >= kSplitSide && 2 * k_.total() >= kByteDepth;
}

bool ContractionKernel::waits_for_columns() {
  const ProductSize size = this->size();
  const StageValue& right = scene_.value(c_.b->tensor);
  if (!right.constant || right.dtype != DType::F32 || size.batch != 1 || size.rows > mr_) return false;
  return 4 * size.columns * size.depth > scene_.target.l2_bytes / 4 * 3;
}

// Tiles of even height, blocks of tiles that keep the gathered rows in the second cache, tasks enough for all workers.
void ContractionKernel::sizes() {
  const int64_t m = rows(), n = n_.total(), k = std::max<int64_t>(1, k_.total());
  if (image_) runs_ = image_->shape.taps_down;
  run_ = ceil_div(k / runs_, unit()) * unit();
  const int64_t tiles = ceil_div(m, mr_);
  tile_rows_ = whole_ ? std::min(mr_, ceil_div(m, kSplitSide) * kSplitSide) : ceil_div(m, tiles);
  if (image_ && !image_->runs_through) tile_rows_ = std::min(tile_rows_, image_->grid_width);
  panels_ = ceil_div(n, nr_);
  const double flops = 2.0 * static_cast<double>(m * n) * static_cast<double>(k);
  const int64_t column_bytes = element_bytes() * n * k;
  const double each = std::max(flops / (bytes_   ? kByteTaskFlops
                                        : split_ ? kSplitTaskFlops
                                                 : kTaskFlops),
                               static_cast<double>(column_bytes) / kTaskBytes);
  const auto worth = static_cast<int64_t>(each * static_cast<double>(batch_.total()));
  const int64_t wanted = std::clamp<int64_t>(worth, 1, kTasks);
  const int64_t l2 = scene_.target.l2_bytes, row_bytes = element_bytes() * (image_ ? image_->shape.c : k);
  const auto in_cache = [&](int64_t bytes) { return std::clamp<int64_t>(bytes / (row_bytes * tile_rows_), 1, tiles); };
  // Every block of rows reads all columns: where those do not stay in the second cache, blocks are as large as it lets
  // them be and tasks are cut along the columns.
  const bool chunks = split_ && !image_ && n % nr_ == 0 && scene_.value(c_.b->tensor).constant;
  const int64_t most = chunks ? 4 * l2 : l2 * 5 / 8;
  const bool near_columns = column_bytes <= l2 / 3;
  int64_t tiles_per_block = !near_columns ? ceil_div(tiles, ceil_div(tiles, in_cache(most)))
                                          : std::min(ceil_div(tiles * batch_.total(), wanted), in_cache(l2 / 3));
  // Few rows for many columns are cut along these; but enough tile registers stay with the worker that has their rows before and after.
  const bool rows_stay = split_ && tiles >= kLeastTasks && near_columns;
  if (!rows_stay && m * 2 <= n && tiles <= 2 * in_cache(l2 / 3) && tiles <= kFewTiles) tiles_per_block = tiles;
  // Where few columns leave nothing to cut, a few blocks read them all.
  const int64_t near = chunks && !near_columns ? near_blocks(tiles, column_bytes) : 1;
  if (near > 1) tiles_per_block = ceil_div(tiles, near);
  const int64_t columns_apart = std::max<int64_t>(1, batch_.total() * panels_);
  const int64_t least = ceil_div(std::min(wanted, kLeastTasks), columns_apart);
  tiles_per_block = std::min(tiles_per_block, ceil_div(tiles, least));
  block_rows_ = tiles_per_block * tile_rows_;
  blocks_ = ceil_div(m, block_rows_);
  if (near_columns || near > 1) even_blocks(tiles);
  keep_rows();
  splits_ = std::clamp<int64_t>(ceil_div(wanted, blocks_ * batch_.total()), 1, panels_);
  // Tasks that share rows need them gathered by a step before, through memory: not for a few tasks more.
  const int64_t made = blocks_ * batch_.total();
  if (!image_ && !in_place() && made > 1 && 2 * made >= wanted) splits_ = 1;
  if (near > 1) splits_ = std::min(panels_, ceil_div(kLeastTasks, made));
  chunk_ = depth();
  if (chunks && 4 * depth() * block_rows_ > l2 / 2) {
    chunk_ = ceil_div(depth(), ceil_div(4 * depth() * block_rows_, l2 / 4) * kSplitDepth) * kSplitDepth;
    splits_ = std::min(splits_, kChunkedTasks);
  }
  panels_per_task_ = ceil_div(panels_, splits_);
  if (cut_.rows == 0 && cut_.parts == 0) even_parts();
  take_cut();
  if (cut_.parts > 0) panels_per_task_ = ceil_div(panels_, splits_);
  splits_ = ceil_div(panels_, panels_per_task_);
}

// Where all taps stay near, tasks go through all groups of channels of some rows: the worker that copied these lines has them.
void ContractionKernel::keep_rows() {
  const int64_t tiles = ceil_div(rows(), tile_rows_);
  if (!has_groups() || tiles < 2 || 4 * depth() * n_.total() * batch_.total() > scene_.target.l2_bytes / 8) return;
  rows_first_ = true;
  if (blocks_ > 1) return;
  blocks_ = 2;
  block_rows_ = ceil_div(tiles, 2) * tile_rows_;
}

// Into how many blocks rows are cut so that those of one stay in the second cache while all columns pass; 1 where tasks of some columns,
// each of which reads all rows, bring less from memory.
int64_t ContractionKernel::near_blocks(int64_t tiles, int64_t column_bytes) const {
  const int64_t l2 = scene_.target.l2_bytes, tile_bytes = element_bytes() * depth() * tile_rows_;
  const int64_t row_bytes = tiles * tile_bytes;
  if (batch_.total() > 1 || row_bytes <= l2 / 2) return 1;
  const bool columns_stay = column_bytes <= l2 * 5 / 8;
  const int64_t room = columns_stay ? l2 - column_bytes : l2 * 3 / 4;
  const int64_t blocks = ceil_div(tiles, std::max<int64_t>(1, room / tile_bytes));
  const int64_t by_rows = row_bytes + (columns_stay ? 1 : blocks) * column_bytes;
  const int64_t by_columns = std::min(kChunkedTasks, panels_) * row_bytes + column_bytes;
  return 5 * by_rows < 4 * by_columns ? blocks : 1;
}

// Blocks of tile registers that differ by one tile, so that an even number of workers has as much each.
void ContractionKernel::even_blocks(int64_t tiles) {
  if (!split_ || blocks_ < 2 || cut_.rows > 0 || (image_ && !image_->runs_through)) return;
  int64_t blocks = blocks_ + blocks_ % 2;
  if (tiles <= kFewTiles && blocks > kLeastTasks) blocks = kLeastTasks;
  if (blocks > tiles) return;
  blocks_ = blocks;
  block_rows_ = ceil_div(tiles, blocks) * tile_rows_;
  uneven_ = tiles % blocks != 0;
}

// Tasks of whole panels that two and four workers can share evenly; an odd number of them is cut along the rows too, with tasks of the
// same panel behind one another, so that it is read once.
void ContractionKernel::even_parts() {
  if (splits_ == 1) return;
  int64_t best = panels_per_task_;
  for (int64_t each = panels_per_task_; 3 * each >= 2 * panels_per_task_; --each)
    if (imbalance(panels_, each) < imbalance(panels_, best)) best = each;
  panels_per_task_ = best;
  splits_ = ceil_div(panels_, best);
  const int64_t tiles = ceil_div(rows(), tile_rows_), tasks = batch_.total() * splits_;
  if (blocks_ > 1 || tiles < 2 || tasks % 2 == 0 || tasks > kTasks || (image_ && !image_->runs_through)) return;
  columns_first_ = true;
  blocks_ = 2;
  block_rows_ = ceil_div(tiles, 2) * tile_rows_;
}

// Whole tiles, in blocks whose gathered rows do not leave the caches far behind.
void ContractionKernel::take_cut() {
  const int64_t tiles = ceil_div(rows(), tile_rows_);
  if (cut_.rows > 0) {
    const int64_t wanted = std::clamp<int64_t>(cut_.rows / tile_rows_, 1, tiles) * tile_rows_;
    const bool fits =
        image_ || in_place() || element_bytes() * depth() * wanted <= kMostGathered * scene_.target.l2_bytes;
    if (fits) {
      block_rows_ = wanted;
      uneven_ = false;
      chunk_ = depth();
    }
    blocks_ = ceil_div(rows(), block_rows_);
  }
  if (cut_.parts > 0) splits_ = std::clamp<int64_t>(cut_.parts, 1, panels_);
}

std::vector<Cut> ContractionKernel::cuts() {
  analyse();
  const int64_t all = ceil_div(rows(), tile_rows_) * tile_rows_;
  std::vector<Cut> out;
  const auto add = [&](int64_t rows, int64_t parts) {
    rows = std::clamp(ceil_div(rows, tile_rows_) * tile_rows_, tile_rows_, all);
    parts = std::clamp<int64_t>(parts, 1, panels_);
    const Cut cut{rows, parts, cut_.columns, 0};
    const bool own = rows == block_rows_ && parts == splits_;
    if (!own && std::find(out.begin(), out.end(), cut) == out.end()) out.push_back(cut);
  };
  if (chunked()) {  // its blocks are as large as they can be
    for (const int64_t parts : {int64_t{1}, int64_t{2}, splits_ / 2, splits_ * 2})
      if (parts > 0 && parts <= panels_ && parts != splits_) out.push_back({0, parts, cut_.columns, 0});
    return out;
  }
  add(all, splits_);
  add(block_rows_ / 2, splits_);
  add(2 * block_rows_, splits_);
  add(block_rows_, splits_ > 1 ? 1 : 2);
  if (batch_.total() == 1) add(ceil_div(all, 2), 1), add(all, 2);
  return out;
}

void ContractionKernel::take_blocks(int64_t rows) {
  analyse();
  block_rows_ = rows;
  blocks_ = ceil_div(this->rows(), rows);
  splits_ = 1;
  panels_per_task_ = panels_;
  uneven_ = columns_first_ = false;
  chunk_ = depth();
  near_ = true;
}

}  // namespace isomer::compile
