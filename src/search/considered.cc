#include "search/considered.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include "search/search.h"

namespace isomer::search {
namespace {

constexpr size_t kCases = 3;     // of a rule
constexpr double kEqual = 1e-6;  // prices that differ by less are sums of the same kernels

constexpr std::array<std::pair<WhyNot, std::string_view>, 10> kNames = {{{WhyNot::Slower, "slower"},
                                                                         {WhyNot::Same, "same"},
                                                                         {WhyNot::Small, "small-gain"},
                                                                         {WhyNot::Unsure, "not-confirmed"},
                                                                         {WhyNot::Outdone, "outdone"},
                                                                         {WhyNot::Doubtful, "estimated-slower"},
                                                                         {WhyNot::Crowded, "not-among-the-best"},
                                                                         {WhyNot::NoTime, "no-time"},
                                                                         {WhyNot::NoPrice, "no-price"},
                                                                         {WhyNot::Timed, "timed-slower"}}};

// Prices before estimates before nothing.
int rank(const LeftCase& c) {
  if (c.before > 0 && c.best > 0) return 0;
  return c.why == WhyNot::Doubtful || c.why == WhyNot::Crowded ? 1 : 2;
}

bool better(const LeftCase& a, const LeftCase& b) {
  return std::make_tuple(rank(a), a.change) < std::make_tuple(rank(b), b.change);
}

bool same(const LeftCase& a, const LeftCase& b) {
  return std::tie(a.why, a.before, a.best, a.change, a.with) == std::tie(b.why, b.before, b.best, b.change, b.with);
}

}  // namespace

std::string_view name(WhyNot why) {
  for (const auto& [w, n] : kNames)
    if (w == why) return n;
  return "";
}

std::optional<WhyNot> why_not_of(std::string_view name) {
  for (const auto& [w, n] : kNames)
    if (n == name) return w;
  return std::nullopt;
}

void add(std::vector<Considered>& all, const std::string& rule, size_t places, const LeftCase& left) {
  auto it = std::find_if(all.begin(), all.end(), [&](const Considered& c) { return c.rule == rule; });
  if (it == all.end()) it = all.insert(all.end(), Considered{rule, 0, 0, {}});
  it->places += places;
  it->regions += left.regions;
  const auto known = std::find_if(it->best.begin(), it->best.end(), [&](const LeftCase& c) { return same(c, left); });
  if (known != it->best.end())
    known->regions += left.regions;
  else
    it->best.push_back(left);
}

void settle(std::vector<Considered>& all) {
  for (Considered& c : all) {
    std::stable_sort(c.best.begin(), c.best.end(), better);
    if (c.best.size() > kCases) c.best.resize(kCases);
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Considered& a, const Considered& b) { return better(a.best[0], b.best[0]); });
}

void add_timed(std::vector<Considered>& all, const std::vector<Step>& found, const std::vector<Step>& kept) {
  std::set<size_t> of;
  for (const Step& s : kept) of.insert(s.region);
  std::map<size_t, std::vector<const Step*>> regions;
  for (const Step& s : found)
    if (!of.contains(s.region)) regions[s.region].push_back(&s);
  for (const auto& [region, steps] : regions) {
    LeftCase left;
    left.why = WhyNot::Timed;
    left.before = steps.front()->before;
    left.best = steps.back()->after;
    left.change = left.before > 0 ? left.best / left.before - 1 : 0;
    // A step's own rule comes first; what tidies up behind it has no say.
    std::map<std::string, std::pair<size_t, std::vector<std::string>>> rules;  // places, nodes of the first
    for (const Step* s : steps) {
      const Application& first = s->applications.front();
      auto& [places, nodes] = rules[first.rule];
      if (places == 0) nodes = first.names;
      for (const Application& a : s->applications) places += a.rule == first.rule ? 1 : 0;
    }
    for (const auto& [rule, use] : rules) {
      left.nodes = use.second;
      left.with.clear();
      for (const auto& [other, ignored] : rules)
        if (other != rule) left.with.push_back(other);
      add(all, rule, use.first, left);
    }
  }
  settle(all);
}

void Ledger::note(const Trail& trail, Entry entry) {
  entry.trail = trail;
  for (const Stop& stop : trail) {
    const auto [it, fresh] = best_.try_emplace(stop.rule, entry);
    if (fresh) continue;
    Entry& had = it->second;
    if (entry.why == WhyNot::NoTime && had.known == Known::Estimate) had.why = entry.why;
    if (entry.known > had.known || (entry.known == had.known && entry.value < had.value)) had = entry;
  }
}

void Ledger::unclear(const Trail& trail, WhyNot why) {
  for (const Stop& stop : trail)
    if (const auto it = best_.find(stop.rule); it != best_.end()) it->second.unclear = why;
}

void Ledger::estimated(const Trail& trail, double before, double after, bool doubtful) {
  if (before > 0) note(trail, {Known::Estimate, doubtful ? WhyNot::Doubtful : WhyNot::Crowded, after / before});
}

std::vector<std::pair<std::string, LeftCase>> Ledger::left(double before, const Trail& taken) const {
  std::vector<std::pair<std::string, LeftCase>> out;
  for (const auto& [rule, entry] : best_) {
    const auto is = [&](const Stop& s) { return s.rule == rule; };
    if (std::any_of(taken.begin(), taken.end(), is)) continue;
    LeftCase c;
    c.why = entry.why;
    c.before = before;
    if (entry.known == Known::Estimate) c.change = entry.value - 1;
    if (entry.known >= Known::Price && before > 0) {
      c.best = entry.value;
      c.change = entry.value / before - 1;
      if (std::abs(c.change) < kEqual)
        c.why = WhyNot::Same;
      else if (c.change < 0)
        c.why = entry.unclear.value_or(taken.empty() ? WhyNot::Small : WhyNot::Outdone);
    }
    for (const Stop& s : entry.trail) {
      if (s.rule == rule)
        c.nodes = c.nodes.empty() ? s.nodes : c.nodes;
      else if (std::find(c.with.begin(), c.with.end(), s.rule) == c.with.end())
        c.with.push_back(s.rule);
    }
    out.emplace_back(rule, std::move(c));
  }
  return out;
}

}  // namespace isomer::search
