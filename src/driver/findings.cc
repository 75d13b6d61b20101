#ifdef ISOMER_HAS_COMPILER

#include "driver/findings.h"

#include <algorithm>
#include <utility>

#include "base/cores.h"
#include "driver/graph_costs.h"
#include "ops/table.h"

namespace isomer::driver {
namespace {

// Of the budget: until labels of the start are found, and for those of what the search finds.
constexpr double kLabelShare = 0.6, kFinalShare = 0.15;
constexpr double kSimplest =
    0.5;  // of the budget: the simplest form is whole before, or it would be another one every time;
constexpr double kForesight = 0.3;      // more than estimates alone take in most models,
constexpr double kBesideLabels = 0.15;  // and what of it those have where labels need it too
constexpr double kLittle = 0.02;        // of the model's time: what estimates promise less than is not looked for twice
constexpr double kQuickShare = 0.05;    // of the budget: for seeing then whether first steps promise much,
constexpr double kMuch = 0.1;           // which is so much of the model's time;
constexpr double kRewriteShare = 0.7;   // then they are looked for until so much of the budget is gone
constexpr int kMostSearchers = 4;       // threads: more would wait for those that time

void add_up(const search::Statistics& more, search::Statistics& all) {
  all.regions = std::max(all.regions, more.regions);
  all.repeated = std::max(all.repeated, more.repeated);
  all.priced += more.priced;
  all.expanded += more.expanded;
  all.duplicates += more.duplicates;
  all.estimated += more.estimated;
  all.refused += more.refused;
  all.complete &= more.complete;
  all.in_time &= more.in_time;
  all.seconds += more.seconds;
}

}  // namespace

cost::LabelOptions Finder::label_options(double share) const {
  return {budget.left(share), options.search.stop, true, true};
}

// One of the threads times kernels at a time: the others must not take a core from it, or stop meanwhile.
int Finder::searchers(bool timing) const {
  const cost::PricerOptions& pricing = pricer.options();
  return std::min(timing && !pricing.quiet ? cores() - pricing.threads + 1 : cores(), kMostSearchers);
}

QuickLook Finder::quick_look(double share) const {
  search::Options limits = options.search;
  limits.seconds = budget.left(share);
  limits.threads = searchers(false);
  return {start, rules, sizes, limits};
}

Expected<Findings> Finder::find() const {
  Findings out;
  const double cheapest = options.layout ? budget.left(kBesideLabels) : options.measure ? budget.left(kForesight) : 0;
  ISOMER_TRY(out.foreseen, foresee(quick_look(kSimplest), pricer, cheapest));
  search::Options how = options.search;
  how.threads = searchers(options.measure);
  how.quiet = pricer.options().quiet;
  // Where rewrites promise much they are looked for first, and what they lead to is labelled. Else the start has its
  // labels first: most kernels of what the search looks at are known then, and where it finds nothing the labels are there.
  if (options.layout && !promises(kMuch, out.foreseen, quick_look(kForesight + kQuickShare), pricer)) {
    ISOMER_CHECK_OK(look_jointly(how, out));
  } else {
    how.seconds = budget.left(options.layout ? kRewriteShare : 1);
    ISOMER_TRY(search::Outcome outcome, by_kernels(how));
    ISOMER_CHECK_OK(add(std::move(outcome), options.measure, out));
  }
  ISOMER_CHECK_OK(compare_with_foresight(out));
  return out;
}

// What gains by itself may gain nothing beside labels by what timings tell, and the other way round: where estimates promise something
// and time is left, both are looked for.
Expected<void> Finder::look_jointly(search::Options how, Findings& out) const {
  ISOMER_TRY(search::Outcome labelled, with_labels(how));
  const bool complete = labelled.statistics.complete;
  ISOMER_CHECK_OK(add(std::move(labelled), false, out));
  how.seconds = budget.left(1 - kFinalShare);
  if (!complete || how.seconds <= 0 || out.foreseen.gain < kLittle) return {};
  ISOMER_TRY(search::Outcome plain, by_kernels(how));
  return add(std::move(plain), options.measure, out);
}

// Under prices with the best labels of each piece, behind a look at those of the start.
Expected<search::Outcome> Finder::with_labels(search::Options how) const {
  ISOMER_TRY(const ir::Graph sized, with_sizes(start, sizes));
  const auto ignored = pricer.label(sized, cost::Pricer::Extent::Model, label_options(kLabelShare));
  const search::Cost price = [this](const ir::Graph& g) -> Expected<double> {
    ISOMER_TRY(const ir::Graph piece, with_sizes(g, sizes));
    cost::LabelOptions some = label_options(1 - kFinalShare);
    some.cuts = false;
    ISOMER_TRY(const cost::Labelling l, pricer.label(piece, cost::Pricer::Extent::Piece, some));
    return l.seconds;
  };
  how.seconds = budget.left(1 - kFinalShare);
  return search::optimise(start, ops::table(), rules, price, estimate_by(pricer, sizes), how);
}

Expected<search::Outcome> Finder::by_kernels(search::Options how) const {
  const cost::Pricer::Limit limit = pricer.limit(how.seconds);  // also for those who wait for their turn to time
  if (options.measure) how.compare = comparison_by(pricer, sizes);
  return search::optimise(start, ops::table(), rules, price_by(pricer, sizes), estimate_by(pricer, sizes), how);
}

Expected<void> Finder::add(search::Outcome outcome, bool confirmed, Findings& out) const {
  add_up(outcome.statistics, out.statistics);
  out.considered = std::move(outcome.considered);
  if (outcome.steps.empty()) return {};
  ISOMER_TRY(const Candidate found, candidates.make(outcome.steps, ""));
  const Hash128 graph = found.graph.content_hash();
  for (Findings::List& l : out.lists) {
    if (l.graph != graph) continue;
    l.confirmed |= confirmed;
    return {};
  }
  out.lists.push_back({std::move(outcome.steps), graph, confirmed});
  return {};
}

// What was foreseen and found too counts as found, by the steps that are the same every time.
Expected<void> Finder::compare_with_foresight(Findings& out) const {
  std::vector<search::Step>& cheapest = out.foreseen.cheapest;
  if (cheapest.empty()) return {};
  ISOMER_TRY(const Candidate foreseen, candidates.make(cheapest, ""));
  ISOMER_TRY(const Candidate simplest, candidates.make(out.foreseen.simplest, ""));
  const Hash128 graph = foreseen.graph.content_hash();
  bool known = simplest.graph.content_hash() == graph;
  for (Findings::List& l : out.lists) {
    if (l.graph != graph) continue;
    l.steps = cheapest;
    known = true;
  }
  if (known) cheapest.clear();
  return {};
}

}  // namespace isomer::driver

#endif
