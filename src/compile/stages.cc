#include "compile/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "ir/context.h"
#include "passes/manager.h"
#include "te/simplify.h"
#include "te/substitute.h"

namespace isomer::compile {

using te::Expr;
using te::Kind;

namespace {

bool computes_with(DType t) {
  return t == DType::F64 || t == DType::F32 || t == DType::F16 || t == DType::BF16 || is_int(t) || t == DType::Bool;
}

// An expression of halves in floats: it is rounded when it is stored, not on the way, where a sum may exceed what a half can hold.
class InFloats {
 public:
  Expr operator()(const Expr& e) {
    if (e.dtype() != DType::F16 && e.dtype() != DType::BF16) return e;
    if (const auto known = done_.find(e.identity()); known != done_.end()) return known->second;
    Expr& out = done_[e.identity()];
    if (e->kind == Kind::Real) return out = Expr::real(DType::F32, e->real);
    if (e->kind == Kind::Read || (e->kind == Kind::Cast && !is_int(e->args[0].dtype())))
      return out = te::cast(DType::F32, e);
    te::Node node = *e;
    node.dtype = DType::F32;
    for (Expr& a : node.args) a = (*this)(a);
    return done_[e.identity()] = Expr::make(std::move(node));
  }

 private:
  std::unordered_map<const void*, Expr> done_;
};

// An intermediate larger than this would cost more memory than the computation is worth.
constexpr int64_t kMaxHoisted = int64_t{1} << 28;

// Builds a StageGraph node by node; bodies of composites are walked in place.
class Stager {
 public:
  Stager(const ir::OpTable& table, const Bounds& bounds) : table_(&table), bounds_(bounds) {}
  // The numbers of all symbols, as inputs behind those that there are.
  void add_numbers();
  Expected<std::vector<int64_t>> numbers(std::span<const Dim> dims) const;

  // Values of the graph's inputs are given; returns those of its outputs. The origin is that of the outermost node.
  Expected<std::vector<int>> walk(const ir::Graph& g, const std::vector<int>& inputs, int depth);
  int new_value(std::string name, DType dtype, std::vector<int64_t> dims);
  StageGraph out;

 private:
  Expected<std::vector<int>> node(const ir::Graph& g, const ir::Node& n, const std::vector<int>& inputs, int depth);
  Expected<std::vector<int>> compute(const ir::Node& n, const te::Program& p, const std::vector<int>& inputs);
  Expected<void> add(te::Stage stage, int value);
  // The expression with its reductions replaced by reads of stages of their own. `scope` are the axes around it,
  // `guard` what must hold where it is evaluated (empty: nothing).
  Expected<Expr> hoist(const Expr& e, const std::vector<te::Axis>& scope, const Expr& guard, const std::string& name);
  Expected<Expr> hoist_reduce(const Expr& e, const std::vector<te::Axis>& scope, const Expr& guard,
                              const std::string& name);
  void push(te::Stage stage, int value);
  std::optional<int64_t> known_integer(int value, const std::vector<Expr>& at) const;
  Expr known_place(const Expr& index, int64_t extent) const;

  // Sizes of a run.
  Expr size(const Dim& d) const;
  Expected<Expr> bounded(const Expr& e, std::unordered_map<const void*, Expr>& done) const;
  Expected<void> bound_axes(te::Stage& stage) const;

  const ir::OpTable* table_;
  const Bounds& bounds_;
  std::map<std::string, int> numbers_;  // of symbols: values
  std::vector<std::string> origin_;
};

Expected<std::vector<int64_t>> Stager::numbers(std::span<const Dim> dims) const {
  std::vector<int64_t> all;
  for (const Dim& d : dims) {
    const auto n = most(d, bounds_);
    if (!n) return Diagnostic{"E-compile-size", fmt::format("the size {} is not a number", d.to_string())};
    all.push_back(*n);
  }
  return all;
}

void Stager::add_numbers() {
  for (const auto& [symbol, bound] : bounds_) {
    const int value = new_value(symbol, DType::I64, {1});
    out.values.back().input = static_cast<int>(out.inputs.size());
    out.inputs.push_back(value);
    numbers_[symbol] = value;
  }
}

Expr Stager::size(const Dim& d) const {
  return size_in_run(d, [&](const std::string& name) { return Expr::read(numbers_.at(name), DType::I64, {Expr(0)}); });
}

// Reductions over the bound, where their axes are inside; sizes are read.
Expected<Expr> Stager::bounded(const Expr& e, std::unordered_map<const void*, Expr>& done) const {
  if (const auto at = done.find(e.identity()); at != done.end()) return at->second;
  te::Node node = *e;
  bool changed = false;
  for (Expr& a : node.args) {
    if (a.empty()) continue;
    ISOMER_TRY(const Expr now, bounded(a, done));
    changed = changed || !now.same_node(a);
    a = now;
  }
  Expr made = changed ? Expr::make(node) : e;
  if (e->kind == Kind::Size && !e->size.is_const()) {
    made = size(e->size);
  } else if (e->kind == Kind::Reduce) {
    std::vector<Expr> inside;
    for (te::Axis& a : node.axes) {
      if (a.extent.is_const()) continue;
      const Dim extent = a.extent;
      ISOMER_TRY(const std::vector<int64_t> bound, numbers(std::span(&extent, 1)));
      a.extent = Dim(bound[0]);
      inside.push_back(Expr(a) < size(extent));
    }
    if (!inside.empty() && te::is_arg(node.combiner) && node.axes.size() > 1)
      return Diagnostic{"E-compile-size", "a position among several axes whose sizes follow from data"};
    if (!inside.empty()) made = te::reduce(node.combiner, node.axes, node.args[0], te::all_of(inside) && node.args[1]);
  }
  done.emplace(e.identity(), made);
  return made;
}

// Past the end nothing is evaluated: an index there would be read from nowhere.
Expected<void> Stager::bound_axes(te::Stage& stage) const {
  std::unordered_map<const void*, Expr> done;
  ISOMER_TRY(stage.body, bounded(stage.body, done));
  std::vector<Expr> inside;
  for (te::Axis& a : stage.axes) {
    if (a.extent.is_const()) continue;
    const Dim extent = a.extent;
    ISOMER_TRY(const std::vector<int64_t> bound, numbers(std::span(&extent, 1)));
    a.extent = Dim(bound[0]);
    inside.push_back(Expr(a) < size(extent));
  }
  if (!inside.empty()) stage.body = te::select(te::all_of(inside), stage.body, Expr::literal(stage.dtype, 0));
  return {};
}

int Stager::new_value(std::string name, DType dtype, std::vector<int64_t> dims) {
  StageValue& v = out.values.emplace_back();
  v.name = std::move(name);
  v.dtype = dtype;
  v.dims = std::move(dims);
  return static_cast<int>(out.values.size()) - 1;
}

// The same elements in the same order: the body is a read at exactly the row-major position of the stage's own axes.
int view_of(const StageGraph& g, const te::Stage& s, const std::vector<int64_t>& dims) {
  if (s.body->kind != Kind::Read || s.body->dtype != s.dtype) return -1;
  const StageValue& v = g.values[static_cast<size_t>(s.body->tensor)];
  int64_t elements = 1;
  for (const int64_t d : dims) elements *= d;
  if (v.elements() != elements || elements == 0) return -1;
  const std::vector<Dim> from(v.dims.begin(), v.dims.end()), to(dims.begin(), dims.end());
  const std::vector<Expr> axes = te::exprs(s.axes);
  const std::vector<Expr> at = te::unflatten(te::flatten(axes, to), from);
  for (size_t i = 0; i < at.size(); ++i)
    if (!te::equal(te::simplify(at[i], s.axes), te::simplify(s.body->args[i], s.axes))) return -1;
  return s.body->tensor;
}

void Stager::push(te::Stage stage, int value) {
  ModelStage s;
  s.value = value;
  s.view_of = view_of(out, stage, out.values[static_cast<size_t>(value)].dims);
  if (s.view_of >= 0 && out.values[static_cast<size_t>(s.view_of)].constant) {
    StageValue& v = out.values[static_cast<size_t>(value)];
    v.constant = out.values[static_cast<size_t>(s.view_of)].constant->reshaped(v.dims);
    return;
  }
  s.axes = std::move(stage.axes);
  s.body = std::move(stage.body);
  s.origin = origin_;
  out.values[static_cast<size_t>(value)].stage = static_cast<int>(out.stages.size());
  out.stages.push_back(std::move(s));
}

Expr both(const Expr& a, const Expr& b) {
  if (a.empty()) return b;
  return b.empty() ? a : a && b;
}

Expected<Expr> Stager::hoist_reduce(const Expr& e, const std::vector<te::Axis>& scope, const Expr& guard,
                                    const std::string& name) {
  std::vector<te::Axis> inner = scope;
  inner.insert(inner.end(), e->axes.begin(), e->axes.end());
  ISOMER_TRY(const Expr where, hoist(e->args[1], inner, guard, name));
  ISOMER_TRY(const Expr body, hoist(e->args[0], inner, both(guard, where), name));
  te::Stage stage;
  stage.name = name + ".part";
  stage.dtype = e->dtype;
  stage.body = te::reduce(e->combiner, e->axes, body, both(where, guard));
  const std::vector<int> used = te::free_vars(stage.body);
  std::vector<int64_t> dims;
  std::vector<Expr> at;
  int64_t elements = 1;
  for (const te::Axis& a : scope) {
    // Axes of extent 1 stay, so that the value keeps the rank of the one it becomes.
    if (a.extent.value() != 1 && std::find(used.begin(), used.end(), a.id) == used.end()) continue;
    stage.axes.push_back(a);
    dims.push_back(a.extent.value());
    at.emplace_back(a);
    elements = dims.back() > 0 && elements > kMaxHoisted / dims.back() ? kMaxHoisted + 1 : elements * dims.back();
  }
  if (elements > kMaxHoisted)
    return Diagnostic{"E-compile-large",
                      fmt::format("a sum inside {} would need an intermediate of too many elements", name)};
  const int value = new_value(stage.name, e->dtype, std::move(dims));
  push(std::move(stage), value);
  return Expr::read(value, e->dtype, std::move(at));
}

Expected<Expr> Stager::hoist(const Expr& e, const std::vector<te::Axis>& scope, const Expr& guard,
                             const std::string& name) {
  if (!te::has_reduction(e)) return e;
  if (e->kind == Kind::Reduce) return hoist_reduce(e, scope, guard, name);
  te::Node node = *e;
  for (size_t i = 0; i < node.args.size(); ++i) {
    Expr inside = guard;
    if (e->kind == Kind::Select && i > 0) inside = both(guard, i == 1 ? node.args[0] : !node.args[0]);
    ISOMER_TRY(node.args[i], hoist(node.args[i], scope, inside, name));
  }
  return Expr::make(std::move(node));
}

Expected<void> Stager::add(te::Stage stage, int value) {
  stage.body = te::simplify(stage.body, stage.axes);
  if (stage.body->kind == Kind::Reduce && stage.body->dtype == stage.dtype) {
    const Expr r = stage.body;
    std::vector<te::Axis> inner = stage.axes;
    inner.insert(inner.end(), r->axes.begin(), r->axes.end());
    ISOMER_TRY(const Expr where, hoist(r->args[1], inner, {}, stage.name));
    ISOMER_TRY(const Expr body, hoist(r->args[0], inner, where, stage.name));
    if (!body.same_node(r->args[0]) || !where.same_node(r->args[1]))
      stage.body = te::reduce(r->combiner, r->axes, body, where);
  } else {
    if (te::has_reduction(stage.body)) stage.body = te::cast(stage.dtype, InFloats()(stage.body));
    ISOMER_TRY(stage.body, hoist(stage.body, stage.axes, {}, stage.name));
  }
  push(std::move(stage), value);
  return {};
}

// An element of a constant that is read at one place.
std::optional<int64_t> Stager::known_integer(int value, const std::vector<Expr>& at) const {
  const StageValue& v = out.values[static_cast<size_t>(value)];
  if (!v.constant || !is_int(v.dtype)) return std::nullopt;
  int64_t position = 0;
  for (size_t d = 0; d < at.size(); ++d) {
    if (v.dims[d] == 1) continue;
    if (at[d]->kind != Kind::Int || at[d]->integer < 0 || at[d]->integer >= v.dims[d]) return std::nullopt;
    position = position * v.dims[d] + at[d]->integer;
  }
  return v.constant->integer(position);
}

// An index that reads constants alone is one number: then it is no data, and what it moves can be seen through. One that is out
// of range stays as it is, for the run to say so.
Expr Stager::known_place(const Expr& index, int64_t extent) const {
  bool reads = false;
  te::Substitution known;
  known.reads([&](const te::Node& r, std::vector<Expr> at) {
    reads = true;
    const auto number = known_integer(r.tensor, at);
    return number ? Expr::integer(r.dtype, *number) : Expr::read(r.tensor, r.dtype, std::move(at));
  });
  const Expr place = te::simplify(known(index));
  return reads && place->kind == Kind::Int && place->integer >= 0 && place->integer < extent ? place : index;
}

Expected<std::vector<int>> Stager::compute(const ir::Node& n, const te::Program& p, const std::vector<int>& inputs) {
  std::vector<int> slots;
  for (size_t i = 0; i < p.inputs.size(); ++i) slots.push_back(i < inputs.size() ? inputs[i] : -1);
  for (size_t s = 0; s < p.stages.size(); ++s) {
    te::Stage stage = p.stages[s];
    std::vector<Dim> extents;
    for (const te::Axis& a : stage.axes) extents.push_back(a.extent);
    ISOMER_TRY(std::vector<int64_t> dims, numbers(extents));
    const auto output = std::find(p.outputs.begin(), p.outputs.end(), static_cast<int>(p.inputs.size() + s));
    std::string name = n.names.empty() ? stage.name : n.names[0] + "." + stage.name;
    if (output != p.outputs.end()) {
      const auto k = static_cast<size_t>(output - p.outputs.begin());
      if (k < n.names.size() && !n.names[k].empty()) name = n.names[k];
    }
    const int value = new_value(std::move(name), stage.dtype, std::move(dims));
    stage.name = out.values.back().name;
    te::Substitution renumber;
    renumber.reads([&](const te::Node& r, std::vector<Expr> at) {
      const int slot = slots[static_cast<size_t>(r.tensor)];
      for (size_t d = 0; slot >= 0 && d < at.size(); ++d)
        at[d] = known_place(at[d], out.values[static_cast<size_t>(slot)].dims[d]);
      return Expr::read(slot, r.dtype, std::move(at));
    });
    stage.body = renumber(stage.body);
    if (!bounds_.empty()) ISOMER_CHECK_OK(bound_axes(stage));
    ISOMER_CHECK_OK(add(std::move(stage), value));
    slots.push_back(value);
  }
  std::vector<int> results;
  for (const int slot : p.outputs) results.push_back(slots[static_cast<size_t>(slot)]);
  return results;
}

std::optional<ir::Graph> folded_constants(const ir::Graph& body, const ir::OpTable& table) {
  const auto steps = passes::parse_passes("fold_constants");
  if (!steps.ok()) return std::nullopt;
  auto result = passes::run(body, table, *steps);
  if (!result.ok() || ir::equal(result->graph, body)) return std::nullopt;
  return std::move(result->graph);
}

Diagnostic at_node(const ir::Node& n, std::string_view why) {
  return {"E-compile-node",
          fmt::format("node {} ({}) cannot be compiled: {}", n.names.empty() ? n.label : n.names[0], n.op->name, why)};
}

Expected<std::vector<int>> Stager::node(const ir::Graph& g, const ir::Node& n, const std::vector<int>& inputs,
                                        int depth) {
  const ir::OpContext c = ir::context_of(g, n, *table_);
  if (n.op->compute) {
    auto p = n.op->compute(c);
    if (!p) return at_node(n, p.error().message);
    auto results = compute(n, *p, inputs);
    if (!results) return at_node(n, results.error().message);
    return results;
  }
  if (!n.op->expand && n.op->expand_text.empty()) return at_node(n, "it has an opaque kernel");
  if (depth > 16) return at_node(n, "its expansion is nested too deeply");
  auto body = ir::expand(c);
  if (!body) return at_node(n, body.error().message);
  // The expansion's inputs are the node's present ones in order, less those that became constants: found by name.
  std::vector<int> present;
  for (const int v : inputs)
    if (v >= 0) present.push_back(v);
  if (present.size() < body->input_count()) return at_node(n, "its expansion has more inputs than the node");
  auto results = walk(*body, present, depth + 1);
  // Sizes that an expansion computes from shapes are constants only when they have been computed.
  if (!results)
    if (auto folded = folded_constants(*body, *table_)) results = walk(*folded, present, depth + 1);
  if (!results) return at_node(n, results.error().message);
  return results;
}

Expected<std::vector<int>> Stager::walk(const ir::Graph& g, const std::vector<int>& inputs, int depth) {
  std::unordered_map<uint64_t, int> value_of;
  const auto key = [](ir::Value v) { return uint64_t{v.node} << 32 | v.index; };
  for (uint32_t id = 0; id < g.nodes().size(); ++id) {
    const ir::Node& n = g.node(id);
    if (n.op == &ir::input_op()) {
      value_of[key({id, 0})] = inputs[id];
      continue;
    }
    if (n.op == &ir::const_op()) {
      const Tensor& t = *n.attrs.get<Tensor>("value");
      if (!computes_with(t.dtype()))
        return at_node(n, fmt::format("its element type {} is carried only", name(t.dtype())));
      const int v = new_value(n.names[0], t.dtype(), t.dims());
      out.values.back().constant = t;
      value_of[key({id, 0})] = v;
      continue;
    }
    if (depth == 0) origin_ = n.origin.empty() ? std::vector<std::string>{n.names[0]} : n.origin;
    std::vector<int> in;
    for (const ir::Value& v : n.inputs) in.push_back(v.is_none() ? -1 : value_of.at(key(v)));
    ISOMER_TRY(const std::vector<int> results, node(g, n, in, depth));
    for (uint32_t k = 0; k < results.size(); ++k) value_of[key({id, k})] = results[k];
  }
  std::vector<int> results;
  for (const ir::Output& o : g.outputs()) results.push_back(value_of.at(key(o.value)));
  return results;
}

}  // namespace

Expected<StageGraph> stages_of(const ir::Graph& graph, const ir::OpTable& table, const Bounds& bounds) {
  Stager stager(table, bounds);
  std::vector<int> inputs;
  for (size_t i = 0; i < graph.input_count(); ++i) {
    const ir::Node& n = graph.inputs()[i];
    if (!computes_with(n.types[0].dtype))
      return at_node(n, fmt::format("its element type {} is carried only", name(n.types[0].dtype)));
    if (!n.types[0].shape.has_rank()) return at_node(n, "its rank is not known");
    auto dims = stager.numbers(n.types[0].shape.dims());
    if (!dims) return at_node(n, dims.error().message);
    inputs.push_back(stager.new_value(n.names[0], n.types[0].dtype, *std::move(dims)));
    stager.out.values.back().input = static_cast<int>(i);
  }
  stager.out.inputs = inputs;
  stager.add_numbers();
  ISOMER_TRY(stager.out.outputs, stager.walk(graph, inputs, 0));
  stager.out.prune();
  return std::move(stager.out);
}

}  // namespace isomer::compile
