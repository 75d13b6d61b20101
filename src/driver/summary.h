// What is in a model: counts, parameters, arithmetic, memory, dynamic dimensions, and every node Isomer cannot run.
// Everything is read off the operators' records; nothing here knows an operator by name.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace isomer::driver {

struct Unsupported {
  std::string node;  // label, or the name of its first result
  std::string op;    // the operator as the file wrote it
  std::string reason;
};

struct Summary {
  std::map<std::string, int64_t> operators;  // by name, bodies of control flow included
  int64_t constants = 0;
  int64_t parameters = 0;  // elements of constants
  int64_t parameter_bytes = 0;
  // Multiply-accumulates of contractions; absent when a dynamic dimension leaves them open.
  std::optional<int64_t> macs;
  // Largest sum of the bytes of values alive at once, in node order, constants apart.
  std::optional<int64_t> activation_bytes;
  std::vector<std::string> dynamic_dims;
  std::vector<Unsupported> unsupported;
};

// What can be counted without building a single expression: all but `macs` and `activation_bytes`, which stay absent.
Summary take_inventory(const ir::Graph& graph);
Summary summarise(const ir::Graph& graph);

// Multiply-accumulates in a program: for each reduction of products, the points it visits.
std::optional<int64_t> count_macs(const te::Program& program);

}  // namespace isomer::driver
