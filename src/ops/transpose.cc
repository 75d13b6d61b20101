#include <fmt/format.h>

#include <numeric>

#include "ir/op.h"
#include "ops/shape_operand.h"

namespace isomer::ops {
namespace {

Expected<std::vector<size_t>> permutation(const ir::OpContext& c) {
  const size_t rank = c.rank(0);
  std::vector<size_t> perm(rank);
  if (!c.has_attr("perm")) {
    std::iota(perm.rbegin(), perm.rend(), size_t{0});
    return perm;
  }
  const std::vector<int64_t> given = c.ints("perm");
  if (given.size() != rank)
    return c.error(fmt::format("attribute 'perm' has {} entries for an input of rank {}", given.size(), rank));
  return resolve_axes(c, given, rank);
}

}  // namespace

ir::OpDef op_transpose() {
  ir::OpDef op;
  op.name = "transpose";
  op.doc = "Axes in another order: axis k of the result is axis perm[k] of the input; reversed when perm is absent.";
  op.inputs = {{"data", "T", kAllTypes}};
  op.outputs = {{"transposed", "T"}};
  op.attrs = {{"perm", ir::AttrKind::Ints}};
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    ISOMER_TRY(const std::vector<size_t> perm, permutation(c));
    te::Builder b;
    const auto in = c.declare(b);
    std::vector<Dim> dims;
    for (size_t p : perm) dims.push_back(in[0].dim(p));
    return b.finish({b.map("transposed", c.dtype(0), dims, [&](auto i) {
      std::vector<te::Expr> index(perm.size());
      for (size_t k = 0; k < perm.size(); ++k) index[perm[k]] = i[k];
      return in[0].at(std::move(index));
    })});
  };
  op.laws = {"transpose(transpose(?x)) == ?x"};
  op.samples = {"transpose(f32[2,3,4])", "transpose(f32[2,3,4]){perm=[1,0,2]}", "transpose(i32[2,3])",
                "transpose(f32[])"};
  op.onnx = {{.type = "Transpose", .since = {1, 13, 21, 23}, .stable = 1}};
  return op;
}

}  // namespace isomer::ops
