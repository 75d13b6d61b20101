#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <queue>

#include "compile/group.h"
#include "te/program.h"
#include "te/simplify.h"
#include "te/substitute.h"

namespace isomer::compile {

using te::Expr;
using te::Kind;

namespace {

constexpr int64_t kFewRows = 16;          // of one product: more would use its weights often enough by itself
constexpr int64_t kWorthwhile = 1 << 12;  // elements of the weights
constexpr size_t kMostParts = 256;        // products that become one

// A read of one value at linear indices.
struct Position {
  int value = -1;
  std::vector<Linear> at;
};

// One contraction with few rows.
struct Product {
  int stage = -1;
  size_t axis = 0;  // of the stage: the rows that another product's follow
  Contraction form;
};

class ProductMerger {
 public:
  explicit ProductMerger(StageGraph& g) : g_(g) {}

  void run() {
    while (merge_one()) g_.prune();
  }

 private:
  const StageValue& value(int v) const { return g_.values[static_cast<size_t>(v)]; }
  const ModelStage& stage(int s) const { return g_.stages[static_cast<size_t>(s)]; }

  bool merge_one() {
    std::map<std::string, std::vector<Product>> classes;
    std::vector<std::string> order;
    for (size_t s = 0; s < g_.stages.size(); ++s) {
      auto p = product(static_cast<int>(s));
      if (!p) continue;
      auto& members = classes[key(*p)];
      if (members.empty()) order.push_back(key(*p));
      members.push_back(*std::move(p));
    }
    for (const std::string& k : order)
      for (std::vector<Product>& group : independent(classes[k]))
        if (group.size() > 1) {
          merge(group);
          return true;
        }
    return false;
  }

  std::optional<Product> product(int s) const {
    const ModelStage& p = stage(s);
    if (!p.is_reduction() || std::find(g_.outputs.begin(), g_.outputs.end(), p.value) != g_.outputs.end())
      return std::nullopt;
    auto c = contraction(p, g_.values);
    if (!c || c->bytes() || c->split || !c->batch.empty() || c->where->kind != Kind::Int) return std::nullopt;
    const StageValue& left = value(c->a->tensor);
    const StageValue& right = value(c->b->tensor);
    if (left.constant || right.elements() < kWorthwhile || left.dims.empty()) return std::nullopt;
    int64_t rows = 1;
    for (const te::Axis& a : p.axes)
      if (std::find(c->m.begin(), c->m.end(), a.id) != c->m.end()) rows *= a.extent.value();
    if (rows > kFewRows) return std::nullopt;
    for (size_t d = 0; d < p.axes.size(); ++d)
      if (extends(*c, p.axes[d], left)) return Product{s, d, *std::move(c)};
    return std::nullopt;
  }

  // Whether more rows on this axis are more of the left side's first dim, and nothing else.
  static bool extends(const Contraction& c, const te::Axis& axis, const StageValue& left) {
    if (std::find(c.m.begin(), c.m.end(), axis.id) == c.m.end() || axis.extent.value() != left.dims[0]) return false;
    const auto mentions = [&](const Expr& e) {
      const std::vector<int> vars = te::free_vars(e);
      return std::find(vars.begin(), vars.end(), axis.id) != vars.end();
    };
    for (size_t d = 1; d < c.a->args.size(); ++d)
      if (mentions(c.a->args[d])) return false;
    if (mentions(c.b)) return false;
    const Expr& first = c.a->args[0];
    if (plain_var(first) == axis.id) return true;
    return left.dims[0] == 1 && first->kind == Kind::Int && first->integer == 0;
  }

  std::string key(const Product& p) const {
    const ModelStage& s = stage(p.stage);
    te::Substitution anonymous;
    anonymous.reads([&](const te::Node& read, std::vector<Expr> at) -> Expr {
      return read.tensor == p.form.a->tensor ? Expr::read(-1, read.dtype, std::move(at)) : Expr();
    });
    const Expr body = anonymous(s.body);
    std::string text = fmt::format("{} {}", p.axis, te::hash(body).hex());
    for (const te::Axis& a : s.axes) text += fmt::format(" {}:{}", a.id, a.extent.value());
    for (const int64_t d : value(p.form.a->tensor).dims) text += fmt::format(" {}", d);
    return text;
  }

  // Products that need equally many others of the class before them do not need each other.
  std::vector<std::vector<Product>> independent(const std::vector<Product>& members) const {
    if (members.size() < 2) return {};
    std::vector<size_t> depth(g_.stages.size(), 0);
    std::vector<std::vector<Product>> out;
    size_t next = 0;
    for (size_t s = 0; s < g_.stages.size(); ++s) {
      for (const int v : values_read(g_.stages[s].body))
        if (const int from = value(v).stage; from >= 0) depth[s] = std::max(depth[s], depth[static_cast<size_t>(from)]);
      if (next == members.size() || members[next].stage != static_cast<int>(s)) continue;
      if (out.size() <= depth[s]) out.resize(depth[s] + 1);
      if (out[depth[s]].size() < kMostParts) out[depth[s]].push_back(members[next]);
      ++depth[s], ++next;
    }
    return out;
  }

  // The read followed through stages that only move elements.
  std::optional<Position> resolve(Expr read, const std::vector<te::Axis>& scope) const {
    while (true) {
      const int s = value(read->tensor).stage;
      if (s < 0 || !is_move(stage(s).body) || stage(s).body.dtype() != read.dtype()) break;
      te::Substitution at;
      for (size_t d = 0; d < read->args.size(); ++d) at.var(stage(s).axes[d].id, read->args[d]);
      const Expr next = te::simplify(at(stage(s).body), scope);
      if (!std::all_of(next->args.begin(), next->args.end(), [](const Expr& i) { return linear(i).has_value(); }))
        break;
      read = next;
    }
    Position out{read->tensor, {}};
    for (const Expr& i : read->args) {
      const auto l = linear(i);
      if (!l) return std::nullopt;
      out.at.push_back(*l);
    }
    return out;
  }

  // When the left sides of all products are equally far apart in one value: that read, with the merged rows.
  std::optional<Expr> common_read(const std::vector<Product>& group) const {
    const ModelStage& first = stage(group[0].stage);
    const te::Axis row = first.axes[group[0].axis];
    std::vector<te::Axis> scope = first.axes;
    scope.insert(scope.end(), first.body->axes.begin(), first.body->axes.end());
    std::vector<Position> at;
    for (const Product& p : group) {
      auto position = resolve(p.form.a, scope);
      if (!position || (!at.empty() && (position->value != at[0].value))) return std::nullopt;
      at.push_back(*std::move(position));
    }
    std::vector<Expr> indices;
    bool moves = false;
    for (size_t d = 0; d < at[0].at.size(); ++d) {
      const int64_t step = at[1].at[d].constant - at[0].at[d].constant;
      for (size_t i = 0; i < at.size(); ++i)
        if (at[i].at[d].terms != at[0].at[d].terms ||
            at[i].at[d].constant != at[0].at[d].constant + static_cast<int64_t>(i) * step)
          return std::nullopt;
      const int64_t extent = row.extent.value(), each = at[0].at[d].of(row.id);
      if (extent > 1 && each * extent != step) return std::nullopt;
      Expr index(at[0].at[d].constant);
      for (const auto& [var, by] : at[0].at[d].terms) {
        if (var == row.id) continue;
        const auto axis = std::find_if(scope.begin(), scope.end(), [&](const te::Axis& a) { return a.id == var; });
        index = index + Expr(*axis) * Expr(by);
      }
      const int64_t by = extent > 1 ? each : step;
      moves = moves || by != 0;
      indices.push_back(te::simplify(index + Expr(row) * Expr(by)));
    }
    if (!moves) return std::nullopt;
    return Expr::read(at[0].value, group[0].form.a.dtype(), std::move(indices));
  }

  int new_value(const ModelStage& like, std::vector<int64_t> dims) {
    StageValue v;
    v.name = value(like.value).name;
    v.dtype = value(like.value).dtype;
    v.dims = std::move(dims);
    g_.values.push_back(std::move(v));
    return static_cast<int>(g_.values.size()) - 1;
  }

  // A stage that has the left sides one below the other.
  ModelStage joined(const std::vector<Product>& group) {
    const int left = group[0].form.a->tensor;
    ModelStage out;
    std::vector<int64_t> dims = value(left).dims;
    const int64_t each = dims[0];
    dims[0] *= static_cast<int64_t>(group.size());
    std::vector<Expr> at;
    for (size_t d = 0; d < dims.size(); ++d) {
      out.axes.push_back({static_cast<int>(d), fmt::format("i{}", d), Dim(dims[d])});
      at.emplace_back(out.axes.back());
    }
    for (size_t i = group.size(); i-- > 0;) {
      const int64_t start = static_cast<int64_t>(i) * each;
      std::vector<Expr> here = at;
      here[0] = te::simplify(at[0] - Expr(start));
      const Expr part = Expr::read(group[i].form.a->tensor, value(left).dtype, std::move(here));
      out.body = out.body.empty() ? part : te::select(at[0] < Expr(start + each), part, out.body);
    }
    out.origin = stage(group[0].stage).origin;
    StageValue v;
    v.name = value(left).name;
    v.dtype = value(left).dtype;
    v.dims = std::move(dims);
    g_.values.push_back(std::move(v));
    out.value = static_cast<int>(g_.values.size()) - 1;
    return out;
  }

  void merge(const std::vector<Product>& group) {
    const ModelStage first = stage(group[0].stage);
    const size_t dim = group[0].axis;
    const int64_t each = first.axes[dim].extent.value();
    std::vector<ModelStage> made;
    auto left = common_read(group);
    if (!left) {
      made.push_back(joined(group));
      std::vector<Expr> at = group[0].form.a->args;
      at[0] = Expr(first.axes[dim]);
      left = Expr::read(made.back().value, group[0].form.a.dtype(), std::move(at));
    }
    ModelStage all = first;
    all.axes[dim].extent = Dim(each * static_cast<int64_t>(group.size()));
    te::Substitution to_left;
    const Expr a = group[0].form.a;
    to_left.reads([&](const te::Node& read, const std::vector<Expr>&) -> Expr {
      return read.tensor == a->tensor ? *left : Expr();
    });
    const Expr& r = first.body;
    all.body = te::reduce(r->combiner, r->axes, to_left(r->args[0]), r->args[1]);
    std::vector<int64_t> dims = value(first.value).dims;
    dims[dim] = each * static_cast<int64_t>(group.size());
    all.value = new_value(first, std::move(dims));
    for (size_t i = 1; i < group.size() && all.origin.size() < 32; ++i)
      for (const std::string& o : stage(group[i].stage).origin) all.origin.push_back(o);
    std::map<int, int64_t> start;
    for (size_t i = 0; i < group.size(); ++i) start[stage(group[i].stage).value] = static_cast<int64_t>(i) * each;
    made.push_back(std::move(all));
    redirect(start, made.back().value, dim);
    for (ModelStage& s : made) g_.stages.push_back(std::move(s));
    sort();
  }

  // The parts of the whole: as values that lie in it where every reader can take them so, else their readers read the
  // whole.
  void redirect(const std::map<int, int64_t>& start, int whole, size_t dim) {
    std::map<int, int64_t> moved;
    for (const auto& [part, at] : start)
      if (!lies_inside(part)) moved[part] = at;
    for (ModelStage& s : g_.stages) {
      if (const auto it = start.find(s.value); it != start.end() && !moved.count(s.value)) {
        become_part(s, whole, dim, it->second);
        continue;
      }
      te::Substitution to_whole;
      bool changed = false;
      to_whole.reads([&](const te::Node& read, std::vector<Expr> at) -> Expr {
        const auto it = moved.find(read.tensor);
        if (it == moved.end()) return {};
        changed = true;
        at[dim] = te::simplify(at[dim] + Expr(it->second));
        return Expr::read(whole, read.dtype, std::move(at));
      });
      Expr body = to_whole(s.body);
      if (!changed) continue;
      s.body = std::move(body);
      if (moved.count(s.view_of)) s.view_of = -1;
    }
  }

  // A view must have the elements of its source together, and so must a value that is read at positions found in data.
  bool lies_inside(int part) const {
    return std::none_of(g_.stages.begin(), g_.stages.end(), [&](const ModelStage& s) {
      if (s.view_of == part) return true;
      const std::vector<Expr> reads = reads_of(s.body, part);
      return std::any_of(reads.begin(), reads.end(), [](const Expr& r) {
        return std::any_of(r->args.begin(), r->args.end(), [](const Expr& i) { return !values_read(i).empty(); });
      });
    });
  }

  void become_part(ModelStage& s, int whole, size_t dim, int64_t start) {
    std::vector<Expr> at = te::exprs(s.axes);
    at[dim] = te::simplify(at[dim] + Expr(start));
    s.body = Expr::read(whole, value(s.value).dtype, std::move(at));
    s.in_parts = true;
    StageValue& v = g_.values[static_cast<size_t>(s.value)];
    v.host = whole;
    v.host_start.assign(v.dims.size(), 0);
    v.host_start[dim] = start;
  }

  // Each stage after those it reads, otherwise in the order there was; what is new as early as it can be.
  void sort() {
    for (StageValue& v : g_.values) v.stage = -1;
    for (size_t s = 0; s < g_.stages.size(); ++s)
      g_.values[static_cast<size_t>(g_.stages[s].value)].stage = static_cast<int>(s);
    std::vector<int> waiting(g_.stages.size(), 0);
    std::vector<std::vector<size_t>> next(g_.stages.size());
    for (size_t s = 0; s < g_.stages.size(); ++s)
      for (const int v : values_read(g_.stages[s].body))
        if (const int from = value(v).stage; from >= 0) next[static_cast<size_t>(from)].push_back(s), ++waiting[s];
    std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
    for (size_t s = 0; s < g_.stages.size(); ++s)
      if (waiting[s] == 0) ready.push(s);
    std::vector<ModelStage> sorted;
    while (!ready.empty()) {
      const size_t s = ready.top();
      ready.pop();
      for (const size_t n : next[s])
        if (--waiting[n] == 0) ready.push(n);
      sorted.push_back(std::move(g_.stages[s]));
    }
    g_.stages = std::move(sorted);
  }

  StageGraph& g_;
};

}  // namespace

void merge_products(StageGraph& graph) { ProductMerger(graph).run(); }

}  // namespace isomer::compile
