// Candidate: a pair of graphs that agreed on the enumeration's values, over inputs of its own. The pruning of pairs:
// names, what both sides share, and what follows from the candidates that were kept before.
#pragma once

#include <optional>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "propose/kernel.h"
#include "propose/sketch.h"

namespace isomer::propose {

inline constexpr Ref kUnbound = 255;

// Fewer steps, or as many with smaller operators. A part that becomes simpler makes the whole simpler.
bool simpler(const Sketch& a, const Sketch& b);

struct Candidate {
  std::vector<std::vector<Dim>> inputs;  // shapes over the family's symbols
  Sketch left, right;
  std::string encode() const;  // equal for equal pairs
};

class Pruner {
 public:
  Pruner(KernelTable& kernels, std::vector<bool> commutative);

  // The pair with inputs in order of first use; nothing when both sides are one graph. `shapes` are those of the
  // graphs' inputs.
  std::optional<Candidate> normalise(const Sketch& left, const Sketch& right,
                                     const std::vector<std::vector<Dim>>& shapes) const;
  // The pair without what both sides share: equal outputs go, equal parts become inputs where it still holds.
  std::optional<Candidate> without_shared(const Candidate& c) const;
  // Whether both sides come down to one graph by the kept candidates, used in either direction. A pair of graphs with two
  // outputs must be found by steps of which each can be taken back: splitting what was just joined is no step that a
  // search could take the other way, and merging two products would be lost with it.
  bool derivable(const Candidate& c) const;
  // Whether a kept candidate that holds the graph's last step makes the graph simpler: its class then has a simpler
  // graph, and what the two say together follows from that candidate and that graph. `inputs`: shapes.
  using ShapeIds = std::vector<ShapeId>;
  bool reducible(const Sketch& s, const ShapeIds& inputs) const;
  void keep(const Candidate& c);
  // As if it had not been kept.
  void drop(size_t candidate, bool gone = true) { gone_[candidate] = gone; }
  const std::vector<Candidate>& kept() const { return kept_; }

 private:
  using Shapes = std::vector<std::vector<Dim>>;
  using Bound = std::array<Ref, kFirstResult>;
  using Roots = std::array<Ref, 2>;
  struct Pattern {
    Sketch from, to;
    ShapeIds shapes = {};  // of the inputs
    uint32_t candidate = 0;
    bool reversible = false;  // the other direction is a rewrite too
    bool simplifies = false;
    bool turned = false;  // the outputs in the other order, for those who look for the second
  };
  bool splits(const Sketch& s) const;
  bool is_rewrite(const Sketch& from, size_t inputs) const;
  std::optional<std::vector<uint64_t>> fingerprint(const Sketch& s, const Shapes& shapes, uint64_t seed) const;
  // `both_ways`: by steps that can be taken back.
  Sketch normal_form(Sketch s, const Shapes& shapes, bool both_ways) const;
  // Rewrites of the graph at a step by patterns and to graphs that are wanted; stops at the first that holds.
  template <class F>
  bool each_rewrite(const Sketch& s, size_t root, const ShapeIds& inputs, F wanted) const;
  bool holds(const Pattern& p, const Sketch& s, const ShapeIds& inputs, const Bound& bound) const;
  bool match(const Pattern& p, const Sketch& s, Ref pattern, Ref at, Bound& bound) const;
  std::optional<Sketch> replace(const Pattern& p, const Sketch& s, const Roots& roots, const Bound& bound) const;
  Sketch ordered(const Sketch& s) const;

  KernelTable& kernels_;
  const Family& family_;
  std::vector<bool> commutative_;
  std::vector<Candidate> kept_;
  std::vector<bool> gone_;
  std::unordered_map<uint32_t, std::vector<Pattern>> by_root_;  // by the operators of a step and of its operands
  mutable std::shared_mutex mutex_;
  mutable std::unordered_map<std::string, bool> tested_;  // candidate and shapes -> whether it holds there
};

}  // namespace isomer::propose
