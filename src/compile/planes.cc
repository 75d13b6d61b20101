// Reductions over windows where neighbouring positions lie together in memory and channels do not: depthwise and grouped
// convolutions and pools between row-major values, as a model's inputs and outputs are. A task copies the planes that one
// group of channels reads into its scratch memory with the border filled, so that nothing is asked while it computes;
// a register tile is one vector of positions on several neighbouring lines. Convolutions with few outputs go the same way, in
// bands of lines that fit in the second cache and with several outputs to a tile; where their input has channels together, the copy
// takes them apart.
#include <algorithm>
#include <map>

#include "compile/accesses.h"
#include "compile/epilogue.h"
#include "compile/finish.h"
#include "compile/kernel_writer.h"
#include "compile/plane_shape.h"
#include "te/scalar.h"
#include "te/simplify.h"
#include "te/substitute.h"

namespace isomer::compile {

using loop::LoopKind;
using loop::Stmt;
using te::Expr;
using te::Kind;

namespace {

constexpr int64_t kMostSharing = 32;  // channels that share planes; more are better off as a matrix product
constexpr int64_t kLines = 8;         // of a tile,
constexpr int64_t kSums = 24;         // of all its outputs together,
constexpr int64_t kOutputs = 4;       // and so many of these at most
constexpr int64_t kMostPlaneBands = 16;

class Planes : KernelWriter {
 public:
  Planes(const Scene& scene, const Group& group, PlaneShape shape)
      : scene_(scene), group_(group), s_(std::move(shape)), stage_(scene.stage(group.stages[0])) {
    lanes_ = scene.lanes(DType::F32);
    while (lanes_ > 4 && s_.x.extent() <= lanes_ / 2) lanes_ /= 2;
    if (s_.thin) outputs_ = ceil_div(s_.shared, ceil_div(s_.shared, kOutputs));
    lines_ = ceil_div(s_.y.extent(), ceil_div(s_.y.extent(), std::min(kLines, kSums / outputs_)));
    pitch_ = ceil_div(s_.x.span, s_.x.step);
    band_ = s_.y.extent();
    if (s_.thin) cut_bands();
    span_ = s_.y.span - s_.y.step * (s_.y.extent() - band_);
    plane_ = span_ * s_.x.step * pitch_;
  }

  std::optional<Kernel> make(std::string name);

 private:
  using Values = std::map<int, Expr>;

  // Where a tile stands: its first line in the copied planes and in the result, its first place on them, and its outputs from
  // those that `values` name on.
  struct Tile {
    Values values;
    Expr in_band, first_line;
    int64_t lines;
    Expr start;
    bool whole;
    int64_t outputs = 1;
  };

  using Tap = std::pair<te::Axis, int64_t>;  // and how far it moves
  struct Update {
    int64_t x, y, line;  // how far the read lies from the tile's origin, and the line of the sum
    std::vector<int64_t> at;
  };

  void cut_bands();
  // All of `count` elements in a row, by vectors: `body` is given where one of them starts. `around` is put round each vector.
  Stmt run(
      int64_t count, const std::function<Stmt(const Expr&)>& body,
      const std::function<Stmt(Stmt)>& around = [](Stmt s) { return s; });
  Stmt fill(const Expr& start, int64_t count);
  Stmt line(const Expr& from, const Expr& to, const std::function<Stmt(Stmt)>& around);
  Stmt copy(const Values& values, const Expr& band);
  Stmt tile(const Tile& t);
  std::vector<Update> list_updates(int64_t lines, const std::vector<Tap>& taps, size_t down, int64_t start) const;
  Stmt updates(const Tile& t, int acc);
  Stmt results(const Tile& t, int acc);
  Stmt tiles(const Values& values, const Expr& band);
  Values of_output(const Tile& t, int64_t output) const;
  Expr place(const Expr& e, const Values& values) const;

  const Scene& scene_;
  const Group& group_;
  PlaneShape s_;
  const ModelStage& stage_;
  int64_t lanes_ = 1, lines_ = 1, outputs_ = 1;
  int64_t band_ = 1, span_ = 1;    // lines of the result that one task computes, and of a plane that they read
  int64_t pitch_ = 0, plane_ = 0;  // elements of a line of one phase, and of a plane, in scratch
  int scratch_ = -1;
  std::map<int, int> arguments_;  // by value
  std::optional<Accesses> accesses_;
};

// The position in memory of a read, its axes replaced.
Expr Planes::place(const Expr& e, const Values& values) const {
  te::Substitution names;
  for (const auto& [id, v] : values) names.var(id, v);
  const Layout& layout = scene_.layout(e->tensor);
  Expr at(0);
  for (size_t d = 0; d < e->args.size(); ++d) at = at + names(e->args[d]) * Expr(layout.strides[d]);
  return te::simplify(at);
}

// Bands enough for all workers, as many lines in each as the second cache lets planes have.
void Planes::cut_bands() {
  const int64_t reach = s_.y.span - s_.y.step * (s_.y.extent() - 1), tiles = ceil_div(s_.y.extent(), lines_);
  const int64_t line_bytes = 4 * s_.planes() * s_.x.step * pitch_;
  const auto fits = [&](int64_t n) {
    return (s_.y.step * (n * lines_ - 1) + reach) * line_bytes <= scene_.target.l2_bytes / 2;
  };
  int64_t each = std::clamp<int64_t>(std::max(tiles / kMostPlaneBands, reach / (2 * lines_ * s_.y.step)), 1, tiles);
  while (each > 1 && !fits(each)) --each;
  band_ = std::min(each * lines_, s_.y.extent());
}

Stmt Planes::run(int64_t count, const std::function<Stmt(const Expr&)>& body, const std::function<Stmt(Stmt)>& around) {
  std::vector<Stmt> parts;
  const int64_t lanes = scene_.lanes(DType::F32), whole = count / lanes;
  if (whole > 0) {
    const LoopAxis block = fresh("block", whole);
    parts.push_back(
        loop(block, around(vector(lanes, [&](const Expr& lane) { return body(block.expr() * Expr(lanes) + lane); }))));
  }
  int64_t done = whole * lanes;
  for (int64_t width = lanes / 2; width >= 1; width /= 2) {
    if (count - done < width) continue;
    parts.push_back(around(vector(width, [&](const Expr& lane) { return body(Expr(done) + lane); })));
    done += width;
  }
  return Stmt::seq(std::move(parts));
}

Stmt Planes::fill(const Expr& start, int64_t count) {
  return run(count,
             [&](const Expr& at) { return Stmt::store(scratch_, {start + at}, Expr::real(DType::F32, s_.outside)); });
}

// One line of a plane: the elements of each phase of the step lie together.
Stmt Planes::line(const Expr& from, const Expr& to, const std::function<Stmt(Stmt)>& around) {
  std::vector<Stmt> parts;
  const Along& x = s_.x;
  const int buffer = arguments_.at(s_.read->tensor);
  for (int64_t phase = 0; phase < x.step; ++phase) {
    const Expr start = to + Expr(phase * pitch_);
    // Element i stands at first + phase + i * step of the line.
    const int64_t origin = x.first + phase;
    const int64_t begin = std::clamp<int64_t>(origin < 0 ? ceil_div(-origin, x.step) : 0, 0, pitch_);
    const int64_t end = std::clamp<int64_t>(origin < x.size ? ceil_div(x.size - origin, x.step) : 0, begin, pitch_);
    if (begin > 0) parts.push_back(around(fill(start, begin)));
    if (end > begin)
      parts.push_back(run(
          end - begin,
          [&](const Expr& at) {
            const Expr source = from + Expr((origin + begin * x.step) * s_.across) + at * Expr(x.step * s_.across);
            te::Substitution names;
            names.reads(
                [&](const te::Node& n, const std::vector<Expr>&) { return Expr::read(buffer, n.dtype, {source}); });
            return Stmt::store(scratch_, {start + Expr(begin) + at}, names(s_.copied));
          },
          around));
    if (end < pitch_) parts.push_back(around(fill(start + Expr(end), pitch_ - end)));
  }
  return Stmt::seq(std::move(parts));
}

// Everything that one group of channels reads, for one band of the result.
Stmt Planes::copy(const Values& outer, const Expr& band) {
  const Along& y = s_.y;
  const int64_t length = s_.x.step * pitch_;
  Values values = outer;
  std::vector<LoopAxis> axes;
  Expr number(0);
  for (const te::Axis& a : s_.deep) {
    axes.push_back(fresh(a.name, a.extent.value()));
    values[a.id] = axes.back().expr();
    number = number * Expr(a.extent.value()) + axes.back().expr();
  }
  // The plane's own first element: all that moves inside of it is zero, and `first` and `start` are taken off.
  for (const Along* a : {&s_.x, &s_.y}) {
    values[a->axis.id] = Expr(0);
    for (const auto& t : a->taps) values[t.first.id] = Expr(0);
  }
  const int64_t stride = scene_.layout(s_.read->tensor).strides[s_.read->args.size() - 2];
  const Expr read = Expr::make(te::Node(*s_.read));
  const Expr base = te::simplify(place(read, values) - Expr((s_.x.first + s_.x.start) * s_.across) -
                                 Expr((y.first + y.start) * stride));
  const Expr start = te::simplify(number * Expr(plane_));
  const auto planes = [&](Stmt s) {
    for (size_t i = axes.size(); i-- > 0;) s = loop(axes[i], std::move(s));
    return s;
  };
  const auto same = [](Stmt s) { return s; };
  const bool apart = s_.across != 1;  // then a few places of all planes at a time
  const auto of_line = [&](const Expr& in_plane, const Expr& in_scratch) {
    const Expr from = base + in_plane * Expr(stride), to = start + in_scratch * Expr(length);
    return apart ? line(from, to, planes) : line(from, to, same);
  };
  std::vector<Stmt> parts;
  if (band_ < y.extent()) {
    const LoopAxis row = fresh("line", span_);
    const Expr at = band * Expr(band_ * y.step) + row.expr() + Expr(y.first);
    Stmt empty = fill(start + row.expr() * Expr(length), length);
    parts.push_back(loop(row, Stmt::branch(Expr(0) <= at && at < Expr(y.size), of_line(at, row.expr()),
                                           apart ? planes(std::move(empty)) : std::move(empty))));
  } else {
    const int64_t begin = std::clamp<int64_t>(-y.first, 0, y.span);
    const int64_t end = std::clamp<int64_t>(y.size - y.first, begin, y.span);
    const auto border = [&](int64_t from, int64_t until) {
      Stmt s = fill(start + Expr(from * length), (until - from) * length);
      return apart ? planes(std::move(s)) : s;
    };
    if (begin > 0) parts.push_back(border(0, begin));
    if (end > begin) {
      const LoopAxis row = fresh("line", end - begin);
      parts.push_back(loop(row, of_line(row.expr() + Expr(begin + y.first), row.expr() + Expr(begin))));
    }
    if (end < y.span) parts.push_back(border(end, y.span));
  }
  Stmt body = Stmt::seq(std::move(parts));
  if (!apart) body = planes(std::move(body));
  // The last vector of the last line may reach beyond it.
  return Stmt::seq({std::move(body), fill(Expr(s_.planes() * plane_), lanes_)});
}

Planes::Values Planes::of_output(const Tile& t, int64_t output) const {
  Values values = t.values;
  if (output > 0) values[s_.channel] = te::simplify(values.at(s_.channel) + Expr(output));
  return values;
}

// For every line and every tap that is written out, those down the plane first, in the order of the places that are read.
std::vector<Planes::Update> Planes::list_updates(int64_t lines, const std::vector<Tap>& taps, size_t down,
                                                 int64_t start) const {
  std::vector<Update> list;
  std::vector<int64_t> at(taps.size(), 0);
  while (true) {
    Update u{s_.x.start, start, 0, at};
    for (size_t i = 0; i < taps.size(); ++i) (i < down ? u.y : u.x) += at[i] * taps[i].second;
    for (u.line = 0; u.line < lines; ++u.line) list.push_back(u), list.back().y += u.line * s_.y.step;
    size_t d = taps.size();
    while (d > 0 && ++at[d - 1] == taps[d - 1].first.extent.value()) at[--d] = 0;
    if (d == 0) break;
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const Update& a, const Update& b) { return std::pair(a.x, a.y) < std::pair(b.x, b.y); });
  return list;
}

// One update of every sum for every tap.
Stmt Planes::updates(const Tile& t, int acc) {
  Values values;
  std::vector<LoopAxis> axes;
  Expr plane(0);
  for (const te::Axis& a : s_.deep) {
    axes.push_back(fresh("k", a.extent.value()));
    values[a.id] = axes.back().expr();
    plane = plane * Expr(a.extent.value()) + axes.back().expr();
  }
  // Taps that are too many to be written out are loops; those along the lines first.
  const bool all = t.outputs * t.lines * s_.x.points() * s_.y.points() <= kMostStatements;
  std::vector<Tap> out;  // written out
  Expr loops_y(all ? 0 : s_.y.start);
  for (const auto& tap : s_.y.taps) {
    if (all) {
      out.push_back(tap);
      continue;
    }
    axes.push_back(fresh("k", tap.first.extent.value()));
    values[tap.first.id] = axes.back().expr();
    loops_y = loops_y + axes.back().expr() * Expr(tap.second);
  }
  const size_t down = out.size();
  out.insert(out.end(), s_.x.taps.begin(), s_.x.taps.end());
  const std::vector<Update> list = list_updates(t.lines, out, down, all ? s_.y.start : 0);
  std::vector<Stmt> stores;
  const int64_t length = s_.x.step * pitch_;
  const LoopAxis lanes = fresh("v", lanes_);
  const Expr lane = lanes_ == 1 ? Expr(0) : lanes.expr();
  // Updates differ by numbers, and the lines of a tap share what they multiply with: each is simplified once.
  const Expr origin =
      te::simplify(plane * Expr(plane_) + (t.in_band * Expr(s_.y.step) + loops_y) * Expr(length) + t.start + lane);
  std::map<std::pair<std::vector<int64_t>, int64_t>, Expr> factors;  // by place of the tap and output
  const auto factor = [&](const Update& u, int64_t output) {
    Expr& known = factors[{u.at, output}];
    if (!known.empty()) return known;
    Values own = of_output(t, output);
    own.insert(values.begin(), values.end());
    for (size_t i = 0; i < out.size(); ++i) own[out[i].first.id] = Expr(u.at[i]);
    return known = Expr::read(arguments_.at(s_.tap->tensor), DType::F32, {place(s_.tap, own)});
  };
  for (const Update& u : list) {
    const Expr from = te::moved(origin, u.y * length + u.x % s_.x.step * pitch_ + u.x / s_.x.step);
    for (int64_t o = 0; o < t.outputs; ++o) {
      Expr value = Expr::read(scratch_, DType::F32, {from});
      if (!s_.tap.empty()) value = value * factor(u, o);
      stores.push_back(each_lane(
          lanes, Stmt::store(acc, {Expr((o * lines_ + u.line) * lanes_) + lane}, value, stage_.body->combiner)));
    }
  }
  Stmt body = Stmt::seq(std::move(stores));
  for (size_t i = axes.size(); i-- > 0;) body = loop(axes[i], std::move(body));
  return body;
}

Stmt Planes::results(const Tile& t, int acc) {
  const LoopAxis line = fresh("line", t.outputs * lines_), lane = fresh("v", lanes_);
  const Expr at = line.expr() * Expr(lanes_) + lane.expr();
  const Epilogue e = epilogue_of(scene_, group_, *accesses_, acc, at, {line.axis(), lane.axis()}, next_var_);
  std::vector<Stmt> parts;
  for (int64_t o = 0; o < t.outputs; ++o)
    for (int64_t p = 0; p < t.lines; ++p) {
      te::Substitution names;
      const auto set = [&](int axis, const Expr& value) {
        if (const auto it = e.axes.find(axis); it != e.axes.end()) names.var(it->second.var, value);
      };
      const Values values = of_output(t, o);
      for (const te::Axis& a : s_.outer) set(a.id, values.at(a.id));
      set(s_.y.axis.id, t.first_line + Expr(p));
      set(s_.x.axis.id, t.start + lane.expr());
      names.var(line.var, Expr(o * lines_ + p));
      Stmt store = Stmt::store(e.buffer, {te::simplify(names(e.address))}, te::simplify(names(e.body)));
      const int64_t rest = s_.x.extent() % lanes_;
      if (!t.whole && rest != 0) store = Stmt::branch(lane.expr() < Expr(rest), std::move(store));
      store = loop(lane, std::move(store), LoopKind::Vector);
      const bool beyond = band_ < s_.y.extent() && s_.y.extent() % band_ != 0;  // the last band is not full
      parts.push_back(beyond ? Stmt::branch(t.first_line + Expr(p) < Expr(s_.y.extent()), std::move(store)) : store);
    }
  return Stmt::seq(std::move(parts));
}

Stmt Planes::tile(const Tile& t) {
  const int acc = buffer("acc", t.outputs * lines_ * lanes_, loop::Scope::Local);
  std::vector<Stmt> parts;
  for (int64_t p = 0; p < t.outputs * lines_; ++p)
    parts.push_back(vector(lanes_, [&](const Expr& lane) {
      return Stmt::store(acc, {Expr(p * lanes_) + lane},
                         Expr::real(DType::F32, te::real_identity(stage_.body->combiner)));
    }));
  parts.push_back(updates(t, acc));
  parts.push_back(results(t, acc));
  return Stmt::seq(std::move(parts));
}

// All results of one band of one group: some lines at a time, so that what they read stays in the first cache for all channels.
Stmt Planes::tiles(const Values& outer, const Expr& band) {
  const int64_t vectors = s_.x.extent() / lanes_, rest = s_.x.extent() % lanes_;
  const auto across = [&](const Expr& in_band, int64_t lines) {
    std::vector<Stmt> parts;
    const Expr first_line = te::simplify(band * Expr(band_) + in_band);
    const auto channels = [&](const Expr& start, bool whole) {
      Tile t{outer, in_band, first_line, lines, start, whole, outputs_};
      if (s_.shared == 1) return tile(t);
      const LoopAxis own = fresh("own", s_.shared / outputs_);
      t.values[s_.channel] = te::simplify(outer.at(s_.channel) + own.expr() * Expr(outputs_));
      std::vector<Stmt> all = {loop(own, tile(t))};
      t.values[s_.channel] = te::simplify(outer.at(s_.channel) + Expr(own.extent * outputs_));
      t.outputs = s_.shared % outputs_;
      if (t.outputs > 0) all.push_back(tile(t));
      return Stmt::seq(std::move(all));
    };
    if (vectors > 0) {
      const LoopAxis block = fresh("block", vectors);
      parts.push_back(loop(block, channels(block.expr() * Expr(lanes_), true)));
    }
    if (rest > 0) parts.push_back(channels(Expr(vectors * lanes_), false));
    return Stmt::seq(std::move(parts));
  };
  const int64_t whole = band_ / lines_, left = band_ % lines_;
  const LoopAxis number = fresh("tile", whole);
  std::vector<Stmt> parts = {loop(number, across(number.expr() * Expr(lines_), lines_))};
  if (left > 0) parts.push_back(across(Expr(whole * lines_), left));
  return Stmt::seq(std::move(parts));
}

std::optional<Kernel> Planes::make(std::string name) {
  const int64_t copied = s_.planes() * plane_ + lanes_;
  if (copied * 4 > scene_.target.l2_bytes / 2 || s_.shared > kMostSharing) return std::nullopt;
  if (outputs_ * lines_ * s_.x.points() > kMostStatements) return std::nullopt;
  kernel_.function.name = std::move(name);
  accesses_.emplace(scene_, group_, group_.rows, kernel_);
  te::for_each_node(stage_.body->args[0], [&](const Expr& n) {
    if (n->kind != Kind::Read || arguments_.count(n->tensor)) return;
    arguments_[n->tensor] =
        buffer("input", scene_.layout(n->tensor).span, loop::Scope::Argument, scene_.value(n->tensor).dtype);
    kernel_.arguments.push_back({n->tensor, std::nullopt});
  });
  scratch_ = buffer("planes", copied, loop::Scope::Scratch);
  std::vector<LoopAxis> axes;
  Values values;
  for (const te::Axis& a : stage_.axes)
    if (a.extent.value() == 1) values[a.id] = Expr(0);
  int64_t rows = 1;
  for (const te::Axis& a : s_.outer) {
    const int64_t shared = a.id == s_.channel ? s_.shared : 1;
    axes.push_back(fresh(a.name, a.extent.value() / shared));
    values[a.id] = te::simplify(axes.back().expr() * Expr(shared));
    rows *= axes.back().extent;
  }
  Expr band(0);
  if (band_ < s_.y.extent()) {
    axes.push_back(fresh("band", ceil_div(s_.y.extent(), band_)));
    band = axes.back().expr();
  }
  Stmt body = Stmt::seq({copy(values, band), tiles(values, band)});

  const int64_t elements = rows * s_.shared * s_.y.extent() * s_.x.extent();
  const int64_t taps = s_.planes() * s_.x.points() * s_.y.points();
  const double flops = static_cast<double>(elements) * static_cast<double>(taps * (1 + price(stage_.body->args[0])));
  kernel_.function.body = as_tasks(std::move(body), axes, flops, kWindowTasks, next_var_);
  finish(kernel_, scene_, group_, flops);
  return std::move(kernel_);
}

}  // namespace

std::optional<Kernel> plane_kernel(const Scene& scene, const Group& group, std::string name) {
  if (group.contraction && group.contraction->bytes()) return std::nullopt;
  if (group.contraction && !group.contraction->split && !thin(*group.contraction, scene.stage(group.stages[0])))
    return std::nullopt;
  auto shape = plane_shape(scene, group);
  if (!shape) return std::nullopt;
  return Planes(scene, group, *std::move(shape)).make(std::move(name));
}

}  // namespace isomer::compile
