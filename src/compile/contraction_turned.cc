// Rows of the left side gathered with positions side by side: [depth][rows]. Where few elements of a row lie together in memory and
// neighbouring rows do (the first layer of a network, on an image of one to four channels), this copies whole lines.
#include <fmt/format.h>

#include <algorithm>

#include "compile/contraction_kernel.h"
#include "loop/affine.h"
#include "te/simplify.h"

namespace isomer::compile {

using loop::LoopKind;
using loop::Stmt;
using te::Expr;

namespace {

constexpr int64_t kShortRun = 16;      // elements of a row that lie together; more are copied well as they are
constexpr int64_t kFurthestStep = 4;   // from row to row
constexpr int64_t kDeep = 64;          // beyond, lines with steps above one are picked apart too often
constexpr int64_t kMostWritten = 128;  // taps whose lines are written out, because each has borders of its own

int64_t floor_quotient(int64_t a, int64_t b) { return a >= 0 ? a / b : -ceil_div(-a, b); }

}  // namespace

// The guards over loop variables; nothing when they are not understood.
std::optional<std::vector<loop::Affine>> ContractionKernel::guards() const {
  if (c_.where->kind == te::Kind::Int) return std::vector<loop::Affine>{};
  return loop::inequalities(named(c_.where));
}

Expr ContractionKernel::named(const Expr& e) const {
  te::Substitution names;
  for (const auto& [id, var] : var_of_) names.var(id, Expr(te::Axis{var, fmt::format("x{}", var), Dim(1)}));
  const auto single = [&](const std::vector<te::Axis>& axes) {
    for (const te::Axis& a : axes)
      if (!var_of_.count(a.id)) names.var(a.id, Expr(0));
  };
  single(axes_of(c_, stage()));
  single(stage().body->axes);
  return names(e);
}

// The axes of the depth that say, with the innermost row axis, where a line has borders.
std::vector<LoopAxis> ContractionKernel::border_axes() const {
  std::vector<LoopAxis> out;
  const auto all = guards();
  if (!all) return out;
  for (const LoopAxis& a : k_.list)
    if (std::any_of(all->begin(), all->end(), [&](const loop::Affine& g) {
          return g.coefficient(m_.list.back().var) != 0 && g.coefficient(a.var) != 0;
        }))
      out.push_back(a);
  return out;
}

bool ContractionKernel::turns() const {
  if (bytes_ || narrow_ || image_ || m_.list.empty() || k_.list.empty() || takes_prologue()) return false;
  const LoopAxis& x = m_.list.back();
  const int64_t by = left_.at.of(x.var);
  if (x.extent < kShortRun || by < 1 || by > kFurthestStep) return false;
  if (by > 1 && k_.total() > kDeep) return false;
  int64_t run = 1;
  for (size_t i = k_.list.size(); i-- > 0 && left_.at.of(k_.list[i].var) == run;) run *= k_.list[i].extent;
  if (run >= kShortRun) return false;
  const auto all = guards();
  if (!all) return false;
  int64_t written = 1;
  const std::vector<LoopAxis> borders = border_axes();
  for (const LoopAxis& a : borders) written *= a.extent;
  if (written > kMostWritten) return false;
  return std::all_of(all->begin(), all->end(), [&](const loop::Affine& g) {
    if (g.coefficient(x.var) == 0) return true;
    return std::all_of(g.terms.begin(), g.terms.end(), [&](const auto& t) {
      if (t.atom->kind != te::Kind::Var) return false;
      return t.atom->var == x.var ||
             std::any_of(borders.begin(), borders.end(), [&](const LoopAxis& a) { return a.var == t.atom->var; });
    });
  });
}

int64_t ContractionKernel::turned_lines() const {
  const int64_t line = m_.list.back().extent, all = m_.total() / line;
  return block_rows_ % line == 0 ? block_rows_ / line : std::min(all, (block_rows_ - 1) / line + 2);
}

// Where the block's first row stands in the lines that are copied for it.
Expr ContractionKernel::turned_start(const Expr& first) const {
  return te::floor_mod(first, Expr(m_.list.back().extent));
}

// Where the guards let the innermost row axis go, with these taps.
std::pair<int64_t, int64_t> ContractionKernel::open_part(const std::map<int, int64_t>& taps) const {
  const LoopAxis& x = m_.list.back();
  int64_t low = 0, high = x.extent;
  const auto all = guards();
  for (const loop::Affine& g : *all) {
    const int64_t by = g.coefficient(x.var);
    if (by == 0) continue;
    int64_t rest = g.constant;
    for (const auto& t : g.terms)
      if (t.atom->var != x.var) rest += t.coefficient * taps.at(t.atom->var);
    if (by > 0) low = std::max(low, -floor_quotient(rest, by));
    if (by < 0) high = std::min(high, floor_quotient(rest, -by) + 1);
  }
  low = std::clamp<int64_t>(low, 0, x.extent);
  return {low, std::clamp(high, low, x.extent)};
}

// The line of one point of the depth.
Stmt ContractionKernel::turned_line(const Expr& value, const Expr& where, const Expr& to, int64_t low, int64_t high) {
  const LoopAxis& x = m_.list.back();
  const auto fill = [&](int64_t from, int64_t until) {
    return vectors(until - from, [&](const Expr& at) {
      return Stmt::store(gathered_, {te::simplify(to + Expr(from) + at)}, Expr::literal(DType::F32, 0));
    });
  };
  if (low == high) return fill(0, x.extent);
  const Stmt inside = vectors(high - low, [&](const Expr& at) {
    te::Substitution place;
    place.var(x.var, te::simplify(Expr(low) + at));
    return Stmt::store(gathered_, {te::simplify(to + Expr(low) + at)}, te::simplify(place(value)));
  });
  const Stmt whole = Stmt::seq({fill(0, low), inside, fill(high, x.extent)});
  te::Substitution place;
  place.var(x.var, Expr(low));
  const Expr asked = te::simplify(place(where));
  if (asked->kind == te::Kind::Int) return asked->integer != 0 ? whole : fill(0, x.extent);
  return Stmt::branch(asked, whole, fill(0, x.extent));
}

// The lines in which rows first .. first + count lie.
Stmt ContractionKernel::gather_turned(const Expr& first, const Expr& count, te::Substitution& batch) {
  const LoopAxis& x = m_.list.back();
  const LoopAxis line = fresh("line", turned_lines());
  const bool whole = block_rows_ % x.extent == 0;
  const Expr first_line = te::floor_div(first, Expr(x.extent));
  const Expr lines = whole ? te::floor_div(count, Expr(x.extent))
                           : te::floor_div(first + count - Expr(1), Expr(x.extent)) - first_line + Expr(1);
  te::Substitution rows;
  unflatten_into(rows, {m_.list.begin(), m_.list.end() - 1}, first_line + line.expr());
  const Expr value = left_element(), where = named(c_.where);
  const std::vector<LoopAxis> borders = border_axes();
  const auto written = [&](const LoopAxis& a) {
    return std::any_of(borders.begin(), borders.end(), [&](const LoopAxis& b) { return a.var == b.var; });
  };
  Expr number(0);
  for (const LoopAxis& a : k_.list) number = number * Expr(a.extent) + a.expr();
  const Expr to = number * Expr(turned_step_) + line.expr() * Expr(x.extent);
  std::vector<Stmt> parts;
  std::map<int, int64_t> taps;
  for (const LoopAxis& a : borders) taps[a.var] = 0;
  while (true) {
    te::Substitution at;
    for (const auto& [var, n] : taps) at.var(var, Expr(n));
    const auto here = [&](const Expr& e) { return te::simplify(batch(rows(at(e)))); };
    const auto [low, high] = open_part(taps);
    parts.push_back(turned_line(here(value), here(where), here(to), low, high));
    size_t d = borders.size();
    while (d > 0 && ++taps[borders[d - 1].var] == borders[d - 1].extent) taps[borders[--d].var] = 0;
    if (d == 0) break;
  }
  Stmt body = loop(line, Stmt::seq(std::move(parts)), LoopKind::Serial, te::simplify(lines));
  for (size_t i = k_.list.size(); i-- > 0;)
    if (!written(k_.list[i])) body = loop(k_.list[i], std::move(body));
  return body;
}

}  // namespace isomer::compile
