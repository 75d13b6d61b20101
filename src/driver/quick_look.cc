#ifdef ISOMER_HAS_COMPILER

#include "driver/quick_look.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "driver/graph_costs.h"
#include "ops/table.h"

namespace isomer::driver {
namespace {

Expected<search::Outcome> by_estimates(const QuickLook& look, cost::Pricer& pricer, const search::Options& how) {
  const search::Cost estimate = estimate_by(pricer, look.sizes);
  return search::optimise(look.start, ops::table(), look.rules, estimate, estimate, how);
}

search::Options quickest(const QuickLook& look) {
  search::Options how = look.options;
  how.strategy = search::Strategy::Greedy;
  how.rounds = 1;
  how.progress = nullptr;
  return how;
}

double gain_of(const std::vector<search::Step>& steps) {
  double gain = 0;
  for (const search::Step& s : steps) gain += s.before - s.after;
  return gain;
}

// By the analytic model; nothing where it cannot say.
std::optional<double> seconds_of(const QuickLook& look, cost::Pricer& pricer) {
  const auto sized = with_sizes(look.start, look.sizes);
  if (!sized.ok()) return std::nullopt;
  const auto whole = pricer.estimate(*sized);
  if (!whole.ok()) return std::nullopt;
  return whole->seconds;
}

}  // namespace

Expected<Foreseen> foresee(const QuickLook& look, cost::Pricer& timing, double cheapest) {
  cost::PricerOptions nominal = timing.options();
  nominal.measure = false;
  nominal.store = "-";
  nominal.quiet = nullptr;
  ISOMER_TRY(const auto pricer, cost::Pricer::make(ops::table(), nominal));
  search::Options joining = quickest(look);
  joining.simplify = true;
  joining.compare = comparison_by(*pricer, look.sizes);
  if (timing.options().measure) {
    joining.timed = comparison_by(timing, look.sizes);
    joining.quiet = timing.options().quiet;
  }
  ISOMER_TRY(search::Outcome joined, by_estimates(look, *pricer, joining));
  const double whole = seconds_of(look, *pricer).value_or(std::numeric_limits<double>::infinity());
  Foreseen out{std::move(joined.steps), {}, 0};
  out.gain = gain_of(out.simplest) / whole;
  if (cheapest <= joined.statistics.seconds) return out;
  search::Options rest = look.options;
  rest.seconds = cheapest - joined.statistics.seconds;
  if (look.options.progress)
    rest.progress = [&look](search::Progress p) {
      p.foreseen = true;
      look.options.progress(p);
    };
  ISOMER_TRY(search::Outcome found, by_estimates(look, *pricer, rest));
  out.gain = std::max(out.gain, gain_of(found.steps) / whole);
  const bool interrupted = rest.stop && *rest.stop;  // then the best so far is wanted
  if (found.statistics.in_time || interrupted) out.cheapest = std::move(found.steps);
  return out;
}

bool promises(double share, const Foreseen& foreseen, const QuickLook& look, cost::Pricer& pricer) {
  if (foreseen.gain > share) return true;
  const std::optional<double> whole = seconds_of(look, pricer);
  if (!whole) return false;
  // Of a model with hundreds of places no search comes to its end in time, but first steps are seen in a second or two.
  const search::Cost estimate = estimate_by(pricer, look.sizes);
  return search::promised_gain(look.start, ops::table(), look.rules, estimate, look.options) > share * *whole;
}

}  // namespace isomer::driver

#endif
