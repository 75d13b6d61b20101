// Candidates: the graphs that an optimised model may become, made of the same start by steps and labels, compiled, timed
// in turns and described.
// Invariant: a candidate's graph is folded as far as prices take it to be.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cost/pricer.h"
#include "driver/budget.h"
#include "driver/executor.h"
#include "driver/open_sizes.h"
#include "driver/optimize.h"
#include "driver/race.h"

namespace isomer::driver {

// Who came upon a candidate: nobody (the input, or what the user gives), estimates alone, everything joined that may be, or prices.
enum class Origin : uint8_t { Given, Foreseen, Simplest, Found };

struct Candidate {
  ir::Graph graph;
  std::vector<search::Step> steps;
  std::string labels;
  std::unique_ptr<Executor> executor;  // nothing: not compiled yet
  cost::Mix mix = {};                  // of its kernels, by the analytic model
  double fastest = 1e30;               // seconds (race.h),
  std::vector<double> ratios = {};     // and to the input, round by round
  Origin origin = Origin::Given;
  // Its kernels may decide for it: they did twice, as labels do, or are timed when its turn comes.
  bool confirmed = false;
};

double middle(std::vector<double> ratios);
// By more than noise; by so much that it needs no second timing. Seconds.
bool faster(double result, double input);
bool clearly_faster(double result, double input);
// Whether rounds stay below a ratio: yes where the middle does, no where so many are above it as tosses of a coin hardly are, else it
// is open.
std::optional<bool> stay_below(double most, std::vector<double> ratios);
// Whether rounds show that half of the least gain is there: the middle has it, and so many rounds are faster than the input as tosses of
// a coin hardly are. No where they show that it is not; else it is open.
std::optional<bool> gain_shown(const std::vector<double>& ratios);
// The time that the simplest form may take, as a multiple of that of what it replaces, which takes `replaced` times the input's: no
// more than the input, but for noise, of which there is less in kernels than in whole runs, and less than it where it multiplies more (an
// enlarged kernel has to pay); and so little more than what gained that a race would not tell, since that depends on what was found by
// the end of the time.
double simplest_may_take(bool multiplies_more, bool kernels_are_level, double replaced);

// All that is given has to outlive it.
class CandidateMaker {
 public:
  CandidateMaker(const ir::Graph& start, const std::vector<const rewrite::Rule*>& rules, const Sizes& sizes,
                 cost::Pricer& pricer, const Budget& budget, double race_seconds)
      : start_(start),
        rules_(rules),
        sizes_(sizes),
        pricer_(pricer),
        budget_(budget),
        race_seconds_(race_seconds),
        watch_(std::make_unique<CoreWatch>(pricer.options().target, pricer.options().threads)) {}

  // Not compiled.
  Expected<Candidate> make(const std::vector<search::Step>& steps, const std::string& labels) const;
  Expected<void> compile(Candidate& candidate) const;
  // With its best layouts and algorithms, compiled; nothing where those are the compiler's own. `untried` grows to the number of groups for
  // which no time was left.
  Expected<std::optional<Candidate>> labelled(const Candidate& from, const cost::LabelOptions& how,
                                              size_t& untried) const;
  // Of a race of two that take as long as this one, and nothing but the rounds that every race has.
  Expected<double> least_race_seconds(const Candidate& candidate, const std::vector<Tensor>& inputs) const;
  Expected<void> time(std::vector<Candidate>& all, const std::vector<Tensor>& inputs);
  // Whether a result is faster than the input: so clearly that it needs no second race, or by more than noise in a second one too.
  // Where its kernels are faster by more than noise and that was confirmed, whole runs need not prove it again beside whatever
  // else the machine does: both races must show half of the least gain, or some more where those leave it open; the middle of their
  // rounds is its time then.
  Expected<bool> stays_faster(Candidate& input, Candidate& result, const std::vector<Tensor>& inputs);
  // Whether the simplest form takes no more than it may in place of the input, or of a candidate that gained, as far as rounds can
  // tell; their middle is its time then.
  Expected<bool> is_level(const Candidate& candidate, Candidate& simpler, const std::vector<Tensor>& inputs);
  Figures figures(const Candidate& candidate) const;

  Accuracy accuracy = Accuracy::Checked;  // that candidates are compiled with

 private:
  // Of all, the first of which is what the others are compared with.
  Expected<std::vector<Finish>> race(const std::vector<const Candidate*>& all, const std::vector<Tensor>& inputs);
  // Whether there is no time for one more race.
  bool late() const { return budget_.left() <= next_race_; }
  // What rounds of the second against the first say to `judge`: those that are given, which are those of one look, and of further looks
  // as long as it is open and there is time. `second` has all rounds then.
  using Judge = std::function<std::optional<bool>(const std::vector<double>&)>;
  Expected<std::optional<bool>> decide(const Judge& judge, const Candidate& first, Candidate& second,
                                       const std::vector<Tensor>& inputs, std::vector<double> ratios);
  // Seconds by its kernels, of the analytic model and timed: so many for those that nobody has timed. 0: not known, that was too short.
  struct Prices {
    double estimated = 0, timed = 0;
  };
  Prices prices(const Candidate& candidate, double seconds) const;
  Expected<bool> joins_multiply_more(const Candidate& simpler) const;
  // By all of them, where there is time for it,
  bool kernels_are_level(const Candidate& result, const Candidate& input) const;
  // or by those that only one of both has, which is clear sooner.
  bool kernels_are_faster(const Candidate& result, const Candidate& input) const;

  const ir::Graph& start_;
  const std::vector<const rewrite::Rule*>& rules_;
  const Sizes& sizes_;
  cost::Pricer& pricer_;
  const Budget& budget_;              // of the whole call,
  double race_seconds_;               // and of one race, at most, but for its rounds
  double next_race_ = 0;              // of two: what it will take, by those that were run
  std::unique_ptr<CoreWatch> watch_;  // stays where it is: compiled candidates know it
};

}  // namespace isomer::driver
