#include <fmt/format.h>

#include "ir/op.h"
#include "ops/broadcast.h"
#include "ops/elementwise.h"
#include "ops/legacy.h"

namespace isomer::ops {
namespace {

using te::Expr;

// Below opset 7 an attribute said whether c broadcasts; today it may always.
Imported import_gemm(ir::ForeignNode& node, ir::GraphBuilder& builder) {
  if (node.version < 7) node.attrs.erase("broadcast");
  return add_as_is(node, builder);
}

// factor * x; a factor that is no integer is applied to integers as a real.
Expr scaled(double factor, const Expr& x) {
  if (factor == 1) return x;
  if (is_float(x.dtype())) return Expr::real(x.dtype(), factor) * x;
  return cast(x.dtype(), Expr::real(DType::F64, factor) * cast(DType::F64, x));
}

Expected<te::Program> gemm_program(const ir::OpContext& c) {
  for (size_t i : {0, 1})
    if (c.rank(i) != 2)
      return c.error(
          fmt::format("expected matrices, found the shape {} as '{}'", c.shape(i).to_string(), c.op().inputs[i].name));
  const bool ta = c.flag("transA"), tb = c.flag("transB");
  const Dim &m = c.dim(0, ta ? 1 : 0), &k = c.dim(0, ta ? 0 : 1), &kb = c.dim(1, tb ? 1 : 0), &n = c.dim(1, tb ? 0 : 1);
  if (k.is_const() && kb.is_const() && !(k == kb))
    return c.error(fmt::format("the contracted extents {} and {} differ", k.value(), kb.value()));
  const std::vector<Dim> dims = {m, n};
  if (c.has(2)) ISOMER_CHECK_OK(check_broadcasts_to(c, 2, dims));
  te::Builder b;
  const auto in = c.declare(b);
  const DType dtype = c.dtype(0), work = accumulator(dtype);
  const te::Axis r = b.axis("k", k);
  return b.finish({b.map("y", dtype, dims, [&](auto i) {
    const Expr x = ta ? in[0](r, i[0]) : in[0](i[0], r), w = tb ? in[1](i[1], r) : in[1](r, i[1]);
    Expr y = scaled(c.real("alpha"), te::sum({r}, cast(work, x) * cast(work, w)));
    if (c.has(2)) y = y + scaled(c.real("beta"), cast(work, in[2].broadcast(i)));
    return cast(dtype, y);
  })});
}

}  // namespace

ir::OpDef op_gemm() {
  ir::OpDef op;
  op.name = "gemm";
  op.doc = "alpha * a b + beta * c of matrices, either factor transposed where asked, c broadcast.";
  const DTypeSet types = kFloats | DType::I32 | DType::I64 | DType::U32 | DType::U64;
  op.inputs = {{"a", "T", types}, {"b", "T", types}, {"c", "T", types, ir::Arity::Optional}};
  op.outputs = {{"y", "T"}};
  op.attrs = {{"alpha", ir::AttrKind::Real, 1.0},
              {"beta", ir::AttrKind::Real, 1.0},
              {"transA", ir::AttrKind::Int, int64_t{0}},
              {"transB", ir::AttrKind::Int, int64_t{0}}};
  op.compute = gemm_program;
  op.laws = {"gemm(?a, ?b) == matmul(?a, ?b)", "gemm(?a, ?b, ?c) == add(matmul(?a, ?b), ?c)",
             "gemm(?a, ?b){transA=1} == matmul(transpose(?a), ?b)"};
  op.samples = {"gemm(f32[2,3], f32[3,4])", "gemm(f32[3,2], f32[4,3], f32[4]){transA=1,transB=1}",
                "gemm(f32[2,3], f32[3,4], f32[2,1]){alpha=0.5,beta=2.0}", "gemm(i32[2,3], i32[3,2], i32[])"};
  op.onnx = {{.type = "Gemm", .since = {1, 6, 7, 9, 11, 13}, .stable = 11, .import = import_gemm}};
  return op;
}

}  // namespace isomer::ops
