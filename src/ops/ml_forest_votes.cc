// Votes of decision trees in one plain form: what the tree ensembles of ai.onnx.ml expand to.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/op.h"
#include "ops/ml_scores.h"

namespace isomer::ops {
namespace {

enum class Combine : uint8_t { Sum, Min, Max };

// Every node asks x[feature] <= threshold. Children come in pairs, first where it holds; below zero they are leaf ~i.
struct Trees {
  std::vector<int64_t> features, missing, children, roots, starts, targets;
  std::vector<double> thresholds, weights;
  int64_t count = 1;
  Combine combine = Combine::Sum;
};

// Nodes come before their children, so that every walk ends.
Expected<void> check_nodes(const ir::OpContext& c, const Trees& t) {
  const auto nodes = static_cast<int64_t>(t.features.size()), leaves = static_cast<int64_t>(t.starts.size()) - 1;
  for (int64_t i = 0; i < nodes; ++i) {
    const auto at = static_cast<size_t>(i);
    if (t.features[at] < 0 || t.features[at] == INT64_MAX)
      return c.error(fmt::format("a node tests feature {}, expected 0 or more", t.features[at]));
    for (const int64_t to : {t.children[2 * at], t.children[2 * at + 1]})
      if (to < 0 ? ~to >= leaves : to <= i || to >= nodes)
        return c.error(fmt::format("node {} has child {}, expected a later node or a leaf", i, to));
  }
  for (const int64_t r : t.roots)
    if (r < 0 ? ~r >= leaves : r >= nodes) return c.error(fmt::format("root {} does not exist", r));
  return {};
}

Expected<void> check_votes(const ir::OpContext& c, const Trees& t) {
  if (t.count < 1) return c.error(fmt::format("the number of targets is {}, expected at least 1", t.count));
  if (t.starts.empty() || t.starts[0] != 0 || t.starts.back() != static_cast<int64_t>(t.targets.size()) ||
      !std::is_sorted(t.starts.begin(), t.starts.end()))
    return c.error("'starts' must rise from 0 to the number of votes");
  for (const int64_t v : t.targets)
    if (v < 0 || v >= t.count) return c.error(fmt::format("a leaf votes for target {}, of {}", v, t.count));
  return {};
}

Expected<Trees> trees_of(const ir::OpContext& c) {
  const Tensor *thresholds = c.tensor("thresholds"), *weights = c.tensor("weights");
  if (!is_float(thresholds->dtype()) || !is_float(weights->dtype()))
    return c.error("'thresholds' and 'weights' must be floats");
  Trees t{c.ints("features"),
          c.ints("missing"),
          c.ints("children"),
          c.ints("roots"),
          c.ints("starts"),
          c.ints("targets"),
          {},
          {}};
  t.thresholds = thresholds->to_reals();
  t.weights = weights->to_reals();
  t.count = c.integer("n_targets");
  const std::string& how = c.text("combine");
  if (how != "sum" && how != "min" && how != "max")
    return c.error(fmt::format("unknown 'combine' {}, expected sum, min or max", quoted(how)));
  t.combine = how == "sum" ? Combine::Sum : how == "min" ? Combine::Min : Combine::Max;
  const size_t n = t.features.size();
  if (t.missing.size() != n || t.thresholds.size() != n || t.children.size() != 2 * n)
    return c.error(fmt::format("the lists of {} nodes have different lengths", n));
  if (t.weights.size() != t.targets.size()) return c.error("'targets' and 'weights' have different lengths");
  ISOMER_CHECK_OK(check_votes(c, t));
  ISOMER_CHECK_OK(check_nodes(c, t));
  if (c.rank(0) != 2) return c.error(fmt::format("expected rows of features, found {}", c.shape(0).to_string()));
  const Dim& features = c.dim(0, 1);
  for (const int64_t f : t.features)
    if (features.is_const() && f >= features.value())
      return c.error(fmt::format("a node tests feature {} of rows of {}", f, features.value()));
  return t;
}

size_t leaf_of(const Trees& t, int64_t at, const double* row) {
  while (at >= 0) {
    const auto i = static_cast<size_t>(at);
    const double x = row[t.features[i]];
    const bool holds = x <= t.thresholds[i] || (std::isnan(x) && t.missing[i] != 0);
    at = t.children[2 * i + (holds ? 0 : 1)];
  }
  return static_cast<size_t>(~at);
}

double combined(Combine how, double old, double vote) {
  if (how == Combine::Sum) return old + vote;
  return how == Combine::Min ? std::min(old, vote) : std::max(old, vote);
}

Expected<std::vector<Tensor>> count_votes(const ir::OpContext& c) {
  ISOMER_TRY(const Trees t, trees_of(c));
  const std::vector<int64_t> dims = {c.dim(0, 0).value(), t.count};
  ISOMER_CHECK_OK(checked_elements(DType::F64, dims));
  Tensor scores(DType::F64, dims), voted(DType::Bool, dims);
  const std::vector<double> x = c.value(0)->to_reals();
  for (int64_t r = 0; r < dims[0]; ++r)
    for (const int64_t root : t.roots) {
      const size_t leaf = leaf_of(t, root, x.data() + r * c.dim(0, 1).value());
      for (auto v = static_cast<size_t>(t.starts[leaf]); v < static_cast<size_t>(t.starts[leaf + 1]); ++v) {
        const int64_t at = r * t.count + t.targets[v];
        const bool first = voted.integer(at) == 0;
        scores.set_real(at, first ? t.weights[v] : combined(t.combine, scores.real(at), t.weights[v]));
        voted.set_integer(at, 1);
      }
    }
  std::vector<Tensor> out = {scores, voted};
  out.resize(c.output_count());
  return out;
}

}  // namespace

ir::OpDef op_ml_forest_votes() {
  using enum ir::AttrKind;
  ir::OpDef op;
  op.name = "ml_forest_votes";
  op.doc =
      "What decision trees vote for rows of features, and which targets had a vote; each node asks x <= threshold.";
  op.inputs = {{"x", "T", kFeatures | DType::F16}};
  op.outputs = {{"scores", "f64"}, {"voted", "bool", ir::Arity::Optional}};
  op.attrs = {{.name = "children", .kind = Ints},
              {.name = "combine", .kind = String, .standard = ir::AttrValue(std::string("sum"))},
              {.name = "features", .kind = Ints},
              {.name = "missing", .kind = Ints},
              {.name = "n_targets", .kind = Int, .standard = ir::AttrValue(int64_t{1})},
              {.name = "roots", .kind = Ints},
              {.name = "starts", .kind = Ints},
              {.name = "targets", .kind = Ints},
              {.name = "thresholds", .kind = Tensor, .required = true},
              {.name = "weights", .kind = Tensor, .required = true}};
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    ISOMER_TRY(const Trees t, trees_of(c));
    const Shape shape{c.dim(0, 0), Dim(t.count)};
    std::vector<Type> types = {c.out(0, shape), c.out(1, shape)};
    types.resize(c.output_count());
    return types;
  };
  op.kernel = count_votes;
  op.samples = {
      "ml_forest_votes(f32[5,2]){features=[1,0,1], thresholds=const f64[3] [0.25,-0.5,0.75], missing=[0,1,0], "
      "children=[1,2,-1,-2,-3,-1], roots=[0,1], starts=[0,1,3,3], targets=[0,1,2], weights=const f64[3] [1,2,-4], "
      "n_targets=3} -> 2",
      "ml_forest_votes(i64[4,1]){features=[0], thresholds=const f64[1] [0], missing=[0], children=[-1,-2], "
      "roots=[0,0], "
      "starts=[0,1,2], targets=[0,0], weights=const f64[2] [1,2], combine=\"max\"}"};
  op.onnx = {{.type = "ForestVotes", .domain = "isomer"}};
  return op;
}

}  // namespace isomer::ops
