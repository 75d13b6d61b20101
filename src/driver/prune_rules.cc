#include "driver/prune_rules.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "base/thread_pool.h"
#include "ops/table.h"

namespace isomer::driver {
namespace {

using rewrite::Rule;

// One deriver a thread: each learns the habits of operators as it goes.
class Derivers {
 public:
  Derivers(const std::vector<Rule>& known, int threads) : pool_(threads) {
    all_.resize(static_cast<size_t>(pool_.size()));
    pool_.run(pool_.size(),
              [&](int t) { all_[static_cast<size_t>(t)] = std::make_unique<rewrite::Deriver>(known, ops::table()); });
  }
  void add(const Rule& rule) {
    pool_.run(pool_.size(), [&](int t) { all_[static_cast<size_t>(t)]->add(rule); });
  }
  bool derives(const Rule& rule) const { return all_[0]->derive(rule, kPruneLimits).has_value(); }
  std::vector<bool> derive(const std::vector<const Rule*>& rules, const std::function<void()>& each = nullptr) {
    std::vector<char> answers(rules.size());
    pool_.run(static_cast<int>(rules.size()), [&](int i) {
      const auto k = static_cast<size_t>(i);
      answers[k] = all_[k % all_.size()]->derive(*rules[k], kPruneLimits).has_value();
      if (each) each();
    });
    return {answers.begin(), answers.end()};
  }

 private:
  ThreadPool pool_;
  std::vector<std::unique_ptr<rewrite::Deriver>> all_;
};

std::string both_ways(const std::string& name) {
  constexpr std::string_view kBack = "-back";
  return name.ends_with(kBack) ? name.substr(0, name.size() - kBack.size()) : name;
}

}  // namespace

std::vector<Rule> not_derivable(const std::vector<Rule>& rules, const std::vector<Rule>& known, int threads,
                                const PruneReport& report) {
  Derivers derivers(known, threads);
  std::vector<const Rule*> all;
  for (const Rule& r : rules) all.push_back(&r);
  std::atomic<size_t> done{0};
  std::mutex mutex;
  const std::vector<bool> follows = derivers.derive(all, [&] {
    const size_t now = ++done;
    if (!report || now % 16 != 0) return;
    const std::lock_guard lock(mutex);
    report(now, all.size());
  });
  std::vector<Rule> out;
  for (size_t i = 0; i < rules.size(); ++i)
    if (!follows[i]) out.push_back(rules[i]);
  return out;
}

std::vector<Rule> independent(const std::vector<Rule>& rules, const std::vector<Rule>& known, int threads,
                              const PruneReport& report) {
  Derivers derivers(known, threads);
  // One of each pair, the smallest first.
  std::vector<const Rule*> order;
  std::set<std::string> seen;
  for (const Rule& r : rules)
    if (seen.insert(both_ways(r.name)).second) order.push_back(&r);
  std::stable_sort(order.begin(), order.end(), [](const Rule* a, const Rule* b) {
    const auto size = [](const Rule* r) { return r->lhs.calls.size() + r->rhs.calls.size(); };
    return size(a) < size(b);
  });
  // Batches of a fixed size, so that threads do not change what is kept.
  constexpr size_t kBatch = 32;
  std::set<std::string> kept;
  for (size_t begin = 0; begin < order.size(); begin += kBatch) {
    const std::vector<const Rule*> some(order.begin() + static_cast<ptrdiff_t>(begin),
                                        order.begin() + static_cast<ptrdiff_t>(std::min(begin + kBatch, order.size())));
    const std::vector<bool> follows = derivers.derive(some);
    bool grown = false;
    for (size_t i = 0; i < some.size(); ++i) {
      if (follows[i] || (grown && derivers.derives(*some[i]))) continue;
      kept.insert(both_ways(some[i]->name));
      derivers.add(*some[i]);
      grown = true;
    }
    if (report) report(std::min(begin + kBatch, order.size()), order.size());
  }
  std::vector<Rule> out;
  for (const Rule& r : rules)
    if (kept.contains(both_ways(r.name))) out.push_back(r);
  return out;
}

}  // namespace isomer::driver
