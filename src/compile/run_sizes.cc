#include "compile/run_sizes.h"

#include <algorithm>

#include "compile/bounds.h"
#include "compile/function_writer.h"
#include "compile/step_loops.h"

namespace isomer::compile {

using loop::LoopKind;
using loop::Stmt;
using te::Expr;

namespace {

std::vector<Expr> sizes_in(FunctionWriter& w, const Shape& shape) {
  const std::vector<std::string> symbols = symbols_of(shape);
  std::vector<int> numbers;
  for (size_t i = 0; i < symbols.size(); ++i) numbers.push_back(w.argument(DType::I64, {1}, false));
  std::vector<Expr> out;
  for (const Dim& d : shape.dims())
    out.push_back(size_in_run(d, [&](const std::string& name) {
      const auto at = std::find(symbols.begin(), symbols.end(), name) - symbols.begin();
      return w.read(numbers[static_cast<size_t>(at)], {Expr(0)});
    }));
  return out;
}

}  // namespace

std::vector<std::string> symbols_of(const Shape& shape) {
  std::vector<std::string> all, out;
  for (const Dim& d : shape.dims())
    if (!d.is_const()) d.symbols(all);
  for (const std::string& s : all)
    if (std::find(out.begin(), out.end(), s) == out.end()) out.push_back(s);
  return out;
}

loop::Function pack_loops(DType type, const std::vector<int64_t>& bounds, const Shape& shape, const std::string& name) {
  const DType bits = bits_of(type);
  int64_t elements = 1;
  for (const int64_t d : bounds) elements *= d;
  FunctionWriter w("pack");
  const int from = w.argument(bits, bounds, false), to = w.argument(bits, {elements}, true), at = w.local(DType::I64);
  const std::vector<Expr> sizes = sizes_in(w, shape);
  std::vector<te::Axis> axes;
  std::vector<Expr> place;
  for (const int64_t d : bounds) place.emplace_back(axes.emplace_back(w.axis(d)));
  Stmt body = Stmt::seq(
      {Stmt::store(to, {w.number(at)}, w.read(from, place)), FunctionWriter::set(at, w.number(at) + Expr(1))});
  for (size_t d = axes.size(); d-- > 0;)
    body = Stmt::loop(axes[d].id, axes[d].name, te::min(sizes[d], Expr(bounds[d])), LoopKind::Serial, std::move(body));
  loop::Function f = std::move(w).finish(Stmt::seq({FunctionWriter::set(at, Expr(0)), body}));
  f.origin = {name};
  return f;
}

loop::Function dims_loops(const Shape& shape, const std::string& name) {
  FunctionWriter w("dims");
  const int to = w.argument(DType::I64, {static_cast<int64_t>(shape.rank())}, true);
  const std::vector<Expr> sizes = sizes_in(w, shape);
  std::vector<Stmt> all;
  for (size_t d = 0; d < sizes.size(); ++d) all.push_back(Stmt::store(to, {Expr(static_cast<int64_t>(d))}, sizes[d]));
  loop::Function f = std::move(w).finish(Stmt::seq(all));
  f.origin = {name};
  return f;
}

}  // namespace isomer::compile
