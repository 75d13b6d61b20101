#include "propose/candidate.h"

#include <algorithm>
#include <map>

#include "base/random.h"
#include "propose/values.h"
#include "te/field_domain.h"

namespace isomer::propose {
namespace {

constexpr Ref kUnbound = 255;

bool less(const Sketch& a, const Sketch& b) {
  if (a.count != b.count) return a.count < b.count;
  for (size_t i = a.count; i-- > 0;)
    if (a.steps[i] != b.steps[i]) return a.steps[i] < b.steps[i];
  return std::lexicographical_compare(a.out.begin(), a.out.begin() + a.outs, b.out.begin(), b.out.begin() + b.outs);
}

void append(std::string& s, const Sketch& k) {
  s.push_back(static_cast<char>(k.count));
  for (size_t i = 0; i < k.count; ++i) {
    s.push_back(static_cast<char>(k.steps[i].op));
    for (const Ref r : k.steps[i].args) s.push_back(static_cast<char>(r));
  }
  for (size_t i = 0; i < k.outs; ++i) s.push_back(static_cast<char>(k.out[i]));
}

// Copies graphs into a new order of steps, by what the outputs need first; equal steps become one.
class Copier {
 public:
  Copier(const Family& family, const Sketch& from) : family_(family), from_(from) { made_.fill(kUnbound); }
  // `input` gives the new reference of an input.
  template <class F>
  Ref copy(Ref r, Sketch& to, F& input) {
    if (!is_result(r)) return input(r);
    const size_t i = step_of(r);
    if (made_[i] == kUnbound) {
      Step step = from_.steps[i];
      for (size_t k = 0; k < family_.templates[step.op].operands; ++k) step.args[k] = copy(step.args[k], to, input);
      size_t at = 0;
      while (at < to.count && to.steps[at] != step) ++at;
      if (at == to.count) to.steps[to.count++] = step;
      made_[i] = static_cast<Ref>(at);
    }
    return ref(made_[i], result_of(r));
  }

 private:
  const Family& family_;
  const Sketch& from_;
  std::array<Ref, kMaxSteps + kMaxSteps> made_;
};

}  // namespace

std::string Candidate::encode() const {
  std::string s;
  append(s, left);
  append(s, right);
  for (const auto& shape : inputs) {
    for (const Dim& d : shape) s += d.to_string() + ",";
    s += ";";
  }
  return s;
}

Pruner::Pruner(KernelTable& kernels, std::vector<bool> commutative)
    : kernels_(kernels), family_(kernels.family()), commutative_(std::move(commutative)) {
  by_root_.resize(family_.templates.size());
}

Sketch Pruner::ordered(const Sketch& s) const {
  Sketch out;
  Copier copier(family_, s);
  const auto same = [](Ref r) { return r; };
  out.outs = s.outs;
  for (size_t i = 0; i < s.outs; ++i) out.out[i] = copier.copy(s.out[i], out, same);
  return out;
}

std::optional<Candidate> Pruner::normalise(const Sketch& left, const Sketch& right, const Shapes& shapes) const {
  std::optional<Candidate> best;
  std::string best_text;
  for (size_t turn = 0; turn < left.outs; ++turn) {
    Candidate c;
    std::array<Ref, kFirstResult> number;
    number.fill(kUnbound);
    const auto input = [&](Ref r) {
      if (number[r] == kUnbound) {
        number[r] = static_cast<Ref>(c.inputs.size());
        c.inputs.push_back(shapes[r]);
      }
      return number[r];
    };
    for (const bool is_left : {true, false}) {
      const Sketch& from = is_left ? left : right;
      Sketch& to = is_left ? c.left : c.right;
      Copier copier(family_, from);
      to.outs = from.outs;
      for (size_t i = 0; i < from.outs; ++i) to.out[i] = copier.copy(from.out[(i + turn) % from.outs], to, input);
    }
    if (c.left == c.right) return std::nullopt;
    std::string text = c.encode();
    if (!best || text < best_text) best = std::move(c), best_text = std::move(text);
  }
  return best;
}

std::optional<std::vector<uint64_t>> Pruner::fingerprint(const Sketch& s, const Shapes& shapes, uint64_t seed) const {
  std::vector<std::vector<uint64_t>> inputs(shapes.size());
  std::array<std::array<std::vector<uint64_t>, 2>, kMaxSteps> made;
  std::array<std::array<ShapeId, 2>, kMaxSteps> made_shapes = {};
  std::vector<uint64_t> registers;
  const auto data = [&](Ref r) -> const std::vector<uint64_t>& {
    if (is_result(r)) return made[step_of(r)][result_of(r)];
    if (inputs[r].empty()) {
      Random random(mix(seed, r + 1));
      inputs[r].resize(kernels_.info(kernels_.shape(shapes[r])).elements * Tape::kLanes);
      for (uint64_t& w : inputs[r]) w = random.below(te::FieldElement::kPrime);
    }
    return inputs[r];
  };
  const auto shape = [&](Ref r) {
    return is_result(r) ? made_shapes[step_of(r)][result_of(r)] : kernels_.shape(shapes[r]);
  };
  for (size_t i = 0; i < s.count; ++i) {
    const Step& step = s.steps[i];
    ShapeId operands[kMaxOperands] = {};
    registers.clear();
    for (size_t k = 0; k < family_.templates[step.op].operands; ++k) {
      operands[k] = shape(step.args[k]);
      const auto& d = data(step.args[k]);
      registers.insert(registers.end(), d.begin(), d.end());
    }
    const Kernel& kernel = kernels_.find(step.op, operands);
    if (!kernel.ok) return std::nullopt;
    kernel.tape.run(registers);
    const uint32_t* at = kernel.tape.outputs.data();
    for (size_t o = 0; o < kernel.results.size(); ++o) {
      made_shapes[i][o] = kernel.results[o];
      for (size_t e = 0; e < kernels_.info(kernel.results[o]).elements; ++e, ++at)
        for (size_t l = 0; l < Tape::kLanes; ++l) made[i][o].push_back(registers[*at * Tape::kLanes + l]);
    }
  }
  std::vector<uint64_t> out;
  for (size_t i = 0; i < s.outs; ++i) {
    uint64_t h = kernels_.info(shape(s.out[i])).hash;
    for (const uint64_t w : data(s.out[i])) h = mix(h, w);
    out.push_back(h);
  }
  return out;
}

std::optional<Candidate> Pruner::without_shared(const Candidate& c) const {
  // Steps of the two sides that compute one term.
  Sketch left = c.left, right = c.right;
  std::array<Ref, kMaxSteps> twin;
  twin.fill(kUnbound);
  for (size_t i = 0; i < left.count; ++i) {
    Step seen = left.steps[i];
    bool open = true;
    for (size_t k = 0; k < family_.templates[seen.op].operands; ++k) {
      if (!is_result(seen.args[k])) continue;
      const Ref t = twin[step_of(seen.args[k])];
      open &= t != kUnbound;
      if (t != kUnbound) seen.args[k] = ref(t, result_of(seen.args[k]));
    }
    for (size_t k = 0; open && k < right.count; ++k)
      if (right.steps[k] == seen) twin[i] = static_cast<Ref>(k);
  }
  // Outputs that are the same term say nothing.
  Sketch l = left, r = right;
  l.outs = r.outs = 0;
  for (size_t i = 0; i < left.outs; ++i) {
    const Ref a = left.out[i], b = right.out[i];
    const bool same = is_result(a) ? twin[step_of(a)] != kUnbound && b == ref(twin[step_of(a)], result_of(a)) : a == b;
    if (same) continue;
    l.out[l.outs++] = a;
    r.out[r.outs++] = b;
  }
  if (l.outs == 0) return std::nullopt;
  // Shared terms as inputs, all at once; where that does not hold, the pair stays as it is.
  Shapes shapes = c.inputs;
  Sketch gl = l, gr = r;
  const auto put = [&](Sketch& s, Ref from, Ref to) {
    for (size_t i = 0; i < s.count; ++i)
      for (size_t k = 0; k < family_.templates[s.steps[i].op].operands; ++k)
        if (s.steps[i].args[k] == from) s.steps[i].args[k] = to;
    for (size_t i = 0; i < s.outs; ++i)
      if (s.out[i] == from) s.out[i] = to;
  };
  std::array<std::array<ShapeId, 2>, kMaxSteps> made = {};
  for (size_t i = 0; i < left.count; ++i) {
    ShapeId operands[kMaxOperands] = {};
    for (size_t k = 0; k < family_.templates[left.steps[i].op].operands; ++k) {
      const Ref a = left.steps[i].args[k];
      operands[k] = is_result(a) ? made[step_of(a)][result_of(a)] : kernels_.shape(c.inputs[a]);
    }
    const Kernel& kernel = kernels_.find(left.steps[i].op, operands);
    if (!kernel.ok) return std::nullopt;
    std::copy(kernel.results.begin(), kernel.results.end(), made[i].begin());
    if (twin[i] == kUnbound) continue;
    for (size_t k = 0; k < kernel.results.size(); ++k) {
      const Ref input = static_cast<Ref>(shapes.size());
      shapes.push_back(kernels_.info(kernel.results[k]).dims);
      put(gl, ref(i, k), input);
      put(gr, ref(twin[i], k), input);
    }
  }
  if (shapes.size() < kFirstResult) {
    const auto general = normalise(gl, gr, shapes);
    if (general) {
      const auto a = fingerprint(general->left, general->inputs, 77),
                 b = fingerprint(general->right, general->inputs, 77);
      if (a && b && *a == *b) return general;
    }
  }
  return normalise(l, r, c.inputs);
}

bool Pruner::match(const Pattern& p, const Sketch& s, Ref pattern, Ref at, std::vector<Ref>& bound) const {
  if (!is_result(pattern)) {
    if (bound[pattern] == kUnbound) bound[pattern] = at;
    return bound[pattern] == at;
  }
  if (!is_result(at) || result_of(at) != result_of(pattern)) return false;
  const Step &a = p.from.steps[step_of(pattern)], &b = s.steps[step_of(at)];
  if (a.op != b.op) return false;
  const std::vector<Ref> before = bound;
  const size_t n = family_.templates[a.op].operands;
  for (size_t turn = 0; turn < (commutative_[a.op] ? size_t{2} : size_t{1}); ++turn) {
    bool fits = true;
    for (size_t k = 0; fits && k < n; ++k) fits = match(p, s, a.args[k], b.args[turn ? n - 1 - k : k], bound);
    if (fits) return true;
    bound = before;
  }
  return false;
}

std::optional<Sketch> Pruner::replace(const Pattern& p, const Sketch& s, const std::vector<Ref>& roots,
                                      const std::vector<Ref>& bound) const {
  // The replacement's steps after the graph's own, then all in the order that the outputs need.
  std::vector<Step> steps(s.steps.begin(), s.steps.begin() + s.count);
  const auto moved = [&](Ref r) { return is_result(r) ? ref(step_of(r) + s.count, result_of(r)) : bound[r]; };
  for (size_t i = 0; i < p.to.count; ++i) {
    Step step = p.to.steps[i];
    for (size_t k = 0; k < family_.templates[step.op].operands; ++k) {
      step.args[k] = moved(step.args[k]);
      if (step.args[k] == kUnbound) return std::nullopt;
    }
    steps.push_back(step);
  }
  Sketch out;
  std::vector<Ref> made(steps.size(), kUnbound);
  bool fits = true;
  size_t depth = 0;
  const auto copy = [&](auto& self, Ref r) -> Ref {
    for (size_t i = 0; i < roots.size(); ++i)
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

bool Pruner::improve(Sketch& s, const Shapes& shapes, const std::vector<uint64_t>& meaning, bool both_ways) const {
  for (size_t i = 0; i < s.count; ++i)
    for (const Pattern& p : by_root_[s.steps[i].op]) {
      if (both_ways && !p.reversible && splits(p.from)) continue;
      const size_t tries = p.from.outs == 1 ? 1 : s.count * 2;
      for (size_t second = 0; second < tries; ++second) {
        std::vector<Ref> bound(kFirstResult, kUnbound), roots = {ref(i, result_of(p.from.out[0]))};
        if (!match(p, s, p.from.out[0], roots[0], bound)) break;
        if (p.from.outs > 1) {
          roots.push_back(static_cast<Ref>(kFirstResult + second));
          if (roots[1] == roots[0] || !match(p, s, p.from.out[1], roots[1], bound)) continue;
        }
        const auto next = replace(p, s, roots, bound);
        if (!next || !less(*next, s)) continue;
        const auto same = fingerprint(*next, shapes, 91);
        if (!same || *same != meaning) continue;
        s = *next;
        return true;
      }
    }
  return false;
}

Sketch Pruner::normal_form(Sketch s, const Shapes& shapes, bool both_ways) const {
  s = ordered(s);
  const auto meaning = fingerprint(s, shapes, 91);
  if (!meaning) return s;
  while (improve(s, shapes, *meaning, both_ways)) {
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
  kept_.push_back(c);
  const size_t n = c.inputs.size();
  for (const auto& [from, to] : {std::pair(c.left, c.right), std::pair(c.right, c.left)})
    if (is_result(from.out[0])) by_root_[from.steps[step_of(from.out[0])].op].push_back({from, to, is_rewrite(to, n)});
}

}  // namespace isomer::propose
