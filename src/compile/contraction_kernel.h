// ContractionKernel: the loops of one contraction with its epilogue. Rows are the flattened m axes, columns the n axes, depth the
// k axes; tiles of an intrinsic compute them, rows of the left side as they lie, gathered or windows of an image, the right
// side in panels. Made once: analyse, then make.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compile/accesses.h"
#include "compile/convolution_shape.h"
#include "compile/kernel.h"
#include "compile/product_cost.h"
#include "loop/affine.h"
#include "loop/intrinsics.h"

namespace isomer::compile {

constexpr int64_t kSplitSide = 16;   // rows of a tile register
constexpr int64_t kSplitDepth = 32;  // steps of k in it
constexpr int64_t kByteDepth = 64;   // the same of bytes

struct Axes {
  std::vector<LoopAxis> list;  // outermost first
  int64_t total() const {
    int64_t n = 1;
    for (const LoopAxis& a : list) n *= a.extent;
    return n;
  }
};

// One side's address in elements: a number and a step per loop variable.
struct Address {
  int buffer = -1;
  Linear at;
};

bool one_step(const Linear& at, const Axes& axes);  // whether all of the axes run as one
int64_t step(const Linear& at, const Axes& axes);   // of the innermost
// The offsets of all points of the axes, row-major.
std::vector<int64_t> offsets(const Linear& at, const Axes& axes);
te::Expr expr_of(const Linear& at);

class ContractionKernel {
 public:
  ContractionKernel(const Scene& scene, const Group& group, loop::IntrinsicPtr tile, std::string name, Cut cut = {})
      : scene_(scene),
        group_(group),
        c_(*group.contraction),
        tile_(std::move(tile)),
        cut_(cut),
        split_(tile_->emit == loop::Emit::SplitProduct),
        bytes_(tile_->emit == loop::Emit::DotProduct),
        narrow_(tile_->emit == loop::Emit::NarrowProduct),
        whole_(split_ || loop::uses_tile_registers(*tile_)) {
    main_.function.name = std::move(name);
    mr_ = tile_->meaning.stages[0].axes[0].extent.value();
    nr_ = tile_->meaning.stages[0].axes[1].extent.value();
  }

  ProductSize size();
  // Whether floats in two parts are the fastest way.
  bool pays();
  // Whether tile registers of bytes would not stay mostly empty.
  bool fills_tiles();
  // Whether few rows wait for a right side that does not stay in the second cache.
  bool waits_for_columns();
  // What they save, in the units of product_cost.h. `near`: the left side was computed just before.
  double gain(bool near);
  // Tasks of so many rows, whole tiles, with all columns each.
  void take_blocks(int64_t rows);
  int64_t tile_rows() const { return tile_rows_; }
  bool has_image() const { return image_.has_value(); }
  // No windows of an image; false where there are none anyway. Before all else.
  bool without_image();
  // Other blocks and parts than those it has.
  std::vector<Cut> cuts();
  std::vector<Kernel> make();

 private:
  const ModelStage& stage() const { return scene_.stage(group_.stages[0]); }
  const ModelStage& last() const { return scene_.stage(group_.stages.back()); }
  LoopAxis fresh(std::string name, int64_t extent) { return {next_var_++, std::move(name), extent}; }
  loop::Stmt loop(const LoopAxis& a, loop::Stmt body, loop::LoopKind kind = loop::LoopKind::Serial,
                  te::Expr extent = {}) const {
    return loop::Stmt::loop(a.var, a.name, extent.empty() ? te::Expr(a.extent) : extent, kind, std::move(body));
  }
  void analyse();
  void name_axes();
  void take_image();
  void sizes();
  void even_blocks(int64_t tiles);
  void even_parts();
  void keep_rows();
  int64_t near_blocks(int64_t tiles, int64_t column_bytes) const;
  void take_cut();
  Address side(const te::Expr& read);
  void left();
  bool takes_prologue() const;
  void open_left(Kernel& kernel);
  te::Expr left_value(const std::vector<te::Expr>& at, const std::vector<te::Axis>& scope);
  te::Expr left_element();
  void image();
  loop::Stmt image_line(const LoopAxis& task);
  // What stands for one group of channels of the image, for each of them.
  loop::Stmt each_group(const std::function<loop::Stmt(const te::Expr&)>& body);
  loop::Stmt vectors(int64_t count, const std::function<loop::Stmt(const te::Expr&)>& body);
  void right();
  std::vector<int64_t> packed_depth(const Linear& at) const;
  void pack_right(const Linear& at, int value);
  bool right_in_place(const Linear& at) const;
  void pack_split(const Linear& at, int value);
  loop::Stmt pack_pair(const Linear& at, const LoopAxis& task, const te::Expr& pair, bool half, Kernel& pack,
                       const std::function<loop::Stmt(const te::Expr&, const te::Expr&)>& store);
  bool in_place(bool split) const;
  bool in_place() const { return in_place(split_); }
  // So many that tiles which take whole registers of rows stay inside.
  int64_t whole_tiles(int64_t rows) const { return whole_ ? ceil_div(rows, tile_rows_) * tile_rows_ : rows; }
  void epilogue();
  loop::Stmt tasks();
  static int add_argument(Kernel& kernel, loop::Buffer buffer, Argument argument);
  te::Expr flat_batch() const;  // of the batch axes' variables
  loop::Stmt gather_rows(Kernel& kernel, const te::Expr& first, const te::Expr& count, const te::Expr& to_row,
                         te::Substitution& batch);
  // Rows gathered with their positions side by side (contraction_turned.cc).
  bool turns() const;
  std::optional<std::vector<loop::Affine>> guards() const;
  te::Expr named(const te::Expr& e) const;  // by loop variables
  std::vector<LoopAxis> border_axes() const;
  int64_t turned_lines() const;  // for one block
  te::Expr turned_start(const te::Expr& first) const;
  std::pair<int64_t, int64_t> open_part(const std::map<int, int64_t>& taps) const;
  loop::Stmt turned_line(const te::Expr& value, const te::Expr& where, const te::Expr& to, int64_t low, int64_t high);
  loop::Stmt gather_turned(const te::Expr& first, const te::Expr& count, te::Substitution& batch);
  std::vector<LoopAxis> image_axes() const;
  te::Expr begins_window(const te::Expr& row) const;
  loop::Stmt store_row(const te::Expr& place, const te::Expr& value) const;
  loop::Stmt fetch_results(te::Substitution& at, int64_t columns, const te::Expr& height);
  static loop::Stmt store_parts(int high_buffer, const te::Expr& high, int low_buffer, const te::Expr& low,
                                const te::Expr& value);
  std::vector<loop::TileOperand> operands(const te::Expr& left_at, const te::Expr& right_at, int64_t right_depth,
                                          int64_t steps, const te::Expr& result) const;
  te::Expr height_of(const te::Expr& start, const te::Expr& rows) const;  // of the tile that starts there
  te::Expr block_start(const te::Expr& block) const;
  struct Panel {
    te::Expr number, local;  // in all, and in its task
    int64_t columns = 0;
    te::Expr first, rows;  // of the block
  };
  loop::Stmt accumulate(const Panel& p, const LoopAxis& tile, int64_t from, int64_t steps);
  int64_t short_tile() const;
  loop::Stmt store(const Panel& p, const LoopAxis& tile);
  bool rows_together(const te::Expr& place) const;
  te::Expr result_at(const Panel& p, const LoopAxis& tile) const;
  te::Substitution result_names(const Panel& p, const LoopAxis& tile) const;
  loop::Stmt panel(const Panel& p);
  loop::Stmt all_panels(const LoopAxis& p, const te::Expr& count, const Panel& one);

  const Scene& scene_;
  const Group& group_;
  const Contraction& c_;
  loop::IntrinsicPtr tile_;
  const Cut cut_;
  const bool split_;   // floats as two BF16
  const bool bytes_;   // products of bytes, summed in I32
  const bool narrow_;  // floats of the right side without their last byte
  const bool whole_;   // tiles are computed whole, in tile registers
  // Steps of the depth that lie together on the right side, in how many parts; what the depth is filled up to a multiple of.
  int64_t together() const { return split_ ? 2 : bytes_ ? 4 : 1; }
  int64_t parts() const { return split_ ? 2 : narrow_ ? 3 : 1; }
  int64_t unit() const { return split_ ? kSplitDepth : !bytes_ ? 1 : whole_ ? kByteDepth : together(); }
  DType row_type() const { return split_ ? DType::BF16 : c_.a.dtype(); }
  int64_t element_bytes() const { return bytes_ ? 1 : 4; }  // of an operand, all parts of it
  te::Expr outside(Kernel& kernel) const;  // what the left side counts as where its guard does not hold
  int64_t runs_ = 1, run_ = 1;             // of the depth, as tiles take it: so many runs of so many steps
  int64_t chunk_ = 1;  // steps of the depth that all panels of a task go through before the next ones
  bool chunked() const { return chunk_ < depth(); }
  int64_t depth() const { return runs_ * run_; }
  // Windows of an image are read where they overlap, in a copy with its padding. Rows of the left side are the positions
  // of a grid that is wider than the result; what is computed beside the result is not stored. Positions one pixel apart:
  // all pixels of the padded image, so that rows of the left side run through. Others: lines of whole tiles.
  struct Image {
    ConvolutionShape shape;
    int64_t height = 0, width = 0;            // padded
    int64_t grid_height = 0, grid_width = 0;  // positions of an image
    bool runs_through = false;
    int64_t group_step = 0;  // elements from one group of channels to the next
    int64_t rows() const { return ((shape.n - 1) * grid_height + shape.oh) * grid_width; }  // of each group of channels
    int64_t elements() const { return shape.n * height * width * shape.c; }                 // the same
  };
  std::optional<Image> image_;
  bool has_groups() const { return image_ && image_->shape.groups > 1; }
  bool gathers_ = false;                                                 // although windows of an image would do
  int64_t rows() const { return image_ ? image_->rows() : m_.total(); }  // of the left side
  te::Expr image_row(const te::Expr& row) const;                         // where one begins in the image
  int64_t mr_ = 0, nr_ = 0;
  int next_var_ = 0;
  Axes batch_, m_, n_, k_;
  std::map<int, int> var_of_;  // axis of the contraction's stage -> loop variable
  Kernel main_;
  std::vector<Kernel> before_;
  std::optional<Accesses> accesses_;
  std::optional<Accesses> before_accesses_;  // of the step that brings the left side together,
  Accesses* left_accesses_ = nullptr;        // or the kernel's own: where a prologue's values are read

  int64_t tile_rows_ = 0, block_rows_ = 0, blocks_ = 0, panels_ = 0, panels_per_task_ = 0, splits_ = 1;
  bool uneven_ = false;         // blocks differ by one tile; block_rows_ is the largest
  bool columns_first_ = false;  // tasks of the same columns follow each other
  bool rows_first_ = false;     // tasks of the same rows do, of one group of channels after the other
  enum class Rows : uint8_t { InPlace, Gathered, Turned, Staged, Image } rows_ = Rows::InPlace;
  Address left_, right_;  // right: of the packed array, or of the value as it lies
  int64_t row_step_ = 0;
  int64_t turned_step_ = 1;                              // of turned rows, from one step of the depth to the next
  int gathered_ = -1, gathered_low_ = -1, result_ = -1;  // scratch buffers, or staged ones
  bool packed_right_ = true;
  bool near_ = false;  // what tasks read and write is in the second cache: nothing is fetched ahead

  Axes out_batch_, out_m_, out_n_;  // as the epilogue sees them, joined where they run together
  int out_buffer_ = -1;
  te::Expr out_address_, out_body_;
  LoopAxis row_in_tile_, lane_, result_start_;  // of the epilogue
};

}  // namespace isomer::compile
