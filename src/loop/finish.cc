#include <fmt/format.h>

#include <algorithm>

#include "loop/emitter.h"
#include "loop/nest.h"
#include "loop/storage.h"

namespace isomer::loop {
namespace {

using te::Expr;
using te::Kind;

constexpr int64_t kMostLocalBytes = 4096;  // larger intermediates are kept off the stack

// Conjuncts of a condition, also of those written as select(a, b, false).
void conjuncts(const Expr& c, std::vector<Expr>& out) {
  const bool both = c->kind == Kind::Binary && c->binary == te::BinaryOp::And && c.dtype() == DType::Bool;
  const bool chosen = c->kind == Kind::Select && c->args[2]->kind == Kind::Int && !c->args[2]->integer;
  if (!both && !chosen) return out.push_back(c);
  conjuncts(c->args[0], out);
  conjuncts(c->args[1], out);
}

// What a reduction's condition says about loops alone becomes a guard, which may shorten them.
void guards_from_where(Block& b) {
  if (b.where.empty() || b.tile) return;
  std::vector<Expr> parts, rest;
  conjuncts(b.where, parts);
  const Substitution bound = bindings_of(b);
  for (const Expr& p : parts) {
    const auto forms = inequalities(substitute(p, bound));
    if (forms)
      b.guards.insert(b.guards.end(), forms->begin(), forms->end());
    else
      rest.push_back(p);
  }
  // The order of what is left matters: a later part may read only where the earlier ones hold.
  Expr left;
  for (size_t k = rest.size(); k-- > 0;) left = left.empty() ? rest[k] : te::select(rest[k], left, te::truth(false));
  b.where = left;
}

std::optional<Path> next_init(const Nest& nest) {
  std::string name;
  each_block(nest, [&](const Block& b) {
    if (name.empty() && b.init) name = b.name;
  });
  return name.empty() ? std::nullopt : find_block(nest, name);
}

Nest ready(const Nest& nest) {
  Nest out = nest;
  while (const auto path = next_init(out)) {
    const Block& b = *item_at(out, *path).block;
    std::vector<int> reducing = reduce_loops(b);
    if (b.tile) reducing.push_back(b.tile->root);  // nothing stands inside of a tile
    const std::vector<const Loop*> around = loops_around(out, *path);
    size_t depth = path->size();
    for (size_t k = around.size(); k-- > 0;)
      if (std::find(reducing.begin(), reducing.end(), around[k]->var) != reducing.end()) depth = k + 1;
    decompose(out, *path, depth);
  }
  each_block(out, guards_from_where);
  return out;
}

std::vector<bool> used_by(const Nest& nest, const Item& item, bool written) {
  std::vector<bool> used(nest.buffers.size());
  each_block(item, [&](const Block& b) {
    if (!b.prefetch || !written) used[static_cast<size_t>(b.buffer)] = true;
    if (written) return;
    const auto look = [&](const te::Node& n) { used[static_cast<size_t>(n.tensor)] = true; };
    each_read(b.value, look);
    each_read(b.where, look);
    for (const Expr& i : b.indices) each_read(i, look);
  });
  return used;
}

// `arguments` are buffers of the nest, in the order of the function's arguments.
Expected<Function> function_of(const Nest& nest, const std::vector<const Item*>& items,
                               const std::vector<int>& arguments, const std::string& name, bool strict = false) {
  std::vector<bool> whole(nest.buffers.size()), used(nest.buffers.size()), written(nest.buffers.size());
  for (const int a : arguments) whole[static_cast<size_t>(a)] = true;
  for (const Item* i : items) {
    const std::vector<bool> u = used_by(nest, *i, false), w = used_by(nest, *i, true);
    for (size_t b = 0; b < used.size(); ++b) used[b] = used[b] || u[b], written[b] = written[b] || w[b];
  }
  const std::vector<Storage> storage = storage_of(nest, items, whole);
  Function f;
  f.name = name;
  f.arguments = static_cast<int>(arguments.size());
  std::vector<int> number(nest.buffers.size(), -1);
  const auto add = [&](size_t b, Scope scope) {
    Buffer buffer = nest.buffers[b];
    buffer.dims = storage[b].dims;
    buffer.scope = scope;
    buffer.written = written[b];
    number[b] = static_cast<int>(f.buffers.size());
    f.buffers.push_back(std::move(buffer));
  };
  for (const int a : arguments) add(static_cast<size_t>(a), Scope::Argument);
  for (size_t b = 0; b < nest.buffers.size(); ++b) {
    if (whole[b] || !used[b]) continue;
    int64_t bytes = static_cast<int64_t>(size_of(nest.buffers[b].dtype));
    for (const int64_t d : storage[b].dims) bytes *= d;
    add(b, bytes <= kMostLocalBytes ? Scope::Local : Scope::Scratch);
  }
  Emitter emitter(nest, storage, number, strict);
  ISOMER_TRY(f.body, emitter.run(items));
  return f;
}

}  // namespace

Expected<Function> finish(const Nest& nest, std::string name) {
  const Nest all = ready(nest);
  std::vector<const Item*> items;
  for (const Item& i : all.roots) {
    if (all.roots.size() > 1 && i.is_loop() && i.loop.kind == LoopKind::Parallel)
      return Diagnostic("E-loop-nest", "a nest with " + isomer::quoted(i.loop.name) +
                                           " parallel beside other loops is more than one function");
    items.push_back(&i);
  }
  std::vector<int> arguments;
  for (int a = 0; a < nest.argument_count(); ++a) arguments.push_back(a);
  return function_of(all, items, arguments, name);
}

namespace {

Expected<std::vector<Kernel>> kernels_of(const Nest& nest, const std::string& name, bool strict) {
  std::vector<Nest> parts;  // one for each item at the root; a reduction's identity comes with it
  std::vector<std::vector<bool>> used;
  std::vector<int> uses(nest.buffers.size());
  for (const Item& i : nest.roots) {
    Nest alone = nest;
    alone.roots = {i};
    parts.push_back(ready(alone));
    used.push_back(used_by(nest, i, false));
    for (size_t b = 0; b < uses.size(); ++b) uses[b] += used.back()[b];
  }
  std::vector<Kernel> out;
  for (size_t p = 0; p < parts.size(); ++p) {
    Kernel k;
    for (size_t b = 0; b < nest.buffers.size(); ++b)
      if (used[p][b] && (static_cast<int>(b) < nest.argument_count() || uses[b] > 1))
        k.arguments.push_back(static_cast<int>(b));
    std::vector<const Item*> items;
    for (const Item& i : parts[p].roots) items.push_back(&i);
    const std::string own = parts.size() == 1 ? name : fmt::format("{}_{}", name, p);
    ISOMER_TRY(k.function, function_of(parts[p], items, k.arguments, own, strict));
    out.push_back(std::move(k));
  }
  return out;
}

}  // namespace

Expected<std::vector<Kernel>> finish_all(const Nest& nest, const std::string& name) {
  return kernels_of(nest, name, false);
}

bool tiles_fit(const Nest& nest) { return kernels_of(nest, "k", true).ok(); }

}  // namespace isomer::loop
