// Votes of decision trees. All trees are one table of nodes: a feature, a threshold, two children; a leaf is a node that leads to
// itself, so that a walk takes as many steps as its tree is deep and needs no branch. Several walks go side by side, since each
// waits for memory at every step: rows of one tree, or trees of one row where rows are few. Tables are as long as a power
// of two, so that a masked index is in range.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include <functional>

#include "compile/assembly.h"
#include "compile/function_writer.h"
#include "compile/kernel.h"
#include "compile/procedures.h"

namespace isomer::compile {

using loop::LoopKind;
using loop::Stmt;
using te::BinaryOp;
using te::Expr;

namespace {

constexpr int64_t kWalks = 8;           // side by side
constexpr int64_t kMostRows = 256;      // of one task
constexpr int64_t kMostCopied = 128;    // features of a row that are brought together
constexpr int64_t kMissing = 1 << 30;   // in the table of features: a missing value goes to the first child
constexpr int64_t kScoreBytes = 65536;  // of one task

int64_t power_of_two(int64_t n) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
}

float rounded_down(double v) {
  const auto f = static_cast<float>(v);
  return static_cast<double>(f) > v ? std::nextafter(f, -std::numeric_limits<float>::infinity()) : f;
}

Tensor numbers(const std::vector<int64_t>& v) {
  Tensor t(DType::U32, {static_cast<int64_t>(v.size())});
  for (size_t i = 0; i < v.size(); ++i) t.set_integer(static_cast<int64_t>(i), v[i]);
  return t;
}

// The attributes of a node of ml_forest_votes, which its record has checked, as tables.
struct Tables {
  int64_t inner = 0, leaves = 0, nodes = 0;  // leaves follow inner nodes; `nodes` is the length of the tables
  std::vector<int64_t> features, children, roots, depths, first, count, targets;
  std::vector<double> thresholds, weights;
  int64_t columns = 1;
  bool missing = false, dense = false;
  std::string combine = "sum";

  explicit Tables(const ir::Node& n) {
    features = ints_of(n, "features");
    children = ints_of(n, "children");
    roots = ints_of(n, "roots");
    targets = ints_of(n, "targets");
    const std::vector<int64_t> starts = ints_of(n, "starts");
    thresholds = n.attrs.get<Tensor>("thresholds")->to_reals();
    weights = n.attrs.get<Tensor>("weights")->to_reals();
    if (const auto* how = n.attrs.get<std::string>("combine")) combine = *how;
    columns = n.types[0].shape[1].value();
    inner = static_cast<int64_t>(features.size());
    leaves = static_cast<int64_t>(starts.size());  // one more, which votes for nothing
    nodes = power_of_two(inner + leaves);
    find_depths();
    const std::vector<int64_t> flags = ints_of(n, "missing");
    for (size_t i = 0; i < flags.size(); ++i)
      if (flags[i] != 0) features[i] |= kMissing, missing = true;
    for (int64_t& c : children) c = place(c);
    features.resize(static_cast<size_t>(nodes), 0);
    thresholds.resize(static_cast<size_t>(nodes), 0);
    for (int64_t i = inner; i < nodes; ++i) children.insert(children.end(), 2, i);
    first.assign(static_cast<size_t>(nodes), 0);
    count = first;
    for (size_t i = 0; i + 1 < starts.size(); ++i) {
      first[static_cast<size_t>(inner) + i] = starts[i];
      count[static_cast<size_t>(inner) + i] = starts[i + 1] - starts[i];
    }
    const auto votes = static_cast<int64_t>(targets.size());
    dense = combine == "sum" && n.types.size() == 1 && leaves <= 4 * (votes + 1) / columns;
  }

  int64_t place(int64_t to) const { return to < 0 ? inner + ~to : to; }
  int64_t nothing() const { return inner + leaves - 1; }

  // The longest way down from each root; children come after their parents.
  void find_depths() {
    std::vector<int64_t> below(features.size(), 1);
    for (size_t i = below.size(); i-- > 0;)
      for (const int64_t c : {children[2 * i], children[2 * i + 1]})
        if (c >= 0) below[i] = std::max(below[i], 1 + below[static_cast<size_t>(c)]);
    for (int64_t& r : roots) {
      depths.push_back(r < 0 ? 0 : below[static_cast<size_t>(r)]);
      r = place(r);
    }
  }
};

class Forest {
 public:
  Forest(const Composer& composer, const ir::Graph& g, const ir::Node& n)
      : n_(n), t_(n), a_(n.names[0], composer.options.target), w_("forest"), type_(g.type(n.inputs[0]).dtype) {
    const std::vector<int64_t> dims = g.type(n.inputs[0]).shape.values();
    rows_ = dims[0];
    width_ = dims[1];
    compared_ = type_ == DType::F32 || type_ == DType::F16 ? DType::F32 : DType::F64;
    by_trees_ = rows_ < kWalks;
    const int64_t most = std::max<int64_t>(kScoreBytes / 8 / t_.columns / kWalks * kWalks, kWalks);
    block_ =
        by_trees_ ? 1 : std::clamp(ceil_div(ceil_div(rows_, 4), kWalks) * kWalks, kWalks, std::min(most, kMostRows));
    copied_ = power_of_two(width_) <= kMostCopied;
  }

  Expected<Lowered> run() && {
    if (rows_ == 0) return std::move(a_).finish();
    pad_roots();
    declare();
    const te::Axis task = w_.axis(ceil_div(rows_, block_));
    base_ = Expr(task) * Expr(block_);
    std::vector<Stmt> all = {clear()};
    if (copied_) all.push_back(bring_rows());
    all.push_back(by_trees_ ? trees_of_a_row() : rows_of_a_tree());
    all.push_back(store());
    loop::Function f = std::move(w_).finish(FunctionWriter::over(task, Stmt::seq(all), LoopKind::Parallel));
    f.origin = n_.origin.empty() ? std::vector{n_.names[0]} : n_.origin;
    int64_t steps = 0;
    for (const int64_t d : t_.depths) steps += d;
    a_.add(std::move(f), places_, static_cast<double>(steps * rows_) * 16);
    return std::move(a_).finish();
  }

 private:
  // Trees of one row are walked in groups, each as deep as its deepest.
  void pad_roots() {
    if (!by_trees_) return;
    std::vector<int64_t> deepest;
    for (size_t i = 0; i < t_.roots.size(); ++i) {
      if (i % kWalks == 0) deepest.push_back(0);
      deepest.back() = std::max(deepest.back(), t_.depths[i]);
    }
    t_.depths = deepest;
    while (t_.roots.size() % kWalks != 0) t_.roots.push_back(t_.nothing());
  }

  int table(const Tensor& contents) {
    places_.push_back(a_.weight(contents));
    return w_.argument(contents.dtype(), contents.dims(), false);
  }
  int table(std::vector<int64_t> v) {
    if (v.empty()) v.push_back(0);
    return table(numbers(v));
  }

  void declare() {
    x_ = w_.argument(type_, {rows_, width_}, false);
    places_.push_back({Space::Input, 0, 0});
    features_ = table(t_.features);
    children_ = table(t_.children);
    Tensor thresholds(compared_, {t_.nodes});
    for (int64_t i = 0; i < t_.nodes; ++i) {
      const double v = t_.thresholds[static_cast<size_t>(i)];
      thresholds.set_real(i, compared_ == DType::F32 ? static_cast<double>(rounded_down(v)) : v);
    }
    thresholds_ = table(thresholds);
    roots_ = table(t_.roots);
    depths_ = table(t_.depths);
    declare_votes();
    const std::vector<int64_t> dims = {rows_, t_.columns}, own = {block_, t_.columns};
    out_ = w_.argument(DType::F64, dims, true);
    places_.push_back({Space::Output, 0, 0});
    if (n_.types.size() > 1) {
      out_voted_ = w_.argument(DType::Bool, dims, true);
      places_.push_back({Space::Output, 1, 0});
    }
    scores_ = w_.scratch(DType::F64, own);
    if (!t_.dense) voted_ = w_.scratch(DType::Bool, own);
    if (copied_) copy_ = w_.scratch(compared_, {block_, power_of_two(width_)});
    state_ = w_.buffer_in_registers(DType::I64, {kWalks});
  }

  void declare_votes() {
    const auto& v = t_.weights;
    const bool narrow =
        std::all_of(v.begin(), v.end(), [](double d) { return static_cast<double>(static_cast<float>(d)) == d; });
    const DType type = narrow ? DType::F32 : DType::F64;
    if (t_.dense) {
      Tensor all(type, {power_of_two(t_.leaves), t_.columns});
      for (int64_t leaf = 0; leaf < t_.leaves; ++leaf) {
        const auto node = static_cast<size_t>(t_.inner + leaf);
        for (int64_t i = t_.first[node]; i < t_.first[node] + t_.count[node]; ++i) {
          const int64_t at = leaf * t_.columns + t_.targets[static_cast<size_t>(i)];
          all.set_real(at, all.real(at) + v[static_cast<size_t>(i)]);
        }
      }
      weights_ = table(all);
      return;
    }
    first_ = table(t_.first);
    count_ = table(t_.count);
    targets_ = table(t_.targets);
    weights_ = table(v.empty() ? Tensor(type, {1}) : Tensor::of(type, {static_cast<int64_t>(v.size())}, v));
  }

  static Expr masked(const Expr& e, int64_t size) { return te::binary(BinaryOp::And, e, Expr(size - 1)); }
  Expr number(int buffer, const Expr& at) const { return te::cast(DType::I64, w_.read(buffer, {at})); }
  Expr node(const Expr& walk) const { return masked(w_.read(state_, {walk}), t_.nodes); }
  Expr row(const Expr& r) const { return te::min(base_ + r, Expr(rows_ - 1)); }

  Expr feature(const Expr& r, const Expr& f) const {
    const Expr at = masked(f, power_of_two(width_));
    if (copied_) return w_.read(copy_, {r, at});
    return te::cast(compared_, w_.read(x_, {row(r), te::min(at, Expr(width_ - 1))}));
  }

  // One step down for one walk of a row of the block.
  Stmt step(const Expr& walk, const Expr& r) const {
    const Expr at = node(walk), f = number(features_, at), x = feature(r, f);
    Expr holds = x <= w_.read(thresholds_, {at});
    if (t_.missing)
      holds =
          holds || (te::unary(te::UnaryOp::IsNan, x) && te::ne(te::binary(BinaryOp::And, f, Expr(kMissing)), Expr(0)));
    const Expr next = at * Expr(2) + te::select(holds, Expr(0), Expr(1));
    return Stmt::store(state_, {walk}, number(children_, next));
  }

  Stmt vote(const Expr& walk, const Expr& r) {
    if (t_.dense) {
      const te::Axis k = w_.axis(t_.columns);
      const Expr leaf = masked(node(walk) - Expr(t_.inner), power_of_two(t_.leaves));
      const Expr weight = te::cast(DType::F64, w_.read(weights_, {leaf, Expr(k)}));
      return FunctionWriter::over(k, Stmt::store(scores_, {r, Expr(k)}, w_.read(scores_, {r, Expr(k)}) + weight),
                                  k.extent.value() <= 4096 ? LoopKind::Vector : LoopKind::Serial);
    }
    const te::Axis v = w_.axis(1);
    const Expr which = number(first_, node(walk)) + Expr(v), target = number(targets_, which);
    const Expr weight = te::cast(DType::F64, w_.read(weights_, {which})), old = w_.read(scores_, {r, target});
    const Expr later = t_.combine == "sum"   ? old + weight
                       : t_.combine == "min" ? te::select(weight < old, weight, old)
                                             : te::select(old < weight, weight, old);
    const Stmt add = Stmt::store(scores_, {r, target}, te::select(w_.read(voted_, {r, target}), later, weight));
    return Stmt::loop(v.id, v.name, number(count_, node(walk)), LoopKind::Serial,
                      Stmt::seq({add, Stmt::store(voted_, {r, target}, te::truth(true))}));
  }

  Stmt walks(const std::function<Stmt(const Expr&)>& body) {
    const te::Axis j = w_.axis(kWalks);
    return FunctionWriter::over(j, body(Expr(j)), LoopKind::Unroll);
  }

  Stmt rows_of_a_tree() {
    const te::Axis tree = w_.axis(static_cast<int64_t>(t_.depths.size())), group = w_.axis(block_ / kWalks),
                   d = w_.axis(1);
    const auto r = [&](const Expr& j) { return Expr(group) * Expr(kWalks) + j; };
    const Stmt start = walks([&](const Expr& j) { return Stmt::store(state_, {j}, number(roots_, Expr(tree))); });
    const Stmt down = Stmt::loop(d.id, d.name, number(depths_, Expr(tree)), LoopKind::Serial,
                                 walks([&](const Expr& j) { return step(j, r(j)); }));
    const Stmt votes = walks([&](const Expr& j) { return vote(j, r(j)); });
    return FunctionWriter::over(tree, FunctionWriter::over(group, Stmt::seq({start, down, votes})));
  }

  Stmt trees_of_a_row() {
    const te::Axis group = w_.axis(static_cast<int64_t>(t_.depths.size())), d = w_.axis(1);
    const auto tree = [&](const Expr& j) { return Expr(group) * Expr(kWalks) + j; };
    const Stmt start = walks([&](const Expr& j) { return Stmt::store(state_, {j}, number(roots_, tree(j))); });
    const Stmt down = Stmt::loop(d.id, d.name, number(depths_, Expr(group)), LoopKind::Serial,
                                 walks([&](const Expr& j) { return step(j, Expr(0)); }));
    const Stmt votes = walks([&](const Expr& j) { return vote(j, Expr(0)); });
    return FunctionWriter::over(group, Stmt::seq({start, down, votes}));
  }

  Stmt clear() {
    const te::Axis r = w_.axis(block_), k = w_.axis(t_.columns);
    std::vector<Stmt> all = {Stmt::store(scores_, {Expr(r), Expr(k)}, Expr::real(DType::F64, 0))};
    if (voted_ >= 0) all.push_back(Stmt::store(voted_, {Expr(r), Expr(k)}, te::truth(false)));
    return FunctionWriter::over(r, FunctionWriter::over(k, Stmt::seq(all)));
  }

  Stmt bring_rows() {
    const te::Axis r = w_.axis(block_), f = w_.axis(width_);
    const Expr x = te::cast(compared_, w_.read(x_, {row(Expr(r)), Expr(f)}));
    return FunctionWriter::over(r,
                                FunctionWriter::over(f, Stmt::store(copy_, {Expr(r), Expr(f)}, x), LoopKind::Vector));
  }

  Stmt store() {
    const te::Axis r = w_.axis(block_), k = w_.axis(t_.columns);
    const Expr to = base_ + Expr(r);
    std::vector<Stmt> all = {Stmt::store(out_, {to, Expr(k)}, w_.read(scores_, {Expr(r), Expr(k)}))};
    if (out_voted_ >= 0) all.push_back(Stmt::store(out_voted_, {to, Expr(k)}, w_.read(voted_, {Expr(r), Expr(k)})));
    return FunctionWriter::over(r, Stmt::branch(to < Expr(rows_), FunctionWriter::over(k, Stmt::seq(all))));
  }

  const ir::Node& n_;
  Tables t_;
  Assembly a_;
  FunctionWriter w_;
  DType type_, compared_ = DType::F32;
  int64_t rows_ = 0, width_ = 0, block_ = 1;
  bool by_trees_ = false, copied_ = false;
  std::vector<Place> places_;
  int x_ = -1, features_ = -1, children_ = -1, thresholds_ = -1, roots_ = -1, depths_ = -1, first_ = -1, count_ = -1,
      targets_ = -1, weights_ = -1, out_ = -1, out_voted_ = -1, scores_ = -1, voted_ = -1, copy_ = -1, state_ = -1;
  Expr base_;
};

}  // namespace

Expected<Lowered> forest_votes(const Composer& composer, const ir::Graph& g, const ir::Node& n) {
  if (!composer.lowers) return Lowered{};
  const std::vector<int64_t> dims = g.type(n.inputs[0]).shape.values();
  if (dims[1] >= kMissing || ints_of(n, "features").size() >= (size_t{1} << 30) ||
      ints_of(n, "targets").size() >= (size_t{1} << 31))
    return cannot_compile(n, "its trees are larger than a module can hold");
  return Forest(composer, g, n).run();
}

}  // namespace isomer::compile
