// Convolutions by minimal filtering: F(4x4,3x3) or F(2x2,3x3), and along one axis F(4,3) or F(2,7). A tile of outputs needs a patch of inputs; patch and taps are
// transformed so that the convolution is one product per point of the patch, summed over the channels: a matrix product of
// tiles by channels for each point. One task takes a block of tiles through all three steps in its own scratch memory.
// Transformed taps are two to four times the taps, and a network's weights come from memory on every run: those that would
// not stay in the second cache are transformed by the task that needs them, some channels at a time.
#include <algorithm>

#include "compile/accesses.h"
#include "compile/convolution_shape.h"
#include "compile/epilogue.h"
#include "compile/filtering.h"
#include "compile/finish.h"
#include "compile/kernel.h"
#include "compile/product_cost.h"
#include "loop/affine.h"
#include "loop/intrinsics.h"
#include "te/simplify.h"

namespace isomer::compile {

using loop::LoopKind;
using loop::Stmt;
using te::Expr;

namespace {

constexpr int64_t kManyBlocks = 16;
constexpr int64_t kFewestTiles = 8;  // of a block: fewer leave a register tile half empty

// All points of a tile are touched together: an odd number of cache lines keeps them in different sets.
int64_t odd_lines(int64_t elements) {
  const int64_t lines = ceil_div(elements, 16);
  return (lines % 2 == 0 ? lines + 1 : lines) * 16;
}

constexpr int64_t kHalves = 2;  // registers of columns that are transformed back together

void add_term(Expr& sum, double factor, Expr t) {
  if (factor != 1 && factor != -1) t = t * Expr::real(DType::F32, std::abs(factor));
  sum = sum.empty() ? (factor < 0 ? -t : t) : factor < 0 ? sum - t : sum + t;
}

// A row of a transform, its terms in order: that rounds less than sums that rows could share.
Expr combine(const std::vector<double>& factors, const std::function<Expr(size_t)>& term) {
  Expr sum;
  for (size_t i = 0; i < factors.size(); ++i)
    if (factors[i] != 0) add_term(sum, factors[i], term(i));
  return sum;
}

// A row of the transform back: terms 1 and 2, 3 and 4 have factors of one size, and the rows share their sums and
// differences.
Expr combine_back(const std::vector<double>& factors, const std::function<Expr(size_t)>& term) {
  Expr sum;
  for (size_t i = 0; i < factors.size(); ++i) {
    if (factors[i] == 0) continue;
    Expr t = term(i);
    if (i % 2 == 1 && i + 1 < factors.size() && std::abs(factors[i]) == std::abs(factors[i + 1])) {
      t = factors[i] == factors[i + 1] ? t + term(i + 1) : t - term(i + 1);
      add_term(sum, factors[i], t);
      ++i;
    } else {
      add_term(sum, factors[i], t);
    }
  }
  return sum;
}

class Winograd {
 public:
  Winograd(const Scene& scene, const Group& group, const ConvolutionShape& shape, Filtering rows, Filtering columns,
           loop::IntrinsicPtr tile, Cut cut)
      : scene_(scene),
        group_(group),
        s_(shape),
        fy_(std::move(rows)),
        fx_(std::move(columns)),
        tile_(std::move(tile)),
        cut_(cut),
        lanes_(scene.lanes(DType::F32)) {
    mr_ = tile_->meaning.stages[0].axes[0].extent.value();
    nr_ = tile_->meaning.stages[0].axes[1].extent.value();
    points_ = fy_.patch() * fx_.patch();
    down_ = ceil_div(s_.oh, fy_.outputs());
    across_ = ceil_div(s_.ow, fx_.outputs());
    window_ = s_.taps_down * s_.taps_across;
    tiles_ = s_.n * down_ * across_;
    panels_ = ceil_div(s_.o, nr_);
    sizes();
  }

  Kernel make(std::string name);
  std::vector<Cut> cuts() const;

 private:
  LoopAxis fresh(std::string name, int64_t extent) { return {next_var_++, std::move(name), extent}; }
  static Stmt loop(const LoopAxis& a, Stmt body, LoopKind kind = LoopKind::Serial, Expr extent = {}) {
    return Stmt::loop(a.var, a.name, extent.empty() ? Expr(a.extent) : extent, kind, std::move(body));
  }
  int scratch(std::string name, int64_t elements, loop::Scope scope = loop::Scope::Scratch) {
    kernel_.function.buffers.push_back({std::move(name), DType::F32, {elements}, scope, true});
    return static_cast<int>(kernel_.function.buffers.size()) - 1;
  }
  void sizes();
  struct TapSteps {
    int64_t output = 0, channel = 0, down = 0, across = 0, first = 0;
  };
  TapSteps tap_steps() const;
  void transform_taps(float* to) const;
  Packing taps_by_panel() const;
  Stmt taps_to_points(const Expr& panel, const Expr& chunk);
  Stmt one_panel(const Expr& panel, int64_t columns, const Expr& first, const Expr& count);
  Stmt to_points(const Expr& first, const Expr& count);
  Stmt patch_to_points(const Expr& corner_row, const Expr& corner_column, const Expr& origin, const Expr& tile,
                       const Expr& channel, int64_t width, bool inside);
  Stmt products(const Expr& panel, int64_t columns, const Expr& count, const Expr& chunk, bool fresh);
  Stmt from_points(const Expr& panel, int64_t columns, const Expr& first, const Expr& count);

  const Scene& scene_;
  const Group& group_;
  const ConvolutionShape& s_;
  const Filtering fy_, fx_;  // along rows and along columns
  loop::IntrinsicPtr tile_;
  const Cut cut_;
  int64_t window_ = 1;  // taps of a channel
  int64_t lanes_, mr_ = 0, nr_ = 0, points_ = 0, down_ = 0, across_ = 0, tiles_ = 0, panels_ = 0;
  int64_t block_ = 0, rows_ = 0, splits_ = 1,
          depth_ = 0;  // tiles of a task, of a register tile; tasks a block; row length
  int64_t point_step_ = 0, product_step_ = 0, tap_step_ = 0;  // elements from point to point
  int64_t chunk_ = 0;                                         // channels whose taps a task transforms at a time
  bool transformed_ = true;                                   // the taps, when the model is compiled
  Kernel kernel_;
  int next_var_ = 0;
  std::optional<Accesses> accesses_;
  int input_ = -1, taps_ = -1, points_buffer_ = -1, tap_points_ = -1, product_ = -1, result_ = -1;
};

// Blocks whose points stay in the second cache, register tiles of even height, tasks enough for some workers.
void Winograd::sizes() {
  depth_ = ceil_div(s_.c, lanes_) * lanes_;
  if (depth_ / lanes_ % 2 == 0) depth_ += lanes_;
  const int64_t bytes = 4 * points_ * (depth_ + nr_);
  const int64_t fit = std::max<int64_t>(mr_, scene_.target.l2_bytes * 5 / 8 / bytes);
  block_ = std::min({tiles_, fit / mr_ * mr_, 4 * mr_});
  int64_t blocks = ceil_div(tiles_, block_);
  const auto splits = [&] { return blocks >= 4 ? 1 : std::min<int64_t>(panels_, ceil_div(4, blocks)); };
  // A few tasks more or less show: two workers should have the same number of them.
  if (blocks * splits() % 2 == 1 && blocks < kManyBlocks && tiles_ >= (blocks + 1) * kFewestTiles) ++blocks;
  block_ = ceil_div(tiles_, blocks);
  splits_ = splits();
  if (cut_.rows > 0 && bytes * cut_.rows <= 2 * scene_.target.l2_bytes) block_ = std::min(cut_.rows, tiles_);
  if (cut_.parts > 0) splits_ = std::min(cut_.parts, panels_);
  rows_ = ceil_div(block_, ceil_div(block_, mr_));
  transformed_ = 4 * points_ * s_.c * panels_ * nr_ <= scene_.target.l2_bytes * 3 / 8;
  const int64_t most = std::max<int64_t>(16, scene_.target.l2_bytes / 6 / (4 * points_ * nr_));
  chunk_ = transformed_ ? s_.c : ceil_div(s_.c, ceil_div(s_.c, most));
  point_step_ = odd_lines(block_ * depth_);
  product_step_ = odd_lines(block_ * nr_);
  tap_step_ = odd_lines(chunk_ * nr_);
}

std::vector<Cut> Winograd::cuts() const {
  std::vector<Cut> out;
  const auto add = [&](int64_t rows, int64_t parts) {
    const Cut cut{std::clamp<int64_t>(rows, 1, tiles_), std::clamp<int64_t>(parts, 1, panels_), 0, fx_.outputs()};
    const bool own = cut.rows == block_ && cut.parts == splits_;
    if (!own && std::find(out.begin(), out.end(), cut) == out.end()) out.push_back(cut);
  };
  add(ceil_div(block_, 2), splits_);
  add(2 * block_, splits_);
  add(ceil_div(block_, mr_) * mr_, splits_);
  add(block_, splits_ > 1 ? 1 : 2);
  return out;
}

Winograd::TapSteps Winograd::tap_steps() const {
  const Contraction& c = *group_.contraction;
  const std::vector<int64_t>& strides = scene_.layout(c.b->tensor).strides;
  TapSteps by;
  for (size_t d = 0; d < 4; ++d) {
    const Linear index = *linear(c.b->args[d]);
    by.output += index.of(s_.outputs) * strides[d];
    by.channel += index.of(s_.channels) * strides[d];
    by.down += s_.down < 0 ? 0 : index.of(s_.down) * strides[d];
    by.across += s_.across < 0 ? 0 : index.of(s_.across) * strides[d];
    by.first += index.constant * strides[d];
  }
  return by;
}

// The taps as they are: [panel][channel][tap][output of the panel].
Packing Winograd::taps_by_panel() const {
  const TapSteps by = tap_steps();
  Packing p{{by.first}, {}, {}, nr_};
  for (int64_t ch = 0; ch < s_.c; ++ch)
    for (int64_t t = 0; t < window_; ++t)
      p.depth.push_back(ch * by.channel + t / s_.taps_across * by.down + t % s_.taps_across * by.across);
  for (int64_t o = 0; o < s_.o; ++o) p.column.push_back(o * by.output);
  return p;
}

void Winograd::transform_taps(float* to) const {
  const TapSteps by = tap_steps();
  const float* from = scene_.value(group_.contraction->b->tensor).constant->as<float>().data() + by.first;
  const auto py = static_cast<size_t>(fy_.patch()), px = static_cast<size_t>(fx_.patch());
  const auto ty = static_cast<size_t>(s_.taps_down), tx = static_cast<size_t>(s_.taps_across);
  // A panel of outputs at a time, so that what is written for a point lies together.
  const auto width = static_cast<size_t>(nr_);
  std::vector<double> g(ty * tx * width), half(py * tx * width);
  const auto accumulate = [&](double* sum, double factor, const double* term) {
    for (size_t l = 0; l < width; ++l) sum[l] += factor * term[l];
  };
  std::vector<double> sum(width);
  for (int64_t panel = 0; panel < panels_; ++panel)
    for (int64_t ch = 0; ch < s_.c; ++ch) {
      for (size_t t = 0; t < ty * tx; ++t) {
        const int64_t at =
            ch * by.channel + static_cast<int64_t>(t / tx) * by.down + static_cast<int64_t>(t % tx) * by.across;
        for (size_t l = 0; l < width; ++l) {
          const int64_t o = panel * nr_ + static_cast<int64_t>(l);
          g[t * width + l] = o < s_.o ? static_cast<double>(from[o * by.output + at]) : 0;
        }
      }
      std::fill(half.begin(), half.end(), 0.0);
      for (size_t i = 0; i < py; ++i)
        for (size_t x = 0; x < tx; ++x)
          for (size_t y = 0; y < ty; ++y)
            accumulate(&half[(i * tx + x) * width], fy_.taps[i][y], &g[(y * tx + x) * width]);
      for (size_t i = 0; i < py; ++i)
        for (size_t j = 0; j < px; ++j) {
          std::fill(sum.begin(), sum.end(), 0.0);
          for (size_t x = 0; x < tx; ++x) accumulate(sum.data(), fx_.taps[j][x], &half[(i * tx + x) * width]);
          float* out = to + ((static_cast<int64_t>(i * px + j) * panels_ + panel) * s_.c + ch) * nr_;
          for (size_t l = 0; l < width; ++l) out[l] = static_cast<float>(sum[l]);
        }
    }
}

// One patch of one vector of channels: B^T d B, through local memory that fits in registers or near.
Stmt Winograd::patch_to_points(const Expr& corner_row, const Expr& corner_column, const Expr& origin, const Expr& tile,
                               const Expr& channel, int64_t width, bool inside) {
  const auto py = static_cast<size_t>(fy_.patch()), px = static_cast<size_t>(fx_.patch());
  const Layout& layout = scene_.layout(group_.contraction->a->tensor);
  const int half = scratch("half", static_cast<int64_t>(py * px) * lanes_, loop::Scope::Local);
  const auto vector = [&](const std::function<Stmt(const Expr&)>& body) {
    const LoopAxis lane = fresh("v", width);
    return loop(lane, body(lane.expr()), LoopKind::Vector);
  };
  // Simplified once: what differs from one element of the patch to the next is a number.
  const int64_t by_row = layout.strides[s_.row_dim], by_column = layout.strides[s_.column_dim];
  const Expr corner = te::simplify(origin + corner_row * Expr(by_row) + corner_column * Expr(by_column) + channel);
  std::vector<Expr> row_inside, column_inside;
  for (size_t k = 0; k < std::max(py, px) && !inside; ++k) {
    const Expr step(static_cast<int64_t>(k));
    row_inside.push_back(te::simplify(te::in_range(corner_row + step, Expr(s_.h))));
    column_inside.push_back(te::simplify(te::in_range(corner_column + step, Expr(s_.w))));
  }
  std::vector<Stmt> parts;
  for (size_t j = 0; j < px; ++j)
    for (size_t i = 0; i < py; ++i)
      parts.push_back(vector([&](const Expr& lane) {
        const Expr value = combine(fy_.input[i], [&](size_t y) {
          const int64_t ahead = static_cast<int64_t>(y) * by_row + static_cast<int64_t>(j) * by_column;
          const Expr read = Expr::read(input_, DType::F32, {corner + lane + Expr(ahead)});
          if (inside) return read;
          return te::select(row_inside[y] && column_inside[j], read, Expr::real(DType::F32, 0));
        });
        return Stmt::store(half, {Expr(static_cast<int64_t>(i * px + j) * lanes_) + lane}, value);
      }));
  const Expr to = te::simplify(tile * Expr(depth_) + channel);
  for (size_t i = 0; i < py; ++i)
    for (size_t j = 0; j < px; ++j)
      parts.push_back(vector([&](const Expr& lane) {
        const Expr value = combine(fx_.input[j], [&](size_t x) {
          return Expr::read(half, DType::F32, {Expr(static_cast<int64_t>(i * px + x) * lanes_) + lane});
        });
        return Stmt::store(points_buffer_, {to + lane + Expr(static_cast<int64_t>(i * px + j) * point_step_)}, value);
      }));
  return Stmt::seq(std::move(parts));
}

Stmt Winograd::to_points(const Expr& first, const Expr& count) {
  const LoopAxis tile = fresh("tile", block_);
  const Expr number = first + tile.expr();
  const Expr image = te::floor_div(number, Expr(down_ * across_));
  const Expr row =
      te::floor_mod(te::floor_div(number, Expr(across_)), Expr(down_)) * Expr(fy_.outputs()) - Expr(s_.pad_rows);
  const Expr column = te::floor_mod(number, Expr(across_)) * Expr(fx_.outputs()) - Expr(s_.pad_columns);
  const Layout& layout = scene_.layout(group_.contraction->a->tensor);
  const Expr origin = s_.images < 0 ? Expr(0) : image * Expr(layout.strides[s_.image_dim]);
  const auto channels = [&](bool inside) {
    std::vector<Stmt> parts;
    const int64_t whole = s_.c / lanes_, rest = s_.c % lanes_;
    if (whole > 0) {
      const LoopAxis block = fresh("c", whole);
      parts.push_back(
          loop(block, patch_to_points(row, column, origin, tile.expr(), block.expr() * Expr(lanes_), lanes_, inside)));
    }
    if (rest > 0)
      parts.push_back(patch_to_points(row, column, origin, tile.expr(), Expr(whole * lanes_), rest, inside));
    return Stmt::seq(std::move(parts));
  };
  const Expr inside = Expr(0) <= row && row + Expr(fy_.patch()) <= Expr(s_.h) && Expr(0) <= column &&
                      column + Expr(fx_.patch()) <= Expr(s_.w);
  return loop(tile, Stmt::branch(inside, channels(true), channels(false)), LoopKind::Serial, count);
}

// G g G^T of one panel of outputs and `chunk_` channels.
Stmt Winograd::taps_to_points(const Expr& panel, const Expr& chunk) {
  const auto py = static_cast<size_t>(fy_.patch()), px = static_cast<size_t>(fx_.patch());
  const auto tx = static_cast<size_t>(s_.taps_across);
  const LoopAxis channel = fresh("ch", chunk_), part = fresh("part", nr_ / lanes_);
  const int half = scratch("half_taps", static_cast<int64_t>(py * tx) * lanes_, loop::Scope::Local);
  const Expr first = chunk * Expr(chunk_);
  const auto vector = [&](const std::function<Stmt(const Expr&)>& body) {
    const LoopAxis lane = fresh("v", lanes_);
    return loop(lane, body(lane.expr()), LoopKind::Vector);
  };
  const Expr column = part.expr() * Expr(lanes_);
  const Expr from = te::simplify((panel * Expr(s_.c) + first + channel.expr()) * Expr(window_ * nr_) + column);
  const Expr to = te::simplify(channel.expr() * Expr(nr_) + column);
  std::vector<Stmt> parts;
  for (size_t i = 0; i < py; ++i)
    for (size_t x = 0; x < tx; ++x)
      parts.push_back(vector([&](const Expr& lane) {
        const Expr value = combine(fy_.taps[i], [&](size_t y) {
          return Expr::read(taps_, DType::F32, {from + lane + Expr(static_cast<int64_t>(y * tx + x) * nr_)});
        });
        return Stmt::store(half, {Expr(static_cast<int64_t>(i * tx + x) * lanes_) + lane}, value);
      }));
  for (size_t i = 0; i < py; ++i)
    for (size_t j = 0; j < px; ++j)
      parts.push_back(vector([&](const Expr& lane) {
        const Expr value = combine(fx_.taps[j], [&](size_t x) {
          return Expr::read(half, DType::F32, {Expr(static_cast<int64_t>(i * tx + x) * lanes_) + lane});
        });
        return Stmt::store(tap_points_, {to + lane + Expr(static_cast<int64_t>(i * px + j) * tap_step_)}, value);
      }));
  const Expr count = s_.c % chunk_ == 0 ? Expr(chunk_) : te::min(Expr(chunk_), Expr(s_.c) - first);
  return loop(channel, loop(part, Stmt::seq(std::move(parts))), LoopKind::Serial, te::simplify(count));
}

// For every point of the patch the tiles of the block times one panel of taps.
Stmt Winograd::products(const Expr& panel, int64_t columns, const Expr& count, const Expr& chunk, bool fresh_sums) {
  const int64_t most_parts = ceil_div(block_, rows_);
  const LoopAxis point = fresh("point", points_), part = fresh("part", most_parts);
  const Expr start = part.expr() * Expr(rows_), channel = chunk * Expr(chunk_);
  const Expr height = tiles_ % block_ == 0 && block_ % rows_ == 0 ? Expr(rows_) : te::min(Expr(rows_), count - start);
  const Expr depth = te::simplify(s_.c % chunk_ == 0 ? Expr(chunk_) : te::min(Expr(chunk_), Expr(s_.c) - channel));
  const Expr to = point.expr() * Expr(product_step_) + start * Expr(nr_);
  const Expr from = point.expr() * Expr(point_step_) + start * Expr(depth_) + channel;
  const Expr taps_at =
      transformed_ ? (point.expr() * Expr(panels_) + panel) * Expr(s_.c * nr_) : point.expr() * Expr(tap_step_);
  std::vector<loop::TileOperand> operands = {{points_buffer_, {te::simplify(from)}, {depth_, 0, 1}},
                                             {transformed_ ? taps_ : tap_points_, {te::simplify(taps_at)}, {0, 1, nr_}},
                                             {product_, {te::simplify(to)}, {nr_, 1, 0}}};
  std::optional<loop::TileOperand> ahead;
  if (!transformed_) {  // the taps of the next channels, or of the next panel
    const int64_t by = ceil_div(window_ * nr_, points_ * most_parts);
    const Expr next = (panel * Expr(s_.c) + channel + Expr(chunk_)) * Expr(window_ * nr_);
    const Expr share = (point.expr() * Expr(most_parts) + part.expr()) * Expr(chunk_ * by);
    ahead = loop::TileOperand{taps_, {te::simplify(next + share)}, {0, 0, by}};
  }
  Stmt accumulate = Stmt::tile(tile_, std::move(operands), {height, Expr(columns), depth}, std::move(ahead));
  if (fresh_sums) {
    const LoopAxis row = fresh("r", rows_), lane = fresh("v", columns);
    const Expr at = te::simplify(to + row.expr() * Expr(nr_) + lane.expr());
    const Stmt cleared = loop(row, loop(lane, Stmt::store(product_, {at}, Expr::real(DType::F32, 0)), LoopKind::Vector),
                              LoopKind::Serial, height);
    accumulate = Stmt::seq({cleared, accumulate});
  }
  const Expr parts = te::simplify(te::floor_div(count + Expr(rows_ - 1), Expr(rows_)));
  return loop(point, loop(part, accumulate, LoopKind::Serial, parts));
}

Stmt Winograd::one_panel(const Expr& panel, int64_t columns, const Expr& first, const Expr& count) {
  std::vector<Stmt> parts;
  const auto some_channels = [&](const Expr& chunk, bool fresh_sums) {
    const Stmt product = products(panel, columns, count, chunk, fresh_sums);
    return transformed_ ? product : Stmt::seq({taps_to_points(panel, chunk), product});
  };
  parts.push_back(some_channels(Expr(0), true));
  if (const int64_t more = ceil_div(s_.c, chunk_) - 1; more > 0) {
    const LoopAxis chunk = fresh("chunk", more);
    parts.push_back(loop(chunk, some_channels(te::simplify(chunk.expr() + Expr(1)), false)));
  }
  parts.push_back(from_points(panel, columns, first, count));
  return Stmt::seq(std::move(parts));
}

// A^T m A of each tile, and what is stored for each of its outputs that exists.
Stmt Winograd::from_points(const Expr& panel, int64_t columns, const Expr& first, const Expr& count) {
  const auto px = static_cast<size_t>(fx_.patch());
  const auto oy = static_cast<size_t>(fy_.outputs()), ox = static_cast<size_t>(fx_.outputs());
  const LoopAxis tile = fresh("tile", block_), lane = fresh("c", nr_),
                 place = fresh("place", fy_.outputs() * fx_.outputs());
  // A few registers of columns at a time: the halves of more would not stay in registers.
  const int64_t width = columns % lanes_ == 0 && columns > kHalves * lanes_ ? lanes_ : columns;
  const int half = scratch("half", static_cast<int64_t>(oy * px) * width, loop::Scope::Local);
  const LoopAxis some = fresh("part", columns / width);
  const auto vector = [&](const std::function<Stmt(const Expr&)>& body) {
    const LoopAxis v = fresh("v", width);
    return loop(v, body(v.expr()), LoopKind::Vector);
  };
  const Expr begin = some.expr() * Expr(width);
  std::vector<Stmt> steps;
  for (size_t j = 0; j < px; ++j)
    for (size_t i = 0; i < oy; ++i)
      steps.push_back(vector([&](const Expr& v) {
        const Expr value = combine_back(fy_.output[i], [&](size_t y) {
          const Expr point(static_cast<int64_t>(y * px + j) * product_step_);
          return Expr::read(product_, DType::F32, {te::simplify(tile.expr() * Expr(nr_) + begin + v + point)});
        });
        return Stmt::store(half, {Expr(static_cast<int64_t>(i * px + j) * width) + v}, value);
      }));
  for (size_t i = 0; i < oy; ++i)
    for (size_t j = 0; j < ox; ++j)
      steps.push_back(vector([&](const Expr& v) {
        const Expr value = combine_back(fx_.output[j], [&](size_t x) {
          return Expr::read(half, DType::F32, {Expr(static_cast<int64_t>(i * px + x) * width) + v});
        });
        return Stmt::store(result_, {te::simplify(begin + Expr(static_cast<int64_t>(i * ox + j) * nr_) + v)}, value);
      }));
  std::vector<Stmt> parts;
  if (some.extent > 1) {
    parts.push_back(loop(some, Stmt::seq(std::move(steps))));
  } else {
    te::Substitution first_part;
    first_part.var(some.var, Expr(0));
    parts.push_back(substitute(Stmt::seq(std::move(steps)), first_part));
  }
  const Expr at = te::simplify(place.expr() * Expr(nr_) + lane.expr());
  const Epilogue e = epilogue_of(scene_, group_, *accesses_, result_, at, {place.axis(), lane.axis()}, next_var_);
  const Expr number = first + tile.expr();
  for (size_t i = 0; i < oy; ++i)
    for (size_t j = 0; j < ox; ++j) {
      const Expr row = te::floor_mod(te::floor_div(number, Expr(across_)), Expr(down_)) * Expr(fy_.outputs()) +
                       Expr(static_cast<int64_t>(i));
      const Expr column = te::floor_mod(number, Expr(across_)) * Expr(fx_.outputs()) + Expr(static_cast<int64_t>(j));
      te::Substitution names;
      const auto set = [&](int axis, const Expr& value) {
        if (const auto it = e.axes.find(axis); it != e.axes.end()) names.var(it->second.var, value);
      };
      set(s_.images, te::floor_div(number, Expr(down_ * across_)));
      set(s_.rows, row);
      set(s_.columns, column);
      set(s_.outputs, panel * Expr(nr_) + lane.expr());
      names.var(place.var, Expr(static_cast<int64_t>(i * ox + j)));
      const Stmt store =
          loop(lane, Stmt::store(e.buffer, {te::simplify(names(e.address))}, te::simplify(names(e.body))),
               LoopKind::Vector, Expr(columns));
      Expr exists;
      if (s_.oh % fy_.outputs() != 0 && i > 0) exists = row < Expr(s_.oh);
      if (s_.ow % fx_.outputs() != 0 && j > 0) {
        const Expr there = column < Expr(s_.ow);
        exists = exists.empty() ? there : exists && there;
      }
      parts.push_back(exists.empty() ? store : Stmt::branch(exists, store));
    }
  return loop(tile, Stmt::seq(std::move(parts)), LoopKind::Serial, count);
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
  if (transformed_) {
    const int64_t elements = points_ * panels_ * s_.c * nr_;
    taps_ = argument("taps", elements, scene_.made_constant(elements, [&](float* to) { transform_taps(to); }));
  } else {
    Packing packing = taps_by_panel();
    const int64_t elements = packing.elements();
    taps_ = argument("taps", elements, c.b->tensor, std::move(packing));
    tap_points_ = scratch("tap_points", points_ * tap_step_);
  }
  points_buffer_ = scratch("points", points_ * point_step_);
  product_ = scratch("products", points_ * product_step_);
  result_ = scratch("outputs", fy_.outputs() * fx_.outputs() * nr_);

  const int64_t blocks = ceil_div(tiles_, block_), per_task = ceil_div(panels_, splits_);
  const LoopAxis task = fresh("task", blocks * ceil_div(panels_, per_task));
  const Expr split = te::floor_mod(task.expr(), Expr(ceil_div(panels_, per_task)));
  const Expr first = te::floor_div(task.expr(), Expr(ceil_div(panels_, per_task))) * Expr(block_);
  const Expr count = tiles_ % block_ == 0 ? Expr(block_) : te::min(Expr(block_), Expr(tiles_) - first);
  std::vector<Stmt> parts = {to_points(first, count)};
  const int64_t whole = s_.o / nr_, rest = s_.o % nr_;
  const Expr begin = split * Expr(per_task);
  if (whole > 0) {
    const LoopAxis p = fresh("panel", std::min(per_task, whole));
    const Expr panels = whole == panels_ && whole % per_task == 0
                            ? Expr(per_task)
                            : te::max(Expr(0), te::min(Expr(per_task), Expr(whole) - begin));
    parts.push_back(loop(p, one_panel(begin + p.expr(), nr_, first, count), LoopKind::Serial, panels));
  }
  if (rest > 0) {
    const Stmt tail = one_panel(Expr(whole), rest, first, count);
    const bool alone = ceil_div(panels_, per_task) == 1;
    parts.push_back(alone ? tail : Stmt::branch(te::eq(split, Expr(ceil_div(panels_, per_task) - 1)), tail));
  }
  kernel_.function.body =
      loop(task, Stmt::seq(std::move(parts)), task.extent > 1 ? LoopKind::Parallel : LoopKind::Serial);
  finish(kernel_, scene_, group_,
         2.0 * static_cast<double>(window_) * static_cast<double>(s_.n * s_.oh * s_.ow * s_.o) *
             static_cast<double>(s_.c));
  return std::move(kernel_);
}

}  // namespace

bool filterable(const ConvolutionShape& s) {
  return s.plain() && s.channels_together && s.taps_down == 3 && s.taps_across == 3 && s.c >= 16 && s.o >= 16 &&
         s.oh >= 4 && s.ow >= 4;
}

namespace {

std::optional<Winograd> winograd(const Scene& scene, const Group& group, const std::optional<ConvolutionShape>& shape,
                                 const Cut& cut) {
  if (group.contraction->bytes()) return std::nullopt;
  if (!shape || !shape->plain() || !shape->channels_together || shape->c < 16 || shape->o < 16) return std::nullopt;
  const int64_t ty = shape->taps_down, tx = shape->taps_across;
  const auto tile = [&](int64_t down, int64_t across) {
    return vector_tile(scene.target, shape->n * ceil_div(shape->oh, down) * ceil_div(shape->ow, across), shape->o);
  };
  if (!tile(1, 1)) return std::nullopt;
  if (filterable(*shape)) {
    const bool large = shape->n * ceil_div(shape->oh, 4) * ceil_div(shape->ow, 4) >= 8;
    const int64_t outputs = cut.outputs == 2 || cut.outputs == 4 ? cut.outputs : large ? 4 : 2;
    return std::optional<Winograd>(std::in_place, scene, group, *shape, filtering(outputs, 3), filtering(outputs, 3),
                                   tile(outputs, outputs), cut);
  }
  // Along one axis. Seven taps: two outputs a tile, as those of four would err by 4e-5 of the largest.
  const bool one_axis = (ty == 1) != (tx == 1);
  const int64_t taps = std::max(ty, tx), outputs = taps == 3 ? 4 : 2;
  if (!one_axis || (taps != 3 && taps != 7) || (ty == 1 ? shape->ow : shape->oh) < 4) return std::nullopt;
  const Filtering along = filtering(outputs, taps), none = filtering(1, 1);
  return std::optional<Winograd>(std::in_place, scene, group, *shape, ty == 1 ? none : along, tx == 1 ? none : along,
                                 ty == 1 ? tile(1, outputs) : tile(outputs, 1), cut);
}

}  // namespace

std::optional<Kernel> winograd_kernel(const Scene& scene, const Group& group, const std::string& name, const Cut& cut) {
  const std::optional<ConvolutionShape> shape = convolution_shape(scene, group);
  auto made = winograd(scene, group, shape, cut);
  return made ? std::optional(made->make(name)) : std::nullopt;
}

std::vector<Cut> winograd_cuts(const Scene& scene, const Group& group) {
  const std::optional<ConvolutionShape> shape = convolution_shape(scene, group);
  const auto made = winograd(scene, group, shape, {});
  if (!made) return {};
  std::vector<Cut> out = made->cuts();
  if (filterable(*shape)) out.push_back({0, 0, 0, out.empty() || out[0].outputs == 4 ? 2 : 4});
  return out;
}

}  // namespace isomer::compile
