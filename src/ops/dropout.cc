#include <fmt/format.h>

#include "ir/op.h"
#include "ops/legacy.h"

namespace isomer::ops {
namespace {

// What a known scalar input holds; nothing when it is not known.
std::optional<double> scalar(const ir::OpContext& c, size_t i) {
  const Tensor* t = c.value(i);
  return t && t->size() == 1 ? std::optional<double>(t->real(0)) : std::nullopt;
}

// Isomer runs networks, it does not train them: only a dropout that drops nothing has a meaning.
Expected<void> check_inference(const ir::OpContext& c) {
  if (!c.has(2)) return {};
  const std::optional<double> training = scalar(c, 2);
  if (!training) {
    if (c.value(2)) return c.error("expected one element in 'training_mode', found another number");
    return {};
  }
  const std::optional<double> ratio = c.has(1) ? scalar(c, 1) : 0.5;
  if (*training != 0 && (!ratio || *ratio != 0))
    return c.error("training_mode is true with a ratio above 0, but only inference is supported; export for inference");
  return {};
}

bool may_train(const ir::ForeignNode& node, const ir::GraphBuilder& builder) {
  if (node.inputs.size() != 3 || node.inputs[0].is_none() || node.inputs[2].is_none()) return false;
  const Type& data = builder.type(node.inputs[0]);
  // What the operator does not take is for its own record to refuse.
  if (!is_float(data.dtype) || !data.shape.has_rank() || builder.type(node.inputs[2]).dtype != DType::Bool)
    return false;
  if (!node.inputs[1].is_none() && !is_float(builder.type(node.inputs[1]).dtype)) return false;
  const Tensor* known = builder.known(node.inputs[2]);
  return !known || known->size() != 1 || known->real(0) != 0;
}

// What training does with data of which a share is dropped: a draw decides what stays, and what stays is scaled up.
Imported drop(ir::ForeignNode& node, ir::GraphBuilder& builder) {
  const ir::Value x = node.inputs[0], training = node.inputs[2];
  const DType dtype = builder.type(x).dtype;
  const int64_t* seed = node.attrs.get<int64_t>("seed");
  ir::Value ratio = node.inputs[1].is_none() ? builder.constant(Tensor::scalar(DType::F64, 0.5)) : node.inputs[1];
  ISOMER_TRY(ratio, builder.add1("cast", {ratio}, {{"to", DType::F64}}));
  ISOMER_TRY(const ir::Value drawn,
             builder.add1("random_uniform_like", {x},
                          {{"dtype", DType::F64}, {"seed", seed ? static_cast<double>(*seed) : 0.0}}));
  ISOMER_TRY(const ir::Value stays, builder.add1("greater_or_equal", {drawn, ratio}));
  ISOMER_TRY(const ir::Value inference, builder.add1("not", {training}));
  const ir::Value one = builder.constant(Tensor::scalar(DType::F64, 1)),
                  zero = builder.constant(Tensor::scalar(dtype, 0));
  ISOMER_TRY(ir::Value left, builder.add1("sub", {one, ratio}));
  ISOMER_TRY(left, builder.add1("cast", {left}, {{"to", dtype}}));
  ISOMER_TRY(const ir::Value scaled, builder.add1("div", {x, left}));
  ISOMER_TRY(const ir::Value dropped, builder.add1("where", {stays, scaled, zero}));
  ir::NodeInfo mask_info = node.info;
  mask_info.names = {node.info.names.size() > 1 ? node.info.names[1] : ""};
  node.info.names.resize(std::min<size_t>(node.info.names.size(), 1));
  ISOMER_TRY(const ir::Value y, builder.add1("where", {training, dropped, x}, {}, std::move(node.info)));
  if (node.outputs < 2) return std::vector{y};
  ISOMER_TRY(const ir::Value mask, builder.add1("or", {stays, inference}, {}, std::move(mask_info)));
  return std::vector{y, mask};
}

// Below opset 12 the ratio was an attribute; below 7 the mode too (is_test, training when absent).
Imported import_dropout(ir::ForeignNode& node, ir::GraphBuilder& builder) {
  if (node.version >= 12 && may_train(node, builder)) return drop(node, builder);
  if (node.version >= 12 || node.inputs.size() != 1 || node.inputs[0].is_none()) return add_as_is(node, builder);
  node.attrs.erase("consumed_inputs");
  const bool training = node.version < 7 && take_int(node, "is_test").value_or(0) == 0;
  const DType dtype = builder.type(node.inputs[0]).dtype;
  if (const double* ratio = node.attrs.get<double>("ratio")) {
    node.inputs.push_back(builder.constant(Tensor::scalar(dtype, *ratio)));
    node.attrs.erase("ratio");
  } else {
    node.inputs.push_back(ir::Value::none());
  }
  if (training) node.inputs.push_back(builder.constant(Tensor::int_scalar(DType::Bool, 1)));
  // The mask had the type of the data then.
  if (node.version >= 10 || node.outputs < 2) return add_as_is(node, builder);
  ir::NodeInfo mask_info = node.info;
  mask_info.names = {node.info.names.size() > 1 ? node.info.names[1] : ""};
  if (node.info.names.size() > 1) node.info.names[1] = "";
  ISOMER_TRY(std::vector<ir::Value> values, add_as_is(node, builder));
  ISOMER_TRY(values[1], builder.add1("cast", {values[1]}, {{"to", dtype}}, std::move(mask_info)));
  return values;
}

}  // namespace

ir::OpDef op_dropout() {
  ir::OpDef op;
  op.name = "dropout";
  op.doc = "x itself, as in inference; the mask says that every element is kept.";
  op.inputs = {{"data", "T", kFloats},
               {"ratio", "T1", kFloats, ir::Arity::Optional},
               {"training_mode", "T2", DType::Bool, ir::Arity::Optional}};
  op.outputs = {{"output", "T"}, {"mask", "bool", ir::Arity::Optional}};
  op.attrs = {{.name = "seed", .kind = ir::AttrKind::Int}};
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    ISOMER_CHECK_OK(check_inference(c));
    std::vector<Type> types;
    for (size_t k = 0; k < c.output_count(); ++k) types.push_back(c.out(k, c.shape(0)));
    return types;
  };
  op.infer_unranked = true;
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    if (c.has(2) && !c.value(2)) return c.error("needs the value of input 'training_mode'");
    te::Builder b;
    const auto in = c.declare(b);
    const te::Handle y =
        b.map("output", c.dtype(0), in[0].dims(), [&](auto i) { return in[0].at({i.begin(), i.end()}); });
    if (c.output_count() < 2) return b.finish({y});
    return b.finish({y, b.map("mask", DType::Bool, in[0].dims(), [](auto) { return te::truth(true); })});
  };
  op.laws = {"dropout(?x) == ?x"};
  op.samples = {"dropout(f32[2,3])", "dropout(f32[2,3], f32[] 0.25)", "dropout(f32[3], f32[] 0, bool[] true) -> 2"};
  op.onnx = {
      {.type = "Dropout", .since = {1, 6, 7, 10, 12, 13, 22}, .stable = 12, .import = import_dropout, .always = true}};
  return op;
}

}  // namespace isomer::ops
