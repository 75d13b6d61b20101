#include "cost/task_shares.h"

#include <algorithm>
#include <optional>

#include "loop/affine.h"
#include "te/simplify.h"

namespace isomer::cost {
namespace {

// Where the function first writes to the buffer.
const std::vector<te::Expr>* written_at(const loop::Stmt& s, int buffer) {
  if (s->kind == loop::StmtKind::Store && s->buffer == buffer) return &s->indices;
  if (s->kind == loop::StmtKind::Tile && s->operands.back().buffer == buffer) return &s->operands.back().indices;
  for (const loop::Stmt& b : s->body)
    if (const auto* found = written_at(b, buffer)) return found;
  return nullptr;
}

// The element that a task writes first: all other variables are 0.
std::optional<int64_t> element(const loop::Buffer& buffer, const std::vector<te::Expr>& indices, int task_var,
                               int64_t task) {
  int64_t at = 0;
  for (size_t d = 0; d < indices.size(); ++d) {
    std::vector<int> used;
    loop::variables(indices[d], used);
    loop::Substitution values;
    for (const int v : used) values[v] = te::Expr(v == task_var ? task : int64_t{0});
    const loop::Affine index = loop::affine_of(te::simplify(loop::substitute(indices[d], values)));
    if (!index.is_number()) return std::nullopt;
    at = at * buffer.dims[d] + index.constant;
  }
  return at;
}

}  // namespace

uint64_t period_of_shares(const loop::Function& function, int buffer, int threads) {
  const loop::Buffer& b = function.buffers[static_cast<size_t>(buffer)];
  const int64_t tasks = function.tasks(), first = (tasks + threads - 1) / threads;  // task of the second thread
  if (threads < 2 || tasks < 2) return b.bytes();
  const auto* indices = written_at(function.body, buffer);
  if (!indices) return b.bytes();
  const auto from = element(b, *indices, function.body->var, 0);
  const auto to = element(b, *indices, function.body->var, first);
  if (!from || !to || *to <= *from) return b.bytes();
  const auto slice = static_cast<uint64_t>(*to - *from) * size_of(b.dtype);
  return std::min(b.bytes(), slice * static_cast<uint64_t>(tasks) / static_cast<uint64_t>(first));
}

}  // namespace isomer::cost
