// The left side of a contraction that is a convolution: windows of a padded copy of the image.
#include <algorithm>

#include "compile/contraction_kernel.h"
#include "compile/finish.h"
#include "compile/rows_apart.h"
#include "te/simplify.h"

namespace isomer::compile {

using loop::LoopKind;
using loop::Stmt;
using te::Expr;

// A convolution whose windows overlap.
void ContractionKernel::take_image() {
  if (!split_ || gathers_) return;
  const std::optional<ConvolutionShape> shape = convolution_shape(scene_, group_);
  if (!shape || shape->video || shape->taps_down * shape->taps_across == 1 || shape->oh == 1 || shape->ow == 1) return;
  if (shape->step_across != 1) return;
  std::vector<int> rows, rows_there;
  for (const int axis : {shape->images, shape->rows, shape->columns})
    if (const auto it = var_of_.find(axis); it != var_of_.end()) rows.push_back(it->second);
  for (const LoopAxis& a : m_.list) rows_there.push_back(a.var);
  if (rows != rows_there) return;
  Image i{*shape};
  i.height = shape->step_rows * (shape->oh - 1) + shape->step_down * (shape->taps_down - 1) + 1;
  i.width = shape->step_columns * (shape->ow - 1) + shape->taps_across;
  i.runs_through = shape->step_rows == 1 && shape->step_columns == 1;
  const int64_t side = shape->ow > kSplitSide ? 2 * kSplitSide : kSplitSide;
  i.grid_width = i.runs_through ? i.width : ceil_div(shape->ow, side) * side;
  i.grid_height = i.runs_through ? i.height : shape->oh;
  if (3 * i.grid_width * i.grid_height > 5 * shape->ow * shape->oh) return;  // most of it would be for nothing
  i.group_step = i.elements();
  if (shape->groups > 1) {
    const int64_t run = shape->taps_across * shape->c, filled = ceil_div(run, unit()) * unit() - run;
    i.group_step = odd_lines(i.elements() + filled, kLineFloats * 2);
  }
  image_ = i;
  const auto place = [&](const LoopAxis& a) {  // rows of taps, taps, channels: as the copy has them
    const int axes[] = {shape->down, shape->across, shape->channels};
    return std::find_if(std::begin(axes), std::end(axes),
                        [&](int axis) {
                          const auto it = var_of_.find(axis);
                          return it != var_of_.end() && it->second == a.var;
                        }) -
           std::begin(axes);
  };
  std::sort(k_.list.begin(), k_.list.end(), [&](const LoopAxis& x, const LoopAxis& y) { return place(x) < place(y); });
}

Expr ContractionKernel::image_row(const Expr& row) const {
  if (image_->runs_through) return row * Expr(row_step_);
  const ConvolutionShape& c = image_->shape;
  const Expr line = te::floor_div(row, Expr(image_->grid_width)), x = te::floor_mod(row, Expr(image_->grid_width));
  const Expr number = te::floor_div(line, Expr(c.oh)), y = te::floor_mod(line, Expr(c.oh));
  return ((number * Expr(image_->height) + y * Expr(c.step_rows)) * Expr(image_->width) + x * Expr(c.step_columns)) *
         Expr(c.c);
}

// A step before: the image in its padding, each number in its two parts, one group of channels behind the other.
void ContractionKernel::image() {
  const ConvolutionShape& c = image_->shape;
  rows_ = Rows::Image;
  row_step_ = c.step_columns * c.c;
  // Behind the end lies what rows of no window read, and first what fills up the last run of the last window: that meets
  // zeros, and must not be NaN.
  const int64_t end = image_->elements(), fill = run_ - c.taps_across * c.c;
  const int64_t last = image_->runs_through ? whole_tiles(rows()) - 1
                                            : ((c.n - 1) * image_->height + (c.oh - 1) * c.step_rows) * image_->width +
                                                  (image_->grid_width - 1) * c.step_columns;
  const int64_t elements = (c.groups - 1) * image_->group_step +
                           std::max(end + fill, (last + (c.taps_down - 1) * c.step_down * image_->width) * c.c + run_);
  Kernel before;
  before.function.name = main_.function.name + "_image";
  open_left(before);
  std::vector<Argument> staged;
  for (const char* name : {"high", "low"}) {
    staged.push_back({scene_.temporary(DType::BF16, elements), std::nullopt});
    const int b =
        add_argument(before, {name, DType::BF16, {elements}, loop::Scope::Argument, true, true}, staged.back());
    (staged.size() == 1 ? gathered_ : gathered_low_) = b;
  }
  const LoopAxis task = fresh("line", c.n * image_->height);
  Stmt line = image_line(task);
  if (fill > 0) {
    const Stmt filled = each_group([&](const Expr& group) {
      return vectors(fill, [&](const Expr& i) {
        const Expr place = group * Expr(image_->group_step) + Expr(end) + i;
        return store_row(te::simplify(place), Expr::real(DType::F32, 0));
      });
    });
    line = Stmt::seq({line, Stmt::branch(te::eq(task.expr(), Expr(task.extent - 1)), filled)});
  }
  before.function.body = loop(task, line, task.extent > 1 ? LoopKind::Parallel : LoopKind::Serial);
  finish(before, scene_, group_, 0);
  before_.push_back(std::move(before));
  gathered_ = add_argument(main_, {"high", DType::BF16, {elements}, loop::Scope::Argument, false}, staged[0]);
  gathered_low_ = add_argument(main_, {"low", DType::BF16, {elements}, loop::Scope::Argument, false}, staged[1]);
}

// `count` elements in vectors: what `body` does for one of them.
Stmt ContractionKernel::vectors(int64_t count, const std::function<Stmt(const Expr&)>& body) {
  std::vector<Stmt> parts;
  const int64_t lanes = std::min<int64_t>(count, 4 * scene_.lanes(DType::F32));
  const auto part = [&](const Expr& start, int64_t length) {
    const LoopAxis lane = fresh("v", length);
    return loop(lane, body(te::simplify(start + lane.expr())), LoopKind::Vector);
  };
  if (count <= 0) return Stmt::seq({});
  if (const int64_t whole = count / lanes; whole > 0) {
    const LoopAxis block = fresh("b", whole);
    parts.push_back(loop(block, part(block.expr() * Expr(lanes), lanes)));
  }
  if (count % lanes > 0) parts.push_back(part(Expr(count / lanes * lanes), count % lanes));
  return Stmt::seq(std::move(parts));
}

Stmt ContractionKernel::each_group(const std::function<Stmt(const Expr&)>& body) {
  const LoopAxis group = fresh("group", image_->shape.groups);
  return group.extent == 1 ? body(Expr(0)) : loop(group, body(group.expr()));
}

// One line of the padded image.
Stmt ContractionKernel::image_line(const LoopAxis& task) {
  const ConvolutionShape& c = image_->shape;
  const Expr line = task.expr();
  const Expr y = te::floor_mod(line, Expr(image_->height)) - Expr(c.pad_rows);
  const Expr number = te::floor_div(line, Expr(image_->height));
  const Expr zero = Expr::real(DType::F32, 0);
  // Pixels of the line that are read at all; a window may end before the image does.
  const int64_t skipped = std::max<int64_t>(0, -c.pad_columns), left = std::max<int64_t>(0, c.pad_columns);
  const int64_t count = std::min(c.w - skipped, image_->width - left);
  const auto place = [&](const Expr& group, int64_t pixel) {
    return group * Expr(image_->group_step) + line * Expr(image_->width * c.c) + Expr(pixel * c.c);
  };
  const auto zeros = [&](int64_t begin, int64_t end) {
    if (begin == end) return Stmt::seq({});
    return each_group([&](const Expr& group) {
      return vectors((end - begin) * c.c,
                     [&](const Expr& i) { return store_row(te::simplify(place(group, begin) + i), zero); });
    });
  };
  const auto copied = [&](const Expr& group, const Expr& x, const Expr& channel) {
    std::vector<Expr> at(scene_.value(c_.a->tensor).dims.size(), Expr(0));
    at[c.image_dim] = number, at[c.row_dim] = y, at[c.column_dim] = Expr(skipped) + x;
    at[c.channel_dim] = Expr(c.first_channel) + group * Expr(c.group_step) + channel;
    return store_row(te::simplify(place(group, left) + x * Expr(c.c) + channel), left_value(at, {task.axis()}));
  };
  Stmt inside;
  const bool pixels_together = c.groups == 1 && scene_.layout(c_.a->tensor).strides[c.column_dim] == c.c;
  if (c.channels_together && pixels_together && !takes_prologue()) {
    inside = vectors(count * c.c, [&](const Expr& i) { return copied(Expr(0), Expr(0), i); });
  } else if (c.channels_together) {
    const LoopAxis x = fresh("x", count);
    inside = loop(x, each_group([&](const Expr& group) {
                    return vectors(c.c, [&](const Expr& channel) { return copied(group, x.expr(), channel); });
                  }));
  } else if (const int64_t together = scene_.lanes(DType::F32); c.c % together == 0) {
    // Channel by channel, every element would be stored by itself: loads from several lines of the image are cheaper.
    const LoopAxis block = fresh("c", c.c / together), x = fresh("x", count);
    const Expr first = block.expr() * Expr(together);
    inside = each_group([&](const Expr& group) {
      const auto lanes = [&](const Expr& lane) { return copied(group, x.expr(), first + lane); };
      return loop(block, loop(x, vectors(together, lanes)));
    });
  } else {
    const LoopAxis channel = fresh("c", c.c);
    inside = each_group([&](const Expr& group) {
      return loop(channel, vectors(count, [&](const Expr& x) { return copied(group, x, channel.expr()); }));
    });
  }
  const Stmt part = Stmt::seq({zeros(0, left), inside, zeros(left + count, image_->width)});
  return Stmt::branch(Expr(0) <= y && y < Expr(c.h), part, zeros(0, image_->width));
}

// The axes of the result along the rows of an image, as long as the padded image is.
std::vector<LoopAxis> ContractionKernel::image_axes() const {
  std::vector<LoopAxis> out = out_m_.list;
  size_t i = out.size();
  if (image_->shape.ow > 1) out[--i].extent = image_->grid_width;
  if (image_->shape.oh > 1) out[--i].extent = image_->grid_height;
  return out;
}

Expr ContractionKernel::begins_window(const Expr& row) const {
  const ConvolutionShape& c = image_->shape;
  const Expr line = te::floor_div(row, Expr(image_->grid_width));
  const Expr inside = te::floor_mod(row, Expr(image_->grid_width)) < Expr(c.ow);
  if (c.n == 1 || image_->grid_height == c.oh) return inside;
  return inside && te::floor_mod(line, Expr(image_->grid_height)) < Expr(c.oh);
}

}  // namespace isomer::compile
