#include "loop/stmt.h"

#include "base/check.h"

namespace isomer::loop {

int64_t Buffer::elements() const {
  int64_t n = 1;
  for (const int64_t d : dims) n *= d;
  return n;
}

uint64_t Buffer::bytes() const { return static_cast<uint64_t>(elements()) * size_of(dtype); }

Stmt Stmt::loop(int var, std::string name, te::Expr extent, LoopKind kind, Stmt body) {
  ISOMER_ASSERT(!extent.empty() && !body.empty(), "a loop has an extent and a body");
  StmtNode n{.kind = StmtKind::For};
  n.var = var;
  n.var_name = std::move(name);
  n.extent = std::move(extent);
  n.loop = kind;
  n.body.push_back(std::move(body));
  return Stmt(std::make_shared<const StmtNode>(std::move(n)));
}

Stmt Stmt::branch(te::Expr condition, Stmt then, Stmt otherwise) {
  ISOMER_ASSERT(!condition.empty() && !then.empty(), "a branch has a condition and a body");
  StmtNode n{.kind = StmtKind::If};
  n.condition = std::move(condition);
  n.body.push_back(std::move(then));
  if (!otherwise.empty()) n.body.push_back(std::move(otherwise));
  return Stmt(std::make_shared<const StmtNode>(std::move(n)));
}

Stmt Stmt::seq(std::vector<Stmt> body) {
  if (body.size() == 1) return std::move(body[0]);
  StmtNode n{.kind = StmtKind::Seq};
  n.body = std::move(body);
  return Stmt(std::make_shared<const StmtNode>(std::move(n)));
}

Stmt Stmt::store(int buffer, std::vector<te::Expr> indices, te::Expr value, std::optional<te::Combiner> combiner) {
  StmtNode n{.kind = StmtKind::Store};
  n.buffer = buffer;
  n.indices = std::move(indices);
  n.value = std::move(value);
  n.combiner = combiner;
  return Stmt(std::make_shared<const StmtNode>(std::move(n)));
}

Stmt Stmt::tile(std::shared_ptr<const Intrinsic> intrinsic, std::vector<TileOperand> operands,
                std::vector<te::Expr> extents, std::optional<TileOperand> ahead) {
  StmtNode n{.kind = StmtKind::Tile};
  n.intrinsic = std::move(intrinsic);
  n.operands = std::move(operands);
  n.extents = std::move(extents);
  n.ahead = std::move(ahead);
  return Stmt(std::make_shared<const StmtNode>(std::move(n)));
}

Stmt Stmt::prefetch(int buffer, std::vector<te::Expr> indices) {
  StmtNode n{.kind = StmtKind::Prefetch};
  n.buffer = buffer;
  n.indices = std::move(indices);
  return Stmt(std::make_shared<const StmtNode>(std::move(n)));
}

int64_t Function::tasks() const {
  if (body.empty() || body->kind != StmtKind::For || body->loop != LoopKind::Parallel) return 1;
  return body->extent->kind == te::Kind::Int ? body->extent->integer : 1;
}

int64_t Function::scratch_bytes() const {
  int64_t total = 0;
  for (const Buffer& b : buffers)
    if (b.scope == Scope::Scratch) total += (static_cast<int64_t>(b.bytes()) + 63) / 64 * 64;
  return total;
}

}  // namespace isomer::loop
