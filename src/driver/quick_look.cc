#ifdef ISOMER_HAS_COMPILER

#include "driver/quick_look.h"

#include <algorithm>

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

}  // namespace

bool promises(double share, const QuickLook& look, cost::Pricer& pricer) {
  const auto sized = with_sizes(look.start, look.sizes);
  if (!sized.ok()) return false;
  const auto whole = pricer.estimate(*sized);
  if (!whole.ok()) return false;
  const double wanted = share * whole->seconds;
  // First steps are seen in a second or two. A whole search of a model with hundreds of places takes longer than there is; one of
  // few places, of which the first step gains little or nothing, does not.
  const search::Cost estimate = estimate_by(pricer, look.sizes);
  if (search::promised_gain(look.start, ops::table(), look.rules, estimate, look.options) > wanted) return true;
  const auto found = by_estimates(look, pricer, quickest(look));
  double gain = 0;
  if (found.ok())
    for (const search::Step& s : found->steps) gain += s.before - s.after;
  return gain > wanted;
}

Expected<Foreseen> foresee(const QuickLook& look, const cost::PricerOptions& pricing) {
  cost::PricerOptions nominal = pricing;
  nominal.measure = false;
  nominal.store = "-";
  nominal.quiet = nullptr;
  ISOMER_TRY(const auto pricer, cost::Pricer::make(ops::table(), nominal));
  search::Options joining = quickest(look);
  joining.simplify = true;
  joining.compare = comparison_by(*pricer, look.sizes);
  ISOMER_TRY(search::Outcome joined, by_estimates(look, *pricer, joining));
  Foreseen out{std::move(joined.steps), {}};
  if (!pricing.measure) return out;  // the search itself is by estimates
  search::Options rest = look.options;
  rest.seconds = std::max(0.0, rest.seconds - joined.statistics.seconds);
  if (look.options.progress)
    rest.progress = [&look](search::Progress p) {
      p.foreseen = true;
      look.options.progress(p);
    };
  ISOMER_TRY(search::Outcome found, by_estimates(look, *pricer, rest));
  const bool interrupted = rest.stop && *rest.stop;  // then the best so far is wanted
  if (found.statistics.in_time || interrupted) out.cheapest = std::move(found.steps);
  return out;
}

}  // namespace isomer::driver

#endif
