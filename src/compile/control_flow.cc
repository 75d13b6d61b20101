// Loops, scans and branches as steps between jumps. A body is lowered once, at the types and known contents that its inputs have
// here. The states of a loop lie in the outputs of its node; a round computes the next ones beside them and then copies them over.
#include <fmt/format.h>

#include <algorithm>

#include "compile/assembly.h"
#include "compile/compose.h"
#include "compile/step_loops.h"

namespace isomer::compile {

namespace {

constexpr int64_t kMostRounds = int64_t{1} << 22;  // as in the interpreter

const Tensor* constant(const ir::Graph& g, ir::Value v) {
  return !v.is_none() && g.node(v.node).op == &ir::const_op() ? g.node(v.node).attrs.get<Tensor>("value") : nullptr;
}

int64_t elements(const Type& t) {
  int64_t n = 1;
  for (const int64_t d : t.shape.values()) n *= d;
  return n;
}

uint64_t bytes(const Type& t) { return static_cast<uint64_t>(elements(t)) * size_of(t.dtype); }

// A loop as its node says it, a scan as the loop that it is.
struct Loop {
  ir::GraphRef body;  // (count, condition, states, captures) -> (condition, states, stacked)
  Goes goes;
  std::optional<size_t> most, condition;  // inputs of the node, where a run tells them
  std::vector<size_t> states, captures;   // inputs of the node
  std::vector<int64_t> axes;              // of the stacked results
  std::vector<bool> from_the_end;
};

class LoopPart {
 public:
  LoopPart(const Composer& composer, const ir::Graph& g, const ir::Node& n, Loop loop)
      : composer_(composer), g_(g), n_(n), loop_(std::move(loop)), a_(n.names[0], composer.options.target) {}

  Expected<Lowered> run() {
    ISOMER_CHECK_OK(lower_body());
    if (!composer_.lowers) return Lowered{};
    count_ = a_.memory(8);
    goes_ = a_.memory(1);
    condition_ = a_.memory(1);
    start();
    const uint32_t head = a_.here();
    const uint32_t leave = a_.jump(Control::JumpUnless, {goes_}, origin_of(n_));
    round();
    a_.aim(a_.jump(Control::JumpBack, {count_}, origin_of(n_), kMostRounds), head);
    a_.aim(leave, a_.here());
    a_.end_of_jumps(origin_of(n_));
    return std::move(a_).finish();
  }

 private:
  const Type& input(size_t i) const { return g_.type(n_.inputs[i]); }
  size_t states() const { return loop_.states.size(); }
  Type result(size_t k) const { return n_.types[k]; }

  Expected<void> lower_body() {
    std::vector<Type> types;
    std::vector<std::optional<Tensor>> contents(loop_.body->input_count());
    for (size_t i = 0; i < 2; ++i) {
      const Type& declared = loop_.body->inputs()[i].types[0];
      const size_t rank = declared.shape.has_rank() ? declared.shape.rank() : 0;
      types.push_back({declared.dtype, Shape(std::vector<Dim>(rank, Dim(1)))});
    }
    for (const size_t i : loop_.states) types.push_back(input(i));
    for (const size_t i : loop_.captures) {
      if (const Tensor* t = constant(g_, n_.inputs[i])) contents[types.size()] = *t;
      types.push_back(input(i));
    }
    auto made = composer_.body(*loop_.body, types, contents);
    if (!made.ok()) return cannot_compile(n_, "its body: " + made.error().message);
    body_ = *std::move(made);
    return check_results();
  }

  // States keep their sizes, and what is stacked has the sizes that the node says.
  Expected<void> check_results() const {
    const std::vector<Port>& results = body_.lowered.plan.outputs;
    for (size_t k = 0; k < states(); ++k)
      if (results[1 + k].dims != input(loop_.states[k]).shape.values())
        return cannot_compile(n_, fmt::format("state {} has another size after a round", k));
    for (size_t k = 0; states() + k < n_.types.size(); ++k) {
      const std::vector<int64_t> whole = result(states() + k).shape.values();
      std::vector<int64_t> one = whole;
      one.erase(one.begin() + axis(k));
      if (results[1 + states() + k].dims != one)
        return cannot_compile(n_, fmt::format("stacked result {} has another size in a round", k));
    }
    return {};
  }

  ptrdiff_t axis(size_t k) const {
    const int64_t a = loop_.axes[k];
    return static_cast<ptrdiff_t>(a < 0 ? a + static_cast<int64_t>(result(states() + k).shape.rank()) : a);
  }

  void copy(DType type, int64_t count, const Place& from, const Place& to) {
    if (count == 0) return;
    add(copy_loops(type, count), {from, to}, 2.0 * static_cast<double>(count) * static_cast<double>(size_of(type)));
  }

  void add(loop::Function f, std::vector<Place> arguments, double moved = 0) {
    f.origin = origin_of(n_);
    a_.add(std::move(f), std::move(arguments), moved);
  }

  Place input_place(size_t i) const { return {Space::Input, static_cast<uint32_t>(i), 0}; }

  std::vector<Place> counters(std::optional<Place> condition) const {
    std::vector<Place> out;
    if (condition) out.push_back(*condition);
    if (loop_.most) out.push_back(input_place(*loop_.most));
    out.push_back(count_);
    out.push_back(goes_);
    return out;
  }

  void start() {
    for (size_t k = 0; k < states(); ++k) {
      const Type& t = input(loop_.states[k]);
      state_.push_back(k < n_.types.size() ? Place{Space::Output, static_cast<uint32_t>(k), 0} : a_.memory(bytes(t)));
      next_.push_back(a_.memory(bytes(t)));
      copy(t.dtype, elements(t), input_place(loop_.states[k]), state_[k]);
    }
    for (size_t k = 1 + states(); k < body_.lowered.plan.outputs.size(); ++k)
      next_.push_back(a_.memory(body_.lowered.plan.outputs[k].byte_size()));
    const auto first = loop_.condition ? std::optional(input_place(*loop_.condition)) : std::nullopt;
    add(count_loops(loop_.goes, false), counters(first));
  }

  Place body_place(Space space, uint32_t index) const {
    if (space == Space::Output) return index == 0 ? condition_ : next_[index - 1];
    const size_t i = body_.inputs[index];
    if (i < 2) return i == 0 ? count_ : goes_;
    return i < 2 + states() ? state_[i - 2] : input_place(loop_.captures[i - 2 - states()]);
  }

  void round() {
    a_.add(body_.lowered, [&](Space space, uint32_t index) { return body_place(space, index); });
    for (size_t k = 0; k < states(); ++k) {
      const Type& t = input(loop_.states[k]);
      copy(t.dtype, elements(t), next_[k], state_[k]);
    }
    for (size_t k = 0; states() + k < n_.types.size(); ++k) put(k);
    Goes goes = loop_.goes;
    goes.condition = true;
    add(count_loops(goes, true), counters(condition_));
  }

  void put(size_t k) {
    const Type whole = result(states() + k);
    const std::vector<int64_t> dims = whole.shape.values();
    int64_t outer = 1, inner = 1;
    for (ptrdiff_t d = 0; d < static_cast<ptrdiff_t>(dims.size()); ++d)
      (d < axis(k) ? outer : d > axis(k) ? inner : inner) *= d == axis(k) ? 1 : dims[static_cast<size_t>(d)];
    const int64_t length = dims[static_cast<size_t>(axis(k))];
    if (outer * inner * length == 0) return;
    add(put_loops(whole.dtype, outer, inner, length, loop_.from_the_end[k]),
        {next_[states() + k], count_, {Space::Output, static_cast<uint32_t>(states() + k), 0}},
        2.0 * static_cast<double>(outer * inner) * static_cast<double>(size_of(whole.dtype)));
  }

  const Composer& composer_;
  const ir::Graph& g_;
  const ir::Node& n_;
  const Loop loop_;
  Assembly a_;
  Composer::Body body_;
  Place count_, goes_, condition_;
  std::vector<Place> state_, next_;  // by state, next ones also by stacked result
};

size_t captures_of(const ir::Node& n) {
  const int64_t* c = n.attrs.get<int64_t>("captures");
  return c ? static_cast<size_t>(*c) : 0;
}

Expected<Loop> loop_of(const ir::Graph& g, const ir::Node& n) {
  Loop loop;
  loop.body = *n.attrs.get<ir::GraphRef>("body");
  const size_t captures = captures_of(n);
  for (size_t i = 2; i < n.inputs.size(); ++i)
    (i < n.inputs.size() - captures ? loop.states : loop.captures).push_back(i);
  if (!n.inputs.empty() && !n.inputs[0].is_none()) {
    if (const Tensor* t = constant(g, n.inputs[0]))
      loop.goes.most = t->integer(0);
    else
      loop.goes.counted = true, loop.most = 0;
  }
  if (n.inputs.size() > 1 && !n.inputs[1].is_none()) loop.goes.condition = true, loop.condition = 1;
  const size_t stacked = loop.body->outputs().size() - 1 - loop.states.size();
  loop.axes.assign(stacked, 0);
  loop.from_the_end.assign(stacked, false);
  return loop;
}

std::vector<int64_t> per_value(const ir::Node& n, std::string_view name, size_t count) {
  const auto* v = n.attrs.get<std::vector<int64_t>>(name);
  return v && !v->empty() ? *v : std::vector<int64_t>(count, 0);
}

// The body of a scan as the body of a loop: it takes the sequences whole, as captures, and picks their elements itself.
Expected<ir::Graph> picking(const ir::Graph& g, const ir::Node& n, const ir::Graph& body, size_t states, size_t scanned,
                            int64_t length, const ir::OpTable& table) {
  ir::GraphBuilder b(table, body.name());
  ISOMER_TRY(const ir::Value count, b.input("count", {DType::I64, Shape(std::vector<Dim>{})}));
  ISOMER_TRY(const ir::Value condition, b.input("condition", {DType::Bool, Shape(std::vector<Dim>{})}));
  const std::vector<int64_t> axes = per_value(n, "scan_input_axes", scanned);
  const std::vector<int64_t> backwards = per_value(n, "scan_input_directions", scanned);
  std::vector<ir::Value> in;
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    ISOMER_TRY(const ir::Value v, b.input(body.inputs()[i].names[0], g.type(n.inputs[i])));
    in.push_back(v);
  }
  for (size_t k = 0; k < scanned; ++k) {
    ir::Value at = count;
    if (backwards[k] != 0) {
      ISOMER_TRY(at, b.add1("sub", {b.constant(Tensor::int_scalar(DType::I64, length - 1)), count}));
    }
    ISOMER_TRY(in[states + k], b.add1("gather", {in[states + k], at}, ir::Attrs{{"axis", axes[k]}}));
  }
  std::vector<std::vector<ir::Value>> values(body.nodes().size());
  for (uint32_t i = 0; i < body.nodes().size(); ++i) {
    const ir::Node& node = body.node(i);
    if (i < body.input_count()) {
      values[i] = {in[i]};
    } else if (node.op == &ir::const_op()) {
      values[i] = {b.constant(*node.attrs.get<Tensor>("value"), node.names[0])};
    } else {
      std::vector<ir::Value> inputs;
      for (const ir::Value& v : node.inputs) inputs.push_back(v.is_none() ? v : values[v.node][v.index]);
      ISOMER_TRY(values[i], b.add(*node.op, std::move(inputs), node.attrs, {node.names, node.label, node.origin},
                                  node.types.size()));
    }
  }
  b.output("condition", condition);
  for (const ir::Output& o : body.outputs()) b.output(o.name, values[o.value.node][o.value.index]);
  return std::move(b).finish();
}

Expected<Loop> scan_of(const Composer& composer, const ir::Graph& g, const ir::Node& n) {
  Loop loop;
  const ir::Graph& body = **n.attrs.get<ir::GraphRef>("body");
  const auto scanned = static_cast<size_t>(*n.attrs.get<int64_t>("num_scan_inputs"));
  const size_t own = n.inputs.size() - captures_of(n), states = own - scanned;
  for (size_t i = 0; i < n.inputs.size(); ++i) (i < states ? loop.states : loop.captures).push_back(i);
  const Shape& sequence = g.type(n.inputs[states]).shape;
  const int64_t axis = per_value(n, "scan_input_axes", scanned)[0];
  const int64_t length =
      sequence[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(sequence.rank()) : axis)].value();
  loop.goes.most = length;
  const size_t stacked = body.outputs().size() - states;
  loop.axes = per_value(n, "scan_output_axes", stacked);
  for (const int64_t d : per_value(n, "scan_output_directions", stacked)) loop.from_the_end.push_back(d != 0);
  ISOMER_TRY(ir::Graph picks, picking(g, n, body, states, scanned, length, composer.table));
  loop.body = std::make_shared<const ir::Graph>(std::move(picks));
  return loop;
}

Expected<Composer::Body> branch_of(const Composer& composer, const ir::Graph& g, const ir::Node& n, const char* name) {
  const ir::Graph& graph = **n.attrs.get<ir::GraphRef>(name);
  std::vector<Type> types;
  std::vector<std::optional<Tensor>> contents(graph.input_count());
  for (size_t i = 1; i < n.inputs.size(); ++i) {
    if (const Tensor* t = constant(g, n.inputs[i])) contents[i - 1] = *t;
    types.push_back(g.type(n.inputs[i]));
  }
  auto body = composer.body(graph, types, contents);
  if (!body.ok()) return cannot_compile(n, "its branch: " + body.error().message);
  for (size_t k = 0; k < n.types.size(); ++k)
    if (body->lowered.plan.outputs[k].dims != n.types[k].shape.values())
      return cannot_compile(n, "the results of its branches have different sizes");
  return *std::move(body);
}

Expected<Lowered> branches(const Composer& composer, const ir::Graph& g, const ir::Node& n) {
  Assembly a(n.names[0], composer.options.target);
  ISOMER_TRY(const Composer::Body then, branch_of(composer, g, n, "then_branch"));
  ISOMER_TRY(const Composer::Body other, branch_of(composer, g, n, "else_branch"));
  if (!composer.lowers) return Lowered{};
  std::vector<Place> unread;
  const auto add = [&](const Composer::Body& body) {
    unread.clear();
    for (size_t k = 0; k < body.lowered.plan.outputs.size(); ++k)
      unread.push_back(k < n.types.size() ? Place{} : a.memory(body.lowered.plan.outputs[k].byte_size()));
    a.add(body.lowered, [&](Space space, uint32_t index) {
      if (space == Space::Input) return Place{Space::Input, static_cast<uint32_t>(1 + body.inputs[index]), 0};
      return index < n.types.size() ? Place{Space::Output, index, 0} : unread[index];
    });
  };
  const uint32_t skip = a.jump(Control::JumpUnless, {{Space::Input, 0, 0}}, origin_of(n));
  add(then);
  const uint32_t done = a.jump(Control::Jump, {}, origin_of(n));
  a.aim(skip, a.here());
  add(other);
  a.aim(done, a.here());
  a.end_of_jumps(origin_of(n));
  return std::move(a).finish();
}

}  // namespace

bool is_control_flow(const ir::Node& n) { return n.op->name == "if" || n.op->name == "loop" || n.op->name == "scan"; }

Expected<Lowered> control_flow(const Composer& composer, const ir::Graph& g, const ir::Node& n) {
  if (n.op->name == "if") return branches(composer, g, n);
  ISOMER_TRY(Loop loop, n.op->name == "loop" ? loop_of(g, n) : scan_of(composer, g, n));
  return LoopPart(composer, g, n, std::move(loop)).run();
}

}  // namespace isomer::compile
