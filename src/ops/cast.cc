// Changes of the element type, and the identity.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ir/op.h"
#include "ops/elementwise.h"
#include "ops/legacy.h"

namespace isomer::ops {
namespace {

// Below opset 6 the target was written by its name.
Imported import_cast(ir::ForeignNode& node, ir::GraphBuilder& builder) {
  static constexpr std::pair<std::string_view, DType> kNames[] = {
      {"FLOAT", DType::F32},  {"DOUBLE", DType::F64}, {"FLOAT16", DType::F16}, {"INT8", DType::I8},
      {"INT16", DType::I16},  {"INT32", DType::I32},  {"INT64", DType::I64},   {"UINT8", DType::U8},
      {"UINT16", DType::U16}, {"UINT32", DType::U32}, {"UINT64", DType::U64},  {"BOOL", DType::Bool}};
  if (const auto* text = node.attrs.get<std::string>("to")) {
    const auto* found = std::find_if(std::begin(kNames), std::end(kNames), [&](auto& n) { return n.first == *text; });
    if (found == std::end(kNames))
      return Diagnostic("E-onnx-form", fmt::format("Cast to {}: expected the name of a numeric type", quoted(*text)));
    node.attrs.set("to", found->second);
  }
  return add_as_is(node, builder);
}

// `saturate` and `round_mode` speak of 8-bit floats alone, which Isomer has not.
std::vector<ir::AttrDef> eight_bit_attrs() {
  return {{"saturate", ir::AttrKind::Int, int64_t{1}}, {"round_mode", ir::AttrKind::String, std::string("up")}};
}

Expected<te::Program> cast_program(const ir::OpContext& c) {
  te::Builder b;
  const auto in = c.declare(b);
  const DType to = c.out(0, {}).dtype;
  return b.finish({b.map("output", to, in[0].dims(), [&](auto i) -> te::Expr {
    const te::Expr x = in[0].at({i.begin(), i.end()});
    if (to != DType::Bool || x.dtype() == DType::Bool) return cast(to, x);
    return ne(x, te::Expr::literal(x.dtype(), 0));
  })});
}

Expected<std::vector<Type>> cast_types(const ir::OpContext& c) {
  Type t = c.out(0, c.shape(0));
  if (t.dtype == DType::Opaque) return c.error("expected a numeric or boolean type to cast to");
  return std::vector{std::move(t)};
}

}  // namespace

ir::OpDef op_cast() {
  ir::OpDef op;
  op.name = "cast";
  op.doc = "The element type `to`: floats truncate to integers and saturate, integers wrap, nonzero is true.";
  op.inputs = {{"input", "T1", kAllTypes}};
  op.outputs = {{"output", "$to"}};
  op.attrs = eight_bit_attrs();
  op.attrs.push_back({.name = "to", .kind = ir::AttrKind::DType, .required = true});
  op.infer = cast_types;
  op.infer_unranked = true;
  op.compute = cast_program;
  op.samples = {"cast(f32[2,3]){to=i32}", "cast(i64[2,3]){to=u8}", "cast(f32[3]){to=bool}", "cast(bool[3]){to=f16}",
                "cast(f32[2]){to=f32}"};
  op.onnx = {{.type = "Cast", .since = {1, 6, 9, 13, 19, 21, 23}, .stable = 6, .import = import_cast}};
  return op;
}

ir::OpDef op_cast_like() {
  ir::OpDef op;
  op.name = "cast_like";
  op.doc = "The element type of another tensor, as cast gives it.";
  op.inputs = {{"input", "T1", kAllTypes}, {"target_type", "T2", kAllTypes}};
  op.outputs = {{"output", "T2"}};
  op.attrs = eight_bit_attrs();
  op.infer = cast_types;
  op.infer_unranked = true;
  op.compute = cast_program;
  op.samples = {"cast_like(f32[2,3], i32[1])", "cast_like(i64[2], bool[])"};
  op.onnx = {{.type = "CastLike", .since = {15, 19, 21, 23}, .stable = 15}};
  return op;
}

ir::OpDef op_identity() {
  return unary({.name = "identity",
                .doc = "x itself.",
                .types = kAllTypes,
                .onnx = {{.type = "Identity", .since = {1, 13, 14, 16, 19, 21, 23}}},
                .laws = {"identity(?x) == ?x"},
                .inputs = {"input"},
                .output = "output"},
               [](const te::Expr& x, const ir::OpContext&) { return x; });
}

}  // namespace isomer::ops
