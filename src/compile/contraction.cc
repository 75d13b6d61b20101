// Contractions as tiles of a tensor intrinsic. One scheme for matrix products, batched ones and convolutions.
#include <fmt/format.h>

#include <algorithm>

#include "compile/contraction_kernel.h"
#include "compile/epilogue.h"
#include "compile/finish.h"
#include "compile/product_cost.h"
#include "te/simplify.h"

namespace isomer::compile {

using loop::LoopKind;
using loop::Stmt;
using te::Expr;

namespace {

constexpr int64_t kShortDepth = 512;
constexpr int64_t kNearPlaces = 4, kFarPlaces = 256;  // elements: within a line or two, and of a page each
constexpr int64_t kFetchRows = 5;                     // fewer rows read the right side as fast as memory gives it

}  // namespace

bool one_step(const Linear& at, const Axes& axes) {
  for (size_t i = axes.list.size(); i-- > 1;)
    if (at.of(axes.list[i - 1].var) != at.of(axes.list[i].var) * axes.list[i].extent) return false;
  return true;
}
int64_t step(const Linear& at, const Axes& axes) { return axes.list.empty() ? 0 : at.of(axes.list.back().var); }

std::vector<int64_t> offsets(const Linear& at, const Axes& axes) {
  std::vector<int64_t> out = {0};
  for (const LoopAxis& a : axes.list) {
    std::vector<int64_t> next;
    next.reserve(out.size() * static_cast<size_t>(a.extent));
    for (const int64_t o : out)
      for (int64_t i = 0; i < a.extent; ++i) next.push_back(o + i * at.of(a.var));
    out = std::move(next);
  }
  return out;
}

Expr expr_of(const Linear& at) {
  Expr sum(at.constant);
  for (const auto& [var, c] : at.terms) sum = sum + Expr(te::Axis{var, fmt::format("x{}", var), Dim(1)}) * Expr(c);
  return sum;
}

void ContractionKernel::analyse() {
  if (accesses_) return;
  name_axes();
  accesses_.emplace(scene_, group_, group_.rows, main_);
  left_ = side(c_.a);
  take_image();
  sizes();
}

bool ContractionKernel::without_image() {
  const std::optional<ConvolutionShape> shape = convolution_shape(scene_, group_);
  gathers_ = true;
  return shape && !shape->video && shape->groups == 1 && shape->taps_down * shape->taps_across > 1 &&
         shape->step_across == 1;
}

std::vector<Kernel> ContractionKernel::make() {
  analyse();
  left();
  right();
  epilogue();
  main_.function.body = tasks();
  finish(main_, scene_, group_,
         2.0 * static_cast<double>(batch_.total() * m_.total() * n_.total()) * static_cast<double>(k_.total()));
  std::vector<Kernel> out = std::move(before_);
  out.push_back(std::move(main_));
  return out;
}

// Rows, columns and batch in the order in which the result stores them; depth so that the left side runs along memory.
void ContractionKernel::name_axes() {
  const Layout& layout = scene_.layout(last().value);
  std::vector<int> stored;  // axis ids of the contraction's stage, outermost first
  for (const int d : layout.order) {
    const int id = last().axes[static_cast<size_t>(d)].id;
    const auto& ids = group_.rows.back();
    const auto it = std::find(ids.begin(), ids.end(), id);
    if (it == ids.end()) continue;
    const int axis = group_.rows[0][static_cast<size_t>(it - ids.begin())];
    if (c_.split && axis == c_.split->axis) {
      stored.push_back(c_.split->outer.id);
      stored.push_back(c_.split->inner.id);
    } else {
      stored.push_back(axis);
    }
  }
  const std::vector<te::Axis> axes = axes_of(c_, stage());
  const auto take = [&](const std::vector<int>& wanted, Axes& to) {
    for (const int id : stored)
      if (std::find(wanted.begin(), wanted.end(), id) != wanted.end())
        for (const te::Axis& a : axes)
          if (a.id == id && a.extent.value() > 1) {
            to.list.push_back(fresh(a.name, a.extent.value()));
            var_of_[id] = to.list.back().var;
          }
  };
  take(c_.batch, batch_);
  take(c_.m, m_);
  take(c_.n, n_);
  std::vector<std::pair<int64_t, te::Axis>> depth;
  const StageValue& a = scene_.value(c_.a->tensor);
  for (const te::Axis& x : stage().body->axes) {
    if (x.extent.value() == 1) continue;
    int64_t by = 0;
    for (size_t d = 0; d < a.dims.size(); ++d)
      by += linear(c_.a->args[d])->of(x.id) * scene_.layout(c_.a->tensor).strides[d];
    depth.emplace_back(-std::abs(by), x);
  }
  std::stable_sort(depth.begin(), depth.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
  for (const auto& [by, x] : depth) {
    k_.list.push_back(fresh(x.name, x.extent.value()));
    var_of_[x.id] = k_.list.back().var;
  }
}

Address ContractionKernel::side(const Expr& read) {
  Address out;
  const Layout& layout = scene_.layout(read->tensor);
  for (size_t d = 0; d < read->args.size(); ++d) {
    const Linear index = *linear(read->args[d]);
    out.at.constant += index.constant * layout.strides[d];
    for (const auto& [axis, by] : index.terms)
      if (const auto it = var_of_.find(axis); it != var_of_.end()) out.at.terms[it->second] += by * layout.strides[d];
  }
  return out;
}

int ContractionKernel::add_argument(Kernel& kernel, loop::Buffer buffer, Argument argument) {
  kernel.function.buffers.push_back(std::move(buffer));
  kernel.arguments.push_back(std::move(argument));
  return static_cast<int>(kernel.function.buffers.size()) - 1;
}

Expr ContractionKernel::flat_batch() const {
  Expr b(0);
  for (const LoopAxis& a : batch_.list) b = b * Expr(a.extent) + a.expr();
  return b;
}

// What is stored for each element of a tile, as an expression of the tile's result and of rows and columns.
void ContractionKernel::epilogue() {
  auto& buffers = main_.function.buffers;
  result_ = static_cast<int>(buffers.size());
  const int64_t results = chunked() ? panels_per_task_ * ceil_div(block_rows_, tile_rows_) : 1;
  buffers.push_back(
      {"tile", bytes_ ? DType::I32 : DType::F32, {results * tile_rows_ * nr_}, loop::Scope::Scratch, true});
  result_start_ = fresh("s", results * tile_rows_ * nr_);
  row_in_tile_ = fresh("r", tile_rows_);
  lane_ = fresh("c", nr_);
  const std::vector<te::Axis> scope = {row_in_tile_.axis(), lane_.axis(), result_start_.axis()};
  const Expr place = te::simplify(result_start_.expr() + row_in_tile_.expr() * Expr(nr_) + lane_.expr(), scope);
  Epilogue e = epilogue_of(scene_, group_, *accesses_, result_, place, scope, next_var_);
  out_buffer_ = e.buffer;
  out_body_ = e.body;
  out_address_ = e.address;
  if (c_.split) {
    const LoopAxis whole = e.axes.at(c_.split->axis);
    const LoopAxis outer = fresh(c_.split->outer.name, c_.split->outer.extent.value());
    const LoopAxis inner = fresh(c_.split->inner.name, c_.split->inner.extent.value());
    te::Substitution parts;
    parts.var(whole.var, outer.expr() * Expr(inner.extent) + inner.expr());
    for (Expr* x : {&out_body_, &out_address_})
      *x = te::simplify(parts(*x), std::vector<te::Axis>{outer.axis(), inner.axis()});
    e.axes.erase(c_.split->axis);
    e.axes[c_.split->outer.id] = outer;
    e.axes[c_.split->inner.id] = inner;
  }
  const auto renamed = [&](const Axes& axes) {
    Axes out;
    for (const LoopAxis& a : axes.list)
      for (const auto& [id, axis] : e.axes)
        if (const auto v = var_of_.find(id); v != var_of_.end() && v->second == a.var) out.list.push_back(axis);
    return out;
  };
  out_batch_ = renamed(batch_), out_m_ = renamed(m_), out_n_ = renamed(n_);
  for (Axes* axes : {&out_batch_, &out_m_, &out_n_})
    if (!image_ || axes != &out_m_) join_axes(axes->list, {&out_body_}, {&out_address_}, next_var_);
}

// Where the results do not stay in the second cache and the depth is short, waiting for what the epilogue reads and writes is
// a good part of the time: it is asked for before the products start. Not the one line that a row of a group of channels has:
// asking takes as long as it saves.
Stmt ContractionKernel::fetch_results(te::Substitution& at, int64_t columns, const Expr& height) {
  const int64_t bytes = 4 * batch_.total() * m_.total() * n_.total();
  if (near_ || has_groups() || bytes <= scene_.target.l2_bytes / 4 || k_.total() > kShortDepth) return {};
  std::vector<std::pair<int, Expr>> places = {{out_buffer_, out_address_}};
  te::for_each_node(out_body_, [&](const Expr& e) {
    if (e->kind == te::Kind::Read && e->tensor != result_ && e->args.size() == 1)
      places.emplace_back(e->tensor, e->args[0]);
  });
  std::vector<Stmt> parts;
  for (const auto& [buffer, place] : places) {
    const Expr here = te::simplify(at(place));
    const std::vector<int> moving = te::free_vars(here);
    if (std::find(moving.begin(), moving.end(), row_in_tile_.var) == moving.end()) continue;
    for (int64_t c = 0; c < columns; c += 16) {
      te::Substitution column;
      column.var(lane_.var, Expr(c));
      parts.push_back(Stmt::prefetch(buffer, {te::simplify(column(here))}));
    }
  }
  return parts.empty() ? Stmt() : loop(row_in_tile_, Stmt::seq(std::move(parts)), LoopKind::Serial, height);
}

std::vector<loop::TileOperand> ContractionKernel::operands(const Expr& left_at, const Expr& right_at,
                                                           int64_t right_depth, int64_t steps,
                                                           const Expr& result) const {
  const int rows = rows_ == Rows::InPlace ? left_.buffer : gathered_;
  if (bytes_)
    return {{rows, {left_at}, {row_step_, 0, 4, 1}},
            {right_.buffer, {right_at}, {0, 4, 4 * nr_, 1}},
            {result_, {result}, {nr_, 1, 0, 0}}};
  if (narrow_) {
    const auto byte = [&](int64_t n) {
      return loop::TileOperand{right_.buffer, {te::simplify(right_at + Expr(n))}, {0, 3, 3 * nr_}};
    };
    return {{rows, {left_at}, {row_step_, 0, 1}}, byte(0), byte(1), byte(2), {result_, {result}, {nr_, 1, 0}}};
  }
  if (!split_)
    return {{rows, {left_at}, {row_step_, 0, rows_ == Rows::Turned ? turned_step_ : 1}},
            {right_.buffer, {right_at}, {0, 1, right_depth}},
            {result_, {result}, {nr_, 1, 0}}};
  const Expr low = te::simplify(right_at + Expr(steps * nr_));
  const int64_t line = image_ ? image_->shape.step_down * image_->width * image_->shape.c : 0;
  const std::vector<int64_t> left = {row_step_, 0, line, 2, 1};
  const std::vector<int64_t> right = {0, 2, run_ * nr_, 2 * nr_, 1};
  return {{rows, {left_at}, left},
          {gathered_low_, {left_at}, left},
          {right_.buffer, {right_at}, right},
          {right_.buffer, {low}, right},
          {result_, {result}, {nr_, 1, 0, 0, 0}}};
}

Expr ContractionKernel::height_of(const Expr& start, const Expr& rows) const {
  const bool even = block_rows_ % tile_rows_ == 0 && this->rows() % tile_rows_ == 0;
  return even ? Expr(tile_rows_) : te::min(Expr(tile_rows_), rows - start);
}

Expr ContractionKernel::result_at(const Panel& p, const LoopAxis& tile) const {
  if (!chunked()) return Expr(0);
  return (p.local * Expr(tile.extent) + tile.expr()) * Expr(tile_rows_ * nr_);
}

// Rows of the last tile, in whole registers, where it needs fewer than the others; or 0. Blocks begin at whole tiles.
int64_t ContractionKernel::short_tile() const {
  const int64_t last = ceil_div(rows() % tile_rows_, kSplitSide) * kSplitSide;
  return split_ && last < tile_rows_ && (!image_ || image_->runs_through) ? last : 0;
}

// One tile, over `steps` of the depth.
Stmt ContractionKernel::accumulate(const Panel& p, const LoopAxis& tile, int64_t from, int64_t steps) {
  const Expr start = tile.expr() * Expr(tile_rows_), result = te::simplify(result_at(p, tile));
  // Tile registers are computed whole, whatever of them is stored.
  const Expr height = whole_ ? Expr(tile_rows_) : height_of(start, p.rows);
  const int64_t columns = whole_ ? ceil_div(p.columns, kSplitSide) * kSplitSide : p.columns;
  te::Substitution point;  // the first row and column of the tile
  te::Substitution zero_depth;
  for (const LoopAxis& a : k_.list) zero_depth.var(a.var, Expr(0));
  unflatten_into(point, m_.list, p.first + start);
  unflatten_into(point, n_.list, p.number * Expr(nr_));
  Expr left_at, right_at;
  if (rows_ == Rows::InPlace) left_at = point(zero_depth(expr_of(left_.at)));
  if (rows_ == Rows::Gathered) left_at = start * Expr(row_step_);
  if (rows_ == Rows::Turned) left_at = turned_start(p.first) + start;
  if (rows_ == Rows::Image) left_at = flat_batch() * Expr(image_->group_step) + image_row(p.first + start);
  if (rows_ == Rows::Staged)
    left_at = (flat_batch() * Expr(whole_tiles(m_.total())) + p.first + start) * Expr(row_step_);
  int64_t right_depth = nr_;
  const int64_t panel_elements = depth() * nr_ * parts();
  if (packed_right_) {
    right_at = (flat_batch() * Expr(panels_) + p.number) * Expr(panel_elements) + Expr(from * nr_ * parts());
  } else {
    right_at = point(zero_depth(expr_of(right_.at)));
    right_depth = step(right_.at, k_);
  }
  // The tiles of this panel share the work of fetching the next one.
  std::optional<loop::TileOperand> ahead;
  if (packed_right_ && !near_ && m_.total() >= kFetchRows) {
    const int64_t by = ceil_div(nr_ * parts() * together(), tile.extent);
    const Expr next = right_at + Expr(panel_elements) + tile.expr() * Expr(steps / together() * by);
    ahead = loop::TileOperand{right_.buffer, {te::simplify(next)}, {0, 0, by}};
  }
  const LoopAxis row = fresh("r", tile_rows_), column = fresh("c", columns);
  const Expr place = te::simplify(result + row.expr() * Expr(nr_) + column.expr());
  const auto tile_of = [&](const Expr& high) {
    std::vector<Expr> extents = {high, Expr(columns)};
    if (split_) extents.emplace_back(runs_);
    extents.emplace_back(steps / runs_ / together());
    if (together() > 1) extents.emplace_back(together());
    const Stmt product = Stmt::tile(
        tile_, operands(te::simplify(left_at + Expr(from)), te::simplify(right_at), right_depth, steps, result),
        std::move(extents), ahead);
    if (from > 0) return product;
    const Expr zero = Expr::literal(bytes_ ? DType::I32 : DType::F32, 0);
    const Stmt clear = loop(column, Stmt::store(result_, {place}, zero), LoopKind::Vector);
    return Stmt::seq({loop(row, clear, LoopKind::Serial, high), product});
  };
  const int64_t least = short_tile();
  if (least == 0) return tile_of(height);
  return Stmt::branch(p.rows - start <= Expr(least), tile_of(Expr(least)), tile_of(height));
}

// What the epilogue's variables are for an element of a tile.
te::Substitution ContractionKernel::result_names(const Panel& p, const LoopAxis& tile) const {
  te::Substitution out;
  out.var(result_start_.var, result_at(p, tile));
  const Expr row = p.first + tile.expr() * Expr(tile_rows_) + row_in_tile_.expr();
  unflatten_into(out, image_ ? image_axes() : out_m_.list, row);
  unflatten_into(out, out_n_.list, p.number * Expr(nr_) + lane_.expr());
  unflatten_into(out, out_batch_.list, flat_batch());
  return out;
}

// One tile, through the epilogue.
Stmt ContractionKernel::store(const Panel& p, const LoopAxis& tile) {
  const Expr start = tile.expr() * Expr(tile_rows_), row = p.first + start + row_in_tile_.expr();
  te::Substitution out = result_names(p, tile);
  const Expr place = te::simplify(out(out_address_));
  const Stmt stored = Stmt::store(out_buffer_, {place}, te::simplify(out(out_body_)));
  const Expr height = height_of(start, p.rows);
  Stmt one_row = loop(lane_, stored, LoopKind::Vector, Expr(p.columns));
  if (image_) one_row = Stmt::branch(begins_window(row), one_row);
  const Stmt by_rows = loop(row_in_tile_, one_row, LoopKind::Serial, height);
  if (!rows_together(place) || p.columns == 1) return by_rows;
  const Stmt by_columns = loop(lane_, loop(row_in_tile_, stored, LoopKind::Vector), LoopKind::Serial, Expr(p.columns));
  return height->kind == te::Kind::Int ? by_columns
                                       : Stmt::branch(te::eq(height, Expr(tile_rows_)), by_columns, by_rows);
}

// Whether neighbouring rows of a tile are stored side by side, or nearly so, and columns are not: a row-major result of a
// convolution, or a phase of one, whose columns, stored one by one, push each other out of the first cache.
bool ContractionKernel::rows_together(const Expr& place) const {
  if (image_ || tile_rows_ < 4) return false;
  const loop::Affine at = loop::affine_of(place);
  const int64_t column = at.coefficient(lane_.var);
  if (at.coefficient(row_in_tile_.var) == 1 && column == 1) return false;
  bool one_apart = true;
  for (const loop::Affine::Term& t : at.terms) {
    if (!loop::uses(t.atom, row_in_tile_.var)) continue;
    const bool plain = t.atom->kind == te::Kind::Var;
    one_apart = one_apart && plain && t.coefficient == 1;
    // A new line of the image may begin within a tile.
    if (t.atom->kind == te::Kind::Binary && t.atom->binary == te::BinaryOp::FloorDiv) continue;
    const bool within = t.atom->kind == te::Kind::Binary && t.atom->binary == te::BinaryOp::FloorMod;
    if ((!plain && !within) || t.coefficient < 1 || t.coefficient > kNearPlaces) return false;
  }
  return one_apart ? at.coefficient(row_in_tile_.var) == 1 : column >= kFarPlaces;
}

// All tiles of one panel of columns: clear, accumulate over the depth, store through the epilogue.
Stmt ContractionKernel::panel(const Panel& p) {
  const LoopAxis tile = fresh("tile", ceil_div(block_rows_, tile_rows_));
  const Expr start = tile.expr() * Expr(tile_rows_);
  te::Substitution out = result_names(p, tile);
  std::vector<Stmt> parts = {accumulate(p, tile, 0, depth()), store(p, tile)};
  if (Stmt fetched = fetch_results(out, p.columns, height_of(start, p.rows)); !fetched.empty())
    parts.insert(parts.begin(), fetched);
  const Expr tiles = te::floor_div(p.rows + Expr(tile_rows_ - 1), Expr(tile_rows_));
  return loop(tile, Stmt::seq(std::move(parts)), LoopKind::Serial, te::simplify(tiles));
}

// Panel after panel; or a chunk of the depth after the other, so that what tiles read of the rows stays in the second cache
// while all panels of the task pass.
Stmt ContractionKernel::all_panels(const LoopAxis& p, const Expr& count, const Panel& one) {
  if (!chunked()) return loop(p, panel(one), LoopKind::Serial, count);
  const Expr tiles = te::simplify(te::floor_div(one.rows + Expr(tile_rows_ - 1), Expr(tile_rows_)));
  const LoopAxis tile = fresh("tile", ceil_div(block_rows_, tile_rows_));
  const auto each = [&](Stmt s) {
    return loop(p, loop(tile, std::move(s), LoopKind::Serial, tiles), LoopKind::Serial, count);
  };
  std::vector<Stmt> parts;
  for (int64_t from = 0; from < depth(); from += chunk_)
    parts.push_back(each(accumulate(one, tile, from, std::min(chunk_, depth() - from))));
  parts.push_back(each(store(one, tile)));
  return Stmt::seq(std::move(parts));
}

Expr ContractionKernel::block_start(const Expr& block) const {
  if (!uneven_) return block * Expr(block_rows_);
  return te::floor_div(block * Expr(ceil_div(rows(), tile_rows_)), Expr(blocks_)) * Expr(tile_rows_);
}

Stmt ContractionKernel::tasks() {
  const LoopAxis task = fresh("task", batch_.total() * blocks_ * splits_);
  const Expr one = rows_first_ ? te::floor_div(task.expr(), Expr(batch_.total())) : task.expr();
  const int64_t inner = columns_first_ ? blocks_ : splits_, outer = columns_first_ ? splits_ : blocks_;
  const Expr fast = te::floor_mod(one, Expr(inner));
  const Expr slow = te::floor_mod(te::floor_div(one, Expr(inner)), Expr(outer));
  const Expr split = columns_first_ ? slow : fast, block = columns_first_ ? fast : slow;
  te::Substitution batch;
  unflatten_into(batch, batch_.list,
                 rows_first_ ? te::floor_mod(task.expr(), Expr(batch_.total()))
                             : te::floor_div(task.expr(), Expr(splits_ * blocks_)));
  const Expr first = te::simplify(block_start(block), std::vector<te::Axis>{task.axis()});
  const int64_t m = this->rows();
  const Expr rows = uneven_                ? te::min(block_start(block + Expr(1)), Expr(m)) - first
                    : m % block_rows_ == 0 ? Expr(block_rows_)
                                           : te::min(Expr(block_rows_), Expr(m) - first);
  std::vector<Stmt> parts;
  if (rows_ == Rows::Gathered) parts.push_back(gather_rows(main_, first, rows, Expr(0), batch));
  if (rows_ == Rows::Turned) parts.push_back(gather_turned(first, rows, batch));
  const int64_t whole = n_.total() / nr_, rest = n_.total() % nr_;
  const Expr begin = te::simplify(split * Expr(panels_per_task_), std::vector<te::Axis>{task.axis()});
  if (whole > 0) {
    const LoopAxis p = fresh("panel", std::min(panels_per_task_, whole));
    const Expr count = whole % panels_per_task_ == 0 && whole == panels_
                           ? Expr(panels_per_task_)
                           : te::max(Expr(0), te::min(Expr(panels_per_task_), Expr(whole) - begin));
    parts.push_back(all_panels(p, te::simplify(count), {begin + p.expr(), p.expr(), nr_, first, rows}));
  }
  if (rest > 0) {
    Stmt tail = panel({Expr(whole), Expr(0), rest, first, rows});
    parts.push_back(splits_ == 1 ? tail : Stmt::branch(te::eq(split, Expr(splits_ - 1)), tail));
  }
  Stmt body = substitute(Stmt::seq(std::move(parts)), batch);
  return loop(task, body, task.extent > 1 ? LoopKind::Parallel : LoopKind::Serial);
}

}  // namespace isomer::compile
