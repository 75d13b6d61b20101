#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "ir/op.h"
#include "ops/element_order.h"

namespace isomer::ops {
namespace {

// The slices that are compared: `count` of them, each of outer * inner elements.
struct Slices {
  const Tensor& x;
  int64_t count, outer, inner;

  int64_t at(int64_t slice, int64_t o, int64_t i) const { return (o * count + slice) * inner + i; }
  int compare(int64_t a, int64_t b) const {
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; ++i) {
        if (element_less(x, at(a, o, i), at(b, o, i))) return -1;
        if (element_less(x, at(b, o, i), at(a, o, i))) return 1;
      }
    return 0;
  }
};

Expected<std::vector<Type>> infer_unique(const ir::OpContext& c) {
  std::vector<Dim> dims{Dim::invalid()};
  Dim slices = 1;
  for (const Dim& d : c.shape(0).dims()) slices = slices * d;
  if (c.has_attr("axis")) {
    ISOMER_TRY(const size_t axis, c.axis(c.integer("axis"), c.rank(0)));
    dims = c.shape(0).dims();
    slices = dims[axis];
    dims[axis] = Dim::invalid();
  }
  std::vector<Type> types{c.out(0, Shape(std::move(dims)))};
  for (size_t k = 1; k < c.output_count(); ++k) types.push_back(c.out(k, Shape{k == 2 ? slices : Dim::invalid()}));
  return types;
}

Tensor gathered(const Slices& s, const std::vector<int64_t>& dims, const std::vector<int64_t>& which) {
  Tensor out(s.x.dtype(), dims);
  const size_t bytes = static_cast<size_t>(s.inner) * size_of(s.x.dtype());
  std::byte* to = out.size() > 0 ? out.mutable_bytes() : nullptr;
  for (int64_t o = 0; to && o < s.outer; ++o)
    for (int64_t w : which) {
      std::memcpy(to, s.x.bytes() + static_cast<size_t>(s.at(w, o, 0)) * size_of(s.x.dtype()), bytes);
      to += bytes;
    }
  return out;
}

Expected<std::vector<Tensor>> unique(const ir::OpContext& c) {
  const bool flat = !c.has_attr("axis");
  const Tensor x = flat ? c.value(0)->reshaped({c.value(0)->size()}) : *c.value(0);
  size_t axis = 0;
  if (!flat) {
    ISOMER_TRY(axis, c.axis(c.integer("axis"), x.rank()));
  }
  Slices s{x, x.dims()[axis], 1, 1};
  for (size_t a = 0; a < axis; ++a) s.outer *= x.dims()[a];
  for (size_t a = axis + 1; a < x.rank(); ++a) s.inner *= x.dims()[a];
  std::vector<int64_t> order(static_cast<size_t>(s.count));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return s.compare(a, b) < 0; });
  // Groups of equal slices in sorted order; the first of each group is its earliest slice.
  std::vector<int64_t> first, group(order.size()), size;
  for (size_t k = 0; k < order.size(); ++k) {
    if (k == 0 || s.compare(order[k - 1], order[k]) != 0) first.push_back(order[k]), size.push_back(0);
    group[static_cast<size_t>(order[k])] = static_cast<int64_t>(first.size()) - 1;
    ++size.back();
  }
  std::vector<int64_t> rank(first.size());  // sorted group -> place in the output
  std::vector<int64_t> by_place(first.size());
  std::iota(by_place.begin(), by_place.end(), int64_t{0});
  if (!c.flag("sorted"))
    std::sort(by_place.begin(), by_place.end(),
              [&](int64_t a, int64_t b) { return first[static_cast<size_t>(a)] < first[static_cast<size_t>(b)]; });
  std::vector<int64_t> which, counts, inverse;
  for (size_t p = 0; p < by_place.size(); ++p) {
    const auto g = static_cast<size_t>(by_place[p]);
    rank[g] = static_cast<int64_t>(p);
    which.push_back(first[g]);
    counts.push_back(size[g]);
  }
  for (int64_t g : group) inverse.push_back(rank[static_cast<size_t>(g)]);
  std::vector<int64_t> dims = x.dims();
  dims[axis] = static_cast<int64_t>(which.size());
  std::vector<Tensor> out{gathered(s, dims, which), Tensor::ints(which), Tensor::ints(inverse), Tensor::ints(counts)};
  out.resize(std::min<size_t>(out.size(), c.output_count()));
  return out;
}

}  // namespace

ir::OpDef op_unique() {
  ir::OpDef op;
  op.name = "unique";
  op.doc = "The distinct elements, or slices along an axis, with first positions, inverse positions and counts.";
  op.inputs = {{"x", "T", kAllTypes}};
  op.outputs = {{"y", "T"},
                {"indices", "i64", ir::Arity::Optional},
                {"inverse_indices", "i64", ir::Arity::Optional},
                {"counts", "i64", ir::Arity::Optional}};
  op.attrs = {{"axis", ir::AttrKind::Int}, {"sorted", ir::AttrKind::Int, int64_t{1}}};
  op.infer = infer_unique;
  op.kernel = unique;
  op.samples = {"unique(i32[8] in 0..4)", "unique(i32[4,2] in 0..2){axis=0}", "unique(i32[8] in 0..4){sorted=0} -> 4"};
  op.onnx = {{.type = "Unique", .since = {11}, .stable = 11}};
  return op;
}

}  // namespace isomer::ops
