// Forest: decision trees in one form, whatever the attributes they came from. Invariant: every index is in range and
// no path comes back to a node it left, so that a walk from a root ends at a leaf.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/op.h"
#include "ops/ml_scores.h"

namespace isomer::ops {

enum class Split : uint8_t { Leq, Lt, Gte, Gt, Eq, Neq, Member };
enum class Aggregate : uint8_t { Average, Sum, Min, Max };

struct Forest {
  struct Vote {  // what reaching a leaf adds to a target
    int64_t target;
    double weight;
  };
  struct Node {
    Split split = Split::Leq;
    bool missing_is_true = false;
    int64_t feature = 0;
    double value = 0;
    size_t set = 0;                     // Member: index into sets
    int64_t if_true = 0, if_false = 0;  // a node, or leaf ~i
  };
  std::vector<Node> nodes;
  std::vector<std::vector<Vote>> leaves;
  std::vector<std::vector<double>> sets;
  std::vector<int64_t> roots;  // a node, or leaf ~i
  int64_t targets = 1;
  int64_t features = 0;  // fewest that rows must have

  // Checks what the invariant says, and counts the features.
  Expected<void> check(const ir::OpContext& c);
  // Whether every row gets a vote for every target.
  bool votes_for_all() const;
};

// Scores [N,targets] of rows [N,F] in f64: votes of the trees in their plain form (ml_forest_votes), averaged where that is
// asked for. With `voted` also which targets had a vote.
ir::Value forest_scores(Compose& g, const Forest& forest, Aggregate how, ir::Value rows, ir::Value* voted = nullptr);

// From the parallel lists `nodes_*` and PREFIX_ids, PREFIX_nodeids, PREFIX_treeids, PREFIX_weights (opsets 1 and 3).
Expected<Forest> forest_of_lists(const ir::OpContext& c, const std::string& prefix, int64_t targets);
// From the tensors of opset 5.
Expected<Forest> forest_of_tensors(const ir::OpContext& c);
// The attributes forest_of_lists reads.
std::vector<ir::AttrDef> forest_attrs(const std::string& prefix);

}  // namespace isomer::ops
