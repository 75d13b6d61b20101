#include "propose/candidate.h"

#include <algorithm>
#include <map>

#include "base/random.h"
#include "propose/values.h"
#include "te/field_domain.h"

namespace isomer::propose {
namespace {

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

}  // namespace isomer::propose
