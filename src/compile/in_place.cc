#include "compile/in_place.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "compile/accesses.h"
#include "te/substitute.h"

namespace isomer::compile {

namespace {

using loop::Stmt;
using loop::StmtKind;
using te::Expr;

bool reads(const Expr& e, int buffer) {
  bool found = false;
  te::for_each_node(e, [&](const Expr& n) { found = found || (n->kind == te::Kind::Read && n->tensor == buffer); });
  return found;
}

bool any_reads(const std::vector<Expr>& all, int buffer) {
  return std::any_of(all.begin(), all.end(), [&](const Expr& e) { return reads(e, buffer); });
}

// Whether every read of the buffer in `e` is at these indices, which do not read it themselves.
bool reads_only_at(const Expr& e, int buffer, const std::vector<Expr>& indices) {
  bool only = true;
  te::for_each_node(e, [&](const Expr& n) {
    if (n->kind == te::Kind::Read && n->tensor == buffer)
      only = only && std::equal(n->args.begin(), n->args.end(), indices.begin(), indices.end(),
                                [](const Expr& a, const Expr& b) { return te::equal(a, b); });
  });
  return only;
}

// The value of an index expression of loop variables; nothing for other expressions.
std::optional<int64_t> value_of(const Expr& e, const std::map<int, int64_t>& vars) {
  if (e->kind == te::Kind::Int) return e->integer;
  if (e->kind == te::Kind::Var) {
    const auto it = vars.find(e->var);
    return it == vars.end() ? std::nullopt : std::optional(it->second);
  }
  if (e->kind != te::Kind::Binary) return std::nullopt;
  const auto a = value_of(e->args[0], vars), b = value_of(e->args[1], vars);
  if (!a || !b) return std::nullopt;
  const auto floor_mod = [&] { return (*a % *b + *b) % *b; };
  switch (e->binary) {
    case te::BinaryOp::Add: return *a + *b;
    case te::BinaryOp::Sub: return *a - *b;
    case te::BinaryOp::Mul: return *a * *b;
    case te::BinaryOp::FloorDiv: return *b > 0 ? std::optional((*a - floor_mod()) / *b) : std::nullopt;
    case te::BinaryOp::FloorMod: return *b > 0 ? std::optional(floor_mod()) : std::nullopt;
    case te::BinaryOp::Min: return std::min(*a, *b);
    case te::BinaryOp::Max: return std::max(*a, *b);
    case te::BinaryOp::And: return *a != 0 && *b != 0;
    case te::BinaryOp::Or: return *a != 0 || *b != 0;
    case te::BinaryOp::Eq: return *a == *b;
    case te::BinaryOp::Ne: return *a != *b;
    case te::BinaryOp::Lt: return *a < *b;
    case te::BinaryOp::Le: return *a <= *b;
    default: return std::nullopt;
  }
}

// How many stores into a buffer a function makes. Loops run through their values only where something inside depends on them.
class StoreCount {
 public:
  explicit StoreCount(int buffer) : buffer_(buffer) {}

  std::optional<int64_t> of(const Stmt& s) {
    const std::set<int>* asked = needs(s);
    if (!asked) return 0;
    if (++work_ > kMostWork) return std::nullopt;
    switch (s->kind) {
      case StmtKind::Store: return 1;
      case StmtKind::If: {
        const auto taken = value_of(s->condition, vars_);
        if (!taken) return std::nullopt;
        if (*taken == 0 && s->body.size() < 2) return 0;
        return of(s->body[*taken != 0 ? 0 : 1]);
      }
      case StmtKind::For: return loop(*s);
      default: break;
    }
    int64_t total = 0;
    for (const Stmt& b : s->body) {
      const auto one = of(b);
      if (!one) return std::nullopt;
      total += *one;
    }
    return total;
  }

 private:
  static constexpr int64_t kMostWork = 200'000;

  std::optional<int64_t> loop(const loop::StmtNode& s) {
    const auto extent = value_of(s.extent, vars_);
    if (!extent) return std::nullopt;
    const std::set<int>* inside = needs(s.body[0]);
    if (*extent <= 0 || !inside) return 0;
    const bool varies = inside->count(s.var) > 0;
    int64_t total = 0;
    for (int64_t i = 0; i < (varies ? *extent : 1); ++i) {
      vars_[s.var] = i;
      const auto one = of(s.body[0]);
      if (!one) return std::nullopt;
      total += *one;
    }
    return varies ? total : total * *extent;
  }

  // The variables that decide how often the stores in `s` run; null where there are none.
  const std::set<int>* needs(const Stmt& s) {
    const auto [it, fresh] = needs_.try_emplace(&*s);
    if (!fresh) return it->second ? &*it->second : nullptr;
    std::optional<std::set<int>> all;
    if (s->kind == StmtKind::Store && s->buffer == buffer_) all.emplace();
    for (const Stmt& b : s->body)
      if (const std::set<int>* inner = needs(b)) {
        if (!all) all.emplace();
        all->insert(inner->begin(), inner->end());
      }
    if (all && s->kind == StmtKind::For) add_vars(s->extent, *all);
    if (all && s->kind == StmtKind::If) add_vars(s->condition, *all);
    auto& kept = needs_[&*s] = std::move(all);
    return kept ? &*kept : nullptr;
  }

  static void add_vars(const Expr& root, std::set<int>& vars) {
    te::for_each_node(root, [&](const Expr& e) {
      if (e->kind == te::Kind::Var) vars.insert(e->var);
    });
  }

  const int buffer_;
  int64_t work_ = 0;
  std::map<int, int64_t> vars_;
  std::map<const loop::StmtNode*, std::optional<std::set<int>>> needs_;
};

// Whether the one thing that is done with `read` is to compute what overwrites it.
class Sharing {
 public:
  Sharing(int read, int written) : read_(read), written_(written) {}

  bool holds(const Stmt& s) const {
    if (s->kind == StmtKind::Store) return store(*s);
    if (s->kind == StmtKind::For && reads(s->extent, read_)) return false;
    if (s->kind == StmtKind::If && reads(s->condition, read_)) return false;
    for (const loop::TileOperand& o : s->operands)
      if (o.buffer == read_ || o.buffer == written_ || any_reads(o.indices, read_)) return false;
    return std::all_of(s->body.begin(), s->body.end(), [&](const Stmt& b) { return holds(b); });
  }

 private:
  bool store(const loop::StmtNode& s) const {
    if (any_reads(s.indices, read_) || reads(s.value, written_)) return false;
    if (s.buffer != written_) return !reads(s.value, read_);
    return !s.combiner && reads_only_at(s.value, read_, s.indices);
  }

  const int read_, written_;
};

}  // namespace

bool may_share(const loop::Function& f, int read, int written) {
  const loop::Buffer &from = f.buffers[static_cast<size_t>(read)], &to = f.buffers[static_cast<size_t>(written)];
  if (from.written || !to.written || from.dtype != to.dtype || from.dims != to.dims) return false;
  if (!Sharing(read, written).holds(f.body)) return false;
  // All elements are stored by no more stores than there are: each once, by the statement that alone reads it.
  const auto stores = StoreCount(written).of(f.body);
  return stores && *stores <= to.elements();
}

loop::Function sharing(loop::Function f, int read, int written) {
  std::vector<int> number;
  for (int i = 0; i < static_cast<int>(f.buffers.size()); ++i) number.push_back(i > read ? i - 1 : i);
  number[static_cast<size_t>(read)] = number[static_cast<size_t>(written)];
  renumber_buffers(f, number);
  f.buffers.erase(f.buffers.begin() + read);
  --f.arguments;
  return f;
}

}  // namespace isomer::compile
