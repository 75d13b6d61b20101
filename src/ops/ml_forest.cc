#include "ops/ml_forest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

namespace isomer::ops {
namespace {

// Depth-first with colours, without recursion: chains may be as long as the file.
bool has_cycle(const std::vector<Forest::Node>& nodes) {
  enum : uint8_t { New, Open, Done };
  std::vector<uint8_t> colour(nodes.size(), New);
  std::vector<std::pair<size_t, int>> stack;
  for (size_t start = 0; start < nodes.size(); ++start) {
    if (colour[start] == New) stack.emplace_back(start, 0);
    while (!stack.empty()) {
      auto& [at, step] = stack.back();
      colour[at] = Open;
      if (step == 2) {
        colour[at] = Done;
        stack.pop_back();
        continue;
      }
      const int64_t next = step++ == 0 ? nodes[at].if_true : nodes[at].if_false;
      if (next < 0) continue;
      const auto to = static_cast<size_t>(next);
      if (colour[to] == Open) return true;
      if (colour[to] == New) stack.emplace_back(to, 0);
    }
  }
  return false;
}

}  // namespace

Expected<void> Forest::check(const ir::OpContext& c) {
  const auto node_count = static_cast<int64_t>(nodes.size()), leaf_count = static_cast<int64_t>(leaves.size());
  const auto in_range = [&](int64_t to) { return to < 0 ? ~to < leaf_count : to < node_count; };
  if (targets < 1) return c.error(fmt::format("the number of targets or classes is {}, expected at least 1", targets));
  for (const Node& n : nodes) {
    if (!in_range(n.if_true) || !in_range(n.if_false)) return c.error("a tree node names a child that does not exist");
    if (n.feature < 0 || n.feature == INT64_MAX)
      return c.error(fmt::format("a tree node tests feature {}, expected 0 or more", n.feature));
    if (n.split == Split::Member && n.set >= sets.size()) return c.error("a membership test has no set of values");
    features = std::max(features, n.feature + 1);
  }
  for (int64_t r : roots)
    if (!in_range(r)) return c.error(fmt::format("tree root {} does not exist", r));
  for (const auto& leaf : leaves)
    for (const Vote& v : leaf)
      if (v.target < 0 || v.target >= targets)
        return c.error(fmt::format("a leaf votes for target {}, expected 0 to {}", v.target, targets - 1));
  if (has_cycle(nodes)) return c.error("a tree has a cycle: a node is below itself");
  return {};
}

bool Forest::votes_for_all() const {
  // One tree that votes for a target whatever leaf is reached is enough. Leaves of one tree are not told apart here, so all
  // trees have to.
  for (const auto& leaf : leaves) {
    std::set<int64_t> targets_of;
    for (const Vote& v : leaf) targets_of.insert(v.target);
    if (static_cast<int64_t>(targets_of.size()) < targets) return false;
  }
  return !roots.empty() && !leaves.empty();
}

std::vector<ir::AttrDef> forest_attrs(const std::string& prefix) {
  using enum ir::AttrKind;
  std::vector<ir::AttrDef> attrs = {{.name = "base_values", .kind = Reals},
                                    {.name = "base_values_as_tensor", .kind = Tensor}};
  for (const char* s : {"ids", "nodeids", "treeids"}) attrs.push_back({.name = prefix + "_" + s, .kind = Ints});
  attrs.push_back({.name = prefix + "_weights", .kind = Reals});
  attrs.push_back({.name = prefix + "_weights_as_tensor", .kind = Tensor});
  for (const char* s : {"falsenodeids", "featureids", "missing_value_tracks_true", "nodeids", "treeids", "truenodeids"})
    attrs.push_back({.name = std::string("nodes_") + s, .kind = Ints});
  for (const char* s : {"hitrates", "values"}) {
    attrs.push_back({.name = std::string("nodes_") + s, .kind = Reals});
    attrs.push_back({.name = std::string("nodes_") + s + "_as_tensor", .kind = Tensor});
  }
  attrs.push_back({.name = "nodes_modes", .kind = Strings});
  attrs.push_back(post_transform_attr());
  return attrs;
}

namespace {

using Key = std::pair<int64_t, int64_t>;  // tree, node

// The numbers of the listed nodes, sorted by their keys: lists of forests are long.
class Listed {
 public:
  Listed(const std::vector<int64_t>& trees, const std::vector<int64_t>& ids) {
    for (size_t i = 0; i < ids.size(); ++i) all_.emplace_back(Key{trees[i], ids[i]}, i);
    std::sort(all_.begin(), all_.end());
  }
  std::optional<size_t> find(const Key& key) const {
    const auto it = std::lower_bound(all_.begin(), all_.end(), std::pair(key, size_t{0}));
    return it == all_.end() || it->first != key ? std::nullopt : std::optional(it->second);
  }
  const Key* twice() const {
    for (size_t i = 1; i < all_.size(); ++i)
      if (all_[i].first == all_[i - 1].first) return &all_[i].first;
    return nullptr;
  }

 private:
  std::vector<std::pair<Key, size_t>> all_;
};

struct Lists {
  std::vector<int64_t> trees, ids, features, yes, no, missing;
  std::vector<double> values;
  std::vector<std::string> modes;
};

Expected<Lists> lists_of(const ir::OpContext& c) {
  Lists l{c.ints("nodes_treeids"),
          c.ints("nodes_nodeids"),
          c.ints("nodes_featureids"),
          c.ints("nodes_truenodeids"),
          c.ints("nodes_falsenodeids"),
          c.ints("nodes_missing_value_tracks_true"),
          {},
          c.strings("nodes_modes")};
  ISOMER_TRY(l.values, reals_or_tensor(c, "nodes_values"));
  const size_t n = l.ids.size();
  if (l.missing.empty()) l.missing.assign(n, 0);
  for (size_t size : {l.trees.size(), l.features.size(), l.yes.size(), l.no.size(), l.missing.size(), l.values.size(),
                      l.modes.size()})
    if (size != n)
      return c.error(fmt::format("the lists nodes_* have different lengths: {} node ids beside {} elements", n, size));
  return l;
}

Expected<Split> split_of(const ir::OpContext& c, const std::string& mode) {
  constexpr const char* names[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"};
  for (size_t i = 0; i < std::size(names); ++i)
    if (mode == names[i]) return static_cast<Split>(i);
  return c.error(fmt::format("unknown node mode {}", quoted(mode)));
}

// The place of each listed node in a Forest: that of a branch, or of leaf ~i.
std::vector<int64_t> places_of(const Lists& l, Forest& f) {
  std::vector<int64_t> places;
  for (const std::string& mode : l.modes) {
    const bool leaf = mode == "LEAF";
    places.push_back(leaf ? ~static_cast<int64_t>(f.leaves.size()) : static_cast<int64_t>(f.nodes.size()));
    if (leaf)
      f.leaves.emplace_back();
    else
      f.nodes.emplace_back();
  }
  return places;
}

}  // namespace

Expected<Forest> forest_of_lists(const ir::OpContext& c, const std::string& prefix, int64_t targets) {
  ISOMER_TRY(const Lists l, lists_of(c));
  Forest f;
  f.targets = targets;
  const Listed listed(l.trees, l.ids);
  if (const Key* twice = listed.twice())
    return c.error(fmt::format("node {} of tree {} is given twice", twice->second, twice->first));
  const std::vector<int64_t> places = places_of(l, f);
  std::vector<bool> child_of_one(l.ids.size());
  for (size_t i = 0; i < l.ids.size(); ++i) {
    if (places[i] < 0) continue;
    Forest::Node& n = f.nodes[static_cast<size_t>(places[i])];
    ISOMER_TRY(n.split, split_of(c, l.modes[i]));
    n.missing_is_true = l.missing[i] != 0;
    n.feature = l.features[i];
    n.value = l.values[i];
    for (const bool yes : {true, false}) {
      const Key key{l.trees[i], yes ? l.yes[i] : l.no[i]};
      const auto child = listed.find(key);
      if (!child)
        return c.error(
            fmt::format("node {} of tree {} names child {}, which does not exist", l.ids[i], l.trees[i], key.second));
      (yes ? n.if_true : n.if_false) = places[*child];
      child_of_one[*child] = true;
    }
  }
  std::set<int64_t> rooted;
  for (size_t i = 0; i < l.ids.size(); ++i)
    if (!child_of_one[i] && rooted.insert(l.trees[i]).second) f.roots.push_back(places[i]);
  for (int64_t tree : l.trees)
    if (!rooted.contains(tree)) return c.error(fmt::format("tree {} has no root: every node is a child", tree));

  const auto ids = c.ints(prefix + "_ids"), nodes = c.ints(prefix + "_nodeids"), trees = c.ints(prefix + "_treeids");
  ISOMER_TRY(const std::vector<double> weights, reals_or_tensor(c, prefix + "_weights"));
  if (ids.size() != weights.size() || nodes.size() != weights.size() || trees.size() != weights.size())
    return c.error(fmt::format("the lists {}_* have different lengths", prefix));
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto at = listed.find({trees[i], nodes[i]});
    if (!at || places[*at] >= 0)
      return c.error(fmt::format("a weight is for node {} of tree {}, which is no leaf", nodes[i], trees[i]));
    f.leaves[static_cast<size_t>(~places[*at])].push_back({ids[i], weights[i]});
  }
  ISOMER_CHECK_OK(f.check(c));
  return f;
}

namespace {

// The sets of the membership tests: one after the other in a list, a NaN after each.
std::vector<std::vector<double>> sets_of(const ir::OpContext& c) {
  std::vector<std::vector<double>> sets;
  const Tensor* t = c.tensor("membership_values");
  bool open = false;
  for (double v : t ? t->to_reals() : std::vector<double>()) {
    if (!open) sets.emplace_back();
    open = !std::isnan(v);
    if (open) sets.back().push_back(v);
  }
  return sets;
}

}  // namespace

Expected<Forest> forest_of_tensors(const ir::OpContext& c) {
  Forest f;
  f.targets = c.has_attr("n_targets") ? c.integer("n_targets") : 1;
  const Tensor *modes = c.tensor("nodes_modes"), *splits = c.tensor("nodes_splits"),
               *weights = c.tensor("leaf_weights");
  if (!is_int(modes->dtype()) || !is_float(splits->dtype()) || !is_float(weights->dtype()))
    return c.error("'nodes_modes' must be integers, 'nodes_splits' and 'leaf_weights' floats");
  const auto features = c.ints("nodes_featureids"), yes = c.ints("nodes_truenodeids"),
             no = c.ints("nodes_falsenodeids"), yes_leaf = c.ints("nodes_trueleafs"),
             no_leaf = c.ints("nodes_falseleafs"), ids = c.ints("leaf_targetids");
  auto missing = c.ints("nodes_missing_value_tracks_true");
  const size_t n = features.size();
  if (missing.empty()) missing.assign(n, 0);
  for (size_t size : {static_cast<size_t>(modes->size()), static_cast<size_t>(splits->size()), yes.size(), no.size(),
                      yes_leaf.size(), no_leaf.size(), missing.size()})
    if (size != n) return c.error(fmt::format("the lists nodes_* have different lengths: {} beside {}", n, size));
  if (ids.size() != static_cast<size_t>(weights->size()))
    return c.error("'leaf_targetids' and 'leaf_weights' have different lengths");
  f.sets = sets_of(c);
  size_t set = 0;
  for (size_t i = 0; i < n; ++i) {
    const auto at = static_cast<int64_t>(i);
    const int64_t mode = modes->integer(at);
    if (mode < 0 || mode > 6) return c.error(fmt::format("node mode {} is unknown, expected 0 to 6", mode));
    if (yes[i] < 0 || no[i] < 0) return c.error("a tree node names a child that does not exist");
    const auto split = static_cast<Split>(mode);
    f.nodes.push_back({split, missing[i] != 0, features[i], splits->real(at), split == Split::Member ? set++ : 0,
                       yes_leaf[i] ? ~yes[i] : yes[i], no_leaf[i] ? ~no[i] : no[i]});
  }
  for (size_t i = 0; i < ids.size(); ++i) f.leaves.push_back({{ids[i], weights->real(static_cast<int64_t>(i))}});
  f.roots = c.ints("tree_roots");
  if (std::any_of(f.roots.begin(), f.roots.end(), [](int64_t r) { return r < 0; }))
    return c.error("a tree root is negative");
  ISOMER_CHECK_OK(f.check(c));
  return f;
}

}  // namespace isomer::ops
