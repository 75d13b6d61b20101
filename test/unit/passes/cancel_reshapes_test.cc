#include "test/unit/passes/before_after.h"

namespace isomer::testing {
namespace {

TEST(CancelReshapes, ChainsBecomeOneReshape) {
  expect_pass("cancel_reshapes", R"((%x: f32[2,3,4]) {
    return "y"=unsqueeze(flatten(reshape(%x, [6,4])){axis=0}, [2])
  })",
              "(%x: f32[2,3,4]) { return \"y\"=reshape(%x, [1,24,1]) }");
  expect_pass("cancel_reshapes", "(%x: f32[2,3]) { return \"y\"=relu(squeeze(unsqueeze(%x, [0]), [0])) }",
              "(%x: f32[2,3]) { return \"y\"=relu(%x) }");
  expect_pass("cancel_reshapes", "(%x: f32[N,3,4]) { return \"y\"=reshape(reshape(%x, [0,12]), [0,4,3]) }",
              "(%x: f32[N,3,4]) { return \"y\"=reshape(%x, [0,4,3]) }");
}

TEST(CancelReshapes, NodesThatGiveTheirInputBackGo) {
  const std::string after = "(%x: f32[2,3]) { return \"y\"=relu(%x) }";
  for (const char* same : {"reshape(%x, [2,-1])", "expand(%x, [1,3])", "tile(%x, [1,1])", "concat(%x){axis=1}",
                           "slice(%x, [0,0], [9,9])", "pad(%x, [0,0,0,0])", "max(%x)", "flatten(%x)"})
    expect_pass("cancel_reshapes", "(%x: f32[2,3]) { return \"y\"=relu(" + std::string(same) + ") }", after);
}

TEST(CancelReshapes, MovesBelowElementwiseNodes) {
  expect_pass("cancel_reshapes", R"((%x: f32[2,3,4]) {
    return "y"=reshape(mul(relu(reshape(%x, [6,4])), const f32[] 2), [2,3,4])
  })",
              "(%x: f32[2,3,4]) { return \"y\"=mul(relu(%x), const f32[] 2) }");
  expect_pass("cancel_reshapes", R"((%x: f32[2,6], %z: f32[2,6]) {
    return "y"=add(reshape(%x, [3,4]), reshape(%z, [3,4]))
  })",
              "(%x: f32[2,6], %z: f32[2,6]) { return \"y\"=reshape(add(%x, %z), [3,4]) }");
}

TEST(CancelReshapes, MovesBelowProductsOfRows) {
  // As TensorFlow and Keras write a dense layer of a sequence,
  expect_pass("cancel_reshapes", R"((%x: f32[2,3,4], %w: f32[4,5]) {
    return "y"=relu(add(reshape(matmul(reshape(%x, [6,4]), %w), [2,3,5]), const f32[5] [1,2,3,4,5]))
  })",
              R"((%x: f32[2,3,4], %w: f32[4,5]) { return "y"=relu(add(matmul(%x, %w), const f32[5] [1,2,3,4,5])) })");
  // as GPT-2 does,
  expect_pass("cancel_reshapes", R"((%x: f32[N,3,4], %w: f32[4,5]) {
    return "y"=reshape(gemm(reshape(%x, [-1,4]), %w, const f32[5] [1,2,3,4,5]), [-1,3,5])
  })",
              R"((%x: f32[N,3,4], %w: f32[4,5]) { return "y"=add(matmul(%x, %w), const f32[5] [1,2,3,4,5]) })");
  // and as PyTorch's attention ends, whose heads become one axis on the way.
  expect_pass("cancel_reshapes", R"((%x: f32[3,1,2,2]) {
    return "y"=reshape(gemm(reshape(%x, [3,4]), const f32[2,4] [1,2,3,4,5,6,7,8]){transB=1}, [3,1,2])
  })",
              R"((%x: f32[3,1,2,2]) {
    return "y"=matmul(reshape(%x, [3,1,4]), transpose(const f32[2,4] [1,2,3,4,5,6,7,8]))
  })");
  // Several products read one matrix.
  expect_pass("cancel_reshapes", R"((%x: f32[2,3,4], %v: f32[4,5], %w: f32[4,5]) {
    %r = reshape(%x, [6,4])
    return "y"=reshape(matmul(%r, %v), [2,3,5]), "z"=reshape(relu(matmul(%r, %w)), [2,3,5])
  })",
              R"((%x: f32[2,3,4], %v: f32[4,5], %w: f32[4,5]) {
    return "y"=matmul(%x, %v), "z"=relu(matmul(%x, %w))
  })");
}

// As Keras writes the heads of attention.
TEST(CancelReshapes, WhatIsAddedToHeadsMeetsTheirProduct) {
  expect_pass("cancel_reshapes", R"((%x: f32[3,4], %w: f32[4,6]) {
    return "y"=mul(add(reshape(gemm(%x, %w), [1,3,2,3]), const f32[2,3] [1,2,3,4,5,6]), const f32[] 2)
  })",
              R"((%x: f32[3,4], %w: f32[4,6]) {
    return "y"=reshape(mul(add(gemm(%x, %w), const f32[6] [1,2,3,4,5,6]), const f32[] 2), [1,3,2,3])
  })");
  expect_pass("cancel_reshapes", R"((%x: f32[6,4], %w: f32[4,3]) {
    return "y"=relu(add(reshape(matmul(%x, %w), [2,3,3]), const f32[1,1,3] [1,2,3]))
  })",
              R"((%x: f32[6,4], %w: f32[4,3]) {
    return "y"=reshape(relu(add(matmul(%x, %w), const f32[3] [1,2,3])), [2,3,3])
  })");
}

TEST(CancelReshapes, WhatIsAddedToScoresMeetsTheirProduct) {
  // As Bloom adds slopes to the scores of all heads before batches and heads are apart again.
  expect_pass("cancel_reshapes", R"((%q: f32[2,3,4,5], %k: f32[2,3,5,4], %slopes: f32[6,1,4], %mask: f32[2,1,4,4]) {
    %s = matmul(reshape(%q, [6,4,5]), reshape(%k, [6,5,4]))
    return "y"=softmax(add(reshape(add(mul(%s, const f32[] 0.5), %slopes), [2,3,4,4]), %mask))
  })",
              R"((%q: f32[2,3,4,5], %k: f32[2,3,5,4], %slopes: f32[6,1,4], %mask: f32[2,1,4,4]) {
    return "y"=softmax(add(add(mul(matmul(%q, %k), const f32[] 0.5), reshape(%slopes, [2,3,1,4])), %mask))
  })");
  // A residual that the next layers read too.
  expect_pass("cancel_reshapes", R"((%x: f32[N,4], %w: f32[4,6], %r: f32[1,N,2,3]) {
    return "y"=add(%r, reshape(matmul(%x, %w), [1,-1,2,3]))
  })",
              R"((%x: f32[N,4], %w: f32[4,6], %r: f32[1,N,2,3]) {
    return "y"=reshape(add(reshape(%r, [-1,6]), matmul(%x, %w)), [1,-1,2,3])
  })");
}

TEST(CancelReshapes, FalseTwinsOfHeads) {
  // A number for each head, not for each column; both at once; a value that is computed for this sum alone.
  for (const char* added : {"const f32[2,1] [1,2]", "const f32[3,1,3] [1,2,3,4,5,6,7,8,9]", "exp(%b)"})
    expect_untouched("cancel_reshapes", R"((%x: f32[3,4], %w: f32[4,6], %b: f32[2,3]) {
    return "y"=add(reshape(matmul(%x, %w), [1,3,2,3]), )" +
                                            std::string(added) + ") }");
  // A product without a view takes the sum along.
  expect_untouched("cancel_reshapes", R"((%x: f32[3,4], %w: f32[4,6], %z: f32[2,3,4], %v: f32[4,3]) {
    return "y"=add(matmul(%z, %v), reshape(matmul(%x, %w), [2,3,3]))
  })");
  // No product is there to take it along, or somebody else reads the view.
  expect_untouched("cancel_reshapes", R"((%x: f32[3,6]) {
    return "y"=add(reshape(softmax(%x), [3,2,3]), const f32[2,3] [1,2,3,4,5,6])
  })");
  expect_untouched("cancel_reshapes", R"((%x: f32[3,4], %w: f32[4,6]) {
    %h = reshape(matmul(%x, %w), [3,2,3])
    return "y"=relu(%h), "z"=%h
  })");
}

TEST(CancelReshapes, BatchesOfProductsStayApart) {
  expect_pass("cancel_reshapes", R"((%q: f32[2,3,4,5], %k: f32[2,3,5,4], %v: f32[2,3,4,7]) {
    %s = softmax(matmul(reshape(%q, [6,4,5]), reshape(%k, [6,5,4])))
    return "y"=reshape(matmul(%s, reshape(%v, [6,4,7])), [2,3,4,7])
  })",
              R"((%q: f32[2,3,4,5], %k: f32[2,3,5,4], %v: f32[2,3,4,7]) {
    return "y"=matmul(softmax(matmul(%q, %k)){axis=-1}, %v)
  })");
}

TEST(CancelReshapes, FalseTwinsOfBatches) {
  // The leading axes are others, or only one side is a view.
  expect_untouched("cancel_reshapes", R"((%q: f32[2,3,4,5], %k: f32[3,2,5,4]) {
    return "y"=matmul(reshape(%q, [6,4,5]), reshape(%k, [6,5,4]))
  })");
  expect_untouched("cancel_reshapes", R"((%q: f32[2,3,4,5], %k: f32[6,5,4]) {
    return "y"=matmul(reshape(%q, [6,4,5]), %k)
  })");
  // The view joins rows.
  expect_untouched("cancel_reshapes", R"((%q: f32[2,4,5], %k: f32[2,5,3]) {
    return "y"=matmul(reshape(%q, [1,8,5]), reshape(%k, [1,5,6]))
  })");
  // Along another axis, or one that the view does not keep.
  expect_untouched("cancel_reshapes", R"((%x: f32[2,3,4]) { return "y"=softmax(reshape(%x, [6,4])){axis=0} })");
  expect_untouched("cancel_reshapes", R"((%x: f32[2,3,4]) { return "y"=softmax(reshape(%x, [2,12])) })");
}

TEST(CancelReshapes, FalseTwinsOfProducts) {
  // The last view does not keep the rows.
  expect_untouched("cancel_reshapes", R"((%x: f32[2,3,4], %w: f32[4,6]) {
    return "y"=reshape(matmul(reshape(%x, [6,4]), %w), [2,9,2])
  })");
  // Each matrix of a batch has its own right side.
  expect_untouched("cancel_reshapes", R"((%x: f32[2,12], %w: f32[2,4,5]) {
    return "y"=reshape(matmul(reshape(%x, [2,3,4]), %w), [3,2,5])
  })");
  // Every row has its own summand, or rows are the ones that are contracted.
  expect_untouched("cancel_reshapes", R"((%x: f32[2,3,4], %w: f32[4,5], %c: f32[6,1]) {
    return "y"=reshape(gemm(reshape(%x, [6,4]), %w, %c), [2,3,5])
  })");
  expect_untouched("cancel_reshapes", R"((%x: f32[2,2,4], %w: f32[4,5]) {
    return "y"=reshape(gemm(reshape(%x, [4,4]), %w){transA=1}, [2,2,5])
  })");
  // The product would be rounded before the sum.
  expect_untouched("cancel_reshapes", R"((%x: f16[2,3,4], %w: f16[4,5]) {
    return "y"=reshape(gemm(reshape(%x, [6,4]), %w, const f16[] 3), [2,3,5])
  })");
  // Of no columns there are any number of rows.
  expect_untouched("cancel_reshapes", R"((%x: f32[2,3,4], %w: f32[4,0]) {
    return "y"=reshape(matmul(reshape(%x, [6,4]), %w), [5,7,0]){allowzero=1}
  })");
}

TEST(CancelReshapes, FalseTwins) {
  expect_untouched("cancel_reshapes", "(%x: f32[2,3]) { return \"y\"=slice(%x, [-1], [-9], [0], [-1]) }");  // reversed
  expect_untouched("cancel_reshapes", "(%x: f32[3]) { return \"y\"=pad(%x, [1,-1]) }");                     // shifted
  expect_untouched("cancel_reshapes", "(%x: f32[2,1]) { return \"y\"=expand(%x, [2,3]) }");
  // Softmax sees the shape.
  expect_untouched("cancel_reshapes", R"((%x: f32[2,6]) {
    return "y"=reshape(softmax(reshape(%x, [3,4])), [2,6])
  })");
  // The vector broadcasts along an axis that is not there before.
  expect_untouched("cancel_reshapes", R"((%x: f32[2,6]) {
    return "y"=reshape(add(reshape(%x, [3,4]), const f32[4] [1,2,3,4]), [2,6])
  })");
  // On a vector a transpose does nothing, on the matrix it does.
  expect_untouched("cancel_reshapes", "(%x: f32[2,3]) { return \"y\"=reshape(transpose(reshape(%x, [6])), [1,6]) }");
  expect_untouched("cancel_reshapes", R"((%x: f32[2,6], %z: f32[6,2]) {
    return "y"=add(reshape(%x, [3,4]), reshape(%z, [3,4]))
  })");
}

}  // namespace
}  // namespace isomer::testing
