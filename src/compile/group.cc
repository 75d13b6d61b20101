#include "compile/group.h"

#include <algorithm>
#include <numeric>

#include "base/contains.h"
#include "compile/storage.h"
#include "te/substitute.h"

namespace isomer::compile {

using te::Expr;
using te::Kind;

namespace {

constexpr int64_t kNeighbours = 8;        // elements that lie together and make a vector
constexpr int64_t kLargestRow = 1 << 16;  // elements of a value inside a row: what stays in a near cache

const te::Axis* axis_of(const ModelStage& s, int id) {
  for (const te::Axis& a : s.axes)
    if (a.id == id) return &a;
  return nullptr;
}

// Whether it is an axis of the stage with this extent: a read at it then covers a dim of that extent, no more and no less.
bool runs_over(const ModelStage& s, int id, int64_t extent) {
  const te::Axis* a = axis_of(s, id);
  return a && a->extent.value() == extent;
}

// When every read of `value` in the stage is at the same place, one variable of the stage's axes per dim above 1, each
// axis once: the axis ids by dim of the value (-1 where the dim is 1).
std::optional<std::vector<int>> permuted_read(const ModelStage& s, int value, const StageGraph& g) {
  const std::vector<Expr> reads = reads_of(s.body, value);
  if (reads.size() != 1) return std::nullopt;
  const StageValue& v = g.values[static_cast<size_t>(value)];
  if (v.elements() != g.values[static_cast<size_t>(s.value)].elements()) return std::nullopt;
  std::vector<int> axes;
  for (size_t i = 0; i < v.dims.size(); ++i) {
    if (v.dims[i] == 1) {
      axes.push_back(-1);
      continue;
    }
    const auto id = plain_var(reads[0]->args[i]);
    if (!id || contains(axes, *id) || !runs_over(s, *id, v.dims[i])) return std::nullopt;
    axes.push_back(*id);
  }
  return axes;
}

class Grouper {
 public:
  explicit Grouper(const StageGraph& g) : g_(g), readers_(g.readers()), group_(g.stages.size(), -1) {
    for (const ModelStage& s : g.stages) reads_.push_back(values_read(s.body));
  }

  std::vector<Group> run(bool fuse) {
    for (size_t s = 0; fuse && s < g_.stages.size(); ++s)
      if (auto c = contraction(g_.stages[s], g_.values)) contract(s, *std::move(c));
    if (fuse) foresee_layouts();
    for (size_t s = 0; fuse && s < g_.stages.size(); ++s)
      if (group_[s] < 0 && g_.stages[s].runs() && g_.stages[s].is_reduction()) grow(s);
    for (size_t i = 0; i < groups_.size(); ++i)
      if (groups_[i].contraction) take_prologue(static_cast<int>(i));
    for (size_t s = 0; s < g_.stages.size(); ++s)
      if (group_[s] < 0 && g_.stages[s].runs()) open(s);
    return ordered();
  }

 private:
  const ModelStage& stage(int s) const { return g_.stages[static_cast<size_t>(s)]; }
  const std::vector<int>& reads(int s) const { return reads_[static_cast<size_t>(s)]; }
  int maker(int value) const { return g_.values[static_cast<size_t>(value)].stage; }

  // Through views: the stage whose memory a value is.
  int source(int value) const {
    int s = maker(value);
    while (s >= 0 && stage(s).view_of >= 0) s = maker(stage(s).view_of);
    return s;
  }

  Group& open(size_t s) {
    group_[s] = static_cast<int>(groups_.size());
    groups_.push_back(alone(g_, static_cast<int>(s)));
    return groups_.back();
  }

  void contract(size_t s, Contraction c) {
    Group& group = open(s);
    group.contraction = std::move(c);
    const int value = g_.stages[s].value;
    const auto& users = readers_[static_cast<size_t>(value)];
    if (users.size() != 1 || contains(g_.outputs, value)) return;
    const int user = users[0];
    const ModelStage& e = stage(user);
    if (e.is_reduction() || !e.runs() || group_[static_cast<size_t>(user)] >= 0) return;
    const auto axes = permuted_read(e, value, g_);
    if (!axes) return;
    std::vector<int> rows;
    for (const int a : *axes)
      if (a >= 0) rows.push_back(a);
    group.stages.push_back(user);
    group.rows.push_back(std::move(rows));
    group_[static_cast<size_t>(user)] = group_[s];
  }

  // What no other group wants and only the product reads: a norm and an activation before it, a gate.
  void take_prologue(int id) {
    Group& group = groups_[static_cast<size_t>(id)];
    const int value = group.contraction->a->tensor, s = maker(value);
    if (s < 0 || group_[static_cast<size_t>(s)] >= 0 || !stage(s).runs() || stage(s).is_reduction()) return;
    const StageValue& v = g_.values[static_cast<size_t>(value)];
    if (readers_[static_cast<size_t>(value)].size() != 1 || contains(g_.outputs, value) || v.host >= 0) return;
    if (v.dtype != DType::F32 || group.contraction->b->tensor == value) return;
    bool linear_reads = true;
    te::for_each_node(stage(s).body, [&](const Expr& n) {
      if (n->kind != Kind::Read) return;
      for (const Expr& i : n->args) linear_reads = linear_reads && linear(i);
    });
    if (!linear_reads) return;
    group.prologue = s;
    group_[static_cast<size_t>(s)] = id;
  }

  // The axes of `s` that run with the rows of `group` when s reads its values: each read of a member's value has the
  // member's row axes at plain variables of s. Nothing when a read leaves the row.
  std::optional<std::vector<int>> rows_as_reader(const Group& group, int s) const {
    std::optional<std::vector<int>> rows;
    for (size_t i = 0; i < group.stages.size(); ++i) {
      const ModelStage& member = stage(group.stages[i]);
      for (const Expr& read : reads_of(stage(s).body, member.value)) {
        std::vector<int> here;
        for (const int row : group.rows[i]) {
          const auto dim = static_cast<size_t>(
              std::find_if(member.axes.begin(), member.axes.end(), [&](const te::Axis& a) { return a.id == row; }) -
              member.axes.begin());
          const auto id = plain_var(read->args[dim]);
          if (!id || !runs_over(stage(s), *id, member.axes[dim].extent.value())) return std::nullopt;
          here.push_back(*id);
        }
        std::vector<int> distinct = here;
        std::sort(distinct.begin(), distinct.end());
        if (std::adjacent_find(distinct.begin(), distinct.end()) != distinct.end()) return std::nullopt;
        if (rows && *rows != here) return std::nullopt;
        rows = here;
      }
    }
    return rows;
  }

  // The same for a stage whose value members read.
  std::optional<std::vector<int>> rows_as_maker(const Group& group, int s) const {
    std::optional<std::vector<int>> rows;
    const ModelStage& p = stage(s);
    for (size_t i = 0; i < group.stages.size(); ++i) {
      const ModelStage& member = stage(group.stages[i]);
      for (const Expr& read : reads_of(member.body, p.value)) {
        std::vector<int> here;
        for (const int row : group.rows[i]) {
          int found = -1;
          for (size_t d = 0; d < read->args.size(); ++d)
            if (plain_var(read->args[d]) == row && runs_over(member, row, p.axes[d].extent.value()))
              found = p.axes[d].id;
          if (found < 0) return std::nullopt;
          here.push_back(found);
        }
        if (rows && *rows != here) return std::nullopt;
        rows = here;
      }
    }
    return rows;
  }

  // The layouts that values would have if nothing else were fused.
  void foresee_layouts() {
    std::vector<Group> apart = groups_;
    for (size_t s = 0; s < g_.stages.size(); ++s)
      if (group_[s] < 0 && g_.stages[s].runs()) apart.push_back({{static_cast<int>(s)}, {{}}, std::nullopt});
    layouts_ = choose_layouts(g_, apart);
  }

  // Whether the rows of a stage jump through memory: neighbours in the largest value that it reads belong to different rows (a
  // norm of every channel of an image whose channels lie together). One axis inside of the rows would rather be stored last,
  // unless it comes out of a product so.
  bool jumps(int s, const std::vector<int>& rows) const {
    const ModelStage& st = stage(s);
    std::vector<int> within;
    const auto take = [&](const std::vector<te::Axis>& axes, bool all) {
      for (const te::Axis& a : axes)
        if (a.extent.value() > 1 && (all || !contains(rows, a.id))) within.push_back(a.id);
    };
    take(st.axes, false);
    if (st.is_reduction()) take(st.body->axes, true);
    const auto elements = [&](const Expr& e) { return g_.values[static_cast<size_t>(e->tensor)].elements(); };
    Expr main;
    te::for_each_node(st.body, [&](const Expr& n) {
      if (n->kind == Kind::Read && !g_.values[static_cast<size_t>(n->tensor)].constant)
        if (main.empty() || elements(n) > elements(main)) main = n;
    });
    if (main.empty() || within.empty()) return false;
    const int from = maker(main->tensor), group = from < 0 ? -1 : group_[static_cast<size_t>(from)];
    if (within.size() < 2 && (group < 0 || !groups_[static_cast<size_t>(group)].contraction)) return false;
    const Layout& layout = layouts_[static_cast<size_t>(main->tensor)];
    const std::vector<int64_t>& dims = g_.values[static_cast<size_t>(main->tensor)].dims;
    for (size_t d = 0; d < dims.size(); ++d) {
      if (dims[d] < kNeighbours || layout.strides[d] != 1) continue;
      const std::vector<int> vars = te::free_vars(main->args[d]);
      return std::none_of(vars.begin(), vars.end(), [&](int v) { return contains(within, v); }) &&
             std::any_of(vars.begin(), vars.end(), [&](int v) { return contains(rows, v); });
    }
    return false;
  }

  int64_t inside(int s, const std::vector<int>& rows) const {
    int64_t n = 1;
    for (const te::Axis& a : stage(s).axes)
      if (!contains(rows, a.id)) n *= a.extent.value();
    return n;
  }

  void grow(size_t seed) {
    open(seed);
    const int id = group_[seed];
    for (bool changed = true; changed;) {
      changed = false;
      const std::vector<int> members = groups_[static_cast<size_t>(id)].stages;
      for (const int m : members) {
        for (const int v : reads(m)) changed = join(id, maker(v), false) || changed;
        for (const int r : readers_[static_cast<size_t>(stage(m).value)]) changed = join(id, r, true) || changed;
      }
    }
  }

  bool join(int id, int s, bool reader) {
    if (s < 0 || group_[static_cast<size_t>(s)] >= 0 || !stage(s).runs()) return false;
    Group& group = groups_[static_cast<size_t>(id)];
    if (!reader && stage(s).is_reduction()) return false;
    const auto as_reader = rows_as_reader(group, s);
    const auto as_maker = rows_as_maker(group, s);
    if ((reader && !as_reader) || (!reader && !as_maker)) return false;
    if (as_reader && as_maker && *as_reader != *as_maker) return false;
    // A stage that both makes and reads values of the group, one of them through a refused read, would not pass both.
    if (reads_group(group, s) && !as_reader) return false;
    if (read_by_group(group, s) && !as_maker) return false;
    const std::vector<int> rows = as_reader ? *as_reader : *as_maker;
    if (inside(s, rows) > kLargestRow) return false;
    // The sum alone, with what is made of it, goes over all rows at once.
    if (jumps(s, rows) || (group.stages.size() > 1 && jumps(group.stages[0], group.rows[0]))) return false;
    group_[static_cast<size_t>(s)] = id;
    group.stages.push_back(s);
    group.rows.push_back(rows);
    if (has_cycle()) {
      group.stages.pop_back();
      group.rows.pop_back();
      group_[static_cast<size_t>(s)] = -1;
      return false;
    }
    sort(group);
    return true;
  }

  bool reads_group(const Group& group, int s) const {
    for (const int v : reads(s))
      if (contains(group.stages, source(v))) return true;
    return false;
  }
  bool read_by_group(const Group& group, int s) const {
    for (const int m : group.stages)
      for (const int v : reads(m))
        if (source(v) == s) return true;
    return false;
  }

  static void sort(Group& group) {
    std::vector<size_t> order(group.stages.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return group.stages[a] < group.stages[b]; });
    Group sorted;
    sorted.contraction = group.contraction;
    sorted.prologue = group.prologue;
    for (const size_t i : order) {
      sorted.stages.push_back(group.stages[i]);
      sorted.rows.push_back(group.rows[i]);
    }
    group = std::move(sorted);
  }

  // Units: groups, and stages that are in none yet. An edge runs from what makes a value to what reads it.
  size_t units() const { return groups_.size() + g_.stages.size(); }
  size_t unit(int s) const {
    const int id = group_[static_cast<size_t>(s)];
    return id >= 0 ? static_cast<size_t>(id) : groups_.size() + static_cast<size_t>(s);
  }

  // The units in an order that respects all edges, smallest stage first; shorter than all of them when there is a cycle.
  std::vector<size_t> topological() const {
    std::vector<std::vector<size_t>> next(units());
    std::vector<int> waiting(units());
    for (size_t s = 0; s < g_.stages.size(); ++s)
      for (const int v : reads_[s]) {
        const int from = maker(v);
        if (from < 0 || unit(from) == unit(static_cast<int>(s))) continue;
        next[unit(from)].push_back(unit(static_cast<int>(s)));
        ++waiting[unit(static_cast<int>(s))];
      }
    std::vector<size_t> first(units(), SIZE_MAX);
    for (size_t s = 0; s < g_.stages.size(); ++s) first[unit(static_cast<int>(s))] = s;
    std::vector<std::pair<size_t, size_t>> ready;
    const auto push = [&](size_t u) {
      ready.emplace_back(first[u], u);
      std::push_heap(ready.begin(), ready.end(), std::greater<>());
    };
    for (size_t u = 0; u < units(); ++u)
      if (waiting[u] == 0 && first[u] != SIZE_MAX) push(u);
    std::vector<size_t> order;
    while (!ready.empty()) {
      std::pop_heap(ready.begin(), ready.end(), std::greater<>());
      const size_t u = ready.back().second;
      ready.pop_back();
      order.push_back(u);
      for (const size_t n : next[u])
        if (--waiting[n] == 0) push(n);
    }
    return order;
  }

  size_t used_units() const {
    std::vector<bool> used(units());
    for (size_t s = 0; s < g_.stages.size(); ++s) used[unit(static_cast<int>(s))] = true;
    return static_cast<size_t>(std::count(used.begin(), used.end(), true));
  }
  bool has_cycle() const { return topological().size() != used_units(); }

  std::vector<Group> ordered() {
    std::vector<Group> out;
    for (const size_t u : topological())
      if (u < groups_.size()) out.push_back(std::move(groups_[u]));
    return out;
  }

  const StageGraph& g_;
  std::vector<std::vector<int>> readers_;
  std::vector<std::vector<int>> reads_;  // by stage
  std::vector<int> group_;               // by stage, -1: none yet
  std::vector<Group> groups_;
  std::vector<Layout> layouts_;  // by value, as far as they can be foreseen
};

}  // namespace

Group alone(const StageGraph& graph, int stage) {
  Group group;
  group.stages = {stage};
  std::vector<int>& all = group.rows.emplace_back();
  for (const te::Axis& a : graph.stages[static_cast<size_t>(stage)].axes)
    if (a.extent.value() > 1) all.push_back(a.id);
  return group;
}

std::vector<Group> group_stages(const StageGraph& graph, bool fuse) { return Grouper(graph).run(fuse); }

}  // namespace isomer::compile
