#include "loop/nest.h"

#include <algorithm>

#include "base/check.h"
#include "base/contains.h"
#include "loop/guards.h"
#include "te/scalar.h"
#include "te/substitute.h"

namespace isomer::loop {

using te::Expr;
using te::Kind;

int Nest::buffer(std::string_view name) const {
  for (size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i].name == name) return static_cast<int>(i);
  return -1;
}

namespace {

template <class F>
bool find(const std::vector<Item>& items, Path& path, const F& wanted) {
  for (size_t i = 0; i < items.size(); ++i) {
    path.push_back(i);
    if (wanted(items[i]) || find(items[i].body, path, wanted)) return true;
    path.pop_back();
  }
  return false;
}

}  // namespace

std::optional<Path> find_block(const Nest& nest, std::string_view name) {
  Path path;
  const bool found = find(nest.roots, path, [&](const Item& i) { return i.block && i.block->name == name; });
  return found ? std::optional<Path>(path) : std::nullopt;
}

std::optional<Path> find_loop(const Nest& nest, std::string_view name) {
  Path path;
  const bool found = find(nest.roots, path, [&](const Item& i) { return i.is_loop() && i.loop.name == name; });
  return found ? std::optional<Path>(path) : std::nullopt;
}

const Item& item_at(const Nest& nest, const Path& path) {
  ISOMER_ASSERT(!path.empty(), "a path leads to an item");
  const Item* item = &nest.roots.at(path[0]);
  for (size_t k = 1; k < path.size(); ++k) item = &item->body.at(path[k]);
  return *item;
}

Item& item_at(Nest& nest, const Path& path) { return const_cast<Item&>(item_at(std::as_const(nest), path)); }

std::vector<Item>& siblings(Nest& nest, const Path& path) {
  if (path.size() == 1) return nest.roots;
  return item_at(nest, Path(path.begin(), path.end() - 1)).body;
}

std::vector<const Loop*> loops_around(const Nest& nest, const Path& path) {
  std::vector<const Loop*> out;
  for (size_t k = 1; k < path.size(); ++k)
    out.push_back(&item_at(nest, Path(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(k))).loop);
  return out;
}

void each_read(const Expr& e, const std::function<void(const te::Node&)>& visit) {
  if (e.empty()) return;
  te::for_each_node(e, [&](const Expr& x) {
    if (x->kind == Kind::Read) visit(*x);
  });
}

bool reads(const Block& block, int buffer) {
  bool found = false;
  const auto look = [&](const te::Node& n) { found |= n.tensor == buffer; };
  each_read(block.value, look);
  each_read(block.where, look);
  for (const Expr& i : block.indices) each_read(i, look);
  return found;
}

Expr var_expr(const Loop& loop) {
  const size_t dot = loop.name.rfind('.');
  return te::Axis{loop.var, dot == std::string::npos ? loop.name : loop.name.substr(dot + 1), Dim(loop.extent)};
}

Item in_loops(Block block, std::vector<Loop> loops) {
  Item item;
  item.block = std::move(block);
  for (size_t k = loops.size(); k-- > 0;) {
    Item outer;
    outer.loop = std::move(loops[k]);
    outer.body.push_back(std::move(item));
    item = std::move(outer);
  }
  return item;
}

Substitution bindings_of(const Block& block) {
  Substitution out;
  for (const IterVar& i : block.iters) out.emplace(i.axis.id, i.binding);
  return out;
}

namespace {

std::vector<int> loops_of(const Block& block, bool reduce) {
  std::vector<int> out;
  for (const IterVar& i : block.iters)
    if (i.reduce == reduce) variables(i.binding, out);
  return out;
}

}  // namespace

std::vector<int> reduce_loops(const Block& block) { return loops_of(block, true); }
std::vector<int> spatial_loops(const Block& block) { return loops_of(block, false); }

Expr identity_of(te::Combiner combiner, DType dtype) {
  return is_float(dtype) ? Expr::real(dtype, te::real_identity(combiner))
                         : Expr::integer(dtype, te::int_identity(combiner, dtype));
}

Affine substitute(const Affine& a, const Substitution& map) {
  Affine out;
  out.constant = a.constant;
  for (const Affine::Term& t : a.terms) out = add(std::move(out), affine_of(substitute(t.atom, map)), t.coefficient);
  return out;
}

void substitute_loops(Item& item, const Substitution& map) {
  each_block(item, [&](Block& b) {
    for (IterVar& i : b.iters) i.binding = substitute(i.binding, map);
    for (Affine& g : b.guards) g = substitute(g, map);
  });
}

void decompose(Nest& nest, const Path& path, size_t depth) {
  const Path at(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(depth));
  Block& update = *item_at(nest, path).block;
  const std::vector<int> reducing = reduce_loops(update), spatial = spatial_loops(update);
  Block first;
  first.name = update.name + "_init";
  first.buffer = update.buffer;
  first.indices = update.indices;
  first.value = identity_of(*update.combiner, nest.buffers[static_cast<size_t>(update.buffer)].dtype);
  for (const IterVar& i : update.iters)
    if (!i.reduce) first.iters.push_back(i);
  for (const Affine& g : update.guards)
    if (!uses_any(g, reducing)) first.guards.push_back(g);
  const bool tiled = update.tile.has_value();
  update.init = false;

  Item item;
  item.block = std::move(first);
  const std::vector<const Loop*> around = loops_around(nest, path);
  bool innermost = true;
  for (size_t k = around.size(); k-- > 0 && k + 1 >= depth;) {
    if (!contains(spatial, around[k]->var)) continue;
    Loop copy = *around[k];
    copy.var = nest.next_var++;
    copy.name = update.name + "_init" + copy.name.substr(copy.name.rfind('.'));
    if (copy.kind == LoopKind::Parallel) copy.kind = LoopKind::Serial;
    if (copy.kind == LoopKind::Vector && !innermost) copy.kind = LoopKind::Serial;
    if (tiled && innermost && copy.kind == LoopKind::Serial && copy.extent < 4096) copy.kind = LoopKind::Vector;
    innermost = false;
    substitute_loops(item, {{around[k]->var, var_expr(copy)}});
    Item outer;
    outer.loop = std::move(copy);
    outer.body.push_back(std::move(item));
    item = std::move(outer);
  }
  std::vector<Item>& among = siblings(nest, at);
  among.insert(among.begin() + static_cast<std::ptrdiff_t>(at.back()), std::move(item));
}

}  // namespace isomer::loop
