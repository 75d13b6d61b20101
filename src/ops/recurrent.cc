#include "ops/recurrent.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace isomer::ops {
namespace {

struct Sizes {
  Dim steps, batch, hidden;
  int64_t directions = 1;
  bool batch_first = false, reverse = false;
};

// A size with the number it must be equal to where both are known.
Expected<void> check_extent(const ir::OpContext& c, size_t i, size_t axis, const Dim& expected) {
  const Dim& d = c.dim(i, axis);
  if (!d.is_const() || !expected.is_const() || d == expected) return {};
  return c.error(fmt::format("input '{}' is {}, expected {} along axis {}", c.op().inputs[i].name,
                             c.shape(i).to_string(), expected.value(), axis));
}

Expected<void> check_shape(const ir::OpContext& c, size_t i, const std::vector<Dim>& dims) {
  if (!c.has(i)) return {};
  if (c.rank(i) != dims.size())
    return c.error(
        fmt::format("input '{}' is {}, expected rank {}", c.op().inputs[i].name, c.shape(i).to_string(), dims.size()));
  for (size_t a = 0; a < dims.size(); ++a) ISOMER_CHECK_OK(check_extent(c, i, a, dims[a]));
  return {};
}

Expected<Sizes> sizes_of(const ir::OpContext& c, const CellKind& kind) {
  using enum RecurrentInput::Place;
  Sizes s;
  const std::string& direction = c.text("direction");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    return c.error(fmt::format("unknown direction {}", quoted(direction)));
  s.directions = direction == "bidirectional" ? 2 : 1;
  s.reverse = direction == "reverse";
  const int64_t layout = kind.by_column ? 0 : c.integer("layout");
  if (layout != 0 && layout != 1) return c.error(fmt::format("'layout' is {}, expected 0 or 1", layout));
  s.batch_first = layout == 1;
  for (size_t i : {X, W, R})
    if (c.rank(i) != 3)
      return c.error(fmt::format("input '{}' is {}, expected rank 3", c.op().inputs[i].name, c.shape(i).to_string()));
  s.steps = c.dim(X, s.batch_first ? 1 : 0);
  s.batch = c.dim(X, s.batch_first ? 0 : 1);
  s.hidden = c.dim(R, kind.by_column ? 1 : 2);
  if (c.has_attr("hidden_size")) {
    const Dim given = c.integer("hidden_size");
    if (s.hidden.is_const() && !(given == s.hidden))
      return c.error(fmt::format("'hidden_size' is {}, the weights say {}", given.value(), s.hidden.value()));
    s.hidden = given;
  }
  if (s.hidden.is_const() && s.hidden.value() < 1) return c.error("the hidden size is less than 1");
  const Dim gates = Dim(static_cast<int64_t>(kind.gates)) * s.hidden;
  if (gates.is_invalid()) return c.error("the hidden size is too large");
  const auto weights = [&](const Dim& rows) {
    return kind.by_column ? std::vector<Dim>{s.directions, rows, gates} : std::vector<Dim>{s.directions, gates, rows};
  };
  ISOMER_CHECK_OK(check_shape(c, W, weights(c.dim(X, 2))));
  ISOMER_CHECK_OK(check_shape(c, R, weights(s.hidden)));
  ISOMER_CHECK_OK(check_shape(c, B, {s.directions, gates * Dim(2)}));
  ISOMER_CHECK_OK(check_shape(c, Lengths, {s.batch}));
  const std::vector<Dim> state = s.batch_first ? std::vector<Dim>{s.batch, s.directions, s.hidden}
                                               : std::vector<Dim>{s.directions, s.batch, s.hidden};
  ISOMER_CHECK_OK(check_shape(c, InitialH, state));
  if (kind.has_cell) {
    ISOMER_CHECK_OK(check_shape(c, InitialC, state));
    ISOMER_CHECK_OK(check_shape(c, P, {s.directions, s.hidden * Dim(3)}));
  }
  return s;
}

struct Known {
  const char* name;
  bool alpha, beta;
  double standard_alpha, standard_beta;
};
constexpr Known kKnown[] = {{"affine", true, true, 1, 0},          {"elu", true, false, 1, 0},
                            {"hardsigmoid", true, true, 0.2, 0.5}, {"leakyrelu", true, false, 0.01, 0},
                            {"relu", false, false, 0, 0},          {"scaledtanh", true, true, 1, 1},
                            {"sigmoid", false, false, 0, 0},       {"softplus", false, false, 0, 0},
                            {"softsign", false, false, 0, 0},      {"tanh", false, false, 0, 0},
                            {"thresholdedrelu", true, false, 1, 0}};

// The activations of all directions, one after the other; alpha and beta go to those that have them, in order.
Expected<std::vector<Activation>> activations_of(const ir::OpContext& c, const CellKind& kind, int64_t directions) {
  std::vector<std::string> names = c.strings("activations");
  if (names.empty())
    for (int64_t d = 0; d < directions; ++d)
      names.insert(names.end(), kind.activations.begin(), kind.activations.end());
  const size_t expected = kind.activations.size() * static_cast<size_t>(directions);
  if (names.size() != expected)
    return c.error(fmt::format("{} activations are given, expected {}", names.size(), expected));
  const std::vector<double> alphas = c.reals("activation_alpha"), betas = c.reals("activation_beta");
  size_t alpha = 0, beta = 0;
  std::vector<Activation> out;
  for (const std::string& given : names) {
    Activation a;
    for (char ch : given) a.name.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(ch))));
    const auto* known =
        std::find_if(std::begin(kKnown), std::end(kKnown), [&](const Known& k) { return a.name == k.name; });
    if (known == std::end(kKnown)) return c.error(fmt::format("unknown activation {}", quoted(given)));
    a.alpha = known->alpha && alpha < alphas.size() ? alphas[alpha++] : known->standard_alpha;
    a.beta = known->beta && beta < betas.size() ? betas[beta++] : known->standard_beta;
    out.push_back(std::move(a));
  }
  return out;
}

}  // namespace

ir::Value Activation::apply(Compose& f, ir::Value x) const {
  const auto shift = [&](ir::Value v, double by) { return by == 0 ? v : f.add(v, f.scalar(f.type(v).dtype, by)); };
  if (name == "affine") return shift(f.scale(x, alpha), beta);
  if (name == "scaledtanh") return f.scale(f("tanh", {f.scale(x, beta)}), alpha);
  if (name == "elu") return f("elu", {x}, {{"alpha", alpha}});
  if (name == "hardsigmoid") return f("hard_sigmoid", {x}, {{"alpha", alpha}, {"beta", beta}});
  if (name == "leakyrelu") return f("leaky_relu", {x}, {{"alpha", alpha}});
  if (name == "thresholdedrelu") return f("thresholded_relu", {x}, {{"alpha", alpha}});
  return f(name, {x});
}

ir::Value Direction::activate(Compose& f, size_t k, ir::Value x) const {
  if (clip > 0) x = f("clip", {x, f.scalar(f.type(x).dtype, -clip), f.scalar(f.type(x).dtype, clip)});
  return activations[k].apply(f, x);
}

std::vector<ir::InputDef> recurrent_inputs(const CellKind& kind) {
  using enum ir::Arity;
  std::vector<ir::InputDef> in = {{"x", "T", kFloats},
                                  {"w", "T", kFloats},
                                  {"r", "T", kFloats},
                                  {"b", "T", kFloats, Optional},
                                  {"sequence_lens", "I", DType::I32, Optional},
                                  {"initial_h", "T", kFloats, Optional}};
  if (kind.has_cell) {
    in.push_back({"initial_c", "T", kFloats, Optional});
    in.push_back({"p", "T", kFloats, Optional});
  }
  return in;
}

std::vector<ir::OutputDef> recurrent_outputs(const CellKind& kind) {
  using enum ir::Arity;
  std::vector<ir::OutputDef> out = {{"y", "T", Optional}, {"y_h", "T", Optional}};
  if (kind.has_cell) out.push_back({"y_c", "T", Optional});
  return out;
}

std::vector<ir::AttrDef> recurrent_attrs() {
  using enum ir::AttrKind;
  return {{.name = "activation_alpha", .kind = Reals},
          {.name = "activation_beta", .kind = Reals},
          {.name = "activations", .kind = Strings},
          {.name = "clip", .kind = Real},
          {.name = "direction", .kind = String, .standard = ir::AttrValue(std::string("forward"))},
          {.name = "hidden_size", .kind = Int},
          {.name = "layout", .kind = Int, .standard = ir::AttrValue(int64_t{0})}};
}

std::vector<ir::OnnxForm> recurrent_onnx(std::string type, std::vector<int> since) {
  return {{.type = std::move(type),
           .since = std::move(since),
           .stable = 14,
           .import = [](ir::ForeignNode& n, ir::GraphBuilder& b) -> Expected<std::vector<ir::Value>> {
             n.attrs.erase("output_sequence");  // whether Y is wanted is told by the outputs
             return ir::add_as_is(n, b);
           }}};
}

Expected<std::vector<Type>> infer_recurrent(const ir::OpContext& c, const CellKind& kind) {
  ISOMER_TRY(const Sizes s, sizes_of(c, kind));
  ISOMER_CHECK_OK(activations_of(c, kind, s.directions));
  if (c.has_attr("clip") && !(c.real("clip") >= 0)) return c.error("'clip' must not be negative");
  std::vector<Type> types;
  for (size_t k = 0; k < c.output_count(); ++k) {
    if (k == 0)
      types.push_back(c.out(k, s.batch_first ? Shape{s.batch, s.steps, s.directions, s.hidden}
                                             : Shape{s.steps, s.directions, s.batch, s.hidden}));
    else
      types.push_back(
          c.out(k, s.batch_first ? Shape{s.batch, s.directions, s.hidden} : Shape{s.directions, s.batch, s.hidden}));
  }
  return types;
}

ir::Value pick(Compose& f, ir::Value v, int64_t d) {
  return v.is_none() ? v : f("gather", {v, f.constant(Tensor::int_scalar(DType::I64, d))}, {{"axis", int64_t{0}}});
}

namespace {

// What the steps of one direction work with.
struct Unrolled {
  std::vector<ir::Value> x;      // by step: products of the inputs
  std::vector<ir::Value> valid;  // by step: which sequences are that long; empty: all
  State initial;
};

std::vector<ir::Value> validity(Compose& f, const ir::OpContext& c, ir::Value lengths, int64_t steps) {
  if (lengths.is_none()) return {};
  if (const auto known = c.ints_value(RecurrentInput::Lengths))
    if (std::all_of(known->begin(), known->end(), [&](int64_t n) { return n >= steps; })) return {};
  const ir::Value by_sequence = f.reshape(lengths, {1, -1, 1});
  std::vector<ir::Value> valid;
  for (int64_t t = 0; t < steps; ++t)
    valid.push_back(f("less", {f.scalar(DType::I32, static_cast<double>(t)), by_sequence}));
  return valid;
}

// The products of all inputs with direction k's weights; the direction learns how it multiplies its states.
ir::Value multiply(Compose& f, std::span<const ir::Value> in, ir::Value x, int64_t k, const Product& product,
                   Direction& d) {
  using enum RecurrentInput::Place;
  if (product) {
    d.carry = [&product, k](Compose& compose, ir::Value state) { return product(compose, state, R, k); };
    return product(f, x, W, k);
  }
  const auto by_column = [&](size_t weights) { return f.transpose(pick(f, input_at(in, weights), k), {1, 0}); };
  d.recurrent = by_column(R);
  d.carry = [r = d.recurrent](Compose& compose, ir::Value state) { return compose.matmul(state, r); };
  return f.matmul(x, by_column(W));
}

// Runs the cell over the steps; outputs are [1,batch,hidden] by step.
State unroll(Compose& f, const Direction& d, const Unrolled& u, bool backwards, DType dtype, const Cell& cell,
             std::vector<ir::Value>& outputs) {
  State state = u.initial;
  const size_t steps = u.x.size();
  outputs.assign(steps, ir::Value::none());
  const ir::Value zero = f.scalar(dtype, 0);
  for (size_t s = 0; s < steps && !f.failed(); ++s) {
    const size_t t = backwards ? steps - 1 - s : s;
    State next = cell(f, d, u.x[t], state);
    outputs[t] = next.h;
    if (!u.valid.empty()) {
      const auto hold = [&](ir::Value now, ir::Value before) {
        return now.is_none() ? now : f.where(u.valid[t], now, before.is_none() ? zero : before);
      };
      outputs[t] = f.where(u.valid[t], next.h, zero);
      next = {hold(next.h, state.h), hold(next.c, state.c)};
    }
    state = next;
  }
  return state;
}

}  // namespace

Expected<std::vector<ir::Value>> expand_recurrent(const ir::OpContext& c, ir::GraphBuilder& b,
                                                  std::span<const ir::Value> in, const CellKind& kind, bool own_bias,
                                                  const Cell& cell, const Product& product) {
  using enum RecurrentInput::Place;
  ISOMER_TRY(const Sizes s, sizes_of(c, kind));
  ISOMER_TRY(const std::vector<Activation> activations, activations_of(c, kind, s.directions));
  if (!s.steps.is_const() || s.steps.value() < 1 || !s.hidden.is_const())
    return c.error(
        fmt::format("needs the length of the sequence and the hidden size as numbers, at least 1, found {} and {}",
                    s.steps.to_string(), s.hidden.to_string()));
  Compose f(b);
  const DType dtype = c.dtype(X);
  const int64_t width = static_cast<int64_t>(kind.gates) * s.hidden.value();
  ir::Value x = input_at(in, X), h0 = input_at(in, InitialH),
            c0 = kind.has_cell ? input_at(in, InitialC) : ir::Value::none();
  const auto steps_first = [&](ir::Value v) { return v.is_none() || !s.batch_first ? v : f.transpose(v, {1, 0, 2}); };
  x = steps_first(x), h0 = steps_first(h0), c0 = steps_first(c0);
  Unrolled u;
  u.valid = validity(f, c, input_at(in, Lengths), s.steps.value());
  std::vector<ir::Value> ys, hs, cs;
  for (int64_t k = 0; k < s.directions; ++k) {
    Direction d;
    d.hidden = s.hidden.value();
    d.clip = c.has_attr("clip") ? c.real("clip") : 0;
    const auto first = activations.begin() + k * static_cast<int64_t>(kind.activations.size());
    d.activations.assign(first, first + static_cast<ptrdiff_t>(kind.activations.size()));
    d.peepholes = kind.has_cell ? pick(f, input_at(in, P), k) : ir::Value::none();
    ir::Value products = multiply(f, in, x, k, product, d);
    if (const ir::Value bias = pick(f, input_at(in, B), k); !bias.is_none()) {
      const auto halves = f.split(bias, 0, std::vector<int64_t>{width, width});
      products = f.add(products, own_bias ? halves[0] : f.add(halves[0], halves[1]));
      if (own_bias) d.recurrent_bias = halves[1];
    }
    u.x = f.split(products, 0, static_cast<size_t>(s.steps.value()));
    const auto initial = [&](ir::Value v) { return v.is_none() ? v : f.slice(v, 0, k, k + 1); };
    u.initial = {initial(h0), initial(c0)};
    std::vector<ir::Value> outputs;
    const State last = unroll(f, d, u, s.reverse || k == 1, dtype, cell, outputs);
    ys.push_back(f.unsqueeze(f.concat(std::move(outputs), 0), {1}));
    hs.push_back(last.h);
    cs.push_back(last.c);
  }
  ir::Value y = f.concat(std::move(ys), 1);
  if (s.batch_first) y = f.transpose(y, {2, 0, 1, 3});
  std::vector<ir::Value> results = {y, steps_first(f.concat(std::move(hs), 0))};
  if (kind.has_cell) results.push_back(steps_first(f.concat(std::move(cs), 0)));
  results.resize(c.output_count());
  return f.finish(std::move(results));
}

}  // namespace isomer::ops
