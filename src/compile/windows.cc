// Reductions over windows that keep their channels apart or nearly so: depthwise and grouped convolutions, pools. A register
// tile is a few neighbouring positions of one vector of channels. The taps that fall outside are known for the tiles at
// the border when the model is compiled, so that no tile asks; groups that are narrower than a vector are read as one vector
// whose lanes are then spread, or by vectors of their own width.
#include "compile/windows.h"
#include "compile/finish.h"

#include <algorithm>
#include <set>

#include "te/simplify.h"
#include "te/substitute.h"

namespace isomer::compile {

using loop::LoopKind;
using loop::Stmt;
using te::Expr;

namespace {

constexpr size_t kMostBorderTiles = 8;  // beyond, the code is larger than what it saves
constexpr int64_t kWidestGroup = 32;    // channels of a group
constexpr int64_t kLine = 64;           // bytes that memory moves at once
constexpr int64_t kShuffled = 4;        // floats that shuffles move about for nothing more
constexpr int64_t kLookedAt = 8;        // positions of a tile

}  // namespace

void Windows::each_point(const std::vector<Reduced>& axes, const std::function<void(const Point&)>& f) {
  std::vector<int64_t> at(axes.size(), 0);
  while (true) {
    f(at);
    size_t d = axes.size();
    while (d > 0 && ++at[d - 1] == axes[d - 1].extent) at[--d] = 0;
    if (d == 0) return;
  }
}

// A vector lies within a group, or holds whole groups whose inputs lie together and are no more than a vector.
bool Windows::lanes_fit(int64_t lanes) const {
  if (s_.group == 0 || s_.group % lanes == 0) return true;
  if (lanes % s_.group != 0) return false;
  for (const Source& s : s_.sources) {
    if (!s.spread) continue;
    int64_t most = 0;
    for (const Reduced& r : s_.deep) {
      if (s.at.of(r.id) < 0) return false;
      most += s.at.of(r.id) * (r.extent - 1);
    }
    const int64_t by_group = s.at.of(kGroupAxis);
    if (most >= by_group || by_group * (lanes / s_.group) > scene_.lanes(DType::F32)) return false;
  }
  return true;
}

// Of vectors that hold several groups, or one. One element to all lanes is part of a load; to the lanes of each group it is a
// shuffle more for each load, and two where a group is wider than what shuffles move about, but the vectors are longer.
bool Windows::narrow_is_better() const {
  const int64_t shuffles = s_.group > kShuffled ? 2 : 1, vectors = lanes_ / s_.group;
  std::set<std::pair<const te::Node*, int64_t>> loads;
  int64_t sums = 0;
  for (int64_t p = 0; p < kLookedAt; ++p)
    each_point(s_.across, [&](const Point& at) {
      ++sums;
      for (const Source& s : s_.sources)
        if (s.spread) loads.emplace(s.node, shift(s, p, at));
    });
  return sums * vectors < sums + shuffles * static_cast<int64_t>(loads.size());
}

Packing Windows::packing(const Source& source) const {
  Packing p;
  p.batch = {0};
  p.width = lanes_;
  for (int64_t c = 0; c < s_.c; ++c)
    p.column.push_back(s_.group > 0
                           ? source.at.of(kGroupAxis) * (c / s_.group) + source.at.of(kInGroupAxis) * (c % s_.group)
                           : source.at.of(s_.channels) * c);
  std::vector<Reduced> order = s_.guarded;
  order.insert(order.end(), s_.deep.begin(), s_.deep.end());
  order.insert(order.end(), s_.across.begin(), s_.across.end());
  each_point(order, [&](const Point& at) {
    int64_t sum = source.at.constant;
    for (size_t i = 0; i < at.size(); ++i) sum += source.at.of(order[i].id) * at[i];
    p.depth.push_back(sum);
  });
  return p;
}

void Windows::arguments() {
  std::map<int, int> known;
  for (Source& s : s_.sources) {
    if (!s.packed) {
      const auto [it, fresh] = known.try_emplace(s.value, -1);
      if (fresh) {
        it->second = buffer("input", scene_.layout(s.value).span, loop::Scope::Argument, s.type);
        kernel_.arguments.push_back({s.value, std::nullopt});
      }
      s.buffer = it->second;
      continue;
    }
    Packing p = packing(s);
    s.buffer = buffer("taps", p.elements(), loop::Scope::Argument, s.type);
    kernel_.arguments.push_back({s.value, std::move(p)});
  }
}

bool Windows::inside(int64_t first, int64_t width) const {
  bool all = true;
  for (int64_t p = 0; p < width; ++p)
    each_point(s_.across, [&](const Point& at) { all = all && counts(first + p, at); });
  return all;
}

// All tiles of a row: those with taps outside one by one, the others in a loop.
Stmt Windows::tiles(const std::function<Stmt(const Tile&)>& body) {
  std::vector<Stmt> parts;
  const int64_t count = ceil_div(s_.x, width_);
  const auto width = [&](int64_t t) { return std::min(width_, s_.x - t * width_); };
  for (int64_t t = 0; t < count;) {
    int64_t end = t;
    while (end < count && width(end) == width_ && inside(end * width_, width_)) ++end;
    if (end > t + 1) {
      const LoopAxis number = fresh("tile", end - t);
      const Expr start = te::simplify((number.expr() + Expr(t)) * Expr(width_));
      parts.push_back(loop(number, body({start, t * width_, width_})));
      t = end;
      continue;
    }
    parts.push_back(body({Expr(t * width_), t * width_, width(t)}));
    ++t;
  }
  return Stmt::seq(std::move(parts));
}

// The channels that are left when whole vectors are taken: shorter vectors, each half as long as the one before.
std::vector<Windows::Piece> Windows::rest() const {
  std::vector<Piece> out;
  const int64_t whole = s_.c / lanes_;
  int64_t start = whole * lanes_;
  for (int64_t lanes = lanes_ / 2; lanes >= 1; lanes /= 2) {
    if (s_.c - start < lanes) continue;
    out.push_back({Expr(start), lanes, start - whole * lanes_, Expr(whole)});
    start += lanes;
  }
  return out;
}

// One row for the vector of channels that is given from outside.
Stmt Windows::strip(const Expr& chunk) {
  const int64_t whole = s_.c / lanes_;
  const auto over = [&](const Piece& piece) {
    return cleared(piece, tiles([&](const Tile& t) { return tile(t, piece); }));
  };
  Stmt body;
  if (whole > 0) body = over({te::simplify(chunk * Expr(lanes_)), lanes_, 0, chunk});
  if (s_.c % lanes_ == 0) return body;
  std::vector<Stmt> others;
  for (const Piece& p : rest()) others.push_back(over(p));
  if (whole == 0) return Stmt::seq(std::move(others));
  return Stmt::branch(chunk < Expr(whole), std::move(body), Stmt::seq(std::move(others)));
}

// One row, all channels of a tile before the next tile: memory is walked through in order.
Stmt Windows::row() {
  const int64_t whole = s_.c / lanes_;
  std::vector<Stmt> all;
  if (total_ >= 0 && whole > 0) {
    const LoopAxis chunk = fresh("chunk", whole);
    all.push_back(loop(chunk, cleared({te::simplify(chunk.expr() * Expr(lanes_)), lanes_, 0, chunk.expr()}, {})));
  }
  for (const Piece& p : rest())
    if (total_ >= 0) all.push_back(cleared(p, {}));
  all.push_back(tiles([&](const Tile& t) {
    std::vector<Stmt> parts;
    if (whole > 0) {
      const LoopAxis chunk = fresh("chunk", whole);
      parts.push_back(loop(chunk, tile(t, {te::simplify(chunk.expr() * Expr(lanes_)), lanes_, 0, chunk.expr()})));
    }
    for (const Piece& p : rest()) parts.push_back(tile(t, p));
    return Stmt::seq(std::move(parts));
  }));
  return Stmt::seq(std::move(all));
}

std::optional<Kernel> Windows::make(std::string name) {
  if (lanes_ < 4 || s_.c < 4) return std::nullopt;
  for (const Piece& p : rest())
    if (!lanes_fit(p.lanes)) return std::nullopt;
  size_t border = 0;
  for (int64_t t = 0; t < ceil_div(s_.x, width_); ++t)
    if (!inside(t * width_, std::min(width_, s_.x - t * width_))) ++border;
  if (border > kMostBorderTiles) return std::nullopt;
  kernel_.function.name = std::move(name);
  accesses_.emplace(scene_, group_, group_.rows, kernel_);
  arguments();
  open_totals();
  const LoopAxis chunk = fresh("chunk", ceil_div(s_.c, lanes_));
  std::vector<LoopAxis> axes;
  for (const te::Axis& a : s_.outer) {
    axes.push_back(fresh(a.name, a.extent.value()));
    outer_[a.id] = axes.back();
  }
  // Channels outermost, within bands, keep the taps at hand; beyond the second cache memory is better walked through in order.
  int64_t bytes = scene_.value(scene_.stage(group_.stages.back()).value).bytes();
  for (const Source& s : s_.sources)
    bytes += s.packed ? 0 : static_cast<int64_t>(size_of(s.type)) * scene_.layout(s.value).span;
  const bool strips = bytes <= scene_.target.l2_bytes * 5 / 8 && lanes_ * 4 == kLine;
  Stmt body = strips ? strip(chunk.expr()) : row();

  int64_t rows = 1;
  for (const LoopAxis& a : axes) rows *= a.extent;
  const double flops =
      static_cast<double>(rows * s_.x * s_.c) * static_cast<double>(s_.taps() * (1 + price(stage_.body->args[0])));
  kernel_.function.body = strips ? as_banded_tasks(std::move(body), chunk, axes, flops, kWindowTasks, next_var_)
                                 : as_tasks(std::move(body), axes, flops, kWindowTasks, next_var_);
  finish(kernel_, scene_, group_, flops);
  return std::move(kernel_);
}

namespace {

// Wide groups, and those that do not go with the vectors, are better off as matrix products.
std::optional<WindowShape> fitting_shape(const Scene& scene, const Group& group) {
  if (group.contraction && (!group.contraction->split || group.contraction->bytes())) return std::nullopt;
  auto shape = window_shape(scene, group);
  if (!shape || !group.contraction) return shape;
  const int64_t lanes = scene.lanes(DType::F32), g = shape->group;
  if (g > kWidestGroup || (g % lanes != 0 && lanes % g != 0)) return std::nullopt;
  return shape;
}

}  // namespace

bool goes_by_windows(const Scene& scene, const Group& group) {
  Group own = group;
  own.prologue = -1;
  return fitting_shape(scene, own).has_value();
}

std::optional<Kernel> window_kernel(const Scene& scene, const Group& group, std::string name, Totals* totals) {
  auto shape = fitting_shape(scene, group);
  if (!shape) return std::nullopt;
  return Windows(scene, group, *std::move(shape), totals).make(std::move(name));
}

}  // namespace isomer::compile
