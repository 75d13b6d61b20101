#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ir/op.h"

namespace isomer::ops {
namespace {

struct Box {
  double y1, x1, y2, x2;
  double area() const { return (y2 - y1) * (x2 - x1); }
};

Box box_at(const Tensor& boxes, int64_t at, bool center) {
  const double a = boxes.real(at), b = boxes.real(at + 1), c = boxes.real(at + 2), d = boxes.real(at + 3);
  if (center) return {b - d / 2, a - c / 2, b + d / 2, a + c / 2};
  return {std::min(a, c), std::min(b, d), std::max(a, c), std::max(b, d)};
}

// Intersection over union; 0 for boxes without an area.
double overlap(const Box& a, const Box& b) {
  const double height = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  const double width = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  if (!(height > 0 && width > 0 && a.area() > 0 && b.area() > 0)) return 0;
  return height * width / (a.area() + b.area() - height * width);
}

Expected<std::vector<Type>> infer_non_max_suppression(const ir::OpContext& c) {
  if (c.rank(0) != 3 || c.rank(1) != 3 || (c.dim(0, 2).is_const() && c.dim(0, 2).value() != 4))
    return c.error(fmt::format("expected boxes [B,N,4] and scores [B,C,N], found {} and {}", c.type(0).to_string(),
                               c.type(1).to_string()));
  const auto differ = [&](size_t a, size_t b) {
    return c.dim(0, a).is_const() && c.dim(1, b).is_const() && !(c.dim(0, a) == c.dim(1, b));
  };
  if (differ(0, 0) || differ(1, 2))
    return c.error(
        fmt::format("boxes {} and scores {} do not belong together", c.type(0).to_string(), c.type(1).to_string()));
  for (size_t i = 2; i < 5; ++i)
    if (c.has(i) && (c.rank(i) > 1 || (c.rank(i) == 1 && c.dim(i, 0).is_const() && c.dim(i, 0).value() != 1)))
      return c.error(
          fmt::format("input '{}' must be a scalar, found {}", c.op().inputs[i].name, c.type(i).to_string()));
  if (c.integer("center_point_box") != 0 && c.integer("center_point_box") != 1)
    return c.error(fmt::format("center_point_box is {}, expected 0 or 1", c.integer("center_point_box")));
  return std::vector{c.out(0, Shape{Dim::invalid(), Dim(3)})};
}

double threshold(const ir::OpContext& c, size_t i, double otherwise) {
  return c.has(i) && c.value(i)->size() == 1 ? c.value(i)->real(0) : otherwise;
}

// Positions of the boxes of one class that stay, best first; equal scores by position.
std::vector<int64_t> select(const ir::OpContext& c, int64_t batch, int64_t row, int64_t most) {
  const Tensor &boxes = *c.value(0), &scores = *c.value(1);
  const int64_t n = boxes.dims()[1];
  const bool center = c.flag("center_point_box");
  const double iou = threshold(c, 3, 0), lowest = threshold(c, 4, 0);
  const auto score = [&](int64_t i) { return scores.real(row * n + i); };
  std::vector<int64_t> order;
  for (int64_t i = 0; i < n; ++i)
    if (!c.has(4) || score(i) > lowest) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return score(a) > score(b); });
  std::vector<int64_t> kept;
  std::vector<Box> kept_boxes;
  for (int64_t i : order) {
    if (static_cast<int64_t>(kept.size()) >= most) break;
    const Box box = box_at(boxes, (batch * n + i) * 4, center);
    if (std::any_of(kept_boxes.begin(), kept_boxes.end(), [&](const Box& k) { return overlap(k, box) > iou; }))
      continue;
    kept.push_back(i);
    kept_boxes.push_back(box);
  }
  return kept;
}

Expected<std::vector<Tensor>> non_max_suppression(const ir::OpContext& c) {
  const Tensor& scores = *c.value(1);
  const int64_t most = c.has(2) && c.value(2)->size() == 1 ? c.value(2)->integer(0) : 0;
  // A NaN score compares with nothing; an order needs numbers.
  for (int64_t i = 0; i < scores.size(); ++i)
    if (scores.real(i) != scores.real(i)) return c.error("a score is not a number");
  std::vector<int64_t> found;
  for (int64_t b = 0; b < scores.dims()[0]; ++b)
    for (int64_t k = 0; k < scores.dims()[1]; ++k)
      for (int64_t i : select(c, b, b * scores.dims()[1] + k, most)) found.insert(found.end(), {b, k, i});
  return std::vector{Tensor::of(DType::I64, {static_cast<int64_t>(found.size()) / 3, 3}, found)};
}

}  // namespace

ir::OpDef op_non_max_suppression() {
  ir::OpDef op;
  op.name = "non_max_suppression";
  op.doc = "Picks boxes by score, leaving out those that overlap a better one too much: rows (batch, class, box).";
  op.inputs = {{"boxes", "T", DType::F32},
               {"scores", "T", DType::F32},
               {"max_output_boxes_per_class", "I", DType::I64, ir::Arity::Optional},
               {"iou_threshold", "T", DType::F32, ir::Arity::Optional},
               {"score_threshold", "T", DType::F32, ir::Arity::Optional}};
  op.outputs = {{"selected_indices", "i64"}};
  op.attrs = {{"center_point_box", ir::AttrKind::Int, int64_t{0}}};
  op.infer = infer_non_max_suppression;
  op.kernel = non_max_suppression;
  op.samples = {"non_max_suppression(f32[1,5,4], f32[1,2,5], [3], f32[1] [0.5], f32[1] [0.0])"};
  op.onnx = {{.type = "NonMaxSuppression", .since = {10, 11}, .stable = 11}};
  return op;
}

}  // namespace isomer::ops
