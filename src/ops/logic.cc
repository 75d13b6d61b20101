// Operators on truth values and on bits.
#include <fmt/format.h>

#include "ir/op.h"
#include "ops/broadcast.h"
#include "ops/elementwise.h"

namespace isomer::ops {
namespace {

using te::BinaryOp;
using te::Expr;

ir::OpDef logical(std::string name, std::string doc, std::string onnx, BinaryOp f) {
  const std::string law = fmt::format("{0}(?a, ?b) == {0}(?b, ?a)", name);
  return binary({.name = std::move(name),
                 .doc = std::move(doc),
                 .types = DType::Bool,
                 .onnx = {{.type = std::move(onnx), .since = {1, 7}, .stable = 7}},
                 .laws = {law}},
                [f](const Expr& a, const Expr& b, const ir::OpContext&) { return te::binary(f, a, b); });
}

ir::OpDef bitwise(std::string name, std::string doc, std::string onnx, BinaryOp f) {
  const std::string law = fmt::format("{0}(?a, ?b) == {0}(?b, ?a)", name);
  return binary({.name = std::move(name),
                 .doc = std::move(doc),
                 .types = kInts,
                 .onnx = {{.type = std::move(onnx), .since = {18}, .stable = 18}},
                 .laws = {law}},
                [f](const Expr& a, const Expr& b, const ir::OpContext&) { return te::binary(f, a, b); });
}

}  // namespace

ir::OpDef op_and() { return logical("and", "Whether both hold.", "And", BinaryOp::And); }
ir::OpDef op_or() { return logical("or", "Whether at least one holds.", "Or", BinaryOp::Or); }
ir::OpDef op_xor() { return logical("xor", "Whether exactly one holds.", "Xor", BinaryOp::Xor); }

ir::OpDef op_not() {
  return unary({.name = "not",
                .doc = "The opposite truth value.",
                .types = DType::Bool,
                .onnx = {{.type = "Not", .since = {1}}},
                .laws = {"not(not(?x)) == ?x", "not(and(?a, ?b)) == or(not(?a), not(?b))"}},
               [](const Expr& x, const ir::OpContext&) { return !x; });
}

ir::OpDef op_bitwise_and() { return bitwise("bitwise_and", "And of the bits.", "BitwiseAnd", BinaryOp::And); }
ir::OpDef op_bitwise_or() { return bitwise("bitwise_or", "Or of the bits.", "BitwiseOr", BinaryOp::Or); }
ir::OpDef op_bitwise_xor() { return bitwise("bitwise_xor", "Exclusive or of the bits.", "BitwiseXor", BinaryOp::Xor); }

ir::OpDef op_bitwise_not() {
  return unary({.name = "bitwise_not",
                .doc = "Every bit turned over.",
                .types = kInts,
                .onnx = {{.type = "BitwiseNot", .since = {18}, .stable = 18}},
                .laws = {"bitwise_not(bitwise_not(?x)) == ?x"}},
               [](const Expr& x, const ir::OpContext&) { return !x; });
}

ir::OpDef op_bit_shift() {
  return binary({.name = "bit_shift",
                 .doc = "x with its bits moved by y places to the LEFT or RIGHT; y of the width or more gives 0.",
                 .types = kUnsignedInts,
                 .attrs = {{.name = "direction", .kind = ir::AttrKind::String, .required = true}},
                 .onnx = {{.type = "BitShift", .since = {11}, .stable = 11}},
                 .samples = {"bit_shift(u8[2,3], u8[3] in 0..8){direction=\"LEFT\"}",
                             "bit_shift(u32[2,3], u32[] 3){direction=\"RIGHT\"}"},
                 .inputs = {"x", "y"},
                 .output = "z",
                 .check = [](const ir::OpContext& c) -> Expected<void> {
                   const std::string& d = c.text("direction");
                   if (d == "LEFT" || d == "RIGHT") return {};
                   return c.error(fmt::format("direction is {}, expected \"LEFT\" or \"RIGHT\"", quoted(d)));
                 }},
                [](const Expr& a, const Expr& b, const ir::OpContext& c) {
                  return te::binary(c.text("direction") == "LEFT" ? BinaryOp::Shl : BinaryOp::Shr, a, b);
                });
}

ir::OpDef op_where() {
  ir::OpDef op;
  op.name = "where";
  op.doc = "x where the condition holds, else y, with broadcasting of all three.";
  op.inputs = {{"condition", "B", DType::Bool}, {"x", "T", kAllTypes}, {"y", "T", kAllTypes}};
  op.outputs = {{"output", "T"}};
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    ISOMER_TRY(std::vector<Dim> dims, broadcast_inputs(c));
    return std::vector{c.out(0, Shape(std::move(dims)))};
  };
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    te::Builder b;
    const auto in = c.declare(b);
    ISOMER_TRY(const std::vector<Dim> dims, broadcast_inputs(c));
    return b.finish({b.map("output", c.dtype(1), dims, [&](auto i) {
      return select(in[0].broadcast(i), in[1].broadcast(i), in[2].broadcast(i));
    })});
  };
  op.laws = {"where(?c, ?x, ?x) == ?x", "where(not(?c), ?x, ?y) == where(?c, ?y, ?x)"};
  op.samples = {"where(bool[2,3], f32[2,3], f32[2,3])", "where(bool[3], i64[2,1], i64[])"};
  op.onnx = {{.type = "Where", .since = {9, 16}, .stable = 9}};
  return op;
}

}  // namespace isomer::ops
