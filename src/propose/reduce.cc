// The pruner's rewriting: graphs of a few steps by the candidates that were kept.
#include <algorithm>
#include <functional>

#include "propose/candidate.h"
#include "propose/values.h"

namespace isomer::propose {
namespace {

bool less(const Sketch& a, const Sketch& b) {
  if (a.count != b.count) return a.count < b.count;
  for (size_t i = a.count; i-- > 0;)
    if (a.steps[i] != b.steps[i]) return a.steps[i] < b.steps[i];
  return std::lexicographical_compare(a.out.begin(), a.out.begin() + a.outs, b.out.begin(), b.out.begin() + b.outs);
}

using Weights = std::array<uint16_t, kMaxSteps>;

// Operators of a graph, the largest first.
Weights weights(const Sketch& s) {
  Weights w = {};
  for (size_t i = 0; i < s.count; ++i) w[i] = static_cast<uint16_t>(s.steps[i].op + 1);
  std::sort(w.begin(), w.end(), std::greater<>());
  return w;
}

constexpr uint32_t kAnything = 0xFF;
constexpr uint32_t place(uint32_t op, uint32_t first, uint32_t second) { return op << 16 | first << 8 | second; }

}  // namespace

bool simpler(const Sketch& a, const Sketch& b) {
  return a.count != b.count ? a.count < b.count : weights(a) < weights(b);
}

Pruner::Pruner(KernelTable& kernels, std::vector<bool> commutative)
    : kernels_(kernels), family_(kernels.family()), commutative_(std::move(commutative)) {}

bool Pruner::match(const Pattern& p, const Sketch& s, Ref pattern, Ref at, Bound& bound) const {
  if (!is_result(pattern)) {
    if (bound[pattern] == kUnbound) bound[pattern] = at;
    return bound[pattern] == at;
  }
  if (!is_result(at) || result_of(at) != result_of(pattern)) return false;
  const Step &a = p.from.steps[step_of(pattern)], &b = s.steps[step_of(at)];
  if (a.op != b.op) return false;
  const Bound before = bound;
  const size_t n = family_.templates[a.op].operands;
  for (size_t turn = 0; turn < (commutative_[a.op] ? size_t{2} : size_t{1}); ++turn) {
    bool fits = true;
    for (size_t k = 0; fits && k < n; ++k) fits = match(p, s, a.args[k], b.args[turn ? n - 1 - k : k], bound);
    if (fits) return true;
    bound = before;
  }
  return false;
}

std::optional<Sketch> Pruner::replace(const Pattern& p, const Sketch& s, const Roots& roots, const Bound& bound) const {
  // The replacement's steps after the graph's own, then all in the order that the outputs need.
  std::array<Step, 2 * kMaxSteps> steps = {};
  std::copy(s.steps.begin(), s.steps.begin() + s.count, steps.begin());
  const auto moved = [&](Ref r) { return is_result(r) ? ref(step_of(r) + s.count, result_of(r)) : bound[r]; };
  for (size_t i = 0; i < p.to.count; ++i) {
    Step step = p.to.steps[i];
    for (size_t k = 0; k < family_.templates[step.op].operands; ++k) {
      step.args[k] = moved(step.args[k]);
      if (step.args[k] == kUnbound) return std::nullopt;
    }
    steps[s.count + i] = step;
  }
  Sketch out;
  std::array<Ref, 2 * kMaxSteps> made;
  made.fill(kUnbound);
  bool fits = true;
  size_t depth = 0;
  const auto copy = [&](auto& self, Ref r) -> Ref {
    for (size_t i = 0; i < p.from.outs; ++i)
      if (r == roots[i]) {
        r = moved(p.to.out[i]);
        break;
      }
    if (!is_result(r)) return r;
    if (++depth > 64) fits = false;  // a replacement that reads what it replaces
    const size_t i = step_of(r);
    if (fits && made[i] == kUnbound) {
      Step step = steps[i];
      for (size_t k = 0; k < family_.templates[step.op].operands; ++k) step.args[k] = self(self, step.args[k]);
      size_t at = 0;
      while (at < out.count && out.steps[at] != step) ++at;
      if (at == kMaxSteps) fits = false;
      if (fits && at == out.count) out.steps[out.count++] = step;
      made[i] = static_cast<Ref>(at);
    }
    return fits ? ref(made[i], result_of(r)) : Ref{0};
  };
  out.outs = s.outs;
  for (size_t i = 0; i < s.outs; ++i) out.out[i] = copy(copy, s.out[i]);
  if (!fits) return std::nullopt;
  return ordered(out);
}

bool Pruner::splits(const Sketch& s) const {
  return std::any_of(s.steps.begin(), s.steps.begin() + s.count,
                     [&](const Step& step) { return family_.templates[step.op].results > 1; });
}

// Shapes of what the pattern's inputs are bound to. A candidate holds for all contents at the shapes it was found at, and
// at others when a test says so, once.
bool Pruner::holds(const Pattern& p, const Sketch& s, const ShapeIds& inputs, const Bound& bound) const {
  std::array<std::array<ShapeId, 2>, kMaxSteps> made = {};
  size_t steps = 0;
  const auto shape = [&](Ref r) {
    if (!is_result(r)) return inputs[r];
    for (; steps <= step_of(r); ++steps) {
      const Step& step = s.steps[steps];
      ShapeId operands[kMaxOperands] = {};
      for (size_t k = 0; k < family_.templates[step.op].operands; ++k) {
        const Ref a = step.args[k];
        operands[k] = is_result(a) ? made[step_of(a)][result_of(a)] : inputs[a];
      }
      const Kernel& kernel = kernels_.find(step.op, operands);
      std::copy(kernel.results.begin(), kernel.results.end(), made[steps].begin());
    }
    return made[step_of(r)][result_of(r)];
  };
  bool same = true;
  std::string key;
  ShapeIds at;
  for (size_t i = 0; i < p.shapes.size(); ++i) {
    // An input that only the replacement has cannot be there: replace() has refused it.
    at.push_back(bound[i] == kUnbound ? p.shapes[i] : shape(bound[i]));
    same &= at.back() == p.shapes[i];
  }
  if (same) return true;
  key.append(reinterpret_cast<const char*>(&p.candidate), sizeof p.candidate);
  key.append(reinterpret_cast<const char*>(at.data()), at.size() * sizeof(ShapeId));
  {
    const std::shared_lock lock(mutex_);
    if (const auto it = tested_.find(key); it != tested_.end()) return it->second;
  }
  Shapes dims;
  for (const ShapeId id : at) dims.push_back(kernels_.info(id).dims);
  const auto a = fingerprint(p.from, dims, 91), b = fingerprint(p.to, dims, 91);
  const bool answer = a && b && *a == *b;
  const std::lock_guard lock(mutex_);
  return tested_.emplace(std::move(key), answer).first->second;
}

template <class F>
bool Pruner::each_rewrite(const Sketch& s, size_t root, const ShapeIds& inputs, F wanted) const {
  const Step& step = s.steps[root];
  const size_t operands = family_.templates[step.op].operands;
  std::array<uint32_t, 2> below = {kAnything, kAnything};
  for (size_t k = 0; k < std::min<size_t>(2, operands); ++k)
    if (is_result(step.args[k])) below[k] = s.steps[step_of(step.args[k])].op;
  std::array<uint32_t, 8> keys;
  size_t count = 0;
  for (const bool turned : {false, true}) {
    if (turned && !commutative_[step.op]) break;
    const uint32_t a = below[turned ? 1 : 0], b = below[turned ? 0 : 1];
    for (const uint32_t key : {place(step.op, a, b), place(step.op, kAnything, b), place(step.op, a, kAnything),
                               place(step.op, kAnything, kAnything)})
      if (std::find(keys.begin(), keys.begin() + count, key) == keys.begin() + count) keys[count++] = key;
  }
  for (size_t k = 0; k < count; ++k) {
    const auto it = by_root_.find(keys[k]);
    if (it == by_root_.end()) continue;
    for (const Pattern& p : it->second) {
      if (gone_[p.candidate] || !wanted(p)) continue;
      const size_t tries = p.from.outs == 1 ? 1 : s.count * size_t{2};
      for (size_t second = 0; second < tries; ++second) {
        Bound bound;
        bound.fill(kUnbound);
        Roots roots = {ref(root, result_of(p.from.out[0])), kUnbound};
        if (!match(p, s, p.from.out[0], roots[0], bound)) break;
        if (p.from.outs > 1) {
          roots[1] = static_cast<Ref>(kFirstResult + second);
          if (roots[1] == roots[0] || !match(p, s, p.from.out[1], roots[1], bound)) continue;
        }
        const auto next = replace(p, s, roots, bound);
        if (next && wanted(p, *next) && holds(p, s, inputs, bound)) return true;
      }
    }
  }
  return false;
}

bool Pruner::reducible(const Sketch& s, const ShapeIds& inputs) const {
  struct Simpler {
    const Sketch& s;
    bool operator()(const Pattern& p) const { return p.simplifies; }
    bool operator()(const Pattern&, const Sketch& next) const { return simpler(next, s); }
  };
  return each_rewrite(s, s.count - size_t{1}, inputs, Simpler{s});
}

Sketch Pruner::normal_form(Sketch s, const Shapes& shapes, bool both_ways) const {
  struct Less {
    const Pruner& pruner;
    const Sketch& s;
    bool both_ways;
    Sketch* found;
    bool operator()(const Pattern& p) const {
      return !p.turned && !(both_ways && !p.reversible && pruner.splits(p.from));
    }
    bool operator()(const Pattern&, const Sketch& next) const {
      if (!less(next, s)) return false;
      *found = next;
      return true;
    }
  };
  s = ordered(s);
  ShapeIds inputs;
  for (const auto& dims : shapes) inputs.push_back(kernels_.shape(dims));
  for (bool more = true; more;) {
    more = false;
    Sketch next;
    for (size_t i = 0; !more && i < s.count; ++i) more = each_rewrite(s, i, inputs, Less{*this, s, both_ways, &next});
    if (more) s = next;
  }
  return s;
}

bool Pruner::is_rewrite(const Sketch& from, size_t inputs) const {
  const uint32_t used = inputs_of(from, family_);
  return used == (uint32_t{1} << inputs) - 1 &&
         std::all_of(from.out.begin(), from.out.begin() + from.outs, [](Ref r) { return is_result(r); });
}

bool Pruner::derivable(const Candidate& c) const {
  const bool both_ways = c.left.outs > 1 && is_rewrite(c.right, c.inputs.size());
  const Sketch left = normal_form(c.left, c.inputs, both_ways);
  if (left == c.right) return true;
  return left == normal_form(c.right, c.inputs, both_ways);
}

void Pruner::keep(const Candidate& c) {
  const auto id = static_cast<uint32_t>(kept_.size());
  kept_.push_back(c);
  gone_.push_back(false);
  Pattern p;
  p.candidate = id;
  for (const auto& dims : c.inputs) p.shapes.push_back(kernels_.shape(dims));
  for (const bool forward : {true, false}) {
    p.from = forward ? c.left : c.right;
    p.to = forward ? c.right : c.left;
    p.reversible = is_rewrite(p.to, c.inputs.size());
    p.simplifies = !simpler(p.from, p.to) && simpler(p.to, p.from);
    for (size_t turn = 0; turn < p.from.outs; ++turn) {
      p.turned = turn > 0;
      if (turn) std::swap(p.from.out[0], p.from.out[1]), std::swap(p.to.out[0], p.to.out[1]);
      if (!is_result(p.from.out[0])) continue;
      const Step& root = p.from.steps[step_of(p.from.out[0])];
      std::array<uint32_t, 2> below = {kAnything, kAnything};
      for (size_t k = 0; k < std::min<size_t>(2, family_.templates[root.op].operands); ++k)
        if (is_result(root.args[k])) below[k] = p.from.steps[step_of(root.args[k])].op;
      by_root_[place(root.op, below[0], below[1])].push_back(p);
    }
  }
}

}  // namespace isomer::propose
