#include "propose/generalise.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "propose/instance.h"

namespace isomer::propose {
namespace {

using Answer = Instance::Answer;

struct Place {
  size_t input, axis;
};

class Generaliser {
 public:
  Generaliser(const Candidate& c, const Family& f, TrialKernels& kernels, uint64_t seed)
      : candidate_(c), family_(f), random_(seed), best_(c, f, kernels) {}

  std::optional<RuleDraft> run() {
    for (const auto& [name, value] : family_.sizes) best_.constants[name] = name;
    if (!choose_cuts(best_) || !holds(best_, 2)) return std::nullopt;
    untie();
    open_rank();
    RuleDraft draft;
    if (!conditions(draft)) return std::nullopt;
    draft.text = best_.input_text() + best_.side_text(true) + "  =>\n" + best_.side_text(false);
    draft.exact = best_.same_arithmetic(draw(best_, 2, 3));
    reverse(draft);
    return draft;
  }

 private:
  Sizes draw(const Instance& i, int64_t low, int64_t high) {
    Sizes s;
    for (const std::string& name : i.symbols()) s[name] = random_.between(low, high);
    return s;
  }

  // Holds wherever its pattern fits, on a few draws of small sizes in which `apart` differ. Small ones, since the same
  // operators at the same sizes then come again and again; conditions() looks further.
  bool holds(const Instance& i, int64_t low, const std::pair<std::string, std::string>& apart = {}) {
    const std::vector<std::string> names = i.symbols();
    int good = 0;
    for (int trial = 0; trial < 8 && good < 3; ++trial) {
      Sizes s;
      for (size_t k = 0; k < names.size(); ++k)
        s[names[k]] = low + static_cast<int64_t>((k + (k >> 1) * static_cast<size_t>(trial)) % 2);
      if (!apart.first.empty()) {
        s[apart.first] = low + trial % 3;
        s[apart.second] = low + (trial + 1 + trial / 3) % 3;
        if (s[apart.first] == s[apart.second]) continue;
      }
      const Answer a = i.test(s, random_.next());
      if (a == Answer::Fails) return false;
      good += a == Answer::Holds;
    }
    return good > 0;
  }

  // The cuts of splits are numbered by the terms of an extent, which new symbols change.
  bool choose_cuts(Instance& i, const std::pair<std::string, std::string>& apart = {}) {
    std::vector<std::pair<size_t, size_t>> splits;
    for (size_t side = 0; side < 2; ++side) {
      const Sketch& s = side ? candidate_.right : candidate_.left;
      for (size_t k = 0; k < s.count; ++k)
        if (family_.templates[s.steps[k].op].results > 1) splits.emplace_back(side, k);
    }
    for (size_t choice = 0; choice < (size_t{1} << splits.size()); ++choice) {
      for (size_t k = 0; k < splits.size(); ++k)
        i.cut[splits[k].first][splits[k].second] = static_cast<uint8_t>(choice >> k & 1);
      if (i.resolve() && holds(i, 2, apart)) return true;
    }
    return false;
  }

  bool try_untied(const std::vector<Place>& places, size_t mask, const std::string& from, const std::string& to) {
    const bool used = best_.constants.contains(from);
    for (int moved = 0; moved < (used ? 2 : 1); ++moved) {
      Instance next = best_;
      for (size_t k = 0; k < places.size(); ++k)
        if (mask >> k & 1) next.inputs[places[k].input][places[k].axis] = Dim::symbol(to);
      if (moved)
        for (auto& [name, symbol] : next.constants)
          if (symbol == from) symbol = to;
      if (!choose_cuts(next, {from, to})) continue;
      best_ = std::move(next);
      return true;
    }
    return false;
  }

  // Splits a symbol in two as often as the pair still holds, smallest parts first.
  void untie() {
    std::vector<std::string> open = best_.symbols();
    int fresh = 0;
    while (!open.empty()) {
      const std::string name = open.front();
      std::vector<Place> places;
      for (size_t i = 0; i < best_.inputs.size(); ++i)
        for (size_t a = 0; a < best_.inputs[i].size(); ++a)
          if (best_.inputs[i][a] == Dim::symbol(name)) places.push_back({i, a});
      const size_t n = std::min<size_t>(places.size(), 7);
      std::vector<size_t> masks;
      // The last place keeps the name: a split and its complement are the same.
      for (size_t mask = 1; n >= 2 && mask < (size_t{1} << (n - 1)); ++mask) masks.push_back(mask);
      std::stable_sort(masks.begin(), masks.end(),
                       [](size_t a, size_t b) { return __builtin_popcountll(a) < __builtin_popcountll(b); });
      const std::string to = fmt::format("{}{}", name, ++fresh);
      const bool done =
          std::none_of(masks.begin(), masks.end(), [&](size_t m) { return try_untied(places, m, name, to); });
      if (done)
        open.erase(open.begin());
      else
        open.push_back(to);
    }
  }

  // One shape for all inputs but scalars and nothing that counts axes: any rank.
  void open_rank() {
    const std::vector<Dim>* common = nullptr;
    for (const auto& shape : best_.inputs) {
      if (shape.empty()) continue;  // a scalar goes with every shape
      if (common && !(shape == *common)) return;
      common = &shape;
    }
    if (!common) return;
    for (const Sketch* s : {&candidate_.left, &candidate_.right})
      for (size_t i = 0; i < s->count; ++i)
        for (const CallSpec& c : family_.templates[s->steps[i].op].calls)
          if (!c.attrs.empty() || !c.sizes.empty() || family_.templates[s->steps[i].op].operands == 0) return;
    for (const size_t rank : {size_t{0}, size_t{1}, size_t{3}}) {
      Instance next = best_;
      std::vector<Dim> shape;
      for (size_t k = 0; k < rank; ++k) shape.push_back(Dim::symbol(fmt::format("R{}", k)));
      for (auto& s : next.inputs)
        if (!s.empty()) s = shape;
      if (!next.resolve() || !holds(next, 2)) return;
    }
    best_.list = "S";
  }

  struct Atom {
    std::string text;
    std::function<bool(const Sizes&)> holds;
  };

  std::vector<Atom> vocabulary() const {
    std::vector<Atom> out;
    const std::vector<std::string> names = best_.symbols();
    for (const std::string& a : names) {
      out.push_back({a + " >= 2", [a](const Sizes& s) { return s.at(a) >= 2; }});
      out.push_back({a + " == 1", [a](const Sizes& s) { return s.at(a) == 1; }});
      out.push_back({"mod(" + a + ", 2) == 0", [a](const Sizes& s) { return s.at(a) % 2 == 0; }});
      out.push_back({"mod(" + a + ", 2) == 1", [a](const Sizes& s) { return s.at(a) % 2 == 1; }});
      for (const std::string& b : names) {
        if (a == b) continue;
        if (a < b) out.push_back({a + " == " + b, [a, b](const Sizes& s) { return s.at(a) == s.at(b); }});
        if (a < b) out.push_back({a + " != " + b, [a, b](const Sizes& s) { return s.at(a) != s.at(b); }});
        out.push_back({a + " <= " + b, [a, b](const Sizes& s) { return s.at(a) <= s.at(b); }});
        out.push_back({"mod(" + a + ", " + b + ") == 0", [a, b](const Sizes& s) { return s.at(a) % s.at(b) == 0; }});
      }
    }
    return out;
  }

  // Sizes from 1 on, where broadcasting begins; atoms are taken greedily until nothing that fails is left.
  bool conditions(RuleDraft& draft) {
    if (!best_.list.empty()) return true;
    std::vector<Sizes> good, bad;
    for (int trial = 0; trial < 36; ++trial) {
      Sizes s = draw(best_, 1, trial % 4 ? 3 : 4);
      const Answer a = best_.test(s, random_.next());
      if (a == Answer::Holds)
        good.push_back(std::move(s));
      else if (a == Answer::Fails)
        bad.push_back(std::move(s));
    }
    const std::vector<Atom> atoms = bad.empty() ? std::vector<Atom>{} : vocabulary();
    while (!bad.empty()) {
      const Atom* best = nullptr;
      double best_score = 0;
      for (const Atom& a : atoms) {
        const auto keeps = static_cast<double>(std::count_if(good.begin(), good.end(), a.holds));
        const auto shuts =
            static_cast<double>(bad.size()) - static_cast<double>(std::count_if(bad.begin(), bad.end(), a.holds));
        // What it shuts out of the failing sizes, less what it costs of the others.
        const double score = shuts / static_cast<double>(bad.size()) -
                             (1 - keeps / std::max<double>(1, static_cast<double>(good.size())));
        if (keeps > 0 && shuts > 0 && (!best || score > best_score)) best = &a, best_score = score;
      }
      if (!best || draft.conditions.size() == 3) return false;
      draft.conditions.push_back(best->text);
      std::erase_if(bad, [&](const Sizes& s) { return !best->holds(s); });
      std::erase_if(good, [&](const Sizes& s) { return !best->holds(s); });
    }
    return !good.empty();
  }

  // The other direction, when its pattern uses every input.
  void reverse(RuleDraft& draft) {
    std::set<Ref> used;
    for (size_t i = 0; i < candidate_.right.count; ++i)
      for (size_t k = 0; k < family_.templates[candidate_.right.steps[i].op].operands; ++k)
        used.insert(candidate_.right.steps[i].args[k]);
    for (size_t i = 0; i < best_.inputs.size(); ++i)
      if (!used.contains(static_cast<Ref>(i))) return;
    for (size_t i = 0; i < candidate_.right.outs; ++i)
      if (!is_result(candidate_.right.out[i])) return;
    // Both sides one graph but for the names of inputs: turning it round gives the same rule.
    const Sketch &l = candidate_.left, &r = candidate_.right;
    bool alike = l.count == r.count;
    for (size_t i = 0; alike && i < l.count; ++i) {
      alike = l.steps[i].op == r.steps[i].op;
      for (size_t k = 0; alike && k < kMaxOperands; ++k)
        if (is_result(l.steps[i].args[k]) || is_result(r.steps[i].args[k]))
          alike = l.steps[i].args[k] == r.steps[i].args[k];
    }
    if (alike) return;
    draft.back = best_.input_text() + best_.side_text(false) + "  =>\n" + best_.side_text(true);
  }

  const Candidate& candidate_;
  const Family& family_;
  Random random_;
  Instance best_;
};

}  // namespace

std::optional<RuleDraft> generalise(const Candidate& candidate, const Family& family, TrialKernels& kernels,
                                    uint64_t seed) {
  return Generaliser(candidate, family, kernels, seed).run();
}

}  // namespace isomer::propose
