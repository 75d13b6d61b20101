#include "rewrite/taso.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "rewrite/lexer.h"

namespace isomer::rewrite {
namespace {

// A value of a side: an input by name, or a result of a call.
struct Ref {
  std::string input;
  size_t call = 0, index = 0;
};

struct TasoCall {
  std::string op;
  std::vector<Ref> inputs;
  std::map<std::string, std::string> attrs;
  size_t position = 0;

  int64_t number(const char* key) const {
    const auto it = attrs.find(key);
    return it == attrs.end() ? -1 : std::atoll(it->second.c_str());
  }
};

struct TasoSide {
  std::vector<TasoCall> calls;
  std::vector<Ref> outputs;
};

class Reader {
 public:
  Reader(std::string_view text, const std::string& file) : lex_(text, file) {}

  bool at_end() const { return lex_.peek().kind == Token::Kind::End; }
  Expected<int64_t> number() {
    if (!lex_.eat_word("rule")) return lex_.expected("'rule'");
    return lex_.integer();
  }

  Expected<TasoSide> side() {
    TasoSide side;
    while (!lex_.eat_word("return")) {
      const Token t = lex_.next();
      if (t.kind != Token::Kind::Value || t.text != fmt::format("{}", side.calls.size()))
        return lex_.error("E-text", fmt::format("expected %{}, found {}", side.calls.size(), isomer::quoted(t.text)),
                          t.position);
      ISOMER_CHECK_OK(lex_.expect("="));
      ISOMER_TRY(TasoCall c, call(side));
      side.calls.push_back(std::move(c));
      ISOMER_CHECK_OK(lex_.expect(";"));
    }
    do {
      ISOMER_TRY(Ref r, ref(side));
      side.outputs.push_back(std::move(r));
    } while (lex_.eat(","));
    return side;
  }
  Expected<void> arrow() { return lex_.expect("=>"); }

 private:
  Expected<Ref> ref(const TasoSide& side) {
    const Token t = lex_.next();
    Ref r;
    if (t.kind == Token::Kind::Input) {
      r.input = std::string(t.text);
      return r;
    }
    r.call = static_cast<size_t>(std::atoll(std::string(t.text).c_str()));
    if (t.kind != Token::Kind::Value || r.call >= side.calls.size())
      return lex_.error("E-text", fmt::format("expected an input or an earlier call, found {}", isomer::quoted(t.text)),
                        t.position);
    if (lex_.eat(".")) {
      ISOMER_TRY(const int64_t index, lex_.integer());
      if (index < 0 || index > 1) return lex_.error("E-text", "a split has results 0 and 1", t.position);
      r.index = static_cast<size_t>(index);
    }
    return r;
  }

  Expected<TasoCall> call(const TasoSide& side) {
    const Token word = lex_.next();
    TasoCall c;
    c.op = std::string(word.text);
    c.position = word.position;
    constexpr std::pair<std::string_view, size_t> kKnown[] = {{"matmul", 2}, {"conv2d", 2}, {"add", 2},  {"mul", 2},
                                                              {"concat", 2}, {"relu", 1},   {"split", 1}};
    const auto* known =
        std::find_if(std::begin(kKnown), std::end(kKnown), [&](const auto& k) { return k.first == word.text; });
    if (known == std::end(kKnown))
      return lex_.error("E-unknown-operator", fmt::format("TASO's rules have no operator {}", isomer::quoted(c.op)),
                        word.position);
    ISOMER_CHECK_OK(lex_.expect("("));
    do {
      ISOMER_TRY(Ref r, ref(side));
      c.inputs.push_back(std::move(r));
    } while (lex_.eat(","));
    ISOMER_CHECK_OK(lex_.expect(")"));
    if (c.inputs.size() != known->second)
      return lex_.error("E-text", fmt::format("{} takes {} operands", c.op, known->second), word.position);
    if (!lex_.eat("{")) return c;
    do {
      const std::string key(lex_.next().text);
      ISOMER_CHECK_OK(lex_.expect("="));
      c.attrs[key] = std::string(lex_.next().text);
    } while (lex_.eat(","));
    ISOMER_CHECK_OK(lex_.expect("}"));
    return c;
  }

  Lexer lex_;
};

// A sum of symbols (extents of input axes) with coefficients; "" is the constant.
using Linear = std::map<std::string, int64_t>;

Linear plus(const Linear& a, const Linear& b, int64_t factor = 1) {
  Linear out = a;
  for (const auto& [name, k] : b)
    if ((out[name] += factor * k) == 0) out.erase(name);
  return out;
}

std::string text(const Linear& e) {
  std::string out;
  for (const auto& [name, k] : e) {
    const std::string term = name.empty()       ? fmt::format("{}", std::abs(k))
                             : std::abs(k) == 1 ? name
                                                : fmt::format("{}*{}", std::abs(k), name);
    if (out.empty())
      out = k < 0 ? "0-" + term : term;
    else
      out += (k < 0 ? "-" : "+") + term;
  }
  return out.empty() ? "0" : out;
}

// Shapes of all values, as far as equations between them tell.
class Shapes {
 public:
  struct Value {
    std::vector<Linear> dims;
    std::map<size_t, std::pair<Linear, Linear>> cuts;  // axis -> the sizes that the last concat along it joined
  };

  std::map<std::string, Value> inputs;
  std::string problem;

  void equal(const Linear& a, const Linear& b) { equations_.push_back(plus(a, b, -1)); }

  // Substitutes until every equation is gone or is seen to have no positive solution.
  void solve() {
    for (size_t i = 0; i < equations_.size() && problem.empty(); ++i) {
      Linear e = reduce(equations_[i]);
      if (e.empty()) continue;
      int64_t content = 0;
      for (const auto& [name, k] : e) content = std::gcd(content, k);
      for (auto& [name, k] : e) k /= content;
      const bool rising = std::all_of(e.begin(), e.end(), [](const auto& t) { return t.second > 0; });
      const bool falling = std::all_of(e.begin(), e.end(), [](const auto& t) { return t.second < 0; });
      if (rising || falling) {
        problem = fmt::format("both sides have one shape only where {} is 0", text(rising ? e : plus({}, e, -1)));
        return;
      }
      const auto unit =
          std::find_if(e.begin(), e.end(), [](const auto& t) { return !t.first.empty() && std::abs(t.second) == 1; });
      if (unit == e.end()) {
        problem = fmt::format("the equation {} == 0 between sizes is not solved", text(e));
        return;
      }
      Linear rest = e;
      rest.erase(unit->first);
      const Linear value = plus({}, rest, -unit->second);
      for (auto& [name, known] : solved_) known = replace(known, unit->first, value);
      solved_[unit->first] = value;
    }
  }

  Linear reduce(const Linear& e) const {
    Linear out = e;
    for (const auto& [name, value] : solved_) out = replace(out, name, value);
    return out;
  }

 private:
  static Linear replace(const Linear& e, const std::string& name, const Linear& value) {
    const auto it = e.find(name);
    if (it == e.end()) return e;
    Linear out = e;
    out.erase(name);
    return plus(out, value, it->second);
  }

  std::vector<Linear> equations_;
  std::map<std::string, Linear> solved_;
};

class Converter {
 public:
  Converter(int64_t number, const TasoSide& left, const TasoSide& right)
      : number_(number), left_(left), right_(right) {}

  // The rule's text, or nothing with a problem.
  std::string convert(std::string& problem) {
    infer_ranks();
    for (const auto& [name, rank] : ranks_) {
      Shapes::Value v;
      for (int64_t i = 0; i < rank; ++i) v.dims.push_back({{fmt::format("{}{}", name, i), 1}});
      shapes_.inputs[name] = v;
    }
    if (!elementwise_) {
      const auto l = run(left_), r = run(right_);
      for (size_t k = 0; shapes_.problem.empty() && k < l.size(); ++k) same(l[k], r[k]);
      if (shapes_.problem.empty()) shapes_.solve();
      problem = shapes_.problem;
      if (!problem.empty()) return "";
    }
    std::string out = fmt::format("rule taso-{} : reassociating\n", number_);
    for (const auto& [name, v] : shapes_.inputs) out += fmt::format("  ?{} : T[{}]\n", name, shape(v));
    out += side(left_) + "  =>\n" + side(right_);
    for (size_t i = 0; i < conditions_.size(); ++i) out += fmt::format("{}{}", i ? ", " : "  where ", conditions_[i]);
    return conditions_.empty() ? out : out + "\n";
  }

 private:
  // The rank of every input, where an operator tells it; rules of element-wise operators alone hold at any rank.
  void infer_ranks() {
    std::map<const TasoCall*, int64_t> of_call;
    for (const TasoSide* s : {&left_, &right_})
      for (const TasoCall& c : s->calls)
        for (const Ref& r : c.inputs)
          if (!r.input.empty()) ranks_.emplace(r.input, 0);
    for (bool changed = true; changed;) {
      changed = false;
      for (const TasoSide* s : {&left_, &right_})
        for (const TasoCall& c : s->calls) {
          int64_t rank = c.op == "matmul" ? 2 : c.op == "conv2d" ? 4 : std::max<int64_t>(0, c.number("rank"));
          rank = std::max(rank, of_call[&c]);
          for (const Ref& r : c.inputs)
            rank = std::max(rank, r.input.empty() ? of_call[&s->calls[r.call]] : ranks_[r.input]);
          if (of_call[&c] != rank) changed = true;
          of_call[&c] = rank;
          for (const Ref& r : c.inputs) {
            int64_t& known = r.input.empty() ? of_call[&s->calls[r.call]] : ranks_[r.input];
            if (known != rank) changed = true;
            known = rank;
          }
        }
    }
    elementwise_ = std::all_of(ranks_.begin(), ranks_.end(), [](const auto& r) { return r.second == 0; });
  }

  void same(const Shapes::Value& a, const Shapes::Value& b) {
    if (a.dims.size() != b.dims.size()) {
      shapes_.problem = "values of two ranks are joined";
      return;
    }
    for (size_t i = 0; i < a.dims.size(); ++i) shapes_.equal(a.dims[i], b.dims[i]);
  }

  std::vector<Shapes::Value> run(const TasoSide& s) {
    std::vector<std::vector<Shapes::Value>> results;
    const auto value = [&](const Ref& r) {
      return r.input.empty() ? results[r.call][std::min(r.index, results[r.call].size() - 1)] : shapes_.inputs[r.input];
    };
    for (const TasoCall& c : s.calls) {
      const Shapes::Value a = value(c.inputs[0]), b = value(c.inputs.back());
      results.push_back(call(s, c, a, b));
      if (!shapes_.problem.empty()) return {};
    }
    std::vector<Shapes::Value> out;
    for (const Ref& r : s.outputs) out.push_back(value(r));
    return out;
  }

  std::vector<Shapes::Value> call(const TasoSide& s, const TasoCall& c, const Shapes::Value& a,
                                  const Shapes::Value& b) {
    Shapes::Value y = a;
    const size_t rank = c.op == "matmul" ? 2 : c.op == "conv2d" ? 4 : a.dims.size();
    if (c.op != "relu" && c.op != "split" && (a.dims.size() != rank || b.dims.size() != rank)) {
      shapes_.problem = "an operator's operands have ranks that do not fit it";
      return {};
    }
    if (c.op == "matmul") {
      shapes_.equal(a.dims[1], b.dims[0]);
      y.dims = {a.dims[0], b.dims[1]};
      y.cuts.clear();
      if (a.cuts.contains(0)) y.cuts[0] = a.cuts.at(0);
      if (b.cuts.contains(1)) y.cuts[1] = b.cuts.at(1);
    } else if (c.op == "conv2d") {
      shapes_.equal(a.dims[1], b.dims[1]);
      shapes_.equal(b.dims[2], {{"", c.number("kernel_h")}});
      shapes_.equal(b.dims[3], {{"", c.number("kernel_w")}});
      y.dims = {a.dims[0], b.dims[0], a.dims[2], a.dims[3]};
      y.cuts.erase(1);
      if (b.cuts.contains(0)) y.cuts[1] = b.cuts.at(0);
    } else if (c.op == "concat") {
      const auto axis = static_cast<size_t>(c.number("axis"));
      if (axis >= a.dims.size() || axis >= b.dims.size()) {
        shapes_.problem = "a concat has an axis that its operands lack";
        return {};
      }
      for (size_t i = 0; i < a.dims.size(); ++i)
        if (i != axis) shapes_.equal(a.dims[i], b.dims[i]);
      y.dims[axis] = plus(a.dims[axis], b.dims[axis]);
      y.cuts[axis] = {a.dims[axis], b.dims[axis]};
    } else if (c.op == "split") {
      const auto axis = static_cast<size_t>(c.number("axis"));
      if (!a.cuts.contains(axis)) {
        shapes_.problem = "a split undoes no concat";
        return {};
      }
      cuts_[&s][&c] = a.cuts.at(axis);
      Shapes::Value z = a;
      y.dims[axis] = a.cuts.at(axis).first;
      z.dims[axis] = a.cuts.at(axis).second;
      y.cuts.erase(axis);
      z.cuts.erase(axis);
      return {y, z};
    } else if (c.op != "relu") {
      same(a, b);
      y.cuts.insert(b.cuts.begin(), b.cuts.end());
    }
    return {y};
  }

  std::string size(const Linear& e) {
    const Linear r = shapes_.reduce(e);
    const bool falls = std::any_of(r.begin(), r.end(), [](const auto& t) { return t.second < 0; });
    if (falls) {
      const std::string c = text(r) + " >= 1";
      if (std::find(conditions_.begin(), conditions_.end(), c) == conditions_.end()) conditions_.push_back(c);
    }
    return text(r);
  }

  std::string shape(const Shapes::Value& v) {
    if (elementwise_) return "S...";
    std::string out;
    for (const Linear& d : v.dims) out += (out.empty() ? "" : ", ") + size(d);
    return out;
  }

  std::string side(const TasoSide& s) {
    std::string out;
    const auto ref = [&](const Ref& r) {
      if (!r.input.empty()) return "?" + r.input;
      return s.calls[r.call].op == "split" ? fmt::format("%s{}_{}", r.call, r.index) : fmt::format("%v{}", r.call);
    };
    for (size_t i = 0; i < s.calls.size(); ++i) {
      const TasoCall& c = s.calls[i];
      const std::string a = ref(c.inputs[0]), b = ref(c.inputs.back());
      if (c.op == "conv2d") {
        const int64_t h = (c.number("kernel_h") - 1) / 2, w = (c.number("kernel_w") - 1) / 2;
        const std::string conv = fmt::format("conv({}, {}){{strides=[{}, {}], pads=[{}, {}, {}, {}]}}", a, b,
                                             c.number("stride_h"), c.number("stride_w"), h, w, h, w);
        const bool relu = c.attrs.contains("activation") && c.attrs.at("activation") == "relu";
        out += fmt::format("  %v{} = {}\n", i, relu ? "relu(" + conv + ")" : conv);
      } else if (c.op == "concat") {
        out += fmt::format("  %v{} = concat({}, {}){{axis={}}}\n", i, a, b, c.number("axis"));
      } else if (c.op == "split") {
        const auto& [first, second] = cuts_[&s][&c];
        out += fmt::format("  %s{}_0, %s{}_1 = split({}, [{}, {}]){{axis={}}}\n", i, i, a, size(first), size(second),
                           c.number("axis"));
      } else if (c.op == "relu") {
        out += fmt::format("  %v{} = relu({})\n", i, a);
      } else {
        out += fmt::format("  %v{} = {}({}, {})\n", i, c.op, a, b);
      }
    }
    out += s.outputs.size() > 1 ? "  [" : "  ";
    for (size_t i = 0; i < s.outputs.size(); ++i) out += (i ? ", " : "") + ref(s.outputs[i]);
    return out + (s.outputs.size() > 1 ? "]\n" : "\n");
  }

  int64_t number_;
  const TasoSide &left_, &right_;
  std::map<std::string, int64_t> ranks_;
  bool elementwise_ = false;
  Shapes shapes_;
  std::map<const TasoSide*, std::map<const TasoCall*, std::pair<Linear, Linear>>> cuts_;
  std::vector<std::string> conditions_;
};

}  // namespace

Expected<std::vector<TasoRule>> read_taso(std::string_view text, const ir::OpTable& table, const std::string& file) {
  Reader reader(text, file);
  std::vector<TasoRule> out;
  while (!reader.at_end()) {
    TasoRule r;
    ISOMER_TRY(r.number, reader.number());
    ISOMER_TRY(const TasoSide left, reader.side());
    ISOMER_CHECK_OK(reader.arrow());
    ISOMER_TRY(const TasoSide right, reader.side());
    if (left.outputs.size() != right.outputs.size())
      return Diagnostic("E-rule-shape", fmt::format("TASO's rule {} has sides of different outputs", r.number));
    r.text = Converter(r.number, left, right).convert(r.problem);
    if (r.problem.empty()) {
      auto rules = parse_rules(r.text, table, file, "taso");
      if (rules.ok())
        r.rule = std::move(rules->front());
      else
        r.problem = rules.error().message;
    }
    out.push_back(std::move(r));
  }
  return out;
}

}  // namespace isomer::rewrite
