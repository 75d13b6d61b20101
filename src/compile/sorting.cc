// The first elements of each line in order. Few of them are found one after the other; for many the positions are sorted by
// exchanges at fixed distances (Batcher's bitonic sort), which needs loops and no recursion. Ties go to the lower position.
#include "compile/assembly.h"
#include "compile/function_writer.h"
#include "compile/procedures.h"

namespace isomer::compile {

using loop::LoopKind;
using loop::Stmt;
using te::BinaryOp;
using te::Expr;

namespace {

constexpr int64_t kMostOneByOne = 24;

class TopK {
 public:
  TopK(const Type& type, size_t axis, int64_t k, bool largest, bool positions)
      : w_("top_k"), k_(k), largest_(largest), float_(is_float(type.dtype)) {
    const std::vector<int64_t> dims = type.shape.values();
    n_ = dims[axis];
    for (size_t d = 0; d < dims.size(); ++d) (d < axis ? outer_ : d > axis ? inner_ : one_) *= d == axis ? 1 : dims[d];
    x_ = w_.argument(type.dtype, {outer_, n_, inner_}, false);
    values_ = w_.argument(type.dtype, {outer_, k, inner_}, true);
    if (positions) indices_ = w_.argument(DType::I64, {outer_, k, inner_}, true);
  }

  int64_t elements() const { return outer_ * n_ * inner_; }

  loop::Function write() && {
    const te::Axis row = w_.axis(outer_ * inner_);
    o_ = te::floor_div(Expr(row), Expr(inner_));
    c_ = te::floor_mod(Expr(row), Expr(inner_));
    Stmt body = k_ <= kMostOneByOne ? one_by_one() : sorted();
    return std::move(w_).finish(FunctionWriter::over(row, std::move(body), LoopKind::Parallel));
  }

 private:
  Expr x(const Expr& i) const { return w_.read(x_, {o_, i, c_}); }

  // The value at i comes before that at j, in the reference's order: NaN above all numbers, and equal to itself.
  Expr less(const Expr& a, const Expr& b) const {
    if (!float_) return a < b;
    const auto nan = [](const Expr& v) { return te::unary(te::UnaryOp::IsNan, v); };
    return (!nan(a) && nan(b)) || a < b;
  }
  Expr before(const Expr& i, const Expr& j) const {
    const Expr a = x(i), b = x(j);
    const Expr first = largest_ ? less(b, a) : less(a, b), second = largest_ ? less(a, b) : less(b, a);
    return first || (!second && i < j);
  }

  Stmt put(const Expr& at, const Expr& position) const {
    std::vector<Stmt> all = {Stmt::store(values_, {o_, at, c_}, x(position))};
    if (indices_ >= 0) all.push_back(Stmt::store(indices_, {o_, at, c_}, position));
    return all.size() == 1 ? all[0] : Stmt::seq(all);
  }

  Stmt one_by_one() {
    const te::Axis j = w_.axis(k_), i = w_.axis(n_);
    const int last = w_.local(DType::I64), best = w_.local(DType::I64);
    const Expr at(i);
    // Reads at -1 are never evaluated.
    const Expr after_last = te::select(w_.number(last) < Expr(0), te::truth(true), before(w_.number(last), at));
    const Expr better = te::select(w_.number(best) < Expr(0), te::truth(true), before(at, w_.number(best)));
    const Stmt look = Stmt::branch(after_last, Stmt::branch(better, FunctionWriter::set(best, at)));
    const Stmt round = Stmt::seq({FunctionWriter::set(best, Expr(-1)), FunctionWriter::over(i, look),
                                  put(Expr(j), w_.number(best)), FunctionWriter::set(last, w_.number(best))});
    return Stmt::seq({FunctionWriter::set(last, Expr(-1)), FunctionWriter::over(j, round)});
  }

  Stmt sorted() {
    int64_t log = 0;
    while ((int64_t{1} << log) < n_) ++log;
    const int64_t padded = int64_t{1} << log;
    const int order = w_.scratch(DType::I64, {padded}), kept = w_.local(DType::I64);
    const te::Axis fill = w_.axis(padded), phase = w_.axis(log), pair = w_.axis(padded / 2), out = w_.axis(k_),
                   back = w_.axis(log);
    const auto shift = [](BinaryOp op, const Expr& a, const Expr& by) { return te::binary(op, a, by); };
    const Expr t = Expr(phase) - Expr(back), distance = shift(BinaryOp::Shl, Expr(1), t);
    const Expr low = te::binary(BinaryOp::And, Expr(pair), distance - Expr(1));
    const Expr i = shift(BinaryOp::Shl, Expr(pair) - low, Expr(1)) + low, j = i + distance;
    const Expr up = te::eq(te::binary(BinaryOp::And, shift(BinaryOp::Shr, i, Expr(phase) + Expr(1)), Expr(1)), Expr(0));
    const Expr a = w_.read(order, {i}), b = w_.read(order, {j});
    // Positions past the end come last.
    const auto first = [&](const Expr& p, const Expr& q) {
      return te::select(p < Expr(n_), te::select(q < Expr(n_), before(p, q), te::truth(true)), te::truth(false));
    };
    const Stmt exchange =
        Stmt::seq({FunctionWriter::set(kept, a), Stmt::store(order, {i}, b), Stmt::store(order, {j}, w_.number(kept))});
    // Where neither comes first, both are past the end.
    const Stmt compare = Stmt::branch(te::select(up, first(b, a), first(a, b)), exchange);
    const Stmt distances =
        Stmt::loop(back.id, back.name, Expr(phase) + Expr(1), LoopKind::Serial, FunctionWriter::over(pair, compare));
    return Stmt::seq({FunctionWriter::over(fill, Stmt::store(order, {Expr(fill)}, Expr(fill))),
                      FunctionWriter::over(phase, distances),
                      FunctionWriter::over(out, put(Expr(out), w_.read(order, {Expr(out)})))});
  }

  FunctionWriter w_;
  int64_t k_, n_ = 1, outer_ = 1, inner_ = 1, one_ = 1;
  bool largest_, float_;
  int x_ = -1, values_ = -1, indices_ = -1;
  Expr o_, c_;
};

}  // namespace

Expected<Lowered> top_k(const Composer& composer, const ir::Graph& g, const ir::Node& n) {
  Assembly a(n.names[0], composer.options.target);
  const Type& type = g.type(n.inputs[0]);
  const int64_t *given = n.attrs.get<int64_t>("axis"), *largest = n.attrs.get<int64_t>("largest");
  const auto rank = static_cast<int64_t>(type.shape.rank());
  const int64_t axis = given ? *given : -1;
  const auto at = static_cast<size_t>(axis < 0 ? axis + rank : axis);
  const int64_t k = n.types[0].shape[at].value();
  for (const int64_t d : n.types[0].shape.values())
    if (d == 0) return std::move(a).finish();
  const bool positions = n.types.size() > 1;
  TopK sort(type, at, k, !largest || *largest != 0, positions);
  const double bytes = static_cast<double>(sort.elements()) * 64;
  loop::Function f = std::move(sort).write();
  f.origin = n.origin.empty() ? std::vector{n.names[0]} : n.origin;
  std::vector<Place> places = {{Space::Input, 0, 0}, {Space::Output, 0, 0}};
  if (positions) places.push_back({Space::Output, 1, 0});
  a.add(std::move(f), std::move(places), bytes);
  return std::move(a).finish();
}

}  // namespace isomer::compile
