#include "loop/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "loop/print.h"
#include "te/print.h"

namespace isomer::loop {
namespace {

Names words(std::string_view line) {
  Names out;
  size_t i = 0;
  while (i < line.size()) {
    while (i < line.size() && (line[i] == ' ' || line[i] == '\t' || line[i] == '\r')) ++i;
    const size_t start = i;
    while (i < line.size() && line[i] != ' ' && line[i] != '\t' && line[i] != '\r') ++i;
    if (i > start) out.emplace_back(line.substr(start, i - start));
  }
  return out;
}

int64_t number(const std::string& word) {
  int64_t v = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), v);
  return error == std::errc() && end == word.data() + word.size() ? v : -1;
}

}  // namespace

std::string Schedule::text() const {
  std::string out;
  for (const std::string& l : lines_) out += l + "\n";
  return out;
}

Decision Schedule::done(Nest next, std::string line) {
  nest_ = std::move(next);
  lines_.push_back(std::move(line));
  return Decision::yes();
}

bool Schedule::free_loop_name(const Nest& nest, std::string_view own, const std::string& full) const {
  return !own.empty() && own.find_first_of(" \t\n#.") == std::string_view::npos && !find_loop(nest, full);
}

bool Schedule::free_name(std::string_view name) const {
  if (name.empty() || name.find_first_of(" \t\n#.") != std::string_view::npos) return false;
  return nest_.buffer(name) < 0 && !find_block(nest_, name);
}

Names Schedule::blocks() const {
  Names out;
  each_block(nest_, [&](const Block& b) {
    if (!b.prefetch) out.push_back(b.name);
  });
  return out;
}

Names Schedule::loops(std::string_view block) const {
  Names out;
  if (const auto path = find_block(nest_, block))
    for (const Loop* l : loops_around(nest_, *path)) out.push_back(l->name);
  return out;
}

int64_t Schedule::extent(std::string_view loop) const {
  const auto path = find_loop(nest_, loop);
  return path ? item_at(nest_, *path).loop.extent : 0;
}

namespace {

Names chosen(const Nest& nest, std::string_view block, bool reduce) {
  Names out;
  const auto path = find_block(nest, block);
  if (!path) return out;
  const Block& b = *item_at(nest, *path).block;
  const std::vector<int> vars = reduce ? reduce_loops(b) : spatial_loops(b);
  for (const Loop* l : loops_around(nest, *path))
    if (std::find(vars.begin(), vars.end(), l->var) != vars.end()) out.push_back(l->name);
  return out;
}

}  // namespace

Names Schedule::reduction_loops(std::string_view block) const { return chosen(nest_, block, true); }
Names Schedule::spatial_loops(std::string_view block) const { return chosen(nest_, block, false); }

std::string Schedule::buffer_of(std::string_view block) const {
  const auto path = find_block(nest_, block);
  return path ? nest_.buffers[static_cast<size_t>(item_at(nest_, *path).block->buffer)].name : "";
}

Decision Schedule::apply(std::string_view line) {
  Names w = words(line);
  const Decision malformed = Decision::no("the step is malformed: its words do not fit the primitive");
  if (w.empty() || w[0][0] == '#') return Decision::yes();
  const auto arrow = std::find(w.begin() + 1, w.end(), "->");
  const Names in(w.begin() + 1, arrow);
  const Names out(arrow == w.end() ? w.end() : arrow + 1, w.end());
  const auto is = [&](std::string_view name, size_t ins, size_t outs) {
    return w[0] == name && in.size() == ins && out.size() == outs;
  };
  if (is("split", 2, 2)) return split(in[0], number(in[1]), out[0], out[1]);
  if (is("tile", 4, 4)) return tile(in[0], in[1], number(in[2]), number(in[3]), out[0], out[1], out[2], out[3]);
  if (is("fuse", 2, 1)) return fuse(in[0], in[1], out[0]);
  if (w[0] == "reorder" && out.empty()) return reorder(in);
  if (is("vectorize", 1, 0)) return vectorize(in[0]);
  if (is("unroll", 1, 0)) return unroll(in[0]);
  if (is("parallel", 1, 0)) return parallel(in[0]);
  if (is("bind", 2, 0)) return bind(in[0], in[1]);
  if (is("annotate", 3, 0)) return annotate(in[0], in[1], in[2]);
  if (is("compute_at", 2, 0)) return compute_at(in[0], in[1]);
  if (is("reverse_compute_at", 2, 0)) return reverse_compute_at(in[0], in[1]);
  if (is("compute_inline", 1, 0)) return compute_inline(in[0]);
  if (is("cache_read", 2, 1)) return cache_read(in[0], in[1], out[0]);
  if (is("cache_write", 1, 1)) return cache_write(in[0], out[0]);
  if (is("rfactor", 1, 1)) return rfactor(in[0], out[0]);
  if (is("decompose_reduction", 2, 0)) return decompose_reduction(in[0], in[1]);
  if (w[0] == "transform_layout" && in.size() == 1) return transform_layout(in[0], out);
  if (is("tensorize", 2, 0)) return tensorize(in[0], in[1]);
  if (is("prefetch", 3, 0)) return prefetch(in[0], in[1], in[2]);
  return malformed;
}

Expected<Schedule> replay(Nest nest, std::string_view text, std::vector<IntrinsicPtr> intrinsics) {
  Schedule s(std::move(nest), std::move(intrinsics));
  uint32_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (const Decision d = s.apply(line); !d)
      return Diagnostic("E-schedule", fmt::format("the step {} cannot be done: {}", isomer::quoted(line), d.reason()))
          .at({"", number, 1});
  }
  return s;
}

namespace {

void print_item(const Nest& nest, const te::Program& names, const Item& item, int depth, std::string& out) {
  const std::string indent(static_cast<size_t>(depth) * 2, ' ');
  if (item.is_loop()) {
    out += fmt::format("{}{} {} < {}\n", indent, name(item.loop.kind), item.loop.name, item.loop.extent);
    for (const Item& i : item.body) print_item(nest, names, i, depth + 1, out);
    return;
  }
  const Block& b = *item.block;
  out += indent + (b.prefetch ? "prefetch " : "block ") + b.name + ":";
  for (const IterVar& i : b.iters)
    out += fmt::format(" {}{}={}", i.reduce ? "~" : "", i.axis.name, te::print(i.binding));
  for (const Affine& g : b.guards) out += " if " + te::print(condition_of(g));
  if (b.tile) out += " by " + b.tile->intrinsic->name;
  if (!b.prefetch) {
    const std::string combine = b.combiner ? std::string(te::name(*b.combiner)) : "";
    out += fmt::format("\n{}  {} {}= {}", indent, nest.buffers[static_cast<size_t>(b.buffer)].name, combine,
                       te::print(b.value, &names));
  }
  out += "\n";
}

}  // namespace

std::string print(const Nest& nest) {
  te::Program names;
  for (const Buffer& b : nest.buffers) names.inputs.push_back({b.name, b.dtype, {b.dims.begin(), b.dims.end()}});
  std::string out;
  for (const Item& i : nest.roots) print_item(nest, names, i, 0, out);
  return out;
}

}  // namespace isomer::loop
