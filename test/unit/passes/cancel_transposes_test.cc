#include "test/unit/passes/before_after.h"

namespace isomer::testing {
namespace {

TEST(CancelTransposes, PairsCancelAndMerge) {
  expect_pass("cancel_transposes", R"((%x: f32[2,3,4]) {
    return "y"=relu(transpose(transpose(%x){perm=[1,2,0]}){perm=[2,0,1]})
  })",
              "(%x: f32[2,3,4]) { return \"y\"=relu(%x) }");
  expect_pass("cancel_transposes", R"((%x: f32[2,3,4]) {
    return "y"=transpose(transpose(%x){perm=[1,2,0]}){perm=[1,2,0]}
  })",
              "(%x: f32[2,3,4]) { return \"y\"=transpose(%x){perm=[2,0,1]} }");
  expect_pass("cancel_transposes", "(%x: f32[2,3]) { return \"y\"=transpose(transpose(%x)) }",
              "(%x: f32[2,3]) { return \"y\"=%x }");
}

TEST(CancelTransposes, AnIdentityGoesAndUnitAxesAreAReshape) {
  expect_pass("cancel_transposes", "(%x: f32[2,3]) { return \"y\"=relu(transpose(%x){perm=[0,1]}) }",
              "(%x: f32[2,3]) { return \"y\"=relu(%x) }");
  expect_pass("cancel_transposes", "(%x: f32[2,1,3]) { return \"y\"=transpose(%x){perm=[1,0,2]} }",
              "(%x: f32[2,1,3]) { return \"y\"=reshape(%x, [1,2,3]) }");
}

TEST(CancelTransposes, MovesThroughElementwiseChains) {
  expect_pass("cancel_transposes", R"((%x: f32[2,3,4]) {
    %t = transpose(%x){perm=[0,2,1]}
    %h = add(clip(%t, const f32[] 0, const f32[] 6), const f32[3] [1,2,3])
    return "y"=transpose(%h){perm=[0,2,1]}
  })",
              R"((%x: f32[2,3,4]) {
    return "y"=add(clip(%x, const f32[] 0, const f32[] 6), const f32[1,3,1] [1,2,3])
  })");
  expect_pass("cancel_transposes", R"((%x: f32[2,3], %z: f32[2,3]) {
    return "y"=transpose(mul(exp(transpose(%x)), transpose(%z)))
  })",
              "(%x: f32[2,3], %z: f32[2,3]) { return \"y\"=mul(exp(%x), %z) }");
}

TEST(CancelTransposes, TwoBecomeOneBelowANode) {
  expect_pass("cancel_transposes", R"((%x: f32[2,3,4], %z: f32[2,3,4]) {
    return "y"=add(transpose(%x){perm=[1,0,2]}, transpose(%z){perm=[1,0,2]})
  })",
              R"((%x: f32[2,3,4], %z: f32[2,3,4]) { return "y"=transpose(add(%x, %z)){perm=[1,0,2]} })");
}

// As exporters of einsum write the heads of attention, and its scores the other way round.
TEST(CancelTransposes, AxesOfOneElementAreLeftOut) {
  expect_pass("cancel_transposes", R"((%x: f32[1,5,6]) {
    return "y"=transpose(reshape(%x, [1,5,1,2,3])){perm=[0,3,1,2,4]}
  })",
              R"((%x: f32[1,5,6]) {
    return "y"=reshape(transpose(reshape(%x, [1,5,2,3])){perm=[0,2,1,3]}, [1,2,5,1,3])
  })");
  expect_pass("cancel_transposes", R"((%x: f32[N,5,6]) {
    return "y"=transpose(unsqueeze(%x, [1])){perm=[0,3,2,1]}
  })",
              R"((%x: f32[N,5,6]) { return "y"=reshape(transpose(%x){perm=[0,2,1]}, [0,6,5,1]) })");
}

TEST(CancelTransposes, TheTransposeOfAProductIsTheOtherProduct) {
  const std::string after = R"((%q: f32[2,4,5], %k: f32[2,3,5]) {
    return "y"=matmul(%q, transpose(%k){perm=[0,2,1]})
  })";
  expect_pass("cancel_transposes", R"((%q: f32[2,4,5], %k: f32[2,3,5]) {
    return "y"=transpose(matmul(%k, transpose(%q){perm=[0,2,1]})){perm=[0,2,1]}
  })",
              after);
  // Behind a view that keeps rows and columns.
  expect_pass("cancel_transposes", R"((%q: f32[2,4,5], %k: f32[2,3,5]) {
    return "y"=transpose(reshape(matmul(%k, transpose(%q){perm=[0,2,1]}), [1,2,3,4])){perm=[0,1,3,2]}
  })",
              R"((%q: f32[2,4,5], %k: f32[2,3,5]) {
    return "y"=reshape(matmul(%q, transpose(%k){perm=[0,2,1]}), [1,2,4,3])
  })");
  // Both sides are turned already.
  expect_pass("cancel_transposes", R"((%q: f32[4,2,5], %k: f32[3,2,5]) {
    return "y"=transpose(matmul(transpose(%k){perm=[1,0,2]}, transpose(%q){perm=[1,2,0]})){perm=[0,2,1]}
  })",
              R"((%q: f32[4,2,5], %k: f32[3,2,5]) {
    return "y"=matmul(transpose(%q){perm=[1,0,2]}, transpose(%k){perm=[1,2,0]})
  })");
  expect_pass("cancel_transposes", R"((%x: f32[2,3,4,5]) {
    return "y"=transpose(reshape(transpose(%x){perm=[0,1,3,2]}, [6,5,4])){perm=[0,2,1]}
  })",
              "(%x: f32[2,3,4,5]) { return \"y\"=reshape(%x, [6,4,5]) }");
}

TEST(CancelTransposes, FalseTwinsOfProducts) {
  // Nothing would merge; batches change places; somebody else reads the product; the view joins rows.
  expect_untouched("cancel_transposes", R"((%q: f32[2,5,4], %k: f32[2,3,5]) {
    return "y"=transpose(matmul(%k, %q)){perm=[0,2,1]}
  })");
  expect_untouched("cancel_transposes", R"((%q: f32[2,4,5], %k: f32[2,3,5]) {
    return "y"=transpose(matmul(%k, transpose(%q){perm=[0,2,1]})){perm=[2,1,0]}
  })");
  expect_untouched("cancel_transposes", R"((%q: f32[2,4,5], %k: f32[2,3,5]) {
    %p = matmul(%k, transpose(%q){perm=[0,2,1]})
    return "y"=transpose(%p){perm=[0,2,1]}, "z"=%p
  })");
  expect_untouched("cancel_transposes", R"((%q: f32[2,4,5], %k: f32[2,3,5]) {
    return "y"=transpose(reshape(matmul(%k, transpose(%q){perm=[0,2,1]}), [1,6,4])){perm=[0,2,1]}
  })");
  // As BoTNet ends its attention.
  expect_untouched("cancel_transposes", R"((%s: f32[2,4,5], %v: f32[2,3,5]) {
    return "y"=transpose(matmul(softmax(%s), transpose(%v){perm=[0,2,1]})){perm=[0,2,1]}
  })");
  // An axis of one element that is the value's own.
  expect_untouched("cancel_transposes", "(%x: f32[5,1,6]) { return \"y\"=transpose(%x){perm=[2,1,0]} }");
}

TEST(CancelTransposes, MovesThroughConcat) {
  expect_pass("cancel_transposes", R"((%x: f32[2,3,4], %z: f32[2,5,4]) {
    %c = concat(transpose(%x){perm=[0,2,1]}, relu(transpose(%z){perm=[0,2,1]})){axis=-1}
    return "y"=transpose(%c){perm=[0,2,1]}
  })",
              "(%x: f32[2,3,4], %z: f32[2,5,4]) { return \"y\"=concat(%x, relu(%z)){axis=1} }");
  expect_pass("cancel_transposes", R"((%x: f32[2,3,4], %z: f32[2,3,5]) {
    return "y"=concat(transpose(%x){perm=[2,0,1]}, transpose(%z){perm=[2,0,1]}){axis=0}
  })",
              R"((%x: f32[2,3,4], %z: f32[2,3,5]) { return "y"=transpose(concat(%x, %z){axis=2}){perm=[2,0,1]} })");
  expect_untouched("cancel_transposes", R"((%x: f32[2,3], %z: f32[2,5]) {
    return "y"=transpose(concat(transpose(%x), reshape(%z, [5,2])){axis=0})
  })");
}

TEST(CancelTransposes, MatrixProductsTakeThem) {
  expect_pass("cancel_transposes", "(%x: f32[3,2], %w: f32[4,3]) { return \"y\"=matmul(transpose(%x), transpose(%w)) }",
              "(%x: f32[3,2], %w: f32[4,3]) { return \"y\"=gemm(%x, %w){transA=1, transB=1} }");
  expect_pass("cancel_transposes",
              "(%x: f32[3,2], %w: f32[3,4]) { return \"y\"=gemm(transpose(%x), %w, const f32[] 1) }",
              "(%x: f32[3,2], %w: f32[3,4]) { return \"y\"=gemm(%x, %w, const f32[] 1){transA=1} }");
}

TEST(CancelTransposes, FalseTwins) {
  // The node between mixes places.
  expect_untouched("cancel_transposes", R"((%x: f32[2,3]) {
    return "y"=transpose(softmax(transpose(%x)){axis=-1})
  })");
  // It depends on the place.
  expect_untouched("cancel_transposes", "(%x: f32[3,3]) { return \"y\"=transpose(trilu(transpose(%x))) }");
  // Not the inverse: nothing gets fewer.
  expect_untouched("cancel_transposes", R"((%x: f32[2,3,4]) {
    return "y"=transpose(exp(transpose(%x){perm=[1,2,0]})){perm=[1,2,0]}
  })");
  // Somebody else reads between.
  expect_untouched("cancel_transposes", R"((%x: f32[2,3]) {
    %h = exp(transpose(%x))
    return "y"=transpose(%h), "h"=%h
  })");
  // The other operand would need a transpose.
  expect_untouched("cancel_transposes", R"((%x: f32[2,3], %z: f32[3,2]) {
    return "y"=transpose(add(transpose(%x), %z))
  })");
  expect_untouched("cancel_transposes", R"((%x: f32[3,3], %z: f32[3]) {
    return "y"=transpose(add(transpose(%x), %z))
  })");
  // Batches of matrices.
  expect_untouched("cancel_transposes", R"((%x: f32[2,3,4], %z: f32[2,5,4]) {
    return "y"=matmul(%x, transpose(%z){perm=[0,2,1]})
  })");
}

}  // namespace
}  // namespace isomer::testing
