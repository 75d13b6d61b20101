#include "driver/optimize.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "driver/open_sizes.h"
#include "driver/rule_files.h"
#include "ops/table.h"
#include "passes/manager.h"
#include "rewrite/proof.h"

#ifdef ISOMER_HAS_COMPILER
#include "codegen/codegen.h"
#include "cost/pricer.h"
#include "driver/end_check.h"
#include "driver/graph_costs.h"
#include "driver/quick_look.h"
#include "driver/recollection.h"
#endif

namespace isomer::driver {
#ifdef ISOMER_HAS_COMPILER
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kNoise = 1.02;  // times within this of each other are the same: they do not choose
// Of the budget: until labels of the start are found, and for those of what the search finds.
constexpr double kLabelShare = 0.6, kFinalShare = 0.15;
constexpr double kQuickShare = 0.15;   // of the budget: for seeing whether rewrites promise much,
constexpr double kMuch = 0.1;          // which is so much of the model's time;
constexpr double kForesight = 0.3;     // of the budget: more than estimates alone take in most models
constexpr double kRewriteShare = 0.7;  // then they are looked for until so much of the budget is gone
constexpr int kMostSearchers = 4;      // threads: more would wait for those that time

class Optimization {
 public:
  Optimization(const ir::Graph& graph, const OptimizeOptions& options) : original_(graph), options_(options) {}

  Expected<Optimized> run() {
    ISOMER_CHECK_OK(prepare());
    begin_ = Clock::now();
    ISOMER_TRY(out_.assumed, open_sizes(original_, options_.assumed, options_.inputs));
    ISOMER_TRY(out_.start, passes::run_pipeline(original_, ops::table(), "inference"));
    candidates_.emplace(out_.start, rules_, out_.assumed, *pricer_);
    recollection_.emplace(original_, options_, *pricer_);
    ISOMER_CHECK_OK(recollection_->ask(out_, rules_));
    out_.remembered = recollection_->recall(out_, rules_);
    if (!out_.remembered) ISOMER_CHECK_OK(search());
    ISOMER_CHECK_OK(test_applications(out_.steps));
    if (out_.culprit) return std::move(out_);
    ISOMER_TRY(EndCheck end, EndCheck::make(original_, out_.start, rules_, out_.assumed, options_));
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

  // Of the budget: until so much of it is gone.
  double left(double share) const {
    return std::max(0.0,
                    share * options_.search.seconds - std::chrono::duration<double>(Clock::now() - begin_).count());
  }
  cost::LabelOptions label_options(double share) const { return {left(share), options_.search.stop, true, true}; }

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

  static int cores() { return static_cast<int>(std::max(1U, std::thread::hardware_concurrency())); }
  // Threads that search, one of them timing kernels at a time: they must not take a core from those, or stop meanwhile.
  int searchers(bool timing) const {
    const cost::PricerOptions& pricing = pricer_->options();
    return std::min(timing && !pricing.quiet ? cores() - pricing.threads + 1 : cores(), kMostSearchers);
  }

  QuickLook quick_look(double share) const {
    search::Options limits = options_.search;
    limits.seconds = left(share);
    limits.threads = searchers(false);
    return {out_.start, rules_, out_.assumed, limits};
  }

  Expected<void> search() {
    if (options_.replay) {
      out_.steps = *options_.replay;
      out_.labels = options_.replay_labels;
    }
    if (!searches()) return {};
    if (!options_.layout) {
      ISOMER_TRY(foreseen_, foresee(quick_look(kForesight), pricer_->options()));
    }
    search::Options how = options_.search;
    how.threads = searchers(options_.measure);
    how.quiet = pricer_->options().quiet;
    // Where rewrites promise much they are looked for first, and what they lead to is labelled. Else the start has its
    // labels first: most kernels of what the search looks at are known then, and where it finds nothing the labels are there.
    const bool jointly = options_.layout && !promises(kMuch, quick_look(kQuickShare), *pricer_);
    if (jointly) {
      ISOMER_TRY(const ir::Graph sized, with_sizes(out_.start, out_.assumed));
      const auto ignored = pricer_->label(sized, cost::Pricer::Extent::Model, label_options(kLabelShare));
    }
    how.seconds = left(!options_.layout ? 1 : jointly ? 1 - kFinalShare : kRewriteShare);
    const search::Cost labelled = [this](const ir::Graph& g) -> Expected<double> {
      ISOMER_TRY(const ir::Graph sized, with_sizes(g, out_.assumed));
      cost::LabelOptions some = label_options(1 - kFinalShare);
      some.cuts = false;
      ISOMER_TRY(const cost::Labelling l, pricer_->label(sized, cost::Pricer::Extent::Piece, some));
      return l.seconds;
    };
    const search::Cost price = jointly ? labelled : price_by(*pricer_, out_.assumed);
    confirmed_ = options_.measure && !jointly;
    if (confirmed_) how.compare = comparison_by(*pricer_, out_.assumed);
    ISOMER_TRY(search::Outcome outcome,
               search::optimise(out_.start, ops::table(), rules_, price, estimate_by(*pricer_, out_.assumed), how));
    out_.steps = std::move(outcome.steps);
    out_.statistics = outcome.statistics;
    out_.considered = std::move(outcome.considered);
    return compare_with_foresight();
  }

  // What was foreseen and found by timed kernels too counts as found, by the steps that are the same every time.
  Expected<void> compare_with_foresight() {
    if (foreseen_.cheapest.empty()) return {};
    ISOMER_TRY(const Candidate foreseen, made(foreseen_.cheapest, ""));
    ISOMER_TRY(const Candidate found, made(out_.steps, ""));
    ISOMER_TRY(const Candidate simplest, made(foreseen_.simplest, ""));
    const auto graph = foreseen.graph.content_hash();
    if (found.graph.content_hash() == graph) out_.steps = std::exchange(foreseen_.cheapest, {});
    if (simplest.graph.content_hash() == graph) foreseen_.cheapest.clear();
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
    return candidates_->labelled(from, label_options(1), out_.untried);
  }

  bool given() const { return options_.replay || out_.remembered; }

  // The input and what was found; with layouts, both also with their labels, those in front.
  Expected<std::vector<Candidate>> contenders() {
    std::vector<Candidate> all;
    ISOMER_TRY(Candidate input, compiled({}, ""));
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
    const auto add = [&](Candidate c) -> Expected<void> {
      std::optional<Candidate> better;
      if (options_.layout) {
        ISOMER_TRY(better, labelled(c));
      }
      if (better) all.push_back(*std::move(better));
      all.push_back(std::move(c));
      return {};
    };
    if (!foreseen_.cheapest.empty()) {
      ISOMER_TRY(Candidate foreseen, compiled(foreseen_.cheapest, ""));
      foreseen.foreseen = true;
      all.push_back(std::move(foreseen));
    }
    if (!out_.steps.empty()) {
      ISOMER_TRY(Candidate result, compiled(out_.steps, ""));
      ISOMER_CHECK_OK(add(std::move(result)));
    }
    if (!options_.layout || !searches()) return all;
    ISOMER_TRY(std::optional<Candidate> same, labelled(all[0]));
    if (same) all.push_back(*std::move(same));
    return all;
  }

  // Algorithms that labels ask for may round more than is allowed where the compiler's own do not: then the labels are at
  // fault, and the same result without them is among the others.
  Expected<void> leave_out_inexact(std::vector<Candidate>& all, EndCheck& end) {
    if (given()) return {};
    for (size_t i = 1; i < all.size();) {
      if (!all[i].labels.empty()) ISOMER_CHECK_OK(check(all[i], end));
      if (!out_.culprit) {
        ++i;
        continue;
      }
      if (out_.culprit->application > 0) return {};
      out_.warnings.push_back(fmt::format(
          "layouts and algorithms that were found are left out: they round more than is allowed ({:.2g} of the "
          "largest magnitude)",
          out_.culprit->error));
      out_.culprit.reset();
      all.erase(all.begin() + static_cast<ptrdiff_t>(i));
    }
    return {};
  }

  // Of those that are faster than the input, the first that is as fast as the best within noise and stays so; 0 where none does.
  Expected<size_t> fastest_of(std::vector<Candidate>& all, const std::vector<Tensor>& inputs) const {
    if (given()) return all.size() - 1;
    double best = all[0].fastest;
    for (const Candidate& c : all) best = std::min(best, c.fastest);
    for (size_t i = 1; i < all.size(); ++i) {
      // What the search found by kernels alone is a candidate even where one race does not show it.
      const bool confirmed = confirmed_ && all[i].labels.empty() && !all[i].foreseen;
      if (!(all[i].fastest < all[0].fastest && all[i].fastest <= kNoise * best) && !confirmed) continue;
      ISOMER_TRY(const bool faster,
                 candidates_->stays_faster(all[0], all[i], inputs, options_.timing_seconds, confirmed));
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
    ISOMER_CHECK_OK(candidates_->time(all, inputs, options_.timing_seconds));
    ISOMER_TRY(const size_t taken, fastest_of(all, inputs));
    if (all[taken].foreseen) ISOMER_CHECK_OK(test_applications(all[taken].steps));
    if (out_.culprit) return {};
    out_.before = candidates_->figures(all[0]);
    ISOMER_TRY(const bool simplified, simplify(all[taken], end));
    if (!simplified && !out_.culprit) ISOMER_CHECK_OK(check(all[taken], end));
    if (out_.culprit) return {};
    out_.changed = taken > 0 || simplified;
    if (!out_.changed) out_.why_not = why_unchanged(all);
    out_.after = candidates_->figures(all[taken]);
    const bool by_estimate = simplified || all[taken].foreseen;
    if (!given()) search::add_timed(out_.considered, out_.steps, all[taken].steps);
    std::erase_if(out_.considered,
                  [&](const search::Considered& c) { return by_estimate && applies(all[taken], c.rule); });
    take(std::move(all[taken]));
    return {};
  }

  // Takes the simplest form in place of a candidate, unless whole runs are slower by that: it is the same in every search. Whether it did.
  Expected<bool> simplify(Candidate& candidate, EndCheck& end) {
    if (foreseen_.simplest.empty() || !candidate.labels.empty()) return false;
    ISOMER_TRY(Candidate simpler, compiled(foreseen_.simplest, ""));
    ISOMER_TRY(const bool level, candidates_->is_level(candidate, simpler, end.sets()[0], options_.timing_seconds));
    if (!level) return false;
    ISOMER_CHECK_OK(test_applications(foreseen_.simplest));
    if (!out_.culprit) ISOMER_CHECK_OK(check(simpler, end));
    if (!out_.culprit) candidate = std::move(simpler);
    return !out_.culprit;
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
  Foreseen foreseen_;
  bool confirmed_ = false;  // what the search found was faster by a second look at its kernels
  Optimized out_;
  Clock::time_point begin_;
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
