#include "passes/elementwise.h"

#include <algorithm>

#include "te/program.h"

namespace isomer::passes {
namespace {

// Reads input `slot` at the place that `axes` name, or at 0 along axes of extent 1.
bool reads_same_place(const te::Expr& read, const te::Program& p, const std::vector<te::Axis>& axes) {
  const auto slot = static_cast<size_t>(read->tensor);
  if (slot >= p.inputs.size() || read->args.size() > axes.size()) return false;
  const size_t skipped = axes.size() - read->args.size();
  for (size_t i = 0; i < read->args.size(); ++i) {
    const te::Expr& index = read->args[i];
    const bool same = index->kind == te::Kind::Var && index->var == axes[skipped + i].id;
    const bool first = index->kind == te::Kind::Int && index->integer == 0 && p.inputs[slot].dims[i] == Dim(1);
    if (!same && !first) return false;
  }
  return true;
}

bool same_place(const te::Expr& e, const te::Program& p, const std::vector<te::Axis>& axes) {
  switch (e->kind) {
    case te::Kind::Int:
    case te::Kind::Real: return true;
    case te::Kind::Read: return reads_same_place(e, p, axes);
    case te::Kind::Var:
    case te::Kind::Size:
    case te::Kind::Reduce: return false;
    case te::Kind::Unary:
    case te::Kind::Binary:
    case te::Kind::Select:
    case te::Kind::Cast:
      return std::all_of(e->args.begin(), e->args.end(), [&](const te::Expr& x) { return same_place(x, p, axes); });
  }
  return false;
}

}  // namespace

bool is_elementwise(const Editor& e, uint32_t id) {
  const ir::Node& n = e.node(id);
  if (!n.op->compute || !n.op->pure || n.types.size() != 1 || n.inputs.empty()) return false;
  auto program = n.op->compute(e.context(id));
  if (!program.ok() || program->stages.size() != 1 || program->outputs.size() != 1) return false;
  return same_place(program->stages[0].body, *program, program->stages[0].axes);
}

Value elsewhere(Editor& e, uint32_t id, std::vector<Value> inputs) {
  const ir::Node& n = e.node(id);
  const Value v = e.add(n.op->name, std::move(inputs), n.attrs);
  return !v.is_none() && is_elementwise(e, v.node) ? v : Value::none();
}

bool is_scalar_like(const Editor& e, Value v) {
  const Shape& s = e.shape(v);
  return s.has_rank() && std::all_of(s.dims().begin(), s.dims().end(), [](const Dim& d) { return d == Dim(1); });
}

}  // namespace isomer::passes
