#include "cost/reach.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "cost/task_shares.h"
#include "cost/work.h"
#include "runtime/abi.h"

namespace isomer::cost {
namespace {

constexpr uint64_t kSmall = 16;              // an argument of less than one in so many bytes of its step
constexpr uint64_t kFetchedAhead = 2 << 10;  // bytes behind what a step touches that are there when the next one asks
constexpr uint64_t kNearShare = 4;           // up to one in so many of the second cache all is in its near half

// The ranges of a round, cut where one begins or ends, so that each part is touched as a whole.
class Parts {
 public:
  explicit Parts(const std::vector<std::vector<Touch>>& round) {
    std::map<std::pair<compile::Space, uint32_t>, std::vector<uint64_t>> cuts;
    for (const auto& step : round)
      for (const Touch& t : step) {
        cuts[{t.space, t.index}].push_back(t.offset);
        cuts[{t.space, t.index}].push_back(t.offset + t.bytes);
      }
    for (auto& [memory, at] : cuts) {
      std::sort(at.begin(), at.end());
      at.erase(std::unique(at.begin(), at.end()), at.end());
      for (size_t i = 0; i + 1 < at.size(); ++i) {
        numbers_[memory][at[i]] = bytes_.size();
        bytes_.push_back(at[i + 1] - at[i]);
      }
    }
    std::vector<uint64_t> touched(bytes_.size(), 0);  // what lies between two ranges is nobody's
    for (const auto& step : round)
      for (const Touch& t : step)
        for (const size_t p : of(t)) touched[p] = bytes_[p];
    bytes_ = std::move(touched);
  }
  size_t count() const { return bytes_.size(); }
  uint64_t total() const { return std::accumulate(bytes_.begin(), bytes_.end(), uint64_t{0}); }
  uint64_t bytes(size_t part) const { return bytes_[part]; }
  // A small one that begins where the range ends.
  std::optional<size_t> behind(const Touch& t) const {
    const auto in = numbers_.find({t.space, t.index});
    if (in == numbers_.end()) return std::nullopt;
    const auto it = in->second.find(t.offset + t.bytes);
    if (it == in->second.end() || bytes_[it->second] == 0 || bytes_[it->second] > kFetchedAhead) return std::nullopt;
    return it->second;
  }
  std::vector<size_t> of(const Touch& t) const {
    std::vector<size_t> out;
    if (t.bytes == 0) return out;
    const auto& in = numbers_.at({t.space, t.index});
    for (auto it = in.find(t.offset); it != in.end() && it->first < t.offset + t.bytes; ++it) out.push_back(it->second);
    return out;
  }

 private:
  std::vector<uint64_t> bytes_;
  std::map<std::pair<compile::Space, uint32_t>, std::map<uint64_t, size_t>> numbers_;  // by memory and first byte
};

// The state of the parts while rounds run: when each was touched last, and how many bytes were touched last at each time.
class Rounds {
 public:
  Rounds(const Parts& parts, size_t times) : parts_(parts), last_(parts.count(), 0), bytes_at_(times + 1, 0) {}

  // The last touch of a part, and the bytes of others since then.
  std::pair<size_t, uint64_t> since(size_t part, uint64_t own) const {
    const size_t t = last_[part];
    uint64_t sum = (bytes_at_[t] - std::min(bytes_at_[t], own)) / 2;
    for (size_t later = t + 1; later < bytes_at_.size(); ++later) sum += bytes_at_[later];
    return {t, sum};
  }
  void touch(size_t part, size_t time) {
    if (last_[part] > 0) bytes_at_[last_[part]] -= parts_.bytes(part);
    last_[part] = time;
    bytes_at_[time] += parts_.bytes(part);
  }
  bool at(size_t part, size_t time) const { return last_[part] == time; }

 private:
  const Parts& parts_;
  std::vector<size_t> last_;  // 0: never
  std::vector<uint64_t> bytes_at_;
};

Reuse reuse_of(const Rounds& rounds, const Parts& parts, const std::vector<size_t>& touched, size_t steps) {
  std::map<size_t, uint64_t> own;  // bytes of this range, by the time of the last touch
  for (const size_t p : touched) own[rounds.since(p, 0).first] += parts.bytes(p);
  double sum = 0, total = 0;
  Reuse out{0, UINT64_MAX, 0};
  for (const size_t p : touched) {
    const auto [time, distance] = rounds.since(p, own[rounds.since(p, 0).first]);
    const auto bytes = static_cast<double>(parts.bytes(p));
    sum += bytes * static_cast<double>(std::min(distance, kLargestPool));
    total += bytes;
    out.least = std::min(out.least, distance);
  }
  if (touched.empty()) return {};
  out.distance = static_cast<uint64_t>(sum / total);
  const auto most = std::max_element(own.begin(), own.end(), [](auto& a, auto& b) { return a.second < b.second; });
  out.step = (most->first + steps - 1) % steps;
  return out;
}

// The power of two that is nearest by ratio, between two of them.
uint64_t power(uint64_t bytes, uint64_t least, uint64_t most) {
  while (least < most && 2.0 * static_cast<double>(least) * static_cast<double>(least) <
                             static_cast<double>(bytes) * static_cast<double>(bytes))
    least *= 2;
  return least;
}

std::map<std::string, size_t> numbers_of(const compile::Lowered& lowered) {
  std::map<std::string, size_t> out;
  for (size_t i = 0; i < lowered.functions.size(); ++i) out[lowered.functions[i].name] = i;
  return out;
}

// What the steps touch: their arguments, then what no argument names, the workers' own memory.
std::vector<std::vector<Touch>> round_of(const compile::Lowered& lowered, int threads) {
  std::vector<uint64_t> most;  // bytes that a function touches: of a table it may read a few rows
  for (const loop::Function& f : lowered.functions)
    most.push_back(static_cast<uint64_t>(work_of(f, lowered.plan.target).bytes));
  const std::map<std::string, size_t> functions = numbers_of(lowered);
  std::vector<std::vector<Touch>> out;
  for (const compile::Step& step : lowered.plan.steps) {
    const size_t n = functions.at(step.function);
    std::vector<Touch>& touched = out.emplace_back();
    for (size_t i = 0; i < step.arguments.size(); ++i) {
      const compile::Place& p = step.arguments[i];
      touched.push_back({p.space, p.index, p.offset, std::min(lowered.functions[n].buffers[i].bytes(), most[n])});
    }
    touched.push_back({compile::Space::Address, 0, 0, step.scratch_bytes * static_cast<uint64_t>(threads)});
  }
  return out;
}

// By argument the one whose past it is said to have: of a small one the largest of the weights, of what is read or of what is written.
std::vector<size_t> models_of(const compile::Step& step, const loop::Function& f, const std::vector<Touch>& touched) {
  const auto kind = [&](size_t i) {
    return step.arguments[i].space == compile::Space::Weight ? 0 : f.buffers[i].written ? 1 : 2;
  };
  std::map<int, size_t> largest;
  uint64_t total = 0;
  for (size_t i = 0; i < step.arguments.size(); ++i) {
    total += touched[i].bytes;
    const auto [it, fresh] = largest.try_emplace(kind(i), i);
    if (touched[i].bytes > touched[it->second].bytes) it->second = i;
  }
  std::vector<size_t> out;
  for (size_t i = 0; i < step.arguments.size(); ++i)
    out.push_back(touched[i].bytes < total / kSmall ? largest.at(kind(i)) : i);
  return out;
}

// How the threads of the step that touched a range last have it among them.
uint64_t period_of(const compile::Lowered& lowered, const std::map<std::string, size_t>& functions, const Touch& range,
                   const compile::Step& last, int threads) {
  if (!iso_pays_threads(last.tasks, last.flops, last.bytes)) return Reach::kFirst;
  const loop::Function& f = lowered.functions[functions.at(last.function)];
  for (size_t i = 0; i < last.arguments.size(); ++i) {
    const compile::Place& p = last.arguments[i];
    const loop::Buffer& b = f.buffers[i];
    if (!b.written || p.space != range.space || p.index != range.index) continue;
    if (p.offset >= range.offset + range.bytes || range.offset >= p.offset + b.bytes()) continue;
    const uint64_t period = period_of_shares(f, static_cast<int>(i), threads);
    return period < b.bytes() ? period : Reach::kWhole;
  }
  return Reach::kWhole;
}

}  // namespace

std::string text(const Reach& reach) {
  const char kind = "nspfl"[static_cast<size_t>(reach.kind)];
  std::string out = reach.bytes > 0 ? fmt::format("{}{}", kind, std::bit_width(reach.bytes)) : std::string(1, kind);
  if (reach.period != Reach::kWhole) out += fmt::format("/{}", reach.period);
  return out;
}

std::vector<std::vector<Reuse>> reuses(const std::vector<std::vector<Touch>>& round) {
  const Parts parts(round);
  const size_t steps = round.size();
  Rounds rounds(parts, 2 * steps);
  std::vector<std::vector<Reuse>> out(steps);
  for (size_t time = 1; time <= 2 * steps; ++time) {
    const size_t s = (time - 1) % steps;
    std::vector<std::vector<size_t>> touched;
    for (const Touch& t : round[s]) touched.push_back(parts.of(t));
    if (time > steps)
      for (const auto& range : touched) out[s].push_back(reuse_of(rounds, parts, range, steps));
    for (const auto& range : touched)
      for (const size_t p : range)
        if (!rounds.at(p, time)) rounds.touch(p, time);
    for (const Touch& t : round[s])
      if (const auto p = parts.behind(t); p && !rounds.at(*p, time)) rounds.touch(*p, time);
  }
  return out;
}

void keep_what_is_read_again(const std::vector<std::vector<Touch>>& round, const CacheSizes& caches,
                             std::vector<std::vector<Reuse>>& found) {
  using Range = std::tuple<uint32_t, uint64_t, uint64_t>;
  std::map<Range, Reuse> nearest;
  const auto over = [&](const auto& visit) {
    for (size_t s = 0; s < round.size(); ++s)
      for (size_t i = 0; i < round[s].size(); ++i) {
        const Touch& t = round[s][i];
        if (t.space == compile::Space::Weight && found[s][i].distance >= caches.second)
          visit(Range{t.index, t.offset, t.bytes}, found[s][i]);
      }
  };
  over([&](const Range& range, const Reuse& r) {
    const auto [it, fresh] = nearest.try_emplace(range, r);
    if (r.distance < it->second.distance) it->second = r;
  });
  over([&](const Range& range, Reuse& r) {
    const Reuse& other = nearest.at(range);
    if (caches.last > 0 && other.distance > caches.last) return;
    r.distance = other.distance;
    r.least = std::min(r.least, other.least);
  });
}

Reach reach_of(uint64_t distance, uint64_t least, const CacheSizes& caches) {
  if (caches.last > 0 && least > caches.last) return {Reach::Kind::Far};
  if (distance < caches.first) return {Reach::Kind::Near};
  const uint64_t second = std::bit_ceil(caches.second);
  if (distance < caches.second / kNearShare) return {Reach::Kind::Second, second / (2 * kNearShare)};
  const uint64_t bytes = power(distance, second / 2, std::max(2 * second, kLargestPool));
  return {bytes <= second ? Reach::Kind::Second : Reach::Kind::Pool, bytes};
}

std::vector<Context> contexts(const compile::Lowered& lowered, int threads, const CacheSizes& caches) {
  const std::vector<std::vector<Touch>> round = round_of(lowered, threads);
  std::vector<std::vector<Reuse>> found = reuses(round);
  keep_what_is_read_again(round, caches, found);
  const uint64_t all = power(Parts(round).total(), 1, kLargestPool);
  const std::map<std::string, size_t> functions = numbers_of(lowered);
  std::vector<Context> out;
  for (size_t s = 0; s < round.size(); ++s) {
    const compile::Step& step = lowered.plan.steps[s];
    const loop::Function& f = lowered.functions[functions.at(step.function)];
    Context c;
    c.round = all;
    uint64_t turning = 0;
    const std::vector<size_t> models = models_of(step, f, round[s]);
    for (size_t i = 0; i < step.arguments.size(); ++i) {
      const Reuse& r = found[s][models[i]];
      // Copies in turns have this one itself between two of its runs.
      const uint64_t own = r.distance >= caches.second ? round[s][models[i]].bytes : 0;
      Reach reach = reach_of(r.distance + own, r.least, caches);
      const bool touched = reach.kind == Reach::Kind::Near || reach.kind == Reach::Kind::Second;
      if (threads > 1 && touched)
        reach.period = period_of(lowered, functions, round[s][models[i]], lowered.plan.steps[r.step], threads);
      c.reaches.push_back(reach);
      size_t same = 0;
      while (step.arguments[same] != step.arguments[i] || f.buffers[same].bytes() < f.buffers[i].bytes()) ++same;
      c.same.push_back(same);
      if (step.arguments[i].space != compile::Space::Weight || round[s][i].bytes <= turning) continue;
      turning = round[s][i].bytes;
      c.turned = step.backward != lowered.plan.steps[r.step].backward;
    }
    out.push_back(std::move(c));
  }
  return out;
}

std::vector<Reach> standard_reaches(const loop::Function& function, const std::vector<bool>& weights,
                                    const Reach& of_weights) {
  std::vector<Reach> out;
  for (size_t i = 0; i < static_cast<size_t>(function.arguments); ++i) {
    const bool weight = i < weights.size() && weights[i];
    out.push_back(weight                        ? of_weights
                  : function.buffers[i].written ? Reach{Reach::Kind::Left}
                                                : Reach{Reach::Kind::Second});
  }
  return out;
}

}  // namespace isomer::cost
