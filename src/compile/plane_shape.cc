#include "compile/plane_shape.h"

#include <algorithm>
#include <numeric>

#include "compile/window_shape.h"
#include "te/scalar.h"
#include "te/substitute.h"

namespace isomer::compile {

using te::Expr;
using te::Kind;

namespace {

constexpr int64_t kLeastLine = 8;

std::optional<Along> along(const Expr& index, const te::Axis& axis, int64_t size,
                           const std::vector<te::Axis>& reduced) {
  const auto sum = linear(index);
  if (!sum || sum->of(axis.id) < 1) return std::nullopt;
  Along out{axis, size, sum->of(axis.id), sum->constant, 0, {}, 0};
  out.span = out.step * (axis.extent.value() - 1) + 1;
  for (const auto& [id, by] : sum->terms) {
    if (id == axis.id) continue;
    const auto it = std::find_if(reduced.begin(), reduced.end(), [&](const te::Axis& a) { return a.id == id; });
    if (it == reduced.end()) return std::nullopt;
    const int64_t reach = by * (it->extent.value() - 1);
    out.taps.emplace_back(*it, by);
    out.span += std::abs(reach);
    if (reach < 0) out.first += reach, out.start -= reach;
  }
  return out;
}

// Whether a guard says no more than that a read stays inside of its plane.
bool only_inside(loop::Affine guard, const Along& a) {
  int64_t common = 0;  // the phases of a transposed convolution have their guards in steps of the stride
  for (const auto& t : guard.terms) common = std::gcd(common, t.coefficient);
  for (auto& t : guard.terms) t.coefficient /= std::max<int64_t>(1, common);
  if (common > 1) guard.constant = guard.constant >= 0 ? guard.constant / common : -ceil_div(-guard.constant, common);
  for (const int64_t sign : {1, -1}) {
    size_t terms = 0;
    bool same = guard.constant == (sign > 0 ? a.first + a.start : a.size - 1 - a.first - a.start);
    for (const auto& t : guard.terms) {
      if (t.atom->kind != Kind::Var) return false;
      int64_t by = t.atom->var == a.axis.id ? a.step : 0;
      for (const auto& tap : a.taps)
        if (tap.first.id == t.atom->var) by = tap.second;
      same = same && t.coefficient == sign * by;
      ++terms;
    }
    // A tap of extent 1 has no term.
    size_t wanted = 1;
    for (const auto& tap : a.taps) wanted += tap.first.extent.value() > 1 ? 1 : 0;
    if (same && terms == wanted) return true;
  }
  return false;
}

// The only read in `e` of what is no constant, floats or bytes, where nothing else depends on the place. Null when it is not so.
const te::Node* only_read(const Scene& scene, const Expr& e) {
  const te::Node* found = nullptr;
  bool fine = true;
  te::for_each_node(e, [&](const Expr& n) {
    if (n->kind == Kind::Cast) {
      fine = fine && n->dtype == DType::F32 && n->args[0]->kind == Kind::Read;
      return;
    }
    if (n->kind != Kind::Read) return;
    const DType type = scene.value(n->tensor).dtype;
    fine = fine && !found && !scene.value(n->tensor).constant &&
           (type == DType::F32 || type == DType::U8 || type == DType::I8);
    found = n.operator->();
  });
  if (!fine || !found) return nullptr;
  te::Substitution without;
  without.reads([](const te::Node& n, const std::vector<Expr>&) { return te::cast(n.dtype, Expr(0)); });
  return te::free_vars(without(e)).empty() ? found : nullptr;
}

// Sums and maxima of what is made of one read, and sums of its products with constants: what stands outside does not count.
bool reads_one_value(const Scene& scene, const ModelStage& stage, PlaneShape& s) {
  const Expr& body = stage.body->args[0];
  s.outside = te::real_identity(stage.body->combiner);
  s.copied = body;
  s.read = only_read(scene, body);
  if (!s.read && body->kind == Kind::Binary && body->binary == te::BinaryOp::Mul &&
      stage.body->combiner == te::Combiner::Sum) {
    for (const size_t i : {0, 1}) {
      const Expr& tap = body->args[1 - i];
      if (s.read || tap->kind != Kind::Read || !scene.value(tap->tensor).constant || tap->dtype != DType::F32) continue;
      s.copied = body->args[i];
      s.tap = tap;
      s.read = only_read(scene, s.copied);
    }
  }
  return s.read && s.read->args.size() >= 2;
}

// The axis of which neighbours read the same planes, by a quotient of it.
void find_shared(PlaneShape& s) {
  for (size_t d = 0; d + 2 < s.read->args.size(); ++d)
    te::for_each_node(s.read->args[d], [&](const Expr& n) {
      if (n->kind != Kind::Binary || n->binary != te::BinaryOp::FloorDiv) return;
      if (n->args[0]->kind != Kind::Var || n->args[1]->kind != Kind::Int) return;
      for (const te::Axis& a : s.outer)
        if (a.id == n->args[0]->var && a.extent.value() % n->args[1]->integer == 0)
          s.channel = a.id, s.shared = n->args[1]->integer;
    });
}

// Brings the axes that move along the last two dims of a read to the end, whatever order the result has.
bool plane_last(const te::Node& read, std::vector<te::Axis>& axes) {
  for (const size_t d : {read.args.size() - 2, read.args.size() - 1}) {
    const auto sum = linear(read.args[d]);
    if (!sum) return false;
    const auto it = std::find_if(axes.begin(), axes.end(), [&](const te::Axis& a) { return sum->of(a.id) != 0; });
    if (it == axes.end()) return false;
    std::rotate(it, it + 1, axes.end());
  }
  return true;
}

}  // namespace

std::optional<PlaneShape> plane_shape(const Scene& scene, const Group& group) {
  auto axes = window_axes(scene, group);
  if (!axes || axes->size() < 2) return std::nullopt;
  PlaneShape s;
  const ModelStage& stage = scene.stage(group.stages[0]);
  if (!reads_one_value(scene, stage, s)) return std::nullopt;
  const size_t rank = s.read->args.size();
  const StageValue& value = scene.value(s.read->tensor);
  const Layout& layout = scene.layout(s.read->tensor);
  s.across = layout.strides[rank - 1];
  s.thin = group.contraction ? !group.contraction->split : !s.tap.empty();
  if (s.across != 1 && !s.thin) return std::nullopt;
  const std::vector<te::Axis>& reduced = stage.body->axes;
  if (s.thin && !plane_last(*s.read, *axes)) return std::nullopt;
  auto x = along(s.read->args[rank - 1], axes->back(), value.dims[rank - 1], reduced);
  axes->pop_back();
  auto y = along(s.read->args[rank - 2], axes->back(), value.dims[rank - 2], reduced);
  axes->pop_back();
  if (!x || !y) return std::nullopt;
  s.x = *std::move(x), s.y = *std::move(y);
  s.outer = *std::move(axes);
  const auto in_plane = [&](int id) {
    if (id == s.x.axis.id || id == s.y.axis.id) return true;
    for (const Along* a : {&s.x, &s.y})
      for (const auto& t : a->taps)
        if (t.first.id == id) return true;
    return false;
  };
  for (const te::Axis& a : reduced)
    if (!in_plane(a.id)) s.deep.push_back(a);
  for (size_t d = 0; d + 2 < rank; ++d)
    for (const int id : te::free_vars(s.read->args[d]))
      if (in_plane(id)) return std::nullopt;
  for (const auto& tx : s.x.taps)
    for (const auto& ty : s.y.taps)
      if (tx.first.id == ty.first.id) return std::nullopt;
  if (!s.tap.empty())  // of a plane, not of a place in it
    for (const int id : te::free_vars(s.tap))
      if (id == s.x.axis.id || id == s.y.axis.id) return std::nullopt;
  const Expr& where = stage.body->args[1];
  if (where->kind != Kind::Int) {
    const auto guards = loop::inequalities(where);
    if (!guards) return std::nullopt;
    for (const loop::Affine& g : *guards)
      if (!only_inside(g, s.x) && !only_inside(g, s.y)) return std::nullopt;
  } else if (where->integer == 0) {
    return std::nullopt;
  }
  find_shared(s);
  // One output has no axis of its own; taps that stay in their channel are no product.
  if (!group.contraction) {
    const std::vector<int> moved = te::free_vars(Expr::make(te::Node(*s.read)));
    s.thin = s.thin && !s.deep.empty() && s.x.extent() >= kLeastLine && s.y.extent() >= kLeastLine &&
             std::all_of(s.outer.begin(), s.outer.end(),
                         [&](const te::Axis& a) { return std::find(moved.begin(), moved.end(), a.id) != moved.end(); });
  }
  if (!group.contraction && !s.thin && s.across != 1) return std::nullopt;
  if (s.thin && group.contraction) {
    const std::vector<int> moved = te::free_vars(Expr::make(te::Node(*s.read)));
    for (const te::Axis& a : s.outer) {
      if (std::find(moved.begin(), moved.end(), a.id) != moved.end()) continue;
      if (s.channel >= 0) return std::nullopt;
      s.channel = a.id, s.shared = a.extent.value();
    }
  }
  return s;
}

}  // namespace isomer::compile
