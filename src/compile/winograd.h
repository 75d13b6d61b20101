// Winograd: the loops of one convolution by minimal filtering, with its epilogue. Rows of the products are tiles of outputs, a
// block of them for each task. Taps in several frames of a video are several products that are summed before the transform
// back, so that a frame is transformed once for all of them: rows of one frame follow those of the frame before it, and
// another frame's tap reads the same points some rows on. The products are of vectors, or of floats in two parts on tile
// registers: then points are stored in two parts, in whole tiles, and frames outside are zeros.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compile/accesses.h"
#include "compile/convolution_shape.h"
#include "compile/filtering.h"
#include "compile/kernel.h"
#include "loop/intrinsics.h"

namespace isomer::compile {

class Winograd {
 public:
  Winograd(const Scene& scene, const Group& group, const ConvolutionShape& shape, Filtering rows, Filtering columns,
           loop::IntrinsicPtr tile, Cut cut);

  Kernel make(std::string name);
  std::vector<Cut> cuts() const;

 private:
  LoopAxis fresh(std::string name, int64_t extent) { return {next_var_++, std::move(name), extent}; }
  static loop::Stmt loop(const LoopAxis& a, loop::Stmt body, loop::LoopKind kind = loop::LoopKind::Serial,
                         te::Expr extent = {}) {
    return loop::Stmt::loop(a.var, a.name, extent.empty() ? te::Expr(a.extent) : extent, kind, std::move(body));
  }
  int scratch(std::string name, int64_t elements, loop::Scope scope = loop::Scope::Scratch, DType type = DType::F32) {
    kernel_.function.buffers.push_back({std::move(name), type, {elements}, scope, true, type == DType::BF16});
    return static_cast<int>(kernel_.function.buffers.size()) - 1;
  }
  // What a task computes: places of the plane, in some frames of one video. Where no place is a sum over frames, places of
  // all images count through, and there is one frame.
  struct Block {
    te::Expr first, places;  // of the plane: number of the first, how many
    te::Expr frame, frames;  // of the result
    te::Expr video;
  };
  // One tile of outputs, or the patch that it needs.
  struct Tile {
    te::Expr video, frame, row, column;  // of the tile
  };
  void sizes();
  void block_of_images();
  void block_of_video();
  void split_sizes();
  Tile tile_at(const Block& block, const te::Expr& frame, const te::Expr& place) const;
  Block block_at(const te::Expr& number) const;
  struct TapSteps {
    int64_t output = 0, group = 0, channel = 0, through = 0, down = 0, across = 0, first = 0;
  };
  TapSteps tap_steps() const;
  void transform_taps(float* to) const;
  Packing taps_by_panel() const;
  loop::Stmt taps_to_points(const te::Expr& panel, const te::Expr& through, const te::Expr& chunk);
  loop::Stmt one_panel(const te::Expr& panel, int64_t columns, const Block& block);
  loop::Stmt to_points(const Block& block);
  loop::Stmt patch_to_points(const Tile& corner, const te::Expr& row, const te::Expr& channel, int64_t width,
                             bool inside);
  loop::Stmt clear_products(int64_t columns, const te::Expr& point, const te::Expr& first, const te::Expr& rows);
  loop::Stmt products(const te::Expr& panel, int64_t columns, const Block& block, const te::Expr& through,
                      const te::Expr& chunk, bool fresh);
  loop::Stmt split_products(const te::Expr& chunk, bool fresh);
  loop::Stmt store_point(const te::Expr& at, const te::Expr& value) const;
  loop::Stmt zero_points(const te::Expr& row, int64_t first, int64_t last);
  loop::Stmt from_points(const te::Expr& panel, int64_t columns, const Block& block);
  loop::Stmt store_tile(const te::Expr& panel, int64_t columns, const Tile& tile);

  const Scene& scene_;
  const Group& group_;
  const ConvolutionShape& s_;
  const Filtering fy_, fx_;  // along rows and along columns
  loop::IntrinsicPtr tile_;
  const Cut cut_;
  const bool deep_;     // taps in several frames
  const bool split_;    // floats as two BF16
  int64_t window_ = 1;  // taps of a channel in a frame
  int64_t lanes_, mr_ = 0, nr_ = 0, points_ = 0, down_ = 0, across_ = 0, panels_ = 0;
  int64_t places_ = 0;             // of the plane, or of all images
  int64_t side_ = 0, frames_ = 1;  // places and frames of a block
  int64_t slots_ = 1;              // frames whose points a block keeps
  int64_t shift_ = 0;              // frames before the first output's that are not kept
  int64_t rows_ = 0, splits_ = 1;  // tiles of a register tile; tasks a block
  int64_t depth_ = 0;              // of a row of points
  int64_t block() const { return side_ * frames_; }
  int64_t group_taps() const { return panels_ * s_.taps_through * s_.c * nr_; }  // of one point, or of one tap
  int64_t product_rows() const { return split_ ? ceil_div(block(), rows_) * rows_ : block(); }
  int64_t point_step_ = 0, product_step_ = 0, tap_step_ = 0;  // elements from point to point
  int64_t chunk_ = 0;                                         // channels whose taps a task transforms at a time
  bool transformed_ = true;                                   // the taps, when the model is compiled
  te::Expr apart_ = te::Expr(0);                              // number of the group of channels
  Kernel kernel_;
  int next_var_ = 0;
  std::optional<Accesses> accesses_;
  int input_ = -1, taps_ = -1, points_buffer_ = -1, tap_points_ = -1, product_ = -1, result_ = -1;
  int points_low_ = -1, tap_points_low_ = -1;
};

}  // namespace isomer::compile
