#include "compile/kernel_code.h"

#include <gtest/gtest.h>

#include <thread>

namespace isomer::compile {
namespace {

using te::Expr;

// out[i] = value for i < 8.
loop::Function fill(float value) {
  loop::Function f;
  f.name = "fill";
  f.buffers = {{"out", DType::F32, {8}, loop::Scope::Argument, true}};
  f.arguments = 1;
  te::Node var{.kind = te::Kind::Var, .dtype = DType::I64};
  var.var = 0;
  var.var_name = "i";
  f.body = loop::Stmt::loop(0, "i", Expr(int64_t{8}), loop::LoopKind::Serial,
                            loop::Stmt::store(0, {Expr::make(var)}, Expr::real(DType::F32, value)));
  return f;
}

float result(const Code& code) {
  float out[8] = {};
  void* arguments[] = {out};
  EXPECT_EQ(code.entry(arguments, 0, 1, nullptr), 0);
  return out[7];
}

TEST(KernelCode, IsMadeOnceForASignature) {
  const loop::Function one = fill(1), two = fill(2);
  KernelCode codes(*codegen::host_target());
  const auto first = codes.of({{&one, "one"}, {&two, "two"}, {&one, "one"}}, 1);
  ASSERT_EQ(first.size(), 3U);
  for (const auto& c : first) ASSERT_TRUE(c.ok());
  EXPECT_EQ(result(*first[0]), 1);
  EXPECT_EQ(result(*first[1]), 2);
  EXPECT_EQ(first[0]->entry, first[2]->entry);
  EXPECT_EQ(codes.of({{&two, "two"}}, 1)[0]->entry, first[1]->entry);
}

TEST(KernelCode, KeepsWhatIsAskedForWhileOthersAreMade) {
  std::vector<loop::Function> functions;
  for (int i = 0; i < 9; ++i) functions.push_back(fill(static_cast<float>(i)));
  KernelCode codes(*codegen::host_target(), 2);
  const Code first = *codes.of({{&functions[0], "0"}}, 1)[0];
  for (size_t i = 1; i < functions.size(); ++i) {
    EXPECT_EQ(result(*codes.of({{&functions[i], std::to_string(i)}}, 1)[0]), static_cast<float>(i));
    EXPECT_EQ(codes.of({{&functions[0], "0"}}, 1)[0]->entry, first.entry) << i;
  }
}

TEST(KernelCode, WhatIsForgottenStaysValidForThoseWhoHoldIt) {
  const loop::Function one = fill(1), two = fill(2);
  KernelCode codes(*codegen::host_target(), 1);
  const Code held = *codes.of({{&one, "one"}}, 1)[0];
  const Code other = *codes.of({{&two, "two"}}, 1)[0];
  EXPECT_EQ(result(held), 1);
  EXPECT_EQ(result(other), 2);
  EXPECT_NE(codes.of({{&one, "one"}}, 1)[0]->entry, nullptr);
}

TEST(KernelCode, ThreadsThatWantTheSameInOtherOrdersWaitForEachOther) {
  std::vector<loop::Function> functions;
  std::vector<std::string> names;
  for (int i = 0; i < 6; ++i) functions.push_back(fill(static_cast<float>(i))), names.push_back(std::to_string(i));
  KernelCode codes(*codegen::host_target());
  std::vector<std::vector<const void*>> found(4, std::vector<const void*>(6));
  std::vector<std::thread> threads;
  for (size_t t = 0; t < found.size(); ++t)
    threads.emplace_back([&, t] {
      for (size_t k = 0; k < 6; k += 2) {
        const size_t i = (k + 2 * t) % 6;
        const auto made = codes.of({{&functions[i], names[i]}, {&functions[(i + 3) % 6], names[(i + 3) % 6]}}, 1);
        found[t][i] = reinterpret_cast<const void*>(made[0]->entry);
        found[t][(i + 3) % 6] = reinterpret_cast<const void*>(made[1]->entry);
      }
    });
  for (std::thread& t : threads) t.join();
  for (const auto& f : found) EXPECT_EQ(f, found[0]);
}

}  // namespace
}  // namespace isomer::compile
