// Candidate: a pair of graphs that agreed on the enumeration's values, over inputs of its own. The pruning of pairs:
// names, what both sides share, and what follows from the candidates that were kept before.
#pragma once

#include <string>
#include <vector>

#include "propose/kernel.h"
#include "propose/sketch.h"

namespace isomer::propose {

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
  void keep(const Candidate& c);
  const std::vector<Candidate>& kept() const { return kept_; }

 private:
  struct Pattern {
    Sketch from, to;
    bool reversible;  // the other direction is a rewrite too
  };
  bool splits(const Sketch& s) const;
  bool is_rewrite(const Sketch& from, size_t inputs) const;
  using Shapes = std::vector<std::vector<Dim>>;
  std::optional<std::vector<uint64_t>> fingerprint(const Sketch& s, const Shapes& shapes, uint64_t seed) const;
  // `both_ways`: by steps that can be taken back.
  Sketch normal_form(Sketch s, const Shapes& shapes, bool both_ways) const;
  bool improve(Sketch& s, const Shapes& shapes, const std::vector<uint64_t>& meaning, bool both_ways) const;
  bool match(const Pattern& p, const Sketch& s, Ref pattern, Ref at, std::vector<Ref>& bound) const;
  std::optional<Sketch> replace(const Pattern& p, const Sketch& s, const std::vector<Ref>& roots,
                                const std::vector<Ref>& bound) const;
  Sketch ordered(const Sketch& s) const;

  KernelTable& kernels_;
  const Family& family_;
  std::vector<bool> commutative_;
  std::vector<Candidate> kept_;
  std::vector<std::vector<Pattern>> by_root_;  // by the template of the first output's step
};

}  // namespace isomer::propose
