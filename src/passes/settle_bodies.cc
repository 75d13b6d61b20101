// What is known of a body before it runs. The sizes inside follow from what goes in; states of a loop that never change are captures,
// and a condition that depends on known numbers alone says how often it runs.
#include <algorithm>
#include <map>

#include "interp/interp.h"
#include "passes/lasting_type.h"
#include "passes/pass.h"
#include "passes/piece.h"
#include "passes/rebuild.h"

namespace isomer::passes {
namespace {

constexpr int64_t kLargestCondition = 256;  // elements of what a condition is computed from

ir::Value source(const ir::Graph& g, ir::Value v) {
  while (g.node(v.node).op->name == "identity") v = g.node(v.node).inputs[0];
  return v;
}

const Tensor* constant(const ir::Graph& g, ir::Value v) {
  return g.node(v.node).op == &ir::const_op() ? g.node(v.node).attrs.get<Tensor>("value") : nullptr;
}

bool always_true(const ir::Graph& body) {
  const ir::Value v = source(body, body.outputs()[0].value);
  const Tensor* t = constant(body, v);
  return v == ir::Value{1, 0} || (t && t->size() == 1 && t->integer(0) != 0);
}

// Where the states of a body are among its inputs and its results.
struct States {
  size_t input, result, count;
};

// The body at these types and contents of its inputs. A state whose type a round changes keeps the declared one.
Expected<ir::Graph> body_at(const ir::Graph& body, std::vector<Type> types,
                            const std::vector<std::optional<Tensor>>& contents, const States& states,
                            const ir::OpTable& table) {
  for (size_t round = 0;; ++round) {
    auto made = specialise(body, types, contents, table);
    bool changed = false;
    for (size_t k = 0; k < states.count; ++k) {
      Type& own = types[states.input + k];
      const Type declared = lasting(body.inputs()[states.input + k].types[0]);
      if (own == declared) continue;
      if (made.ok() && round < states.count + 1 && made->type(made->outputs()[states.result + k].value) == own &&
          own.shape.is_static())
        continue;
      own = declared;
      changed = true;
    }
    if (!changed) return made;
  }
}

struct Loop {
  ir::Graph body;                             // (count, condition, states, captures) -> (condition, states, stacked)
  std::vector<ir::Value> states, captures;    // in the new graph
  std::vector<std::optional<size_t>> result;  // of the old states: the new state, or none where it never changes
};

class Settler {
 public:
  Settler(Rebuild& r, const ir::Node& n, PassContext& context) : r_(r), n_(n), context_(context) {}

  Expected<bool> run(uint32_t id) {
    const ir::GraphRef* body = n_.attrs.get<ir::GraphRef>("body");
    inputs_ = r_.inputs(id);
    if (!body || inputs_.size() < 2) return false;
    const int64_t* captures = n_.attrs.get<int64_t>("captures");
    states_ = inputs_.size() - 2 - static_cast<size_t>(captures ? *captures : 0);
    ISOMER_TRY(const ir::Graph moved, capture_what_stays(**body));
    ISOMER_TRY(loop_.body, sized(moved));
    const std::optional<int64_t> trips = always_true(loop_.body) ? std::nullopt : count();
    if (trips) {
      ISOMER_TRY(loop_.body, endless(loop_.body));
    }
    if (!trips && loop_.states.size() == states_ && loop_.body.content_hash() == (*body)->content_hash()) return false;
    return add(id, trips);
  }

 private:
  const Tensor* known(ir::Value v) const { return r_.builder().known(v); }
  Type type(ir::Value v) const { return lasting(r_.builder().type(v)); }

  // Copies the body's nodes on other inputs; `condition`: in place of the first result.
  static Expected<void> copy(ir::GraphBuilder& b, const ir::Graph& body, std::vector<std::vector<ir::Value>>& values) {
    for (uint32_t i = static_cast<uint32_t>(body.input_count()); i < body.nodes().size(); ++i) {
      const ir::Node& n = body.node(i);
      if (const Tensor* t = constant(body, {i, 0})) {
        values[i] = {b.constant(*t, n.names[0])};
        continue;
      }
      std::vector<ir::Value> in;
      for (const ir::Value& v : n.inputs) in.push_back(v.is_none() ? v : values[v.node][v.index]);
      ISOMER_TRY(values[i], b.add(*n.op, std::move(in), n.attrs, {n.names, n.label, n.origin}, n.types.size()));
    }
    return {};
  }

  // States that the body hands on as they are go to the captures.
  Expected<ir::Graph> capture_what_stays(const ir::Graph& body) {
    std::vector<uint32_t> order = {0, 1}, stays;
    std::vector<bool> kept(states_);
    for (uint32_t k = 0; k < states_; ++k) {
      kept[k] = source(body, body.outputs()[1 + k].value) != ir::Value{2 + k, 0};
      loop_.result.push_back(kept[k] ? std::optional(loop_.states.size()) : std::nullopt);
      (kept[k] ? order : stays).push_back(2 + k);
      (kept[k] ? loop_.states : loop_.captures).push_back(inputs_[2 + k]);
    }
    for (uint32_t i = static_cast<uint32_t>(2 + states_); i < body.input_count(); ++i) {
      stays.push_back(i);
      loop_.captures.push_back(inputs_[i]);
    }
    if (loop_.states.size() == states_) return body;
    order.insert(order.end(), stays.begin(), stays.end());
    ir::GraphBuilder b(context_.table(), body.name());
    std::vector<std::vector<ir::Value>> values(body.nodes().size());
    for (const uint32_t i : order) {
      ISOMER_TRY(const ir::Value v, b.input(body.node(i).names[0], lasting(body.node(i).types[0])));
      values[i] = {v};
    }
    ISOMER_CHECK_OK(copy(b, body, values));
    for (size_t k = 0; k < body.outputs().size(); ++k)
      if (k == 0 || k > states_ || kept[k - 1]) {
        const ir::Output& o = body.outputs()[k];
        b.output(o.name, values[o.value.node][o.value.index]);
      }
    return std::move(b).finish();
  }

  // The body at the types that its inputs have here, and with the captures that are known.
  Expected<ir::Graph> sized(const ir::Graph& body) {
    std::vector<Type> types;
    std::vector<std::optional<Tensor>> contents(body.input_count());
    for (const ir::Node& n : body.inputs()) types.push_back(lasting(n.types[0]));
    for (size_t k = 0; k < loop_.states.size(); ++k) types[2 + k] = type(loop_.states[k]);
    std::vector<ir::Value> left;
    for (size_t k = 0; k < loop_.captures.size(); ++k) {
      const size_t i = 2 + loop_.states.size() + k;
      if (const Tensor* t = known(loop_.captures[k]))
        contents[i] = *t;
      else
        types[i] = type(loop_.captures[k]), left.push_back(loop_.captures[k]);
    }
    loop_.captures = std::move(left);
    return body_at(body, std::move(types), contents, {2, 1, loop_.states.size()}, context_.table());
  }

  // The nodes that the condition needs, through the states it needs; nothing where they need what is not known.
  struct Slice {
    std::vector<bool> nodes;
    std::vector<size_t> states;
  };
  std::optional<Slice> slice_of(const ir::Graph& body) const {
    Slice s;
    s.nodes.resize(body.nodes().size());
    std::vector<ir::Value> wanted = {body.outputs()[0].value};
    while (!wanted.empty()) {
      const ir::Value v = wanted.back();
      wanted.pop_back();
      if (v.is_none() || constant(body, v)) continue;
      if (v.node < body.input_count()) {
        if (v.node < 2) continue;
        const size_t k = v.node - 2;
        if (k >= loop_.states.size() || !known(loop_.states[k])) return std::nullopt;
        if (std::find(s.states.begin(), s.states.end(), k) != s.states.end()) continue;
        s.states.push_back(k);
        wanted.push_back(body.outputs()[1 + k].value);
        continue;
      }
      const ir::Node& n = body.node(v.node);
      if (s.nodes[v.node]) continue;
      if (!n.op->pure || n.op->open_attrs) return std::nullopt;
      for (const Type& t : n.types) {
        const auto count = t.shape.is_static() && t.dtype != DType::Opaque ? checked_elements(t.dtype, t.shape.values())
                                                                           : Expected<int64_t>(kLargestCondition + 1);
        if (!count.ok() || *count > kLargestCondition) return std::nullopt;
      }
      s.nodes[v.node] = true;
      wanted.insert(wanted.end(), n.inputs.begin(), n.inputs.end());
    }
    return s;
  }

  // How often the loop runs, by running what its condition is made of.
  std::optional<int64_t> count() {
    const ir::Graph& body = loop_.body;
    const Tensor* most = inputs_[0].is_none() ? nullptr : known(inputs_[0]);
    const Tensor* first = inputs_[1].is_none() ? nullptr : known(inputs_[1]);
    if ((!inputs_[0].is_none() && !most) || (!inputs_[1].is_none() && !first)) return std::nullopt;
    if (first && (first->size() != 1 || first->integer(0) == 0)) return std::nullopt;
    const auto slice = slice_of(body);
    if (!slice) return std::nullopt;
    const auto piece = cut(body, slice->nodes, context_.table());
    if (!piece.ok()) return std::nullopt;
    const int64_t limit =
        std::min(context_.limits.loop_iterations, most ? most->integer(0) : std::numeric_limits<int64_t>::max());
    std::map<ir::Value, Tensor> at;
    for (const size_t k : slice->states) at[{static_cast<uint32_t>(2 + k), 0}] = *known(loop_.states[k]);
    interp::Options options;
    options.threads = 1;
    for (int64_t trips = 1; trips <= limit; ++trips) {
      for (uint32_t i = 0; i < 2; ++i) {
        const Shape& s = body.node(i).types[0].shape;
        at[{i, 0}] = Tensor::int_scalar(i == 0 ? DType::I64 : DType::Bool, i == 0 ? trips - 1 : 1)
                         .reshaped(std::vector<int64_t>(s.has_rank() ? s.rank() : 0, 1));
      }
      std::vector<Tensor> in;
      for (const ir::Value& v : piece->inputs) in.push_back(at.at(v));
      const auto out = interp::run(piece->graph, context_.table(), in, options);
      if (!out.ok()) return std::nullopt;
      for (size_t k = 0; k < out->size(); ++k) at[piece->outputs[k]] = (*out)[k];
      const auto value = [&](ir::Value v) { return constant(body, v) ? *constant(body, v) : at.at(v); };
      const Tensor on = value(body.outputs()[0].value);
      if (on.size() != 1) return std::nullopt;
      if (on.integer(0) == 0) return trips;
      std::vector<Tensor> next;
      for (const size_t k : slice->states) next.push_back(value(body.outputs()[1 + k].value));
      for (size_t k = 0; k < next.size(); ++k) at[{static_cast<uint32_t>(2 + slice->states[k]), 0}] = next[k];
    }
    return most && limit == most->integer(0) ? std::optional(std::max<int64_t>(limit, 0)) : std::nullopt;
  }

  // The body with a condition that always holds.
  Expected<ir::Graph> endless(const ir::Graph& body) {
    ir::GraphBuilder b(context_.table(), body.name());
    std::vector<std::vector<ir::Value>> values(body.nodes().size());
    for (uint32_t i = 0; i < body.input_count(); ++i) {
      ISOMER_TRY(const ir::Value v, b.input(body.node(i).names[0], lasting(body.node(i).types[0])));
      values[i] = {v};
    }
    ISOMER_CHECK_OK(copy(b, body, values));
    b.output(body.outputs()[0].name, values[1][0]);
    for (size_t k = 1; k < body.outputs().size(); ++k) {
      const ir::Output& o = body.outputs()[k];
      b.output(o.name, values[o.value.node][o.value.index]);
    }
    return std::move(b).finish();
  }

  Expected<bool> add(uint32_t id, std::optional<int64_t> trips) {
    std::vector<ir::Value> in = {inputs_[0], inputs_[1]};
    if (trips) in = {r_.builder().constant(Tensor::int_scalar(DType::I64, *trips)), ir::Value::none()};
    in.insert(in.end(), loop_.states.begin(), loop_.states.end());
    in.insert(in.end(), loop_.captures.begin(), loop_.captures.end());
    ir::Attrs attrs{{"body", std::make_shared<const ir::Graph>(loop_.body)}};
    if (!loop_.captures.empty()) attrs.set("captures", static_cast<int64_t>(loop_.captures.size()));
    ir::NodeInfo info{{}, n_.label, n_.origin};
    size_t wanted = 0;
    for (size_t k = 0; k < n_.types.size(); ++k)
      if (k >= states_ || loop_.result[k]) info.names.push_back(n_.names[k]), ++wanted;
    if (wanted == 0) return false;
    ISOMER_TRY(const std::vector<ir::Value> made,
               r_.builder().add(*n_.op, std::move(in), std::move(attrs), std::move(info), wanted));
    std::vector<ir::Value> results;
    size_t next = 0;
    for (size_t k = 0; k < n_.types.size(); ++k)
      results.push_back(k < states_ && !loop_.result[k] ? inputs_[2 + k] : made[next++]);
    r_.set(id, std::move(results));
    return true;
  }

  Rebuild& r_;
  const ir::Node& n_;
  PassContext& context_;
  std::vector<ir::Value> inputs_;
  size_t states_ = 0;
  Loop loop_;
};

// The branches of an `if` at the types and with the known contents of what they capture, and what follows from them.
Expected<bool> settle_branches(Rebuild& r, const ir::Node& n, uint32_t id, PassContext& context) {
  const std::vector<ir::Value> inputs = r.inputs(id);
  std::vector<Type> types;
  std::vector<std::optional<Tensor>> contents(inputs.size() - 1);
  std::vector<ir::Value> left = {inputs[0]};
  for (size_t i = 1; i < inputs.size(); ++i) {
    types.push_back(lasting(r.builder().type(inputs[i])));
    if (const Tensor* t = r.builder().known(inputs[i]))
      contents[i - 1] = *t;
    else
      left.push_back(inputs[i]);
  }
  ir::Attrs attrs = n.attrs;
  bool changed = false;
  PassContext own(context.table());
  own.limits = context.limits;
  own.evaluate = context.evaluate;
  for (const char* name : {"then_branch", "else_branch"}) {
    const ir::GraphRef* body = n.attrs.get<ir::GraphRef>(name);
    if (!body || (*body)->input_count() != types.size()) return false;
    ISOMER_TRY(ir::Graph g, specialise(**body, types, contents, context.table()));
    ISOMER_TRY(g, fold_constants(g, own));
    ISOMER_TRY(g, inline_branches(g, own));
    ISOMER_TRY(g, settle_bodies(g, own));
    changed = changed || g.content_hash() != (*body)->content_hash();
    attrs.set(name, std::make_shared<const ir::Graph>(std::move(g)));
  }
  if (!changed) return false;
  attrs.set("captures", static_cast<int64_t>(left.size() - 1));
  if (left.size() == 1) attrs.erase("captures");
  ISOMER_TRY(std::vector<ir::Value> results,
             r.builder().add(*n.op, std::move(left), std::move(attrs), {n.names, n.label, n.origin}, n.types.size()));
  r.set(id, std::move(results));
  return true;
}

// What a body gets of a sequence.
Type element(Type t, int64_t axis) {
  if (!t.shape.has_rank()) return t;
  std::vector<Dim> dims = t.shape.dims();
  if (axis < 0) axis += static_cast<int64_t>(dims.size());
  dims.erase(dims.begin() + axis);
  t.shape = Shape(std::move(dims));
  return t;
}

// The body of a scan at the types of its states, of one element of each sequence, and with the captures that are known.
Expected<bool> settle_scan(Rebuild& r, const ir::Node& n, uint32_t id, PassContext& context) {
  const std::vector<ir::Value> inputs = r.inputs(id);
  const ir::GraphRef* body = n.attrs.get<ir::GraphRef>("body");
  const int64_t* captured = n.attrs.get<int64_t>("captures");
  const int64_t* scanned = n.attrs.get<int64_t>("num_scan_inputs");
  const auto* axes = n.attrs.get<std::vector<int64_t>>("scan_input_axes");
  if (!body || !scanned || (*body)->input_count() != inputs.size()) return false;
  const size_t own = inputs.size() - static_cast<size_t>(captured ? *captured : 0);
  const size_t states = own - static_cast<size_t>(*scanned);
  std::vector<Type> types;
  std::vector<std::optional<Tensor>> contents(inputs.size());
  std::vector<ir::Value> left;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor* t = i < own ? nullptr : r.builder().known(inputs[i]);
    types.push_back(lasting(r.builder().type(inputs[i])));
    if (i >= states && i < own) types[i] = element(types[i], axes && !axes->empty() ? (*axes)[i - states] : 0);
    if (t)
      contents[i] = *t;
    else
      left.push_back(inputs[i]);
  }
  ISOMER_TRY(ir::Graph made, body_at(**body, std::move(types), contents, {0, 0, states}, context.table()));
  if (made.content_hash() == (*body)->content_hash()) return false;
  ir::Attrs attrs = n.attrs;
  attrs.set("body", std::make_shared<const ir::Graph>(std::move(made)));
  attrs.set("captures", static_cast<int64_t>(left.size() - own));
  if (left.size() == own) attrs.erase("captures");
  ISOMER_TRY(std::vector<ir::Value> results,
             r.builder().add(*n.op, std::move(left), std::move(attrs), {n.names, n.label, n.origin}, n.types.size()));
  r.set(id, std::move(results));
  return true;
}

bool has_body(const ir::Node& n) { return n.op->name == "loop" || n.op->name == "if" || n.op->name == "scan"; }

Expected<bool> settle(Rebuild& r, const ir::Node& n, uint32_t id, PassContext& context) {
  if (n.op->name == "if") return settle_branches(r, n, id, context);
  if (n.op->name == "scan") return settle_scan(r, n, id, context);
  return Settler(r, n, context).run(id);
}

}  // namespace

Expected<ir::Graph> settle_bodies(const ir::Graph& graph, PassContext& context) {
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(), has_body)) return graph;
  return rebuild(graph, context.table(), [&](Rebuild& r, uint32_t id) -> Expected<void> {
    const ir::Node& n = graph.node(id);
    if (!has_body(n) || !context.admits()) return r.copy(id);
    const auto settled = settle(r, n, id, context);
    if (!settled.ok() || !*settled) return r.copy(id);  // what was made of it is dead
    context.applied(n.names[0]);
    return {};
  });
}

}  // namespace isomer::passes
