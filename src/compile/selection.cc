#include "compile/selection.h"

#include <algorithm>

#include "compile/assembly.h"
#include "compile/distinct.h"
#include "compile/function_writer.h"
#include "compile/step_loops.h"

namespace isomer::compile {

using loop::LoopKind;
using loop::Stmt;
using te::Expr;

namespace {

const Tensor* constant(const ir::Graph& g, const ir::Node& n, size_t i) {
  if (i >= n.inputs.size() || n.inputs[i].is_none()) return nullptr;
  const ir::Node& from = g.node(n.inputs[i].node);
  return from.op == &ir::const_op() ? from.attrs.get<Tensor>("value") : nullptr;
}

bool has(const ir::Node& n, size_t i) { return i < n.inputs.size() && !n.inputs[i].is_none(); }

Expr next(const FunctionWriter& w, int local) { return w.number(local) + Expr(1); }

// Boxes of one class that can stay at most.
int64_t most_boxes(const ir::Graph& g, const ir::Node& n) {
  const int64_t boxes = g.type(n.inputs[0]).shape.values()[1];
  if (!has(n, 2)) return 0;
  const Tensor* most = constant(g, n, 2);
  return most && most->size() == 1 ? std::clamp<int64_t>(most->integer(0), 0, boxes) : boxes;
}

// The reference refuses more conditions than there are elements.
bool conditions_fit(const std::vector<int64_t>& dims, const ir::Node& n, int64_t conditions) {
  const int64_t* given = n.attrs.get<int64_t>("axis");
  if (!given) return conditions <= elements_of(dims);
  const int64_t axis = *given < 0 ? *given + static_cast<int64_t>(dims.size()) : *given;
  return conditions <= dims[static_cast<size_t>(axis)];
}

std::optional<int64_t> most_results(const ir::Graph& g, const ir::Node& n) {
  for (const ir::Value& v : n.inputs)
    if (!v.is_none() && !g.type(v).shape.is_static()) return std::nullopt;
  const auto dims = [&](size_t i) { return g.type(n.inputs[i]).shape.values(); };
  if (n.op->name == "non_zero") return elements_of(dims(0));
  if (n.op->name == "compress")
    return conditions_fit(dims(0), n, dims(1)[0]) ? std::optional(dims(1)[0]) : std::nullopt;
  if (n.op->name == "unique") return slices_of(g, n);
  if (n.op->name == "non_max_suppression") return dims(1)[0] * dims(1)[1] * most_boxes(g, n);
  return std::nullopt;
}

// Elements that are not zero, in order, one after the other.
loop::Function non_zero(const ir::Graph& g, const ir::Node& n, int64_t most) {
  const Type& type = g.type(n.inputs[0]);
  const std::vector<int64_t> dims = type.shape.values();
  const auto rank = static_cast<int64_t>(dims.size());
  FunctionWriter w("non_zero");
  const int x = w.argument(type.dtype, dims, false), y = w.argument(DType::I64, {rank, most}, true),
            count = w.argument(DType::I64, {1}, true), at = w.local(DType::I64);
  std::vector<te::Axis> axes;
  std::vector<Expr> place;
  for (const int64_t d : dims) place.emplace_back(axes.emplace_back(w.axis(d)));
  std::vector<Stmt> found;
  for (int64_t a = 0; a < rank; ++a)
    found.push_back(Stmt::store(y, {Expr(a), w.number(at)}, place[static_cast<size_t>(a)]));
  found.push_back(FunctionWriter::set(at, next(w, at)));
  const Expr value = w.read(x, place);
  Stmt body =
      Stmt::branch(type.dtype == DType::Bool ? value : te::ne(value, Expr::literal(type.dtype, 0)), Stmt::seq(found));
  for (size_t a = axes.size(); a-- > 0;) body = FunctionWriter::over(axes[a], std::move(body));
  return std::move(w).finish(
      Stmt::seq({FunctionWriter::set(at, Expr(0)), body, Stmt::store(count, {Expr(0)}, w.number(at))}));
}

// Slices where a condition holds.
loop::Function compress(const ir::Graph& g, const ir::Node& n, int64_t most) {
  const Type& type = g.type(n.inputs[0]);
  std::vector<int64_t> dims = type.shape.values();
  const int64_t* given = n.attrs.get<int64_t>("axis");
  if (!given) dims = {elements_of(dims)};
  const auto rank = static_cast<int64_t>(dims.size());
  const int64_t axis = given ? *given < 0 ? *given + rank : *given : 0;
  int64_t outer = 1, inner = 1;
  for (int64_t d = 0; d < rank; ++d)
    if (d != axis) (d < axis ? outer : inner) *= dims[static_cast<size_t>(d)];
  const DType bits = bits_of(type.dtype);
  FunctionWriter w("compress");
  const int x = w.argument(bits, {outer, dims[static_cast<size_t>(axis)], inner}, false),
            condition = w.argument(DType::Bool, {most}, false), y = w.argument(bits, {outer, most, inner}, true),
            count = w.argument(DType::I64, {1}, true), at = w.local(DType::I64);
  const te::Axis i = w.axis(most), o = w.axis(outer), k = w.axis(inner);
  const Stmt copy = Stmt::store(y, {Expr(o), w.number(at), Expr(k)}, w.read(x, {Expr(o), Expr(i), Expr(k)}));
  const Stmt take =
      Stmt::seq({FunctionWriter::over(o, FunctionWriter::over(k, copy)), FunctionWriter::set(at, next(w, at))});
  return std::move(w).finish(Stmt::seq({FunctionWriter::set(at, Expr(0)),
                                        FunctionWriter::over(i, Stmt::branch(w.read(condition, {Expr(i)}), take)),
                                        Stmt::store(count, {Expr(0)}, w.number(at))}));
}

// Boxes by score, without those that overlap a better one too much: first for each class of each batch, at the same time, then
// all of them one after the other.
class Suppression {
 public:
  Suppression(const ir::Graph& g, const ir::Node& n, Assembly& a) : n_(n), a_(a) {
    const std::vector<int64_t> dims = g.type(n.inputs[1]).shape.values();
    batches_ = dims[0], classes_ = dims[1], boxes_ = dims[2];
    most_ = most_boxes(g, n);
    const int64_t* center = n.attrs.get<int64_t>("center_point_box");
    center_ = center && *center != 0;
  }

  void add(const Place& result, const Place& count) {
    const Place kept = a_.memory(static_cast<uint64_t>(batches_ * classes_ * most_) * 8);
    const Place counts = a_.memory(static_cast<uint64_t>(batches_ * classes_) * 8);
    loop::Function choose = choose_boxes();
    std::vector<Place> places;
    for (uint32_t i = 0; i < 5; ++i)
      if (has(n_, i)) places.push_back({Space::Input, i, 0});
    places.push_back(kept);
    places.push_back(counts);
    a_.add(std::move(choose), places, static_cast<double>(batches_ * classes_ * boxes_) * 64);
    a_.next_time();
    a_.add(collect(), {kept, counts, result, count});
  }

 private:
  Expr read(int buffer, std::vector<Expr> at) const { return te::cast(DType::F64, w_.read(buffer, std::move(at))); }

  struct Box {
    Expr y1, x1, y2, x2;
    Expr area() const { return (y2 - y1) * (x2 - x1); }
  };
  Box box(const Expr& batch, const Expr& i) const {
    const auto part = [&](int64_t k) { return read(boxes_buffer_, {batch, i, Expr(k)}); };
    const Expr a = part(0), b = part(1), c = part(2), d = part(3), two = Expr::real(DType::F64, 2);
    if (center_) return {b - d / two, a - c / two, b + d / two, a + c / two};
    const auto low = [](const Expr& p, const Expr& q) { return te::select(q < p, q, p); };
    const auto high = [](const Expr& p, const Expr& q) { return te::select(p < q, q, p); };
    return {low(a, c), low(b, d), high(a, c), high(b, d)};
  }
  static Expr overlap(const Box& a, const Box& b) {
    const auto least = [](const Expr& p, const Expr& q) { return te::select(q < p, q, p); };
    const auto largest = [](const Expr& p, const Expr& q) { return te::select(p < q, q, p); };
    const Expr zero = Expr::real(DType::F64, 0);
    const Expr height = least(a.y2, b.y2) - largest(a.y1, b.y1), width = least(a.x2, b.x2) - largest(a.x1, b.x1);
    const Expr some = height > zero && width > zero && a.area() > zero && b.area() > zero, both = height * width;
    return te::select(some, both / (a.area() + b.area() - both), zero);
  }

  loop::Function choose_boxes() {
    boxes_buffer_ = w_.argument(DType::F32, {batches_, boxes_, 4}, false);
    scores_ = w_.argument(DType::F32, {batches_, classes_, boxes_}, false);
    const int limit = has(n_, 2) ? w_.argument(DType::I64, {1}, false) : -1;
    iou_ = has(n_, 3) ? w_.argument(DType::F32, {1}, false) : -1;
    lowest_ = has(n_, 4) ? w_.argument(DType::F32, {1}, false) : -1;
    kept_ = w_.argument(DType::I64, {batches_ * classes_, most_}, true);
    counts_ = w_.argument(DType::I64, {batches_ * classes_}, true);
    left_ = w_.scratch(DType::I64, {boxes_});
    length_ = w_.local(DType::I64);
    best_ = w_.local(DType::I64);
    to_ = w_.local(DType::I64);
    const te::Axis row = w_.axis(batches_ * classes_), i = w_.axis(boxes_), round = w_.axis(most_);
    batch_ = te::floor_div(Expr(row), Expr(classes_));
    class_ = te::floor_mod(Expr(row), Expr(classes_));
    // A score that is no number is no order: the place is out of range, which is an error of the run.
    const Expr score = this->score(Expr(i)),
               end = te::select(te::unary(te::UnaryOp::IsNan, score), Expr(-1), w_.number(length_));
    const Expr wanted =
        lowest_ < 0 ? te::truth(true) : score > read(lowest_, {Expr(0)}) || te::unary(te::UnaryOp::IsNan, score);
    const Stmt collect_all =
        FunctionWriter::over(i, Stmt::branch(wanted, Stmt::seq({Stmt::store(left_, {end}, Expr(i)),
                                                                FunctionWriter::set(length_, next(w_, length_))})));
    Expr goes = w_.number(length_) > Expr(0);
    if (limit >= 0) goes = goes && Expr(round) < w_.read(limit, {Expr(0)});
    const Stmt rounds = FunctionWriter::over(round, Stmt::branch(goes, one_round(Expr(row), Expr(round))));
    const Stmt all = Stmt::seq(
        {FunctionWriter::set(length_, Expr(0)), Stmt::store(counts_, {Expr(row)}, Expr(0)), collect_all, rounds});
    loop::Function f = std::move(w_).finish(FunctionWriter::over(row, all, LoopKind::Parallel));
    f.origin = origin_of(n_);
    return f;
  }

  Expr score(const Expr& i) const { return read(scores_, {batch_, class_, i}); }

  // The best of those that are left, the first of equals; then those that do not overlap it too much.
  Stmt one_round(const Expr& row, const Expr& round) {
    const te::Axis j = w_.axis(1), k = w_.axis(1);
    const Expr candidate = w_.read(left_, {Expr(j)}), best = w_.number(best_), other = w_.read(left_, {Expr(k)});
    const Stmt find = Stmt::loop(j.id, j.name, w_.number(length_), LoopKind::Serial,
                                 Stmt::branch(score(best) < score(candidate), FunctionWriter::set(best_, candidate)));
    const Expr most = iou_ < 0 ? Expr::real(DType::F64, 0) : read(iou_, {Expr(0)});
    const Expr stays = te::ne(other, best) && overlap(box(batch_, best), box(batch_, other)) <= most;
    const Stmt keep = Stmt::branch(
        stays, Stmt::seq({Stmt::store(left_, {w_.number(to_)}, other), FunctionWriter::set(to_, next(w_, to_))}));
    return Stmt::seq({FunctionWriter::set(best_, w_.read(left_, {Expr(0)})), find,
                      Stmt::store(kept_, {row, round}, best), Stmt::store(counts_, {row}, round + Expr(1)),
                      FunctionWriter::set(to_, Expr(0)),
                      Stmt::loop(k.id, k.name, w_.number(length_), LoopKind::Serial, keep),
                      FunctionWriter::set(length_, w_.number(to_))});
  }

  loop::Function collect() const {
    FunctionWriter w("collect");
    const int64_t rows = batches_ * classes_;
    const int kept = w.argument(DType::I64, {rows, most_}, false), counts = w.argument(DType::I64, {rows}, false),
              y = w.argument(DType::I64, {rows * most_, 3}, true), count = w.argument(DType::I64, {1}, true),
              at = w.local(DType::I64);
    const te::Axis row = w.axis(rows), k = w.axis(1);
    const auto put = [&](int64_t column, const Expr& v) { return Stmt::store(y, {w.number(at), Expr(column)}, v); };
    const Stmt one =
        Stmt::seq({put(0, te::floor_div(Expr(row), Expr(classes_))), put(1, te::floor_mod(Expr(row), Expr(classes_))),
                   put(2, w.read(kept, {Expr(row), Expr(k)})), FunctionWriter::set(at, next(w, at))});
    const Stmt all =
        FunctionWriter::over(row, Stmt::loop(k.id, k.name, w.read(counts, {Expr(row)}), LoopKind::Serial, one));
    loop::Function f = std::move(w).finish(
        Stmt::seq({FunctionWriter::set(at, Expr(0)), all, Stmt::store(count, {Expr(0)}, w.number(at))}));
    f.origin = origin_of(n_);
    return f;
  }

  const ir::Node& n_;
  Assembly& a_;
  FunctionWriter w_{"suppress"};
  int64_t batches_ = 0, classes_ = 0, boxes_ = 0, most_ = 0;
  bool center_ = false;
  int boxes_buffer_ = -1, scores_ = -1, iou_ = -1, lowest_ = -1, kept_ = -1, counts_ = -1, left_ = -1, length_ = -1,
      best_ = -1, to_ = -1;
  Expr batch_, class_;
};

// There can be none.
loop::Function nothing(const ir::Node& n) {
  FunctionWriter w("none");
  const int count = w.argument(DType::I64, {1}, true);
  loop::Function f = std::move(w).finish(Stmt::store(count, {Expr(0)}, Expr(0)));
  f.origin = origin_of(n);
  return f;
}

}  // namespace

bool is_selection(const ir::Node& n) {
  return n.op->name == "non_zero" || n.op->name == "compress" || n.op->name == "non_max_suppression" ||
         n.op->name == "unique";
}

std::optional<RunSize> run_size(const ir::Graph& g, const ir::Node& n) {
  const auto most = is_selection(n) ? most_results(g, n) : std::nullopt;
  if (!most) return std::nullopt;
  RunSize size{{}, *most};
  for (const Type& t : n.types)
    for (const Dim& d : t.shape.dims())
      if (const auto symbol = d.as_symbol()) size.symbols.push_back(*symbol);
  return size.symbols.empty() ? std::nullopt : std::optional(size);
}

Expected<Lowered> selection(const Composer& composer, const ir::Graph& g, const ir::Node& n) {
  Assembly a(n.names[0], composer.options.target);
  const Place result{Space::Output, 0, 0}, count{Space::Output, static_cast<uint32_t>(n.types.size()), 0};
  const int64_t most = *most_results(g, n);
  if (most == 0) {
    a.add(nothing(n), {count});
    return std::move(a).finish();
  }
  if (n.op->name == "unique") {
    add_distinct(g, n, count, a);
    return std::move(a).finish();
  }
  if (n.op->name == "non_max_suppression") {
    Suppression(g, n, a).add(result, count);
    return std::move(a).finish();
  }
  const bool positions = n.op->name == "non_zero";
  loop::Function f = positions ? non_zero(g, n, most) : compress(g, n, most);
  f.origin = origin_of(n);
  std::vector<Place> places = {{Space::Input, 0, 0}};
  if (!positions) places.push_back({Space::Input, 1, 0});
  places.push_back(result);
  places.push_back(count);
  a.add(std::move(f), std::move(places), static_cast<double>(most) * 16);
  return std::move(a).finish();
}

}  // namespace isomer::compile
