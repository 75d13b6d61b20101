#include "verify/sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "interp/interp.h"
#include "verify/evaluation.h"

namespace isomer::verify {
namespace {

std::optional<Dim> look_up(const Bindings& b, const std::string& name) {
  const auto it = b.find(name);
  return it == b.end() ? std::nullopt : std::optional(it->second);
}

Dim bound(const Dim& d, const Bindings& b) {
  return d.substitute([&](const std::string& name) { return look_up(b, name); });
}

std::vector<Dim> bound(const std::vector<Dim>& dims, const Bindings& b) {
  std::vector<Dim> out;
  for (const Dim& d : dims) out.push_back(bound(d, b));
  return out;
}

// Scalar operations that one trial may take in a stage, so that a draw of large sizes costs nothing.
constexpr int64_t kMaxWork = 20000;

}  // namespace

Expected<ir::Graph> at_sizes(const ir::Graph& graph, const Bindings& bindings, const ir::OpTable& table) {
  ir::GraphBuilder builder(table, graph.name());
  std::vector<std::vector<ir::Value>> made(graph.nodes().size());
  for (uint32_t id = 0; id < graph.nodes().size(); ++id) {
    const ir::Node& n = graph.node(id);
    if (n.op == &ir::input_op()) {
      Type type = n.types[0];
      if (type.shape.has_rank()) type.shape = Shape(bound(type.shape.dims(), bindings));
      ISOMER_TRY(const ir::Value v, builder.input(n.names[0], type));
      made[id] = {v};
      continue;
    }
    if (n.op == &ir::const_op()) {
      const auto* sizes = n.attrs.get<ir::Sizes>("value");
      made[id] = {sizes ? builder.sizes(bound(sizes->dims, bindings))
                        : builder.constant(*n.attrs.get<Tensor>("value"))};
      continue;
    }
    std::vector<ir::Value> inputs = n.inputs;
    for (ir::Value& v : inputs)
      if (!v.is_none()) v = made[v.node][v.index];
    ir::Attrs attrs;
    for (const auto& [key, value] : n.attrs) {
      if (const auto* sizes = std::get_if<ir::Sizes>(&value))
        attrs.set(key, ir::Sizes(bound(sizes->dims, bindings)));
      else
        attrs.set(key, value);
    }
    ISOMER_TRY(made[id], builder.add(*n.op, inputs, attrs, {}, n.types.size()));
  }
  for (const ir::Output& o : graph.outputs()) builder.output(o.name, made[o.value.node][o.value.index]);
  return std::move(builder).finish();
}

std::vector<std::string> symbols(const ir::Graph& graph) {
  std::vector<std::string> out;
  const auto add = [&](const Dim& d) { d.symbols(out); };
  for (const ir::Node& n : graph.nodes()) {
    if (n.op == &ir::input_op())
      for (const Dim& d : n.types[0].shape.dims()) add(d);
    for (const auto& [key, value] : n.attrs)
      if (const auto* sizes = std::get_if<ir::Sizes>(&value))
        for (const Dim& d : sizes->dims) add(d);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

namespace {

// A symbol that an expression holds as a plain term of coefficient 1 or -1, and what it equals when the whole is 0.
std::optional<std::pair<std::string, Dim>> solvable(const Dim& d) {
  for (const Dim::Product& t : d.terms()) {
    if (t.factors.size() != 1 || t.factors[0].kind != Dim::Factor::Kind::Symbol) continue;
    if (t.coefficient != 1 && t.coefficient != -1) continue;
    const std::string& name = t.factors[0].name;
    const Dim rest = d - Dim::symbol(name) * Dim(t.coefficient);
    std::vector<std::string> others;
    rest.symbols(others);
    if (std::find(others.begin(), others.end(), name) != others.end()) continue;
    return std::pair(name, t.coefficient == 1 ? Dim(0) - rest : rest);
  }
  return std::nullopt;
}

int64_t lower(const Conditions& c, const std::string& name) {
  const auto it = c.at_least.find(name);
  return it == c.at_least.end() ? 1 : it->second;
}

}  // namespace

Solved solve_equations(const Conditions& conditions) {
  Solved out;
  out.rest = conditions;
  for (bool progress = true; progress;) {
    progress = false;
    for (size_t i = 0; i < out.rest.zero.size(); ++i) {
      const auto s = solvable(out.rest.zero[i]);
      if (!s) continue;
      out.rest.zero.erase(out.rest.zero.begin() + static_cast<ptrdiff_t>(i));
      const Bindings one{{s->first, s->second}};
      for (auto& [name, d] : out.bindings) d = bound(d, one);
      out.rest.zero = bound(out.rest.zero, one);
      out.rest.not_negative = bound(out.rest.not_negative, one);
      out.rest.not_zero = bound(out.rest.not_zero, one);
      out.rest.not_negative.push_back(s->second - Dim(lower(conditions, s->first)));
      out.bindings[s->first] = s->second;
      progress = true;
      break;
    }
  }
  return out;
}

namespace {

// Doubles that are never rounded to a type in between.
struct WideDomain : te::DoubleDomain {
  Real round(DType, const Real& v) const { return v; }
};
using Array = te::Array<WideDomain>;

// How the numbers of one trial are drawn: what tells sums apart does not tell maxima apart, and the other way round.
enum class Draw : uint8_t { Signed, Positive, Negative, Sparse, Far };
constexpr Draw kDraws[] = {Draw::Signed, Draw::Positive, Draw::Negative, Draw::Sparse, Draw::Far};
// Beyond where clips and gates of networks bend, and small enough for a sum with exponentials to keep its other terms.
constexpr double kFar = 12;
const char* name(Draw d) {
  switch (d) {
    case Draw::Signed: return "uniform in [-2,2]";
    case Draw::Positive: return "uniform in [0.25,2]";
    case Draw::Negative: return "uniform in [-2,-0.25]";
    case Draw::Sparse: return "mostly 0, else uniform in [-2,2]";
    case Draw::Far: return "uniform in [-12,12]";
  }
  return "";
}

double draw(Draw d, Random& r) {
  switch (d) {
    case Draw::Signed: return r.uniform(-2, 2);
    case Draw::Positive: return r.uniform(0.25, 2);
    case Draw::Negative: return r.uniform(-2, -0.25);
    case Draw::Sparse: return r.flip(0.25) ? r.uniform(-2, 2) : 0;
    case Draw::Far: return r.uniform(-kFar, kFar);
  }
  return 0;
}

// The left side claims something only where it is a number.
bool differ(double left, double right) {
  if (!std::isfinite(left)) return false;
  return std::isnan(right) || std::abs(left - right) > 1e-6 * (1 + std::abs(left) + std::abs(right));
}

std::string position(size_t flat, const std::vector<int64_t>& dims) {
  std::vector<int64_t> at(dims.size());
  auto rest = static_cast<int64_t>(flat);
  for (size_t i = dims.size(); i-- > 0;) {
    at[i] = rest % dims[i];
    rest /= dims[i];
  }
  return "[" + fmt::format("{}", fmt::join(at, ",")) + "]";
}

std::map<std::string, Array> drawn(const ir::Graph& graph, const Conditions& conditions, Draw how, Random& r) {
  const auto among = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  std::map<std::string, Array> out;
  for (const ir::Node& n : graph.inputs()) {
    Array a;
    a.dtype = n.types[0].dtype;
    a.dims = n.types[0].shape.values();
    int64_t count = 1;
    for (int64_t d : a.dims) count *= d;
    const bool above = among(conditions.positive_inputs, n.names[0]);
    const bool not_below = among(conditions.not_negative_inputs, n.names[0]);
    for (int64_t i = 0; i < count; ++i) {
      if (is_float(a.dtype))
        a.reals.push_back(not_below ? std::abs(draw(how, r)) : draw(above ? Draw::Positive : how, r));
      else
        a.ints.push_back(a.dtype == DType::Bool ? r.between(0, 1) : r.between(is_signed_int(a.dtype) ? -9 : 0, 9));
    }
    out[n.names[0]] = std::move(a);
  }
  return out;
}

// The same inputs through the reference interpreter: the difference that counts.
bool confirmed(const ir::Graph& left, const ir::Graph& right, const ir::OpTable& table,
               const std::map<std::string, Array>& inputs, size_t output, size_t element, Counterexample& c) {
  double values[2];
  int side = 0;
  for (const ir::Graph* g : {&left, &right}) {
    std::vector<Tensor> in;
    for (const ir::Node& n : g->inputs()) {
      const Array& a = inputs.at(n.names[0]);
      Tensor t(a.dtype, a.dims);
      for (size_t i = 0; i < a.reals.size(); ++i) t.set_real(static_cast<int64_t>(i), a.reals[i]);
      for (size_t i = 0; i < a.ints.size(); ++i) t.set_integer(static_cast<int64_t>(i), a.ints[i]);
      in.push_back(std::move(t));
    }
    interp::Options options;
    options.wide = true;
    options.threads = 1;
    const auto out = interp::run(*g, table, in, options);
    if (!out.ok()) return false;
    const Tensor& t = (*out)[output];
    values[side++] = is_float(t.dtype()) ? t.to_reals()[element] : static_cast<double>(t.to_ints()[element]);
  }
  c.left = fmt::format("{}", values[0]);
  c.right = std::isnan(values[1]) ? "no number" : fmt::format("{}", values[1]);
  return differ(values[0], values[1]);
}

}  // namespace

SizeSpace::SizeSpace(const ir::Graph& left, const ir::Graph& right, const Conditions& conditions)
    : conditions_(conditions), solved_(solve_equations(conditions)) {
  for (const ir::Graph* g : {&left, &right})
    for (const std::string& s : symbols(*g))
      if (!solved_.bindings.contains(s)) free_.push_back(s);
  for (const auto& list : {solved_.rest.zero, solved_.rest.not_negative})
    for (const Dim& d : list) d.symbols(free_);
  for (const auto& [name, d] : solved_.bindings) d.symbols(free_);
  std::sort(free_.begin(), free_.end());
  free_.erase(std::unique(free_.begin(), free_.end()), free_.end());
  std::erase_if(free_, [&](const std::string& s) { return solved_.bindings.contains(s); });
}

int64_t SizeSpace::lower(const std::string& symbol) const { return verify::lower(conditions_, symbol); }

std::optional<std::map<std::string, int64_t>> SizeSpace::complete(std::map<std::string, int64_t> chosen) const {
  Bindings numbers;
  for (const auto& [name, v] : chosen) numbers[name] = Dim(v);
  for (const auto& [name, d] : solved_.bindings) {
    const auto v = bound(d, numbers).constant();
    if (!v || *v < lower(name)) return std::nullopt;
    chosen[name] = *v;
  }
  for (const Dim& d : solved_.rest.zero)
    if (bound(d, numbers).constant() != 0) return std::nullopt;
  for (const Dim& d : solved_.rest.not_zero)
    if (bound(d, numbers).constant() == 0) return std::nullopt;
  for (const Dim& d : solved_.rest.not_negative) {
    const auto v = bound(d, numbers).constant();
    if (!v || *v < 0) return std::nullopt;
  }
  return chosen;
}

namespace {

class Sampler {
 public:
  Sampler(const ir::Graph& left, const ir::Graph& right, const Conditions& conditions, const ir::OpTable& table)
      : left_(left), right_(right), conditions_(conditions), table_(table), space_(left, right, conditions) {}

  // Sizes of one trial, when they meet the conditions.
  std::optional<std::map<std::string, int64_t>> sizes(int trial, int64_t most, Random& r) const {
    std::map<std::string, int64_t> out;
    const int64_t reach = trial == 0 ? 0 : trial % 4 == 0 ? most : trial % 4;
    for (const std::string& s : space_.free()) out[s] = space_.lower(s) + r.between(0, reach);
    return space_.complete(std::move(out));
  }

  // One trial at these sizes; fills in what it learns.
  void attempt(const std::map<std::string, int64_t>& at, uint64_t seed, Sampled& out) const {
    Bindings numbers;
    for (const auto& [name, v] : at) numbers[name] = Dim(v);
    const auto l = at_sizes(left_, numbers, table_), r = at_sizes(right_, numbers, table_);
    if (!l.ok()) return void(out.why_not = l.error().message);
    Evaluation a, b;
    if (const auto ok = a.load(*l, table_, kMaxWork); !ok.ok()) return void(out.why_not = ok.error().message);
    if (!r.ok()) {
      // A match must always give a replacement: sizes at which it is no graph should have been ruled out.
      out.counterexample = Counterexample{at, seed, "", 0, "type", "", r.error().message};
      return;
    }
    if (const auto ok = b.load(*r, table_, kMaxWork); !ok.ok()) return void(out.why_not = ok.error().message);
    ++out.tried;
    for (size_t k = 0; k < l->outputs().size(); ++k) {
      if (a.dims(k) == b.dims(k)) continue;
      Counterexample c{at,
                       seed,
                       "",
                       k,
                       "shape",
                       l->type(l->outputs()[k].value).to_string(),
                       r->type(r->outputs()[k].value).to_string()};
      out.counterexample = std::move(c);
      return;
    }
    for (const Draw how : kDraws) {
      compare(*l, *r, a, b, at, how, seed, out);
      if (out.counterexample) return;
    }
  }

 private:
  void compare(const ir::Graph& l, const ir::Graph& r, const Evaluation& a, const Evaluation& b,
               const std::map<std::string, int64_t>& at, Draw how, uint64_t seed, Sampled& out) const {
    Random random(seed * 4 + static_cast<uint64_t>(how));
    std::map<std::string, Array> inputs = drawn(l, conditions_, how, random);
    for (auto& [name, array] : drawn(r, conditions_, how, random)) inputs.emplace(name, std::move(array));
    const auto x = a.run(WideDomain{}, inputs), y = b.run(WideDomain{}, inputs);
    if (!x.ok() || !y.ok()) return void(out.why_not = (x.ok() ? y.error() : x.error()).message);
    for (size_t k = 0; k < x->size(); ++k)
      for (size_t i = 0; i < std::max((*x)[k].reals.size(), (*x)[k].ints.size()); ++i) {
        const bool reals = !(*x)[k].reals.empty();
        if (reals == (*y)[k].reals.empty()) return void(out.why_not = "the sides give different element types");
        const double u = reals ? (*x)[k].reals[i] : static_cast<double>((*x)[k].ints[i]);
        const double v = reals ? (*y)[k].reals[i] : static_cast<double>((*y)[k].ints[i]);
        if (!std::isfinite(u) || std::isinf(v)) continue;
        ++out.compared;
        // Larger differences come from literals, which are single floats on one side only.
        if (u != v && std::abs(u - v) <= 1e-9 * (std::abs(u) + std::abs(v)) && !out.rounded)
          out.rounded = Counterexample{
              at, seed, name(how), k, position(i, (*x)[k].dims), fmt::format("{}", u), fmt::format("{}", v)};
        if (!differ(u, v)) continue;
        Counterexample c{at, seed, name(how), k, position(i, (*x)[k].dims), "", ""};
        if (!confirmed(l, r, table_, inputs, k, i, c)) continue;
        out.counterexample = std::move(c);
        return;
      }
  }

  const ir::Graph &left_, &right_;
  const Conditions& conditions_;
  const ir::OpTable& table_;
  SizeSpace space_;
};

}  // namespace

Sampled sample(const ir::Graph& left, const ir::Graph& right, const Conditions& conditions, const ir::OpTable& table,
               int trials, uint64_t seed, int64_t reach) {
  const Sampler sampler(left, right, conditions, table);
  Sampled out;
  Random random(seed);
  int draws = 0;
  for (int trial = 0; trial < trials && draws < 400 * trials; ++draws) {
    const auto at = sampler.sizes(draws, reach, random);
    if (!at) {
      if (out.why_not.empty()) out.why_not = "no sizes that were drawn meet the conditions";
      continue;
    }
    const int before = out.tried;
    sampler.attempt(*at, seed + static_cast<uint64_t>(draws), out);
    if (out.counterexample) return out;
    // Ill-typed draws are cheap: many are allowed.
    if (out.tried > before || draws % 20 == 19) ++trial;
  }
  return out;
}

}  // namespace isomer::verify
