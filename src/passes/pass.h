// A pass: a function from a graph to a graph of the same meaning, and a row of the table. It contains only its idea;
// timing, verifying, dumping, counting and disabling are the manager's.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/expected.h"
#include "ir/graph.h"

namespace isomer::passes {

// What a pass may do to numbers: nothing at all, or what another order of the same real arithmetic does.
enum class Numerics : uint8_t { Exact, Reassociating };
std::string_view name(Numerics n);

struct Limits {
  int64_t node_growth = int64_t{1} << 20;    // bytes by which folding one node may enlarge the constants
  int64_t total_growth = int64_t{16} << 20;  // bytes by which one run of fold_constants may
  int64_t loop_iterations = 1 << 12;         // of a loop that is run to fold it
};

// Computes a node on known inputs when a pass folds it; null: the reference executor does.
using Evaluate = std::function<Expected<std::vector<Tensor>>(const ir::OpContext&)>;

// What a pass is given beside the graph. A pass asks admits() before each application and reports it with applied(),
// which is what stops a run after N applications and finds the one that is wrong.
class PassContext {
 public:
  explicit PassContext(const ir::OpTable& table) : table_(&table) {}
  const ir::OpTable& table() const { return *table_; }

  Limits limits;
  Evaluate evaluate;

  bool admits() const { return applications_ < stop_after_; }
  void applied(std::string where) {
    ++applications_;
    last_ = std::move(where);
  }
  int64_t applications() const { return applications_; }
  const std::string& last() const { return last_; }  // the value that the last application gave
  void stop_after(int64_t applications) { stop_after_ = applications; }

 private:
  const ir::OpTable* table_;
  int64_t applications_ = 0, stop_after_ = std::numeric_limits<int64_t>::max();
  std::string last_;
};

using PassFn = Expected<ir::Graph> (*)(const ir::Graph&, PassContext&);

struct Pass {
  std::string_view name;
  std::string_view doc;  // one sentence
  Numerics numerics;
  PassFn run;
};

std::span<const Pass> table();  // sorted by name
const Pass* find(std::string_view name);

// The functions of the table, each in the file of its name.
#define ISOMER_PASS(name, numerics, doc) Expected<ir::Graph> name(const ir::Graph& graph, PassContext& context);
#include "passes/passes.def"
#undef ISOMER_PASS

}  // namespace isomer::passes
