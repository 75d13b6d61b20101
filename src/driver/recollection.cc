#ifdef ISOMER_HAS_COMPILER

#include "driver/recollection.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ctime>

#include "driver/open_sizes.h"
#include "driver/trace_file.h"
#include "ops/table.h"
#include "rewrite/proof.h"

namespace isomer::driver {
namespace {

constexpr int kSearchVersion = 25;  // a search that finds other things on the same prices has another one

}  // namespace

Expected<void> Recollection::ask(const Optimized& out, const std::vector<const rewrite::Rule*>& rules) {
  question_.clear();
  const search::Options& o = options_.search;
  if (options_.replay || o.seconds <= 0 || o.steps <= 0) return {};
  ISOMER_TRY(const ir::Graph sized, with_sizes(out.start, out.assumed));
  const auto plan = pricer_.plan_hash(sized);
  if (!plan.ok()) return {};  // a model that is compiled in part
  Hasher all;
  for (const rewrite::Rule* r : rules) all.add(r->name).add(rewrite::rule_hash(*r));
  question_ = fmt::format(
      "optimize {} start {} plan {} rules {} sizes {} strategy {} alpha {} doubt {} {} width {} steps {} {} "
      "patience {} seconds {} region {} rounds {} measure {} layout {}",
      kSearchVersion, out.start.content_hash().hex(), plan->hex(), all.digest().hex(), out.assumed,
      static_cast<int>(o.strategy), o.alpha, o.doubt, o.dead_end, o.width, o.steps, o.region_steps, o.patience,
      o.seconds, o.region_nodes, o.rounds, options_.measure, options_.layout);
  return {};
}

bool Recollection::recall(Optimized& out, const std::vector<const rewrite::Rule*>& rules) const {
  if (question_.empty() || options_.fresh) return false;
  const auto text = pricer_.answer(question_);
  if (!text) return false;
  const auto trace = parse_trace(*text);
  if (!trace.ok() || trace->start != out.start.content_hash().hex()) return false;
  if (!search::replay(out.start, ops::table(), rules, trace->steps).ok()) return false;
  out.steps = trace->steps;
  out.labels = trace->labels;
  out.considered = trace->considered;
  return true;
}

void Recollection::remember(const Optimized& out, const InputSets& sets) const {
  const bool interrupted = options_.search.stop && options_.search.stop->load();
  if (question_.empty() || interrupted) return;
  if (!out.remembered) pricer_.set_answer(question_, print(trace_of("", out)));
  const Verdict v{out.graph.content_hash().hex(),
                  std::time(nullptr),
                  out.changed,
                  out.why_not,
                  out.input_sets,
                  out.errors,
                  out.own_errors,
                  out.before,
                  out.after};
  pricer_.set_answer(verdict_question(sets), print(v));
}

// All that decides what the check and the timing come to, beside the result itself.
std::string Recollection::verdict_question(const InputSets& sets) const {
  Hasher inputs;
  for (const std::vector<Tensor>& set : sets)
    for (const Tensor& t : set) inputs.add(t.content_hash());
  return fmt::format("verdict on {} of {} inputs {} tolerance {} threads {} seconds {}", question_,
                     original_.content_hash().hex(), inputs.digest().hex(), options_.tolerance, options_.threads,
                     options_.timing_seconds);
}

std::optional<Verdict> Recollection::verdict(const InputSets& sets) const {
  const auto text = pricer_.answer(verdict_question(sets));
  return text ? parse_verdict(*text) : std::nullopt;
}

}  // namespace isomer::driver

#endif
