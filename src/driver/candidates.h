// Candidates: the graphs that an optimised model may become, made of the same start by steps and labels, compiled, timed
// in turns and described.
// Invariant: a candidate's graph is folded as far as prices take it to be.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cost/pricer.h"
#include "driver/executor.h"
#include "driver/open_sizes.h"
#include "driver/optimize.h"
#include "driver/race.h"

namespace isomer::driver {

struct Candidate {
  ir::Graph graph;
  std::vector<search::Step> steps;
  std::string labels;
  std::unique_ptr<Executor> executor;  // nothing: not compiled yet
  double fastest = 1e30;               // seconds (race.h)
};

// By more than noise; by so much that it needs no second timing. Seconds.
bool faster(double result, double input);
bool clearly_faster(double result, double input);

// All that is given has to outlive it.
class CandidateMaker {
 public:
  CandidateMaker(const ir::Graph& start, const std::vector<const rewrite::Rule*>& rules, const Sizes& sizes,
                 cost::Pricer& pricer)
      : start_(start),
        rules_(rules),
        sizes_(sizes),
        pricer_(pricer),
        watch_(std::make_unique<CoreWatch>(pricer.options().target, pricer.options().threads)) {}

  // Not compiled.
  Expected<Candidate> make(const std::vector<search::Step>& steps, const std::string& labels) const;
  Expected<void> compile(Candidate& candidate) const;
  // With its best layouts and algorithms, compiled; nothing where those are the compiler's own. `untried` grows to the number of groups for
  // which no time was left.
  Expected<std::optional<Candidate>> labelled(const Candidate& from, const cost::LabelOptions& how,
                                              size_t& untried) const;
  Expected<void> time(std::vector<Candidate>& all, const std::vector<Tensor>& inputs, double seconds) const;
  // Whether a result that was faster than the input is so clearly, or by more than noise in a second race too.
  Expected<bool> stays_faster(const Candidate& input, const Candidate& result, const std::vector<Tensor>& inputs,
                              double seconds) const;
  Figures figures(const Candidate& candidate) const;

  Accuracy accuracy = Accuracy::Checked;  // that candidates are compiled with

 private:
  RaceOptions race_options(double seconds) const;

  const ir::Graph& start_;
  const std::vector<const rewrite::Rule*>& rules_;
  const Sizes& sizes_;
  cost::Pricer& pricer_;
  std::unique_ptr<CoreWatch> watch_;  // stays where it is: compiled candidates know it
};

}  // namespace isomer::driver
