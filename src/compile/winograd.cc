// Convolutions by minimal filtering: F(4x4,3x3) or F(2x2,3x3), and along one axis F(4,3) or F(2,7). A tile of outputs needs a patch of inputs; patch and taps are
// transformed so that the convolution is one product per point of the patch, summed over the channels: a matrix product of
// tiles by channels for each point. One task takes a block of tiles through all three steps in its own scratch memory.
// Transformed taps are two to four times the taps, and a network's weights come from memory on every run: those that would
// not stay in the second cache are transformed by the task that needs them, some channels at a time.
#include "compile/winograd.h"

#include <algorithm>

#include "compile/finish.h"
#include "compile/product_cost.h"
#include "compile/rows_apart.h"
#include "te/simplify.h"

namespace isomer::compile {

using loop::LoopKind;
using loop::Stmt;
using te::Expr;

namespace {

constexpr int64_t kManyBlocks = 16;
constexpr int64_t kFewestTiles = 8;  // of a block: fewer leave a register tile half empty
constexpr double kTileRate = 0.35;   // of a product by tile registers at their full rate
constexpr int64_t kSplitSide = 16;   // rows of a tile register
constexpr int64_t kSplitDepth = 32;  // channels in it
constexpr double kSpilled = 1.3;     // products whose points do not stay in the second cache
constexpr double kSplitSpilled = 2;  // the same on tile registers, which want more in the same time

}  // namespace

Winograd::Winograd(const Scene& scene, const Group& group, const ConvolutionShape& shape, Filtering rows,
                   Filtering columns, loop::IntrinsicPtr tile, Cut cut)
    : scene_(scene),
      group_(group),
      s_(shape),
      fy_(std::move(rows)),
      fx_(std::move(columns)),
      tile_(std::move(tile)),
      cut_(cut),
      deep_(shape.taps_through > 1 || shape.pad_frames != 0),
      split_(tile_->emit == loop::Emit::SplitProduct),
      lanes_(scene.lanes(DType::F32)) {
  mr_ = tile_->meaning.stages[0].axes[0].extent.value();
  nr_ = tile_->meaning.stages[0].axes[1].extent.value();
  if (!split_) nr_ = std::min(nr_, ceil_div(s_.o, lanes_) * lanes_);
  points_ = fy_.patch() * fx_.patch();
  down_ = ceil_div(s_.oh, fy_.outputs());
  across_ = ceil_div(s_.ow, fx_.outputs());
  window_ = s_.taps_down * s_.taps_across;
  places_ = (deep_ ? 1 : s_.images_made()) * down_ * across_;
  panels_ = ceil_div(s_.o, nr_);
  sizes();
}

void Winograd::sizes() {
  depth_ = ceil_div(s_.c, lanes_) * lanes_;
  if (depth_ / lanes_ % 2 == 0) depth_ += lanes_;
  if (split_) depth_ = ceil_div(s_.c, kSplitDepth) * kSplitDepth;
  if (deep_)
    block_of_video();
  else
    block_of_images();
  if (cut_.parts > 0) splits_ = std::min(cut_.parts, panels_);
  if (split_) return split_sizes();
  rows_ = ceil_div(block(), ceil_div(block(), mr_));
  transformed_ = 4 * points_ * s_.groups * group_taps() <= scene_.target.l2_bytes * 3 / 8;
  const int64_t most = std::max<int64_t>(16, scene_.target.l2_bytes / 6 / (4 * points_ * nr_));
  chunk_ = transformed_ ? s_.c : ceil_div(s_.c, ceil_div(s_.c, most));
  // All points of a tile are touched together.
  point_step_ = odd_lines(slots_ * side_ * depth_);
  product_step_ = odd_lines(block() * nr_);
  tap_step_ = odd_lines(chunk_ * nr_);
}

// Whole tiles of rows, pieces of whole tiles of channels. All taps in time of a piece are one product.
void Winograd::split_sizes() {
  rows_ = block() > kSplitSide ? mr_ : kSplitSide;
  transformed_ = false;
  const int64_t most = scene_.target.l2_bytes * 3 / 8 / (4 * points_ * nr_ * s_.taps_through);
  chunk_ = kSplitDepth;
  for (int64_t c = kSplitDepth; c <= std::min(depth_, most); c += kSplitDepth)
    if (depth_ % c == 0) chunk_ = c;
  const int64_t reach = (s_.taps_through - 1) * s_.step_through * side_;
  point_step_ = odd_lines((std::max(slots_ * side_, product_rows() + reach)) * depth_ / 2) * 2;
  product_step_ = odd_lines(product_rows() * nr_);
  tap_step_ = odd_lines(s_.taps_through * chunk_ * nr_ / 2) * 2;
}

// Blocks whose points stay in the second cache, register tiles of even height, tasks enough for some workers.
void Winograd::block_of_images() {
  const int64_t bytes = 4 * points_ * (depth_ + nr_);
  const int64_t fit = std::max<int64_t>(mr_, scene_.target.l2_bytes * 5 / 8 / bytes);
  side_ = std::min({places_, fit / mr_ * mr_, 4 * mr_});
  int64_t blocks = ceil_div(places_, side_);
  const auto splits = [&] {
    const int64_t tasks = blocks * s_.groups;
    return tasks >= 4 ? 1 : std::min<int64_t>(panels_, ceil_div(4, tasks));
  };
  // A few tasks more or less show: two workers should have the same number of them.
  if (blocks * s_.groups * splits() % 2 == 1 && blocks < kManyBlocks && places_ >= (blocks + 1) * kFewestTiles)
    ++blocks;
  side_ = ceil_div(places_, blocks);
  splits_ = splits();
  if (cut_.rows > 0 && bytes * cut_.rows <= 2 * scene_.target.l2_bytes) side_ = std::min(cut_.rows, places_);
}

// Some places of the plane in all frames of the result or in some: few frames are transformed again for their neighbours,
// large blocks transform taps less often.
void Winograd::block_of_video() {
  const int64_t reach = (s_.taps_through - 1) * s_.step_through;
  double least = 0;
  for (int64_t parts = 1; parts <= s_.od; ++parts) {
    const int64_t frames = ceil_div(s_.od, parts), slots = frames == s_.od && !split_ ? s_.d : frames + reach;
    if (frames != s_.od && ceil_div(s_.od, frames) != parts) continue;
    for (int64_t side = 1; side <= places_; ++side) {
      const int64_t blocks = ceil_div(places_, side), rows = side * frames;
      if (ceil_div(places_, blocks) != side) continue;
      const int64_t bytes = 4 * points_ * (slots * side * depth_ + rows * nr_);
      if (side > 1 && bytes > 2 * scene_.target.l2_bytes) break;
      if (cut_.rows > 0 && (rows > cut_.rows || 2 * rows <= cut_.rows) && side > 1) continue;
      const bool spilled = bytes > scene_.target.l2_bytes * 5 / 8;
      const auto used = static_cast<double>(places_ * s_.od), computed = static_cast<double>(blocks * rows * parts);
      const auto tiles = static_cast<double>(ceil_div(rows, mr_) * mr_) / static_cast<double>(rows);
      const double cost = filtered_block_cost(points_, s_,
                                              computed * (split_ ? kTileRate * tiles : (1 + tiles) / 2) *
                                                  (!spilled ? 1
                                                   : split_ ? kSplitSpilled
                                                            : kSpilled),
                                              static_cast<double>(blocks * side * slots * parts), used,
                                              static_cast<double>(blocks * parts));
      if (side_ > 0 && cost >= least) continue;
      least = cost, side_ = side, frames_ = frames, slots_ = slots;
    }
  }
  shift_ = frames_ == s_.od && !split_ ? s_.pad_frames : 0;
  const int64_t tasks = s_.n * ceil_div(s_.od, frames_) * ceil_div(places_, side_);
  splits_ = tasks >= 4 ? 1 : std::min<int64_t>(panels_, ceil_div(4, tasks));
}

std::vector<Cut> Winograd::cuts() const {
  std::vector<Cut> out;
  const int64_t all = places_ * (deep_ ? s_.od : 1);
  const auto add = [&](int64_t rows, int64_t parts) {
    const Cut cut{std::clamp<int64_t>(rows, 1, all), std::clamp<int64_t>(parts, 1, panels_), 0, fx_.outputs()};
    const bool own = cut.rows == block() && cut.parts == splits_;
    if (!own && std::find(out.begin(), out.end(), cut) == out.end()) out.push_back(cut);
  };
  add(ceil_div(block(), 2), splits_);
  add(2 * block(), splits_);
  if (!deep_) add(ceil_div(block(), mr_) * mr_, splits_);
  add(block(), splits_ > 1 ? 1 : 2);
  return out;
}

Winograd::Block Winograd::block_at(const Expr& number) const {
  const int64_t blocks = ceil_div(places_, side_), parts = deep_ ? ceil_div(s_.od, frames_) : 1;
  Block b;
  b.first = (deep_ ? te::floor_mod(number, Expr(blocks)) : number) * Expr(side_);
  b.places = places_ % side_ == 0 ? Expr(side_) : te::min(Expr(side_), Expr(places_) - b.first);
  b.frame = b.video = Expr(0);
  b.frames = Expr(frames_);
  if (!deep_) return b;
  const Expr part = te::floor_div(number, Expr(blocks));
  b.video = te::simplify(te::floor_div(part, Expr(parts)));
  b.frame = te::simplify(te::floor_mod(part, Expr(parts)) * Expr(frames_));
  if (s_.od % frames_ != 0) b.frames = te::min(Expr(frames_), Expr(s_.od) - b.frame);
  return b;
}

Winograd::Tile Winograd::tile_at(const Block& block, const Expr& frame, const Expr& place) const {
  const Expr number = block.first + place;
  Tile t;
  t.row = te::floor_mod(te::floor_div(number, Expr(across_)), Expr(down_));
  t.column = te::floor_mod(number, Expr(across_));
  t.video = block.video, t.frame = frame;
  if (deep_) return t;
  const Expr image = te::floor_div(number, Expr(down_ * across_));
  t.video = s_.od == 1 ? image : te::floor_div(image, Expr(s_.od));
  t.frame = te::floor_mod(image, Expr(s_.od));
  return t;
}

Stmt Winograd::clear_products(int64_t columns, const Expr& point, const Expr& first, const Expr& rows) {
  const LoopAxis row = fresh("r", block()), lane = fresh("v", columns);
  const Expr at = te::simplify(point * Expr(product_step_) + (first + row.expr()) * Expr(nr_) + lane.expr());
  return loop(row, loop(lane, Stmt::store(product_, {at}, Expr::real(DType::F32, 0)), LoopKind::Vector),
              LoopKind::Serial, rows);
}

// For every point of the patch the tiles of the block times one panel of the taps in one frame.
Stmt Winograd::products(const Expr& panel, int64_t columns, const Block& block, const Expr& through, const Expr& chunk,
                        bool fresh_sums) {
  const int64_t most_parts = ceil_div(this->block(), rows_);
  const LoopAxis point = fresh("point", points_), part = fresh("part", most_parts);
  Expr first(0), count = block.places,
                 ahead_by(0);  // rows that have a frame for this tap; from a tile's row to its patch's
  if (deep_) {
    const Expr before = te::simplify(Expr(s_.pad_frames) - through * Expr(s_.step_through));
    const Expr lowest = te::max(Expr(0), before - block.frame);
    const Expr highest = te::min(block.frames, Expr(s_.d) + before - block.frame);
    first = te::simplify(lowest * Expr(side_));
    count = te::simplify(te::max(Expr(0), highest - lowest) * Expr(side_));
    ahead_by = (through * Expr(s_.step_through) - Expr(shift_)) * Expr(side_);
  }
  const Expr start = part.expr() * Expr(rows_), channel = chunk * Expr(chunk_);
  const bool whole = !deep_ && places_ % side_ == 0 && side_ % rows_ == 0;
  const Expr height = whole ? Expr(rows_) : te::min(Expr(rows_), count - start);
  const Expr depth = te::simplify(s_.c % chunk_ == 0 ? Expr(chunk_) : te::min(Expr(chunk_), Expr(s_.c) - channel));
  const Expr to = point.expr() * Expr(product_step_) + (first + start) * Expr(nr_);
  const Expr from = point.expr() * Expr(point_step_) + (first + start + ahead_by) * Expr(depth_) + channel;
  const Expr taps_at = transformed_ ? (apart_ * Expr(points_) + point.expr()) * Expr(group_taps()) +
                                          (panel * Expr(s_.taps_through) + through) * Expr(s_.c * nr_)
                                    : point.expr() * Expr(tap_step_);
  std::vector<loop::TileOperand> operands = {{points_buffer_, {te::simplify(from)}, {depth_, 0, 1}},
                                             {transformed_ ? taps_ : tap_points_, {te::simplify(taps_at)}, {0, 1, nr_}},
                                             {product_, {te::simplify(to)}, {nr_, 1, 0}}};
  std::optional<loop::TileOperand> ahead;
  if (!transformed_) {  // the taps of the next channels, frame or panel
    const int64_t by = ceil_div(window_ * nr_, points_ * most_parts);
    const Expr next =
        ((panel * Expr(s_.taps_through) + through) * Expr(s_.c) + channel + Expr(chunk_)) * Expr(window_ * nr_) +
        apart_ * Expr(window_ * group_taps());
    const Expr share = (point.expr() * Expr(most_parts) + part.expr()) * Expr(chunk_ * by);
    ahead = loop::TileOperand{taps_, {te::simplify(next + share)}, {0, 0, by}};
  }
  Stmt accumulate = Stmt::tile(tile_, std::move(operands), {height, Expr(columns), depth}, std::move(ahead));
  if (fresh_sums) accumulate = Stmt::seq({clear_products(columns, point.expr(), start, height), accumulate});
  const Expr parts = te::simplify(te::floor_div(count + Expr(rows_ - 1), Expr(rows_)));
  return loop(point, loop(part, accumulate, LoopKind::Serial, parts));
}

// All rows, taps in all frames; `chunk_` channels.
Stmt Winograd::split_products(const Expr& chunk, bool fresh_sums) {
  const LoopAxis point = fresh("point", points_), part = fresh("part", product_rows() / rows_);
  const Expr start = part.expr() * Expr(rows_);
  const Expr to = te::simplify(point.expr() * Expr(product_step_) + start * Expr(nr_));
  const Expr from = te::simplify(point.expr() * Expr(point_step_) + start * Expr(depth_) + chunk * Expr(chunk_));
  const Expr taps_at = te::simplify(point.expr() * Expr(tap_step_));
  const std::vector<int64_t> left = {depth_, 0, s_.step_through * side_ * depth_, 2, 1};
  const std::vector<int64_t> right = {0, 2, chunk_ * nr_, 2 * nr_, 1};
  Stmt product = Stmt::tile(tile_,
                            {{points_buffer_, {from}, left},
                             {points_low_, {from}, left},
                             {tap_points_, {taps_at}, right},
                             {tap_points_low_, {taps_at}, right},
                             {product_, {to}, {nr_, 1, 0, 0, 0}}},
                            {Expr(rows_), Expr(nr_), Expr(s_.taps_through), Expr(chunk_ / 2), Expr(2)}, {});
  if (fresh_sums) {
    const LoopAxis row = fresh("r", rows_), column = fresh("c", nr_);
    const Expr place = te::simplify(to + row.expr() * Expr(nr_) + column.expr());
    const Stmt clear = loop(column, Stmt::store(product_, {place}, Expr::real(DType::F32, 0)), LoopKind::Vector);
    product = Stmt::seq({loop(row, clear), product});
  }
  return loop(point, loop(part, product));
}

Stmt Winograd::one_panel(const Expr& panel, int64_t columns, const Block& block) {
  std::vector<Stmt> parts;
  const auto some_channels = [&](const Expr& through, const Expr& chunk, bool fresh_sums) {
    const Stmt product = products(panel, columns, block, through, chunk, fresh_sums);
    return transformed_ ? product : Stmt::seq({taps_to_points(panel, through, chunk), product});
  };
  const int64_t chunks = ceil_div(split_ ? depth_ : s_.c, chunk_);
  if (split_) {
    const auto some = [&](const Expr& chunk, bool fresh_sums) {
      const LoopAxis through = fresh("t", s_.taps_through);
      return Stmt::seq(
          {loop(through, taps_to_points(panel, through.expr(), chunk)), split_products(chunk, fresh_sums)});
    };
    parts.push_back(some(Expr(0), true));
    if (chunks > 1) {
      const LoopAxis chunk = fresh("chunk", chunks - 1);
      parts.push_back(loop(chunk, some(te::simplify(chunk.expr() + Expr(1)), false)));
    }
  } else if (deep_) {
    const LoopAxis point = fresh("point", points_), through = fresh("t", s_.taps_through),
                   chunk = fresh("chunk", chunks);
    parts.push_back(loop(point, clear_products(columns, point.expr(), Expr(0), Expr(this->block()))));
    const Stmt frame = chunks == 1 ? some_channels(through.expr(), Expr(0), false)
                                   : loop(chunk, some_channels(through.expr(), chunk.expr(), false));
    parts.push_back(loop(through, frame));
  } else {
    parts.push_back(some_channels(Expr(0), Expr(0), true));
    if (chunks > 1) {
      const LoopAxis chunk = fresh("chunk", chunks - 1);
      parts.push_back(loop(chunk, some_channels(Expr(0), te::simplify(chunk.expr() + Expr(1)), false)));
    }
  }
  parts.push_back(from_points(panel, columns, block));
  return Stmt::seq(std::move(parts));
}

Kernel Winograd::make(std::string name) {
  kernel_.function.name = std::move(name);
  const Contraction& c = *group_.contraction;
  accesses_.emplace(scene_, group_, group_.rows, kernel_);
  const auto argument = [&](const char* what, int64_t elements, int value, std::optional<Packing> packing = {}) {
    kernel_.function.buffers.push_back({what, DType::F32, {elements}, loop::Scope::Argument, false});
    kernel_.arguments.push_back({value, std::move(packing)});
    return static_cast<int>(kernel_.function.buffers.size()) - 1;
  };
  input_ = argument("input", scene_.layout(c.a->tensor).span, c.a->tensor);
  const DType stored = split_ ? DType::BF16 : DType::F32;
  if (transformed_) {
    const int64_t elements = s_.groups * points_ * group_taps();
    taps_ = argument("taps", elements, scene_.made_constant(elements, [&](float* to) { transform_taps(to); }));
  } else {
    Packing packing = taps_by_panel();
    const int64_t elements = packing.elements();
    taps_ = argument("taps", elements, c.b->tensor, std::move(packing));
    tap_points_ = scratch("tap_points", points_ * tap_step_, loop::Scope::Scratch, stored);
    if (split_) tap_points_low_ = scratch("tap_points_low", points_ * tap_step_, loop::Scope::Scratch, stored);
  }
  points_buffer_ = scratch("points", points_ * point_step_, loop::Scope::Scratch, stored);
  if (split_) points_low_ = scratch("points_low", points_ * point_step_, loop::Scope::Scratch, stored);
  product_ = scratch("products", points_ * product_step_);
  result_ = scratch("outputs", fy_.outputs() * fx_.outputs() * nr_);

  const int64_t blocks = ceil_div(places_, side_) * (deep_ ? s_.n * ceil_div(s_.od, frames_) : 1),
                per_task = ceil_div(panels_, splits_), splits = ceil_div(panels_, per_task);
  // Those of one group follow each other: its taps stay in the caches.
  const LoopAxis task = fresh("task", s_.groups * blocks * splits);
  apart_ = s_.groups == 1 ? Expr(0) : te::floor_div(task.expr(), Expr(blocks * splits));
  const Expr number = s_.groups == 1 ? task.expr() : te::floor_mod(task.expr(), Expr(blocks * splits));
  const Expr split = te::floor_mod(number, Expr(splits));
  const Block block = block_at(te::floor_div(number, Expr(splits)));
  std::vector<Stmt> parts = {to_points(block)};
  const int64_t whole = s_.o / nr_, rest = s_.o % nr_;
  const Expr begin = split * Expr(per_task);
  if (whole > 0) {
    const LoopAxis p = fresh("panel", std::min(per_task, whole));
    const Expr panels = whole == panels_ && whole % per_task == 0
                            ? Expr(per_task)
                            : te::max(Expr(0), te::min(Expr(per_task), Expr(whole) - begin));
    parts.push_back(loop(p, one_panel(begin + p.expr(), nr_, block), LoopKind::Serial, panels));
  }
  if (rest > 0) {
    const Stmt tail = one_panel(Expr(whole), rest, block);
    parts.push_back(splits == 1 ? tail : Stmt::branch(te::eq(split, Expr(splits - 1)), tail));
  }
  kernel_.function.body =
      loop(task, Stmt::seq(std::move(parts)), task.extent > 1 ? LoopKind::Parallel : LoopKind::Serial);
  finish(kernel_, scene_, group_,
         2.0 * static_cast<double>(window_ * s_.taps_through) *
             static_cast<double>(s_.images_made() * s_.oh * s_.ow * s_.o) * static_cast<double>(s_.groups * s_.c));
  return std::move(kernel_);
}

namespace {

// Of 4x4 outputs: fewer leave register tiles half empty.
bool many_tiles(const ConvolutionShape& s) {
  return s.images_made() * ceil_div(s.oh, 4) * ceil_div(s.ow, 4) >= kFewestTiles;
}

}  // namespace

Decision filterable(const ConvolutionShape& s) {
  if (!s.plain())
    return Decision::no("positions or taps are more than one pixel apart, or positions more than one frame");
  if (!s.channels_together) return Decision::no("channels do not lie together");
  if (s.taps_down != 3 || s.taps_across != 3) return Decision::no("a plane has other than 3x3 taps");
  if (s.c < 16 || s.o < 16) return Decision::no("fewer than 16 channels");
  if (s.oh < 4 || s.ow < 4) return Decision::no("fewer than 4x4 positions");
  if (s.groups > 1 && !many_tiles(s)) return Decision::no("few tiles of each group");
  return Decision::yes();
}

namespace {

std::optional<Winograd> winograd(const Scene& scene, const Group& group, const std::optional<ConvolutionShape>& shape,
                                 const Cut& cut, bool split) {
  if (group.contraction->bytes()) return std::nullopt;
  if (!shape || !shape->plain() || !shape->channels_together || shape->c < 16 || shape->o < 16) return std::nullopt;
  if (shape->groups > 1 && (split || !filterable(*shape))) return std::nullopt;
  const int64_t ty = shape->taps_down, tx = shape->taps_across;
  const auto tile = [&](int64_t down, int64_t across) {
    if (split) return loop::split_product_for(scene.target);
    return vector_tile(scene.target, shape->images_made() * ceil_div(shape->oh, down) * ceil_div(shape->ow, across),
                       shape->o);
  };
  if (!tile(1, 1)) return std::nullopt;
  if (filterable(*shape)) {
    const int64_t across = cut.outputs == 2 || cut.outputs == 4 ? cut.outputs : many_tiles(*shape) || split ? 4 : 2;
    // Tiles of 4x4 outputs in two parts would err by 4e-5 of the largest, those of 2x4 by 1.5e-5, those of 2x2 by 1e-5.
    const int64_t down = split ? 2 : across;
    const auto along = split ? robust_filtering : filtering;
    return std::optional<Winograd>(std::in_place, scene, group, *shape, along(down, 3), along(across, 3),
                                   tile(down, across), cut);
  }
  if (split) return std::nullopt;
  // Along one axis. Seven taps: two outputs a tile, as those of four would err by 4e-5 of the largest.
  const bool one_axis = (ty == 1) != (tx == 1);
  const int64_t taps = std::max(ty, tx), outputs = taps == 3 ? 4 : 2;
  if (!one_axis || (taps != 3 && taps != 7) || (ty == 1 ? shape->ow : shape->oh) < 4) return std::nullopt;
  const Filtering along = filtering(outputs, taps), none = filtering(1, 1);
  return std::optional<Winograd>(std::in_place, scene, group, *shape, ty == 1 ? none : along, tx == 1 ? none : along,
                                 ty == 1 ? tile(1, outputs) : tile(outputs, 1), cut);
}

}  // namespace

std::optional<Kernel> winograd_kernel(const Scene& scene, const Group& group, const std::string& name, const Cut& cut,
                                      bool split) {
  const std::optional<ConvolutionShape> shape = convolution_shape(scene, group);
  auto made = winograd(scene, group, shape, cut, split);
  return made ? std::optional(made->make(name)) : std::nullopt;
}

bool filtering_pays(const Scene& scene, const Group& group) {
  const std::optional<ConvolutionShape> s = convolution_shape(scene, group);
  if (!s || s->groups == 1 || !goes_by_windows(scene, group)) return true;
  const auto taps = static_cast<double>(s->taps_down * s->taps_across * s->c);
  const auto made = static_cast<double>(s->images_made() * s->oh * s->ow * s->groups * s->o);
  return filtered_cost(*s) < window_cost(2 * taps * made);
}

std::vector<Cut> winograd_cuts(const Scene& scene, const Group& group, bool split) {
  const std::optional<ConvolutionShape> shape = convolution_shape(scene, group);
  const auto made = winograd(scene, group, shape, {}, split);
  if (!made) return {};
  std::vector<Cut> out = made->cuts();
  if (filterable(*shape)) out.push_back({0, 0, 0, out.empty() || out[0].outputs == 4 ? 2 : 4});
  return out;
}

}  // namespace isomer::compile
