#include "compile/finish.h"

#include <algorithm>

namespace isomer::compile {

using loop::LoopKind;
using loop::Stmt;
using te::Expr;

namespace {

constexpr int64_t kMostBands = 8, kBandRows = 4;  // fewer rows read too much of their neighbours

}  // namespace

void add_origin(loop::Function& function, const Scene& scene, const Group& group) {
  std::vector<std::string>& origin = function.origin;
  for (const int s : group.with_prologue())
    for (const std::string& o : scene.stage(s).origin)
      if (std::find(origin.begin(), origin.end(), o) == origin.end()) origin.push_back(o);
}

void finish(Kernel& kernel, const Scene& scene, const Group& group, double flops) {
  add_origin(kernel.function, scene, group);
  kernel.flops = flops;
  for (const loop::Buffer& b : kernel.function.buffers)
    if (b.scope == loop::Scope::Argument) kernel.bytes += static_cast<double>(b.bytes());
  arguments_first(kernel.function);
}

Stmt as_tasks(Stmt body, const std::vector<LoopAxis>& axes, double flops, const TaskSize& size, int& next_var) {
  int64_t rows = 1;
  for (const LoopAxis& a : axes) rows *= a.extent;
  const int64_t wanted = std::clamp<int64_t>(static_cast<int64_t>(flops / size.work), 1, std::min(size.most, rows));
  const int64_t each = ceil_div(rows, wanted), made = ceil_div(rows, each);
  const LoopAxis task{next_var++, "task", made}, one{next_var++, "row", each};
  te::Substitution names;
  unflatten_into(names, axes, task.expr() * Expr(each) + one.expr());
  body = substitute(body, names);
  const Expr length = rows % each == 0 ? Expr(each) : te::min(Expr(each), Expr(rows) - task.expr() * Expr(each));
  body = Stmt::loop(one.var, one.name, length, LoopKind::Serial, std::move(body));
  return Stmt::loop(task.var, task.name, Expr(made), made > 1 ? LoopKind::Parallel : LoopKind::Serial, std::move(body));
}

Stmt as_banded_tasks(Stmt body, const LoopAxis& chunk, const std::vector<LoopAxis>& axes, double flops,
                     const TaskSize& size, int& next_var) {
  int64_t rows = 1;
  for (const LoopAxis& a : axes) rows *= a.extent;
  int64_t bands = 1;
  while (bands < kMostBands && rows + 1 >= 2 * bands * kBandRows) bands *= 2;
  const int64_t wanted = std::clamp<int64_t>(static_cast<int64_t>(flops / size.work), 1, size.most);
  const int64_t in_band = ceil_div(rows, bands);
  bands = ceil_div(rows, in_band);
  const int64_t in_part = ceil_div(chunk.extent, std::clamp<int64_t>(wanted / bands, 1, chunk.extent));
  const int64_t parts = ceil_div(chunk.extent, in_part);
  const LoopAxis task{next_var++, "task", bands * parts}, one{next_var++, "row", in_band},
      piece{next_var++, "part", in_part};
  const Expr band = te::floor_div(task.expr(), Expr(parts)), part = te::floor_mod(task.expr(), Expr(parts));
  te::Substitution names;
  unflatten_into(names, axes, band * Expr(in_band) + one.expr());
  names.var(chunk.var, part * Expr(in_part) + piece.expr());
  const auto length = [](int64_t all, int64_t each, const Expr& number) {
    return all % each == 0 ? Expr(each) : te::min(Expr(each), Expr(all) - number * Expr(each));
  };
  body = substitute(body, names);
  body = Stmt::loop(one.var, one.name, length(rows, in_band, band), LoopKind::Serial, std::move(body));
  body = Stmt::loop(piece.var, piece.name, length(chunk.extent, in_part, part), LoopKind::Serial, std::move(body));
  return Stmt::loop(task.var, task.name, Expr(task.extent), task.extent > 1 ? LoopKind::Parallel : LoopKind::Serial,
                    std::move(body));
}

}  // namespace isomer::compile
