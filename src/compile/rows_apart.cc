#include "compile/rows_apart.h"

#include <algorithm>

#include "base/contains.h"

namespace isomer::compile {
namespace {

using te::Expr;

constexpr int64_t kBadStride = 2048;  // bytes: rows so far apart fall into two sets of the first cache
constexpr int64_t kLine = 64;         // bytes that memory moves at once
constexpr int64_t kWays = 8;          // lines of one set that the first cache holds, or more

// Values that stay as they are: fixed ones, wholes and their parts, whose rows differ, and what is read by index.
std::vector<bool> dense_values(const StageGraph& g, const std::vector<bool>& fixed) {
  std::vector<bool> dense = read_by_index(g);
  for (size_t v = 0; v < g.values.size(); ++v) {
    dense[v] = dense[v] || fixed[v];
    if (const int host = g.values[v].host; host >= 0) dense[v] = dense[static_cast<size_t>(host)] = true;
  }
  return dense;
}

// Whether the rows of its left side, so many bytes long, push each other out while this product reads them.
bool push_each_other_out(int64_t bytes, const Group& reader, const StageGraph& g) {
  const Contraction& c = *reader.contraction;
  if (c.split)  // windows over groups of channels hold twice as many rows
    return c.split->inner.extent.value() > 1 && bytes % (kBadStride / 2) == 0;
  const auto plain = [](const Expr& i) { return i->kind == te::Kind::Int || plain_var(i); };
  if (!std::all_of(c.a->args.begin(), c.a->args.end(), plain)) return false;  // windows are gathered
  int64_t columns = 1;
  for (const te::Axis& a : axes_of(c, g.stages[static_cast<size_t>(reader.stages[0])]))
    if (contains(c.n, a.id)) columns *= a.extent.value();
  return bytes % kBadStride == 0 && !worth_gathering(bytes, columns);
}

}  // namespace

int64_t odd_lines(int64_t elements, int64_t line) {
  const int64_t lines = ceil_div(elements, line);
  return (lines % 2 == 0 ? lines + 1 : lines) * line;
}

bool worth_gathering(int64_t pitch, int64_t columns) {
  return pitch % kBadStride == 0 && columns >= (pitch % (2 * kBadStride) == 0 ? 384 : 1024);
}

void set_rows_apart(const StageGraph& g, const std::vector<Group>& groups, const std::vector<bool>& fixed,
                    std::vector<Layout>& layouts) {
  std::vector<bool> made(g.values.size());
  for (const Group& group : groups)
    if (group.contraction) made[static_cast<size_t>(g.stages[static_cast<size_t>(group.stages.back())].value)] = true;
  const std::vector<bool> dense = dense_values(g, fixed);
  for (const Group& group : groups) {
    if (!group.contraction || group.contraction->a->kind != te::Kind::Read) continue;
    const auto v = static_cast<size_t>(group.contraction->a->tensor);
    const StageValue& value = g.values[v];
    Layout& l = layouts[v];
    if (!made[v] || dense[v] || l.order.empty() || l.span != value.elements()) continue;
    const auto size = static_cast<int64_t>(size_of(value.dtype));
    const auto inner = static_cast<size_t>(l.order.back());
    const int64_t length = value.dims[inner], rows = length > 0 ? value.elements() / length : 0;
    if (rows <= kWays || !push_each_other_out(length * size, group, g)) continue;
    const int64_t pitch = length + kLine / size;
    for (size_t d = 0; d < l.strides.size(); ++d)
      if (d != inner) l.strides[d] = l.strides[d] / length * pitch;
    l.span = (rows - 1) * pitch + length;
  }
}

}  // namespace isomer::compile
