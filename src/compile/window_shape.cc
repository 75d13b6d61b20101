#include "compile/window_shape.h"

#include <algorithm>
#include <set>

#include "base/contains.h"
#include "te/scalar.h"
#include "te/simplify.h"
#include "te/substitute.h"

namespace isomer::compile {

using te::Expr;
using te::Kind;

namespace {

constexpr int64_t kMostAcross = 16;  // taps along the tile that are written out

bool fits_group(const Scene& scene, const Group& group) {
  const ModelStage& first = scene.stage(group.stages[0]);
  if (group.stages.size() > 2 || !first.is_reduction() || te::is_arg(first.body->combiner)) return false;
  if (scene.value(first.value).dtype != DType::F32 || first.body->dtype != DType::F32) return false;
  if (scene.value(first.value).elements() == 0) return false;
  if (group.stages.size() == 1) return true;
  const ModelStage& last = scene.stage(group.stages[1]);
  const auto& readers = (*scene.readers)[static_cast<size_t>(first.value)];
  if (last.is_reduction() || readers.size() != 1 || contains(scene.graph->outputs, first.value)) return false;
  const DType stored = scene.value(last.value).dtype;
  if (stored != DType::F32 && stored != DType::I32 && !is_byte(stored)) return false;
  return scene.value(first.value).elements() == scene.value(last.value).elements() &&
         group.rows[0].size() == group.rows[1].size() && reads_of(last.body, first.value).size() == 1;
}

class Analysis {
 public:
  Analysis(const Scene& scene, const Group& group) : scene_(scene), group_(group) {}

  std::optional<WindowShape> run() {
    const ModelStage& first = scene_.stage(group_.stages[0]);
    if (!axes_by_memory() || !guards(first) || !reads(first)) return std::nullopt;
    return std::move(s_);
  }

 private:
  bool axes_by_memory() {
    auto axes = window_axes(scene_, group_);
    if (!axes || axes->size() < 2) return false;
    for (const te::Axis& a : scene_.stage(group_.stages[0]).axes)
      if (a.extent.value() == 1) s_.single.push_back(a.id);
    s_.channels = axes->back().id, s_.c = axes->back().extent.value();
    axes->pop_back();
    s_.along = axes->back().id, s_.x = axes->back().extent.value();
    axes->pop_back();
    s_.outer = *std::move(axes);
    return true;
  }

  bool guards(const ModelStage& first) {
    const Expr& where = first.body->args[1];
    std::vector<loop::Affine> all;
    if (where->kind == Kind::Int) {
      if (where->integer == 0) return false;
    } else {
      const auto found = loop::inequalities(where);
      if (!found) return false;
      all = *found;
    }
    std::set<int> across, under;
    const auto note = [&](const std::vector<int>& vars) {
      if (!contains(vars, s_.along)) return;
      across.insert(vars.begin(), vars.end());
    };
    te::for_each_node(first.body->args[0], [&](const Expr& n) {
      if (n->kind == Kind::Read)
        for (const Expr& i : n->args) note(te::free_vars(i));
    });
    std::vector<std::vector<int>> used;
    for (const loop::Affine& g : all) {
      std::vector<int>& vars = used.emplace_back();
      for (const auto& t : g.terms) {
        if (t.atom->kind != Kind::Var || t.atom->var == s_.channels) return false;
        vars.push_back(t.atom->var);
      }
      note(vars);
    }
    for (size_t i = 0; i < all.size(); ++i) {
      const bool some = std::any_of(used[i].begin(), used[i].end(), [&](int v) { return across.count(v) > 0; });
      const bool every = std::all_of(used[i].begin(), used[i].end(), [&](int v) { return across.count(v) > 0; });
      if (some && !every) return false;
      (some ? s_.fixed : s_.asked).push_back(all[i]);
      if (!some) under.insert(used[i].begin(), used[i].end());
    }
    int64_t taps = 1;
    for (const te::Axis& a : first.body->axes) {
      const WindowShape::Reduced r{a.id, a.extent.value()};
      if (r.extent < 1) return false;
      if (across.count(a.id)) taps *= r.extent;
      (across.count(a.id) ? s_.across : under.count(a.id) ? s_.guarded : s_.deep).push_back(r);
    }
    for (const te::Axis& a : s_.outer)
      if (across.count(a.id)) return false;
    return taps <= kMostAcross && !across.count(s_.channels);
  }

  // The number of channels that share what they read.
  int64_t quotient(const Expr& body) const {
    int64_t by = 0;
    te::for_each_node(body, [&](const Expr& n) {
      if (n->kind != Kind::Binary || n->binary != te::BinaryOp::FloorDiv || by != 0) return;
      if (n->args[0]->kind == Kind::Var && n->args[0]->var == s_.channels && n->args[1]->kind == Kind::Int)
        by = n->args[1]->integer;
    });
    return by > 0 && s_.c % by == 0 ? by : 0;
  }

  bool reads(const ModelStage& first) {
    const Expr& body = first.body->args[0];
    s_.group = quotient(body);
    std::vector<te::Axis> scope = first.axes;
    scope.insert(scope.end(), first.body->axes.begin(), first.body->axes.end());
    te::Substitution parts;
    if (s_.group > 0) {
      const te::Axis outer{kGroupAxis, "group", Dim(s_.c / s_.group)}, inner{kInGroupAxis, "in", Dim(s_.group)};
      scope.push_back(outer);
      scope.push_back(inner);
      parts.var(s_.channels, Expr(outer) * Expr(s_.group) + Expr(inner));
    }
    bool fine = true, any = false;
    te::for_each_node(body, [&](const Expr& n) {
      if (n->kind != Kind::Read) return;
      const StageValue& v = scene_.value(n->tensor);
      WindowShape::Source source;
      source.node = n.operator->();
      source.value = n->tensor;
      source.type = v.dtype;
      Expr at(0);
      for (size_t d = 0; d < n->args.size(); ++d) at = at + n->args[d] * Expr(scene_.layout(n->tensor).strides[d]);
      const auto sum = linear(te::simplify(parts(at), scope));
      fine = fine && sum && (v.dtype == DType::F32 || is_byte(v.dtype));
      if (!fine) return;
      source.at = *sum;
      fine = lanes_of(source, v);
      if (fine && source.spread)  // they are staged side by side
        fine = std::all_of(s_.sources.begin(), s_.sources.end(),
                           [&](const auto& s) { return !s.spread || s.type == source.type; });
      any = any || !v.constant;
      s_.sources.push_back(std::move(source));
    });
    return fine && any;
  }

  // How a read runs with the channels: together, not at all, or by groups.
  bool lanes_of(WindowShape::Source& source, const StageValue& v) const {
    const int64_t by_group = source.at.of(kGroupAxis), in_group = source.at.of(kInGroupAxis);
    const int64_t step = s_.group > 0 ? in_group : source.at.of(s_.channels);
    const bool together = s_.group == 0 || by_group == in_group * s_.group;
    if (v.constant && together && step != 0) {
      source.packed = true;
      if (source.at.of(s_.along) != 0) return false;
      for (const te::Axis& a : s_.outer)
        if (source.at.of(a.id) != 0) return false;
      return true;
    }
    if (together) return step == 0 || step == 1;
    source.spread = true;
    return in_group == 0 && by_group > 0;
  }

  const Scene& scene_;
  const Group& group_;
  WindowShape s_;
};

}  // namespace

std::optional<std::vector<te::Axis>> window_axes(const Scene& scene, const Group& group) {
  if (!fits_group(scene, group)) return std::nullopt;
  const ModelStage &first = scene.stage(group.stages[0]), &last = scene.stage(group.stages.back());
  std::vector<te::Axis> axes;
  for (const int d : scene.layout(last.value).order) {
    const int id = last.axes[static_cast<size_t>(d)].id;
    for (size_t r = 0; r < group.rows.back().size(); ++r)
      if (group.rows.back()[r] == id)
        for (const te::Axis& a : first.axes)
          if (a.id == group.rows[0][r]) axes.push_back(a);
  }
  if (axes.size() != group.rows[0].size()) return std::nullopt;
  return axes;
}

std::optional<WindowShape> window_shape(const Scene& scene, const Group& group) { return Analysis(scene, group).run(); }

}  // namespace isomer::compile
