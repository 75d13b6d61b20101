#include "propose/generate.h"

#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <set>
#include <unordered_set>

#include "base/quote.h"
#include "propose/generalise.h"

namespace isomer::propose {
namespace {

// Pairs that are tested at once against the candidates kept so far; fixed, so that threads do not change the result.
constexpr size_t kBatch = 2048;

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

class FamilyRun {
 public:
  FamilyRun(const OperatorSet& set, const Family& family, const GenerateOptions& options, const ir::OpTable& table,
            ThreadPool& pool, const std::function<void(const GenerateProgress&)>& progress)
      : set_(set),
        family_(family),
        options_(options),
        table_(table),
        pool_(pool),
        progress_(progress),
        enumerator_(family, table, {std::min(options.size, family.max_operators), options.seed, 2}, pool),
        pruner_(enumerator_.kernels(), enumerator_.commutative()),
        trials_(table) {
    for (const InputClass& c : family.inputs) shapes_.insert(shapes_.end(), c.count, c.shape);
  }

  void run(Generated& out) {
    const auto start = std::chrono::steady_clock::now();
    counts_.family = family_.name;
    double cpu = cpu_seconds();
    const auto lap = [&] { return cpu_seconds() - std::exchange(cpu, cpu_seconds()); };
    for (const auto& dims : shapes_) shape_ids_.push_back(enumerator_.kernels().shape(dims));
    enumerator_.run({.pair = [&](const Sketch& g, const Sketch& r) { pair(g, r); },
                     .level_done = [&](int) { flush(); },
                     .reducible = [&](const Sketch& s) { return pruner_.reducible(s, shape_ids_); },
                     .progress =
                         [&](int level, const LevelCounts& c, size_t bytes, double done) {
                           counts_.bytes = std::max(counts_.bytes, bytes);
                           tell("enumerate", level, done, c.graphs);
                         }});
    counts_.enumerate_cpu = lap();
    counts_.levels = enumerator_.counts();
    for (const LevelCounts& l : counts_.levels) {
      counts_.graphs += l.graphs;
      counts_.minimal += l.minimal;
      counts_.classes += l.classes;
      counts_.pairs += l.pairs;
    }
    counts_.general = pruner_.kept().size();
    const std::vector<Candidate> left = independent();
    counts_.derived = left.size();
    counts_.prune_cpu = lap();
    write(left, out);
    counts_.generalise_cpu = lap();
    counts_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    out.families.push_back(counts_);
  }

 private:
  void tell(const char* stage, int level, double done, uint64_t count) {
    if (progress_) progress_({family_.name, stage, level, done, count});
  }

  void pair(const Sketch& graph, const Sketch& representative) {
    waiting_.emplace_back(graph, representative);
    if (waiting_.size() == kBatch) flush();
  }

  void flush() {
    struct Outcome {
      std::optional<Candidate> named, unshared;
      std::string named_text, unshared_text;
      bool derivable = false;
    };
    std::vector<Outcome> outcomes(waiting_.size());
    constexpr size_t kTask = 64;
    pool_.run(static_cast<int>((waiting_.size() + kTask - 1) / kTask), [&](int t) {
      const size_t first = static_cast<size_t>(t) * kTask;
      for (size_t i = first; i < std::min(first + kTask, waiting_.size()); ++i) {
        Outcome& o = outcomes[i];
        o.named = pruner_.normalise(waiting_[i].first, waiting_[i].second, shapes_);
        if (!o.named) continue;
        o.named_text = o.named->encode();
        o.unshared = pruner_.without_shared(*o.named);
        if (!o.unshared) continue;
        o.unshared_text = o.unshared->encode();
        if (!seen_.contains(hash_of(o.unshared_text))) o.derivable = pruner_.derivable(*o.unshared);
      }
    });
    for (Outcome& o : outcomes) {
      if (!o.named || !named_.insert(hash_of(o.named_text)).second) continue;
      ++counts_.renamed;
      if (!o.unshared || !seen_.insert(hash_of(o.unshared_text)).second) continue;
      ++counts_.unshared;
      if (o.derivable || pruner_.derivable(*o.unshared)) continue;
      pruner_.keep(*o.unshared);
    }
    waiting_.clear();
  }
  static Hash128 hash_of(const std::string& s) { return hash_bytes(s.data(), s.size()); }

  // Candidates that do not follow from all the others: special ones that came before the general one go here.
  std::vector<Candidate> independent() {
    const std::vector<Candidate>& all = pruner_.kept();
    std::vector<size_t> order(all.size());
    for (size_t i = 0; i < all.size(); ++i) order[i] = i;
    // The most special first: few inputs, many steps.
    std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) {
      const Candidate &a = all[x], &b = all[y];
      const auto steps = [](const Candidate& c) { return c.left.count + c.right.count; };
      return a.inputs.size() != b.inputs.size() ? a.inputs.size() < b.inputs.size() : steps(a) > steps(b);
    });
    std::vector<bool> gone(all.size(), false);
    for (size_t i = 0; i < order.size(); ++i) {
      pruner_.drop(order[i]);
      gone[order[i]] = pruner_.derivable(all[order[i]]);
      if (!gone[order[i]]) pruner_.drop(order[i], false);
      if (i % 16 == 0) tell("prune", 0, static_cast<double>(i) / static_cast<double>(all.size()), i);
    }
    std::vector<Candidate> left;
    for (size_t i = 0; i < all.size(); ++i)
      if (!gone[i]) left.push_back(all[i]);
    return left;
  }

  void write(const std::vector<Candidate>& left, Generated& out) {
    std::vector<std::optional<RuleDraft>> drafts(left.size());
    pool_.run(static_cast<int>(left.size()), [&](int i) {
      const auto k = static_cast<size_t>(i);
      drafts[k] = generalise(left[k], family_, trials_, mix(options_.seed, k + 1));
      if (i % pool_.size() == 0) tell("generalise", 0, static_cast<double>(i) / static_cast<double>(left.size()), k);
    });
    std::set<std::string> texts;
    size_t number = 0;
    for (const auto& draft : drafts) {
      if (!draft) continue;
      ++counts_.separated;
      if (!texts.insert(draft->text).second) continue;
      counts_.conditional += !draft->conditions.empty();
      ++number;
      std::string where;
      for (const std::string& c : draft->conditions) where += (where.empty() ? "  where " : ", ") + c;
      const char* kind = draft->exact ? "exact" : "reassociating";
      const std::string name = fmt::format("{}-{}-{:03}", set_.name, family_.name, number);
      add(fmt::format("rule {} : {}\n{}{}\n", name, kind, draft->text, where), out);
      if (!draft->back.empty() && texts.insert(draft->back).second)
        add(fmt::format("rule {}-back : {}\n{}{}\n", name, kind, draft->back, where), out);
    }
  }

  void add(const std::string& text, Generated& out) {
    auto rules = rewrite::parse_rules(text, table_, "", set_.name + "-" + family_.name);
    if (rules.ok() && rules->size() == 1)
      out.rules.push_back(std::move(rules->front()));
    else
      out.refused.push_back(rules.error().to_string() + "\n" + text);
  }

  const OperatorSet& set_;
  const Family& family_;
  const GenerateOptions& options_;
  const ir::OpTable& table_;
  ThreadPool& pool_;
  const std::function<void(const GenerateProgress&)>& progress_;
  Enumerator enumerator_;
  Pruner pruner_;
  TrialKernels trials_;
  std::vector<std::vector<Dim>> shapes_;
  Pruner::ShapeIds shape_ids_;
  std::vector<std::pair<Sketch, Sketch>> waiting_;
  std::unordered_set<Hash128> named_, seen_;
  FamilyCounts counts_;
};

}  // namespace

Expected<Generated> generate(const GenerateOptions& options, const ir::OpTable& table,
                             const std::function<void(const GenerateProgress&)>& progress) {
  if (options.size < 1 || options.size > static_cast<int>(kMaxSteps) - 1)
    return Diagnostic("E-usage", fmt::format("expected a size from 1 to {}, found {}", kMaxSteps - 1, options.size));
  ISOMER_TRY(const OperatorSet set, operator_set(options.set));
  ThreadPool pool(options.threads);
  Generated out;
  for (const Family& f : set.families)
    if (options.family.empty() || options.family == f.name) FamilyRun(set, f, options, table, pool, progress).run(out);
  if (out.families.empty()) {
    std::string names;
    for (const Family& f : set.families) names += (names.empty() ? "" : ", ") + f.name;
    return Diagnostic(
        "E-usage", fmt::format("set {} has no family {}; it has: {}", set.name, isomer::quoted(options.family), names));
  }
  return out;
}

}  // namespace isomer::propose
