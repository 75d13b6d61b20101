#include "search/considered.h"

#include <gtest/gtest.h>

#include "search/search.h"

namespace isomer::search {
namespace {

const Trail kMerge = {{"merge", {"a", "b"}}};
const Trail kBoth = {{"enlarge", {"a"}}, {"merge", {"", "b"}}};

const LeftCase* find(const std::vector<std::pair<std::string, LeftCase>>& all, const std::string& rule) {
  for (const auto& [name, c] : all)
    if (name == rule) return &c;
  return nullptr;
}

TEST(Considered, EveryReasonHasANameThatLeadsBack) {
  for (int k = 0; k <= static_cast<int>(WhyNot::Timed); ++k) {
    const auto why = static_cast<WhyNot>(k);
    EXPECT_FALSE(name(why).empty());
    EXPECT_EQ(why_not_of(name(why)), why);
  }
  EXPECT_FALSE(why_not_of("other").has_value());
}

TEST(Considered, ThePriceSaysWhyNot) {
  const auto why = [](double price, const Trail& taken) {
    Ledger ledger;
    ledger.estimated(kMerge, 1, 5, true);
    ledger.priced(kMerge, price);
    return ledger.left(10, taken).at(0).second.why;
  };
  const Trail other = {{"other", {}}};
  EXPECT_EQ(why(12, other), WhyNot::Slower);
  EXPECT_EQ(why(10, other), WhyNot::Same);
  EXPECT_EQ(why(9, other), WhyNot::Outdone);
  EXPECT_EQ(why(9, {}), WhyNot::Small);
}

TEST(Considered, TheBestOfARuleCountsAndPricesBeforeEstimates) {
  Ledger ledger;
  ledger.estimated(kMerge, 10, 11, false);
  ledger.priced(kMerge, 13);
  ledger.priced(kBoth, 12);
  ledger.estimated(kMerge, 10, 5, false);
  const auto left = ledger.left(10, {});
  const LeftCase* merge = find(left, "merge");
  ASSERT_NE(merge, nullptr);
  EXPECT_DOUBLE_EQ(merge->best, 12);
  EXPECT_NEAR(merge->change, 0.2, 1e-12);
  EXPECT_EQ(merge->with, std::vector<std::string>{"enlarge"});
  EXPECT_EQ(merge->nodes, (std::vector<std::string>{"", "b"}));
  EXPECT_TRUE(ledger.left(10, kBoth).empty());
  EXPECT_EQ(ledger.left(10, kMerge).size(), 1U);
}

TEST(Considered, AWholePriceCountsForMoreThanASum) {
  Ledger ledger;
  ledger.priced(kMerge, 8);
  ledger.priced_whole(kMerge, 11);
  EXPECT_EQ(ledger.left(10, {}).at(0).second.why, WhyNot::Slower);
}

TEST(Considered, AGainThatWasNotFoundAgainIsSaidSo) {
  Ledger ledger;
  ledger.priced_whole(kMerge, 8);
  EXPECT_EQ(ledger.left(10, {{"other", {}}}).at(0).second.why, WhyNot::Outdone);
  ledger.unclear(kMerge, WhyNot::Unsure);
  EXPECT_EQ(ledger.left(10, {}).at(0).second.why, WhyNot::Unsure);
  EXPECT_EQ(ledger.left(10, {{"other", {}}}).at(0).second.why, WhyNot::Unsure);
}

TEST(Considered, NoTimeIsSaidWithTheEstimateThatThereIs) {
  Ledger ledger;
  ledger.estimated(kMerge, 10, 9, false);
  ledger.unpriced(kMerge, WhyNot::NoTime);
  const LeftCase left = ledger.left(10, {}).at(0).second;
  EXPECT_EQ(left.why, WhyNot::NoTime);
  EXPECT_NEAR(left.change, -0.1, 1e-12);
  EXPECT_EQ(left.best, 0);
}

TEST(Considered, EqualRegionsAreCountedAndListsAreBounded) {
  std::vector<Considered> all;
  for (int k = 0; k < 10; ++k) {
    LeftCase c;
    c.why = WhyNot::Slower;
    c.before = 10;
    c.best = 20 - k;
    c.change = c.best / c.before - 1;
    add(all, "one", 2, c);
    add(all, "one", 2, c);
  }
  LeftCase late;
  add(all, "none", 1, late);
  LeftCase good;
  good.why = WhyNot::Same;
  good.before = good.best = 3;
  add(all, "two", 1, good);
  settle(all);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].rule, "two");
  EXPECT_EQ(all[1].rule, "one");
  EXPECT_EQ(all[1].places, 40U);
  EXPECT_EQ(all[1].regions, 20U);
  ASSERT_EQ(all[1].best.size(), 3U);
  EXPECT_EQ(all[1].best[0].best, 11);
  EXPECT_EQ(all[1].best[0].regions, 2U);
  EXPECT_EQ(all[2].rule, "none");
}

// Regions of which nothing is kept are told apart from those that are.
TEST(Considered, StepsThatTheTimingThrewAwayAreListed) {
  const auto step = [](const char* rule, double before, double after, size_t region) {
    Step s;
    s.applications = {Application{rule, {}, {}, {"x"}, {}}, Application{"tidy", {}, {}, {""}, {}},
                      Application{rule, {}, {}, {"y"}, {}}};
    s.before = before;
    s.after = after;
    s.region = region;
    return s;
  };
  const std::vector<Step> found = {step("enlarge", 10, 10.2, 1), step("merge", 10.2, 8, 1), step("merge", 5, 4, 2)};
  std::vector<Considered> all;
  add_timed(all, found, {found[2]});
  ASSERT_EQ(all.size(), 2U);
  for (const Considered& c : all) {
    EXPECT_EQ(c.places, 2U);
    ASSERT_EQ(c.best.size(), 1U);
    EXPECT_EQ(c.best[0].why, WhyNot::Timed);
    EXPECT_EQ(c.best[0].before, 10);
    EXPECT_EQ(c.best[0].best, 8);
    EXPECT_EQ(c.best[0].with.size(), 1U);
    EXPECT_EQ(c.best[0].nodes, std::vector<std::string>{"x"});
  }
}

}  // namespace
}  // namespace isomer::search
