#include "driver/program.h"

#include <algorithm>
#include <chrono>

#include "base/clock_seconds.h"
#include "interp/interp.h"
#include "ops/table.h"

namespace isomer::driver {
namespace {

using Clock = std::chrono::steady_clock;

std::string name_of(const ir::Node& n) { return !n.label.empty() || n.names.empty() ? n.label : n.names[0]; }

interp::Options interp_options(const ExecutorOptions& o) {
  interp::Options out;
  out.threads = o.native.threads;
  out.wide = o.reference && o.wide;
  out.progress = o.progress;
  return out;
}

// Neither a part of a compiled piece nor put off.
bool by_itself(By by) { return by == By::Reference || by == By::Driven; }

// For each node the number of the round it runs in: compiled ones of a round come before those by themselves, and read
// those of earlier rounds only.
std::vector<uint32_t> rounds_of(const ir::Graph& g, const Partition& p) {
  std::vector<uint32_t> rounds(g.nodes().size());
  for (uint32_t i = 0; i < g.nodes().size(); ++i)
    for (const ir::Value& v : g.node(i).inputs) {
      if (v.is_none()) continue;
      const bool wait = p.nodes[i].by == By::Compiled && by_itself(p.nodes[v.node].by);
      rounds[i] = std::max(rounds[i], rounds[v.node] + (wait ? 1 : 0));
    }
  return rounds;
}

}  // namespace

Expected<std::shared_ptr<Program>> Program::build(ir::Graph graph, const ExecutorOptions& options) {
  std::shared_ptr<Program> program(new Program(std::move(graph), options));
  const auto start = Clock::now();
  program->partition_ = partition(program->graph_);
  const auto built = program->partition_.whole ? program->build_whole() : program->build_pieces();
  if (!built.ok())
    return interpreted(std::move(program->graph_), options, "compiling failed: " + built.error().message);
  program->compile_seconds_ = seconds_since(start);
  return program;
}

std::shared_ptr<Program> Program::interpreted(ir::Graph graph, const ExecutorOptions& options, std::string reason) {
  std::shared_ptr<Program> program(new Program(std::move(graph), options));
  program->interpreted_ = true;
  program->partition_.nodes.resize(program->graph_.nodes().size(), {By::Reference, std::move(reason)});
  return program;
}

Expected<void> Program::build_whole() {
  ISOMER_TRY(whole_, Native::build(graph_, options_.native));
  return {};
}

Expected<void> Program::build_pieces() {
  const std::vector<uint32_t> rounds = rounds_of(graph_, partition_);
  const uint32_t last = rounds.empty() ? 0 : *std::max_element(rounds.begin(), rounds.end());
  const auto in = [&](uint32_t i, bool single, uint32_t round) {
    const By by = partition_.nodes[i].by;
    return ir::is_computed(graph_.node(i)) && by != By::Later && by_itself(by) == single && rounds[i] == round;
  };
  const size_t count = graph_.nodes().size();
  for (uint32_t round = 0; round <= last; ++round) {
    std::vector<bool> compiled(count);
    for (uint32_t i = 0; i < count; ++i) compiled[i] = in(i, false, round);
    ISOMER_CHECK_OK(add(compiled, By::Compiled));
    for (uint32_t i = 0; i < count; ++i) {
      if (!in(i, true, round)) continue;
      std::vector<bool> one(count);
      one[i] = true;
      ISOMER_CHECK_OK(add(one, partition_.nodes[i].by));
    }
  }
  std::vector<bool> later(count);
  for (uint32_t i = 0; i < count; ++i) later[i] = partition_.nodes[i].by == By::Later;
  ISOMER_CHECK_OK(add(later, By::Later));
  find_last_uses();
  return {};
}

Expected<void> Program::add(const std::vector<bool>& taken, By by) {
  const auto first = std::find(taken.begin(), taken.end(), true);
  if (first == taken.end()) return {};
  Unit unit;
  ISOMER_TRY(unit.piece, cut(graph_, taken));
  if (unit.piece.outputs.empty()) return {};  // nobody reads it
  if (by == By::Compiled) {
    ISOMER_TRY(unit.native, Native::build(unit.piece.graph, options_.native));
  } else if (by == By::Later) {
    unit.later = std::make_shared<Variants>(unit.piece.graph, options_, true);
  } else {
    unit.node = static_cast<uint32_t>(first - taken.begin());
    for (const ir::Node& n : unit.piece.graph.nodes())
      for (const auto& [key, value] : n.attrs)
        if (const auto* body = std::get_if<ir::GraphRef>(&value))
          unit.bodies[body->get()] = std::make_shared<Variants>(**body, options_, true);
  }
  units_.push_back(std::move(unit));
  return {};
}

void Program::find_last_uses() {
  std::map<ir::Value, size_t> last;
  for (size_t u = 0; u < units_.size(); ++u) {
    for (const ir::Value& v : units_[u].piece.outputs) last[v] = u;
    for (const ir::Value& v : units_[u].piece.inputs) last[v] = u;
  }
  for (const ir::Output& o : graph_.outputs()) last.erase(o.value);
  for (const auto& [value, u] : last) units_[u].dies.push_back(value);
}

Expected<std::vector<Tensor>> Program::run(const std::vector<Tensor>& inputs) {
  if (interpreted_) return interp::run(graph_, ops::table(), inputs, interp_options(options_));
  if (whole_) return whole_->run(inputs);
  std::map<ir::Value, Tensor> values;
  for (uint32_t i = 0; i < inputs.size(); ++i) values[{i, 0}] = inputs[i];
  for (Unit& unit : units_) {
    std::vector<Tensor> in;
    for (const ir::Value& v : unit.piece.inputs) in.push_back(values.at(v));
    ISOMER_TRY(const std::vector<Tensor> out, run_unit(unit, in));
    for (size_t k = 0; k < out.size() && k < unit.piece.outputs.size(); ++k) values[unit.piece.outputs[k]] = out[k];
    for (const ir::Value& v : unit.dies) values.erase(v);
  }
  std::vector<Tensor> results;
  for (const ir::Output& o : graph_.outputs()) {
    const ir::Node& n = graph_.node(o.value.node);
    results.push_back(n.op == &ir::const_op() ? *n.attrs.get<Tensor>("value") : values.at(o.value));
  }
  return results;
}

Expected<std::vector<Tensor>> Program::run_unit(Unit& unit, const std::vector<Tensor>& inputs) {
  if (unit.native) return unit.native->run(inputs);
  if (unit.later) return unit.later->run(inputs);
  if (!options_.native.profile) return interpret(unit, inputs);
  const auto start = Clock::now();
  auto outputs = interpret(unit, inputs);
  count_time(unit, seconds_since(start));
  return outputs;
}

Expected<std::vector<Tensor>> Program::interpret(Unit& unit, const std::vector<Tensor>& inputs) {
  interp::Options o = interp_options(options_);
  o.progress = nullptr;
  if (!unit.bodies.empty())
    o.body = [&](const ir::Graph& body, const std::vector<Tensor>& values) {
      const auto it = unit.bodies.find(&body);
      return it == unit.bodies.end() ? interp::run(body, ops::table(), values, interp_options(options_))
                                     : it->second->run(values);
    };
  return interp::run(unit.piece.graph, ops::table(), inputs, o);
}

void Program::count_time(Unit& unit, double seconds) {
  const std::lock_guard lock(mutex_);
  unit.fastest = unit.runs == 0 ? seconds : std::min(unit.fastest, seconds);
  unit.seconds += seconds;
  ++unit.runs;
}

void Program::add_facts(ExecutorFacts& facts) const {
  const auto add = [&](const NativeFacts& f) {
    ++facts.pieces;
    facts.native.steps += f.steps;
    facts.native.functions += f.functions;
    facts.native.arena_bytes += f.arena_bytes;
    facts.native.least_arena_bytes += f.least_arena_bytes;
    facts.native.weight_bytes += f.weight_bytes;
    facts.native.scratch_bytes = std::max(facts.native.scratch_bytes, f.scratch_bytes);
    facts.native.target = f.target;
    facts.native.accuracy.add(f.accuracy);
  };
  facts.compile_seconds += compile_seconds_;
  if (whole_) add(whole_->facts());
  for (uint32_t i = 0; i < graph_.nodes().size(); ++i) {
    if (!ir::is_computed(graph_.node(i))) continue;
    const By by = partition_.nodes[i].by;
    if (by != By::Later) (by == By::Reference ? facts.reference : facts.compiled)++;
  }
  for (const Unit& unit : units_) {
    if (unit.native) add(unit.native->facts());
    if (!unit.later) continue;
    if (const auto program = unit.later->latest())
      program->add_facts(facts);
    else
      facts.later += unit.piece.graph.nodes().size() - unit.piece.graph.input_count();
  }
}

void Program::add_report(std::vector<NodeReport>& report) const {
  for (uint32_t i = 0; i < graph_.nodes().size(); ++i) {
    const ir::Node& n = graph_.node(i);
    const Choice& c = partition_.nodes[i];
    if (ir::is_computed(n) && by_itself(c.by)) report.push_back({name_of(n), n.op->name, c.by, c.reason});
  }
  for (const Unit& unit : units_) {
    for (const auto& [graph, body] : unit.bodies) body->add_report(report);
    if (!unit.later) continue;
    if (const auto program = unit.later->latest()) {
      program->add_report(report);
      continue;
    }
    for (uint32_t i = 0; i < graph_.nodes().size(); ++i) {
      const Choice& c = partition_.nodes[i];
      if (c.by == By::Later) report.push_back({name_of(graph_.node(i)), graph_.node(i).op->name, c.by, c.reason});
    }
  }
}

void Program::add_times(std::vector<StepTime>& times) const {
  const auto add = [&](const std::vector<StepTime>& all) { times.insert(times.end(), all.begin(), all.end()); };
  if (whole_) add(whole_->times());
  for (const Unit& unit : units_) {
    if (unit.native) add(unit.native->times());
    if (unit.later)
      if (const auto program = unit.later->latest()) program->add_times(times);
    if (unit.node == UINT32_MAX) continue;
    const std::lock_guard lock(mutex_);
    const ir::Node& n = graph_.node(unit.node);
    const char* how = partition_.nodes[unit.node].by == By::Driven ? " (driven)" : " (reference)";
    times.push_back({n.op->name + how, name_of(n), 1, 0, 0, unit.runs, unit.seconds, unit.fastest});
  }
}

}  // namespace isomer::driver
