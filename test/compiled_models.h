// Compiled code against the interpreter: what a model's results may differ by, what is wrong with those of the compiler, and
// the smallest model that is wrong in the same way.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <fstream>
#include <functional>
#include <mutex>

#include "base/thread_pool.h"
#include "driver/executor.h"
#include "driver/piece.h"
#include "interp/interp.h"
#include "ir/text.h"
#include "tensor/compare.h"
#include "tensor/npy.h"
#include "test/random_model.h"
#include "test/setting.h"

namespace isomer::testing {

struct Way {
  const char* name;
  bool optimise, naive;
  bool strict = false;  // else the fast algorithms themselves are tested, whatever they round
};
inline constexpr Way kOptimised{"optimised", true, false}, kWithoutPasses{"without passes", false, false},
    kNaive{"naive", false, true};

inline double largest(const Tensor& t) {
  double out = 0;
  for (int64_t i = 0; i < t.size(); ++i)
    if (const double v = std::abs(t.real(i)); std::isfinite(v)) out = std::max(out, v);
  return out;
}

// The reference: what a model gives when every value is rounded to its type, and how far that is from the same in double,
// which says how much rounding matters to it.
struct Reference {
  std::vector<Tensor> results;
  std::vector<double> tolerance;
  std::vector<bool> shaky;  // a rounding decides about a NaN, an infinity or an integer
};

inline Expected<Reference> reference(const RandomModel& m) {
  Reference out;
  interp::Options narrow, wide;
  narrow.threads = wide.threads = 1;
  wide.wide = true;
  ISOMER_TRY(out.results, interp::run(m.graph, ops::table(), m.inputs, narrow));
  ISOMER_TRY(const std::vector<Tensor> exact, interp::run(m.graph, ops::table(), m.inputs, wide));
  for (size_t k = 0; k < exact.size(); ++k) {
    const Comparison c = compare(exact[k].cast(out.results[k].dtype()), out.results[k]);
    const DType t = out.results[k].dtype();
    const double unit = t == DType::BF16 ? 0x1p-7 : t == DType::F16 ? 0x1p-9 : 1e-5;
    out.tolerance.push_back(unit * (1e-3 + largest(out.results[k])) + 50 * c.max_abs_error);
    out.shaky.push_back(!c.comparable || c.special_mismatches > 0 || (!is_float(t) && c.mismatches > 0));
  }
  return out;
}

// The first result that is not what was expected, or "".
inline std::string difference(const std::vector<Tensor>& found, const Reference& expected) {
  for (size_t k = 0; k < found.size(); ++k) {
    if (expected.shaky[k]) continue;
    const Comparison c = compare(found[k], expected.results[k], {.absolute = expected.tolerance[k]});
    if (!c.ok() || found[k].dtype() != expected.results[k].dtype())
      return fmt::format("output {} ({}): {}", k, found[k].type().to_string(), c.to_string());
  }
  return {};
}

// Why a model's results are wrong, or "".
inline std::string fault(const RandomModel& m, const Reference& expected, const Way& way, bool poison) {
  driver::ExecutorOptions o;
  o.native.threads = 2;
  o.native.compile_threads = 1;
  o.native.poison = poison;
  o.native.naive = way.naive;
  o.native.accuracy = way.strict ? driver::Accuracy::Strict : driver::Accuracy::Unchecked;
  o.optimise = way.optimise;
  o.eager = true;
  auto executor = driver::Executor::make(m.graph, o);
  if (!executor.ok()) return "does not compile: " + executor.error().to_string();
  const auto found = executor->run(m.inputs);
  if (!found.ok()) return "does not run: " + found.error().to_string();
  for (const driver::NodeReport& n : executor->report())
    if (n.reason.starts_with("compiling failed")) return n.reason;
  return difference(*found, expected);
}

inline std::string fault(const RandomModel& m, const Way& way, bool poison) {
  const auto expected = reference(m);
  return expected.ok() ? fault(m, *expected, way, poison) : "";
}

// The model with one output less, or with the results of one node as inputs: smaller models with the same fault.
inline std::vector<RandomModel> smaller(const RandomModel& m) {
  std::vector<RandomModel> out;
  const ir::Graph& g = m.graph;
  const auto all = [&](std::vector<ir::Value> wanted, uint32_t cut_at) -> std::optional<RandomModel> {
    RandomModel r;
    std::vector<Tensor> cut_values;
    if (cut_at != UINT32_MAX) {
      std::vector<bool> taken(g.nodes().size());
      for (uint32_t i = 0; i <= cut_at; ++i)
        taken[i] = g.node(i).op != &ir::input_op() && g.node(i).op != &ir::const_op();
      const auto piece = driver::cut(g, taken);
      if (!piece.ok()) return std::nullopt;
      std::vector<Tensor> in;
      for (const ir::Value& v : piece->inputs) in.push_back(m.inputs[v.node]);
      const auto values = interp::run(piece->graph, ops::table(), in);
      if (!values.ok()) return std::nullopt;
      for (uint32_t k = 0; k < g.node(cut_at).types.size(); ++k) {
        const auto at = std::find(piece->outputs.begin(), piece->outputs.end(), ir::Value{cut_at, k});
        cut_values.push_back(at == piece->outputs.end() ? Tensor(DType::F32, {1})
                                                        : (*values)[static_cast<size_t>(at - piece->outputs.begin())]);
      }
    }
    std::vector<bool> needed(g.nodes().size());
    for (const ir::Value& v : wanted) needed[v.node] = true;
    for (uint32_t i = static_cast<uint32_t>(g.nodes().size()); i-- > 0;)
      if (needed[i] && i != cut_at)
        for (const ir::Value& v : g.node(i).inputs)
          if (!v.is_none()) needed[v.node] = true;
    if (cut_at != UINT32_MAX && !needed[cut_at]) return std::nullopt;
    ir::GraphBuilder b(ops::table(), g.name());
    b.set_metadata(g.metadata());
    Copied now(g.nodes().size());
    for (uint32_t i = 0; i < g.nodes().size(); ++i) {
      if (!needed[i] || (i >= g.input_count() && i != cut_at)) continue;
      for (uint32_t k = 0; k < g.node(i).types.size(); ++k) {
        const Tensor& t = i == cut_at ? cut_values[k] : m.inputs[i];
        const auto v = b.input(fmt::format("x{}", r.inputs.size()), t.type());
        if (!v.ok()) return std::nullopt;
        now[i].push_back(*v);
        r.inputs.push_back(t);
      }
    }
    for (uint32_t i = 0; i < g.nodes().size(); ++i) {
      const ir::Node& n = g.node(i);
      if (!needed[i] || !now[i].empty()) continue;
      auto made = copied_node(b, n, now);
      if (!made.ok()) return std::nullopt;
      now[i] = *std::move(made);
    }
    for (size_t k = 0; k < wanted.size(); ++k) b.output(fmt::format("out{}", k), now[wanted[k].node][wanted[k].index]);
    auto graph = std::move(b).finish();
    if (!graph.ok()) return std::nullopt;
    r.graph = *std::move(graph);
    return r;
  };
  std::vector<ir::Value> outputs;
  for (const ir::Output& o : g.outputs()) outputs.push_back(o.value);
  for (size_t k = 0; outputs.size() > 1 && k < outputs.size(); ++k)
    if (auto r = all({outputs[k]}, UINT32_MAX)) out.push_back(*std::move(r));
  for (size_t k = 0; outputs.size() > 2 && k < outputs.size(); ++k) {
    std::vector<ir::Value> rest = outputs;
    rest.erase(rest.begin() + static_cast<int64_t>(k));
    if (auto r = all(rest, UINT32_MAX)) out.push_back(*std::move(r));
  }
  for (auto i = static_cast<uint32_t>(g.nodes().size()); i-- > g.input_count();)
    if (g.node(i).op != &ir::const_op())
      if (auto r = all(outputs, i)) out.push_back(*std::move(r));
  return out;
}

inline RandomModel shrunk(RandomModel m, const Way& way, bool poison) {
  for (bool again = true; again;) {
    again = false;
    for (RandomModel& r : smaller(m)) {
      if (r.graph.nodes().size() >= m.graph.nodes().size() && r.graph.outputs().size() >= m.graph.outputs().size())
        continue;
      if (fault(r, way, poison).empty()) continue;
      m = std::move(r);
      again = true;
      break;
    }
  }
  return m;
}

inline std::string written(const RandomModel& m, uint64_t seed) {
  const std::string stem = ::testing::TempDir() + fmt::format("isomer_model_{}", seed);
  std::ofstream(stem + ".iso") << ir::print(m.graph);
  for (size_t i = 0; i < m.inputs.size(); ++i)
    if (!write_npy(fmt::format("{}_{}.npy", stem, i), m.inputs[i]).ok()) return "(could not be written)";
  return stem + ".iso";
}

// What a failing test says: how to run the case alone, and the smallest model that is wrong in the same way.
inline std::string story(const RandomModel& m, uint64_t seed, const Way& way, bool poison, const std::string& why) {
  const RandomModel small = shrunk(m, way, poison);
  const std::string text = ir::print(small.graph);
  constexpr size_t kMostText = 6000;  // weights are long
  return fmt::format("ISOMER_SEED={} ISOMER_CASES=1, {}{}: {}\nsmaller, {}\n{}:\n{}", seed, way.name,
                     poison ? ", poisoned" : "", why, fault(small, way, poison), written(small, seed),
                     text.size() < kMostText ? text : "");
}

// Several models at a time, from one seed on. `fault` says what is wrong with one, or nothing; ISOMER_SEED and ISOMER_CASES
// ask for others.
inline void try_seeds(uint64_t seed, uint64_t cases, const std::function<std::string(uint64_t seed)>& fault) {
  seed = setting("ISOMER_SEED", seed);
  cases = setting("ISOMER_CASES", cases);
  std::printf("seed %llu, %llu models\n", static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(cases));
  std::atomic<int> failures = 0;
  std::mutex mutex;
  ThreadPool pool;
  pool.run(static_cast<int>(cases), [&](int i) {
    constexpr int kEnough = 5;
    if (failures > kEnough) return;
    const uint64_t s = seed + static_cast<uint64_t>(i);
    const std::string text = fault(s);
    if (text.empty()) return;
    ++failures;
    const std::lock_guard lock(mutex);
    ADD_FAILURE() << "seed " << s << ": " << text;
  });
}

}  // namespace isomer::testing
