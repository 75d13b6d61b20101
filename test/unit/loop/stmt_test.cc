#include "loop/stmt.h"

#include <gtest/gtest.h>

#include "loop/print.h"
#include "loop/target.h"

namespace isomer::loop {
namespace {

using te::Expr;

Expr var(int id, const char* name) { return te::Axis{id, name, Dim(0)}; }

// C[8*i + j] += A[8*i + j] for 20 elements, the last block cut to 4.
Function with_tail() {
  Function f;
  f.name = "f";
  f.buffers = {{"A", DType::F32, {20}, Scope::Argument, false}, {"C", DType::F32, {20}, Scope::Argument, true}};
  f.arguments = 2;
  const Expr at = var(0, "i") * Expr(8) + var(1, "j");
  f.body = Stmt::loop(0, "i", Expr(3), LoopKind::Parallel,
                      Stmt::loop(1, "j", te::min(Expr(8), Expr(20) - var(0, "i") * Expr(8)), LoopKind::Serial,
                                 Stmt::store(1, {at}, Expr::read(0, DType::F32, {at}), te::Combiner::Sum)));
  return f;
}

TEST(LoopStmt, PrintsOneLineAStatement) {
  EXPECT_EQ(print(with_tail()),
            "function f(A: f32[20], out C: f32[20])\n"
            "  parallel i < 3\n"
            "    for j < min(8,20 - i*8)\n"
            "      C[i*8 + j] += A[i*8 + j]\n");
}

TEST(LoopStmt, CountsTasksAndScratch) {
  Function f = with_tail();
  EXPECT_EQ(f.tasks(), 3);
  EXPECT_EQ(f.scratch_bytes(), 0);
  f.buffers.push_back({"S", DType::F32, {17}, Scope::Scratch, true});
  f.buffers.push_back({"L", DType::F32, {17}, Scope::Local, true});
  EXPECT_EQ(f.scratch_bytes(), 128);
}

TEST(LoopStmt, VerifySeesThatATailEndsInTime) {
  EXPECT_TRUE(verify(with_tail()).ok());
  Function f = with_tail();
  f.buffers[0].dims = {19};
  const auto r = verify(f);
  ASSERT_FALSE(r.ok());
  EXPECT_NE(r.error().message.find("index 0 of A runs over 0 to 19"), std::string::npos) << r.error().message;
}

TEST(LoopStmt, VerifyDeclinesWhatBreaksARule) {
  Function f = with_tail();
  f.buffers[1].written = false;
  EXPECT_FALSE(verify(f).ok());
  f = with_tail();
  f.body = f.body->body[0];
  EXPECT_FALSE(verify(f).ok()) << "i is bound by no loop";
  f = with_tail();
  f.body = Stmt::loop(7, "r", Expr(2), LoopKind::Serial, f.body);
  EXPECT_FALSE(verify(f).ok()) << "the parallel loop is not at the root";
}

TEST(LoopTarget, NamesStandForFeatures) {
  for (const std::string_view name : target_names()) {
    const auto t = parse_target(name);
    ASSERT_TRUE(t.ok());
    EXPECT_EQ(t->name, name);
    EXPECT_TRUE(std::is_sorted(t->features.begin(), t->features.end()));
  }
  EXPECT_TRUE(parse_target("x86-64-v4")->has("avx512f"));
  EXPECT_FALSE(parse_target("x86-64-v3")->has("avx512f"));
  EXPECT_TRUE(parse_target("aarch64-dotprod")->has("dotprod"));
  EXPECT_EQ(parse_target("pdp11").error().code, "E-target");
}

}  // namespace
}  // namespace isomer::loop
