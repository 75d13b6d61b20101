#include "compile/epilogue.h"

#include <algorithm>

namespace isomer::compile {

using te::Expr;

Epilogue epilogue_of(const Scene& scene, const Group& group, Accesses& accesses, int product, const Expr& place,
                     std::vector<te::Axis> scope, int& next_var) {
  Epilogue out;
  const ModelStage& first = scene.stage(group.stages[0]);
  const ModelStage& last = scene.stage(group.stages.back());
  for (const te::Axis& a : first.axes) {
    if (a.extent.value() == 1) continue;
    const LoopAxis axis{next_var++, a.name, a.extent.value()};
    out.axes[a.id] = axis;
    scope.push_back(axis.axis());
  }
  te::Substitution names;
  std::vector<Expr> at;
  const std::vector<int>& ids = group.rows.back();
  for (const te::Axis& a : last.axes) {
    const auto it = std::find(ids.begin(), ids.end(), a.id);
    const Expr e = it == ids.end() ? Expr(0) : out.axes.at(group.rows[0][static_cast<size_t>(it - ids.begin())]).expr();
    names.var(a.id, e);
    at.push_back(e);
  }
  if (group.stages.size() > 1) {
    accesses.pin(first.value, product, place);
    out.body = accesses.flat(names(last.body), scope);
  } else {
    out.body = Expr::read(product, first.body.dtype(), {place});
  }
  std::tie(out.buffer, out.address) = accesses.write(last.value, at, scope);
  return out;
}

}  // namespace isomer::compile
