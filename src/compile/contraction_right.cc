// The right side of a contraction: a constant packed when the model is compiled, panels packed by a step before, or as it lies.
#include "compile/contraction_kernel.h"
#include "compile/finish.h"
#include "te/simplify.h"

namespace isomer::compile {

using loop::LoopKind;
using loop::Stmt;
using te::Expr;

// The offsets of all steps of the depth, runs filled up to what tiles take.
std::vector<int64_t> ContractionKernel::packed_depth(const Linear& at) const {
  const std::vector<int64_t> all = offsets(at, k_);
  if (unit() == 1) return all;
  const size_t length = all.size() / static_cast<size_t>(runs_);
  std::vector<int64_t> out;
  for (size_t r = 0; r < static_cast<size_t>(runs_); ++r) {
    out.insert(out.end(), all.begin() + static_cast<long>(r * length),
               all.begin() + static_cast<long>((r + 1) * length));
    out.resize((r + 1) * static_cast<size_t>(run_), Packing::kNothing);
  }
  return out;
}

bool ContractionKernel::right_in_place(const Linear& at) const {
  return one_step(at, n_) && step(at, n_) == 1 && one_step(at, k_) && n_.total() % nr_ == 0;
}

void ContractionKernel::right() {
  const Linear at = side(c_.b).at;
  const int value = c_.b->tensor;
  const StageValue& v = scene_.value(value);
  if (v.constant) {
    Packing p{offsets(at, batch_), packed_depth(at),       offsets(at, n_), nr_,
              split_ ? chunk_ : 0, bytes_ ? together() : 1};
    for (int64_t& o : p.batch) o += at.constant;
    p.narrow = narrow_;
    const DType stored = split_ ? DType::BF16 : narrow_ ? DType::U8 : v.dtype;
    const loop::Buffer buffer{"right", stored, {p.elements()}, loop::Scope::Argument, false};
    right_.buffer = add_argument(main_, buffer, {value, std::move(p)});
    return;
  }
  if (split_) return pack_split(at, value);
  if (right_in_place(at)) {
    packed_right_ = false;
    right_.at = at;
    right_.buffer = add_argument(main_, {"right", v.dtype, {scene_.layout(value).span}, loop::Scope::Argument, false},
                                 {value, std::nullopt});
    return;
  }
  pack_right(at, value);
}

// A step before: panels of the right side in the order in which tiles read them.
void ContractionKernel::pack_right(const Linear& at, int value) {
  const StageValue v = scene_.value(value);  // a copy: a new temporary moves the values
  const int64_t depth = k_.total(), elements = batch_.total() * panels_ * depth * nr_;
  const int packed = scene_.temporary(v.dtype, elements);
  right_.buffer =
      add_argument(main_, {"right", v.dtype, {elements}, loop::Scope::Argument, false}, {packed, std::nullopt});
  Kernel pack;
  pack.function.name = main_.function.name + "_pack";
  add_argument(pack, {"right", v.dtype, {scene_.layout(value).span}, loop::Scope::Argument, false},
               {value, std::nullopt});
  add_argument(pack, {"panels", v.dtype, {elements}, loop::Scope::Argument, true}, {packed, std::nullopt});
  const LoopAxis task = fresh("task", batch_.total() * panels_), k = fresh("k", depth), c = fresh("c", nr_);
  const Expr panel = te::floor_mod(task.expr(), Expr(panels_)), batch = te::floor_div(task.expr(), Expr(panels_));
  const Expr column = panel * Expr(nr_) + c.expr();
  te::Substitution names;
  unflatten_into(names, batch_.list, batch);
  unflatten_into(names, k_.list, k.expr());
  unflatten_into(names, n_.list, n_.total() % nr_ == 0 ? column : te::min(column, Expr(n_.total() - 1)));
  const std::vector<te::Axis> scope = {task.axis(), k.axis(), c.axis()};
  const Expr from = te::simplify(names(expr_of(at)), scope);
  const Expr to = te::simplify((task.expr() * Expr(depth) + k.expr()) * Expr(nr_) + c.expr(), scope);
  const Stmt store = Stmt::store(1, {to}, Expr::read(0, v.dtype, {from}));
  pack.function.body =
      loop(task, loop(k, loop(c, store, LoopKind::Vector)), task.extent > 1 ? LoopKind::Parallel : LoopKind::Serial);
  finish(pack, scene_, group_, 0);
  before_.push_back(std::move(pack));
}

// The same for tile registers: pairs of the depth side by side and each number in its two parts, as a packed constant has them.
void ContractionKernel::pack_split(const Linear& at, int value) {
  const StageValue v = scene_.value(value);
  const int64_t part = depth() * nr_, elements = batch_.total() * panels_ * 2 * part;
  const int packed = scene_.temporary(DType::BF16, elements);
  right_.buffer =
      add_argument(main_, {"right", DType::BF16, {elements}, loop::Scope::Argument, false}, {packed, std::nullopt});
  Kernel pack;
  pack.function.name = main_.function.name + "_pack";
  add_argument(pack, {"right", v.dtype, {scene_.layout(value).span}, loop::Scope::Argument, false},
               {value, std::nullopt});
  add_argument(pack, {"panels", DType::BF16, {elements}, loop::Scope::Argument, true, true}, {packed, std::nullopt});
  const LoopAxis task = fresh("task", batch_.total() * panels_), pair = fresh("pair", k_.total() / 2);
  const Expr start = task.expr() * Expr(2 * part);
  const auto store = [&](const Expr& place, const Expr& x) {
    const Expr high = te::simplify(start + place);
    return store_parts(1, high, 1, te::simplify(high + Expr(part)), x);
  };
  std::vector<Stmt> parts;
  if (pair.extent > 0) parts.push_back(loop(pair, pack_pair(at, task, pair.expr(), false, pack, store)));
  if (k_.total() % 2 > 0) parts.push_back(pack_pair(at, task, Expr(pair.extent), true, pack, store));
  const int64_t filled = ceil_div(k_.total(), 2) * 2;
  // What meets zeros of the left side must not be NaN.
  parts.push_back(vectors((depth() - filled) * nr_,
                          [&](const Expr& i) { return store(Expr(filled * nr_) + i, Expr::real(DType::F32, 0)); }));
  pack.function.body = loop(task, Stmt::seq(parts), task.extent > 1 ? LoopKind::Parallel : LoopKind::Serial);
  finish(pack, scene_, group_, 0);
  before_.push_back(std::move(pack));
}

// One pair of the depth, of all columns of a panel; the last one may be `half` a pair, filled up with zeros.
Stmt ContractionKernel::pack_pair(const Linear& at, const LoopAxis& task, const Expr& pair, bool half, Kernel& pack,
                                  const std::function<Stmt(const Expr&, const Expr&)>& store) {
  const Expr zero = Expr::real(DType::F32, 0);
  const Expr first = te::floor_mod(task.expr(), Expr(panels_)) * Expr(nr_), to = pair * Expr(2 * nr_);
  const auto read = [&](const Expr& k, const Expr& column) {
    te::Substitution names;
    unflatten_into(names, batch_.list, te::floor_div(task.expr(), Expr(panels_)));
    unflatten_into(names, k_.list, k);
    unflatten_into(names, n_.list, n_.total() % nr_ == 0 ? column : te::min(column, Expr(n_.total() - 1)));
    return Expr::read(0, DType::F32, {te::simplify(names(expr_of(at)), std::vector<te::Axis>{task.axis()})});
  };
  if (!right_in_place(at)) {
    const LoopAxis lane = fresh("v", 2 * nr_);
    const Expr column = te::floor_div(lane.expr(), Expr(2)), second = te::floor_mod(lane.expr(), Expr(2));
    Expr x = read(half ? pair * Expr(2) : pair * Expr(2) + second, first + column);
    if (half) x = te::select(te::eq(second, Expr(0)), x, zero);
    return loop(lane, store(to + lane.expr(), x), LoopKind::Vector);
  }
  // Columns lie together: half a vector of each of the two, woven into one.
  const int64_t lanes = scene_.lanes(DType::F32);
  const auto woven = static_cast<int>(pack.function.buffers.size());
  pack.function.buffers.push_back({"pair", DType::F32, {lanes}, loop::Scope::Local, true});
  const LoopAxis some = fresh("c", 2 * nr_ / lanes), a = fresh("v", lanes / 2), b = fresh("v", lanes / 2);
  const LoopAxis lane = fresh("v", lanes);
  const Expr column = first + some.expr() * Expr(lanes / 2);
  const Expr at_lane = te::floor_div(lane.expr(), Expr(2)) + te::floor_mod(lane.expr(), Expr(2)) * Expr(lanes / 2);
  const Expr below = half ? zero : read(pair * Expr(2) + Expr(1), column + b.expr());
  return loop(
      some,
      Stmt::seq({loop(a, Stmt::store(woven, {a.expr()}, read(pair * Expr(2), column + a.expr())), LoopKind::Vector),
                 loop(b, Stmt::store(woven, {b.expr() + Expr(lanes / 2)}, below), LoopKind::Vector),
                 loop(lane,
                      store(to + some.expr() * Expr(lanes) + lane.expr(),
                            Expr::read(woven, DType::F32, {te::simplify(at_lane)})),
                      LoopKind::Vector)}));
}

}  // namespace isomer::compile
