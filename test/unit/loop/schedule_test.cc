#include "loop/schedule.h"

#include "test/loop_programs.h"

namespace isomer::loop {
namespace {

IntrinsicPtr fma(int m, int n) { return outer_product(m, n, DType::F32, ""); }
IntrinsicPtr whole_fma(int m, int n) {
  Intrinsic i = *fma(m, n);
  i.tail = {false, false, true};
  return std::make_shared<const Intrinsic>(std::move(i));
}

Schedule scheduled(const te::Program& p, const std::string& steps, std::vector<IntrinsicPtr> intrinsics = {}) {
  Schedule s(*nest_of(p), std::move(intrinsics));
  std::istringstream lines(steps);
  for (std::string line; std::getline(lines, line);) {
    const Decision d = s.apply(line);
    EXPECT_TRUE(d) << line << ": " << d.reason() << "\n" << print(s.nest());
  }
  return s;
}

std::string kernel_text(const Schedule& s) {
  const auto f = finish(s.nest(), "k");
  return f.ok() ? print(*f) : f.error().to_string();
}

const char* kMatmul =
    "input a : f32[20,13]\ninput b : f32[13,40]\ninput bias : f32[40]\ninput r : f32[20,40]\n"
    "c[i<20,j<40] : f32 = sum(k<13) a[i,k]*b[k,j]\n"
    "t[i<20,j<40] : f32 = c[i,j] + bias[j]\n"
    "y[i<20,j<40] : f32 = max(t[i,j] + r[i,j],0)\noutput y\n";

TEST(Schedule, ContractionWithPackedPanelsAndEpilogue) {
  const te::Program p = parsed(kMatmul);
  const Schedule s = scheduled(p,
                               "compute_inline t\n"
                               "split c.i 6 -> i0 i1\nsplit c.j 16 -> j0 j1\nreorder c.i0 c.j0 c.i1 c.j1 c.k\n"
                               "cache_read c a -> panel\ncompute_at panel c.i0\n"
                               "reverse_compute_at y c.j0\n"
                               "vectorize panel.i1\nvectorize y.j\n"
                               "tensorize c.i1 fma_6x16_f32\nparallel c.i0\n",
                               {fma(6, 16)});
  EXPECT_EQ(check_nest(p, s.nest()), "");
  const std::string text = kernel_text(s);
  EXPECT_NE(text.find("tile fma_6x16_f32(min(6,"), std::string::npos) << text;
  EXPECT_NE(text.find("local c: f32[6,16]"), std::string::npos) << text;
  EXPECT_NE(text.find("local panel: f32[6,13]"), std::string::npos) << text;
  EXPECT_NE(text.find("vector j < 8"), std::string::npos) << "the tail is a vector of its own\n" << text;
}

TEST(Schedule, ContractionWithWeightsPackedAhead) {
  const te::Program p = parsed(kMatmul);
  const Schedule s = scheduled(p,
                               "transform_layout b -> d1/16 d0 d1%16\n"
                               "split c.i 6 -> i0 i1\nsplit c.j 16 -> j0 j1\nreorder c.j0 c.i0 c.i1 c.j1 c.k\n"
                               "tensorize c.i1 fma_6x16_f32\n"
                               "compute_inline t\nreverse_compute_at y c.i0\nvectorize y.j\n"
                               "fuse c.j0 c.i0 -> f\nparallel c.f\n",
                               {fma(6, 16)});
  const auto f = finish(s.nest(), "k");
  ASSERT_TRUE(f.ok()) << f.error().to_string();
  ASSERT_TRUE(verify(*f).ok()) << verify(*f).error().to_string() << print(*f);
  Random r(3);
  std::vector<Tensor> inputs = random_inputs(p, r);
  const std::vector<Tensor> want = reference(p, inputs);
  Tensor packed(DType::F32, {3, 13, 16});
  for (int64_t k = 0; k < 13; ++k)
    for (int64_t j = 0; j < 40; ++j) packed.set_real((j / 16 * 13 + k) * 16 + j % 16, inputs[1].real(k * 40 + j));
  inputs[1] = packed;
  inputs.push_back(Tensor(DType::F32, {20, 40}));
  const auto got = evaluate(*f, inputs);
  ASSERT_TRUE(got.ok()) << got.error().to_string() << print(*f);
  EXPECT_EQ(difference(got->back(), want[0]), "") << print(*f);
  EXPECT_EQ(f->tasks(), 12);
}

TEST(Schedule, RowReductionsUnderTheRow) {
  const te::Program p = parsed(
      "input x : f32[5,37]\nm[i<5] : f32 = max(k<37) x[i,k]\ne[i<5,j<37] : f32 = exp(x[i,j] - m[i])\n"
      "s[i<5] : f32 = sum(k<37) e[i,k]\ny[i<5,j<37] : f32 = e[i,j]/s[i]\noutput y\n");
  const Schedule s = scheduled(p,
                               "compute_at s y.i\ncompute_at e y.i\ncompute_at m y.i\n"
                               "split m.k 8 -> k0 k1\nrfactor m.k1 -> mp\nvectorize mp.k1\nvectorize m.k1\n"
                               "split e.j 8 -> j0 j1\nvectorize e.j1\n"
                               "split s.k 8 -> k0 k1\nvectorize s.k1\n"
                               "split y.j 8 -> j0 j1\nvectorize y.j1\nparallel y.i\n");
  EXPECT_EQ(check_nest(p, s.nest()), "");
  const std::string text = kernel_text(s);
  EXPECT_NE(text.find("local e: f32[1,37]"), std::string::npos) << text;
  EXPECT_NE(text.find("vector j1@37 < 5"), std::string::npos) << text;
  EXPECT_EQ(text.find("if "), std::string::npos) << "no guard is left\n" << text;
}

TEST(Schedule, TextReplaysToTheSameNest) {
  const te::Program p = parsed(kMatmul);
  const Schedule s = scheduled(p, "tile c.i c.j 6 16 -> i0 j0 i1 j1\nreverse_compute_at t c.j0\nbind c.i0 task\n");
  const auto again = replay(*nest_of(p), s.text());
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_EQ(print(again->nest()), print(s.nest()));
  EXPECT_EQ(again->text(), s.text());
  const auto wrong = replay(*nest_of(p), "# a comment\n\nsplit c.q 4 -> a b\n");
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().where.line, 3u);
}

std::string reason(const te::Program& p, const std::string& steps, const std::string& last,
                   std::vector<IntrinsicPtr> intrinsics = {}) {
  Schedule s = scheduled(p, steps, std::move(intrinsics));
  const std::string before = print(s.nest()) + s.text();
  const Decision d = s.apply(last);
  EXPECT_FALSE(d) << last << " was done\n" << print(s.nest());
  EXPECT_EQ(print(s.nest()) + s.text(), before) << "a declined step left a trace";
  return d.reason();
}

TEST(Schedule, DeclinesWithAReason) {
  const te::Program p = parsed(kMatmul);
  EXPECT_EQ(reason(p, "reorder c.k c.i c.j\n", "parallel c.k"), "the loop carries a reduction");
  EXPECT_EQ(reason(p, "", "parallel c.j"), "only a loop at the root can be parallel");
  EXPECT_EQ(reason(p, "decompose_reduction c c.k\n", "reorder c.k c.j"),
            "something else stands between the loops, and would run in another order");
  EXPECT_EQ(reason(p, "compute_inline t\n", "compute_at y c.i"),
            "nothing under the loop reads what the block computes");
  EXPECT_EQ(reason(p, "", "reverse_compute_at t c.k"),
            "a reduction that the block reads is not complete after an iteration of the loop");
  EXPECT_EQ(reason(p, "", "fuse c.j c.k -> f"), "one of the loops carries a reduction and the other does not");
  EXPECT_EQ(reason(p, "", "vectorize c.j"), "a vector loop holds blocks only");
  EXPECT_EQ(reason(p, "", "compute_inline c"), "a reduction cannot be put into an expression");
  EXPECT_EQ(reason(p, "", "compute_inline y"), "the block computes an output");
  EXPECT_EQ(reason(p, "", "split c.i 0 -> a b"), "a factor is at least 1");
  EXPECT_EQ(reason(p, "", "split c.i 4 -> j b"), "the names of the new loops are taken");
  EXPECT_EQ(reason(p, "", "bind c.i warp"), "the machine has no such axis; there are task and lane");
  EXPECT_EQ(reason(p, "", "transform_layout b -> d0 d1/4"),
            "each axis stands in a layout once, or as one quotient and one remainder");
}

TEST(Schedule, DeclinesAConsumerThatNeedsMore) {
  const te::Program p = parsed(
      "input x : f32[9]\na[i<9] : f32 = x[i]*2\nb[i<9] : f32 = a[i] + 1\nc[i<9] : f32 = a[8 - i]\noutput b, c\n");
  EXPECT_EQ(reason(p, "", "compute_at a b.i"), "a consumer outside of the loop needs what the block computes");
}

TEST(Schedule, DeclinesTilesThatDoNotFit) {
  const te::Program p = parsed(kMatmul);
  const std::string split = "split c.i 6 -> i0 i1\nsplit c.j 16 -> j0 j1\nreorder c.i0 c.j0 c.i1 c.j1 c.k\n";
  EXPECT_EQ(reason(p, "transform_layout b -> d1 d0\n" + split, "tensorize c.i1 fma_6x16_f32", {fma(6, 16)}),
            "the strides do not fit: vectors are not contiguous in memory");
  EXPECT_EQ(reason(p, split, "tensorize c.i1 fma_4x16_f32", {fma(4, 16)}),
            "the loops do not have the extents of the intrinsic");
  EXPECT_EQ(reason(p, split, "tensorize c.i1 fma_6x16_f32", {whole_fma(6, 16)}),
            "a tail cuts an axis that the intrinsic takes whole");
  const te::Program q = parsed("input a : f32[4,8]\ny[i<4] : f32 = sum(k<8) a[i,k]\noutput y\n");
  EXPECT_EQ(reason(q, "", "tensorize y.i fma_6x16_f32", {fma(6, 16)}), "the block computes another expression");
}

IntrinsicPtr byte_dot() {
  Intrinsic i;
  i.name = "dot_4x16_i8";
  i.emit = Emit::DotProduct;
  te::Builder b;
  const Dim depth = Dim::symbol("k");
  const te::Handle x = b.input("a", DType::I8, {4, depth, 4}), w = b.input("b", DType::I8, {depth, 16, 4});
  const te::Axis m = b.axis("m", 4), n = b.axis("n", 16), k = b.axis("k", depth), q = b.axis("q", 4);
  i.meaning = b.finish({b.stage("c", DType::I32, {m, n},
                                te::sum({k, q}, te::cast(DType::I32, x(m, k, q)) * te::cast(DType::I32, w(k, n, q))))});
  i.tail = {true, true, true, false};
  return std::make_shared<const Intrinsic>(std::move(i));
}

TEST(Schedule, BytesFourToALane) {
  const te::Program p = parsed(
      "input a : i8[7,12]\ninput b : i8[12,20]\nw[k<12,j<20] : i8 = b[k,j]\n"
      "y[i<7,j<20] : i32 = sum(k<12) i32(a[i,k])*i32(w[k,j])\noutput y\n");
  const std::string cut =
      "split y.i 4 -> i0 i1\nsplit y.j 16 -> j0 j1\nsplit y.k 4 -> k0 k1\n"
      "reorder y.i0 y.j0 y.i1 y.j1 y.k0 y.k1\n";
  const Schedule s =
      scheduled(p, "transform_layout w -> d0/4 d1 d0%4\n" + cut + "tensorize y.i1 dot_4x16_i8\n", {byte_dot()});
  EXPECT_EQ(check_nest(p, s.nest()), "");
  const std::string text = print(finish_all(s.nest(), "k")->at(1).function);
  EXPECT_NE(text.find("w[0,16,0] by (0,4,80,1)"), std::string::npos) << text;
  EXPECT_EQ(reason(p, cut, "tensorize y.i1 dot_4x16_i8", {byte_dot()}),
            "the strides do not fit: vectors are not contiguous in memory");
}

TEST(Schedule, HostileTextsAreDeclined) {
  const te::Program p = parsed(kMatmul);
  for (const char* line :
       {"split", "split c.i", "split c.i x -> a b", "split c.i 99999999999999999999 -> a b", "split c.i 1000000 -> a b",
        "split c.i 4 -> a.b c", "fuse c.i c.j ->", "reorder", "reorder c.i c.i",
        "transform_layout b -> d0%1000000 d0/1000000 d1", "transform_layout b -> d99999999999999999999 d0",
        "cache_read c a -> c", "explode c", "-> -> ->", "tensorize c.i nothing"})
    EXPECT_NE(reason(p, "", line), "") << line;
  std::string deep;
  Schedule s(*nest_of(p));
  for (int k = 0; k < 200; ++k)
    (void)s.split(k ? "c.a" + std::to_string(k - 1) : "c.i", 1, "b" + std::to_string(k), "a" + std::to_string(k));
  EXPECT_LE(s.loops("c").size(), 66u);
  EXPECT_EQ(check_nest(p, s.nest()), "");
}

TEST(Schedule, ConvolutionByPanels) {
  const te::Program p = parsed(
      "input x : f32[7,9,5]\ninput w : f32[3,3,5,20]\n"
      "p[i<7,j<9,u<3,v<3,c<5] : f32 = select(1 <= i + u && i + u < 8 && 1 <= j + v && j + v < 10, "
      "x[i + u - 1,j + v - 1,c], 0)\n"
      "y0[i<7,j<9,n<20] : f32 = sum(u<3,v<3,c<5) p[i,j,u,v,c]*w[u,v,c,n]\n"
      "y[i<7,j<9,n<20] : f32 = max(y0[i,j,n],0)\noutput y\n");
  const Schedule s = scheduled(p,
                               "split y0.j 4 -> j0 j1\nsplit y0.n 16 -> n0 n1\n"
                               "reorder y0.i y0.j0 y0.n0 y0.j1 y0.n1 y0.u y0.v y0.c\n"
                               "compute_at p y0.j0\nreverse_compute_at y y0.n0\nvectorize y.n\nvectorize p.c\n"
                               "tensorize y0.j1 fma_4x16_f32\nfuse y0.i y0.j0 -> f\nparallel y0.f\n",
                               {fma(4, 16)});
  EXPECT_EQ(check_nest(p, s.nest()), "") << print(s.nest());
  EXPECT_NE(kernel_text(s).find("local p: f32[1,4,3,3,5]"), std::string::npos) << kernel_text(s);
}

TEST(Schedule, CacheWriteUnrollPrefetchAnnotate) {
  const te::Program p = parsed(kMatmul);
  const Schedule s = scheduled(p,
                               "cache_write t -> acc\ncache_write c -> part\nreverse_compute_at c_out c.j\n"
                               "unroll c.k\nprefetch c b c.j\nannotate c.i note word\nparallel c.i\n");
  EXPECT_EQ(check_nest(p, s.nest()), "");
}

}  // namespace
}  // namespace isomer::loop
