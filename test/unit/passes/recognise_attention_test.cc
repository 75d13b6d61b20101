#include "test/unit/passes/before_after.h"

namespace isomer::testing {
namespace {

const std::string kInputs = "(%q: f32[2,3,5,4], %k: f32[2,3,6,4], %v: f32[2,3,6,7], %m: f32[2,1,1,6]) ";

TEST(RecogniseAttention, ScaledAndMasked) {
  expect_pass("recognise_attention", kInputs + R"({
    %s = div(matmul(%q, transpose(%k){perm=[0,1,3,2]}), 2)
    return "y"=matmul(softmax(add(%s, %m)), %v)
  })",
              kInputs + "{ return \"y\"=attention(%q, %k, %v, %m){scale=0.5} }");
  expect_pass("recognise_attention", kInputs + R"({
    return "y"=matmul(softmax(matmul(%q, transpose(%k){perm=[0,1,3,2]})){axis=3}, %v)
  })",
              kInputs + "{ return \"y\"=attention(%q, %k, %v){scale=1.0} }");
}

TEST(RecogniseAttention, KeysThatAreSplitAndSwappedAtOnce) {
  expect_pass("recognise_attention", R"((%q: f32[2,3,5,4], %k: f32[2,6,3,4], %v: f32[2,3,6,7]) {
    return "y"=matmul(softmax(mul(matmul(%q, transpose(%k){perm=[0,2,3,1]}), 0.25)), %v)
  })",
              R"((%q: f32[2,3,5,4], %k: f32[2,6,3,4], %v: f32[2,3,6,7]) {
    return "y"=attention(%q, transpose(%k){perm=[0,2,1,3]}, %v){scale=0.25}
  })");
}

TEST(RecogniseAttention, FalseTwins) {
  const std::string s = "matmul(%q, transpose(%k){perm=[0,1,3,2]})";
  // Softmax along another axis, another function, a product by something that is no number, scores that are read.
  expect_untouched("recognise_attention", kInputs + "{ return \"y\"=matmul(softmax(" + s + "){axis=2}, %v) }");
  expect_untouched("recognise_attention", kInputs + "{ return \"y\"=matmul(sigmoid(" + s + "), %v) }");
  expect_untouched("recognise_attention", kInputs + "{ return \"y\"=matmul(softmax(mul(" + s + ", %m)), %v) }");
  expect_untouched("recognise_attention",
                   kInputs + "{ %p = softmax(" + s + ") return \"y\"=matmul(%p, %v), \"p\"=%p }");
  // Heads that broadcast.
  expect_untouched("recognise_attention", R"((%q: f32[2,3,5,4], %k: f32[2,1,6,4], %v: f32[2,3,6,7]) {
    return "y"=matmul(softmax(matmul(%q, transpose(%k){perm=[0,1,3,2]})), %v)
  })");
}

}  // namespace
}  // namespace isomer::testing
