#include "loop/signature.h"

#include "loop/intrinsic.h"
#include "te/signature.h"

namespace isomer::loop {
namespace {

using te::Signature;

void add_all(Signature& s, const std::vector<te::Expr>& list) {
  s.add(static_cast<int64_t>(list.size()));
  for (const te::Expr& e : list) s.add(e);
}

void add(Signature& s, const TileOperand& operand) {
  s.add(int64_t{operand.buffer});
  add_all(s, operand.indices);
  s.add(static_cast<int64_t>(operand.strides.size()));
  for (const int64_t stride : operand.strides) s.add(stride);
}

void add(Signature& s, const Stmt& stmt) {
  s.add(static_cast<int64_t>(stmt->kind));
  switch (stmt->kind) {
    case StmtKind::For: s.add(stmt->extent).add_var(stmt->var).add(static_cast<int64_t>(stmt->loop)); break;
    case StmtKind::If: s.add(stmt->condition); break;
    case StmtKind::Seq: break;
    case StmtKind::Store:
      s.add(int64_t{stmt->buffer}).add(stmt->combiner ? static_cast<int64_t>(*stmt->combiner) : int64_t{-1});
      add_all(s, stmt->indices);
      s.add(stmt->value);
      break;
    case StmtKind::Prefetch:
      s.add(int64_t{stmt->buffer});
      add_all(s, stmt->indices);
      break;
    case StmtKind::Tile:
      s.add(stmt->intrinsic->name);
      add_all(s, stmt->extents);
      for (const TileOperand& o : stmt->operands) add(s, o);
      s.add(int64_t{stmt->ahead.has_value()});
      if (stmt->ahead) add(s, *stmt->ahead);
      break;
  }
  s.add(static_cast<int64_t>(stmt->body.size()));
  for (const Stmt& b : stmt->body) add(s, b);
}

}  // namespace

std::string signature(const Function& function) {
  Signature s(false);
  s.add(int64_t{function.arguments}).add(static_cast<int64_t>(function.buffers.size()));
  for (const Buffer& b : function.buffers) {
    s.add(static_cast<int64_t>(b.dtype))
        .add(static_cast<int64_t>(b.scope))
        .add(int64_t{b.written})
        .add(int64_t{b.flushed});
    s.add(static_cast<int64_t>(b.dims.size()));
    for (const int64_t d : b.dims) s.add(d);
  }
  if (!function.body.empty()) add(s, function.body);
  return s.bytes();
}

}  // namespace isomer::loop
