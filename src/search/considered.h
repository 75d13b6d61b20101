// Considered: what a search looked at and left, and why: for each rule that fits somewhere, the best that it led to.
// Invariant: it says what the search itself priced, so that the same prices give the same list; its length is bounded by
// the number of rules.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace isomer::search {

enum class WhyNot : uint8_t {
  Slower,    // priced: the region takes longer
  Same,      // priced: the compiler makes the same kernels
  Small,     // priced faster, by less than timings can tell
  Unsure,    // priced faster by pieces, and not as a whole or when its kernels were timed once more
  Outdone,   // another rewrite of the region gains more
  Doubtful,  // estimated so much slower that it was not priced
  Crowded,   // estimated: others were more promising, and those were priced
  NoTime,    // a limit was reached before it was priced
  NoPrice,   // the compiler cannot take what it leads to
  Timed,     // cheaper by its prices, not faster in whole runs
};
std::string_view name(WhyNot why);
std::optional<WhyNot> why_not_of(std::string_view name);

// The best graph of a region that a rule led to.
struct LeftCase {
  WhyNot why = WhyNot::NoTime;
  size_t regions = 1;              // equal ones
  double before = 0, best = 0;     // price of the region without the rule, and at best with it; 0: not priced
  double change = 0;               // of the time, as a share of it; by estimates where there is no price
  std::vector<std::string> with;   // other rules on the way there
  std::vector<std::string> nodes;  // that the rule was applied to, by name
};

struct Considered {
  std::string rule;
  size_t places = 0, regions = 0;  // where it fits and was not taken
  std::vector<LeftCase> best;      // priced ones first, the cheapest first
};

// Adds a case to those of its rule; the same case of an equal region is counted. Rules stand in the order they came.
void add(std::vector<Considered>& all, const std::string& rule, size_t places, const LeftCase& left);
// The best few of each rule, and rules by their best.
void settle(std::vector<Considered>& all);

// A step on the way to a graph.
struct Stop {
  std::string rule;
  std::vector<std::string> nodes;
};
using Trail = std::vector<Stop>;

// What came of the graphs of one region, rule by rule.
class Ledger {
 public:
  void estimated(const Trail& trail, double before, double after, bool doubtful);
  void unpriced(const Trail& trail, WhyNot why) { note(trail, {Known::Nothing, why, 0}); }
  void priced(const Trail& trail, double cost) { note(trail, {Known::Price, WhyNot::Slower, cost}); }
  // As a whole, which counts for more than sums of differences.
  void priced_whole(const Trail& trail, double cost) { note(trail, {Known::Whole, WhyNot::Slower, cost}); }

  // Priced as a whole before, and not clearly better, or not when looked at again.
  void unclear(const Trail& trail, WhyNot why);
  bool knows(const std::string& rule) const { return best_.count(rule) > 0; }

  // The rules that are not on the trail that was taken.
  std::vector<std::pair<std::string, LeftCase>> left(double before, const Trail& taken) const;

 private:
  enum class Known : uint8_t { Nothing, Estimate, Price, Whole };
  struct Entry {
    Known known = Known::Nothing;
    WhyNot why = WhyNot::NoTime;
    double value = 0;  // a price, or the ratio of two estimates
    std::optional<WhyNot> unclear = {};
    Trail trail = {};
  };
  void note(const Trail& trail, Entry entry);
  std::map<std::string, Entry> best_;
};

}  // namespace isomer::search
