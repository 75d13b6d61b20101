// Composition: a graph with nodes that are no tensor expressions as one plan. What is expressions between such nodes is lowered as
// one piece (a graph of more nodes than any network has: as several); a loop, a scan or an if is its bodies between jumps (control_flow.cc), an operator whose result depends on data in
// order is a procedure (procedures.h). All of them become steps of one program with one arena.
#pragma once

#include <optional>
#include <string_view>
#include <vector>
#include "base/expected.h"

#include "compile/lower.h"
#include "ir/graph.h"

namespace isomer::compile {

// How parts of a graph are lowered; bodies of control flow call it again.
struct Composer {
  const ir::OpTable& table;
  const LowerOptions& options;
  bool lowers = true;  // off: only finds out whether it can be done, and plans have no steps
  int depth = 0;       // of bodies in bodies

  Expected<Lowered> graph(const ir::Graph& graph) const;
  // A body of control flow at these types and contents of its inputs: passes, then the graph. `inputs` are those that are left.
  struct Body {
    Lowered lowered;
    std::vector<size_t> inputs;
  };
  Expected<Body> body(const ir::Graph& graph, const std::vector<Type>& types,
                      const std::vector<std::optional<Tensor>>& contents) const;
  Expected<Lowered> node(const ir::Graph& graph, const ir::Node& node) const;
};

// The part for one node of control flow: its inputs and outputs are those of the node by number; inputs that are constants
// are not asked for.
Expected<Lowered> control_flow(const Composer& composer, const ir::Graph& graph, const ir::Node& node);
bool is_control_flow(const ir::Node& node);

// Whether lower() takes the graph, with results of sizes that data decides or without; the diagnostic names the first node that it
// does not take.
Expected<void> can_lower(const ir::Graph& graph, const ir::OpTable& table, bool bounded = false);

// "node NAME (OP) cannot be compiled: WHY".
Diagnostic cannot_compile(const ir::Node& node, std::string_view why);

}  // namespace isomer::compile
