#ifdef ISOMER_HAS_COMPILER

#include "driver/candidates.h"

#include <algorithm>
#include <cmath>

#include "base/clock_seconds.h"
#include "driver/labelled.h"
#include "driver/summary.h"
#include "ops/table.h"
#include "passes/manager.h"

namespace isomer::driver {
namespace {

constexpr int64_t kMostGrowth = int64_t{1} << 30;  // bytes of weights: what was priced as folded has to be folded

constexpr double kLeastGain = 1.03;  // times input and result must differ by: less is noise, and then the input stays
constexpr double kClearGain = 1.1;   // what a second timing would hardly take back
constexpr double kHalfGain = 0.985;  // of the input's time: half of the least gain
constexpr double kLevel = 1.005;     // times the input's: less is no loss
constexpr double kHalfLoss = 1.015;  // of whole runs: none either where the kernels see none, since code lies elsewhere

// Of looks at a simpler form: the races of one, how many there are where rounds leave it open, and how many must be against it. When
// there is no time for another race, one is a look, and there are no more than may tell.
constexpr int kLookRaces = 2, kMostLooks = 4, kFewestAgainst = 2;

// Of ratios, the one that this part of them is below.
double quantile(std::vector<double>& ratios, double part) {
  const auto at = ratios.begin() + static_cast<ptrdiff_t>(static_cast<double>(ratios.size()) * part);
  std::nth_element(ratios.begin(), at, ratios.end());
  return *at;
}

}  // namespace

double middle(std::vector<double> ratios) { return quantile(ratios, 0.5); }
bool faster(double result, double input) { return kLeastGain * result <= input; }
bool clearly_faster(double result, double input) { return kClearGain * result <= input; }

std::optional<bool> stay_below(double most, std::vector<double> ratios) {
  if (ratios.empty()) return std::nullopt;
  if (middle(ratios) <= most) return true;
  // Two standard deviations of as many coins.
  const double part = 0.5 - 1 / std::sqrt(static_cast<double>(ratios.size()));
  if (quantile(ratios, std::max(0.0, part)) > most) return false;
  return std::nullopt;
}

std::optional<bool> gain_shown(const std::vector<double>& ratios) {
  const std::optional<bool> below = stay_below(kHalfGain, ratios);
  if (below != true) return below;
  const size_t sure = ratios.size() / 2 + static_cast<size_t>(std::sqrt(ratios.size()));
  const auto ahead = std::count_if(ratios.begin(), ratios.end(), [](double r) { return r < 1; });
  if (static_cast<size_t>(ahead) > std::min(sure, ratios.size() - 1)) return true;
  return std::nullopt;
}

double simplest_may_take(bool multiplies_more, bool kernels_are_level, double replaced) {
  const double of_input = multiplies_more ? kHalfGain : kernels_are_level ? kHalfLoss : kLevel;
  return std::min(kLeastGain, of_input / replaced);
}

Expected<Candidate> CandidateMaker::make(const std::vector<search::Step>& steps, const std::string& labels) const {
  Candidate c{start_, {}, labels, nullptr};
  if (!steps.empty()) {
    ISOMER_TRY(search::Replayed r, search::replay(start_, ops::table(), rules_, steps));
    passes::Options all;
    all.limits.node_growth = all.limits.total_growth = kMostGrowth;
    ISOMER_TRY(c.graph, passes::run_pipeline(r.graph, ops::table(), "inference", all));
    c.steps = std::move(r.steps);
  }
  ISOMER_TRY(c.graph, with_labels(c.graph, labels));
  return c;
}

Expected<void> CandidateMaker::compile(Candidate& c) const {
  ISOMER_TRY(const ir::Graph sized, with_sizes(c.graph, sizes_));
  ExecutorOptions o;
  o.native.threads = pricer_.options().threads;
  o.native.accuracy = accuracy;
  o.native.code = pricer_.code();
  o.native.watch = std::make_shared<compile::Watch>(watch_->watch());
  ISOMER_TRY(Executor e, Executor::make(sized, o));
  c.executor = std::make_unique<Executor>(std::move(e));
  if (const auto estimate = pricer_.estimate(sized); estimate.ok()) c.mix = estimate->mix;
  return {};
}

Expected<std::optional<Candidate>> CandidateMaker::labelled(const Candidate& from, const cost::LabelOptions& how,
                                                            size_t& untried) const {
  ISOMER_TRY(const ir::Graph sized, with_sizes(from.graph, sizes_));
  const auto best = pricer_.label(sized, cost::Pricer::Extent::Model, how);
  if (best.ok()) untried = std::max(untried, best->untried);
  if (!best.ok() || best->labels.empty()) return std::optional<Candidate>();
  Candidate c{from.graph, from.steps, print(best->labels, pricer_.options().target), nullptr};
  c.origin = from.origin;
  c.confirmed = pricer_.options().measure;
  ISOMER_TRY(c.graph, with_labels(c.graph, c.labels));
  ISOMER_CHECK_OK(compile(c));
  return std::optional(std::move(c));
}

Expected<std::vector<Finish>> CandidateMaker::race(const std::vector<const Candidate*>& all,
                                                   const std::vector<Tensor>& inputs) {
  RaceOptions how;
  how.seconds = std::min(race_seconds_, budget_.left());
  how.threads = pricer_.options().threads;
  how.watch = watch_.get();
  how.usual = pricer_.usual();
  how.mix = all[0]->mix;
  std::vector<Executor*> runners;
  for (const Candidate* c : all) runners.push_back(c->executor.get());
  const double begin = clock_seconds(CLOCK_MONOTONIC);
  ISOMER_TRY(std::vector<Finish> out, driver::race(runners, inputs, how));
  const double each = (clock_seconds(CLOCK_MONOTONIC) - begin) / static_cast<double>(all.size());
  next_race_ = std::max({next_race_, race_seconds_, 2 * each});
  return out;
}

Expected<double> CandidateMaker::least_race_seconds(const Candidate& c, const std::vector<Tensor>& inputs) const {
  ISOMER_CHECK_OK(c.executor->prepare(inputs));
  ISOMER_CHECK_OK(c.executor->run(inputs));
  const double begin = clock_seconds(CLOCK_MONOTONIC);
  ISOMER_CHECK_OK(c.executor->run(inputs));
  return driver::least_race_seconds(2, clock_seconds(CLOCK_MONOTONIC) - begin);
}

Expected<void> CandidateMaker::time(std::vector<Candidate>& all, const std::vector<Tensor>& inputs) {
  std::vector<const Candidate*> racers;
  for (const Candidate& c : all) racers.push_back(&c);
  ISOMER_TRY(const std::vector<Finish> finish, race(racers, inputs));
  for (size_t i = 0; i < all.size(); ++i) all[i].fastest = finish[i].seconds, all[i].ratios = finish[i].ratios;
  return {};
}

CandidateMaker::Prices CandidateMaker::prices(const Candidate& c, double seconds) const {
  Prices out;
  const auto sized = with_sizes(c.graph, sizes_);
  if (!sized.ok()) return out;
  const double end = budget_.left() - seconds;
  const auto parts = pricer_.kernels(*sized, seconds);
  if (!parts.ok()) return out;
  for (const cost::KernelPrice& k : *parts) out.estimated += k.estimate, out.timed += k.seconds;
  const bool open = std::any_of(parts->begin(), parts->end(), [](const cost::KernelPrice& k) { return !k.known; });
  if (open && budget_.left() <= end && pricer_.options().measure) out.timed = 0;
  return out;
}

bool CandidateMaker::kernels_are_level(const Candidate& result, const Candidate& input) const {
  const auto left = [&] { return budget_.left() - kFewestAgainst * next_race_; };  // races of whole runs follow
  const double was = prices(input, left()).timed;
  const double is = prices(result, left()).timed;
  return was > 0 && is > 0 && is <= kLevel * was;
}

bool CandidateMaker::kernels_are_faster(const Candidate& result, const Candidate& input) const {
  const auto is = with_sizes(result.graph, sizes_), was = with_sizes(input.graph, sizes_);
  if (!is.ok() || !was.ok()) return false;
  const auto found = pricer_.compare(*was, *is, cost::Pricer::Extent::Model, 1);
  return found.ok() && faster(input.fastest + found->seconds, input.fastest);
}

Expected<bool> CandidateMaker::stays_faster(Candidate& input, Candidate& result, const std::vector<Tensor>& inputs) {
  if (clearly_faster(result.fastest, input.fastest)) return true;
  const bool trusted = faster(result.fastest, input.fastest);
  const bool by_kernels = result.confirmed && kernels_are_faster(result, input);
  if (!trusted && !by_kernels) return false;
  ISOMER_TRY(const std::vector<Finish> again, race({&input, &result}, inputs));
  if (trusted && faster(again[1].seconds, again[0].seconds)) return true;
  if (!by_kernels) return false;
  std::vector<double> ratios = result.ratios;
  ratios.insert(ratios.end(), again[1].ratios.begin(), again[1].ratios.end());
  ISOMER_TRY(const std::optional<bool> gains, decide(gain_shown, input, result, inputs, std::move(ratios)));
  if (gains != true) return false;
  input.fastest = std::min(input.fastest, again[0].seconds);
  result.fastest = middle(result.ratios) * input.fastest;
  return true;
}

Expected<std::optional<bool>> CandidateMaker::decide(const Judge& judge, const Candidate& first, Candidate& second,
                                                     const std::vector<Tensor>& inputs, std::vector<double> ratios) {
  const int had = ratios.empty() ? 0 : 1;
  for (int looks = 1; looks <= (late() ? kFewestAgainst : kMostLooks); ++looks) {
    for (int races = 0; races < (late() ? 1 : kLookRaces) && looks > had; ++races) {
      ISOMER_TRY(const std::vector<Finish> finish, race({&first, &second}, inputs));
      ratios.insert(ratios.end(), finish[1].ratios.begin(), finish[1].ratios.end());
    }
    const std::optional<bool> below = judge(ratios);
    const bool moment = below == false && looks < kFewestAgainst;  // in which the machine does something else
    second.ratios = ratios;
    if (below && !moment) return below;
  }
  return std::optional<bool>();
}

// What pays by itself may multiply more: its kernels told so. Where joins build on such steps all of them count.
Expected<bool> CandidateMaker::joins_multiply_more(const Candidate& simpler) const {
  std::vector<search::Step> joins = simpler.steps;
  std::erase_if(joins, [](const search::Step& s) { return s.alone; });
  const Expected<Candidate> joined = make(joins, "");
  ISOMER_TRY(const ir::Graph before, with_sizes(start_, sizes_));
  ISOMER_TRY(const ir::Graph after, with_sizes(joined.ok() ? joined->graph : simpler.graph, sizes_));
  const auto had = summarise(before).macs, has = summarise(after).macs;
  return had && has && *has > *had;
}

Expected<bool> CandidateMaker::is_level(const Candidate& candidate, Candidate& simpler,
                                        const std::vector<Tensor>& inputs) {
  ISOMER_TRY(const bool multiplies_more, joins_multiply_more(simpler));
  const double replaced = candidate.ratios.empty() ? 1 : middle(candidate.ratios);
  const double most = simplest_may_take(multiplies_more, kernels_are_level(simpler, candidate), replaced);
  ISOMER_TRY(const std::optional<bool> level,
             decide([&](const std::vector<double>& ratios) { return stay_below(most, ratios); }, candidate, simpler,
                    inputs, {}));
  // What stays open to the end is level, as far as anyone can tell.
  if (level == false) return false;
  simpler.fastest = middle(simpler.ratios) * candidate.fastest;
  return true;
}

Figures CandidateMaker::figures(const Candidate& c) const {
  Figures f;
  const Summary s = take_inventory(c.graph);
  for (const auto& [op, count] : s.operators) f.operators += count;
  f.parameters = s.parameters;
  const ExecutorFacts facts = c.executor->facts();
  f.kernels = facts.native.steps;
  f.weight_bytes = facts.native.weight_bytes;
  f.arena_bytes = facts.native.arena_bytes;
  f.measured = c.fastest < 1e30 ? c.fastest : 0;
  const Prices p = prices(c, budget_.left());
  f.estimated = p.estimated;
  f.priced = p.timed;
  return f;
}

}  // namespace isomer::driver

#endif
