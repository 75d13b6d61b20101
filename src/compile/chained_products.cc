#include "compile/chained_products.h"

#include <algorithm>
#include <map>

#include "base/contains.h"
#include "compile/contraction_kernel.h"
#include "compile/finish.h"
#include "compile/product_cost.h"
#include "loop/affine.h"
#include "te/simplify.h"

namespace isomer::compile {

using loop::LoopKind;
using loop::Stmt;
using te::Expr;

namespace {

constexpr int kTask = 1 << 20;  // a loop variable that no part uses
constexpr double kMayCost =
    0.15;  // of the work: what tile registers may cost more at their worst, for what they save at their best
constexpr int64_t kChainTasks = 16;  // enough for an even share of a few workers

// Whether the columns are few enough to be read by every task.
bool stays_near(const Scene& scene, const ProductSize& size) {
  return 4 * size.columns * size.depth <= scene.target.l2_bytes / 2;
}

// Puts kernels with the same tasks one behind the other. Values inside are rows of `columns` elements, `rows` of them a task,
// in memory of the task where every row begins a cache line, an odd number of lines after the one before, so that rows do not
// push each other out of the first cache.
class Joined {
 public:
  struct Inside {
    Expr first;  // row of the task
    int64_t rows = 0, columns = 0;
  };
  Joined(int64_t tasks, Inside inside) : task_{kTask, "task", tasks}, inside_(std::move(inside)) {
    start_ = te::simplify(inside_.first * Expr(inside_.columns), scope());
    if (inside_.columns > kLongestStep) step_ = ceil_div(inside_.columns, kLine) * kLine;
    if (step_ / kLine % 2 == 0 && step_ > 0) step_ += kLine;
  }

  static Expr task() { return LoopAxis{kTask, "task", 1}.expr(); }
  void keep_inside(int value, DType dtype) {
    buffers_[value] = static_cast<int>(out_.function.buffers.size());
    out_.function.buffers.push_back(
        {"inside", dtype, {inside_.rows * (step_ > 0 ? step_ : inside_.columns)}, loop::Scope::Scratch, true});
  }
  // Not where a place inside would depend on the task, or be no row and column.
  bool add(const Kernel& part) {
    const loop::Function& f = part.function;
    if (f.body->kind != loop::StmtKind::For || f.body->extent->kind != te::Kind::Int ||
        f.body->extent->integer != task_.extent)
      return false;
    std::vector<int> number;
    for (size_t i = 0; i < f.buffers.size(); ++i) {
      const bool argument = f.buffers[i].scope == loop::Scope::Argument;
      const auto it = argument ? buffers_.find(part.arguments[i].value) : buffers_.end();
      number.push_back(it != buffers_.end() ? it->second : static_cast<int>(out_.function.buffers.size()));
      if (it != buffers_.end()) continue;
      out_.function.buffers.push_back(f.buffers[i]);
      if (argument) out_.arguments.push_back(part.arguments[i]);
    }
    te::Substitution names;
    names.var(f.body->var, task_.expr());
    const Places places{[&](int buffer, const Expr& index) { return is_inside(buffer) ? place(index) : index; },
                        [&](int buffer, int64_t stride) { return is_inside(buffer) ? in_steps(stride) : stride; }};
    parts_.push_back(moved(substitute(f.body->body[0], names), number, places));
    out_.flops += part.flops;
    return fits_;
  }
  Kernel take() {
    out_.function.name = "kernel";
    out_.function.body = Stmt::loop(task_.var, task_.name, Expr(task_.extent),
                                    task_.extent > 1 ? LoopKind::Parallel : LoopKind::Serial, Stmt::seq(parts_));
    return std::move(out_);
  }

 private:
  static constexpr int64_t kLine = 16;         // floats of a cache line
  static constexpr int64_t kLongestStep = 64;  // of vectors and panels along a row: larger ones go from row to row

  std::vector<te::Axis> scope() const { return {task_.axis()}; }
  bool is_inside(int buffer) const {
    return std::any_of(buffers_.begin(), buffers_.end(), [&](const auto& x) { return x.second == buffer; });
  }
  int64_t in_steps(int64_t elements) {
    if (step_ == 0 || (elements >= 0 && elements <= kLongestStep)) return elements;
    fits_ = fits_ && elements > 0 && elements % inside_.columns == 0;
    return elements / inside_.columns * step_;
  }
  Expr place(const Expr& index) {
    loop::Affine local = loop::affine_of(te::simplify(index - start_, scope()));
    for (loop::Affine::Term& t : local.terms) {
      fits_ = fits_ && !loop::uses(t.atom, kTask);
      t.coefficient = in_steps(t.coefficient);
    }
    if (step_ > 0) {
      fits_ = fits_ && local.constant >= 0;
      local.constant = local.constant / inside_.columns * step_ + local.constant % inside_.columns;
    }
    return te::simplify(loop::to_expr(local));
  }

  LoopAxis task_;
  Inside inside_;
  Expr start_;
  int64_t step_ = 0;  // from row to row; 0: as they are
  bool fits_ = true;
  std::map<int, int> buffers_;  // of the values inside
  std::vector<Stmt> parts_;
  Kernel out_;
};

// Rows of a task: whole tiles, what they become stays in the second cache, and there are tasks for all workers.
int64_t rows_of_task(const ProductSize& first, int64_t tile, int64_t l2) {
  const int64_t tiles = ceil_div(first.rows, tile), row_bytes = 12 * first.columns;
  int64_t each = std::clamp<int64_t>(l2 / 3 / (row_bytes * tile), 1, tiles);
  const int64_t wanted = std::min(tiles, ceil_div(kChainTasks, first.batch));
  each = std::min(each, ceil_div(tiles, wanted));
  return ceil_div(tiles, ceil_div(tiles, each)) * tile;
}

std::optional<std::vector<Kernel>> chained_by(const loop::IntrinsicPtr& tile, const Scene& scene, const Group& first,
                                              const Group& rows, const Group& second, bool must_pay) {
  ContractionKernel scores(scene, first, tile, "kernel"), result(scene, second, tile, "kernel");
  const ProductSize a = scores.size(), b = result.size();
  if (a.batch != b.batch || a.rows != b.rows || a.columns != b.depth) return std::nullopt;
  if (!stays_near(scene, a) || !stays_near(scene, b)) return std::nullopt;
  if (scores.has_image() || result.has_image()) return std::nullopt;
  if (must_pay && scores.gain(false) + result.gain(true) + kMayCost * (a.flops() + b.flops()) < 0) return std::nullopt;
  const int64_t block = rows_of_task(a, scores.tile_rows(), scene.target.l2_bytes), blocks = ceil_div(a.rows, block);
  scores.take_blocks(block);
  result.take_blocks(block);
  const auto between = rows_kernel_in_blocks(scene, rows, {a.batch, a.rows, block});
  if (!between) return std::nullopt;
  std::vector<Kernel> out = scores.make(), last = result.make();
  const Expr task = Joined::task();
  const Expr row = te::floor_div(task, Expr(blocks)) * Expr(a.rows) + te::floor_mod(task, Expr(blocks)) * Expr(block);
  Joined joined(a.batch * blocks, {row, block, a.columns});
  // A product's epilogue may end in bytes (quantised attention).
  for (const int value : {scene.stage(first.stages.back()).value, second.contraction->a->tensor})
    joined.keep_inside(value, scene.value(value).dtype);
  if (!joined.add(out.back()) || !joined.add(*between) || !joined.add(last.back())) return std::nullopt;
  out.pop_back();
  out.insert(out.end(), last.begin(), last.end() - 1);
  Kernel kernel = joined.take();
  const double flops = kernel.flops;
  for (const Group* g : {&first, &rows}) add_origin(kernel.function, scene, *g);
  finish(kernel, scene, second, flops);
  out.push_back(std::move(kernel));
  return out;
}

}  // namespace

std::vector<Chain> chains_of(const StageGraph& graph, const std::vector<Group>& groups) {
  std::vector<int> group_of(graph.stages.size(), -1);
  for (size_t i = 0; i < groups.size(); ++i)
    for (const int s : groups[i].stages) group_of[static_cast<size_t>(s)] = static_cast<int>(i);
  const std::vector<std::vector<int>> readers = graph.readers();
  const auto group_of_maker = [&](int value) {
    const int s = graph.values[static_cast<size_t>(value)].stage;
    return s < 0 ? -1 : group_of[static_cast<size_t>(s)];
  };
  // Whether all who read it are in this group; somebody does.
  const auto only_in = [&](int value, int group) {
    const std::vector<int>& all = readers[static_cast<size_t>(value)];
    return !all.empty() && !contains(graph.outputs, value) && graph.values[static_cast<size_t>(value)].host < 0 &&
           std::all_of(all.begin(), all.end(), [&](int s) { return group_of[static_cast<size_t>(s)] == group; });
  };
  std::vector<Chain> out;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (!groups[i].contraction || groups[i].prologue >= 0) continue;
    const int left = groups[i].contraction->a->tensor, rows = group_of_maker(left);
    if (rows < 0 || groups[static_cast<size_t>(rows)].contraction || !only_in(left, static_cast<int>(i))) continue;
    if (values_read(graph.stages[static_cast<size_t>(groups[i].stages[0])].body).size() != 2) continue;
    const std::vector<int>& stages = groups[static_cast<size_t>(rows)].stages;
    int first = -1;
    bool fits = true;
    for (const int s : stages) {
      const int made = graph.stages[static_cast<size_t>(s)].value;
      fits = fits && (made == left || only_in(made, rows));
      for (const int v : values_read(graph.stages[static_cast<size_t>(s)].body)) {
        const int g = group_of_maker(v);
        if (g < 0 || !groups[static_cast<size_t>(g)].contraction || !only_in(v, rows)) continue;
        if (graph.stages[static_cast<size_t>(groups[static_cast<size_t>(g)].stages.back())].value != v) continue;
        const auto elements = [&](int x) { return graph.values[static_cast<size_t>(x)].elements(); };
        if (elements(v) == elements(left)) first = g;
        // A window (a depthwise convolution) reads rows of other tasks.
        for (const Expr& read : reads_of(graph.stages[static_cast<size_t>(s)].body, v))
          for (const Expr& index : read->args) fits = fits && (index->kind == te::Kind::Int || plain_var(index));
      }
    }
    // What the second product's epilogue reads must not come from the rows.
    if (fits && first >= 0 && groups[i].stages.size() <= 2)
      out.push_back({static_cast<size_t>(first), static_cast<size_t>(rows), i});
  }
  return out;
}

std::optional<std::vector<Kernel>> chained_kernels(const Scene& scene, const Group& first, const Group& rows,
                                                   const Group& second, const LowerOptions& options) {
  for (const Group* g : {&first, &second}) {
    const Contraction& c = *g->contraction;
    if (c.a.dtype() != DType::F32 || c.b.dtype() != DType::F32) return std::nullopt;
    if (scene.value(scene.stage(g->stages[0]).value).elements() == 0) return std::nullopt;
  }
  if (options.split)
    if (const loop::IntrinsicPtr tile = loop::split_product_for(scene.target))
      if (auto kernels = chained_by(tile, scene, first, rows, second, true)) {
        for (Kernel& k : *kernels) k.rounding.split = true;
        return kernels;
      }
  const std::vector<loop::IntrinsicPtr> tiles = loop::intrinsics_for(scene.target, DType::F32);
  return tiles.empty() ? std::nullopt : chained_by(tiles[0], scene, first, rows, second, false);
}

}  // namespace isomer::compile
