// LabelSpace: what can be chosen when a model is lowered, and what each choice leads to. Variables are values that may lie in
// memory in several ways; a factor is a group of stages, whose kernels depend on the labels of the values it touches and on
// nothing else. So the time of a model is a sum over factors, and its best labels a problem of small tables.
// Invariant: with all variables at their first label, the plan is the one that the compiler makes by itself.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compile/kernel_cache.h"
#include "compile/labels.h"
#include "compile/lower.h"

namespace isomer::compile {

class LabelSpace {
 public:
  // The graph's own labels do not count. `options` must outlive the space and has a cache.
  static Expected<LabelSpace> make(const ir::Graph& graph, const ir::OpTable& table, const LowerOptions& options);

  struct Variable {
    std::string value;
    std::vector<Label> labels;  // first: what the compiler does by itself
  };
  struct Factor {
    std::vector<size_t> variables;
    int stage = -1;        // the last of the group
    int copied = -1;       // or: the copy of this value, by the variable that asks for it
    bool chained = false;  // with its neighbours, when all of them are as the compiler would have them
  };
  const std::vector<Variable>& variables() const { return variables_; }
  const std::vector<Factor>& factors() const { return factors_; }

  const std::string& value_of(size_t factor) const;  // that it ends with, or copies; its name

  // One way to compute a group.
  struct Work {
    Method method;
    Algorithm scheme = Algorithm::Standard;  // that has these kernels; Standard: not known
    std::shared_ptr<const KernelCache::Entry> kernels;
    std::vector<std::vector<bool>> weights;  // by kernel and argument
  };
  // All ways, what the compiler would do by itself first, when the factor's variables have these labels (by number, in the
  // order of Factor::variables). None: there is nothing to compute. With `first` only the compiler's own.
  std::vector<Work> work(size_t factor, std::span<const size_t> labels, bool first = false) const;
  // The same scheme cut in other ways, where values lie as the compiler would have them.
  std::vector<Work> cuts(size_t factor, Algorithm scheme) const;

  // What the factor reduces, whatever is computed before and behind it: factors with the same text are best computed in the
  // same way, or nearly. Empty: it reduces nothing.
  std::string reduction_of(size_t factor) const;

  // One way, where values lie as the compiler would have them.
  std::optional<Work> way(size_t factor, const Method& method) const;

  // The labels of a model in which variables have these numbers and factors these methods; empty when all are standard.
  Labels labels(std::span<const size_t> choice, std::span<const Method> methods) const;

 private:
  void find_variables();
  void find_factors();
  int root(int value) const;  // whose order a part has
  struct Place;               // a factor's group in a plan
  std::unique_ptr<Place> place(size_t factor, std::span<const size_t> labels) const;
  std::optional<Work> made(Place& place, const Method& method) const;

  const LowerOptions* options_ = nullptr;
  Grouped base_;  // with the standard orders as those that are wanted
  std::vector<Variable> variables_;
  std::vector<int> variable_of_;  // by value, -1: none
  std::vector<Factor> factors_;
};

}  // namespace isomer::compile
