// One tile of a window's kernel: what it loads, how its sums are updated, what becomes of them.
#include <algorithm>

#include "compile/epilogue.h"
#include "compile/windows.h"
#include "te/scalar.h"
#include "te/simplify.h"
#include "te/substitute.h"

namespace isomer::compile {

using loop::LoopKind;
using loop::Stmt;
using te::Expr;

using te::Kind;

namespace {

constexpr int64_t kMostWritten = 200;  // more are not kept decoded, and instructions of ten bytes come too slowly then

}  // namespace

bool Windows::written_out() const {
  int64_t points = width_;
  for (const auto* list : {&s_.across, &s_.deep})
    for (const Reduced& r : *list) points *= r.extent;
  return points <= kMostWritten;
}

bool Windows::counts(int64_t x, const Point& taps) const {
  return std::all_of(s_.fixed.begin(), s_.fixed.end(), [&](const loop::Affine& g) {
    int64_t sum = g.constant + g.coefficient(s_.along) * x;
    for (size_t i = 0; i < taps.size(); ++i) sum += g.coefficient(s_.across[i].id) * taps[i];
    return sum >= 0;
  });
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

// Where in its buffer the source lies.
Expr Windows::address(const Source& s, const Values& values, const Piece& piece, const Expr& lane) const {
  if (!s.packed) {
    if (s_.group > 0 && !s.spread && s.at.of(kInGroupAxis) == 1) {  // runs together with the channels
      Source plain = s;
      plain.at.terms.erase(kGroupAxis);
      plain.at.terms.erase(kInGroupAxis);
      plain.at.terms[s_.channels] = 1;
      return position(plain, values, piece, lane);
    }
    return position(s, values, piece, lane);
  }
  Expr depth(0);
  int64_t points = 1;
  for (const auto* list : {&s_.guarded, &s_.deep, &s_.across})
    for (const Reduced& r : *list) {
      depth = depth * Expr(r.extent) + values.at(r.id);
      points *= r.extent;
    }
  return te::simplify((piece.panel * Expr(points) + depth) * Expr(lanes_) + Expr(piece.offset) + lane);
}

// How far from its address for the first place and tap of a tile.
int64_t Windows::shift(const Source& s, int64_t p, const Point& at) const {
  if (s.packed) {
    int64_t depth = 0;
    for (size_t i = 0; i < at.size(); ++i) depth = depth * s_.across[i].extent + at[i];
    return depth * lanes_;
  }
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
    if (s.spread) out.span = std::max(out.span, held(s)), out.type = s.type;
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
  out.buffer = buffer("staged", static_cast<int64_t>(loads.size()) * out.span, loop::Scope::Local, out.type);
  for (size_t i = 0; i < loads.size(); ++i)
    parts.push_back(vector(held(*loads[i].source), [&](const Expr& lane) {
      const Expr from = position(*loads[i].source, loads[i].values, piece, lane, true);
      return Stmt::store(out.buffer, {Expr(static_cast<int64_t>(i) * out.span) + lane},
                         Expr::read(loads[i].source->buffer, out.type, {from}));
    }));
  return out;
}

// One update of every accumulator of the tile for every tap along it.
Stmt Windows::updates(const Tile& t, const Piece& piece, int acc, Values values, const Staged* staged) {
  std::vector<Stmt> stores;
  const LoopAxis v = fresh("v", piece.lanes);
  const Expr lane = v.extent == 1 ? Expr(0) : v.expr();
  set_taps(values, t, 0, Point(s_.across.size(), 0));
  std::map<const te::Node*, std::pair<const Source*, Expr>> sources;  // with their first addresses
  for (const Source& s : s_.sources) {
    Expr first;
    if (staged && s.spread) {
      first = te::floor_div(lane, Expr(s_.group)) * Expr(s.at.of(kGroupAxis));
      for (const Reduced& r : s_.deep) first = first + values.at(r.id) * Expr(s.at.of(r.id));
      first = te::simplify(first);
    } else {
      first = address(s, values, piece, lane);
    }
    sources.try_emplace(s.node, &s, first);
  }
  each_point(s_.across, [&](const Point& at) {
    for (int64_t p = 0; p < t.width; ++p) {
      if (!counts(t.first + p, at)) continue;
      set_taps(values, t, p, at);
      te::Substitution names;
      for (const auto& [id, e] : values) names.var(id, e);
      names.var(s_.channels, piece.start + lane);
      names.reads([&](const te::Node& n, const std::vector<Expr>&) {
        const auto& [s, first] = sources.at(&n);
        const int64_t by = shift(*s, p, at);
        if (!staged || !s->spread) return Expr::read(s->buffer, s->type, {te::moved(first, by)});
        return Expr::read(staged->buffer, staged->type,
                          {te::moved(first, staged->slots.at({s->node, by}) * staged->span)});
      });
      stores.push_back(each_lane(
          v, Stmt::store(acc, {Expr(p * lanes_) + lane}, names(stage_.body->args[0]), stage_.body->combiner)));
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
    const auto each = [&](Stmt store) { parts.push_back(each_lane(lane, std::move(store))); };
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
  if (!totals_ || scene_.value(scene_.stage(group_.stages.back()).value).dtype != DType::F32) return;
  if ((totals_->channel = channel_of_totals()) < 0) return;
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

}  // namespace isomer::compile
