#include <fmt/format.h>

#include "ir/op.h"
#include "ops/body.h"

namespace isomer::ops {
namespace {

constexpr const char* kBranches[] = {"then_branch", "else_branch"};

Expected<ir::GraphRef> branch_of(const ir::OpContext& c, size_t which, size_t captures) {
  return body_of(c, kBranches[which], 0, captures, c.output_count());
}

Expected<std::vector<Type>> infer_if(const ir::OpContext& c) {
  ISOMER_TRY(const size_t captures, capture_count(c));
  if (captures + 1 != c.input_count())
    return c.error(
        fmt::format("expected one condition and {} captured values, found {} inputs", captures, c.input_count()));
  if (c.shape(0).has_rank())
    for (const Dim& d : c.shape(0).dims())
      if (d.is_const() && d.value() != 1) return c.error("the condition has more than one element");
  std::vector<Type> of[2];
  for (size_t b : {0, 1}) {
    ISOMER_TRY(const ir::GraphRef g, branch_of(c, b, captures));
    BodySizes sizes;
    sizes.bind_captures(c, *g, captures);
    for (size_t k = 0; k < captures; ++k)
      ISOMER_CHECK_OK(check_passes(c, "a captured value", g->inputs()[k].types[0], c.type(1 + k)));
    for (size_t k = 0; k < c.output_count(); ++k) of[b].push_back(sizes.outside(g->type(g->outputs()[k].value)));
  }
  std::vector<Type> types;
  const Tensor* cond = c.value(0);
  for (size_t k = 0; k < c.output_count(); ++k) {
    ISOMER_TRY(Type t, join(c, of[0][k], of[1][k]));
    types.push_back(cond && cond->size() == 1 ? of[cond->integer(0) != 0 ? 0 : 1][k] : std::move(t));
  }
  return types;
}

Expected<std::vector<Tensor>> run_if(const ir::OpContext& c) {
  ISOMER_TRY(const size_t captures, capture_count(c));
  ISOMER_TRY(const bool cond, truth_of(c, *c.value(0), "the condition"));
  ISOMER_TRY(const ir::GraphRef g, branch_of(c, cond ? 0 : 1, captures));
  ISOMER_TRY(std::vector<Tensor> results, c.run(*g, captured_values(c, captures)));
  results.resize(c.output_count());
  return results;
}

}  // namespace

ir::OpDef op_if() {
  ir::OpDef op;
  op.name = "if";
  op.doc = "The results of one of two graphs, chosen by a condition.";
  op.inputs = {{"cond", "B", DType::Bool}, {"captured", "", kCarried, ir::Arity::Variadic}};
  op.outputs = {{"outputs", "V", ir::Arity::Variadic}};
  op.attrs = {captures_attr(),
              {.name = "else_branch", .kind = ir::AttrKind::Graph, .required = true},
              {.name = "then_branch", .kind = ir::AttrKind::Graph, .required = true}};
  op.infer = infer_if;
  op.infer_unranked = true;
  op.kernel = run_if;
  op.samples = {
      R"(if(bool[], f32[2], f32[2]){captures=2, then_branch=graph @t(%a: f32[2], %b: f32[2]) { return %a }, else_branch=graph @e(%a: f32[2], %b: f32[2]) { return %b }} -> 1)",
      R"(if(bool[1] [true]){then_branch=graph @t() { %c = const i64[2] [1, 2] return %c }, else_branch=graph @e() { %c = const i64[3] [1, 2, 3] return %c }} -> 1)"};
  op.onnx = {{.type = "If", .since = {1, 11, 13, 16, 19, 21, 23}, .stable = 1}};
  return op;
}

}  // namespace isomer::ops
