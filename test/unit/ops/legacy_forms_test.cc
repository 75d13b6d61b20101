// The forms operators had in older opsets, each turned into today's by its record and run.
#include <gtest/gtest.h>

#include <limits>

#include "base/random.h"
#include "test/unit/ops/call.h"

namespace isomer {
namespace {

using Ints = std::vector<int64_t>;
using Reals = std::vector<double>;
using test::Arg;
using test::counting;
using test::floats;
using test::ints;
using test::show;

// A node of an opset through the record's own importer; the first operand is a graph input, the others are constants.
Expected<std::vector<Tensor>> old(const std::string& type, int64_t version, const std::vector<Arg>& args,
                                  ir::Attrs attrs = {}, size_t outputs = 1) {
  const auto entry = ops::table().find_onnx("", type);
  if (!entry || !entry->form->import) return Diagnostic("E-test", type + " has no importer");
  ir::GraphBuilder b(ops::table(), "old");
  ir::ForeignNode node{.op = entry->op,
                       .type = type,
                       .domain = "",
                       .version = version,
                       .inputs = {},
                       .attrs = std::move(attrs),
                       .info = {},
                       .outputs = outputs};
  std::vector<Tensor> given;
  for (const Arg& a : args) {
    ir::Value v = ir::Value::none();
    if (a && node.inputs.empty()) {
      ISOMER_TRY(v, b.input("x", a->type()));
      given.push_back(*a);
    } else if (a) {
      v = b.constant(*a);
    }
    node.inputs.push_back(v);
  }
  ISOMER_TRY(const std::vector<ir::Value> results, entry->form->import(node, b));
  for (size_t k = 0; k < results.size(); ++k) b.output("y" + std::to_string(k), results[k]);
  ISOMER_TRY(const ir::Graph g, std::move(b).finish());
  return interp::run(g, ops::table(), given);
}

TEST(LegacyForms, SoftmaxBelow13WorksOnRowsOfAMatrix) {
  const Tensor zero(DType::F32, {2, 1, 2});
  EXPECT_EQ(show(old("Softmax", 11, {zero}, {{"axis", int64_t{0}}})), "f32[2,1,2] 0.25 0.25 0.25 0.25");
  EXPECT_EQ(show(old("Softmax", 1, {zero})), "f32[2,1,2] 0.5 0.5 0.5 0.5");
  const Tensor four(DType::F32, {1, 2, 2});
  EXPECT_EQ(show(old("Softmax", 11, {four})), "f32[1,2,2] 0.25 0.25 0.25 0.25");
  EXPECT_EQ(show(old("Softmax", 11, {four}, {{"axis", int64_t{-2}}})), "f32[1,2,2] 0.25 0.25 0.25 0.25");
  EXPECT_EQ(show(old("Softmax", 11, {four}, {{"axis", int64_t{2}}})), "f32[1,2,2] 0.5 0.5 0.5 0.5");
  EXPECT_EQ(show(old("Hardmax", 11, {counting({1, 2, 2})})), "f32[1,2,2] 0 0 0 1");
  EXPECT_FALSE(old("Softmax", 11, {four}, {{"axis", int64_t{9}}}).ok());
}

TEST(LegacyForms, BroadcastBelow7IsAtAnAxis) {
  const Tensor a(DType::F32, {2, 3, 1}), b = floats({3}, {1, 2, 3});
  const auto add = [&](int64_t axis) {
    return show(old("Add", 6, {a, b}, {{"broadcast", int64_t{1}}, {"axis", axis}, {"consumed_inputs", Ints{0, 0}}}));
  };
  EXPECT_EQ(add(1), "f32[2,3,1] 1 2 3 1 2 3");
  EXPECT_EQ(add(-2), "f32[2,3,1] 1 2 3 1 2 3");
  EXPECT_NE(add(5).find("does not fit at axis 5"), std::string::npos);
  EXPECT_NE(add(std::numeric_limits<int64_t>::min()).find("does not fit"), std::string::npos);
  EXPECT_EQ(show(old("Sub", 6, {floats({1, 2}, {3, 4}), floats({2}, {1, 1})}, {{"broadcast", int64_t{1}}})),
            "f32[1,2] 2 3");
  EXPECT_EQ(show(old("PRelu", 6, {floats({1, 2, 1}, {-1, -1}), floats({2}, {2, 3})})), "f32[1,2,1] -2 -3");
}

TEST(LegacyForms, GroupNormalization18HasOneScaleAGroup) {
  const Tensor x = floats({1, 4, 1}, {1, -1, 1, -1});
  const auto y = old("GroupNormalization", 18, {x, floats({2}, {1, 2}), floats({2}, {0, 10})},
                     {{"num_groups", int64_t{2}}, {"epsilon", 0.0}});
  EXPECT_EQ(show(y), "f32[1,4,1] 1 -1 12 8");
  EXPECT_FALSE(
      old("GroupNormalization", 18, {x, floats({2}, {1, 2}), floats({2}, {0, 10})}, {{"num_groups", int64_t{3}}}).ok());
}

TEST(LegacyForms, UpsampleAndResize10KeepTheCorner) {
  const Tensor x = floats({1, 1, 1, 2}, {0, 2}), twice = floats({4}, {1, 1, 1, 2});
  const std::string nearest = "f32[1,1,1,4] 0 0 2 2", linear = "f32[1,1,1,4] 0 1 2 2";
  EXPECT_EQ(show(old("Upsample", 7, {x}, {{"scales", Reals{1, 1, 1, 2}}})), nearest);
  EXPECT_EQ(show(old("Upsample", 7, {x}, {{"scales", Reals{1, 1, 1, 2}}, {"mode", std::string("linear")}})), linear);
  EXPECT_EQ(show(old("Upsample", 9, {x, twice})), nearest);
  EXPECT_EQ(show(old("Upsample", 1, {x}, {{"height_scale", 1.0}, {"width_scale", 2.0}})), nearest);
  EXPECT_EQ(show(old("Upsample", 1, {x}, {{"width_scale", 2.0}, {"mode", std::string("bilinear")}})), linear);
  EXPECT_EQ(show(old("Resize", 10, {x, twice}, {{"mode", std::string("linear")}})), linear);
  EXPECT_EQ(show(old("Resize", 10, {counting({1, 1, 1, 4}), floats({4}, {1, 1, 1, 0.5})})), "f32[1,1,1,2] 0 2");
  EXPECT_FALSE(old("Upsample", 7, {x}).ok());
  EXPECT_FALSE(old("Upsample", 7, {x}, {{"scales", Reals{1, 1, 1, -1}}}).ok());
}

TEST(LegacyForms, TileOfOpset1RepeatsOneAxis) {
  const auto scalar = [](int64_t v) { return Tensor::int_scalar(DType::I64, v); };
  EXPECT_EQ(show(old("Tile", 1, {counting({2, 1}), scalar(2), scalar(1)})), "f32[2,2] 0 0 1 1");
  EXPECT_EQ(show(old("Tile", 1, {counting({2, 1}), scalar(2), scalar(-2)})), "f32[4,1] 0 1 0 1");
  EXPECT_FALSE(old("Tile", 1, {counting({2, 1}), scalar(2), scalar(2)}).ok());
  EXPECT_FALSE(old("Tile", 1, {counting({2, 1}), scalar(-2), scalar(0)}).ok());
  EXPECT_FALSE(old("Tile", 1, {counting({2, 1}), std::nullopt, std::nullopt}).ok());
}

TEST(LegacyForms, PadsWereAttributes) {
  EXPECT_EQ(show(old("Pad", 1, {floats({2}, {1, 2})}, {{"paddings", Ints{1, 1}}, {"value", 7.0}})), "f32[4] 7 1 2 7");
  EXPECT_EQ(show(old("Pad", 2, {floats({2}, {1, 2})}, {{"pads", Ints{0, 1}}})), "f32[3] 1 2 0");
  EXPECT_EQ(show(old("Pad", 2, {floats({3}, {1, 2, 3})}, {{"pads", Ints{2, 0}}, {"mode", std::string("reflect")}})),
            "f32[5] 3 2 1 2 3");
  EXPECT_FALSE(old("Pad", 2, {floats({2}, {1, 2})}, {{"paddings", Ints{1, 1}}}).ok());
  EXPECT_FALSE(old("Pad", 2, {floats({2}, {1, 2})}, {{"pads", Ints{1}}}).ok());
}

TEST(LegacyForms, TopKTookItsNumberAsAnAttribute) {
  const Tensor x = floats({4}, {3, 1, 4, 2});
  for (const auto& y : {old("TopK", 1, {x}, {{"k", int64_t{2}}}, 2), old("TopK", 10, {x, ints({1}, {2})}, {}, 2)}) {
    EXPECT_EQ(show(y, 0), "f32[2] 4 3");
    EXPECT_EQ(show(y, 1), "i64[2] 2 0");
  }
  EXPECT_FALSE(old("TopK", 1, {x}, {{"k", int64_t{5}}}, 2).ok());
  EXPECT_FALSE(old("TopK", 1, {x}, {}, 2).ok());
}

TEST(LegacyForms, SplitTookItsSizesAsAnAttribute) {
  const auto parts = old("Split", 2, {counting({4})}, {{"split", Ints{1, 3}}}, 2);
  EXPECT_EQ(show(parts, 0), "f32[1] 0");
  EXPECT_EQ(show(parts, 1), "f32[3] 1 2 3");
  const auto equal = old("Split", 2, {counting({1, 4})}, {{"axis", int64_t{-1}}}, 2);
  EXPECT_EQ(show(equal, 0), "f32[1,2] 0 1");
  EXPECT_EQ(show(equal, 1), "f32[1,2] 2 3");
  EXPECT_FALSE(old("Split", 2, {counting({3})}, {}, 2).ok());
  EXPECT_FALSE(old("Split", 2, {counting({4})}, {{"split", Ints{1, 2}}}, 2).ok());
  EXPECT_FALSE(old("Split", 2, {std::nullopt}, {}, 2).ok());
}

TEST(LegacyForms, AxesAndBoundsWereAttributes) {
  const Tensor x = counting({2, 3});
  EXPECT_EQ(show(old("Slice", 1, {x}, {{"starts", Ints{1}}, {"ends", Ints{3}}, {"axes", Ints{1}}})),
            "f32[2,2] 1 2 4 5");
  EXPECT_EQ(show(old("Slice", 1, {x}, {{"starts", Ints{1, 0}}, {"ends", Ints{2, -1}}})), "f32[1,2] 3 4");
  EXPECT_EQ(show(old("Squeeze", 1, {counting({1, 2, 1})}, {{"axes", Ints{0}}})), "f32[2,1] 0 1");
  EXPECT_EQ(show(old("Squeeze", 1, {counting({1, 2, 1})})), "f32[2] 0 1");
  EXPECT_FALSE(old("Squeeze", 1, {x}, {{"axes", Ints{0}}}).ok());
  EXPECT_EQ(show(old("Unsqueeze", 1, {counting({2})}, {{"axes", Ints{0, 2}}})), "f32[1,2,1] 0 1");
  EXPECT_EQ(show(old("ReduceSum", 1, {x}, {{"axes", Ints{1}}, {"keepdims", int64_t{0}}})), "f32[2] 3 12");
  EXPECT_EQ(show(old("Reshape", 1, {x}, {{"shape", Ints{3, -1}}})), "f32[3,2] 0 1 2 3 4 5");
  EXPECT_EQ(show(old("Concat", 1, {floats({1, 1}, {1}), floats({1, 1}, {2})})), "f32[1,2] 1 2");
  EXPECT_EQ(show(old("Clip", 6, {x}, {{"min", 1.0}, {"max", 3.0}})), "f32[2,3] 1 1 2 3 3 3");
  EXPECT_EQ(show(old("Clip", 6, {x}, {{"min", 4.0}})), "f32[2,3] 4 4 4 4 4 5");
}

TEST(LegacyForms, BatchNormalizationSaysInItsOwnWaysThatItDoesNotTrain) {
  const std::vector<Arg> in = {floats({1, 2, 2}, {0, 2, 4, 6}), floats({2}, {1, 2}), floats({2}, {0, 10}),
                               floats({2}, {1, 5}), floats({2}, {1, 1})};
  const std::string channels = "f32[1,2,2] -1 1 8 12";
  const ir::AttrValue one = int64_t{1}, zero = int64_t{0};
  EXPECT_EQ(show(old("BatchNormalization", 1, in, {{"epsilon", 0.0}, {"is_test", one}, {"consumed_inputs", Ints{0}}})),
            channels);
  EXPECT_EQ(show(old("BatchNormalization", 6, in, {{"epsilon", 0.0}, {"is_test", one}, {"spatial", one}})), channels);
  EXPECT_EQ(show(old("BatchNormalization", 9, in, {{"epsilon", 0.0}})), channels);
  const Tensor half = floats({2, 2}, {1, 1, 1, 1});
  EXPECT_EQ(show(old("BatchNormalization", 7, {in[0], floats({2, 2}, {1, 2, 3, 4}), half, half, half},
                     {{"epsilon", 0.0}, {"spatial", zero}})),
            "f32[1,2,2] 0 3 10 21");
  EXPECT_FALSE(old("BatchNormalization", 6, in, {{"spatial", zero}}).ok());
  EXPECT_FALSE(old("BatchNormalization", 9, in, {}, 5).ok());
  EXPECT_FALSE(old("BatchNormalization", 7, {in[0]}, {{"spatial", zero}}).ok());
}

TEST(LegacyForms, DropoutHadItsModeAndRatioAsAttributes) {
  const Tensor x = floats({2}, {1, 2});
  EXPECT_EQ(show(old("Dropout", 6, {x}, {{"ratio", 0.5}, {"is_test", int64_t{1}}})), "f32[2] 1 2");
  EXPECT_FALSE(old("Dropout", 6, {x}, {{"ratio", 0.5}}).ok());
  const auto y = old("Dropout", 7, {x}, {{"ratio", 0.5}}, 2);
  EXPECT_EQ(show(y, 0), "f32[2] 1 2");
  EXPECT_EQ(show(y, 1), "f32[2] 1 1");
  EXPECT_EQ(show(old("Dropout", 10, {x}, {}, 2), 1), "bool[2] 1 1");
}

// Attributes of old forms, with values that no exporter writes.
ir::Attrs hostile_attrs(Random& random, const ir::OpDef& op) {
  static const char* const kOld[] = {
      "axes",     "axis",       "broadcast", "consumed_inputs", "split",   "starts",       "ends",        "pads",
      "paddings", "value",      "k",         "scales",          "ratio",   "height_scale", "width_scale", "is_test",
      "shape",    "spatial",    "min",       "num_groups",      "p",       "mode",         "to",          "captures",
      "max",      "directions", "keepdims",  "num_outputs",     "dilation"};
  static const int64_t kNumbers[] = {
      0, 1, -1, 2, 3, -7, int64_t{1} << 40, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
  const auto number = [&] { return kNumbers[random.below(std::size(kNumbers))]; };
  ir::Attrs attrs;
  for (uint64_t n = random.below(4); n > 0; --n) {
    const bool own = !op.attrs.empty() && random.flip();
    const std::string name = own ? op.attrs[random.below(op.attrs.size())].name : kOld[random.below(std::size(kOld))];
    switch (random.below(7)) {
      case 0:
      case 1: attrs.set(name, number()); break;
      case 2: attrs.set(name, static_cast<double>(number()) / 3); break;
      case 3: attrs.set(name, Ints(random.below(4), number())); break;
      case 4: attrs.set(name, Reals(random.below(4), static_cast<double>(number()))); break;
      case 5: attrs.set(name, std::string("linear")); break;
      default: attrs.set(name, ints({2}, {number(), number()}));
    }
  }
  return attrs;
}

TEST(LegacyForms, ImportersSurviveAnyNode) {
  constexpr uint64_t kSeed = 11;
  Random random(kSeed);
  const Type types[] = {{DType::F32, {2, 3, 4}, nullptr},
                        {DType::F32, Shape::unknown(), nullptr},
                        {DType::I64, Shape(std::vector<Dim>{}), nullptr},
                        {DType::F32, {Dim::symbol("N"), 0}, nullptr},
                        {DType::Bool, {1}, nullptr}};
  size_t accepted = 0, refused = 0;
  for (const ir::OpDef& op : ops::table().records())
    for (const ir::OnnxForm& form : op.onnx)
      for (int round = 0; form.import && round < 200; ++round) {
        ir::GraphBuilder b(ops::table(), "hostile");
        std::vector<ir::Value> values = {ir::Value::none()};
        for (size_t i = 0; i < std::size(types); ++i)
          if (auto v = b.input("x" + std::to_string(i), types[i]); v.ok()) values.push_back(*v);
        values.push_back(b.constant(ints({2}, {random.between(-2, 9), std::numeric_limits<int64_t>::max()})));
        values.push_back(b.constant(ints({}, {random.between(-2, 3)})));
        ir::ForeignNode node{.op = &op,
                             .type = form.type,
                             .domain = form.domain,
                             .version = random.between(-1, 24),
                             .inputs = {},
                             .attrs = hostile_attrs(random, op),
                             .info = {},
                             .outputs = random.below(4)};
        const size_t most = std::max<size_t>(2, op.inputs.size() + 1);
        for (uint64_t n = random.below(most + 1); n > 0; --n)
          node.inputs.push_back(random.flip(0.6) ? values[1] : values[random.below(values.size())]);
        (form.import(node, b).ok() ? accepted : refused)++;
      }
  // Both ends are reached: the nodes are neither all nonsense nor all fine.
  EXPECT_GT(accepted, 100u) << "seed " << kSeed;
  EXPECT_GT(refused, 1000u) << "seed " << kSeed;
}

}  // namespace
}  // namespace isomer
