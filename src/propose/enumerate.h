// Enumerator: all graphs of up to N operators over a family, level by level, as equivalence classes.
//
// A state is what a graph has computed and still needs (its live values). States are known by the fingerprint of their
// live values, in any order and under any renaming of the inputs; of all graphs that compute a state, the simplest
// represents it (the first of several), and only representatives are extended. Nothing is lost: a graph whose part is
// no representative becomes another graph by the pair that its part gave. Every graph that reaches a known state is
// one pair, with that state's representative. Graphs with a part that is known to have a simpler form are not even
// evaluated: whatever they equal, the simpler graph equals too.
//
// The order of graphs is that of their states and of the templates, so the same family, size and seed give the same
// pairs in the same order with any number of threads.
#pragma once

#include <functional>

#include "base/thread_pool.h"
#include "propose/candidate.h"
#include "propose/symmetry.h"
#include "propose/values.h"

namespace isomer::propose {

struct LevelCounts {
  uint64_t graphs = 0;   // well-typed graphs of this many operators that were looked at
  uint64_t minimal = 0;  // of them, those in which no part is known to have a simpler form; only they are evaluated
  uint64_t states = 0;   // new ones
  uint64_t classes = 0;  // new states of one or two outputs
  uint64_t pairs = 0;
};

struct EnumerateOptions {
  int size = 3;
  uint64_t seed = 1;
  size_t outputs = 2;  // of a graph at most
};

class Enumerator {
 public:
  // Two graphs that agree on the enumeration's values, output by output.
  using PairSink = std::function<void(const Sketch& graph, const Sketch& representative)>;
  using Progress = std::function<void(int level, const LevelCounts& counts, size_t bytes, double done)>;

  Enumerator(const Family& family, const ir::OpTable& table, const EnumerateOptions& options, ThreadPool& pool);
  // Whether a graph has a part with a simpler form. Called from many threads.
  using Reducible = std::function<bool(const Sketch& graph)>;
  struct Callbacks {
    PairSink pair;
    std::function<void(int level)> level_done = {};  // all pairs of this many operators have been given out
    Reducible reducible = {};
    Progress progress = {};
  };
  void run(const Callbacks& call);

  const std::vector<LevelCounts>& counts() const { return counts_; }
  KernelTable& kernels() { return kernels_; }
  Symmetry& symmetry() { return symmetry_; }
  // Templates of two operands whose order does not matter, as the values show.
  const std::vector<bool>& commutative() const { return commutative_; }

 private:
  struct State {
    Sketch sketch;
    uint32_t used = 0;
    std::vector<ValueId> live;  // for each renaming of `used`, one id per live value
  };
  struct Record {
    uint64_t key;
    uint32_t state;
    uint32_t order : 31, ties : 1;  // ties: several renamings give the key
    bool before(const Record& o) const { return state != o.state ? state < o.state : order < o.order; }
    bool operator<(const Record& o) const { return key != o.key ? key < o.key : before(o); }
  };
  struct Worker;
  struct Named {
    uint64_t key = 0;
    std::vector<Sketch> sketches;  // renamed so that the fingerprint is the least; all that reach it
  };

  void seed_inputs();
  void find_commutative();
  void register_inputs();
  std::vector<Record> expand_level(int level, const Reducible& reducible, const Progress& progress);
  void group(int level, const std::vector<Record>& records, const PairSink& pair);
  std::vector<Sketch> transitions(const std::vector<Record>& records, int level);
  bool connected(const Sketch& s) const;  // outputs share an input or a step
  void add_state(const Sketch& sketch);
  Named named(const Sketch& sketch);
  void report(const std::vector<std::pair<Sketch, Sketch>>& found, const PairSink& pair);
  size_t bytes() const;

  const Family& family_;
  const EnumerateOptions options_;
  ThreadPool& pool_;
  KernelTable kernels_;
  ValueStore values_;
  Symmetry symmetry_;
  std::vector<ValueId> inputs_;
  std::vector<bool> commutative_;
  std::vector<State> states_;
  size_t level_begin_ = 0;  // states of the last complete level
  std::unordered_map<uint64_t, Sketch> known_;
  std::vector<LevelCounts> counts_;
};

}  // namespace isomer::propose
