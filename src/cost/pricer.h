// Pricer: what a graph costs to run: the sum over the steps of the plan that the compiler really makes for it, with
// passes, fusion and layouts, copies and the fixed cost of a step included. What depends on constants alone is free, since
// it is computed when the model is compiled, and it is not computed here either. Kernels are timed once and kept; where
// they are not timed, an analytic model answers.
//
// Invariant: with the same store a graph has the same price, whatever was priced before it and in whatever order. Any
// number of threads may ask at the same time; one of them measures at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/expected.h"
#include "base/hash.h"
#include "base/quiet.h"
#include "cost/core_rate.h"
#include "cost/labelling.h"
#include "cost/reach.h"
#include "ir/graph.h"
#include "loop/target.h"

namespace isomer::compile {
class KernelCode;
}

namespace isomer::cost {

struct PricerOptions {
  loop::Target target;
  int threads = 1;         // of a run; 0: one per core
  bool measure = true;     // off: kernels that the store does not know are estimated
  std::string store = "";  // file of the profile store; "": the standard place (store.h); "-": in memory only
  // Where a run of the model that graphs are forms or pieces of finds its weights. All kernels share that: one that has many of them must
  // not look dearer than several that have as many together.
  Reach weights = kStandardWeights;
  // Whole models are priced as they run: every kernel in the state in which it finds the caches (reach.h), on the plan that is
  // executed. Off: kernels in the standard state, as those of pieces are, so that their times serve for both.
  bool in_context = false;
  // Called between the timings of kernels: what shall be compared with prices is best timed in the same minutes.
  std::function<void()> between = nullptr;
  // Of the threads that ask, where a run takes so many cores that they would disturb its timing.
  Quiet* quiet = nullptr;
  size_t graphs = 1 << 11;  // answers of one kind about pieces that are remembered,
  size_t plans = 1 << 8;    // and plans of pieces
};

// By how many there are: each was used last one run ago.
Reach weight_reach(const ir::Graph& model);

struct Price {
  double seconds = 0;
  size_t kernels = 0;    // steps of the plan
  size_t measured = 0;   // distinct kernels that were timed for this answer
  size_t estimated = 0;  // steps whose time is the analytic model's
  Mix mix = {};          // of its seconds
};

// One step of the plan that was priced.
struct KernelPrice {
  std::string kernel;               // its name in the plan
  std::vector<std::string> origin;  // source nodes
  int64_t tasks = 1;
  double flops = 0, bytes = 0;
  double seconds = 0;   // in the price
  double estimate = 0;  // by the analytic model
  bool known = false;   // measured, now or earlier
  Mix mix = {};         // of its seconds
};

class KernelTimes;

class Pricer {
 public:
  static Expected<std::shared_ptr<Pricer>> make(const ir::OpTable& table, PricerOptions options);
  ~Pricer();
  Pricer(const Pricer&) = delete;
  Pricer& operator=(const Pricer&) = delete;

  // The graph has numbers for all sizes and no node that only a reference kernel can run; else a diagnostic. It may be
  // unfolded, as a rewrite leaves it: the standard passes are applied.
  // A piece is a part of a larger model (LowerOptions::piece).
  enum class Extent : uint8_t { Model, Piece };
  Expected<Price> price(const ir::Graph& graph, Extent extent = Extent::Model);
  // Never measures, by the analytic model alone.
  Expected<Price> estimate(const ir::Graph& graph, Extent extent = Extent::Model);

  // Two graphs side by side, by the kernels that only one of them has. Each `look` after the first times these
  // once more.
  struct Comparison {
    double seconds = 0;   // by which `after` differs
    double changed = 0;   // what the kernels take that only `before` has
    int64_t kernels = 0;  // by which their number differs,
    int64_t moves = 0;    // and that of those which only carry values on
  };
  Expected<Comparison> compare(const ir::Graph& before, const ir::Graph& after, Extent extent, int look);

  // The best layouts and algorithms, by the times of all kernels that they lead to and of the copies between them.
  Expected<Labelling> label(const ir::Graph& graph, Extent extent = Extent::Model, const LabelOptions& options = {});

  // price() with its parts, in the order of the plan and with the graph's own labels; not remembered. Those that nobody has timed are
  // timed as long as there are seconds; then they have the analytic model's time.
  Expected<std::vector<KernelPrice>> kernels(const ir::Graph& graph,
                                             double seconds = std::numeric_limits<double>::infinity());
  // While it lives, kernels are timed for so many seconds: what would have to wait for longer has no price (E-time).
  class Limit {
   public:
    ~Limit();
    Limit(const Limit&) = delete;
    Limit& operator=(const Limit&) = delete;

   private:
    friend class Pricer;
    explicit Limit(KernelTimes& times) : times_(times) {}
    KernelTimes& times_;
  };
  Limit limit(double seconds);

  double step_seconds() const;  // the fixed cost of a step, a part of the price of every kernel
  const Rates& usual() const;   // rates of the core that times are taken at, or converted to

  const PricerOptions& options() const;
  // Of all kernels that it timed, for models of these.
  std::shared_ptr<compile::KernelCode> code() const;
  size_t measured() const;  // kernels timed so far
  // All kernels of the graph's plan in one number: another compiler gives another one.
  Expected<Hash128> plan_hash(const ir::Graph& graph);
  // What the store remembers of long work (store.h).
  std::optional<std::string> answer(const std::string& question);
  void set_answer(const std::string& question, const std::string& text);
  // What went wrong with the store, once each: the pricer goes on in memory.
  std::vector<Diagnostic> take_warnings();

 private:
  struct Impl;
  explicit Pricer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace isomer::cost
