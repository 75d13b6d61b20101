#include "compile/step_loops.h"

#include <fmt/format.h>

namespace isomer::compile {

using loop::LoopKind;
using loop::Stmt;
using te::Expr;

namespace {

loop::Buffer argument(int number, DType type, std::vector<int64_t> dims, bool written) {
  return {fmt::format("b{}", number), type, std::move(dims), loop::Scope::Argument, written};
}

te::Axis axis(int id, int64_t extent) { return {id, fmt::format("i{}", id), Dim(extent)}; }

Stmt over(const te::Axis& a, Stmt body, LoopKind kind = LoopKind::Serial) {
  return Stmt::loop(a.id, a.name, Expr(a.extent), kind, std::move(body));
}

constexpr int64_t kLanes = 64, kBlocks = 256;  // elements of one copy at once, and such copies of one task

}  // namespace

DType bits_of(DType type) {
  switch (size_of(type)) {
    case 1: return DType::U8;
    case 2: return DType::U16;
    case 4: return DType::U32;
    default: return DType::U64;
  }
}

int64_t elements_of(const std::vector<int64_t>& dims) {
  int64_t n = 1;
  for (const int64_t d : dims) n *= d;
  return n;
}

loop::Function copy_loops(DType type, int64_t elements) {
  const DType bits = bits_of(type);
  loop::Function f;
  f.name = "copy";
  f.buffers = {argument(0, bits, {elements}, false), argument(1, bits, {elements}, true)};
  f.arguments = 2;
  const int64_t blocks = elements / kLanes, rest = elements % kLanes, tasks = (blocks + kBlocks - 1) / kBlocks;
  const auto move = [&](const Expr& at) { return Stmt::store(1, {at}, Expr::read(0, bits, {at})); };
  std::vector<Stmt> all;
  const te::Axis t = axis(0, std::max<int64_t>(tasks, 1)), lane = axis(2, kLanes), tail = axis(3, rest);
  if (blocks > 0) {
    const te::Axis block{1, "i1", Dim(kBlocks)};
    const Expr number = Expr(t) * Expr(kBlocks) + Expr(block);
    const Stmt lanes = over(lane, move(number * Expr(kLanes) + Expr(lane)), LoopKind::Vector);
    const Expr count = tasks == 1 ? Expr(blocks) : te::min(Expr(kBlocks), Expr(blocks) - Expr(t) * Expr(kBlocks));
    all.push_back(Stmt::loop(block.id, block.name, count, LoopKind::Serial, lanes));
  }
  if (rest > 0) {
    const Stmt last = over(tail, move(Expr(blocks * kLanes) + Expr(tail)));
    all.push_back(tasks > 1 ? Stmt::branch(te::eq(Expr(t), Expr(tasks - 1)), last) : last);
  }
  f.body = over(t, all.size() == 1 ? all[0] : Stmt::seq(all), LoopKind::Parallel);
  return f;
}

loop::Function put_loops(DType type, int64_t outer, int64_t inner, int64_t length, bool from_the_end) {
  const DType bits = bits_of(type);
  loop::Function f;
  f.name = "put";
  f.buffers = {argument(0, bits, {outer, inner}, false), argument(1, DType::I64, {1}, false),
               argument(2, bits, {outer, length, inner}, true)};
  f.arguments = 3;
  const te::Axis o = axis(0, outer), i = axis(1, inner);
  Expr at = Expr::read(1, DType::I64, {Expr(0)});
  if (from_the_end) at = Expr(length - 1) - at;
  f.body = over(o, over(i, Stmt::store(2, {Expr(o), at, Expr(i)}, Expr::read(0, bits, {Expr(o), Expr(i)}))));
  return f;
}

loop::Function count_loops(const Goes& goes, bool next) {
  loop::Function f;
  f.name = "count";
  const auto add = [&](DType type, bool written) {
    f.buffers.push_back(argument(f.arguments, type, {1}, written));
    return f.arguments++;
  };
  Expr on = te::truth(true);
  if (goes.condition) on = Expr::read(add(DType::Bool, false), DType::Bool, {Expr(0)});
  Expr most;
  if (goes.counted) most = Expr::read(add(DType::I64, false), DType::I64, {Expr(0)});
  if (goes.most) most = Expr(*goes.most);
  const int count = add(DType::I64, true), out = add(DType::Bool, true);
  const Expr now = Expr::read(count, DType::I64, {Expr(0)});
  const Stmt step = Stmt::store(count, {Expr(0)}, next ? now + Expr(1) : Expr(0));
  if (!most.empty()) on = on && now < most;
  f.body = Stmt::seq({step, Stmt::store(out, {Expr(0)}, on)});
  return f;
}

}  // namespace isomer::compile
