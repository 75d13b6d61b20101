// Generation of rules: enumerate a set's families, pair, prune, generalise. The counts of every stage come with the
// rules, so that a run can be judged and compared.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "propose/enumerate.h"
#include "rewrite/rule.h"

namespace isomer::propose {

struct GenerateOptions {
  std::string set = "taso";
  std::string family = {};  // only this one; empty: all of the set
  int size = 3;
  int threads = 0;  // 0: one per core
  uint64_t seed = 1;
};

struct FamilyCounts {
  std::string family;
  std::vector<LevelCounts> levels;  // by number of operators
  uint64_t graphs = 0, minimal = 0, classes = 0, pairs = 0;
  uint64_t renamed = 0;    // pairs that are left after renaming
  uint64_t unshared = 0;   // and after what both sides share is taken out
  uint64_t general = 0;    // that do not follow from smaller ones by a smaller graph
  uint64_t derived = 0;    // that do not follow from all the others
  uint64_t separated = 0;  // that hold at other sizes, under conditions that were found
  uint64_t conditional = 0;
  size_t bytes = 0;
  double seconds = 0;
  double enumerate_cpu = 0, prune_cpu = 0, generalise_cpu = 0;  // processor seconds
};

struct Generated {
  std::vector<FamilyCounts> families;
  std::vector<rewrite::Rule> rules;  // both directions where both are rules; names are "set-family-number"
  std::vector<std::string> refused;  // why a draft is no rule
};

struct GenerateProgress {
  std::string family, stage;
  int level = 0;
  double done = 0;  // of the stage
  uint64_t count = 0;
};

Expected<Generated> generate(const GenerateOptions& options, const ir::OpTable& table,
                             const std::function<void(const GenerateProgress&)>& progress = nullptr);

}  // namespace isomer::propose
