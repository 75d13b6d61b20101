// The transforms of minimal filtering: taps and patches to points, and points back to outputs.
#include "compile/winograd.h"

#include <algorithm>

#include "compile/epilogue.h"
#include "te/simplify.h"

namespace isomer::compile {

using loop::LoopKind;
using loop::Stmt;
using te::Expr;

namespace {

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

}  // namespace

Winograd::TapSteps Winograd::tap_steps() const {
  const Contraction& c = *group_.contraction;
  const std::vector<int64_t>& strides = scene_.layout(c.b->tensor).strides;
  TapSteps by;
  for (size_t d = 0; d < strides.size(); ++d) {
    const Linear index = *linear(c.b->args[d]);
    by.output += index.of(c.n[0]) * strides[d];
    by.group += c.split ? index.of(c.split->outer.id) * strides[d] : 0;
    by.channel += index.of(s_.channels) * strides[d];
    by.through += s_.through < 0 ? 0 : index.of(s_.through) * strides[d];
    by.down += s_.down < 0 ? 0 : index.of(s_.down) * strides[d];
    by.across += s_.across < 0 ? 0 : index.of(s_.across) * strides[d];
    by.first += index.constant * strides[d];
  }
  return by;
}

// The taps as they are: [group][panel][frame][channel][tap][output of the panel]; pairs of channels side by side where products take
// them so.
Packing Winograd::taps_by_panel() const {
  const TapSteps by = tap_steps();
  Packing p{{}, {}, {}, nr_};
  for (int64_t g = 0; g < s_.groups; ++g) p.batch.push_back(by.first + g * by.group);
  const int64_t together = split_ ? 2 : 1, channels = split_ ? depth_ : s_.c;
  p.together = together;
  for (int64_t f = 0; f < s_.taps_through; ++f)
    for (int64_t first = 0; first < channels; first += together)
      for (int64_t t = 0; t < window_; ++t)
        for (int64_t ch = first; ch < first + together; ++ch)
          p.depth.push_back(ch < s_.c ? f * by.through + ch * by.channel + t / s_.taps_across * by.down +
                                            t % s_.taps_across * by.across
                                      : Packing::kNothing);
  for (int64_t o = 0; o < s_.o; ++o) p.column.push_back(o * by.output);
  return p;
}

void Winograd::transform_taps(float* to) const {
  const TapSteps by = tap_steps();
  const float* first = scene_.value(group_.contraction->b->tensor).constant->as<float>().data() + by.first;
  const auto py = static_cast<size_t>(fy_.patch()), px = static_cast<size_t>(fx_.patch());
  const auto ty = static_cast<size_t>(s_.taps_down), tx = static_cast<size_t>(s_.taps_across);
  // A panel of outputs at a time, so that what is written for a point lies together.
  const auto width = static_cast<size_t>(nr_);
  std::vector<double> g(ty * tx * width), half(py * tx * width);
  const auto accumulate = [&](double* sum, double factor, const double* term) {
    for (size_t l = 0; l < width; ++l) sum[l] += factor * term[l];
  };
  std::vector<double> sum(width);
  for (int64_t number = 0; number < s_.groups * panels_; ++number)
    for (int64_t deep = 0; deep < s_.taps_through * s_.c; ++deep) {
      const int64_t apart = number / panels_, panel = number % panels_;
      const float* from = first + apart * by.group;
      const int64_t channel = deep / s_.c * by.through + deep % s_.c * by.channel;
      for (size_t t = 0; t < ty * tx; ++t) {
        const int64_t at = channel + static_cast<int64_t>(t / tx) * by.down + static_cast<int64_t>(t % tx) * by.across;
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
          float* out = to + (apart * points_ + static_cast<int64_t>(i * px + j)) * group_taps() +
                       (panel * s_.taps_through * s_.c + deep) * nr_;
          for (size_t l = 0; l < width; ++l) out[l] = static_cast<float>(sum[l]);
        }
    }
}

namespace {

Expr corner_of(const Expr& tile, const Filtering& along, int64_t pad) {
  return te::simplify(tile * Expr(along.outputs()) - Expr(pad));
}

}  // namespace

// One patch of one vector of channels: B^T d B, through local memory that fits in registers or near.
Stmt Winograd::patch_to_points(const Tile& tile, const Expr& row, const Expr& channel, int64_t width, bool inside) {
  const auto py = static_cast<size_t>(fy_.patch()), px = static_cast<size_t>(fx_.patch());
  const Layout& layout = scene_.layout(group_.contraction->a->tensor);
  const int half = scratch("half", static_cast<int64_t>(py * px) * lanes_, loop::Scope::Local);
  const auto vector = [&](const std::function<Stmt(const Expr&)>& body) {
    const LoopAxis lane = fresh("v", width);
    return loop(lane, body(lane.expr()), LoopKind::Vector);
  };
  // Simplified once: what differs from one element of the patch to the next is a number.
  const int64_t by_row = layout.strides[s_.row_dim], by_column = layout.strides[s_.column_dim];
  const Expr corner_row = corner_of(tile.row, fy_, s_.pad_rows),
             corner_column = corner_of(tile.column, fx_, s_.pad_columns);
  Expr origin = Expr(s_.first_channel) + apart_ * Expr(s_.group_step);
  if (s_.images >= 0) origin = origin + tile.video * Expr(layout.strides[s_.image_dim]);
  if (s_.video) origin = origin + tile.frame * Expr(layout.strides[s_.frame_dim]);
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
  const Expr to = te::simplify(row * Expr(depth_) + channel);
  for (size_t i = 0; i < py; ++i)
    for (size_t j = 0; j < px; ++j)
      parts.push_back(vector([&](const Expr& lane) {
        const Expr value = combine(fx_.input[j], [&](size_t x) {
          return Expr::read(half, DType::F32, {Expr(static_cast<int64_t>(i * px + x) * lanes_) + lane});
        });
        return store_point(to + lane + Expr(static_cast<int64_t>(i * px + j) * point_step_), value);
      }));
  return Stmt::seq(std::move(parts));
}

Stmt Winograd::store_point(const Expr& at, const Expr& value) const {
  if (!split_) return Stmt::store(points_buffer_, {at}, value);
  const Expr rest = value - te::cast(DType::F32, Expr::read(points_buffer_, DType::BF16, {at}));
  return Stmt::seq({Stmt::store(points_buffer_, {at}, value), Stmt::store(points_low_, {at}, rest)});
}

// Some channels of a row in all points.
Stmt Winograd::zero_points(const Expr& row, int64_t first, int64_t last) {
  const LoopAxis point = fresh("point", points_), lane = fresh("v", last - first);
  const Expr at = te::simplify(point.expr() * Expr(point_step_) + row * Expr(depth_) + Expr(first) + lane.expr());
  return loop(point, loop(lane, store_point(at, Expr::real(DType::F32, 0)), LoopKind::Vector));
}

// Patches of all places of the block, in all frames that its outputs read.
Stmt Winograd::to_points(const Block& block) {
  const LoopAxis place = fresh("tile", side_), slot = fresh("frame", slots_);
  const Expr frame = slot.expr() + block.frame + Expr(shift_ - s_.pad_frames);
  const Tile tile = tile_at(block, frame, place.expr());
  const Expr local = (deep_ ? slot.expr() * Expr(side_) : Expr(0)) + place.expr();
  const auto channels = [&](bool inside) {
    std::vector<Stmt> parts;
    const int64_t whole = s_.c / lanes_, rest = s_.c % lanes_;
    if (whole > 0) {
      const LoopAxis vector = fresh("c", whole);
      parts.push_back(loop(vector, patch_to_points(tile, local, vector.expr() * Expr(lanes_), lanes_, inside)));
    }
    if (rest > 0) parts.push_back(patch_to_points(tile, local, Expr(whole * lanes_), rest, inside));
    if (split_ && s_.c < depth_) parts.push_back(zero_points(local, s_.c, depth_));
    return Stmt::seq(std::move(parts));
  };
  const Expr row = corner_of(tile.row, fy_, s_.pad_rows), column = corner_of(tile.column, fx_, s_.pad_columns);
  const Expr inside = Expr(0) <= row && row + Expr(fy_.patch()) <= Expr(s_.h) && Expr(0) <= column &&
                      column + Expr(fx_.patch()) <= Expr(s_.w);
  const Stmt plane = loop(place, Stmt::branch(inside, channels(true), channels(false)), LoopKind::Serial, block.places);
  if (!deep_) return plane;
  if (slots_ == s_.d && shift_ == s_.pad_frames) return loop(slot, plane);
  const Expr exists = te::simplify(te::in_range(frame, Expr(s_.d)));
  if (!split_) return loop(slot, Stmt::branch(exists, plane));
  const LoopAxis each = fresh("r", side_);
  const Stmt zeros = loop(each, zero_points(slot.expr() * Expr(side_) + each.expr(), 0, depth_));
  return loop(slot, Stmt::branch(exists, plane, zeros));
}

// G g G^T of one panel of outputs and `chunk_` channels.
Stmt Winograd::taps_to_points(const Expr& panel, const Expr& through, const Expr& chunk) {
  const auto py = static_cast<size_t>(fy_.patch()), px = static_cast<size_t>(fx_.patch());
  const auto tx = static_cast<size_t>(s_.taps_across);
  const int64_t together = split_ ? 2 : 1, width = together * nr_, channels = split_ ? depth_ : s_.c;
  const LoopAxis channel = fresh("ch", chunk_ / together), part = fresh("part", width / lanes_);
  const int half = scratch("half_taps", static_cast<int64_t>(py * tx) * lanes_, loop::Scope::Local);
  const Expr first = chunk * Expr(chunk_ / together);
  const auto vector = [&](const std::function<Stmt(const Expr&)>& body) {
    const LoopAxis lane = fresh("v", lanes_);
    return loop(lane, body(lane.expr()), LoopKind::Vector);
  };
  const Expr column = part.expr() * Expr(lanes_);
  const Expr before = ((apart_ * Expr(panels_) + panel) * Expr(s_.taps_through) + through) * Expr(channels / together) +
                      first + channel.expr();
  const Expr from = te::simplify(before * Expr(window_ * width) + column);
  const Expr to =
      te::simplify((split_ ? through * Expr(chunk_ * nr_) : Expr(0)) + channel.expr() * Expr(width) + column);
  std::vector<Stmt> parts;
  for (size_t i = 0; i < py; ++i)
    for (size_t x = 0; x < tx; ++x)
      parts.push_back(vector([&](const Expr& lane) {
        const Expr value = combine(fy_.taps[i], [&](size_t y) {
          return Expr::read(taps_, DType::F32, {from + lane + Expr(static_cast<int64_t>(y * tx + x) * width)});
        });
        return Stmt::store(half, {Expr(static_cast<int64_t>(i * tx + x) * lanes_) + lane}, value);
      }));
  for (size_t i = 0; i < py; ++i)
    for (size_t j = 0; j < px; ++j)
      parts.push_back(vector([&](const Expr& lane) {
        const Expr value = combine(fx_.taps[j], [&](size_t x) {
          return Expr::read(half, DType::F32, {Expr(static_cast<int64_t>(i * tx + x) * lanes_) + lane});
        });
        const Expr at = to + lane + Expr(static_cast<int64_t>(i * px + j) * tap_step_);
        const Stmt high = Stmt::store(tap_points_, {at}, value);
        if (!split_) return high;
        const Expr rest = value - te::cast(DType::F32, Expr::read(tap_points_, DType::BF16, {at}));
        return Stmt::seq({high, Stmt::store(tap_points_low_, {at}, rest)});
      }));
  const Expr count = channels % chunk_ == 0 ? Expr(chunk_ / together) : te::min(Expr(chunk_), Expr(s_.c) - first);
  return loop(channel, loop(part, Stmt::seq(std::move(parts))), LoopKind::Serial, te::simplify(count));
}

// A^T m A of each tile, and what is stored for each of its outputs that exists.
Stmt Winograd::from_points(const Expr& panel, int64_t columns, const Block& block) {
  const auto px = static_cast<size_t>(fx_.patch());
  const auto oy = static_cast<size_t>(fy_.outputs()), ox = static_cast<size_t>(fx_.outputs());
  const LoopAxis place = fresh("tile", side_), frame = fresh("frame", frames_);
  const Expr local = (deep_ ? frame.expr() * Expr(side_) : Expr(0)) + place.expr();
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
          return Expr::read(product_, DType::F32, {te::simplify(local * Expr(nr_) + begin + v + point)});
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
  parts.push_back(store_tile(panel, columns, tile_at(block, block.frame + frame.expr(), place.expr())));
  const Stmt plane = loop(place, Stmt::seq(std::move(parts)), LoopKind::Serial, block.places);
  return deep_ ? loop(frame, plane, LoopKind::Serial, block.frames) : plane;
}

Stmt Winograd::store_tile(const Expr& panel, int64_t columns, const Tile& tile) {
  const auto oy = static_cast<size_t>(fy_.outputs()), ox = static_cast<size_t>(fx_.outputs());
  const LoopAxis lane = fresh("c", nr_), place = fresh("place", fy_.outputs() * fx_.outputs());
  const Expr at = te::simplify(place.expr() * Expr(nr_) + lane.expr());
  const Epilogue e = epilogue_of(scene_, group_, *accesses_, result_, at, {place.axis(), lane.axis()}, next_var_);
  std::vector<Stmt> parts;
  for (size_t i = 0; i < oy; ++i)
    for (size_t j = 0; j < ox; ++j) {
      const Expr row = tile.row * Expr(fy_.outputs()) + Expr(static_cast<int64_t>(i));
      const Expr column = tile.column * Expr(fx_.outputs()) + Expr(static_cast<int64_t>(j));
      te::Substitution names;
      const auto set = [&](int axis, const Expr& value) {
        if (const auto it = e.axes.find(axis); it != e.axes.end()) names.var(it->second.var, value);
      };
      set(s_.images, tile.video);
      set(s_.frames, tile.frame);
      set(s_.rows, row);
      set(s_.columns, column);
      set(s_.outputs, apart_ * Expr(s_.o) + panel * Expr(nr_) + lane.expr());
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
  return Stmt::seq(std::move(parts));
}

}  // namespace isomer::compile
