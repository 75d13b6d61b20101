#include "compile/label_space.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "compile/chained_products.h"
#include "compile/lower_group.h"
#include "compile/stages.h"
#include "compile/storage.h"
#include "te/signature.h"

namespace isomer::compile {
namespace {

constexpr int64_t kLeastElements = 1 << 10;  // of a value whose order is worth a thought
constexpr size_t kMostChoices = 1 << 7;      // of the variables of one factor together

// The dims that have more than one element, in their order: what decides where elements lie.
std::vector<int> essence(const std::vector<int>& order, const std::vector<int64_t>& dims) {
  std::vector<int> out;
  for (const int d : order)
    if (dims[static_cast<size_t>(d)] > 1) out.push_back(d);
  return out;
}

std::vector<int> plain_order(size_t rank) {
  std::vector<int> order(rank);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

// Images by channels: the channels innermost.
std::vector<int> channels_last(size_t rank) {
  std::vector<int> order = plain_order(rank);
  if (rank > 2) std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  return order;
}

void add_order(std::vector<std::vector<int>>& orders, std::vector<int> order, const std::vector<int64_t>& dims) {
  for (const auto& known : orders)
    if (essence(known, dims) == essence(order, dims)) return;
  orders.push_back(std::move(order));
}

}  // namespace

Expected<LabelSpace> LabelSpace::make(const ir::Graph& graph, const ir::OpTable& table, const LowerOptions& options) {
  ISOMER_TRY(StageGraph stages, stages_of(graph, table));
  give_outputs_their_own_stages(stages);
  LabelSpace space;
  space.options_ = &options;
  space.base_ = grouped(std::move(stages), options);
  if (options.piece) open_ports(space.base_);
  const std::vector<Layout> standard =
      choose_layouts(space.base_.graph, space.base_.groups, space.base_.orders, options.piece);
  for (size_t v = 0; v < standard.size(); ++v)
    if (space.base_.graph.values[v].host < 0) space.base_.orders[v] = standard[v].order;
  space.find_variables();
  space.find_factors();
  return space;
}

int LabelSpace::root(int value) const {
  while (base_.graph.values[static_cast<size_t>(value)].host >= 0)
    value = base_.graph.values[static_cast<size_t>(value)].host;
  return value;
}

void LabelSpace::find_variables() {
  const StageGraph& g = base_.graph;
  const std::vector<bool> fixed = fixed_values(g, options_->piece);
  const std::vector<std::vector<int>> readers = g.readers();
  std::vector<int> group_of(g.stages.size(), -1);
  for (size_t i = 0; i < base_.groups.size(); ++i)
    for (const int s : base_.groups[i].with_prologue()) group_of[static_cast<size_t>(s)] = static_cast<int>(i);
  const auto group_of_maker = [&](size_t v) {
    return g.values[v].stage < 0 ? -1 : group_of[static_cast<size_t>(g.values[v].stage)];
  };
  variable_of_.assign(g.values.size(), -1);
  for (size_t v = 0; v < g.values.size(); ++v) {
    const StageValue& value = g.values[v];
    if (value.constant || value.host >= 0 || base_.names[v].empty() || value.elements() < kLeastElements ||
        value.dims.size() < 3)
      continue;
    bool outside = false, product = false;  // somebody else reads it, somebody who would read it again and again
    for (const int r : readers[v]) {
      const int reader = group_of[static_cast<size_t>(r)];
      if (reader < 0 && !g.stages[static_cast<size_t>(r)].in_parts) continue;
      outside = outside || reader != group_of_maker(v);
      product =
          product || (reader >= 0 && reader != group_of_maker(v) && g.stages[static_cast<size_t>(r)].is_reduction());
    }
    if (!outside) continue;
    std::vector<Label> labels;
    if (fixed[v]) {
      const std::vector<int> last = channels_last(value.dims.size());
      if (!product || essence(last, value.dims) == essence(plain_order(value.dims.size()), value.dims)) continue;
      labels = {{{}, false, {}}, {last, true, {}}};
    } else {
      std::vector<std::vector<int>> orders = {base_.orders[v]};
      add_order(orders, channels_last(value.dims.size()), value.dims);
      add_order(orders, plain_order(value.dims.size()), value.dims);
      if (orders.size() < 2) continue;
      for (auto& order : orders) labels.push_back({std::move(order), false, {}});
    }
    variable_of_[v] = static_cast<int>(variables_.size());
    variables_.push_back({base_.names[v], std::move(labels)});
  }
}

void LabelSpace::find_factors() {
  const StageGraph& g = base_.graph;
  std::set<size_t> chained;
  if (options_->fuse && options_->contract)
    for (const Chain& c : chains_of(g, base_.groups)) chained.insert({c.first, c.rows, c.second});
  for (const Group& group : base_.groups) {
    std::set<size_t> touched;
    const auto touch = [&](int value) {
      if (const int v = variable_of_[static_cast<size_t>(root(value))]; v >= 0) touched.insert(static_cast<size_t>(v));
    };
    for (const int s : group.with_prologue()) {
      touch(g.stages[static_cast<size_t>(s)].value);
      for (const int v : values_read(g.stages[static_cast<size_t>(s)].body)) touch(v);
    }
    Factor f;
    f.stage = group.stages.back();
    f.chained = chained.count(static_cast<size_t>(&group - base_.groups.data())) > 0;
    f.variables.assign(touched.begin(), touched.end());
    // A sum of very many values: those that come late stay as they are.
    size_t choices = 1;
    for (const size_t v : f.variables) {
      if (choices * variables_[v].labels.size() > kMostChoices) variables_[v].labels.resize(1);
      choices *= variables_[v].labels.size();
    }
    factors_.push_back(std::move(f));
  }
  for (size_t v = 0; v < g.values.size(); ++v) {
    if (variable_of_[v] < 0) continue;
    const auto variable = static_cast<size_t>(variable_of_[v]);
    if (variables_[variable].labels.back().copy) factors_.push_back({{variable}, -1, static_cast<int>(v)});
  }
}

const std::string& LabelSpace::value_of(size_t factor) const {
  const Factor& f = factors_[factor];
  const int value = f.stage < 0 ? f.copied : base_.graph.stages[static_cast<size_t>(f.stage)].value;
  return base_.names[static_cast<size_t>(value)];
}

// Refers to its own parts: it stays where it is.
struct LabelSpace::Place {
  Grouped model;
  std::vector<Layout> layouts;
  std::vector<std::vector<int>> readers;
  const Group* group = nullptr;
  Scene scene;
};

std::unique_ptr<LabelSpace::Place> LabelSpace::place(size_t factor, std::span<const size_t> labels) const {
  const Factor& f = factors_[factor];
  auto p = std::make_unique<Place>();
  p->model = base_;
  Grouped& m = p->model;
  Labels wanted;
  for (size_t i = 0; i < f.variables.size(); ++i) {
    const Variable& v = variables_[f.variables[i]];
    if (const Label& l = v.labels[labels[i]]; !l.order.empty()) wanted[v.value] = l;
  }
  if (f.copied >= 0 && wanted.empty()) return nullptr;
  apply_labels(wanted, m);
  const auto group = std::find_if(m.groups.begin(), m.groups.end(), [&](const Group& g) {
    if (f.copied < 0) return g.stages.back() == f.stage;
    return static_cast<size_t>(g.stages.back()) >= base_.graph.stages.size();
  });
  if (group == m.groups.end()) return nullptr;
  p->group = &*group;
  p->layouts = choose_layouts(m.graph, m.groups, m.orders, options_->piece);
  p->readers = m.graph.readers();
  p->scene = make_scene(m.graph, p->layouts, p->readers, *options_);
  return p;
}

std::optional<LabelSpace::Work> LabelSpace::made(Place& p, const Method& method) const {
  const bool exactly = !method.standard();
  KernelCache::Key key = KernelCache::key(p.scene, *p.group, method);
  if (exactly) key.bytes += "exactly";
  Work w;
  w.method = method;
  w.kernels = cached_kernels(p.scene, *p.group, method, *options_, key, p.model.graph, exactly);
  if (w.kernels->kernels.empty()) return std::nullopt;
  for (const Kernel& k : w.kernels->kernels) {
    std::vector<bool>& weights = w.weights.emplace_back();
    for (const Argument& a : k.arguments) {
      const StageValue& value = KernelCache::value(a, key, *w.kernels, p.model.graph);
      weights.push_back(value.constant.has_value());
    }
  }
  return w;
}

std::vector<LabelSpace::Work> LabelSpace::work(size_t factor, std::span<const size_t> labels, bool first) const {
  const std::unique_ptr<Place> p = place(factor, labels);
  if (!p) return {};
  std::vector<Algorithm> ways = {Algorithm::Standard,  Algorithm::Split,          Algorithm::Gathered,
                                 Algorithm::Filtering, Algorithm::SplitFiltering, Algorithm::Windows,
                                 Algorithm::Tiles};
  if (!p->group->contraction) ways = {Algorithm::Standard, Algorithm::Windows, Algorithm::Rows};
  if (first || factors_[factor].chained) ways.resize(1);
  std::vector<Work> out;
  for (const Algorithm algorithm : ways) {
    std::optional<Work> w = made(*p, algorithm);
    if (!w) continue;
    const auto same = std::find_if(
        out.begin(), out.end(), [&](const Work& known) { return known.kernels->signatures == w->kernels->signatures; });
    if (same != out.end()) {
      if (same->scheme == Algorithm::Standard) same->scheme = algorithm;
      continue;
    }
    w->scheme = algorithm;
    out.push_back(*std::move(w));
  }
  return out;
}

std::vector<LabelSpace::Work> LabelSpace::cuts(size_t factor, Algorithm scheme) const {
  const std::unique_ptr<Place> p = place(factor, std::vector<size_t>(factors_[factor].variables.size()));
  if (!p || !p->group->contraction || factors_[factor].chained) return {};
  std::vector<Cut> cuts;
  if (scheme == Algorithm::Split) cuts = product_cuts(p->scene, *p->group, true, SplitRows::Windows);
  if (scheme == Algorithm::Gathered) cuts = product_cuts(p->scene, *p->group, true, SplitRows::Gathered);
  if (scheme == Algorithm::Tiles) cuts = product_cuts(p->scene, *p->group, false, SplitRows::Gathered);
  if (scheme == Algorithm::Filtering || scheme == Algorithm::SplitFiltering)
    cuts = winograd_cuts(p->scene, *p->group, scheme == Algorithm::SplitFiltering);
  std::vector<Work> out;
  for (const Cut& cut : cuts)
    if (std::optional<Work> w = made(*p, {scheme, cut})) {
      w->scheme = scheme;
      out.push_back(*std::move(w));
    }
  return out;
}

std::string LabelSpace::reduction_of(size_t factor) const {
  const std::unique_ptr<Place> p = place(factor, std::vector<size_t>(factors_[factor].variables.size()));
  if (!p || !p->group->contraction || factors_[factor].chained) return {};
  const ModelStage& stage = p->scene.stage(p->group->stages[0]);
  te::Signature s(true);
  s.add_tensor(stage.value);
  for (const te::Axis& a : stage.axes) s.add_axis(a);
  s.add(stage.body);
  for (size_t i = 0; i < s.tensors().size(); ++i) {
    const auto value = static_cast<size_t>(s.tensors()[i]);
    // The result is stored as the last stage has it.
    const auto stored = i == 0 ? static_cast<size_t>(p->scene.stage(p->group->stages.back()).value) : value;
    s.add(static_cast<int64_t>(p->model.graph.values[value].dtype));
    for (const int64_t d : p->model.graph.values[value].dims) s.add(d);
    for (const int d : p->layouts[stored].order) s.add(int64_t{d});
  }
  return s.bytes();
}

std::optional<LabelSpace::Work> LabelSpace::way(size_t factor, const Method& method) const {
  const std::unique_ptr<Place> p = place(factor, std::vector<size_t>(factors_[factor].variables.size()));
  if (!p || factors_[factor].chained) return std::nullopt;
  std::optional<Work> w = made(*p, method);
  if (w) w->scheme = method.algorithm;
  return w;
}

Labels LabelSpace::labels(std::span<const size_t> choice, std::span<const Method> methods) const {
  Labels out;
  bool standard = true;
  for (size_t v = 0; v < variables_.size(); ++v) {
    standard = standard && choice[v] == 0;
    if (!variables_[v].labels[choice[v]].order.empty()) out[variables_[v].value] = variables_[v].labels[choice[v]];
  }
  if (standard) out.clear();
  for (size_t f = 0; f < factors_.size(); ++f) {
    if (methods[f].standard() || factors_[f].stage < 0) continue;
    const auto value = static_cast<size_t>(base_.graph.stages[static_cast<size_t>(factors_[f].stage)].value);
    if (!base_.names[value].empty()) out[base_.names[value]].method = methods[f];
  }
  return out;
}

}  // namespace isomer::compile
