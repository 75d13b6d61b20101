#include "compile/distinct.h"

#include "compile/function_writer.h"
#include "compile/step_loops.h"

namespace isomer::compile {

using loop::LoopKind;
using loop::Stmt;
using te::BinaryOp;
using te::Expr;

namespace {

struct Extents {
  int64_t outer = 1, count = 1, inner = 1;
  int64_t all() const { return outer * count * inner; }
};

Extents extents_of(const ir::Graph& g, const ir::Node& n) {
  const std::vector<int64_t> dims = g.type(n.inputs[0]).shape.values();
  Extents e;
  const int64_t* given = n.attrs.get<int64_t>("axis");
  const auto rank = static_cast<int64_t>(dims.size());
  const int64_t axis = !given ? -1 : *given < 0 ? *given + rank : *given;
  for (int64_t d = 0; d < rank; ++d)
    (!given || d == axis ? e.count : d < axis ? e.outer : e.inner) *= dims[static_cast<size_t>(d)];
  return e;
}

class Distinct {
 public:
  Distinct(const ir::Graph& g, const ir::Node& n)
      : n_(n), type_(g.type(n.inputs[0]).dtype), e_(extents_of(g, n)), w_("distinct") {}

  void add(const Place& number, Assembly& a) {
    const DType bits = bits_of(type_);
    const std::vector<int64_t> dims = {e_.outer, e_.count, e_.inner};
    std::vector<Place> places;
    const auto argument = [&](DType type, std::vector<int64_t> extents, bool written, const Place& place) {
      places.push_back(place);
      return w_.argument(type, std::move(extents), written);
    };
    const auto memory = [&](int64_t rows) {
      return argument(DType::I64, {rows, e_.count}, true, a.memory(static_cast<uint64_t>(rows * e_.count) * 8));
    };
    x_ = argument(type_, dims, false, {Space::Input, 0, 0});
    const int raw = argument(bits, dims, false, {Space::Input, 0, 0});
    const int y = argument(bits, dims, true, {Space::Output, 0, 0});
    std::vector<int> more;  // first positions, inverse positions, counts
    for (uint32_t k = 1; k < n_.types.size(); ++k)
      more.push_back(argument(DType::I64, {e_.count}, true, {Space::Output, k, 0}));
    const int count = argument(DType::I64, {1}, true, number);
    order_ = memory(2);
    group_ = memory(1);
    first_ = memory(1);
    size_ = memory(1);
    place_ = memory(1);
    groups_ = w_.local(DType::I64);
    sign_ = w_.local(DType::I64);

    std::vector<Stmt> all = sort();
    for (Stmt& s : group()) all.push_back(std::move(s));
    for (Stmt& s : give_places()) all.push_back(std::move(s));
    const te::Axis g = w_.axis(1), o = w_.axis(e_.outer), i = w_.axis(e_.inner), s = w_.axis(e_.count);
    const Expr to = row(place_, Expr(g)), from = row(first_, Expr(g));
    std::vector<Stmt> one = {FunctionWriter::over(
        o, FunctionWriter::over(i, Stmt::store(y, {Expr(o), to, Expr(i)}, w_.read(raw, {Expr(o), from, Expr(i)}))))};
    if (!more.empty()) one.push_back(Stmt::store(more[0], {to}, from));
    if (more.size() > 2) one.push_back(Stmt::store(more[2], {to}, row(size_, Expr(g))));
    all.push_back(Stmt::loop(g.id, g.name, w_.number(groups_), LoopKind::Serial, Stmt::seq(one)));
    if (more.size() > 1)
      all.push_back(FunctionWriter::over(s, Stmt::store(more[1], {Expr(s)}, row(place_, row(group_, Expr(s))))));
    all.push_back(Stmt::store(count, {Expr(0)}, w_.number(groups_)));
    loop::Function f = std::move(w_).finish(Stmt::seq(all));
    f.origin = n_.origin.empty() ? std::vector{n_.names[0]} : n_.origin;
    a.add(std::move(f), std::move(places), static_cast<double>(e_.all()) * 64);
  }

 private:
  Expr row(int buffer, const Expr& at) const { return w_.read(buffer, {Expr(0), at}); }
  static Stmt put(int buffer, const Expr& at, Expr value) {
    return Stmt::store(buffer, {Expr(0), at}, std::move(value));
  }
  Expr next(int local) const { return w_.number(local) + Expr(1); }

  // The reference's order: NaN above all numbers, and equal to itself.
  Expr less(const Expr& a, const Expr& b) const {
    if (!is_float(type_)) return a < b;
    const auto nan = [](const Expr& v) { return te::unary(te::UnaryOp::IsNan, v); };
    return (!nan(a) && nan(b)) || a < b;
  }

  // sign_: -1 where slice a comes before b, 0 where they are equal.
  Stmt compare(const Expr& a, const Expr& b) {
    const te::Axis o = w_.axis(e_.outer), i = w_.axis(e_.inner);
    const auto element = [&](const Expr& slice) {
      const Expr v = w_.read(x_, {Expr(o), slice, Expr(i)});
      return type_ == DType::Bool ? te::cast(DType::I64, v) : v;
    };
    const Expr sign =
        te::select(less(element(a), element(b)), Expr(-1), te::select(less(element(b), element(a)), Expr(1), Expr(0)));
    const Stmt look = Stmt::branch(te::eq(w_.number(sign_), Expr(0)), FunctionWriter::set(sign_, sign));
    return Stmt::seq({FunctionWriter::set(sign_, Expr(0)), FunctionWriter::over(o, FunctionWriter::over(i, look))});
  }

  // Runs of twice the length in each phase, from one row of the order into the other.
  std::vector<Stmt> sort() {
    while ((int64_t{1} << phases_) < e_.count) ++phases_;
    const te::Axis start = w_.axis(e_.count);
    std::vector<Stmt> out = {FunctionWriter::over(start, put(order_, Expr(start), Expr(start)))};
    if (phases_ == 0) return out;
    const te::Axis phase = w_.axis(phases_), block = w_.axis(1), k = w_.axis(1);
    const int i = w_.local(DType::I64), j = w_.local(DType::I64), left = w_.local(DType::I64);
    const Expr n(e_.count), width = te::binary(BinaryOp::Shl, Expr(1), Expr(phase)), two = width + width;
    const Expr low = Expr(block) * two, middle = te::min(low + width, n), high = te::min(low + two, n);
    const Expr from = te::binary(BinaryOp::And, Expr(phase), Expr(1)), to = Expr(1) - from;
    const auto at = [&](int local) { return w_.read(order_, {from, w_.number(local)}); };
    const Stmt choose = Stmt::branch(
        w_.number(i) >= middle, FunctionWriter::set(left, Expr(0)),
        Stmt::branch(w_.number(j) >= high, FunctionWriter::set(left, Expr(1)),
                     Stmt::seq({compare(at(j), at(i)),
                                FunctionWriter::set(left, te::select(w_.number(sign_) < Expr(0), Expr(0), Expr(1)))})));
    const auto take = [&](int local) {
      return Stmt::seq({Stmt::store(order_, {to, low + Expr(k)}, at(local)), FunctionWriter::set(local, next(local))});
    };
    const Stmt step = Stmt::seq({choose, Stmt::branch(te::ne(w_.number(left), Expr(0)), take(i), take(j))});
    const Stmt merge = Stmt::seq({FunctionWriter::set(i, low), FunctionWriter::set(j, middle),
                                  Stmt::loop(k.id, k.name, high - low, LoopKind::Serial, step)});
    out.push_back(FunctionWriter::over(
        phase, Stmt::loop(block.id, block.name, te::floor_div(n + two - Expr(1), two), LoopKind::Serial, merge)));
    return out;
  }

  // Equal slices lie together now.
  std::vector<Stmt> group() {
    const te::Axis k = w_.axis(e_.count);
    const Expr side(phases_ % 2), here = w_.read(order_, {side, Expr(k)});
    const Expr g = w_.number(groups_) - Expr(1);
    const Stmt differs =
        Stmt::branch(Expr(k) > Expr(0), compare(w_.read(order_, {side, te::max(Expr(k) - Expr(1), Expr(0))}), here),
                     FunctionWriter::set(sign_, Expr(-1)));
    const Stmt begin =
        Stmt::seq({put(first_, w_.number(groups_), here), put(size_, w_.number(groups_), Expr(0)),
                   put(place_, w_.number(groups_), w_.number(groups_)), FunctionWriter::set(groups_, next(groups_))});
    const Stmt one = Stmt::seq({differs, Stmt::branch(te::ne(w_.number(sign_), Expr(0)), begin), put(group_, here, g),
                                put(size_, g, row(size_, g) + Expr(1))});
    return {FunctionWriter::set(groups_, Expr(0)), FunctionWriter::over(k, one)};
  }

  // Not sorted: in the order in which they came.
  std::vector<Stmt> give_places() {
    const int64_t* sorted = n_.attrs.get<int64_t>("sorted");
    if (!sorted || *sorted != 0) return {};
    const te::Axis s = w_.axis(e_.count);
    const int at = w_.local(DType::I64);
    const Expr g = row(group_, Expr(s));
    const Stmt give = Stmt::seq({put(place_, g, w_.number(at)), FunctionWriter::set(at, next(at))});
    return {FunctionWriter::set(at, Expr(0)),
            FunctionWriter::over(s, Stmt::branch(te::eq(row(first_, g), Expr(s)), give))};
  }

  const ir::Node& n_;
  const DType type_;
  const Extents e_;
  FunctionWriter w_;
  int64_t phases_ = 0;
  int x_ = -1, order_ = -1, group_ = -1, first_ = -1, size_ = -1, place_ = -1, groups_ = -1, sign_ = -1;
};

}  // namespace

int64_t slices_of(const ir::Graph& g, const ir::Node& n) { return extents_of(g, n).count; }

void add_distinct(const ir::Graph& g, const ir::Node& n, const Place& count, Assembly& a) {
  Distinct(g, n).add(count, a);
}

}  // namespace isomer::compile
