#include <fmt/format.h>

#include <algorithm>

#include "loop/affine.h"
#include "loop/intrinsic.h"
#include "loop/stmt.h"

namespace isomer::loop {
namespace {

using te::Expr;
using te::Kind;

constexpr int64_t kMostLanes = 4096;

class Verifier {
 public:
  explicit Verifier(const Function& f) : f_(f) {}

  Expected<void> run() {
    if (f_.arguments < 0 || static_cast<size_t>(f_.arguments) > f_.buffers.size())
      return error("the number of arguments exceeds that of the buffers");
    for (size_t i = 0; i < f_.buffers.size(); ++i) ISOMER_CHECK_OK(buffer(i));
    if (f_.body.empty()) return error("there is no body");
    return stmt(f_.body, true);
  }

 private:
  Diagnostic error(const std::string& what) const {
    return Diagnostic("E-loop",
                      fmt::format("the function {} breaks a rule of loops: {}", isomer::quoted(f_.name), what));
  }

  Expected<void> buffer(size_t i) {
    const Buffer& b = f_.buffers[i];
    const bool argument = i < static_cast<size_t>(f_.arguments);
    if (argument != (b.scope == Scope::Argument)) return error("arguments come first: " + b.name);
    if (b.dtype == DType::Opaque) return error("no element type: " + b.name);
    const auto n = checked_dims(b);
    if (!n) return error("the dims of " + b.name + " are negative or too large");
    return {};
  }
  static bool checked_dims(const Buffer& b) {
    int64_t n = 1;
    for (const int64_t d : b.dims)
      if (d < 0 || __builtin_mul_overflow(n, d, &n)) return false;
    return n <= int64_t{1} << 40;
  }

  Expected<void> stmt(const Stmt& s, bool root) {
    if (s.empty()) return error("a statement is empty");
    switch (s->kind) {
      case StmtKind::For: return loop(*s, root);
      case StmtKind::If:
        if (s->condition.dtype() != DType::Bool) return error("a condition is no truth value");
        ISOMER_CHECK_OK(expr(s->condition));
        ++guarded_;
        for (const Stmt& b : s->body) ISOMER_CHECK_OK(stmt(b, false));
        --guarded_;
        return {};
      case StmtKind::Seq:
        for (const Stmt& b : s->body) ISOMER_CHECK_OK(stmt(b, false));
        return {};
      case StmtKind::Store: return store(*s);
      case StmtKind::Prefetch:
        ++guarded_;
        ISOMER_CHECK_OK(place(s->buffer, s->indices));
        --guarded_;
        return {};
      case StmtKind::Tile: return tile(*s);
    }
    return {};
  }

  Expected<void> loop(const StmtNode& s, bool root) {
    if (s.extent.dtype() != DType::I64) return error("the extent of " + s.var_name + " is no i64");
    if (ranges_.knows(s.var)) return error("the variable of " + s.var_name + " is in use");
    ISOMER_CHECK_OK(expr(s.extent));
    if (has_read(s.extent)) return error("the extent of " + s.var_name + " reads a buffer");
    const bool number = s.extent->kind == Kind::Int;
    if (s.loop == LoopKind::Parallel && (!root || !number))
      return error("a parallel loop stands at the root and has a number as extent: " + s.var_name);
    const bool repeated = s.loop == LoopKind::Vector || s.loop == LoopKind::Unroll;
    if (repeated && (!number || s.extent->integer >= kMostLanes))
      return error("a vector or unrolled loop has a small number as extent: " + s.var_name);
    ranges_.push(s.var, s.extent);
    const bool empty = ranges_.range(Expr(te::Axis{s.var, "", Dim(0)})).high < 0;
    guarded_ += empty;  // nothing in it runs
    ISOMER_CHECK_OK(stmt(s.body.at(0), false));
    guarded_ -= empty;
    ranges_.pop();
    return {};
  }

  Expected<void> store(const StmtNode& s) {
    ISOMER_CHECK_OK(place(s.buffer, s.indices));
    const Buffer& b = f_.buffers[static_cast<size_t>(s.buffer)];
    if (b.scope == Scope::Argument && !b.written) return error(b.name + " is stored to and not marked as written");
    if (s.value.empty() || s.value.dtype() != b.dtype) return error("the value for " + b.name + " has another type");
    if (s.combiner && te::is_arg(*s.combiner)) return error("a store cannot combine by position: " + b.name);
    return expr(s.value);
  }

  Expected<void> place(int buffer, const std::vector<Expr>& indices) {
    if (buffer < 0 || static_cast<size_t>(buffer) >= f_.buffers.size()) return error("a buffer does not exist");
    const Buffer& b = f_.buffers[static_cast<size_t>(buffer)];
    if (indices.size() != b.dims.size()) return error("one index per dim is expected for " + b.name);
    for (size_t d = 0; d < indices.size(); ++d) {
      if (indices[d].empty() || indices[d].dtype() != DType::I64) return error("an index of " + b.name + " is no i64");
      ISOMER_CHECK_OK(expr(indices[d]));
      if (guarded_ || has_read(indices[d])) continue;
      const Range r = ranges_.range(indices[d]);
      if (r.low < 0 || r.high >= b.dims[d])
        return error(fmt::format("index {} of {} runs over {} to {}, beyond {}", d, b.name, r.low, r.high, b.dims[d]));
    }
    return {};
  }

  // A branch of a select counts as guarded; operands of everything else are evaluated when it is.
  Expected<void> expr(const Expr& e) {
    if (e.empty()) return error("an expression is empty");
    switch (e->kind) {
      case Kind::Reduce: return error("an expression holds a reduction");
      case Kind::Size: return error("an expression holds a size");
      case Kind::Var: return ranges_.knows(e->var) ? Expected<void>() : error("no loop binds " + e->var_name);
      case Kind::Read: {
        ISOMER_CHECK_OK(place(e->tensor, e->args));
        if (f_.buffers[static_cast<size_t>(e->tensor)].dtype != e.dtype()) return error("a read has another type");
        return {};
      }
      case Kind::Select:
        ISOMER_CHECK_OK(expr(e->args[0]));
        ++guarded_;
        ISOMER_CHECK_OK(expr(e->args[1]));
        ISOMER_CHECK_OK(expr(e->args[2]));
        --guarded_;
        return {};
      default:
        for (const Expr& x : e->args) ISOMER_CHECK_OK(expr(x));
        return {};
    }
  }

  Expected<void> tile(const StmtNode& s) {
    if (!s.intrinsic || s.intrinsic->meaning.stages.size() != 1) return error("a tile has no intrinsic");
    const te::Program& m = s.intrinsic->meaning;
    const te::Node& body = *m.stages[0].body;
    std::vector<te::Axis> axes = m.stages[0].axes;
    if (body.kind == Kind::Reduce) axes.insert(axes.end(), body.axes.begin(), body.axes.end());
    if (s.extents.size() != axes.size()) return error("a tile has one extent per axis of " + s.intrinsic->name);
    if (s.operands.size() != m.inputs.size() + 1) return error("a tile has the operands of " + s.intrinsic->name);
    for (size_t a = 0; a < axes.size(); ++a) {
      ISOMER_CHECK_OK(expr(s.extents[a]));
      const Range r = ranges_.range(s.extents[a]);
      const int64_t most = axes[a].extent.constant().value_or(INT64_MAX);
      const bool tail = a < s.intrinsic->tail.size() && s.intrinsic->tail[a];
      if (r.high > most || (!tail && r.low != most))
        return error("an extent of a tile does not fit " + s.intrinsic->name);
    }
    for (size_t i = 0; i < s.operands.size(); ++i) ISOMER_CHECK_OK(operand(s, i));
    if (!s.ahead) return {};
    if (s.ahead->strides.size() != s.extents.size()) return error("a tile's operand has one stride per axis");
    ++guarded_;  // a hint is never out of range
    ISOMER_CHECK_OK(place(s.ahead->buffer, s.ahead->indices));
    --guarded_;
    return {};
  }

  Expected<void> operand(const StmtNode& s, size_t i) {
    const TileOperand& o = s.operands[i];
    const te::Program& m = s.intrinsic->meaning;
    if (o.strides.size() != s.extents.size()) return error("a tile's operand has one stride per axis");
    const DType want = i < m.inputs.size() ? m.inputs[i].dtype : m.stages[0].dtype;
    ++guarded_;  // the origin of an empty tile is never touched
    ISOMER_CHECK_OK(place(o.buffer, o.indices));
    --guarded_;
    const Buffer& b = f_.buffers[static_cast<size_t>(o.buffer)];
    if (b.dtype != want) return error("a tile's operand has another type: " + b.name);
    const bool output = i == m.inputs.size();
    if (output && b.scope == Scope::Argument && !b.written) return error(b.name + " is not marked as written");
    return {};
  }

  const Function& f_;
  Ranges ranges_;
  int guarded_ = 0;
};

}  // namespace

Expected<void> verify(const Function& function) { return Verifier(function).run(); }

}  // namespace isomer::loop
