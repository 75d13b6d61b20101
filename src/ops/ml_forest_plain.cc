// Trees in their plain form: every kind of test as tests of x <= threshold, in f64, where every element type of features is exact
// or rounds as the reference does.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/ml_forest.h"

namespace isomer::ops {
namespace {

constexpr double kNever = std::numeric_limits<double>::quiet_NaN();  // nothing is below it

// x < v as x <= below(v).
double below(double v) {
  return v == -std::numeric_limits<double>::infinity() ? kNever
                                                       : std::nextafter(v, -std::numeric_limits<double>::infinity());
}

class Plain {
 public:
  explicit Plain(const Forest& forest) : f_(forest), first_(forest.nodes.size()) {
    for (size_t i = 0; i < f_.nodes.size(); ++i) first_[i] = spread(f_.nodes[i]);
    for (Node& n : nodes_)
      for (int64_t* child : {&n.yes, &n.no})
        if (*child >= kOld) *child = first_[static_cast<size_t>(*child - kOld)];
  }

  ir::Attrs attrs(const char* combine) {
    const std::vector<size_t> order = parents_first();
    std::vector<int64_t> place(nodes_.size());
    for (size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<int64_t>(i);
    const auto placed = [&](int64_t to) { return to < 0 ? to : place[static_cast<size_t>(to)]; };
    std::vector<int64_t> features, missing, children, roots, starts = {0}, targets;
    std::vector<double> thresholds, weights;
    for (const size_t i : order) {
      const Node& n = nodes_[i];
      features.push_back(n.feature);
      missing.push_back(n.missing ? 1 : 0);
      thresholds.push_back(n.threshold);
      children.push_back(placed(n.yes));
      children.push_back(placed(n.no));
    }
    for (const int64_t r : f_.roots) roots.push_back(placed(root(r)));
    for (const auto& leaf : f_.leaves) {
      for (const Forest::Vote& v : leaf) targets.push_back(v.target), weights.push_back(v.weight);
      starts.push_back(static_cast<int64_t>(targets.size()));
    }
    const auto reals = [](const std::vector<double>& v) {
      return Tensor::of(DType::F64, {static_cast<int64_t>(v.size())}, v);
    };
    return {{"children", children},
            {"combine", std::string(combine)},
            {"features", features},
            {"missing", missing},
            {"n_targets", f_.targets},
            {"roots", roots},
            {"starts", starts},
            {"targets", targets},
            {"thresholds", reals(thresholds)},
            {"weights", reals(weights)}};
  }

 private:
  struct Node {
    int64_t feature;
    double threshold;
    bool missing;
    int64_t yes, no;  // a leaf ~i, a node, or kOld + a node of the forest
  };
  static constexpr int64_t kOld = int64_t{1} << 62;

  static int64_t old(int64_t to) { return to < 0 ? to : kOld + to; }
  int64_t root(int64_t r) const { return r < 0 ? r : first_[static_cast<size_t>(r)]; }
  int64_t push(int64_t feature, double threshold, bool missing, int64_t yes, int64_t no) {
    nodes_.push_back({feature, threshold, missing, yes, no});
    return static_cast<int64_t>(nodes_.size()) - 1;
  }

  // x == value: not above it, and not below.
  int64_t equal(int64_t feature, double value, bool missing, int64_t yes, int64_t no) {
    const int64_t inner = push(feature, below(value), false, no, yes);
    return push(feature, value, missing, inner, no);
  }

  // Of the sorted values from..to, one at least.
  int64_t member(const Forest::Node& n, const std::vector<double>& set, size_t from, size_t to) {
    if (to - from == 1) return equal(n.feature, set[from], n.missing_is_true, old(n.if_true), old(n.if_false));
    const size_t middle = from + (to - from) / 2;
    const int64_t left = member(n, set, from, middle), right = member(n, set, middle, to);
    return push(n.feature, set[middle - 1], n.missing_is_true, left, right);
  }

  // The nodes of one test; the answer is where it begins.
  int64_t spread(const Forest::Node& n) {
    const int64_t yes = old(n.if_true), no = old(n.if_false);
    if (n.split == Split::Member) {
      std::vector<double> set = f_.sets[n.set];
      std::sort(set.begin(), set.end());
      set.erase(std::unique(set.begin(), set.end()), set.end());
      return set.empty() ? push(n.feature, kNever, n.missing_is_true, yes, no) : member(n, set, 0, set.size());
    }
    if (std::isnan(n.value)) {  // no comparison with it holds, but being another number
      const bool other = n.split == Split::Neq;
      return push(n.feature, kNever, n.missing_is_true || other, yes, other ? yes : no);
    }
    switch (n.split) {
      case Split::Leq: return push(n.feature, n.value, n.missing_is_true, yes, no);
      case Split::Lt: return push(n.feature, below(n.value), n.missing_is_true, yes, no);
      case Split::Gte: return push(n.feature, below(n.value), !n.missing_is_true, no, yes);
      case Split::Gt: return push(n.feature, n.value, !n.missing_is_true, no, yes);
      case Split::Eq: return equal(n.feature, n.value, n.missing_is_true, yes, no);
      case Split::Neq: return equal(n.feature, n.value, false, no, yes);
      case Split::Member: break;
    }
    return 0;
  }

  // Those that a root reaches, each before its children and those of a tree together. Without recursion: chains may be long.
  std::vector<size_t> parents_first() const {
    std::vector<size_t> order;
    std::vector<uint8_t> seen(nodes_.size());
    std::vector<std::pair<size_t, int>> stack;
    const auto visit = [&](int64_t to) {
      if (to >= 0 && !seen[static_cast<size_t>(to)]++) stack.emplace_back(static_cast<size_t>(to), 0);
    };
    for (size_t r = f_.roots.size(); r-- > 0;) {
      visit(root(f_.roots[r]));
      while (!stack.empty()) {
        auto& [at, step] = stack.back();
        if (step == 2) {
          order.push_back(at);
          stack.pop_back();
        } else {
          const size_t node = at;
          visit(step++ == 0 ? nodes_[node].no : nodes_[node].yes);
        }
      }
    }
    std::reverse(order.begin(), order.end());
    return order;
  }

  const Forest& f_;
  std::vector<Node> nodes_;
  std::vector<int64_t> first_;  // where the test of each node of the forest begins
};

}  // namespace

ir::Value forest_scores(Compose& g, const Forest& forest, Aggregate how, ir::Value rows, ir::Value* voted) {
  const char* combine = how == Aggregate::Min ? "min" : how == Aggregate::Max ? "max" : "sum";
  const auto out = g.many("ml_forest_votes", {rows}, Plain(forest).attrs(combine), voted ? 2 : 1);
  if (g.failed()) return ir::Value::none();
  if (voted) *voted = out[1];
  if (how != Aggregate::Average || forest.roots.empty()) return out[0];
  return g("div", {out[0], g.scalar(DType::F64, static_cast<double>(forest.roots.size()))});
}

}  // namespace isomer::ops
