// Which stages become one kernel, and how values lie in memory.
#include "compile/group.h"

#include "compile/stages.h"
#include "compile/storage.h"
#include "test/unit/compile/compiled.h"

namespace isomer {
namespace {

struct Grouped {
  compile::StageGraph stages;
  std::vector<compile::Group> groups;
};

Grouped group(const std::string& text) {
  auto stages = compile::stages_of(graph_of(text), ops::table());
  EXPECT_TRUE(stages.ok()) << (stages.ok() ? "" : stages.error().to_string());
  Grouped out{*std::move(stages), {}};
  compile::inline_stages(out.stages);
  out.groups = compile::group_stages(out.stages);
  return out;
}

TEST(Group, AContractionTakesWhatFollowsIt) {
  const Grouped g = group(R"(graph @g(%x: f32[1,8,6,6], %w: f32[8,8,3,3], %s: f32[8,1,1]) {
    return relu(add(mul(conv(%x, %w){pads=[1,1,1,1]}, %s), %x)) })");
  ASSERT_EQ(g.groups.size(), 1u);
  EXPECT_TRUE(g.groups[0].contraction);
  EXPECT_EQ(g.groups[0].stages.size(), 2u);
}

TEST(Group, WhatFollowsAConcatenationOfOneValueIsComputedOnce) {
  expect_compiles(
      "graph @g(%x: f32[2,3]) { %e = elu(%x) %c = sigmoid(concat(%e, %e){axis=0}) return neg(%c), softmax(%c) }");
}

TEST(Group, SoftmaxAndLayerNormAreOneKernelEach) {
  EXPECT_EQ(group("graph @g(%x: f32[6,33]) { return softmax(%x) }").groups.size(), 1u);
  EXPECT_EQ(group("graph @g(%x: f32[6,33], %y: f32[6,33], %s: f32[33]) { %z = add(%x, %y) "
                  "return layer_normalization(%z, %s), %z }")
                .groups.size(),
            1u);
}

TEST(Group, GeluByErfIsInTheEpilogue) {
  const Grouped g = group(R"(graph @g(%x: f32[6,33], %w: f32[33,40], %b: f32[40]) {
    %y = add(matmul(%x, %w), %b)
    return mul(mul(%y, add(erf(div(%y, const f32[] 1.4142135)), const f32[] 1)), const f32[] 0.5) })");
  EXPECT_EQ(g.groups.size(), 1u);
}

TEST(Group, ReshapesAreViewsAndCostNoKernel) {
  const Grouped g = group("graph @g(%x: f32[4,6]) { return relu(reshape(relu(%x), [2,12])) }");
  size_t views = 0;
  for (const compile::ModelStage& s : g.stages.stages) views += s.view_of >= 0 ? 1 : 0;
  EXPECT_EQ(views, 1u);
  EXPECT_EQ(g.groups.size(), 2u);
}

TEST(Group, ConcatenationsAreStoredByTheirParts) {
  const char* fire = R"(graph @g(%x: f32[1,8,6,6], %a: f32[16,8,1,1], %b: f32[20,8,3,3], %c: f32[8,36,1,1]) {
    %l = relu(conv(%x, %a))
    %r = relu(conv(%x, %b){pads=[1,1,1,1]})
    return conv(concat(%l, %r){axis=1}, %c), max_pool(%l){kernel_shape=[2,2]} })";
  const ir::Graph g = graph_of(fire);
  auto stages = compile::stages_of(g, ops::table());
  ASSERT_TRUE(stages.ok());
  compile::host_parts(*stages);
  size_t hosted = 0;
  for (const compile::StageValue& v : stages->values) hosted += v.host >= 0 ? 1 : 0;
  EXPECT_EQ(hosted, 2u);
  expect_compiles(fire);
  // Wholes that grow, as in a dense block; a part that is an output, one that is an input, one that comes twice.
  expect_compiles(R"(graph @g(%x: f32[1,8,5,5], %a: f32[4,8,1,1], %b: f32[4,12,1,1], %c: f32[6,16,1,1]) {
    %s = relu(%x)
    %y = relu(conv(%s, %a))
    %z = relu(conv(concat(%s, %y){axis=1}, %b))
    return conv(concat(%s, %y, %z){axis=1}, %c) })");
  expect_compiles(R"(graph @g(%x: f32[1,4,5,5], %a: f32[4,4,1,1]) {
    %y = relu(conv(%x, %a))
    return relu(concat(%x, %y){axis=1}), relu(concat(%y, %y){axis=1}), %y, concat(relu(%y), exp(%y)){axis=3} })");
}

size_t products(const std::string& text) {
  auto stages = compile::stages_of(graph_of(text), ops::table());
  EXPECT_TRUE(stages.ok());
  compile::merge_products(*stages);
  size_t count = 0;
  for (const compile::ModelStage& s : stages->stages) count += compile::contraction(s, stages->values) ? 1 : 0;
  return count;
}

// What is computed of every element of a concatenation is computed of its parts, unless somebody else reads one of these.
TEST(Group, ElementWiseStagesGoIntoTheParts) {
  const auto text = [](const char* last) {
    return fmt::format(R"(graph @g(%x: f32[1,4,5,6], %z: f32[1,4,5,6], %w: f32[2,8,1,1], %s: f32[1,8,1,1]) {{
      %a = mul(%x, %z) %b = sub(%x, %z) %c = concat(%a, %b){{axis=1}} %r = relu(mul(%c, const f32[1,8,1,1] [1,2,3,4,5,6,-7,8]))
      return conv(%r, %w), {} }})",
                       last);
  };
  const auto groups = [&](const char* last) {
    auto stages = compile::stages_of(graph_of(text(last)), ops::table());
    EXPECT_TRUE(stages.ok());
    compile::host_parts(*stages);
    compile::inline_stages(*stages);
    return compile::group_stages(*stages).size();
  };
  EXPECT_EQ(groups("neg(%x)"), 4u);  // two parts, the convolution and the other output
  EXPECT_EQ(groups("neg(%a)"), 5u);
  for (const char* last : {"neg(%x)", "neg(%a)", "%c", "%r", "reduce_max(%r, [1])"}) expect_compiles(text(last));
}

// A norm of each channel of an image whose channels lie together goes over all of it for its sum, for its squares and for
// the result; where the image lies row by row, a channel at a time.
TEST(Group, NormsOfChannelsThatLieTogetherAreNotRows) {
  const auto text = [](const char* before) {
    return fmt::format(R"(graph @g(%x: f32[2,16,9,8], %w: f32[16,16,1,1], %s: f32[16], %b: f32[16]) {{
      return relu(instance_normalization({}, %s, %b)) }})",
                       before);
  };
  const auto groups = [&](const char* before) {
    auto stages = compile::stages_of(graph_of(text(before)), ops::table());
    EXPECT_TRUE(stages.ok());
    compile::inline_stages(*stages);
    return compile::group_stages(*stages).size();
  };
  EXPECT_EQ(groups("%x"), 1u);
  EXPECT_EQ(groups("conv(%x, %w)"), 4u);
  for (const char* before : {"%x", "conv(%x, %w)"}) expect_compiles(text(before));
  expect_compiles(R"(graph @g(%x: f32[1,4,6,5], %w: f32[24,4,1,1]) {
    %c = conv(%x, %w)
    return softmax(%c){axis=1}, softmax(%c){axis=3}, reduce_l2(relu(%c), [2,3]), log_softmax(transpose(%c){perm=[0,2,3,1]}) })");
}

TEST(Group, ProductsOfStepsWithTheSameWeightsAreOne) {
  // Two layers: the first one's inputs are parts of one value, the second one's are computed one after another.
  const char* layers = R"(graph @g(%x: f32[3,1,64], %v: f32[64,64], %w: f32[64,80], %c: f32[1,64]) {
    %a, %b, %d = split(%x){axis=0, num_outputs=3}
    %p = add(matmul(reshape(%a, [1,64]), %v), %c)
    %q = mul(matmul(reshape(%b, [1,64]), %v), tanh(%p))
    %r = mul(matmul(reshape(%d, [1,64]), %v), tanh(%q))
    return add(matmul(%p, %w), matmul(%q, %w)), relu(matmul(%r, %w)) })";
  EXPECT_EQ(products(layers), 2u);
  expect_compiles(layers);
  // Inputs of their own, several rows each, a reader that is a view, a product that is an output.
  const char* inputs = R"(graph @g(%x: f32[2,64], %y: f32[2,64], %z: f32[2,64], %w: f32[64,66]) {
    return relu(reshape(matmul(%x, %w), [4,33])), exp(matmul(%y, %w)), matmul(%z, %w) })";
  EXPECT_EQ(products(inputs), 2u);
  expect_compiles(inputs);
  // Each step needs the one before.
  const char* chain = R"(graph @g(%x: f32[1,64], %w: f32[64,64]) {
    return tanh(matmul(tanh(matmul(tanh(matmul(%x, %w)), %w)), %w)) })";
  EXPECT_EQ(products(chain), 3u);
  expect_compiles(chain);
  // The same product twice, and a part that is read at positions found in data.
  expect_compiles(R"(graph @g(%x: f32[1,64], %y: f32[1,64], %w: f32[64,64]) {
    %a = matmul(%x, %w)
    return gather(%a, const i64[2] [0,5]){axis=1}, relu(matmul(%x, %w)), exp(matmul(%y, %w)) })");
}

TEST(Group, WholesOfManyPartsAreStoredInPlaceAndReadersFollowTheirOrder) {
  std::string text = "graph @g(%x: f32[1,3,5,6], %w: f32[4,3,1,1]) { ";
  std::string parts;
  for (const char* op : {"relu", "neg", "abs", "exp", "sigmoid", "tanh"}) {
    text += std::string("%") + op + " = " + op + "(conv(%x, %w)) ";
    parts += std::string(parts.empty() ? "%" : ", %") + op;
  }
  text += "%w5 = concat(%relu, %neg, %abs, %exp, %sigmoid){axis=1} %w6 = concat(" + parts + "){axis=1} ";
  text += "return relu(%w5), conv(relu(%w6), const f32[2,24,1,1] splat(0.5)) }";
  const ir::Graph g = graph_of(text);
  auto stages = compile::stages_of(g, ops::table());
  ASSERT_TRUE(stages.ok());
  compile::host_parts(*stages);
  size_t hosted = 0;
  for (const compile::StageValue& v : stages->values) hosted += v.host >= 0 ? 1 : 0;
  EXPECT_EQ(hosted, 7u);  // six parts and the smaller whole
  expect_compiles(text);
}

TEST(Group, AWholeThatIsAPartOfAnotherStaysThere) {
  // Its parts lie side by side in a third one too, where it must not move to.
  expect_compiles(R"(graph @g(%x: f32[1,64]) {
    %a = relu(%x)
    %b = neg(%x)
    %c = exp(%x)
    %d = tanh(%x)
    %ab = concat(%a, %b){axis=0}
    %cd = concat(%c, %d){axis=0}
    %first = concat(%ab, %cd){axis=0}
    %second = concat(%a, %b, %c){axis=0}
    return cos(%first), cos(%second) })");
}

TEST(Group, AValueThatComesBackLaterMakesNoCircle) {
  // The sum is read by the row and by a contraction whose result the row reads too.
  expect_compiles(R"(graph @g(%x: f32[5,16], %w: f32[16,16]) {
    %s = reduce_sum(%x, [1])
    %y = matmul(sub(%x, %s), %w)
    return add(%y, %s) })");
}

TEST(Storage, ChannelsAreLastBetweenConvolutions) {
  const Grouped g = group(R"(graph @g(%x: f32[1,3,8,8], %w: f32[16,3,3,3], %v: f32[16,16,3,3]) {
    return conv(max_pool(relu(conv(%x, %w))){kernel_shape=[2,2]}, %v) })");
  const auto layouts = compile::choose_layouts(g.stages, g.groups);
  int last_is_channel = 0;
  for (const compile::Group& group : g.groups) {
    const int value = g.stages.stages[static_cast<size_t>(group.stages.back())].value;
    if (layouts[static_cast<size_t>(value)].order == std::vector<int>{0, 2, 3, 1}) ++last_is_channel;
  }
  EXPECT_EQ(last_is_channel, 2);  // the first convolution and the pool; the output is as the model says
}

TEST(Storage, RowsLieTogetherWhateverOrderTheyComeFrom) {
  const char* text = R"(graph @g(%x: f32[1,16,9], %w: f32[16,16], %s: f32[16]) {
    %t = relu(transpose(%x){perm=[0,2,1]})
    %y = add(matmul(layer_normalization(%t, %s), %w), %t)
    return matmul(layer_normalization(%y, %s), %w) })";
  const Grouped g = group(text);
  const auto layouts = compile::choose_layouts(g.stages, g.groups);
  for (const compile::Group& group : g.groups)
    for (const int s : group.stages) {
      const compile::StageValue& v =
          g.stages.values[static_cast<size_t>(g.stages.stages[static_cast<size_t>(s)].value)];
      if (v.dims != std::vector<int64_t>{1, 9, 16}) continue;
      EXPECT_EQ(layouts[static_cast<size_t>(g.stages.stages[static_cast<size_t>(s)].value)].order.back(), 2) << v.name;
    }
  expect_compiles(text);
}

// The layout of what a named node computes, or of what is computed with it.
compile::Layout layout_of(const std::string& text, const std::string& name) {
  const Grouped g = group(text);
  const auto layouts = compile::choose_layouts(g.stages, g.groups);
  for (size_t v = 0; v < g.stages.values.size(); ++v)
    if (g.stages.values[v].name == name) return layouts[v];
  ADD_FAILURE() << "no value " << name;
  return {};
}

// A product makes %a, of 512 channels; `rest` reads it.
std::string after_512_channels(const std::string& rest) {
  return R"(graph @g(%x: f32[1,8,6,7], %w: f32[512,8,1,1], %v: f32[512,16,3,3], %u: f32[16,512,1,1], %many: f32[1024,512,1,1]) {
    %a = conv(%x, %w) )" +
         rest + " }";
}

TEST(Storage, RowsThatWouldPushEachOtherOutOfTheFirstCacheLieALineApart) {
  const int64_t pitch = 512 + 16;
  const auto expect_apart = [&](const std::string& rest) {
    const compile::Layout l = layout_of(after_512_channels(rest), "a");
    EXPECT_EQ(l.strides, (std::vector<int64_t>{42 * pitch, 1, 7 * pitch, pitch})) << rest;
    EXPECT_EQ(l.span, 41 * pitch + 512) << rest;
  };
  const auto expect_dense = [](const std::string& rest) {
    EXPECT_EQ(layout_of(after_512_channels(rest), "a").span, 42 * 512) << rest;
  };
  expect_apart("return conv(%a, %u)");
  expect_apart("return conv(%a, %v){group=32, strides=[2,2]}");
  expect_dense("return conv(%a, %many)");  // gathers its rows, with so many columns
  expect_dense("return relu(%a)");
  expect_dense("return conv(%a, %u), %a");                           // the model's outputs are as it says
  expect_dense("return conv(%a, %u), gather(%a, [3,1,2]){axis=2}");  // each index is checked
}

TEST(Storage, WhatLiesBetweenRowsIsNeverRead) {
  for (const char* convolution : {"conv(%a, %v){group=32, strides=[2,2], pads=[1,1,1,1]}",
                                  "conv(%a, %v){group=32, pads=[1,1,1,1]}", "conv(relu(%a), %u)"})
    expect_compiles(after_512_channels(std::string("return ") + convolution));
  for (const char* rest :
       {"global_average_pool(%a)", "softmax(%a){axis=1}", "reduce_max(%a, [2,3])", "transpose(%a){perm=[2,0,1,3]}",
        "add(%a, max_pool(%a){kernel_shape=[3,3], pads=[1,1,1,1]})", "concat(%a, neg(%a)){axis=1}",
        "concat(%a, %a){axis=3}", "slice(%a, [1,1], [6,7], [2,3], [2,2])", "reshape(%a, [512,42])", "conv(%a, %many)",
        "layer_normalization(%a, 1.0){axis=3}"})
    expect_compiles(after_512_channels(std::string("return conv(%a, %u), ") + rest));
}

TEST(Group, PartsThatAreReshapedAndTransposedAreReadInPlace) {
  const char* text = R"(graph @g(%x: f32[1,10,36], %w: f32[36,36]) {
    %q, %k, %v = split(matmul(%x, %w)){axis=2, num_outputs=3}
    %q4 = transpose(reshape(%q, [1,10,3,4])){perm=[0,2,1,3]}
    %k4 = transpose(reshape(%k, [1,10,3,4])){perm=[0,2,3,1]}
    %v4 = transpose(reshape(%v, [1,10,3,4])){perm=[0,2,1,3]}
    return matmul(softmax(matmul(%q4, %k4)), %v4) })";
  EXPECT_EQ(group(text).groups.size(), 4u);  // three products and the softmax
  expect_compiles(text);
}

}  // namespace
}  // namespace isomer
