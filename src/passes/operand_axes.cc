#include "passes/operand_axes.h"

#include <algorithm>
#include <set>
#include <utility>

#include "ir/context.h"
#include "ir/graph.h"

namespace isomer::passes {
namespace {

// What is needed of each operand, from all its readers together: they must agree.
class OperandNeeds {
 public:
  explicit OperandNeeds(size_t operands) : axes_(operands), whole_(operands) {}

  bool slice(size_t operand, size_t axis) {
    if (operand >= axes_.size() || whole_[operand] || (axes_[operand] && *axes_[operand] != axis)) return false;
    axes_[operand] = axis;
    return true;
  }
  bool whole(size_t operand) {
    if (operand >= axes_.size() || axes_[operand]) return false;
    return whole_[operand] = true;
  }
  OperandAxes take() && { return std::move(axes_); }

 private:
  OperandAxes axes_;
  std::vector<bool> whole_;
};

// Through the stages of a program, from a result back to the operands.
class Stages {
 public:
  Stages(const te::Program& program, OperandNeeds& needs) : program_(program), needs_(needs) {}

  bool slice(int slot, size_t axis) {
    if (is_operand(slot)) return needs_.slice(static_cast<size_t>(slot), axis);
    if (!seen_.emplace(slot, axis).second) return true;
    const te::Stage& stage = program_.stages[static_cast<size_t>(slot) - program_.inputs.size()];
    return along(stage.body, stage.axes[axis].id);
  }

 private:
  bool is_operand(int slot) const { return static_cast<size_t>(slot) < program_.inputs.size(); }

  bool whole(int slot) {
    if (is_operand(slot)) return needs_.whole(static_cast<size_t>(slot));
    if (!seen_.emplace(slot, SIZE_MAX).second) return true;
    return along(program_.stages[static_cast<size_t>(slot) - program_.inputs.size()].body, -1);
  }

  // Whether the axis serves in the expression only to read at the same place.
  bool along(const te::Expr& e, int axis) {
    if (e->kind == te::Kind::Var) return e->var != axis;
    if (e->kind != te::Kind::Read)
      return std::all_of(e->args.begin(), e->args.end(), [&](const te::Expr& x) { return along(x, axis); });
    std::optional<size_t> at;
    for (size_t i = 0; i < e->args.size(); ++i) {
      const te::Expr& index = e->args[i];
      if (index->kind == te::Kind::Var && index->var == axis) {
        if (at) return false;
        at = i;
      } else if (!along(index, axis)) {
        return false;
      }
    }
    return at ? slice(e->tensor, *at) : whole(e->tensor);
  }

  const te::Program& program_;
  OperandNeeds& needs_;
  std::set<std::pair<int, size_t>> seen_;  // slot and axis; SIZE_MAX: the whole
};

// Through the nodes of an expansion.
class Nodes {
 public:
  Nodes(const ir::OpContext& context, const ir::Graph& body, OperandNeeds& needs)
      : body_(body), table_(context.table()), needs_(needs) {
    for (size_t i = 0; i < context.input_count(); ++i)
      if (context.has(i)) operands_.push_back(i);
  }

  bool slice(ir::Value v, size_t axis) {
    const ir::Node& n = body_.node(v.node);
    if (n.op == &ir::input_op()) return needs_.slice(operands_[v.node], axis);
    // A constant that the expansion made has the sizes that it was made for.
    if (n.op == &ir::const_op()) return false;
    if (!seen_.emplace(v.node, v.index, axis).second) return true;
    const auto axes = operand_axes(ir::context_of(body_, n, table_), axis, v.index);
    if (!axes) return false;
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      if (n.inputs[i].is_none()) continue;
      const auto& at = (*axes)[i];
      if (at ? !slice(n.inputs[i], *at) : !whole(n.inputs[i])) return false;
    }
    return true;
  }

 private:
  bool whole(ir::Value v) {
    const ir::Node& n = body_.node(v.node);
    if (n.op == &ir::input_op()) return needs_.whole(operands_[v.node]);
    if (!seen_.emplace(v.node, 0, SIZE_MAX).second) return true;
    return std::all_of(n.inputs.begin(), n.inputs.end(), [&](ir::Value in) { return in.is_none() || whole(in); });
  }

  const ir::Graph& body_;
  const ir::OpTable& table_;
  OperandNeeds& needs_;
  std::vector<size_t> operands_;  // by input of the body
  std::set<std::tuple<uint32_t, uint32_t, size_t>> seen_;
};

}  // namespace

std::optional<OperandAxes> operand_axes(const ir::OpContext& context, size_t axis, size_t result) {
  const ir::OpDef& op = context.op();
  OperandNeeds needs(context.input_count());
  bool is = false;
  if (!op.pure) return std::nullopt;
  if (op.compute) {
    const auto program = op.compute(context);
    is = program.ok() && result < program->outputs.size() &&
         axis < program->slot_dims(program->outputs[result]).size() &&
         Stages(*program, needs).slice(program->outputs[result], axis);
  } else if (op.expand || !op.expand_text.empty()) {
    const auto body = ir::expand(context);
    is = body.ok() && result < body->outputs().size() &&
         Nodes(context, *body, needs).slice(body->outputs()[result].value, axis);
  }
  return is ? std::optional(std::move(needs).take()) : std::nullopt;
}

}  // namespace isomer::passes
