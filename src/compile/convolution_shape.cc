#include "compile/convolution_shape.h"

#include <algorithm>

#include "loop/affine.h"

namespace isomer::compile {

using te::Expr;

namespace {

int64_t extent_of(const ModelStage& s, int id) {
  for (const te::Axis& a : s.axes)
    if (a.id == id) return a.extent.value();
  for (const te::Axis& a : s.body->axes)
    if (a.id == id) return a.extent.value();
  return 1;
}

// The points of the reduction.
int64_t points_of(const ModelStage& s) {
  int64_t n = 1;
  for (const te::Axis& a : s.body->axes) n *= a.extent.value();
  return n;
}

struct AxisStep {
  int axis = -1;
  int64_t step = 1;
};

// A dim of the input that a position and perhaps a tap move along: index = position + tap - padding, each with its step.
bool take_window_dim(const Linear& index, const Contraction& c, AxisStep& position, AxisStep& tap) {
  for (const auto& [axis, by] : index.terms) {
    const bool deep = std::find(c.k.begin(), c.k.end(), axis) != c.k.end();
    AxisStep& taken = deep ? tap : position;
    if (by < 1 || taken.axis >= 0) return false;
    taken = {axis, by};
  }
  return position.axis >= 0;
}

// The frames of a video: as above, or one position that has no axis.
bool take_frames(const Linear& index, const Contraction& c, ConvolutionShape& s) {
  AxisStep frame, through;
  if (!take_window_dim(index, c, frame, through) && frame.axis >= 0) return false;
  if (frame.axis < 0 && (index.terms.size() > 1 || (index.terms.size() == 1 && through.axis < 0))) return false;
  s.frames = frame.axis, s.step_frames = frame.step;
  s.through = through.axis, s.step_through = through.step;
  s.pad_frames = -index.constant;
  s.video = true;
  return true;
}

bool guards_are_padding(const Contraction& c, const ConvolutionShape& s, const StageValue& input) {
  if (c.where->kind == te::Kind::Int) return c.where->integer != 0;
  const auto guards = loop::inequalities(c.where);
  if (!guards) return false;
  std::vector<loop::Affine> allowed;
  std::vector<size_t> dims = {s.row_dim, s.column_dim};
  if (s.video) dims.push_back(s.frame_dim);
  for (const size_t d : dims) {
    const loop::Affine index = loop::affine_of(c.a->args[d]);
    allowed.push_back(index);
    allowed.push_back(loop::add(loop::affine_of(Expr(input.dims[d] - 1)), index, -1));
  }
  return std::all_of(guards->begin(), guards->end(), [&](const loop::Affine& g) {
    return std::any_of(allowed.begin(), allowed.end(), [&](const loop::Affine& a) { return loop::same(a, g); });
  });
}

}  // namespace

std::optional<ConvolutionShape> convolution_shape(const Scene& scene, const Group& group) {
  const Contraction& c = *group.contraction;
  const ModelStage& stage = scene.stage(group.stages[0]);
  const StageValue &input = scene.value(c.a->tensor), &taps = scene.value(c.b->tensor);
  if (input.dims.size() < 4 || taps.dims.size() < 4 || !taps.constant || c.n.size() != 1) return std::nullopt;
  const bool grouped = c.split && c.batch == std::vector{c.split->outer.id} && c.n[0] == c.split->inner.id;
  if (!grouped && (c.split || !c.batch.empty())) return std::nullopt;
  ConvolutionShape s;
  s.outputs = grouped ? c.split->axis : c.n[0];
  if (grouped) s.groups = c.split->outer.extent.value();
  std::vector<size_t> places;            // images, frames, rows and columns, as the input has them
  size_t spare = input.dims.size() - 4;  // dims of one element that nobody moves along: frames of one video
  for (size_t d = 0; d < input.dims.size(); ++d) {
    Linear index = *linear(c.a->args[d]);
    const int64_t by_group = grouped ? index.of(c.split->outer.id) : 0;
    if (by_group != 0) index.terms.erase(c.split->outer.id);
    if (spare > 0 && input.dims[d] == 1 && index.terms.empty() && index.constant == 0) {
      --spare;
      continue;
    }
    const int axis = index.terms.size() == 1 ? index.terms.begin()->first : -1;
    const bool deep = axis >= 0 && std::find(c.k.begin(), c.k.end(), axis) != c.k.end();
    const int64_t last = index.constant + by_group * (s.groups - 1) + extent_of(stage, axis);
    const bool all_inside = index.constant >= 0 && by_group >= 0 && last <= input.dims[d];
    if (deep && s.channels < 0 && all_inside && index.terms.begin()->second == 1)
      s.channels = axis, s.channel_dim = d, s.first_channel = index.constant, s.group_step = by_group;
    else if (by_group == 0)
      places.push_back(d);
    else
      return std::nullopt;
  }
  if (s.channels < 0 || places.size() < 3 || places.size() > 4) return std::nullopt;
  s.column_dim = places.back(), s.row_dim = places[places.size() - 2];
  const auto are_images = [&](size_t d) {
    const Linear index = *linear(c.a->args[d]);
    if (index.constant != 0 || index.terms.size() > 1) return false;
    if (index.terms.empty()) return input.dims[d] == 1;
    const auto [axis, by] = *index.terms.begin();
    return by == 1 && std::find(c.k.begin(), c.k.end(), axis) == c.k.end();
  };
  const bool images = are_images(places[0]);
  if (places.size() == 4 || !images) {
    s.frame_dim = places[places.size() - 3];
    if (!take_frames(*linear(c.a->args[s.frame_dim]), c, s)) return std::nullopt;
  }
  if ((places.size() == 4 && !images) || (grouped && s.video)) return std::nullopt;
  if (images) {
    s.image_dim = places[0];
    const Linear image = *linear(c.a->args[s.image_dim]);
    if (!image.terms.empty()) s.images = image.terms.begin()->first;
  }
  const Linear rows = *linear(c.a->args[s.row_dim]), columns = *linear(c.a->args[s.column_dim]);
  AxisStep row, column, down, across;
  if (!take_window_dim(rows, c, row, down) || !take_window_dim(columns, c, column, across)) return std::nullopt;
  s.rows = row.axis, s.columns = column.axis, s.down = down.axis, s.across = across.axis;
  s.step_rows = row.step, s.step_columns = column.step, s.step_down = down.step, s.step_across = across.step;
  s.pad_rows = -rows.constant, s.pad_columns = -columns.constant;
  s.taps_down = extent_of(stage, s.down);
  s.taps_across = extent_of(stage, s.across);
  s.taps_through = extent_of(stage, s.through);
  // Whatever else is reduced has one point.
  if (extent_of(stage, s.channels) * s.taps_through * s.taps_down * s.taps_across != points_of(stage))
    return std::nullopt;
  s.n = s.images < 0 ? 1 : extent_of(stage, s.images);
  s.oh = extent_of(stage, s.rows);
  s.ow = extent_of(stage, s.columns);
  s.o = extent_of(stage, s.outputs) / s.groups;
  s.c = extent_of(stage, s.channels);
  s.h = input.dims[s.row_dim];
  s.w = input.dims[s.column_dim];
  if (s.video) s.d = input.dims[s.frame_dim], s.od = extent_of(stage, s.frames);
  s.channels_together = scene.layout(c.a->tensor).strides[s.channel_dim] == 1;
  return guards_are_padding(c, s, input) ? std::optional(s) : std::nullopt;
}

}  // namespace isomer::compile
