// StageGraph: a whole model as stages of tensor expressions, without operators. Every value is an input, a constant or
// what one stage computes; extents are numbers.
// Invariant: a Read in a stage's body names a value by its number, which is an input, a constant or the value of an
// earlier stage; no body has a Reduce below its root, and a root Reduce is the whole body.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "te/program.h"
#include "tensor/tensor.h"

namespace isomer::compile {

struct StageValue {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> dims;
  int input = -1;                  // the graph input it is
  std::optional<Tensor> constant;  // or its contents
  int stage = -1;                  // or the stage that computes it
  // When it is stored as a part of another value: that one, by dim where it begins there, and by dim how far apart its
  // elements are (empty: side by side).
  int host = -1;
  std::vector<int64_t> host_start, host_step;

  int64_t elements() const;
  int64_t bytes() const { return elements() * static_cast<int64_t>(size_of(dtype)); }
};

struct ModelStage {
  int value = -1;              // what it computes
  std::vector<te::Axis> axes;  // one per dim of the value
  te::Expr body;
  int view_of = -1;  // a value with the same elements in the same row-major order, or -1
  // All of its value is stored already: by what computes the values that it hosts, or by what computes its host.
  bool in_parts = false;
  std::vector<std::string> origin;  // names of the source nodes

  bool runs() const { return view_of < 0 && !in_parts; }  // else its value needs no computation of its own
  bool is_reduction() const { return body->kind == te::Kind::Reduce; }
};

struct StageGraph {
  std::vector<StageValue> values;
  std::vector<ModelStage> stages;  // each after those it reads
  std::vector<int> inputs;         // value of graph input i; then the number of each symbol of the bounds, in order
  std::vector<int> outputs;        // value of graph output i

  // For each value the stages that read it, in order.
  std::vector<std::vector<int>> readers() const;
  // Drops stages whose values nobody needs.
  void prune();
};

// A new value with the same elements, and its stage; nobody reads it yet.
int add_copy(StageGraph& graph, int value);

// The values that an expression reads, each once, in order of first appearance.
std::vector<int> values_read(const te::Expr& e);

// By value: whether it is read at positions found in data. Each index is checked against its dims, so it keeps them.
std::vector<bool> read_by_index(const StageGraph& graph);

}  // namespace isomer::compile
