#include "ir/op.h"
#include "ops/broadcast.h"

#include <fmt/format.h>

namespace isomer::ops {
namespace {

// The batch part of numpy's matmul: a vector counts as a matrix of one row (left) or one column (right).
Expected<std::vector<Dim>> batch_dims(const ir::OpContext& c) {
  for (size_t i : {0, 1})
    if (c.rank(i) == 0) return c.error("expected operands of rank 1 or more, found a scalar");
  const auto leading = [&](size_t i) {
    std::vector<Dim> d = c.shape(i).dims();
    d.resize(d.size() >= 2 ? d.size() - 2 : 0);
    return d;
  };
  const Dim& ka = c.dim(0, c.rank(0) - 1);
  const Dim& kb = c.dim(1, c.rank(1) == 1 ? 0 : c.rank(1) - 2);
  if (ka.is_const() && kb.is_const() && !(ka == kb))
    return c.error(fmt::format("the contracted extents {} and {} differ in {} x {}", ka.value(), kb.value(),
                               c.shape(0).to_string(), c.shape(1).to_string()));
  const std::vector<Dim> shapes[] = {leading(0), leading(1)};
  return broadcast_dims(c, shapes);
}

}  // namespace

ir::OpDef op_matmul() {
  ir::OpDef op;
  op.name = "matmul";
  op.doc = "Batched matrix product: contracts the last axis of a with the second-last of b.";
  op.inputs = {{"a", "T", kNumbers}, {"b", "T", kNumbers}};
  op.outputs = {{"y", "T"}};
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    te::Builder b;
    const auto in = c.declare(b);
    ISOMER_TRY(const std::vector<Dim> batch, batch_dims(c));
    const bool row = in[0].rank() == 1, column = in[1].rank() == 1;
    std::vector<Dim> dims = batch;
    if (!row) dims.push_back(in[0].dim(in[0].rank() - 2));
    if (!column) dims.push_back(in[1].dim(in[1].rank() - 1));
    const te::Axis k = b.axis("k", in[0].dim(in[0].rank() - 1));
    // Indices into an operand: its batch axes broadcast, then its own two.
    const auto operand = [&](const te::Handle& h, std::span<const te::Expr> i, std::vector<te::Expr> own) {
      std::vector<te::Expr> index(i.begin(), i.begin() + static_cast<ptrdiff_t>(batch.size()));
      index.insert(index.end(), own.begin(), own.end());
      return h.broadcast(index);
    };
    return b.finish({b.map("y", c.dtype(0), dims, [&](auto i) {
      const size_t n = batch.size();
      const te::Expr a =
          operand(in[0], i, row ? std::vector<te::Expr>{te::Expr(k)} : std::vector<te::Expr>{i[n], te::Expr(k)});
      const te::Expr w =
          operand(in[1], i, column ? std::vector<te::Expr>{te::Expr(k)} : std::vector<te::Expr>{te::Expr(k), i.back()});
      return te::sum({k}, a * w);
    })});
  };
  op.laws = {"matmul(?a, matmul(?b, ?c)) == matmul(matmul(?a, ?b), ?c)",
             "matmul(?a, add(?b, ?c)) == add(matmul(?a, ?b), matmul(?a, ?c))"};
  op.samples = {"matmul(f32[2,3], f32[3,4])", "matmul(f32[5,1,2,3], f32[4,3,2])", "matmul(f32[3], f32[3])",
                "matmul(f32[3], f32[2,3,4])", "matmul(i32[2,3], i32[3])"};
  op.onnx = {{.type = "MatMul", .since = {1, 9, 13}}};
  return op;
}

}  // namespace isomer::ops
