// Reductions over windows that keep their channels apart or nearly so: depthwise and grouped convolutions, pools. A register
// tile is a few neighbouring positions of one vector of channels. The taps that fall outside are known for the tiles at
// the border when the model is compiled, so that no tile asks; a group that is narrower than a vector is read as one vector
// whose lanes are then spread.
#include <algorithm>
#include <map>

#include "compile/accesses.h"
#include "compile/epilogue.h"
#include "compile/kernel.h"
#include "compile/window_shape.h"
#include "te/scalar.h"
#include "te/simplify.h"
#include "te/substitute.h"

namespace isomer::compile {

using loop::LoopKind;
using loop::Stmt;
using te::Expr;
using te::Kind;

namespace {

using Reduced = WindowShape::Reduced;
using Source = WindowShape::Source;

constexpr size_t kMostBorderTiles = 8;    // beyond, the code is larger than what it saves
constexpr int64_t kMostStatements = 600;  // of one tile
constexpr int64_t kWidestGroup = 32;      // channels of a group
constexpr double kTaskWork = 40000;       // operations that are worth a task of their own
constexpr int64_t kMostTasks = 256;
constexpr int64_t kLine = 64;  // bytes that memory moves at once

class Windows {
 public:
  Windows(const Scene& scene, const Group& group, WindowShape shape, Totals* totals)
      : scene_(scene), group_(group), s_(std::move(shape)), stage_(scene.stage(group.stages[0])), totals_(totals) {
    lanes_ = scene.lanes(DType::F32);
    while (lanes_ > 1 && !lanes_fit(lanes_)) lanes_ /= 2;
    // Enough sums at once to hide the latency of one; more where what is loaded once is used often.
    const bool many = s_.taps() >= 16 && !spreads(lanes_);
    const int64_t most = (many ? 14 : 8) / (scene.target.vector_registers >= 32 ? 1 : 2);
    width_ = ceil_div(s_.x, ceil_div(s_.x, most));
  }

  std::optional<Kernel> make(std::string name);

 private:
  // Channels from `start` on, as many as a vector has or fewer at the end.
  struct Piece {
    Expr start;
    int64_t lanes;
    int64_t offset;  // in its panel
    Expr panel;
  };
  struct Tile {
    Expr start;
    int64_t first, width;  // first: the position of one of its tiles as a number
  };
  using Values = std::map<int, Expr>;
  using Point = std::vector<int64_t>;
  // Vectors that hold several groups, loaded once for a tile: by read and by how far along they lie.
  struct Staged {
    int buffer = -1;
    int64_t span = 0;
    std::map<std::pair<const te::Node*, int64_t>, int64_t> slots;  // looked up, never walked through
  };

  LoopAxis fresh(std::string name, int64_t extent) { return {next_var_++, std::move(name), extent}; }
  static Stmt loop(const LoopAxis& a, Stmt body, LoopKind kind = LoopKind::Serial) {
    return Stmt::loop(a.var, a.name, Expr(a.extent), kind, std::move(body));
  }
  Stmt vector(int64_t lanes, const std::function<Stmt(const Expr&)>& body) {
    if (lanes == 1) return body(Expr(0));
    const LoopAxis lane = fresh("v", lanes);
    return loop(lane, body(lane.expr()), LoopKind::Vector);
  }
  int buffer(const char* name, int64_t elements, loop::Scope scope) {
    kernel_.function.buffers.push_back({name, DType::F32, {elements}, scope, scope != loop::Scope::Argument});
    return static_cast<int>(kernel_.function.buffers.size()) - 1;
  }

  bool lanes_fit(int64_t lanes) const;
  // Whether a vector of so many lanes holds several groups.
  bool spreads(int64_t lanes) const {
    return s_.group < lanes &&
           std::any_of(s_.sources.begin(), s_.sources.end(), [](const Source& s) { return s.spread; });
  }
  bool written_out() const;  // whether deep axes are written out rather than looped over
  void arguments();
  Packing packing(const Source& source) const;
  bool inside(int64_t first, int64_t width) const;
  bool counts(int64_t x, const Point& taps) const;
  Stmt tiles(const std::function<Stmt(const Tile&)>& body);
  std::vector<Piece> rest() const;
  Stmt strip(const Expr& chunk);
  Stmt row();
  Stmt tile(const Tile& t, const Piece& piece);
  int64_t shift(const Source& s, int64_t p, const Point& at) const;
  void set_taps(Values& values, const Tile& t, int64_t p, const Point& at) const;
  Staged stage(const Tile& t, const Piece& piece, Values values, std::vector<Stmt>& parts);
  Stmt updates(const Tile& t, const Piece& piece, int acc, Values values, const Staged* staged);
  Stmt taps(const Tile& t, const Piece& piece, int acc, Values values);
  Stmt results(const Tile& t, const Piece& piece, int acc);
  int channel_of_totals() const;
  void open_totals();
  Expr place_of_total(const Piece& piece, const Expr& lane) const;
  Stmt cleared(const Piece& piece, Stmt body);
  Expr position(const Source& s, const Values& values, const Piece& piece, const Expr& lane, bool base = false) const;
  Expr read(const Source& s, const Values& values, const Piece& piece, const Expr& lane) const;
  static void each_point(const std::vector<Reduced>& axes, const std::function<void(const Point&)>& f);

  const Scene& scene_;
  const Group& group_;
  WindowShape s_;
  const ModelStage& stage_;
  Totals* totals_ = nullptr;
  int total_ = -1;  // the buffer of the sums of lines, where they are wanted
  int64_t lanes_ = 1, width_ = 1;
  Kernel kernel_;
  int next_var_ = 0;
  std::optional<Accesses> accesses_;
  std::map<int, LoopAxis> outer_;  // loop variables of the axes outside of a tile
};

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

bool Windows::written_out() const {
  int64_t points = width_;
  for (const auto* list : {&s_.across, &s_.deep})
    for (const Reduced& r : *list) points *= r.extent;
  return points <= kMostStatements;
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
        it->second = buffer("input", scene_.layout(s.value).span, loop::Scope::Argument);
        kernel_.arguments.push_back({s.value, std::nullopt});
      }
      s.buffer = it->second;
      continue;
    }
    Packing p = packing(s);
    s.buffer = buffer("taps", p.elements(), loop::Scope::Argument);
    kernel_.arguments.push_back({s.value, std::move(p)});
  }
}

bool Windows::counts(int64_t x, const Point& taps) const {
  return std::all_of(s_.fixed.begin(), s_.fixed.end(), [&](const loop::Affine& g) {
    int64_t sum = g.constant + g.coefficient(s_.along) * x;
    for (size_t i = 0; i < taps.size(); ++i) sum += g.coefficient(s_.across[i].id) * taps[i];
    return sum >= 0;
  });
}

bool Windows::inside(int64_t first, int64_t width) const {
  bool all = true;
  for (int64_t p = 0; p < width; ++p)
    each_point(s_.across, [&](const Point& at) { all = all && counts(first + p, at); });
  return all;
}

// `base`: without the part that lanes of one vector share out among themselves.
Expr Windows::position(const Source& s, const Values& values, const Piece& piece, const Expr& lane, bool base) const {
  Expr at(s.at.constant);
  for (const auto& [id, by] : s.at.terms) {
    if (id == kGroupAxis) {
      at = at + te::floor_div(piece.start, Expr(s_.group)) * Expr(by);
      if (!base && s_.group < piece.lanes) at = at + te::floor_div(lane, Expr(s_.group)) * Expr(by);
    } else if (id == kInGroupAxis) {
      at = at + (s_.group < piece.lanes ? te::floor_mod(lane, Expr(s_.group))
                                        : te::floor_mod(piece.start, Expr(s_.group)) + lane) *
                    Expr(by);
    } else if (id == s_.channels) {
      at = at + (piece.start + lane) * Expr(by);
    } else {
      at = at + values.at(id) * Expr(by);
    }
  }
  return te::simplify(base ? at + lane : at);
}

Expr Windows::read(const Source& s, const Values& values, const Piece& piece, const Expr& lane) const {
  if (!s.packed) {
    if (s_.group > 0 && !s.spread && s.at.of(kInGroupAxis) == 1) {  // runs together with the channels
      Source plain = s;
      plain.at.terms.erase(kGroupAxis);
      plain.at.terms.erase(kInGroupAxis);
      plain.at.terms[s_.channels] = 1;
      return Expr::read(s.buffer, DType::F32, {position(plain, values, piece, lane)});
    }
    return Expr::read(s.buffer, DType::F32, {position(s, values, piece, lane)});
  }
  Expr depth(0);
  int64_t points = 1;
  for (const auto* list : {&s_.guarded, &s_.deep, &s_.across})
    for (const Reduced& r : *list) {
      depth = depth * Expr(r.extent) + values.at(r.id);
      points *= r.extent;
    }
  const Expr at = (piece.panel * Expr(points) + depth) * Expr(lanes_) + Expr(piece.offset) + lane;
  return Expr::read(s.buffer, DType::F32, {te::simplify(at)});
}

int64_t Windows::shift(const Source& s, int64_t p, const Point& at) const {
  int64_t sum = s.at.of(s_.along) * p;
  for (size_t i = 0; i < at.size(); ++i) sum += s.at.of(s_.across[i].id) * at[i];
  return sum;
}

void Windows::set_taps(Values& values, const Tile& t, int64_t p, const Point& at) const {
  values[s_.along] = t.start + Expr(p);
  for (size_t i = 0; i < at.size(); ++i) values[s_.across[i].id] = Expr(at[i]);
}

// Loads every vector that holds several groups once.
Windows::Staged Windows::stage(const Tile& t, const Piece& piece, Values values, std::vector<Stmt>& parts) {
  Staged out;
  out.span = piece.lanes;
  const auto held = [&](const Source& s) { return s.at.of(kGroupAxis) * (piece.lanes / s_.group); };
  for (const Source& s : s_.sources)
    if (s.spread) out.span = std::max(out.span, held(s));
  for (const Reduced& r : s_.deep) values[r.id] = Expr(0);
  struct Load {
    const Source* source;
    Values values;
  };
  std::vector<Load> loads;
  for (const Source& s : s_.sources) {
    if (!s.spread) continue;
    for (int64_t p = 0; p < t.width; ++p)
      each_point(s_.across, [&](const Point& at) {
        if (!counts(t.first + p, at)) return;
        if (!out.slots.try_emplace({s.node, shift(s, p, at)}, static_cast<int64_t>(loads.size())).second) return;
        set_taps(values, t, p, at);
        loads.push_back({&s, values});
      });
  }
  if (loads.empty()) return out;
  out.buffer = buffer("staged", static_cast<int64_t>(loads.size()) * out.span, loop::Scope::Local);
  for (size_t i = 0; i < loads.size(); ++i)
    parts.push_back(vector(held(*loads[i].source), [&](const Expr& lane) {
      const Expr from = position(*loads[i].source, loads[i].values, piece, lane, true);
      return Stmt::store(out.buffer, {Expr(static_cast<int64_t>(i) * out.span) + lane},
                         Expr::read(loads[i].source->buffer, DType::F32, {from}));
    }));
  return out;
}

// One update of every accumulator of the tile for every tap along it.
Stmt Windows::updates(const Tile& t, const Piece& piece, int acc, Values values, const Staged* staged) {
  std::vector<Stmt> stores;
  each_point(s_.across, [&](const Point& at) {
    for (int64_t p = 0; p < t.width; ++p) {
      if (!counts(t.first + p, at)) continue;
      set_taps(values, t, p, at);
      stores.push_back(vector(piece.lanes, [&](const Expr& lane) {
        te::Substitution names;
        for (const auto& [id, e] : values) names.var(id, e);
        names.var(s_.channels, piece.start + lane);
        names.reads([&](const te::Node& n, const std::vector<Expr>&) {
          const Source& s =
              *std::find_if(s_.sources.begin(), s_.sources.end(), [&](const Source& x) { return x.node == &n; });
          if (!staged || !s.spread) return read(s, values, piece, lane);
          Expr in = te::floor_div(lane, Expr(s_.group)) * Expr(s.at.of(kGroupAxis));
          for (const Reduced& r : s_.deep) in = in + values.at(r.id) * Expr(s.at.of(r.id));
          const int64_t slot = staged->slots.at({s.node, shift(s, p, at)});
          return Expr::read(staged->buffer, DType::F32, {te::simplify(Expr(slot * staged->span) + in)});
        });
        return Stmt::store(acc, {Expr(p * lanes_) + lane}, names(stage_.body->args[0]), stage_.body->combiner);
      }));
    }
  });
  return Stmt::seq(std::move(stores));
}

// All taps of one tile that stand under the guards of the loops around: accumulators stay in registers.
Stmt Windows::taps(const Tile& t, const Piece& piece, int acc, Values values) {
  std::vector<Stmt> parts;
  std::optional<Staged> staged;
  if (spreads(piece.lanes)) staged = stage(t, piece, values, parts);
  if (staged || written_out()) {
    each_point(s_.deep, [&](const Point& at) {
      for (size_t i = 0; i < at.size(); ++i) values[s_.deep[i].id] = Expr(at[i]);
      parts.push_back(updates(t, piece, acc, values, staged ? &*staged : nullptr));
    });
    return Stmt::seq(std::move(parts));
  }
  std::vector<LoopAxis> axes;
  for (const Reduced& r : s_.deep) {
    axes.push_back(fresh("k", r.extent));
    values[r.id] = axes.back().expr();
  }
  Stmt body = updates(t, piece, acc, values, nullptr);
  for (size_t i = axes.size(); i-- > 0;) body = loop(axes[i], std::move(body));
  return body;
}

Stmt Windows::results(const Tile& t, const Piece& piece, int acc) {
  const LoopAxis place = fresh("place", t.width), lane = fresh("v", piece.lanes);
  const Expr at = place.expr() * Expr(lanes_) + lane.expr();
  const Epilogue e = epilogue_of(scene_, group_, *accesses_, acc, at, {place.axis(), lane.axis()}, next_var_);
  std::vector<Stmt> parts;
  for (int64_t p = 0; p < t.width; ++p) {
    te::Substitution names;
    const auto set = [&](int axis, const Expr& value) {
      if (const auto it = e.axes.find(axis); it != e.axes.end()) names.var(it->second.var, value);
    };
    for (const auto& [id, axis] : outer_) set(id, axis.expr());
    set(s_.along, t.start + Expr(p));
    set(s_.channels, piece.lanes == 1 ? piece.start : piece.start + lane.expr());
    names.var(place.var, Expr(p));
    if (piece.lanes == 1) names.var(lane.var, Expr(0));
    const Expr address = te::simplify(names(e.address)), body = te::simplify(names(e.body));
    const auto each = [&](Stmt store) {
      parts.push_back(piece.lanes == 1 ? std::move(store) : loop(lane, std::move(store), LoopKind::Vector));
    };
    if (total_ < 0) {
      each(Stmt::store(e.buffer, {address}, body));
      continue;
    }
    const Expr own = Expr(p * lanes_) + (piece.lanes == 1 ? Expr(0) : lane.expr());
    each(Stmt::store(acc, {own}, body));
    each(Stmt::store(e.buffer, {address}, Expr::read(acc, DType::F32, {own})));
  }
  if (total_ >= 0) {
    parts.push_back(vector(piece.lanes, [&](const Expr& v) {
      Expr sum = Expr::read(acc, DType::F32, {v});
      for (int64_t p = 1; p < t.width; ++p) sum = sum + Expr::read(acc, DType::F32, {Expr(p * lanes_) + v});
      return Stmt::store(total_, {place_of_total(piece, v)}, sum, te::Combiner::Sum);
    }));
  }
  return Stmt::seq(std::move(parts));
}

// The axis of the stage of totals that runs along the channels, when it sums over all others; -1 when it is not so.
int Windows::channel_of_totals() const {
  const ModelStage &sum = scene_.stage(totals_->stage), &last = scene_.stage(group_.stages.back());
  const std::vector<Expr> reads = reads_of(sum.body, last.value);
  if (reads.size() != 1 || sum.body->combiner != te::Combiner::Sum || sum.body->args[0]->kind != Kind::Read) return -1;
  if (sum.body->args[1]->kind != Kind::Int || sum.body->args[1]->integer == 0 || sum.body->dtype != DType::F32)
    return -1;
  int64_t summed = 1;
  for (const te::Axis& a : sum.body->axes) summed *= a.extent.value();
  if (summed * s_.c != scene_.value(last.value).elements() || scene_.value(sum.value).elements() != s_.c) return -1;
  const std::vector<int>& rows = group_.rows.back();
  for (size_t d = 0; d < last.axes.size(); ++d) {
    const auto row = std::find(rows.begin(), rows.end(), last.axes[d].id);
    if (row == rows.end() || group_.rows[0][static_cast<size_t>(row - rows.begin())] != s_.channels) continue;
    const auto id = plain_var(reads[0]->args[d]);
    for (const te::Axis& a : sum.axes)
      if (id == a.id && a.extent.value() == s_.c) return a.id;
  }
  return -1;
}

void Windows::open_totals() {
  if (!totals_ || (totals_->channel = channel_of_totals()) < 0) return;
  totals_->lines = 1;
  for (const te::Axis& a : s_.outer) totals_->lines *= a.extent.value();
  totals_->channels = s_.c;
  totals_->value = scene_.temporary(DType::F32, totals_->lines * s_.c);
  total_ = buffer("totals", totals_->lines * s_.c, loop::Scope::Argument);
  kernel_.function.buffers.back().written = true;
  kernel_.arguments.push_back({totals_->value, std::nullopt});
}

Expr Windows::place_of_total(const Piece& piece, const Expr& lane) const {
  Expr line(0);
  for (const te::Axis& a : s_.outer) line = line * Expr(a.extent.value()) + outer_.at(a.id).expr();
  return te::simplify(line * Expr(s_.c) + piece.start + lane);
}

// The tiles of one line, after the sums of these channels are set to nothing.
Stmt Windows::cleared(const Piece& piece, Stmt body) {
  if (total_ < 0) return body;
  Stmt clear = vector(piece.lanes, [&](const Expr& lane) {
    return Stmt::store(total_, {place_of_total(piece, lane)}, Expr::real(DType::F32, 0));
  });
  return body.empty() ? clear : Stmt::seq({std::move(clear), std::move(body)});
}

Stmt Windows::tile(const Tile& t, const Piece& piece) {
  const int acc = buffer("acc", width_ * lanes_, loop::Scope::Local);
  const te::Combiner c = stage_.body->combiner;
  std::vector<Stmt> parts;
  for (int64_t p = 0; p < t.width; ++p)
    parts.push_back(vector(piece.lanes, [&](const Expr& lane) {
      return Stmt::store(acc, {Expr(p * lanes_) + lane}, Expr::real(DType::F32, te::real_identity(c)));
    }));
  Values values;
  for (const auto& [id, axis] : outer_) values[id] = axis.expr();
  for (const int id : s_.single) values[id] = Expr(0);
  std::vector<LoopAxis> axes;
  for (const Reduced& r : s_.guarded) {
    axes.push_back(fresh("k", r.extent));
    values[r.id] = axes.back().expr();
  }
  Stmt body = taps(t, piece, acc, values);
  Expr guard;
  for (const loop::Affine& g : s_.asked) {
    te::Substitution names;
    for (const auto& [id, e] : values) names.var(id, e);
    const Expr one = names(loop::condition_of(g));
    guard = guard.empty() ? one : guard && one;
  }
  if (!guard.empty()) body = Stmt::branch(te::simplify(guard), std::move(body));
  for (size_t i = axes.size(); i-- > 0;) body = loop(axes[i], std::move(body));
  parts.push_back(std::move(body));
  parts.push_back(results(t, piece, acc));
  return Stmt::seq(std::move(parts));
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
  // Channels outermost keep the taps at hand; beyond the second cache memory is better walked through in order.
  int64_t bytes = 4 * scene_.value(scene_.stage(group_.stages.back()).value).elements();
  for (const Source& s : s_.sources) bytes += s.packed ? 0 : 4 * scene_.layout(s.value).span;
  const bool strips = bytes <= scene_.target.l2_bytes * 5 / 8 && lanes_ * 4 == kLine;
  if (strips) axes.insert(axes.begin(), chunk);
  Stmt body = strips ? strip(chunk.expr()) : row();

  int64_t rows = 1;
  for (const LoopAxis& a : axes) rows *= a.extent;
  const int64_t elements = (strips ? rows / chunk.extent : rows) * s_.x * s_.c;
  kernel_.flops = static_cast<double>(elements) * static_cast<double>(s_.taps() * (1 + price(stage_.body->args[0])));
  for (const loop::Buffer& b : kernel_.function.buffers)
    if (b.scope == loop::Scope::Argument) kernel_.bytes += 4.0 * static_cast<double>(b.elements());
  const int64_t wanted =
      std::clamp<int64_t>(static_cast<int64_t>(kernel_.flops / kTaskWork), 1, std::min(kMostTasks, rows));
  const int64_t each = ceil_div(rows, wanted), made = ceil_div(rows, each);
  const LoopAxis task = fresh("task", made), one = fresh("row", each);
  te::Substitution names;
  unflatten_into(names, axes, task.expr() * Expr(each) + one.expr());
  body = substitute(body, names);
  const Expr length = rows % each == 0 ? Expr(each) : te::min(Expr(each), Expr(rows) - task.expr() * Expr(each));
  body = Stmt::loop(one.var, one.name, length, LoopKind::Serial, std::move(body));
  kernel_.function.body =
      Stmt::loop(task.var, task.name, Expr(made), made > 1 ? LoopKind::Parallel : LoopKind::Serial, std::move(body));
  for (const int s : group_.stages)
    for (const std::string& o : scene_.stage(s).origin)
      if (std::find(kernel_.function.origin.begin(), kernel_.function.origin.end(), o) == kernel_.function.origin.end())
        kernel_.function.origin.push_back(o);
  arguments_first(kernel_.function);
  return std::move(kernel_);
}

}  // namespace

std::optional<Kernel> window_kernel(const Scene& scene, const Group& group, std::string name, Totals* totals) {
  if (group.contraction && !group.contraction->split) return std::nullopt;
  auto shape = window_shape(scene, group);
  if (!shape) return std::nullopt;
  // Wide groups, and those that do not go with the vectors, are better off as matrix products.
  const int64_t lanes = scene.lanes(DType::F32), g = shape->group;
  if (group.contraction && (g > kWidestGroup || (g % lanes != 0 && lanes % g != 0))) return std::nullopt;
  return Windows(scene, group, *std::move(shape), totals).make(std::move(name));
}

}  // namespace isomer::compile
