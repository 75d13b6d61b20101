// Contractions as tiles of a tensor intrinsic. One scheme for matrix products, batched ones and convolutions: rows are
// the flattened m axes, columns the n axes, depth the k axes.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "compile/accesses.h"
#include "compile/convolution_shape.h"
#include "compile/epilogue.h"
#include "compile/kernel.h"
#include "compile/product_cost.h"
#include "loop/intrinsics.h"
#include "te/simplify.h"

namespace isomer::compile {

using loop::LoopKind;
using loop::Stmt;
using te::Expr;

namespace {

constexpr double kTaskFlops = 400e3;      // arithmetic that is worth a task of its own,
constexpr double kSplitTaskFlops = 2e6;   // the same by tile registers,
constexpr double kTaskBytes = 128 << 10;  // or columns that are: few rows wait for them
// Rows so many bytes apart fall into two sets of the first cache.
constexpr int64_t kBadStride = 2048;
constexpr int64_t kShortDepth = 512;
constexpr int64_t kFetchRows = 5;    // fewer rows read the right side as fast as memory gives it
constexpr double kSplitFlops = 1e6;  // below, the exact product is as fast
constexpr int64_t kSplitSide = 16;   // rows of a tile register
constexpr int64_t kSplitDepth = 32;  // steps of k in it
constexpr int64_t kTasks = 16;       // enough for an even share of a few workers, and few enough to be cheap

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

bool one_step(const Linear& at, const Axes& axes) {
  for (size_t i = axes.list.size(); i-- > 1;)
    if (at.of(axes.list[i - 1].var) != at.of(axes.list[i].var) * axes.list[i].extent) return false;
  return true;
}
int64_t step(const Linear& at, const Axes& axes) { return axes.list.empty() ? 0 : at.of(axes.list.back().var); }

// The offsets of all points of the axes, row-major.
std::vector<int64_t> offsets(const Linear& at, const Axes& axes) {
  std::vector<int64_t> out = {0};
  for (const LoopAxis& a : axes.list) {
    std::vector<int64_t> next;
    next.reserve(out.size() * static_cast<size_t>(a.extent));
    for (const int64_t o : out)
      for (int64_t i = 0; i < a.extent; ++i) next.push_back(o + i * at.of(a.var));
    out = std::move(next);
  }
  return out;
}

Expr expr_of(const Linear& at) {
  Expr sum(at.constant);
  for (const auto& [var, c] : at.terms) sum = sum + Expr(te::Axis{var, fmt::format("x{}", var), Dim(1)}) * Expr(c);
  return sum;
}

class ContractionKernel {
 public:
  ContractionKernel(const Scene& scene, const Group& group, loop::IntrinsicPtr tile, std::string name)
      : scene_(scene),
        group_(group),
        c_(*group.contraction),
        tile_(std::move(tile)),
        split_(tile_->emit == loop::Emit::SplitProduct) {
    main_.function.name = std::move(name);
    mr_ = tile_->meaning.stages[0].axes[0].extent.value();
    nr_ = tile_->meaning.stages[0].axes[1].extent.value();
  }

  // Whether floats in two parts are the fastest way.
  bool pays() {
    analyse();
    const ProductSize size{batch_.total(), m_.total(), n_.total(), std::max<int64_t>(1, k_.total())};
    if (size.rows < kSplitSide / 2 || size.columns < kSplitSide || size.flops() < kSplitFlops) return false;
    const int64_t gathered = size.batch * size.rows * size.depth;
    const ProductSize whole{size.batch, whole_tiles(rows()), ceil_div(size.columns, kSplitSide) * kSplitSide, depth()};
    const int64_t pixels = image_ ? image_->shape.n * image_->height * image_->width * image_->shape.c : 0;
    double other = vector_product_cost(size, in_place(false) ? 0 : gathered);
    if (const auto shape = convolution_shape(scene_, group_); shape && filterable(*shape))
      other = std::min(other, filtered_cost(*shape));
    return split_product_cost(whole, image_ ? pixels : gathered) < other;
  }

  std::vector<Kernel> make() {
    analyse();
    left();
    right();
    epilogue();
    main_.function.body = tasks();
    finish(main_,
           2.0 * static_cast<double>(batch_.total() * m_.total() * n_.total()) * static_cast<double>(k_.total()));
    std::vector<Kernel> out = std::move(before_);
    out.push_back(std::move(main_));
    return out;
  }

 private:
  const ModelStage& stage() const { return scene_.stage(group_.stages[0]); }
  const ModelStage& last() const { return scene_.stage(group_.stages.back()); }
  LoopAxis fresh(std::string name, int64_t extent) { return {next_var_++, std::move(name), extent}; }
  Stmt loop(const LoopAxis& a, Stmt body, LoopKind kind = LoopKind::Serial, Expr extent = {}) const {
    return Stmt::loop(a.var, a.name, extent.empty() ? Expr(a.extent) : extent, kind, std::move(body));
  }
  void analyse() {
    if (accesses_) return;
    name_axes();
    accesses_.emplace(scene_, group_, group_.rows, main_);
    left_ = side(c_.a);
    take_image();
    sizes();
  }
  void name_axes();
  void take_image();
  void sizes();
  Address side(const Expr& read);
  void left();
  void image();
  Stmt image_line(const Expr& line);
  Stmt vectors(int64_t count, const std::function<Stmt(const Expr&)>& body);
  void right();
  std::vector<int64_t> packed_depth(const Linear& at) const;
  void pack_right(const Linear& at, int value);
  bool rows_collide(int64_t bytes) const;
  bool in_place(bool split) const;
  bool in_place() const { return in_place(split_); }
  // So many that tiles which take whole registers of rows stay inside.
  int64_t whole_tiles(int64_t rows) const { return split_ ? ceil_div(rows, tile_rows_) * tile_rows_ : rows; }
  Stmt fetch_results(te::Substitution& at, int64_t columns, const Expr& height);
  void epilogue();
  Stmt tasks();
  static int add_argument(Kernel& kernel, loop::Buffer buffer, Argument argument);
  Expr flat_batch() const;  // of the batch axes' variables
  Stmt gather_rows(const Expr& first, const Expr& count, const Expr& to_row, te::Substitution& batch);
  std::vector<LoopAxis> image_axes() const;
  Expr begins_window(const Expr& row) const;
  Stmt store_row(const Expr& place, const Expr& value) const;
  std::vector<loop::TileOperand> operands(const Expr& left_at, const Expr& right_at, int64_t right_depth) const;
  Stmt panel(const Expr& p, int64_t columns, const Expr& first, const Expr& rows);
  void finish(Kernel& k, double flops) const;

  const Scene& scene_;
  const Group& group_;
  const Contraction& c_;
  loop::IntrinsicPtr tile_;
  const bool split_;            // floats as two BF16
  int64_t runs_ = 1, run_ = 1;  // of the depth, as tiles take it: so many runs of so many steps
  int64_t depth() const { return runs_ * run_; }
  // Windows of an image are read where they overlap, in a copy with its padding. Rows of the left side are the positions
  // of a grid that is wider than the result; what is computed beside the result is not stored. Positions one pixel apart:
  // all pixels of the padded image, so that rows of the left side run through. Others: lines of whole tiles.
  struct Image {
    ConvolutionShape shape;
    int64_t height = 0, width = 0;            // padded
    int64_t grid_height = 0, grid_width = 0;  // positions of an image
    bool runs_through = false;
    int64_t rows() const { return ((shape.n - 1) * grid_height + shape.oh) * grid_width; }
  };
  std::optional<Image> image_;
  int64_t rows() const { return image_ ? image_->rows() : m_.total(); }  // of the left side
  Expr image_row(const Expr& row) const;                                 // where one begins in the image
  int64_t mr_ = 0, nr_ = 0;
  int next_var_ = 0;
  Axes batch_, m_, n_, k_;
  std::map<int, int> var_of_;  // axis of the contraction's stage -> loop variable
  Kernel main_;
  std::vector<Kernel> before_;
  std::optional<Accesses> accesses_;

  int64_t tile_rows_ = 0, block_rows_ = 0, blocks_ = 0, panels_ = 0, panels_per_task_ = 0, splits_ = 1;
  enum class Rows : uint8_t { InPlace, Gathered, Staged, Image } rows_ = Rows::InPlace;
  Address left_, right_;  // right: of the packed array, or of the value as it lies
  int64_t row_step_ = 0;
  int gathered_ = -1, gathered_low_ = -1, result_ = -1;  // scratch buffers, or staged ones
  bool packed_right_ = true;

  Axes out_batch_, out_m_, out_n_;  // as the epilogue sees them, joined where they run together
  int out_buffer_ = -1;
  Expr out_address_, out_body_;
  LoopAxis row_in_tile_, lane_;  // of the epilogue
};

// Rows, columns and batch in the order in which the result stores them; depth so that the left side runs along memory.
void ContractionKernel::name_axes() {
  const Layout& layout = scene_.layout(last().value);
  std::vector<int> stored;  // axis ids of the contraction's stage, outermost first
  for (const int d : layout.order) {
    const int id = last().axes[static_cast<size_t>(d)].id;
    const auto& ids = group_.rows.back();
    const auto it = std::find(ids.begin(), ids.end(), id);
    if (it == ids.end()) continue;
    const int axis = group_.rows[0][static_cast<size_t>(it - ids.begin())];
    if (c_.split && axis == c_.split->axis) {
      stored.push_back(c_.split->outer.id);
      stored.push_back(c_.split->inner.id);
    } else {
      stored.push_back(axis);
    }
  }
  const std::vector<te::Axis> axes = axes_of(c_, stage());
  const auto take = [&](const std::vector<int>& wanted, Axes& to) {
    for (const int id : stored)
      if (std::find(wanted.begin(), wanted.end(), id) != wanted.end())
        for (const te::Axis& a : axes)
          if (a.id == id && a.extent.value() > 1) {
            to.list.push_back(fresh(a.name, a.extent.value()));
            var_of_[id] = to.list.back().var;
          }
  };
  take(c_.batch, batch_);
  take(c_.m, m_);
  take(c_.n, n_);
  std::vector<std::pair<int64_t, te::Axis>> depth;
  const StageValue& a = scene_.value(c_.a->tensor);
  for (const te::Axis& x : stage().body->axes) {
    if (x.extent.value() == 1) continue;
    int64_t by = 0;
    for (size_t d = 0; d < a.dims.size(); ++d)
      by += linear(c_.a->args[d])->of(x.id) * scene_.layout(c_.a->tensor).strides[d];
    depth.emplace_back(-std::abs(by), x);
  }
  std::stable_sort(depth.begin(), depth.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
  for (const auto& [by, x] : depth) {
    k_.list.push_back(fresh(x.name, x.extent.value()));
    var_of_[x.id] = k_.list.back().var;
  }
}

// A convolution whose windows overlap.
void ContractionKernel::take_image() {
  if (!split_) return;
  const std::optional<ConvolutionShape> shape = convolution_shape(scene_, group_);
  if (!shape || shape->taps_down * shape->taps_across == 1 || shape->oh == 1 || shape->ow == 1) return;
  if (shape->step_across != 1) return;
  std::vector<int> rows, rows_there;
  for (const int axis : {shape->images, shape->rows, shape->columns})
    if (const auto it = var_of_.find(axis); it != var_of_.end()) rows.push_back(it->second);
  for (const LoopAxis& a : m_.list) rows_there.push_back(a.var);
  if (rows != rows_there) return;
  Image i{*shape};
  i.height = shape->step_rows * (shape->oh - 1) + shape->step_down * (shape->taps_down - 1) + 1;
  i.width = shape->step_columns * (shape->ow - 1) + shape->taps_across;
  i.runs_through = shape->step_rows == 1 && shape->step_columns == 1;
  const int64_t side = shape->ow > kSplitSide ? 2 * kSplitSide : kSplitSide;
  i.grid_width = i.runs_through ? i.width : ceil_div(shape->ow, side) * side;
  i.grid_height = i.runs_through ? i.height : shape->oh;
  if (3 * i.grid_width * i.grid_height > 5 * shape->ow * shape->oh) return;  // most of it would be for nothing
  image_ = i;
  const auto place = [&](const LoopAxis& a) {  // rows of taps, taps, channels: as the copy has them
    const int axes[] = {shape->down, shape->across, shape->channels};
    return std::find_if(std::begin(axes), std::end(axes),
                        [&](int axis) {
                          const auto it = var_of_.find(axis);
                          return it != var_of_.end() && it->second == a.var;
                        }) -
           std::begin(axes);
  };
  std::sort(k_.list.begin(), k_.list.end(), [&](const LoopAxis& x, const LoopAxis& y) { return place(x) < place(y); });
}

// Tiles of even height, blocks of tiles that keep the gathered rows in the second cache, tasks enough for all workers.
void ContractionKernel::sizes() {
  const int64_t m = rows(), n = n_.total(), k = std::max<int64_t>(1, k_.total());
  run_ = k;
  if (image_) runs_ = image_->shape.taps_down, run_ = image_->shape.taps_across * image_->shape.c;
  if (split_) run_ = ceil_div(run_, kSplitDepth) * kSplitDepth;
  const int64_t tiles = ceil_div(m, mr_);
  tile_rows_ = split_ ? std::min(mr_, ceil_div(m, kSplitSide) * kSplitSide) : ceil_div(m, tiles);
  if (image_ && !image_->runs_through) tile_rows_ = std::min(tile_rows_, image_->grid_width);
  panels_ = ceil_div(n, nr_);
  const double flops = 2.0 * static_cast<double>(m * n) * static_cast<double>(k);
  const double each =
      std::max(flops / (split_ ? kSplitTaskFlops : kTaskFlops), 4.0 * static_cast<double>(n * k) / kTaskBytes);
  const auto worth = static_cast<int64_t>(each * static_cast<double>(batch_.total()));
  const int64_t wanted = std::clamp<int64_t>(worth, 1, kTasks);
  const int64_t l2 = scene_.target.l2_bytes, row_bytes = 4 * (image_ ? image_->shape.c : k);
  const auto in_cache = [&](int64_t bytes) { return std::clamp<int64_t>(bytes / (row_bytes * tile_rows_), 1, tiles); };
  // Every block of rows reads all columns: where those do not stay in the second cache, blocks are as large as it lets
  // them be and tasks are cut along the columns.
  int64_t tiles_per_block = 4 * k * n > l2 / 3 ? ceil_div(tiles, ceil_div(tiles, in_cache(l2 * 5 / 8)))
                                               : std::min(ceil_div(tiles * batch_.total(), wanted), in_cache(l2 / 3));
  if (m * 2 <= n && tiles <= 2 * in_cache(l2 / 3) && tiles <= 8) tiles_per_block = tiles;
  block_rows_ = tiles_per_block * tile_rows_;
  blocks_ = ceil_div(m, block_rows_);
  splits_ = std::clamp<int64_t>(ceil_div(wanted, blocks_ * batch_.total()), 1, panels_);
  // Tasks that share rows need them gathered by a step before, through memory: not for a few tasks more.
  if (!image_ && !in_place() && 2 * blocks_ * batch_.total() >= wanted) splits_ = 1;
  panels_per_task_ = ceil_div(panels_, splits_);
  splits_ = ceil_div(panels_, panels_per_task_);
}

Address ContractionKernel::side(const Expr& read) {
  Address out;
  const Layout& layout = scene_.layout(read->tensor);
  for (size_t d = 0; d < read->args.size(); ++d) {
    const Linear index = *linear(read->args[d]);
    out.at.constant += index.constant * layout.strides[d];
    for (const auto& [axis, by] : index.terms)
      if (const auto it = var_of_.find(axis); it != var_of_.end()) out.at.terms[it->second] += by * layout.strides[d];
  }
  return out;
}

// Whether rows so far apart push each other out of the first cache so much that gathering them costs less: all of them lie
// in the same sets, or half of them, and the more panels read them the more it costs.
bool ContractionKernel::rows_collide(int64_t bytes) const {
  if (bytes % kBadStride != 0) return false;
  return n_.total() >= (bytes % (2 * kBadStride) == 0 ? 384 : 1024);
}

bool ContractionKernel::in_place(bool split) const {
  if (split) return false;
  const bool always = c_.where->kind == te::Kind::Int && c_.where->integer != 0;
  if (!always || !one_step(left_.at, m_) || !one_step(left_.at, k_)) return false;
  if (!k_.list.empty() && step(left_.at, k_) != 1) return false;
  return m_.total() <= 4 || !rows_collide(step(left_.at, m_) * 4);
}

// Rows are read as they lie where they are one step apart; gathered into scratch where they are not, by the task that
// needs them; or by a step before when several tasks need the same ones.
void ContractionKernel::left() {
  if (image_) return image();
  const StageValue& v = scene_.value(c_.a->tensor);
  const loop::Buffer source{"left", v.dtype, {scene_.layout(c_.a->tensor).span}, loop::Scope::Argument, false};
  const Argument argument{c_.a->tensor, std::nullopt};
  if (in_place()) {
    rows_ = Rows::InPlace;
    row_step_ = step(left_.at, m_);
    left_.buffer = add_argument(main_, source, argument);
    return;
  }
  // An odd number of cache lines a row, so that rows do not fall into the same sets.
  const DType dtype = split_ ? DType::BF16 : DType::F32;
  const auto line = static_cast<int64_t>(64 / size_of(dtype));
  row_step_ = ceil_div(depth(), line) * line;
  if (row_step_ / line % 2 == 0) row_step_ += line;
  if (splits_ == 1) {
    rows_ = Rows::Gathered;
    left_.buffer = add_argument(main_, source, argument);
    const int64_t elements = whole_tiles(block_rows_) * row_step_;
    const auto scratch = [&](const char* name) {
      main_.function.buffers.push_back({name, dtype, {elements}, loop::Scope::Scratch, true, true});
      return static_cast<int>(main_.function.buffers.size()) - 1;
    };
    gathered_ = scratch("rows");
    if (split_) gathered_low_ = scratch("low");
    return;
  }
  rows_ = Rows::Staged;
  const int64_t m = m_.total(), rows = whole_tiles(m), elements = batch_.total() * rows * row_step_;
  Kernel before;
  before.function.name = main_.function.name + "_rows";
  left_.buffer = add_argument(before, source, argument);
  std::vector<Argument> staged;
  const auto stage_rows = [&](const char* name) {
    staged.push_back({scene_.temporary(dtype, elements), std::nullopt});
    return add_argument(before, {name, dtype, {elements}, loop::Scope::Argument, true, true}, staged.back());
  };
  gathered_ = stage_rows("rows");
  if (split_) gathered_low_ = stage_rows("low");
  const LoopAxis task = fresh("task", batch_.total() * ceil_div(m, tile_rows_));
  const Expr number = te::floor_div(task.expr(), Expr(ceil_div(m, tile_rows_)));
  const Expr first = te::floor_mod(task.expr(), Expr(ceil_div(m, tile_rows_))) * Expr(tile_rows_);
  te::Substitution batch;
  unflatten_into(batch, batch_.list, number);
  const Stmt body = gather_rows(first, te::min(Expr(tile_rows_), Expr(m) - first), number * Expr(rows) + first, batch);
  before.function.body = loop(task, body, task.extent > 1 ? LoopKind::Parallel : LoopKind::Serial);
  finish(before, 0);
  before_.push_back(std::move(before));
  const auto read_rows = [&](const char* name, const Argument& from) {
    return add_argument(main_, {name, dtype, {elements}, loop::Scope::Argument, false}, from);
  };
  gathered_ = read_rows("rows", staged[0]);
  if (split_) gathered_low_ = read_rows("low", staged[1]);
}

Expr ContractionKernel::image_row(const Expr& row) const {
  if (image_->runs_through) return row * Expr(row_step_);
  const ConvolutionShape& c = image_->shape;
  const Expr line = te::floor_div(row, Expr(image_->grid_width)), x = te::floor_mod(row, Expr(image_->grid_width));
  const Expr number = te::floor_div(line, Expr(c.oh)), y = te::floor_mod(line, Expr(c.oh));
  return ((number * Expr(image_->height) + y * Expr(c.step_rows)) * Expr(image_->width) + x * Expr(c.step_columns)) *
         Expr(c.c);
}

// A step before: the image in its padding, each number in its two parts.
void ContractionKernel::image() {
  const ConvolutionShape& c = image_->shape;
  rows_ = Rows::Image;
  row_step_ = c.step_columns * c.c;
  // Behind the end lies what rows of no window read, and first what fills up the last run of the last window: that meets
  // zeros, and must not be NaN.
  const int64_t end = c.n * image_->height * image_->width * c.c, fill = run_ - c.taps_across * c.c;
  const int64_t last = image_->runs_through ? whole_tiles(rows()) - 1
                                            : ((c.n - 1) * image_->height + (c.oh - 1) * c.step_rows) * image_->width +
                                                  (image_->grid_width - 1) * c.step_columns;
  const int64_t elements = std::max(end + fill, (last + (c.taps_down - 1) * c.step_down * image_->width) * c.c + run_);
  Kernel before;
  before.function.name = main_.function.name + "_image";
  const loop::Buffer source{"left", DType::F32, {scene_.layout(c_.a->tensor).span}, loop::Scope::Argument, false};
  left_.buffer = add_argument(before, source, {c_.a->tensor, std::nullopt});
  std::vector<Argument> staged;
  for (const char* name : {"high", "low"}) {
    staged.push_back({scene_.temporary(DType::BF16, elements), std::nullopt});
    const int b =
        add_argument(before, {name, DType::BF16, {elements}, loop::Scope::Argument, true, true}, staged.back());
    (staged.size() == 1 ? gathered_ : gathered_low_) = b;
  }
  const LoopAxis task = fresh("line", c.n * image_->height);
  Stmt line = image_line(task.expr());
  if (fill > 0) {
    const Stmt filled =
        vectors(fill, [&](const Expr& i) { return store_row(te::simplify(Expr(end) + i), Expr::real(DType::F32, 0)); });
    line = Stmt::seq({line, Stmt::branch(te::eq(task.expr(), Expr(task.extent - 1)), filled)});
  }
  before.function.body = loop(task, line, task.extent > 1 ? LoopKind::Parallel : LoopKind::Serial);
  finish(before, 0);
  before_.push_back(std::move(before));
  gathered_ = add_argument(main_, {"high", DType::BF16, {elements}, loop::Scope::Argument, false}, staged[0]);
  gathered_low_ = add_argument(main_, {"low", DType::BF16, {elements}, loop::Scope::Argument, false}, staged[1]);
}

// `count` elements in vectors: what `body` does for one of them.
Stmt ContractionKernel::vectors(int64_t count, const std::function<Stmt(const Expr&)>& body) {
  std::vector<Stmt> parts;
  const int64_t lanes = std::min<int64_t>(count, 4 * scene_.lanes(DType::F32));
  const auto part = [&](const Expr& start, int64_t length) {
    const LoopAxis lane = fresh("v", length);
    return loop(lane, body(te::simplify(start + lane.expr())), LoopKind::Vector);
  };
  if (count <= 0) return Stmt::seq({});
  if (const int64_t whole = count / lanes; whole > 0) {
    const LoopAxis block = fresh("b", whole);
    parts.push_back(loop(block, part(block.expr() * Expr(lanes), lanes)));
  }
  if (count % lanes > 0) parts.push_back(part(Expr(count / lanes * lanes), count % lanes));
  return Stmt::seq(std::move(parts));
}

// One line of the padded image.
Stmt ContractionKernel::image_line(const Expr& line) {
  const ConvolutionShape& c = image_->shape;
  const std::vector<int64_t>& strides = scene_.layout(c_.a->tensor).strides;
  const Expr y = te::floor_mod(line, Expr(image_->height)) - Expr(c.pad_rows);
  const Expr number = te::floor_div(line, Expr(image_->height));
  const Expr to = line * Expr(image_->width * c.c);
  const Expr from = number * Expr(strides[c.image_dim]) + y * Expr(strides[c.row_dim]);
  const Expr zero = Expr::real(DType::F32, 0);
  const auto zeros = [&](int64_t begin, int64_t end) {
    return vectors((end - begin) * c.c,
                   [&](const Expr& i) { return store_row(te::simplify(to + Expr(begin * c.c) + i), zero); });
  };
  const auto copied = [&](const Expr& there, const Expr& here) {
    return store_row(te::simplify(to + there), Expr::read(left_.buffer, DType::F32, {te::simplify(from + here)}));
  };
  // Pixels of the line that are read at all; a window may end before the image does.
  const int64_t skipped = std::max<int64_t>(0, -c.pad_columns), left = std::max<int64_t>(0, c.pad_columns);
  const int64_t count = std::min(c.w - skipped, image_->width - left);
  const int64_t by = strides[c.column_dim];
  Stmt inside;
  if (c.channels_together && by == c.c) {
    inside = vectors(count * c.c, [&](const Expr& i) { return copied(Expr(left * c.c) + i, Expr(skipped * by) + i); });
  } else if (c.channels_together) {
    const LoopAxis x = fresh("x", count);
    inside = loop(x, vectors(c.c, [&](const Expr& i) {
                    return copied((Expr(left) + x.expr()) * Expr(c.c) + i, (Expr(skipped) + x.expr()) * Expr(by) + i);
                  }));
  } else {
    const LoopAxis channel = fresh("c", c.c);
    inside = loop(channel, vectors(count, [&](const Expr& x) {
                    return copied((Expr(left) + x) * Expr(c.c) + channel.expr(),
                                  (Expr(skipped) + x) * Expr(by) + channel.expr() * Expr(strides[c.channel_dim]));
                  }));
  }
  const Stmt part = Stmt::seq({zeros(0, left), inside, zeros(left + count, image_->width)});
  return Stmt::branch(Expr(0) <= y && y < Expr(c.h), part, zeros(0, image_->width));
}

int ContractionKernel::add_argument(Kernel& kernel, loop::Buffer buffer, Argument argument) {
  kernel.function.buffers.push_back(std::move(buffer));
  kernel.arguments.push_back(std::move(argument));
  return static_cast<int>(kernel.function.buffers.size()) - 1;
}

Expr ContractionKernel::flat_batch() const {
  Expr b(0);
  for (const LoopAxis& a : batch_.list) b = b * Expr(a.extent) + a.expr();
  return b;
}

// The offsets of all steps of the depth, runs filled up to what tiles take.
std::vector<int64_t> ContractionKernel::packed_depth(const Linear& at) const {
  const std::vector<int64_t> all = offsets(at, k_);
  if (!split_) return all;
  const size_t length = all.size() / static_cast<size_t>(runs_);
  std::vector<int64_t> out;
  for (size_t r = 0; r < static_cast<size_t>(runs_); ++r) {
    out.insert(out.end(), all.begin() + static_cast<long>(r * length),
               all.begin() + static_cast<long>((r + 1) * length));
    out.resize((r + 1) * static_cast<size_t>(run_), Packing::kNothing);
  }
  return out;
}

void ContractionKernel::right() {
  const Linear at = side(c_.b).at;
  const int value = c_.b->tensor;
  const StageValue& v = scene_.value(value);
  if (v.constant) {
    Packing p{offsets(at, batch_), packed_depth(at), offsets(at, n_), nr_, split_};
    for (int64_t& o : p.batch) o += at.constant;
    const loop::Buffer buffer{"right", split_ ? DType::BF16 : v.dtype, {p.elements()}, loop::Scope::Argument, false};
    right_.buffer = add_argument(main_, buffer, {value, std::move(p)});
    return;
  }
  if (one_step(at, n_) && step(at, n_) == 1 && one_step(at, k_) && n_.total() % nr_ == 0) {
    packed_right_ = false;
    right_.at = at;
    right_.buffer = add_argument(main_, {"right", v.dtype, {scene_.layout(value).span}, loop::Scope::Argument, false},
                                 {value, std::nullopt});
    return;
  }
  pack_right(at, value);
}

// A step before: panels of the right side in the order in which tiles read them.
void ContractionKernel::pack_right(const Linear& at, int value) {
  const StageValue v = scene_.value(value);  // a copy: a new temporary moves the values
  const int64_t depth = k_.total(), elements = batch_.total() * panels_ * depth * nr_;
  const int packed = scene_.temporary(v.dtype, elements);
  right_.buffer =
      add_argument(main_, {"right", v.dtype, {elements}, loop::Scope::Argument, false}, {packed, std::nullopt});
  Kernel pack;
  pack.function.name = main_.function.name + "_pack";
  add_argument(pack, {"right", v.dtype, {scene_.layout(value).span}, loop::Scope::Argument, false},
               {value, std::nullopt});
  add_argument(pack, {"panels", v.dtype, {elements}, loop::Scope::Argument, true}, {packed, std::nullopt});
  const LoopAxis task = fresh("task", batch_.total() * panels_), k = fresh("k", depth), c = fresh("c", nr_);
  const Expr panel = te::floor_mod(task.expr(), Expr(panels_)), batch = te::floor_div(task.expr(), Expr(panels_));
  const Expr column = panel * Expr(nr_) + c.expr();
  te::Substitution names;
  unflatten_into(names, batch_.list, batch);
  unflatten_into(names, k_.list, k.expr());
  unflatten_into(names, n_.list, n_.total() % nr_ == 0 ? column : te::min(column, Expr(n_.total() - 1)));
  const std::vector<te::Axis> scope = {task.axis(), k.axis(), c.axis()};
  const Expr from = te::simplify(names(expr_of(at)), scope);
  const Expr to = te::simplify((task.expr() * Expr(depth) + k.expr()) * Expr(nr_) + c.expr(), scope);
  const Stmt store = Stmt::store(1, {to}, Expr::read(0, v.dtype, {from}));
  pack.function.body =
      loop(task, loop(k, loop(c, store, LoopKind::Vector)), task.extent > 1 ? LoopKind::Parallel : LoopKind::Serial);
  finish(pack, 0);
  before_.push_back(std::move(pack));
}

// What is stored for each element of a tile, as an expression of the tile's result and of rows and columns.
void ContractionKernel::epilogue() {
  auto& buffers = main_.function.buffers;
  result_ = static_cast<int>(buffers.size());
  buffers.push_back({"tile", DType::F32, {tile_rows_ * nr_}, loop::Scope::Scratch, true});
  row_in_tile_ = fresh("r", tile_rows_);
  lane_ = fresh("c", nr_);
  const std::vector<te::Axis> scope = {row_in_tile_.axis(), lane_.axis()};
  const Expr place = te::simplify(row_in_tile_.expr() * Expr(nr_) + lane_.expr(), scope);
  Epilogue e = epilogue_of(scene_, group_, *accesses_, result_, place, scope, next_var_);
  out_buffer_ = e.buffer;
  out_body_ = e.body;
  out_address_ = e.address;
  if (c_.split) {
    const LoopAxis whole = e.axes.at(c_.split->axis);
    const LoopAxis outer = fresh(c_.split->outer.name, c_.split->outer.extent.value());
    const LoopAxis inner = fresh(c_.split->inner.name, c_.split->inner.extent.value());
    te::Substitution parts;
    parts.var(whole.var, outer.expr() * Expr(inner.extent) + inner.expr());
    for (Expr* x : {&out_body_, &out_address_})
      *x = te::simplify(parts(*x), std::vector<te::Axis>{outer.axis(), inner.axis()});
    e.axes.erase(c_.split->axis);
    e.axes[c_.split->outer.id] = outer;
    e.axes[c_.split->inner.id] = inner;
  }
  const auto renamed = [&](const Axes& axes) {
    Axes out;
    for (const LoopAxis& a : axes.list)
      for (const auto& [id, axis] : e.axes)
        if (const auto v = var_of_.find(id); v != var_of_.end() && v->second == a.var) out.list.push_back(axis);
    return out;
  };
  out_batch_ = renamed(batch_), out_m_ = renamed(m_), out_n_ = renamed(n_);
  for (Axes* axes : {&out_batch_, &out_m_, &out_n_})
    if (!image_ || axes != &out_m_) join_axes(axes->list, {&out_body_}, {&out_address_}, next_var_);
}

// Rows first .. first + count of the left side, to rows `to_row` and on of the buffer gathered_.
Stmt ContractionKernel::gather_rows(const Expr& first, const Expr& count, const Expr& to_row, te::Substitution& batch) {
  const LoopAxis row = fresh("r", block_rows_);
  te::Substitution names;
  unflatten_into(names, m_.list, first + row.expr());
  Expr where = c_.where, from = expr_of(left_.at);
  te::Substitution stage_names;
  for (const auto& [id, var] : var_of_) stage_names.var(id, Expr(te::Axis{var, fmt::format("x{}", var), Dim(1)}));
  for (const te::Axis& a : axes_of(c_, stage()))
    if (!var_of_.count(a.id)) stage_names.var(a.id, Expr(0));
  for (const te::Axis& a : stage().body->axes)
    if (!var_of_.count(a.id)) stage_names.var(a.id, Expr(0));
  where = stage_names(where);
  std::vector<LoopAxis> depth = k_.list;
  Expr to = (to_row + row.expr()) * Expr(row_step_);
  Expr at_depth(0);
  for (const LoopAxis& a : depth) at_depth = at_depth * Expr(a.extent) + a.expr();
  to = te::simplify(to + at_depth);
  const bool always = where->kind == te::Kind::Int && where->integer != 0;
  if (always) where = {};
  join_axes(depth, {&where}, {&from, &to}, next_var_);
  from = batch(names(from));
  if (!where.empty()) where = te::simplify(batch(names(where)));
  from = te::simplify(from);
  const Expr value = Expr::read(left_.buffer, DType::F32, {from});
  if (depth.empty()) {
    const Expr v = where.empty() ? value : te::select(where, value, Expr::real(DType::F32, 0));
    return loop(row, store_row(to, v), LoopKind::Serial, count);
  }
  const LoopAxis inner = depth.back();
  const std::vector<int> guarded = where.empty() ? std::vector<int>{} : te::free_vars(where);
  const bool by_lane = std::find(guarded.begin(), guarded.end(), inner.var) != guarded.end();
  const int64_t lanes = std::min<int64_t>(inner.extent, 4 * scene_.lanes(DType::F32));
  const auto copy = [&](const Expr& v) {
    std::vector<Stmt> parts;
    const auto emit = [&](const Expr& start, int64_t length) {
      const LoopAxis lane = fresh("v", length);
      te::Substitution at;
      at.var(inner.var, te::simplify(start + lane.expr()));
      return loop(lane, store_row(at(to), at(v)), LoopKind::Vector);
    };
    const int64_t whole = inner.extent / lanes, rest = inner.extent % lanes;
    if (whole > 0) {
      const LoopAxis block = fresh(inner.name, whole);
      parts.push_back(whole == 1 ? emit(Expr(0), lanes) : loop(block, emit(block.expr() * Expr(lanes), lanes)));
    }
    if (rest > 0) parts.push_back(emit(Expr(whole * lanes), rest));
    return Stmt::seq(std::move(parts));
  };
  const Expr zero = Expr::real(DType::F32, 0);
  Stmt body = where.empty() ? copy(value)
              : by_lane     ? copy(te::select(where, value, zero))
                            : Stmt::branch(where, copy(value), copy(zero));
  for (size_t i = depth.size() - 1; i-- > 0;) body = loop(depth[i], body);
  // What meets zeros of the right side must not be NaN.
  if (const int64_t rest = split_ ? run_ - k_.total() : 0; rest > 0) {
    const LoopAxis lane = fresh("v", rest);
    const Expr place = te::simplify((to_row + row.expr()) * Expr(row_step_) + Expr(k_.total()) + lane.expr());
    body = Stmt::seq({body, loop(lane, store_row(place, zero), LoopKind::Vector)});
  }
  return loop(row, body, LoopKind::Serial, count);
}

// One element of the rows: as it is, or as the nearest BF16 and what that leaves.
Stmt ContractionKernel::store_row(const Expr& place, const Expr& value) const {
  const Stmt whole = Stmt::store(gathered_, {place}, value);
  if (!split_) return whole;
  const Expr rest = value - te::cast(DType::F32, Expr::read(gathered_, DType::BF16, {place}));
  return Stmt::seq({whole, Stmt::store(gathered_low_, {place}, rest)});
}

// Where the results do not stay in the second cache and the depth is short, waiting for what the epilogue reads and writes is
// a good part of the time: it is asked for before the products start.
Stmt ContractionKernel::fetch_results(te::Substitution& at, int64_t columns, const Expr& height) {
  const int64_t bytes = 4 * batch_.total() * m_.total() * n_.total();
  if (bytes <= scene_.target.l2_bytes / 4 || k_.total() > kShortDepth) return {};
  std::vector<std::pair<int, Expr>> places = {{out_buffer_, out_address_}};
  const std::function<void(const Expr&)> visit = [&](const Expr& e) {
    if (e->kind == te::Kind::Read && e->tensor != result_ && e->args.size() == 1)
      places.emplace_back(e->tensor, e->args[0]);
    for (const Expr& a : e->args) visit(a);
  };
  visit(out_body_);
  std::vector<Stmt> parts;
  for (const auto& [buffer, place] : places) {
    const Expr here = te::simplify(at(place));
    const std::vector<int> moving = te::free_vars(here);
    if (std::find(moving.begin(), moving.end(), row_in_tile_.var) == moving.end()) continue;
    for (int64_t c = 0; c < columns; c += 16) {
      te::Substitution column;
      column.var(lane_.var, Expr(c));
      parts.push_back(Stmt::prefetch(buffer, {te::simplify(column(here))}));
    }
  }
  return parts.empty() ? Stmt() : loop(row_in_tile_, Stmt::seq(std::move(parts)), LoopKind::Serial, height);
}

std::vector<loop::TileOperand> ContractionKernel::operands(const Expr& left_at, const Expr& right_at,
                                                           int64_t right_depth) const {
  const int rows = rows_ == Rows::InPlace ? left_.buffer : gathered_;
  if (!split_)
    return {{rows, {left_at}, {row_step_, 0, 1}},
            {right_.buffer, {right_at}, {0, 1, right_depth}},
            {result_, {Expr(0)}, {nr_, 1, 0}}};
  const Expr low = te::simplify(right_at + Expr(depth() * nr_));
  const int64_t line = image_ ? image_->shape.step_down * image_->width * image_->shape.c : 0;
  const std::vector<int64_t> left = {row_step_, 0, line, 2, 1};
  const std::vector<int64_t> right = {0, 2, run_ * nr_, 2 * nr_, 1};
  return {{rows, {left_at}, left},
          {gathered_low_, {left_at}, left},
          {right_.buffer, {right_at}, right},
          {right_.buffer, {low}, right},
          {result_, {Expr(0)}, {nr_, 1, 0, 0, 0}}};
}

// The axes of the result along the rows of an image, as long as the padded image is.
std::vector<LoopAxis> ContractionKernel::image_axes() const {
  std::vector<LoopAxis> out = out_m_.list;
  size_t i = out.size();
  if (image_->shape.ow > 1) out[--i].extent = image_->grid_width;
  if (image_->shape.oh > 1) out[--i].extent = image_->grid_height;
  return out;
}

Expr ContractionKernel::begins_window(const Expr& row) const {
  const ConvolutionShape& c = image_->shape;
  const Expr line = te::floor_div(row, Expr(image_->grid_width));
  const Expr inside = te::floor_mod(row, Expr(image_->grid_width)) < Expr(c.ow);
  if (c.n == 1 || image_->grid_height == c.oh) return inside;
  return inside && te::floor_mod(line, Expr(image_->grid_height)) < Expr(c.oh);
}

// All tiles of one panel of columns: clear, accumulate over the depth, store through the epilogue.
Stmt ContractionKernel::panel(const Expr& p, int64_t columns, const Expr& first, const Expr& rows) {
  const LoopAxis tile = fresh("tile", ceil_div(block_rows_, tile_rows_));
  const Expr start = tile.expr() * Expr(tile_rows_);
  const Expr height = block_rows_ % tile_rows_ == 0 && this->rows() % tile_rows_ == 0
                          ? Expr(tile_rows_)
                          : te::min(Expr(tile_rows_), rows - start);
  // Tile registers are computed whole, whatever of them is stored.
  const Expr computed_rows = split_ ? Expr(tile_rows_) : height;
  const int64_t computed = split_ ? ceil_div(columns, kSplitSide) * kSplitSide : columns;
  const LoopAxis clear_row = fresh("r", tile_rows_), clear = fresh("c", computed);
  const Stmt cleared =
      loop(clear_row,
           loop(clear, Stmt::store(result_, {clear_row.expr() * Expr(nr_) + clear.expr()}, Expr::real(DType::F32, 0)),
                LoopKind::Vector),
           LoopKind::Serial, computed_rows);
  // Operands
  te::Substitution point;  // the first row and column of the tile
  te::Substitution zero_depth;
  for (const LoopAxis& a : k_.list) zero_depth.var(a.var, Expr(0));
  unflatten_into(point, m_.list, first + start);
  unflatten_into(point, n_.list, p * Expr(nr_));
  Expr left_at, right_at;
  if (rows_ == Rows::InPlace) left_at = point(zero_depth(expr_of(left_.at)));
  if (rows_ == Rows::Gathered) left_at = start * Expr(row_step_);
  if (rows_ == Rows::Image) left_at = image_row(first + start);
  if (rows_ == Rows::Staged) left_at = (flat_batch() * Expr(whole_tiles(m_.total())) + first + start) * Expr(row_step_);
  int64_t right_depth = nr_;
  const int64_t panel_elements = depth() * nr_ * (split_ ? 2 : 1);
  if (packed_right_) {
    right_at = (flat_batch() * Expr(panels_) + p) * Expr(panel_elements);
  } else {
    right_at = point(zero_depth(expr_of(right_.at)));
    right_depth = step(right_.at, k_);
  }
  // The tiles of this panel share the work of fetching the next one.
  std::optional<loop::TileOperand> ahead;
  if (packed_right_ && m_.total() >= kFetchRows) {
    const int64_t tiles = ceil_div(block_rows_, tile_rows_), steps = split_ ? depth() / 2 : depth();
    const int64_t by = ceil_div(panel_elements / steps, tiles);
    const Expr next = right_at + Expr(panel_elements) + tile.expr() * Expr(steps * by);
    ahead = loop::TileOperand{right_.buffer, {te::simplify(next)}, {0, 0, by}};
  }
  std::vector<Expr> extents = {computed_rows, Expr(computed)};
  for (const int64_t e : split_ ? std::vector<int64_t>{runs_, run_ / 2, 2} : std::vector<int64_t>{run_})
    extents.emplace_back(e);
  const Stmt accumulate = Stmt::tile(tile_, operands(te::simplify(left_at), te::simplify(right_at), right_depth),
                                     std::move(extents), std::move(ahead));
  // Epilogue
  te::Substitution out;
  const Expr row = first + start + row_in_tile_.expr();
  unflatten_into(out, image_ ? image_axes() : out_m_.list, row);
  unflatten_into(out, out_n_.list, p * Expr(nr_) + lane_.expr());
  unflatten_into(out, out_batch_.list, flat_batch());
  const Stmt store = Stmt::store(out_buffer_, {te::simplify(out(out_address_))}, te::simplify(out(out_body_)));
  Stmt one_row = loop(lane_, store, LoopKind::Vector, Expr(columns));
  if (image_) one_row = Stmt::branch(begins_window(row), one_row);
  const Stmt stored = loop(row_in_tile_, one_row, LoopKind::Serial, height);
  const Expr tiles = te::floor_div(rows + Expr(tile_rows_ - 1), Expr(tile_rows_));
  std::vector<Stmt> parts = {cleared, accumulate, stored};
  if (Stmt fetched = fetch_results(out, columns, height); !fetched.empty()) parts.insert(parts.begin(), fetched);
  return loop(tile, Stmt::seq(std::move(parts)), LoopKind::Serial, te::simplify(tiles));
}

Stmt ContractionKernel::tasks() {
  const LoopAxis task = fresh("task", batch_.total() * blocks_ * splits_);
  const Expr split = te::floor_mod(task.expr(), Expr(splits_));
  const Expr block = te::floor_mod(te::floor_div(task.expr(), Expr(splits_)), Expr(blocks_));
  te::Substitution batch;
  unflatten_into(batch, batch_.list, te::floor_div(task.expr(), Expr(splits_ * blocks_)));
  const Expr first = te::simplify(block * Expr(block_rows_), std::vector<te::Axis>{task.axis()});
  const int64_t m = this->rows();
  const Expr rows = m % block_rows_ == 0 ? Expr(block_rows_) : te::min(Expr(block_rows_), Expr(m) - first);
  std::vector<Stmt> parts;
  if (rows_ == Rows::Gathered) parts.push_back(gather_rows(first, rows, Expr(0), batch));
  const int64_t whole = n_.total() / nr_, rest = n_.total() % nr_;
  const Expr begin = te::simplify(split * Expr(panels_per_task_), std::vector<te::Axis>{task.axis()});
  if (whole > 0) {
    const LoopAxis p = fresh("panel", std::min(panels_per_task_, whole));
    const Expr count = whole % panels_per_task_ == 0 && whole == panels_
                           ? Expr(panels_per_task_)
                           : te::max(Expr(0), te::min(Expr(panels_per_task_), Expr(whole) - begin));
    parts.push_back(loop(p, panel(begin + p.expr(), nr_, first, rows), LoopKind::Serial, te::simplify(count)));
  }
  if (rest > 0) {
    Stmt tail = panel(Expr(whole), rest, first, rows);
    parts.push_back(splits_ == 1 ? tail : Stmt::branch(te::eq(split, Expr(splits_ - 1)), tail));
  }
  Stmt body = substitute(Stmt::seq(std::move(parts)), batch);
  return loop(task, body, task.extent > 1 ? LoopKind::Parallel : LoopKind::Serial);
}

void ContractionKernel::finish(Kernel& k, double flops) const {
  for (const int s : group_.stages)
    for (const std::string& o : scene_.stage(s).origin)
      if (std::find(k.function.origin.begin(), k.function.origin.end(), o) == k.function.origin.end())
        k.function.origin.push_back(o);
  k.flops = flops;
  for (const loop::Buffer& b : k.function.buffers)
    if (b.scope == loop::Scope::Argument)
      k.bytes += static_cast<double>(b.elements()) * static_cast<double>(size_of(b.dtype));
  arguments_first(k.function);
}

}  // namespace

std::optional<std::vector<Kernel>> split_kernels(const Scene& scene, const Group& group, const std::string& name,
                                                 bool asked) {
  const Contraction& c = *group.contraction;
  const loop::IntrinsicPtr tile = loop::split_product_for(scene.target);
  if (!tile || c.a.dtype() != DType::F32 || c.b.dtype() != DType::F32) return std::nullopt;
  if (!scene.value(c.b->tensor).constant) return std::nullopt;
  if (scene.value(scene.stage(group.stages[0]).value).elements() == 0) return std::nullopt;
  ContractionKernel kernel(scene, group, tile, name);
  return asked || kernel.pays() ? std::optional(kernel.make()) : std::nullopt;
}

std::optional<std::vector<Kernel>> contraction_kernels(const Scene& scene, const Group& group,
                                                       const std::string& name) {
  const Contraction& c = *group.contraction;
  if (c.a.dtype() != DType::F32 || c.b.dtype() != DType::F32) return std::nullopt;
  if (scene.value(scene.stage(group.stages[0]).value).elements() == 0) return std::nullopt;
  const std::vector<loop::IntrinsicPtr> tiles = loop::intrinsics_for(scene.target, DType::F32);
  if (tiles.empty()) return std::nullopt;
  return ContractionKernel(scene, group, tiles[0], name).make();
}

}  // namespace isomer::compile
