// Which stages become one kernel. Element-wise stages are inlined into their readers where nothing is computed twice for
// much; what stays is grouped: a contraction with the element-wise stage that follows it, and stages that share rows
// (softmax, norms, pools with what follows).
#pragma once

#include <vector>

#include "compile/forms.h"
#include "compile/stage_graph.h"

namespace isomer::compile {

struct Group {
  std::vector<int> stages;  // in order of computation
  // For each of them the axis ids that are the group's rows: the r-th of one stage runs with the r-th of every other,
  // and a stage reads values of its own group only in its own row.
  std::vector<std::vector<int>> rows;
  std::optional<Contraction> contraction;  // of the first stage; then a second stage is its epilogue
  // Of a contraction: the element-wise stage that only its left side reads. It is computed where the left side's elements are
  // brought together anyway, by a scheme that does so; else by a kernel of its own. Not among `stages`.
  int prologue = -1;

  std::vector<int> with_prologue() const {
    std::vector<int> out = stages;
    if (prologue >= 0) out.insert(out.begin(), prologue);
    return out;
  }
};

// A stage by itself: all of its axes are rows.
Group alone(const StageGraph& graph, int stage);

// Concatenations without a copy: what computes a part stores it where the whole wants it, after what is computed of every
// element of the whole. Sets hosts of values and
// marks the stages that have nothing left to do.
void host_parts(StageGraph& graph);

// Products with the same weights and few rows each that do not need each other become one: the rows lie one below the
// other (the steps of a recurrent layer), and the weights are read once.
void merge_products(StageGraph& graph);

// A sum over the taps that a remainder leaves to each element (a transposed convolution with strides) becomes one sum for
// each phase of the elements, over its own taps, with what is computed of every element behind it; the phases lie in the whole.
// Taps that a guard leaves out at every element (wide dilations on a small image) go.
void split_phases(StageGraph& graph);

// Inlines element-wise stages into their readers. The results of the model stay the same.
void inline_stages(StageGraph& graph);

// Every stage that is no view is in exactly one group; groups are in an order in which each reads only earlier ones.
// Without `fuse` each is alone in its group.
std::vector<Group> group_stages(const StageGraph& graph, bool fuse = true);

}  // namespace isomer::compile
