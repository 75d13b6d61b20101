#include "compile/storage.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "compile/rows_apart.h"
#include "te/substitute.h"

namespace isomer::compile {

Layout layout_of(const std::vector<int64_t>& dims, std::vector<int> order) {
  Layout l;
  l.order = std::move(order);
  l.strides.assign(dims.size(), 0);
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    const auto d = static_cast<size_t>(l.order[i]);
    l.strides[d] = stride;
    stride *= std::max<int64_t>(1, dims[d]);
  }
  l.span = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
  return l;
}

Layout row_major(const std::vector<int64_t>& dims) {
  std::vector<int> order(dims.size());
  std::iota(order.begin(), order.end(), 0);
  return layout_of(dims, std::move(order));
}

std::vector<bool> fixed_values(const StageGraph& g, bool open_ports) {
  std::vector<bool> fixed(g.values.size());
  for (const int v : g.inputs) fixed[static_cast<size_t>(v)] = !open_ports;
  for (const int v : g.outputs) fixed[static_cast<size_t>(v)] = !open_ports;
  for (const ModelStage& s : g.stages)
    if (s.view_of >= 0) fixed[static_cast<size_t>(s.value)] = fixed[static_cast<size_t>(s.view_of)] = true;
  return fixed;
}

namespace {

class Chooser {
 public:
  Chooser(const StageGraph& g, const std::vector<Group>& groups, const std::vector<std::vector<int>>& orders,
          bool open_ports)
      : g_(g), orders_(orders), fixed_(fixed_values(g, open_ports)) {
    for (const StageValue& v : g.values) layouts_.push_back(row_major(v.dims));
    for (size_t v = 0; v < g.values.size(); ++v)
      if (!fixed_[v]) take_wanted(v);
    std::vector<std::pair<const Group*, size_t>> group_of(g.stages.size());
    for (const Group& group : groups)
      for (size_t i = 0; i < group.stages.size(); ++i) group_of[static_cast<size_t>(group.stages[i])] = {&group, i};
    for (const Group& group : groups)
      if (group.contraction && group.contraction->a->kind == te::Kind::Read)
        left_of_.try_emplace(group.contraction->a->tensor, &*group.contraction, group.contraction->a);
    Group alone;  // a prologue lies as what it reads
    for (const Group& group : groups)
      if (group.prologue >= 0) group_of[static_cast<size_t>(group.prologue)] = {&alone, 0};
    for (size_t s = 0; s < g.stages.size(); ++s) {
      alone.stages = {static_cast<int>(s)};
      if (group_of[s].first) choose(*group_of[s].first, group_of[s].second);
      if (!g.stages[s].in_parts) continue;
      const int host = g.values[static_cast<size_t>(g.stages[s].value)].host;
      const bool host_is_known = host >= 0 && g.values[static_cast<size_t>(host)].stage < static_cast<int>(s);
      if (host_is_known) {
        settle(static_cast<size_t>(g.stages[s].value));
      } else {
        follow_first_part(g.stages[s]);
      }
    }
    set_rows_apart(g, groups, fixed_, layouts_);
    for (size_t v = 0; v < g.values.size(); ++v)
      if (g.values[v].host >= 0) settle(v);
  }
  std::vector<Layout> layouts_;

 private:
  // The whole has the order in which its first part was computed; the parts then take it over. One that lies in a larger
  // whole will have that one's order, which begins with the same part: its readers go by it until then.
  void follow_first_part(const ModelStage& s) {
    const auto value = static_cast<size_t>(s.value);
    if (fixed_[value] || take_wanted(value)) return;
    const std::vector<int> parts = values_read(s.body);
    layouts_[value] = layout_of(g_.values[value].dims, layouts_[static_cast<size_t>(parts[0])].order);
  }

  bool take_wanted(size_t value) {
    if (value >= orders_.size() || orders_[value].empty()) return false;
    layouts_[value] = layout_of(g_.values[value].dims, orders_[value]);
    return true;
  }

  const Layout& settle(size_t value) {
    const StageValue& v = g_.values[value];
    if (v.host < 0) return layouts_[value];
    const Layout host = settle(static_cast<size_t>(v.host));
    Layout& l = layouts_[value];
    l.order = host.order;
    l.strides = host.strides;
    l.offset = host.offset;
    l.span = 1;
    for (size_t d = 0; d < v.dims.size(); ++d) {
      l.offset += v.host_start[d] * host.strides[d];
      if (!v.host_step.empty()) l.strides[d] *= v.host_step[d];
      l.span += (v.dims[d] - 1) * l.strides[d];
    }
    return l;
  }

  void choose(const Group& group, size_t i) {
    const ModelStage& s = g_.stages[static_cast<size_t>(group.stages[i])];
    const auto value = static_cast<size_t>(s.value);
    if (fixed_[value] || take_wanted(value)) return;
    std::vector<int> axes = group.contraction && i == 0 ? columns_last(*group.contraction, s) : as_read(s);
    if (axes.empty()) axes = as_wanted(s);
    if (axes.empty()) return;
    if (group.contraction && i > 0) as_computed(group, i, axes);
    if (!group.contraction && group.stages.size() > 1) inside_last(group.rows[i], s, axes);
    std::vector<int> order;
    for (const int id : axes)
      for (size_t d = 0; d < s.axes.size(); ++d)
        if (s.axes[d].id == id) order.push_back(static_cast<int>(d));
    layouts_[value] = layout_of(g_.values[value].dims, std::move(order));
  }

  // What has no order of its own (rows picked from a table) is stored as the product that slides over it wants it: what its
  // windows move along first, what they sum over as a whole last.
  std::vector<int> as_wanted(const ModelStage& s) const {
    const auto it = left_of_.find(s.value);
    if (it == left_of_.end()) return {};
    const auto& [contraction, read] = it->second;
    std::vector<int> moved, summed;
    for (size_t d = 0; d < s.axes.size(); ++d) {
      const std::vector<int> vars = te::free_vars(read->args[d]);
      const bool deep = !vars.empty() && std::all_of(vars.begin(), vars.end(), [&](int v) {
        return std::find(contraction->k.begin(), contraction->k.end(), v) != contraction->k.end();
      });
      (deep ? summed : moved).push_back(s.axes[d].id);
    }
    moved.insert(moved.end(), summed.begin(), summed.end());
    return moved;
  }

  // What follows a contraction is stored as its tiles come, whatever else it reads. Axes of extent 1 keep their places.
  void as_computed(const Group& group, size_t i, std::vector<int>& axes) const {
    const std::vector<int>& from = group.rows[0];
    std::vector<int> order;
    for (const int id : columns_last(*group.contraction, g_.stages[static_cast<size_t>(group.stages[0])]))
      if (const auto it = std::find(from.begin(), from.end(), id); it != from.end())
        order.push_back(group.rows[i][static_cast<size_t>(it - from.begin())]);
    auto next = order.begin();
    for (int& id : axes)
      if (std::find(order.begin(), order.end(), id) != order.end()) id = *next++;
  }

  // Rows with one axis inside run along it.
  static void inside_last(const std::vector<int>& rows, const ModelStage& s, std::vector<int>& axes) {
    std::vector<int> inside;
    for (const te::Axis& a : s.axes)
      if (a.extent.value() > 1 && std::find(rows.begin(), rows.end(), a.id) == rows.end()) inside.push_back(a.id);
    if (inside.size() != 1) return;
    std::erase(axes, inside[0]);
    axes.push_back(inside[0]);
  }

  static std::vector<int> columns_last(const Contraction& c, const ModelStage& s) {
    std::vector<int> out, columns;
    const bool positions_last = thin(c, s);
    for (const te::Axis& a : s.axes) {
      const bool column = !positions_last &&
                          (std::find(c.n.begin(), c.n.end(), a.id) != c.n.end() || (c.split && a.id == c.split->axis));
      (column ? columns : out).push_back(a.id);
    }
    out.insert(out.end(), columns.begin(), columns.end());
    return out;
  }

  // The stage's axes in the order in which the largest value it reads stores the dims that they run along.
  std::vector<int> as_read(const ModelStage& s) const {
    int largest = -1;
    te::Expr main;
    te::for_each_node(s.body, [&](const te::Expr& n) {
      if (n->kind != te::Kind::Read) return;
      const StageValue& v = g_.values[static_cast<size_t>(n->tensor)];
      if (v.constant || v.dims.size() != s.axes.size()) return;
      if (largest >= 0 && v.elements() <= g_.values[static_cast<size_t>(largest)].elements()) return;
      largest = n->tensor;
      main = n;
    });
    if (largest < 0) return {};
    std::vector<int> out;
    const auto put = [&](int id) {
      if (std::find(out.begin(), out.end(), id) == out.end()) out.push_back(id);
    };
    for (const int d : layouts_[static_cast<size_t>(largest)].order) {
      const std::vector<int> vars = te::free_vars(main->args[static_cast<size_t>(d)]);
      bool found = false;
      for (const te::Axis& a : s.axes)
        if (std::find(vars.begin(), vars.end(), a.id) != vars.end()) put(a.id), found = true;
      // A dim that is reduced away keeps its place for the axis that stands there, which has extent 1.
      if (!found && s.axes[static_cast<size_t>(d)].extent.value() == 1) put(s.axes[static_cast<size_t>(d)].id);
    }
    for (const te::Axis& a : s.axes) put(a.id);
    return out;
  }

  const StageGraph& g_;
  const std::vector<std::vector<int>>& orders_;
  std::vector<bool> fixed_;
  std::map<int, std::pair<const Contraction*, te::Expr>> left_of_;  // by value: the first product whose left side it is
};

}  // namespace

std::vector<Layout> choose_layouts(const StageGraph& graph, const std::vector<Group>& groups,
                                   const std::vector<std::vector<int>>& orders, bool open_ports) {
  return std::move(Chooser(graph, groups, orders, open_ports).layouts_);
}

}  // namespace isomer::compile
