#include "driver/optimize.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/clock_seconds.h"
#include "base/cores.h"
#include "driver/open_sizes.h"
#include "driver/rule_files.h"
#include "ops/table.h"
#include "passes/manager.h"
#include "rewrite/proof.h"

#ifdef ISOMER_HAS_COMPILER
#include "codegen/codegen.h"
#include "cost/pricer.h"
#include "driver/end_check.h"
#include "driver/findings.h"
#include "driver/recollection.h"
#endif

namespace isomer::driver {
#ifdef ISOMER_HAS_COMPILER
namespace {

// Of the budget: for looking, the rest being for whole models, which are compiled, checked and run side by side; and for one race, at
// most: who asks for little does not wait for many.
constexpr double kSearchShare = 0.75, kLeastSearchShare = 0.4, kRaceShare = 0.1;
// What that rest has to hold of a model that takes long, in times of what compiling the input and a race of two took: what is found and
// the simplest form, which have most kernels from others, and the original in double; and the races without which nothing is taken.
constexpr double kCompiles = 2, kRaces = 3;
constexpr double kUnforeseen = 0.02;  // of the budget: what is being done when it ends
constexpr double kNoise = 1.03;       // times within this of each other are the same: they do not choose

class Optimization {
 public:
  Optimization(const ir::Graph& graph, const OptimizeOptions& options)
      : original_(graph), options_(options), budget_(without_files(options)) {}

  Expected<Optimized> run() {
    ISOMER_CHECK_OK(prepare());
    ISOMER_TRY(out_.assumed, open_sizes(original_, options_.assumed, options_.inputs));
    ISOMER_TRY(out_.start, passes::run_pipeline(original_, ops::table(), "inference"));
    candidates_.emplace(out_.start, rules_, out_.assumed, *pricer_, budget_,
                        std::min(options_.timing_seconds, kRaceShare * budget_.seconds()));
    recollection_.emplace(original_, options_, *pricer_);
    ISOMER_CHECK_OK(recollection_->ask(out_, rules_));
    out_.remembered = recollection_->recall(out_, rules_);
    ISOMER_TRY(EndCheck end, EndCheck::make(original_, out_.start, rules_, out_.assumed, options_));
    if (!given() && searches()) ISOMER_CHECK_OK(plan(end.sets()[0]));
    ISOMER_CHECK_OK(search());
    if (out_.culprit) return std::move(out_);
    ISOMER_TRY(const bool known, recall_verdict(end.sets()));
    if (!known) {
      ISOMER_CHECK_OK(choose(end));
      if (!out_.culprit) recollection_->remember(out_, end.sets());
    }
    name_rules();
    out_.kernels_measured = pricer_->measured();
    for (const Diagnostic& d : pricer_->take_warnings()) out_.warnings.push_back(d.message);
    return std::move(out_);
  }

 private:
  static double without_files(const OptimizeOptions& o) {
    return std::max(o.search.seconds / 2, (1 - kUnforeseen) * o.search.seconds - o.file_seconds);
  }

  Expected<void> prepare() {
    ISOMER_TRY(library_, load_rule_library(options_.rules, options_.trust));
    for (const rewrite::Rule& r : library_.rules) rules_.push_back(&r);
    cost::PricerOptions pricing;
    ISOMER_TRY(pricing.target, codegen::host_target());
    pricing.threads = options_.threads > 0 ? options_.threads : cores();
    if (options_.measure && pricing.threads >= cores()) pricing.quiet = &quiet_;
    pricing.measure = options_.measure;
    pricing.weights = cost::weight_reach(original_);
    pricing.store = options_.store;
    ISOMER_TRY(pricer_, cost::Pricer::make(ops::table(), pricing));
    return {};
  }

  // The input is compiled and run before anything is looked for: what that takes tells what has to be left for the end.
  Expected<void> plan(const std::vector<Tensor>& inputs) {
    const double begin = clock_seconds(CLOCK_MONOTONIC);
    ISOMER_TRY(input_, compiled({}, ""));
    const double compiling = clock_seconds(CLOCK_MONOTONIC) - begin;
    ISOMER_TRY(const double race, candidates_->least_race_seconds(*input_, inputs));
    const double share = 1 - (kCompiles * compiling + kRaces * race) / budget_.seconds();
    looking_ = Budget(budget_.left(std::clamp(share, kLeastSearchShare, kSearchShare)));
    return {};
  }

  bool searches() const { return !options_.replay && options_.search.seconds > 0 && options_.search.steps > 0; }

  // Makes the result again, and takes over what was found out about it where it is the same graph.
  Expected<bool> recall_verdict(const InputSets& sets) {
    if (!out_.remembered) return false;
    const std::optional<Verdict> v = recollection_->verdict(sets);
    if (!v) return false;
    ISOMER_TRY(Candidate again, made(out_.steps, out_.labels));
    if (again.graph.content_hash().hex() != v->result) return false;
    out_.checked = v->when;
    out_.changed = v->changed;
    out_.why_not = v->why_not;
    out_.input_sets = v->input_sets;
    out_.errors = v->errors;
    out_.own_errors = v->own_errors;
    out_.before = v->before;
    out_.after = v->after;
    take(std::move(again));
    return true;
  }

  Finder finder() const { return {out_.start, rules_, out_.assumed, options_, *candidates_, looking_, *pricer_}; }

  Expected<void> search() {
    if (options_.replay) {
      out_.steps = *options_.replay;
      out_.labels = options_.replay_labels;
    }
    if (out_.remembered || !searches()) return test_applications(out_.steps);
    ISOMER_TRY(found_, finder().find());
    out_.statistics = found_.statistics;
    out_.considered = std::move(found_.considered);
    for (const Findings::List& l : found_.lists) {
      ISOMER_CHECK_OK(test_applications(l.steps));
      if (out_.culprit) break;
    }
    return {};
  }

  void name_rules() {
    rewrite::OperatorHashes hashes(ops::table());
    for (const search::Application& a : search::applications(out_.steps)) {
      if (out_.rules.count(a.rule)) continue;
      const rewrite::Rule* rule = library_.find(a.rule);
      const auto proof = rewrite::valid_proof(*rule, hashes);
      out_.rules[a.rule] = {proof.ok() ? std::string(rewrite::name((*proof)->kind)) : "none",
                            std::string(rewrite::name(rule->numeric))};
    }
  }

  Expected<void> test_applications(const std::vector<search::Step>& steps) {
    if (!options_.test_rewrites) return {};
    ISOMER_TRY(const FieldTests tests, test_over_field(out_.start, rules_, steps));
    out_.tested = tests.tested;
    out_.untested = tests.untested;
    out_.culprit = tests.culprit;
    return {};
  }

  Expected<Candidate> made(const std::vector<search::Step>& steps, const std::string& labels) const {
    return candidates_->make(steps, labels);
  }

  Expected<Candidate> compiled(const std::vector<search::Step>& steps, const std::string& labels) const {
    ISOMER_TRY(Candidate c, made(steps, labels));
    ISOMER_CHECK_OK(candidates_->compile(c));
    return c;
  }

  // The candidate with its best layouts and algorithms; nothing where those are the compiler's own.
  Expected<std::optional<Candidate>> labelled(const Candidate& from) {
    return candidates_->labelled(from, finder().label_options(1), out_.untried);
  }

  bool given() const { return options_.replay || out_.remembered; }

  // The input and what was found; with layouts, both also with their labels, those in front.
  Expected<std::vector<Candidate>> contenders() {
    std::vector<Candidate> all;
    if (!input_) {
      ISOMER_TRY(input_, compiled({}, ""));
    }
    Candidate input = *std::exchange(input_, std::nullopt);
    // What the input can do without is not asked of the candidates again; their results are checked as they are.
    const AccuracyFacts tried = input.executor->facts().native.accuracy;
    candidates_->accuracy = tried.given_up >= 0 ? Accuracy::Checked : Accuracy::Unchecked;
    all.push_back(std::move(input));
    if (given()) {
      if (out_.steps.empty() && out_.labels.empty()) return all;
      ISOMER_TRY(Candidate result, compiled(out_.steps, out_.labels));
      all.push_back(std::move(result));
      return all;
    }
    const auto add = [&](const std::vector<search::Step>& steps, Origin origin, bool confirmed) -> Expected<void> {
      if (steps.empty()) return {};
      ISOMER_TRY(Candidate c, compiled(steps, ""));
      c.origin = origin;
      c.confirmed = confirmed;
      if (options_.layout) {
        ISOMER_TRY(std::optional<Candidate> better, labelled(c));
        if (better) all.push_back(*std::move(better));
      }
      // The simplest form need not gain, and has its turn later.
      if (origin != Origin::Simplest) all.push_back(std::move(c));
      return {};
    };
    ISOMER_CHECK_OK(add(found_.foreseen.cheapest, Origin::Foreseen, options_.measure));
    for (const Findings::List& l : found_.lists) ISOMER_CHECK_OK(add(l.steps, Origin::Found, l.confirmed));
    if (!options_.layout || !searches()) return all;
    ISOMER_CHECK_OK(add(found_.foreseen.simplest, Origin::Simplest, false));
    ISOMER_TRY(std::optional<Candidate> same, labelled(all[0]));
    if (same) all.push_back(*std::move(same));
    return all;
  }

  // Algorithms that labels ask for may round more than is allowed where the compiler's own do not: then the labels are at
  // fault, and the same result without them counts. Whether they may stay; or there is a culprit.
  Expected<bool> labels_are_exact(Candidate& labelled, EndCheck& end) {
    ISOMER_CHECK_OK(check(labelled, end));
    if (!out_.culprit) return true;
    if (out_.culprit->application > 0) return false;
    out_.warnings.push_back(fmt::format(
        "layouts and algorithms that were found are left out: they round more than is allowed ({:.2g} of the "
        "largest magnitude)",
        out_.culprit->error));
    out_.culprit.reset();
    return false;
  }

  Expected<void> leave_out_inexact(std::vector<Candidate>& all, EndCheck& end) {
    if (given()) return {};
    for (size_t i = 1; i < all.size();) {
      bool stays = true;
      if (!all[i].labels.empty()) {
        ISOMER_TRY(stays, labels_are_exact(all[i], end));
      }
      if (out_.culprit) return {};
      if (stays)
        ++i;
      else
        all.erase(all.begin() + static_cast<ptrdiff_t>(i));
    }
    return {};
  }

  // Those that a race shows to be faster than the input and as fast as the best within noise; then those that timed kernels decided for,
  // which one race need not show, the fastest first.
  static std::vector<size_t> by_promise(const std::vector<Candidate>& all) {
    double best = all[0].fastest;
    for (const Candidate& c : all) best = std::min(best, c.fastest);
    const auto shown = [&](size_t i) { return all[i].fastest < all[0].fastest && all[i].fastest <= kNoise * best; };
    std::vector<size_t> out;
    for (size_t i = 1; i < all.size(); ++i)
      if (shown(i) || all[i].confirmed) out.push_back(i);
    const auto rest = std::stable_partition(out.begin(), out.end(), shown);
    std::stable_sort(rest, out.end(),
                     [&](size_t a, size_t b) { return middle(all[a].ratios) < middle(all[b].ratios); });
    return out;
  }

  // The first of those that stays faster than the input; 0 where none does.
  Expected<size_t> fastest_of(std::vector<Candidate>& all, const std::vector<Tensor>& inputs) {
    if (given()) return all.size() - 1;
    for (const size_t i : by_promise(all)) {
      ISOMER_TRY(const bool faster, candidates_->stays_faster(all[0], all[i], inputs));
      if (faster) return i;
    }
    return size_t{0};
  }

  std::string why_unchanged(const std::vector<Candidate>& all) const {
    if (all.size() > 1)
      return fmt::format(
          "the rewrites that were found do not make the model clearly faster when it is run ({:.3f} ms to {:.3f} ms)",
          1e3 * all[0].fastest, 1e3 * all.back().fastest);
    return given() || searches() ? "no rewrite makes the model faster" : "nothing was searched: the budget is zero";
  }

  // Runs and times the candidates against the input.
  Expected<void> choose(EndCheck& end) {
    const std::vector<Tensor>& inputs = end.sets()[0];
    ISOMER_TRY(std::vector<Candidate> all, contenders());
    ISOMER_CHECK_OK(leave_out_inexact(all, end));
    if (out_.culprit) return {};
    for (size_t i = 1; i < all.size(); ++i) {
      if (!given() && !all[i].labels.empty()) continue;  // was checked
      ISOMER_CHECK_OK(check(all[i], end));
      if (out_.culprit) return {};
    }
    ISOMER_CHECK_OK(candidates_->time(all, inputs));
    ISOMER_TRY(const size_t taken, fastest_of(all, inputs));
    // Of several lists one is taken, and its tests are what is reported.
    if (!given() && taken > 0) ISOMER_CHECK_OK(test_applications(all[taken].steps));
    if (out_.culprit) return {};
    ISOMER_TRY(std::optional<Candidate> simpler, simplified(all[taken], end));
    if (!simpler && !out_.culprit) ISOMER_CHECK_OK(check(all[taken], end));
    if (out_.culprit) return {};
    Candidate& result = simpler ? *simpler : all[taken];
    out_.changed = taken > 0 || simpler;
    if (!out_.changed) out_.why_not = why_unchanged(all);
    out_.before = candidates_->figures(all[0]);
    out_.after = candidates_->figures(result);
    const bool by_estimate = result.origin == Origin::Foreseen || result.origin == Origin::Simplest;
    for (const Findings::List& l : found_.lists) search::add_timed(out_.considered, l.steps, result.steps);
    std::erase_if(out_.considered, [&](const search::Considered& c) { return by_estimate && applies(result, c.rule); });
    take(std::move(result));
    return {};
  }

  // The simplest form in place of a candidate, unless whole runs are slower by that: it is the same in every search.
  Expected<std::optional<Candidate>> simplified(const Candidate& candidate, EndCheck& end) {
    std::optional<Candidate> none;
    if (found_.foreseen.simplest.empty() || candidate.origin == Origin::Simplest) return none;
    ISOMER_TRY(Candidate simpler, compiled(found_.foreseen.simplest, ""));
    simpler.origin = Origin::Simplest;
    // Labels have to gain, as they did here.
    if (!candidate.labels.empty()) {
      ISOMER_TRY(std::optional<Candidate> better, labelled(simpler));
      bool stays = better.has_value();
      if (stays) {
        ISOMER_TRY(stays, labels_are_exact(*better, end));
      }
      if (out_.culprit) return none;
      if (stays) simpler = *std::move(better);
    }
    ISOMER_TRY(const bool level, candidates_->is_level(candidate, simpler, end.sets()[0]));
    if (!level) return none;
    ISOMER_CHECK_OK(test_applications(found_.foreseen.simplest));
    if (!out_.culprit) ISOMER_CHECK_OK(check(simpler, end));
    if (out_.culprit) return none;
    return std::optional(std::move(simpler));
  }

  static bool applies(const Candidate& c, const std::string& rule) {
    const std::vector<search::Application> all = search::applications(c.steps);
    return std::any_of(all.begin(), all.end(), [&](const search::Application& a) { return a.rule == rule; });
  }

  void take(Candidate c) {
    out_.steps = std::move(c.steps);
    out_.labels = std::move(c.labels);
    out_.labelled =
        static_cast<size_t>(std::max<ptrdiff_t>(0, std::count(out_.labels.begin(), out_.labels.end(), '\n') - 1));
    out_.graph = std::move(c.graph);
  }

  Expected<void> check(Candidate& result, EndCheck& end) {
    ISOMER_TRY(EndCheck::Found found, end.check(result));
    out_.input_sets = end.sets().size();
    out_.errors = std::move(found.errors);
    out_.own_errors = std::move(found.own_errors);
    out_.culprit = std::move(found.culprit);
    return {};
  }

  const ir::Graph& original_;
  const OptimizeOptions& options_;
  rewrite::RuleLibrary library_;
  std::vector<const rewrite::Rule*> rules_;
  Quiet quiet_;
  std::shared_ptr<cost::Pricer> pricer_;
  std::optional<CandidateMaker> candidates_;  // of out_.start
  std::optional<Recollection> recollection_;
  std::optional<Candidate> input_;  // compiled, until candidates stand beside it
  Findings found_;
  Optimized out_;
  const Budget budget_;
  Budget looking_ = budget_.part(kSearchShare);  // until the input was compiled; what is left of it then
};

}  // namespace

Expected<Optimized> optimize(const ir::Graph& graph, const OptimizeOptions& options) {
  return Optimization(graph, options).run();
}

#else

Expected<Optimized> optimize(const ir::Graph&, const OptimizeOptions&) {
  return Diagnostic("E-no-compiler",
                    "this build of isomer has no code generator, by whose kernels rewrites are judged");
}

#endif
}  // namespace isomer::driver
