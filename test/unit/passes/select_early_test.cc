#include "ir/context.h"
#include "ir/sample.h"
#include "passes/operand_axes.h"
#include "test/unit/passes/before_after.h"

namespace isomer::testing {
namespace {

TEST(SelectEarly, OneTokenOfALayer) {
  expect_pass("select_early", R"((%x: f32[2,5,4], %w: f32[4,6]) {
    %y = relu(add(matmul(%x, %w), const f32[6] [1,2,3,4,5,6]))
    return "y"=gather(%y, const i64[] 0){axis=1}
  })",
              R"((%x: f32[2,5,4], %w: f32[4,6]) {
    %y = relu(add(matmul(gather(%x, const i64[1] [0]){axis=1}, %w), const f32[6] [1,2,3,4,5,6]))
    return "y"=squeeze(%y, [1])
  })");
}

// The residual is read by the layer and by the sum: both come to read the same part, and what made it does less too.
TEST(SelectEarly, ThroughAResidual) {
  const passes::Result r = expect_applies("select_early", R"((%x: f32[1,5,4], %w: f32[4,4], %v: f32[4,4]) {
    %h = matmul(%x, %w)
    %n = layer_normalization(%h, const f32[4] [1,2,3,4])
    %y = add(%h, matmul(gelu(%n), %v))
    return "y"=slice(%y, [-1], [9223372036854775807], [1])
  })");
  EXPECT_EQ(count(r.graph, "slice"), 1);
  for (const ir::Node& n : r.graph.nodes())
    EXPECT_TRUE(n.op->name != "matmul" || n.types[0].shape[1] == Dim(1)) << ir::print(r.graph);
}

TEST(SelectEarly, QueriesOfAttentionAndSplitHeads) {
  const passes::Result r = expect_applies("select_early", R"((%q: f32[1,5,6], %k: f32[1,2,3,5], %v: f32[1,2,5,3]) {
    %h = transpose(reshape(%q, [1,5,2,3])){perm=[0,2,1,3]}
    %a = matmul(softmax(mul(matmul(%h, %k), const f32[] 0.5)){axis=-1}, %v)
    %y = reshape(transpose(%a){perm=[0,2,1,3]}, [1,5,6])
    return "y"=gather(%y, const i64[] 0){axis=1}
  })");
  for (const ir::Node& n : r.graph.nodes())
    EXPECT_TRUE(n.op->name != "matmul" || n.types[0].shape[2] == Dim(1)) << ir::print(r.graph);
}

TEST(SelectEarly, ChannelsThatNobodyReads) {
  expect_pass("select_early", R"((%x: f32[1,2,4,4]) {
    %y = conv(%x, const f32[3,2,1,1] [1,2,3,4,5,6], const f32[3] [7,8,9])
    return "y"=slice(relu(%y), [1], [3], [1])
  })",
              R"((%x: f32[1,2,4,4]) {
    %y = conv(%x, const f32[2,2,1,1] [3,4,5,6], const f32[2] [8,9])
    return "y"=relu(%y)
  })");
}

// As in networks that have their strides in the first convolution of a block: nobody reads three pixels of four of what the block before
// gives, and its convolution of 3x3 takes the stride over.
TEST(SelectEarly, StridesOfPointwiseConvolutions) {
  expect_pass("select_early", R"((%x: f32[1,2,7,6]) {
    %a = relu(conv(%x, const f32[2,2,3,3] splat(0.5)){pads=[1,1,1,1]})
    %b = relu(add(conv(%a, const f32[2,2,1,1] [1,2,3,4]), %x))
    %c = conv(%b, const f32[1,2,1,1] [5,6]){strides=[2,2]}
    %d = conv(%b, const f32[1,2,1,1] [7,8], const f32[1] [9]){strides=[2,2]}
    return "y"=add(%c, %d)
  })",
              R"((%x: f32[1,2,7,6]) {
    %s = slice(slice(%x, [0], [7], [2], [2]), [0], [6], [3], [2])
    %a = relu(conv(%x, const f32[2,2,3,3] splat(0.5)){pads=[1,1,1,1], strides=[2,2]})
    %b = relu(add(conv(%a, const f32[2,2,1,1] [1,2,3,4]){strides=[1,1]}, %s))
    %c = conv(%b, const f32[1,2,1,1] [5,6]){strides=[1,1]}
    %d = conv(%b, const f32[1,2,1,1] [7,8], const f32[1] [9]){strides=[1,1]}
    return "y"=add(%c, %d)
  })");
  // Another reader needs all of it; nothing before it computes anything; its own padding is not the image's.
  expect_untouched("select_early", R"((%x: f32[1,2,7,6]) {
    %a = conv(%x, const f32[2,2,3,3] splat(0.5))
    return "y"=conv(%a, const f32[1,2,1,1] [5,6]){strides=[2,2]}, "z"=relu(%a)
  })");
  expect_untouched("select_early", R"((%x: f32[1,2,7,6]) {
    return "y"=conv(relu(%x), const f32[1,2,1,1] [5,6]){strides=[2,2]}
  })");
  expect_untouched("select_early", R"((%x: f32[1,2,7,6]) {
    %a = conv(%x, const f32[2,2,3,3] splat(0.5))
    return "y"=conv(%a, const f32[1,2,1,1] [5,6]){strides=[2,2], pads=[1,1,1,1]}
  })");
}

TEST(SelectEarly, EverySecondPlaceOfAWindow) {
  expect_pass("select_early", R"((%x: f32[1,2,9]) {
    return "y"=slice(max_pool(%x){kernel_shape=[3], pads=[1,1]}, [0], [9], [2], [2])
  })",
              "(%x: f32[1,2,9]) { return \"y\"=max_pool(%x){kernel_shape=[3], pads=[1,1], strides=[2]} }");
  expect_untouched("select_early", R"((%x: f32[1,2,9]) {
    return "y"=slice(max_pool(%x){kernel_shape=[3], pads=[1,1]}, [1], [9], [2], [2])
  })");
}

TEST(SelectEarly, OpenSizes) {
  const passes::Result r = expect_applies("select_early", R"((%x: f32[batch,tokens,4], %w: f32[4,4]) {
    return "y"=gather(matmul(%x, %w), const i64[] 0){axis=1}
  })");
  EXPECT_EQ(r.graph.outputs().size(), 1U);
}

TEST(SelectEarly, FalseTwins) {
  for (const char* body : {
           "slice(reduce_sum(%x, [2]){keepdims=1}, [0], [1], [2])",             // nothing is left out
           "slice(softmax(%x){axis=1}, [0], [1], [1])",                         // the whole axis is summed
           "slice(cum_sum(%x, const i64[] 1), [0], [1], [1])",                  // what stands before counts
           "slice(max_pool(%x){kernel_shape=[2]}, [0], [1], [2])",              // windows
           "slice(relu(%x), [0], [1], [1])",                                    // no reduction has less to do
           "slice(trilu(matmul(%x, const f32[4,4] splat(1))), [1], [2], [1])",  // the place itself counts
           "slice(matmul(%x, const f32[4,4] splat(1)), [2], [2], [1])",         // nothing: there is no part to compute
           "slice(matmul(%x, const f32[4,4] splat(1)), [0], [5], [1])",         // all of it
       })
    expect_untouched("select_early", "(%x: f32[2,5,4]) { return \"y\"=" + std::string(body) + " }");
  // Somebody reads the rest.
  expect_untouched("select_early", R"((%x: f32[2,5,4], %w: f32[4,4]) {
    %y = matmul(%x, %w)
    return "y"=slice(%y, [0], [1], [1]), "z"=%y
  })");
}

// Slices [1, 2) of all operands that the axis lies in.
Tensor second(const Tensor& t, size_t axis) {
  ir::GraphBuilder b(ops::table(), "slice");
  const ir::Value x = *b.input("x", t.type());
  const auto at = static_cast<int64_t>(axis);
  b.output("y", *b.add1("slice", {x, b.constant(Tensor::ints({1})), b.constant(Tensor::ints({2})),
                                  b.constant(Tensor::ints({at}))}));
  return (*interp::run(*std::move(b).finish(), ops::table(), {t}))[0];
}

// What operand_axes says of every operator's samples, carried out: a slice of the result is the result of slices.
TEST(SelectEarly, SlicesOfEveryOperatorAreComputedFromSlices) {
  size_t axes = 0;
  for (const ir::OpDef& op : ops::table().records())
    for (const std::string& text : op.samples) {
      const auto sample = ir::make_sample(text, ops::table(), 7);
      if (!sample.ok() || !op.pure) continue;
      const ir::Graph& g = sample->graph;
      const ir::Node& n = g.nodes().back();
      if (n.op != &op || n.types.size() != 1 || n.inputs.size() != g.input_count()) continue;
      const auto whole = interp::run(g, ops::table(), sample->inputs);
      if (!whole.ok() || g.outputs().size() != 1) continue;
      for (size_t axis = 0; axis < whole->at(0).rank(); ++axis) {
        const auto at = passes::operand_axes(ir::context_of(g, n, ops::table()), axis);
        if (!at || whole->at(0).dims()[axis] < 2) continue;
        ir::GraphBuilder b(ops::table(), "narrow");
        std::vector<ir::Value> inputs;
        std::vector<Tensor> values;
        for (size_t i = 0; i < n.inputs.size(); ++i) {
          if (n.inputs[i].is_none()) {
            inputs.push_back(ir::Value::none());
            continue;
          }
          const Tensor& t = sample->inputs[n.inputs[i].node];
          values.push_back((*at)[i] ? second(t, *(*at)[i]) : t);
          inputs.push_back(*b.input("x" + std::to_string(i), values.back().type()));
        }
        const auto y = b.add1(op.name, inputs, n.attrs);
        if (!y.ok()) continue;  // a size that is stated elsewhere: the pass leaves it alone
        b.output("y", *y);
        const auto part = interp::run(*std::move(b).finish(), ops::table(), values);
        const Tensor expected = second(whole->at(0), axis);
        if (!part.ok() || part->at(0).dims() != expected.dims()) continue;
        ++axes;
        EXPECT_LE(distance(part->at(0), expected), 1e-6) << text << " along " << axis;
      }
    }
  std::printf("%zu axes of samples\n", axes);
  EXPECT_GT(axes, 400U);
}

}  // namespace
}  // namespace isomer::testing
