// The tables of a graph's label space: for every factor under every choice of labels the ways to compute it, with their times.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compile/label_space.h"
#include "cost/kernel_times.h"

namespace isomer::cost {

constexpr double kLuck = 1.02;       // what a label must promise: the least of many timings is the luckiest
constexpr double kForbidden = 1e9;   // seconds of what was not looked at
constexpr double kContender = 1.05;  // times the best so far: what is slower than that in one go is not measured

// One factor under one choice of labels.
struct Way {
  compile::Method method;
  compile::Algorithm scheme = compile::Algorithm::Standard;
  std::vector<Item> items;
  std::shared_ptr<const compile::KernelCache::Entry> kernels;  // keeps the items' functions
  double estimate = 0;
  bool timed = true;
  bool tiles = false;  // tile registers
};

class LabelTable {
 protected:
  // `rough`: times of one go are enough where they leave no doubt.
  LabelTable(KernelTimes& times, const compile::LabelSpace& space, bool rough)
      : times_(times), space_(space), rough_(rough) {}

  struct Choice {
    std::vector<Way> ways;  // what the compiler does by itself first
    bool looked_at = true;
  };
  // Ways of a factor that are to be added to those that it has.
  struct Fresh {
    size_t factor = 0, choice = 0;
    std::vector<Way> ways;
  };

  Way way_of(const compile::LabelSpace::Work& work);
  // What the compiler does by itself.
  const Way* own(size_t f) const { return ways_[f][0].ways.empty() ? nullptr : &ways_[f][0].ways[0]; }
  std::string group(size_t f) const;  // the same for factors with the same kernels
  bool is_known(const Way& w);        // whether its kernels were timed
  double seconds_of(const Way& w) const;
  double price_of(size_t f, const Way& w) const;
  double best_so_far(size_t f, size_t c) const;
  // The cheapest way under a choice; none costs nothing.
  std::pair<size_t, double> best_way(size_t f, size_t c) const;
  const compile::Method& best_method(size_t f) const { return ways_[f][0].ways[best_way(f, 0).first].method; }
  std::vector<size_t> ranked(size_t f) const;              // the ways of a factor, the cheapest first
  std::vector<compile::Method> models_of(size_t f) const;  // the best ways of a factor that come near each other
  // Those of the methods that a factor does not have yet.
  Fresh fresh_ways(size_t f, const std::vector<compile::Method>& methods);
  // Of ways that are estimated to be good those are tried that nobody timed, and those that turn out so are measured.
  void add(std::vector<Fresh> all, double hopeless);

  KernelTimes& times_;
  const compile::LabelSpace& space_;
  const bool rough_;
  std::vector<std::vector<Choice>> ways_;  // by factor and choice
  size_t measured_ = 0;                    // kernels

 private:
  void measure_contenders(const std::vector<Fresh>& all);
};

}  // namespace isomer::cost
