#ifdef ISOMER_HAS_COMPILER

#include "driver/quick_look.h"

#include "driver/graph_costs.h"
#include "ops/table.h"

namespace isomer::driver {
namespace {

Expected<search::Outcome> outcome(const QuickLook& look, cost::Pricer& pricer, bool simplify) {
  search::Options quick = look.options;
  quick.strategy = search::Strategy::Greedy;
  quick.rounds = 1;
  quick.progress = nullptr;
  quick.simplify = simplify;
  if (simplify) quick.compare = comparison_by(pricer, look.sizes);
  const search::Cost estimate = estimate_by(pricer, look.sizes);
  return search::optimise(look.start, ops::table(), look.rules, estimate, estimate, quick);
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
  const auto found = outcome(look, pricer, false);
  double gain = 0;
  if (found.ok())
    for (const search::Step& s : found->steps) gain += s.before - s.after;
  return gain > wanted;
}

Expected<std::vector<search::Step>> simplest_form(const QuickLook& look, const cost::PricerOptions& pricing) {
  cost::PricerOptions nominal = pricing;
  nominal.measure = false;
  nominal.store = "-";
  nominal.quiet = nullptr;
  ISOMER_TRY(const auto pricer, cost::Pricer::make(ops::table(), nominal));
  ISOMER_TRY(search::Outcome found, outcome(look, *pricer, true));
  return std::move(found.steps);
}

}  // namespace isomer::driver

#endif
