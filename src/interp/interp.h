// The reference executor: runs any graph by evaluating its operators' records. This is the truth that everything else
// is compared with. Real numbers are computed in double; integers have their exact wrapping semantics.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/expected.h"
#include "ir/graph.h"

namespace isomer::interp {

struct Options {
  // Keeps float32 values between operators as doubles, so that the result is that of real arithmetic as nearly as
  // double allows; f32 outputs come out as f64 tensors. Opaque kernels still get and give values of the declared type.
  // Off: every value is rounded to its declared type, as a runtime would store it.
  bool wide = false;
  // Most bytes one value may take, and most that all values alive at once may; a model that asks for more is refused.
  int64_t max_value_bytes = int64_t{1} << 34;
  int64_t max_live_bytes = 0;  // 0: three quarters of the machine's memory
  // Most iterations of one loop; more is refused as a loop without end.
  int64_t max_loop_iterations = 1 << 22;
  int threads = 0;         // 0: one per core
  double max_seconds = 0;  // wall-clock limit of one run; 0: none
  // Told after each computed node of the graph itself (not of bodies): how many are done, and how many there are.
  std::function<void(size_t done, size_t total)> progress = nullptr;
  // Runs the bodies of control flow in place of this executor; results are those of the body's declared types.
  std::function<Expected<std::vector<Tensor>>(const ir::Graph& body, const std::vector<Tensor>& inputs)> body = nullptr;
};

// Values in the order of the graph's inputs; results in the order of its outputs.
Expected<std::vector<Tensor>> run(const ir::Graph& graph, const ir::OpTable& table, const std::vector<Tensor>& inputs,
                                  const Options& options = {});

// Values against the declared types of the graph's inputs: numbers must agree, a symbol must mean one number throughout.
// `wide`: an F64 tensor may stand for an f32 input.
Expected<void> check_inputs(const ir::Graph& graph, const std::vector<Tensor>& inputs, bool wide = false);

// One node on known values.
Expected<std::vector<Tensor>> run_node(const ir::OpContext& context, const Options& options = {});

}  // namespace isomer::interp
