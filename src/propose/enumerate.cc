#include "propose/enumerate.h"

#include <algorithm>
#include <atomic>

namespace isomer::propose {
namespace {

constexpr uint64_t kNoKey = ~uint64_t{0};

// Fingerprint of a set of values: the sum makes it independent of their order.
uint64_t spread(uint64_t hash) { return mix(mix(hash, 0xA4093822299F31D0ULL), 0x082EFA98EC4E6C89ULL); }
uint64_t seal(uint64_t sum, size_t count) { return mix(mix(sum, count), 0x452821E638D01377ULL) & (kNoKey >> 1); }

}  // namespace

// Walks the transitions of one state in order. A transition is a step and what stays live after it.
struct Enumerator::Worker {
  Enumerator& e;
  const int level;
  const bool last;
  std::vector<uint64_t> registers = {};
  const State* state = nullptr;
  std::vector<ShapeId> shapes = {};  // of the references, by value
  uint32_t order = 0;
  bool ties = false;  // whether several renamings gave the last key

  size_t live_limit() const {
    return last ? e.options_.outputs
                : std::min(kMaxLive, e.options_.outputs + static_cast<size_t>(e.options_.size - level));
  }

  ShapeId shape(Ref r) const {
    if (!is_result(r)) return e.values_.shape(e.inputs_[r]);
    for (size_t i = 0; i < state->sketch.outs; ++i)
      if (state->sketch.out[i] == r) return e.values_.shape(state->live[i]);
    return 0;
  }

  // Calls f(step, kernel, sketch after it) for each transition.
  template <class F>
  void walk(const State& s, F f) {
    state = &s;
    order = 0;
    for (uint32_t t = 0; t < e.family_.templates.size(); ++t) {
      Step step;
      step.op = static_cast<uint16_t>(t);
      choose(step, 0, s.used, f);
    }
  }

  template <class F>
  void choose(Step& step, size_t at, uint32_t used, F& f) {
    const Template& t = e.family_.templates[step.op];
    if (at == t.operands) {
      finish(step, f);
      return;
    }
    const bool after = at == 1 && e.commutative_[step.op];
    const auto fits = [&](Ref r) {
      if (t.distinct && std::find(step.args.begin(), step.args.begin() + at, r) != step.args.begin() + at) return false;
      return at >= t.ranks.size() || t.ranks[at] < 0 ||
             e.kernels_.info(shape(r)).dims.size() == static_cast<size_t>(t.ranks[at]);
    };
    for (size_t i = 0; i < e.inputs_.size(); ++i) {
      const size_t c = e.symmetry_.class_of(i);
      const bool known = used >> i & 1, fresh = i == e.symmetry_.first(c) || (used >> (i - 1) & 1);
      if (!known && !fresh) continue;
      const Ref r = static_cast<Ref>(i);
      if ((after && r < step.args[0]) || !fits(r)) continue;
      step.args[at] = r;
      choose(step, at + 1, used | uint32_t{1} << i, f);
    }
    for (size_t i = 0; !t.inputs_only && i < state->sketch.outs; ++i) {
      const Ref r = state->sketch.out[i];
      if (!is_result(r) || (after && r < step.args[0]) || !fits(r)) continue;
      step.args[at] = r;
      choose(step, at + 1, used, f);
    }
  }

  template <class F>
  void finish(const Step& step, F& f) {
    const Sketch& s = state->sketch;
    for (size_t i = 0; i < s.count; ++i)
      if (s.steps[i] == step) return;
    const Template& t = e.family_.templates[step.op];
    ShapeId operands[kMaxOperands] = {};
    for (size_t i = 0; i < t.operands; ++i) operands[i] = shape(step.args[i]);
    const Kernel& kernel = e.kernels_.find(step.op, operands);
    if (!kernel.ok) return;
    // Values that the step uses may stay live or not; the others must, since nothing has used them yet.
    std::array<Ref, kMaxLive> stays = {}, free = {};
    size_t kept = 0, loose = 0;
    for (size_t i = 0; i < s.outs; ++i) {
      const bool used =
          std::find(step.args.begin(), step.args.begin() + t.operands, s.out[i]) != step.args.begin() + t.operands;
      (used ? free[loose++] : stays[kept++]) = s.out[i];
    }
    Sketch next = s;
    next.steps[next.count++] = step;
    const size_t results = t.results;
    for (size_t drop = 0; drop < (size_t{1} << results); ++drop) {
      if (drop + 1 == (size_t{1} << results)) continue;  // one result at least
      const size_t choices = last ? 1 : size_t{1} << loose;
      for (size_t keep = 0; keep < choices; ++keep) {
        const size_t total = kept + static_cast<size_t>(__builtin_popcountll(keep)) + results -
                             static_cast<size_t>(__builtin_popcountll(drop));
        if (total > live_limit()) continue;
        next.outs = 0;
        for (size_t i = 0; i < kept; ++i) next.out[next.outs++] = stays[i];
        for (size_t i = 0; i < loose; ++i)
          if (keep >> i & 1) next.out[next.outs++] = free[i];
        for (size_t k = 0; k < results; ++k)
          if (!(drop >> k & 1)) next.out[next.outs++] = ref(s.count, k);
        // Two outputs that share nothing are two graphs.
        if (!last || e.connected(next)) f(step, kernel, next);
        ++order;
      }
    }
  }

  // The least fingerprint over all renamings; kNoKey when two live values are one.
  uint64_t key(const Step& step, const Kernel& kernel, const Sketch& next) {
    const Template& t = e.family_.templates[step.op];
    uint32_t used = state->used;
    for (size_t i = 0; i < t.operands; ++i)
      if (!is_result(step.args[i])) used |= uint32_t{1} << step.args[i];
    const auto& renamings = e.symmetry_.renamings(used);
    const auto& places = e.symmetry_.restriction(state->used, used);
    const Sketch& s = state->sketch;
    uint64_t least = kNoKey;
    ties = false;
    for (size_t j = 0; j < renamings.size(); ++j) {
      const ValueId* live = state->live.data() + places[j] * s.outs;
      const auto value = [&](Ref r) {
        if (!is_result(r)) return e.inputs_[renamings[j][r]];
        for (size_t i = 0; i < s.outs; ++i)
          if (s.out[i] == r) return live[i];
        return ValueId{0};
      };
      ValueId args[kMaxOperands];
      for (size_t i = 0; i < t.operands; ++i) args[i] = value(step.args[i]);
      uint64_t hashes[2] = {};
      if (const Results* r = e.values_.find(step.op, args, t.operands)) {
        for (size_t i = 0; i < t.results; ++i) hashes[i] = e.values_.hash(r->ids[i]);
      } else {
        e.values_.evaluate(kernel, args, t.operands, registers, hashes);
      }
      uint64_t sum = 0, seen[kMaxLive];
      for (size_t i = 0; i < next.outs; ++i) {
        const Ref r = next.out[i];
        seen[i] = is_result(r) && step_of(r) == s.count ? hashes[result_of(r)] : e.values_.hash(value(r));
        for (size_t k = 0; k < i; ++k)
          if (seen[k] == seen[i]) return kNoKey;
        sum += spread(seen[i]);
      }
      const uint64_t sealed = seal(sum, next.outs);
      ties = sealed == least || (sealed > least && ties);
      least = std::min(least, sealed);
    }
    return least;
  }
};

Enumerator::Enumerator(const Family& family, const ir::OpTable& table, const EnumerateOptions& options,
                       ThreadPool& pool)
    : family_(family), options_(options), pool_(pool), kernels_(family, table), values_(kernels_), symmetry_(family) {
  seed_inputs();
  find_commutative();
}

void Enumerator::seed_inputs() {
  for (const InputClass& c : family_.inputs)
    for (size_t i = 0; i < c.count; ++i)
      inputs_.push_back(values_.add_random(kernels_.shape(c.shape), mix(options_.seed, inputs_.size() + 1)));
}

void Enumerator::find_commutative() {
  commutative_.assign(family_.templates.size(), false);
  std::vector<uint64_t> registers;
  for (uint32_t t = 0; t < family_.templates.size(); ++t) {
    if (family_.templates[t].operands != 2 || family_.templates[t].results != 1) continue;
    size_t tried = 0, agreed = 0;
    for (size_t a = 0; a < inputs_.size(); ++a)
      for (size_t b = a + 1; b < inputs_.size(); ++b) {
        uint64_t hashes[2][2] = {};
        bool ok = true;
        for (size_t k = 0; k < 2; ++k) {
          const ValueId args[2] = {inputs_[k ? b : a], inputs_[k ? a : b]};
          const ShapeId shapes[2] = {values_.shape(args[0]), values_.shape(args[1])};
          const Kernel& kernel = kernels_.find(t, shapes);
          ok &= kernel.ok;
          if (kernel.ok) values_.evaluate(kernel, args, 2, registers, hashes[k]);
        }
        tried += ok;
        agreed += ok && hashes[0][0] == hashes[1][0];
      }
    // A template that is restricted to other ranks on the right is none that can be turned round.
    commutative_[t] = tried > 0 && tried == agreed;
  }
}

void Enumerator::register_inputs() {
  states_.push_back({});
  states_[0].live = {};
  known_.clear();
  for (size_t a = 0; a < inputs_.size(); ++a) {
    Sketch one;
    one.outs = 1;
    one.out[0] = static_cast<Ref>(a);
    known_.try_emplace(named(one).key, one);
    for (size_t b = a + 1; b < inputs_.size(); ++b) {
      Sketch two = one;
      two.outs = 2;
      two.out[1] = static_cast<Ref>(b);
      known_.try_emplace(named(two).key, two);
    }
  }
}

size_t Enumerator::bytes() const {
  size_t total = values_.bytes() + known_.size() * (sizeof(Sketch) + 40);
  for (const State& s : states_) total += sizeof(State) + s.live.capacity() * sizeof(ValueId);
  return total;
}

std::vector<Enumerator::Record> Enumerator::expand_level(int level, const Reducible& reducible,
                                                         const Progress& progress) {
  const size_t begin = level_begin_, count = states_.size() - begin;
  const size_t chunk = std::clamp<size_t>(count / 256, 1, 4096), chunks = (count + chunk - 1) / chunk;
  std::vector<std::vector<Record>> parts(chunks);
  std::vector<uint64_t> graphs(chunks, 0), minimal(chunks, 0);
  std::atomic<size_t> done{0};
  pool_.run(static_cast<int>(chunks), [&](int c) {
    Worker w{*this, level, level == options_.size};
    const auto part = static_cast<size_t>(c);
    for (size_t i = begin + part * chunk; i < std::min(begin + (part + 1) * chunk, states_.size()); ++i)
      w.walk(states_[i], [&](const Step& step, const Kernel& kernel, const Sketch& next) {
        ++graphs[part];
        if (reducible && reducible(next)) return;
        ++minimal[part];
        const uint64_t key = w.key(step, kernel, next);
        if (key != kNoKey)
          parts[part].push_back(
              {key, static_cast<uint32_t>(i), w.order & 0x7FFFFFFFU, static_cast<uint32_t>(w.ties) & 1U});
      });
    ++done;
    if (progress && c % pool_.size() == 0) {
      LevelCounts so_far;
      for (size_t k = 0; k <= part; ++k) so_far.graphs += graphs[k];
      progress(level, so_far, 0, static_cast<double>(done) / static_cast<double>(chunks));
    }
  });
  std::vector<Record> all;
  size_t total = 0;
  for (size_t c = 0; c < chunks; ++c) {
    total += parts[c].size();
    counts_.back().graphs += graphs[c];
    counts_.back().minimal += minimal[c];
  }
  all.reserve(total);
  for (auto& p : parts) {
    all.insert(all.end(), p.begin(), p.end());
    p = {};
  }
  std::sort(all.begin(), all.end());
  return all;
}

// The graphs of these records, which come ordered by state; each state is walked once.
std::vector<Sketch> Enumerator::transitions(const std::vector<Record>& records, int level) {
  std::vector<Sketch> out(records.size());
  std::vector<size_t> starts;
  for (size_t i = 0; i < records.size(); ++i)
    if (i == 0 || records[i].state != records[i - 1].state) starts.push_back(i);
  starts.push_back(records.size());
  const size_t count = starts.size() - 1, chunk = std::clamp<size_t>(count / 64, 1, 4096);
  pool_.run(static_cast<int>((count + chunk - 1) / chunk), [&](int c) {
    Worker w{*this, level, level == options_.size};
    const size_t first = static_cast<size_t>(c) * chunk;
    for (size_t g = first; g < std::min(first + chunk, count); ++g) {
      size_t at = starts[g];
      w.walk(states_[records[at].state], [&](const Step&, const Kernel&, const Sketch& next) {
        if (at < starts[g + 1] && w.order == records[at].order) out[at++] = next;
      });
    }
  });
  return out;
}

void Enumerator::add_state(const Sketch& sketch) {
  State s;
  s.sketch = sketch;
  s.used = inputs_of(sketch, family_);
  for (const Renaming& r : symmetry_.renamings(s.used)) {
    std::array<Results, kMaxSteps> made = {};
    const auto value = [&](Ref x) { return is_result(x) ? made[step_of(x)].ids[result_of(x)] : inputs_[r[x]]; };
    for (size_t i = 0; i < sketch.count; ++i) {
      const Step& step = sketch.steps[i];
      const size_t n = family_.templates[step.op].operands;
      ValueId args[kMaxOperands];
      ShapeId shapes[kMaxOperands];
      for (size_t k = 0; k < n; ++k) args[k] = value(step.args[k]), shapes[k] = values_.shape(args[k]);
      made[i] = values_.add(step.op, kernels_.find(step.op, shapes), args, n);
    }
    for (size_t i = 0; i < sketch.outs; ++i) s.live.push_back(value(sketch.out[i]));
  }
  states_.push_back(std::move(s));
}

// The graph under the renamings that give the least fingerprint, with the outputs in the order of their values.
Enumerator::Named Enumerator::named(const Sketch& sketch) {
  Named best;
  best.key = kNoKey;
  const uint32_t used = inputs_of(sketch, family_);
  std::vector<uint64_t> registers;
  for (const Renaming& r : symmetry_.renamings(used)) {
    std::array<Results, kMaxSteps> made = {};
    std::array<std::array<uint64_t, 2>, kMaxSteps> hashes = {};
    const auto value = [&](Ref x) { return is_result(x) ? made[step_of(x)].ids[result_of(x)] : inputs_[r[x]]; };
    for (size_t i = 0; i < sketch.count; ++i) {
      const Step& step = sketch.steps[i];
      const size_t n = family_.templates[step.op].operands;
      ValueId args[kMaxOperands];
      ShapeId shapes[kMaxOperands];
      for (size_t k = 0; k < n; ++k) args[k] = value(step.args[k]), shapes[k] = values_.shape(args[k]);
      if (const Results* known = values_.find(step.op, args, n)) {
        made[i] = *known;
        for (size_t k = 0; k < 2; ++k) hashes[i][k] = values_.hash(known->ids[k]);
      } else {
        // Only the last step of a graph has results that no state keeps.
        values_.evaluate(kernels_.find(step.op, shapes), args, n, registers, hashes[i].data());
      }
    }
    std::vector<std::pair<uint64_t, Ref>> outs;
    uint64_t sum = 0;
    for (size_t i = 0; i < sketch.outs; ++i) {
      const Ref x = sketch.out[i];
      outs.emplace_back(is_result(x) ? hashes[step_of(x)][result_of(x)] : values_.hash(inputs_[r[x]]), x);
      sum += spread(outs.back().first);
    }
    const uint64_t key = seal(sum, sketch.outs);
    if (key > best.key) continue;
    if (key < best.key) best = Named{key, {}};
    std::sort(outs.begin(), outs.end());
    Sketch s = sketch;
    for (size_t i = 0; i < outs.size(); ++i) s.out[i] = outs[i].second;
    best.sketches.push_back(renamed(s, r, family_));
  }
  return best;
}

bool Enumerator::connected(const Sketch& s) const {
  if (s.outs < 2) return true;
  std::array<uint64_t, kMaxSteps> reach = {};
  const auto of = [&](Ref r) {
    return is_result(r) ? reach[step_of(r)] | uint64_t{1} << (32 + step_of(r)) : uint64_t{1} << r;
  };
  for (size_t i = 0; i < s.count; ++i)
    for (size_t k = 0; k < family_.templates[s.steps[i].op].operands; ++k) reach[i] |= of(s.steps[i].args[k]);
  return (of(s.out[0]) & of(s.out[1])) != 0;
}

void Enumerator::report(const std::vector<std::pair<Sketch, Sketch>>& found, const PairSink& pair) {
  counts_.back().pairs += found.size();
  constexpr size_t kBatch = 1 << 16;
  std::vector<std::pair<Sketch, Sketch>> named_pairs;
  for (size_t begin = 0; begin < found.size(); begin += kBatch) {
    const size_t count = std::min(kBatch, found.size() - begin);
    named_pairs.resize(count);
    constexpr size_t kTask = 256;
    pool_.run(static_cast<int>((count + kTask - 1) / kTask), [&](int t) {
      const size_t first = static_cast<size_t>(t) * kTask;
      for (size_t i = first; i < std::min(first + kTask, count); ++i) {
        const auto& [graph, representative] = found[begin + i];
        const Named g = named(graph);
        // A graph that is its own representative says that its inputs may change places.
        const bool self = graph == representative;
        named_pairs[i] = {g.sketches[self ? g.sketches.size() - 1 : 0],
                          self ? g.sketches[0] : named(representative).sketches[0]};
      }
    });
    for (const auto& [g, r] : named_pairs) pair(g, r);
  }
}

void Enumerator::group(int level, const std::vector<Record>& records, const PairSink& pair) {
  const bool last = level == options_.size;
  LevelCounts& counts = counts_.back();
  std::vector<Record> needed;  // graphs that have to be looked at again
  for (size_t i = 0; i < records.size();) {
    size_t end = i;
    while (end < records.size() && records[end].key == records[i].key) ++end;
    const bool is_known = known_.contains(records[i].key);
    counts.states += !is_known;
    const bool several = is_known || end > i + 1;
    for (size_t k = i; k < end; ++k)
      if (several || records[k].ties || (!last && k == i)) needed.push_back(records[k]);
    i = end;
  }
  std::vector<uint32_t> place(needed.size());
  std::vector<Sketch> sketches;
  {
    std::vector<uint32_t> by_state(needed.size());
    for (uint32_t i = 0; i < needed.size(); ++i) by_state[i] = i;
    std::sort(by_state.begin(), by_state.end(), [&](uint32_t a, uint32_t b) { return needed[a].before(needed[b]); });
    std::vector<Record> ordered;
    for (uint32_t i = 0; i < needed.size(); ++i) {
      ordered.push_back(needed[by_state[i]]);
      place[by_state[i]] = i;
    }
    sketches = transitions(ordered, level);
  }
  std::vector<std::pair<Sketch, Sketch>> found;
  std::vector<std::pair<Record, Sketch>> fresh;
  for (size_t i = 0; i < needed.size();) {
    size_t end = i;
    while (end < needed.size() && needed[end].key == needed[i].key) ++end;
    const auto it = known_.find(needed[i].key);
    const bool is_known = it != known_.end();
    size_t best = i;
    for (size_t k = i + 1; k < end && !is_known; ++k)
      if (simpler(sketches[place[k]], sketches[place[best]])) best = k;
    if (!is_known && !last) fresh.emplace_back(needed[best], sketches[place[best]]);
    const Sketch representative = is_known ? it->second : sketches[place[best]];
    for (size_t k = i; k < end; ++k) {
      const Sketch& graph = sketches[place[k]];
      if (graph.outs > options_.outputs || !connected(graph)) continue;
      if (k != best || is_known) found.emplace_back(graph, representative);
      if (k == best && !is_known && needed[k].ties) found.emplace_back(graph, graph);
    }
    i = end;
  }
  if (last) {
    counts.classes = counts.states;
  } else {
    // States in the order in which they were found, so that the next level does not depend on fingerprints.
    std::sort(fresh.begin(), fresh.end(), [](const auto& a, const auto& b) { return a.first.before(b.first); });
    level_begin_ = states_.size();
    for (const auto& [record, sketch] : fresh) {
      counts.classes += sketch.outs <= options_.outputs;
      known_.emplace(record.key, sketch);
      add_state(sketch);
    }
  }
  report(found, pair);
}

void Enumerator::run(const Callbacks& call) {
  counts_.push_back({});
  register_inputs();
  level_begin_ = 0;
  for (int level = 1; level <= options_.size; ++level) {
    counts_.push_back({});
    std::vector<Record> records = expand_level(level, level > 1 ? call.reducible : nullptr, call.progress);
    group(level, records, call.pair);
    if (call.level_done) call.level_done(level);
    if (call.progress) call.progress(level, counts_.back(), bytes() + records.size() * sizeof(Record), 1);
  }
}

}  // namespace isomer::propose
