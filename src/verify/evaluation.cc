#include "verify/evaluation.h"

#include <fmt/format.h>

#include <algorithm>

#include "verify/meaning.h"

namespace isomer::verify {
namespace {

// The largest number of times that something inside the expression is evaluated.
int64_t repetitions(const te::Expr& e, int64_t most_work, std::map<const void*, int64_t>& known) {
  if (const auto it = known.find(e.identity()); it != known.end()) return it->second;
  int64_t most = 1;
  for (const te::Expr& x : e->args) most = std::max(most, repetitions(x, most_work, known));
  for (const te::Axis& a : e->axes) most = std::min<int64_t>(most * a.extent.constant().value_or(0), most_work + 1);
  return known[e.identity()] = most;
}

bool small(const te::Program& program, int64_t most_work) {
  for (const te::Stage& s : program.stages) {
    int64_t work = 1;
    for (const te::Axis& a : s.axes) work = std::min<int64_t>(work * a.extent.constant().value_or(0), most_work + 1);
    std::map<const void*, int64_t> known;
    if (work * repetitions(s.body, most_work, known) > most_work) return false;
  }
  return true;
}

void collect(const te::Expr& e, std::set<const void*>& seen, std::set<DType>& out) {
  if (!seen.insert(e.identity()).second) return;
  if (is_float(e.dtype())) out.insert(e.dtype());
  for (const te::Expr& x : e->args) collect(x, seen, out);
}

}  // namespace

std::set<DType> Evaluation::float_types() const {
  std::set<DType> out;
  for (const ir::Node& n : builder_->graph().nodes())
    for (const Type& t : n.types)
      if (is_float(t.dtype)) out.insert(t.dtype);
  std::set<const void*> seen;
  for (const te::Program& p : programs_)
    for (const te::Stage& s : p.stages) {
      if (is_float(s.dtype)) out.insert(s.dtype);
      collect(s.body, seen, out);
    }
  return out;
}

Expected<void> Evaluation::load(const ir::Graph& graph, const ir::OpTable& table, int64_t max_work) {
  builder_ = std::make_unique<ir::GraphBuilder>(table, "sample");
  ISOMER_TRY(outputs_, replay(graph, *builder_, true));
  for (int round = 0; round < 8; ++round) {
    bool again = false;
    for (const ir::Node& n : builder_->graph().nodes()) again |= n.op->expand || !n.op->expand_text.empty();
    if (!again) break;
    for (size_t k = 0; k < outputs_.size(); ++k) builder_->output(fmt::format("{}", k), outputs_[k]);
    const ir::Graph current = builder_->graph();
    builder_ = std::make_unique<ir::GraphBuilder>(table, "sample");
    ISOMER_TRY(outputs_, replay(current, *builder_, true));
  }
  for (const ir::Node& n : builder_->graph().nodes()) {
    programs_.emplace_back();
    for (const Type& t : n.types)
      if (!t.shape.is_static()) return Diagnostic("E-verify", "a shape is not known");
    if (!ir::is_computed(n)) continue;
    if (!n.op->compute) return Diagnostic("E-verify", n.op->name + " has no expression");
    ISOMER_TRY(programs_.back(), n.op->compute(context_of(*builder_, n)));
    if (!small(programs_.back(), max_work)) return Diagnostic("E-verify", "the sizes are too large to try");
  }
  return {};
}

}  // namespace isomer::verify
