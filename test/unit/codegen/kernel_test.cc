#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "test/run_kernel.h"

namespace isomer::codegen {
namespace {

using loop::LoopKind;
using loop::Scope;
using loop::Status;
using loop::Stmt;
using te::Expr;

Expr var(int id) { return Expr(te::Axis{id, "v" + std::to_string(id), Dim(0)}); }
Expr read(int buffer, DType type, std::vector<Expr> indices) { return Expr::read(buffer, type, std::move(indices)); }

Tensor ramp(DType type, std::vector<int64_t> dims, double step = 1) {
  Tensor t(type, std::move(dims));
  for (int64_t i = 0; i < t.size(); ++i) t.set_real(i, step * static_cast<double>(i));
  return t;
}

loop::Function function(std::vector<loop::Buffer> buffers, Stmt body) {
  loop::Function f;
  f.name = "kernel";
  for (const loop::Buffer& b : buffers) f.arguments += b.scope == Scope::Argument ? 1 : 0;
  f.buffers = std::move(buffers);
  f.body = std::move(body);
  return f;
}

TEST(Codegen, TasksRunFromBeginToEnd) {
  const auto f =
      function({argument("y", DType::F32, {8}, true)},
               Stmt::loop(0, "i", 8, LoopKind::Parallel, Stmt::store(0, {var(0)}, Expr::real(DType::F32, 3))));
  auto target = host_target();
  ASSERT_TRUE(target.ok());
  auto objects = emit_objects({&f, 1}, *target);
  ASSERT_TRUE(objects.ok());
  auto jit = Jit::load(*objects);
  ASSERT_TRUE(jit.ok());
  auto* kernel = reinterpret_cast<iso_kernel>(jit->find("kernel"));
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(jit->find("nothing"), nullptr);
  float y[8] = {};
  void* arguments[] = {y};
  EXPECT_EQ(kernel(arguments, 2, 5, nullptr), 0);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(y[i], i >= 2 && i < 5 ? 3.0f : 0.0f) << i;
}

TEST(Codegen, RowsAreSummedInALocal) {
  const auto f = function(
      {argument("x", DType::F32, {3, 100}),
       argument("y", DType::F32, {3}, true),
       {"acc", DType::F32, {}, Scope::Local, true}},
      Stmt::loop(0, "i", 3, LoopKind::Serial,
                 Stmt::seq({Stmt::store(2, {}, Expr::real(DType::F32, 0)),
                            Stmt::loop(1, "k", 100, LoopKind::Serial,
                                       Stmt::store(2, {}, read(0, DType::F32, {var(0), var(1)}), te::Combiner::Sum)),
                            Stmt::store(1, {var(0)}, read(2, DType::F32, {}))})));
  const KernelRun run = run_kernel(f, {ramp(DType::F32, {3, 100}), Tensor(DType::F32, {3})});
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.arguments[1].to_reals(), (std::vector<double>{4950, 14950, 24950}));
}

// Every combiner across lanes, with a tail and with more vectors than are unrolled, hoisted out of an outer loop.
TEST(Codegen, LanesAreReduced) {
  for (const int64_t extent : {1, 3, 16, 19, 300}) {
    for (const te::Combiner c : {te::Combiner::Sum, te::Combiner::Max, te::Combiner::Min}) {
      const auto f =
          function({argument("x", DType::F32, {5, extent}), argument("y", DType::F32, {1}, true)},
                   Stmt::loop(0, "o", 5, LoopKind::Serial,
                              Stmt::loop(1, "k", Expr(extent), LoopKind::Vector,
                                         Stmt::store(1, {Expr(0)}, read(0, DType::F32, {var(0), var(1)}), c))));
      const KernelRun run =
          run_kernel(f, {ramp(DType::F32, {5, extent}, -1), Tensor::of<double>(DType::F32, {1}, {2})});
      const auto n = static_cast<double>(5 * extent);
      EXPECT_EQ(run.status, 0);
      const double want = c == te::Combiner::Sum ? 2 - n * (n - 1) / 2 : c == te::Combiner::Max ? 2 : 1 - n;
      EXPECT_EQ(run.arguments[1].real(0), want) << extent << " " << te::name(c);
    }
  }
}

TEST(Codegen, NanWinsInReductionsAcrossLanes) {
  const auto f = function({argument("x", DType::F32, {40}), argument("y", DType::F32, {1}, true)},
                          Stmt::loop(1, "k", 40, LoopKind::Vector,
                                     Stmt::store(1, {Expr(0)}, read(0, DType::F32, {var(1)}), te::Combiner::Max)));
  for (int at = 0; at < 40; ++at) {
    Tensor x = ramp(DType::F32, {40});
    x.set_real(at, std::nan(""));
    if (at % 7 != 0) continue;
    EXPECT_TRUE(std::isnan(run_kernel(f, {x, Tensor(DType::F32, {1})}).arguments[1].real(0))) << at;
  }
}

TEST(Codegen, VectorLoopsHoldLoopsBranchesAndScratch) {
  const Expr v = var(0), k = var(1);
  const auto f = function(
      {argument("x", DType::F32, {4, 37}),
       argument("y", DType::F32, {37}, true),
       {"s", DType::F32, {37}, Scope::Scratch, true}},
      Stmt::seq(
          {Stmt::loop(0, "v", 37, LoopKind::Vector,
                      Stmt::seq({Stmt::store(2, {v}, Expr::real(DType::F32, 1)),
                                 Stmt::loop(1, "k", 4, LoopKind::Serial,
                                            Stmt::store(2, {v}, read(0, DType::F32, {k, v}), te::Combiner::Sum))})),
           Stmt::loop(2, "w", 37, LoopKind::Vector,
                      Stmt::branch(te::eq(te::floor_mod(var(2), 3), 0),
                                   Stmt::store(1, {var(2)}, read(2, DType::F32, {var(2)})),
                                   Stmt::store(1, {var(2)}, Expr::real(DType::F32, -1))))}));
  const KernelRun run = run_kernel(f, {ramp(DType::F32, {4, 37}), Tensor(DType::F32, {37})});
  EXPECT_EQ(run.status, 0);
  for (int i = 0; i < 37; ++i) EXPECT_EQ(run.arguments[1].real(i), i % 3 == 0 ? 1 + 4 * i + 37 * 6 : -1) << i;
}

TEST(Codegen, TriangularLoopsRunAsLongAsEachLaneWants) {
  const auto f =
      function({argument("y", DType::I32, {21}, true)},
               Stmt::loop(0, "v", 21, LoopKind::Vector,
                          Stmt::loop(1, "k", var(0), LoopKind::Serial,
                                     Stmt::store(0, {var(0)}, te::cast(DType::I32, var(1)), te::Combiner::Sum))));
  const KernelRun run = run_kernel(f, {Tensor(DType::I32, {21})});
  for (int i = 0; i < 21; ++i) EXPECT_EQ(run.arguments[0].integer(i), i * (i - 1) / 2) << i;
}

// Indices that are read are checked; what is out of range touches nothing and is told.
TEST(Codegen, LookedUpIndicesAreChecked) {
  for (const LoopKind kind : {LoopKind::Serial, LoopKind::Vector}) {
    const auto f = function(
        {argument("x", DType::F32, {5}), argument("i", DType::I64, {20}), argument("y", DType::F32, {20}, true)},
        Stmt::loop(0, "v", 20, kind, Stmt::store(2, {var(0)}, read(0, DType::F32, {read(1, DType::I64, {var(0)})}))));
    Tensor at(DType::I64, {20});
    for (int i = 0; i < 20; ++i) at.set_integer(i, i % 5);
    const Tensor x = ramp(DType::F32, {5}), y(DType::F32, {20});
    KernelRun run = run_kernel(f, {x, at, y});
    EXPECT_EQ(run.status, 0);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(run.arguments[2].real(i), i % 5);
    at.set_integer(17, 5);
    EXPECT_EQ(run_kernel(f, {x, at, y}).status, static_cast<int>(Status::OutOfRange));
    at.set_integer(17, -1);
    EXPECT_EQ(run_kernel(f, {x, at, y}).status, static_cast<int>(Status::OutOfRange));
  }
}

TEST(Codegen, ScatteredStoresAreChecked) {
  for (const LoopKind kind : {LoopKind::Serial, LoopKind::Vector}) {
    const auto f = function(
        {argument("i", DType::I64, {20}), argument("y", DType::I8, {32}, true)},
        Stmt::loop(0, "v", 20, kind, Stmt::store(1, {read(0, DType::I64, {var(0)})}, Expr::integer(DType::I8, 7))));
    Tensor at(DType::I64, {20});
    for (int i = 0; i < 20; ++i) at.set_integer(i, 31 - i);
    EXPECT_EQ(run_kernel(f, {at, Tensor(DType::I8, {32})}).status, 0);
    at.set_integer(3, 1 << 30);
    const KernelRun run = run_kernel(f, {at, Tensor(DType::I8, {32})});
    EXPECT_EQ(run.status, static_cast<int>(Status::OutOfRange));
    for (int i = 0; i < 32; ++i) EXPECT_EQ(run.arguments[1].integer(i), i >= 12 && i != 28 ? 7 : 0) << i;
  }
}

TEST(Codegen, TheSameBytesWithAnyNumberOfThreads) {
  std::vector<loop::Function> functions;
  for (int i = 0; i < 40; ++i) {
    functions.push_back(
        function({argument("y", DType::F32, {8}, true)},
                 Stmt::loop(0, "i", 8, LoopKind::Vector, Stmt::store(0, {var(0)}, Expr::real(DType::F32, i)))));
    functions.back().name += std::to_string(i);
  }
  auto target = host_target();
  ASSERT_TRUE(target.ok());
  auto one = emit_objects(functions, *target, {.threads = 1});
  auto many = emit_objects(functions, *target, {.threads = 4});
  ASSERT_TRUE(one.ok() && many.ok());
  ASSERT_EQ(one->size(), many->size());
  for (size_t i = 0; i < one->size(); ++i) EXPECT_EQ((*one)[i].bytes, (*many)[i].bytes);
  auto jit = Jit::load(*one);
  ASSERT_TRUE(jit.ok());
  for (int i = 0; i < 40; ++i) EXPECT_NE(jit->find("kernel" + std::to_string(i)), nullptr);
}

TEST(Codegen, WhatCannotBeCompiledIsAnError) {
  auto target = host_target();
  ASSERT_TRUE(target.ok());
  auto large = function({argument("y", DType::F32, {1}, true), {"l", DType::F32, {1 << 20}, Scope::Local, true}},
                        Stmt::store(0, {Expr(0)}, read(1, DType::F32, {Expr(5)})));
  auto unbound = function({argument("y", DType::F32, {8}, true)}, Stmt::store(0, {var(3)}, Expr::real(DType::F32, 1)));
  auto reduction = function({argument("y", DType::I64, {1}, true)},
                            Stmt::store(0, {Expr(0)}, te::sum({te::Axis{0, "k", Dim(4)}}, var(0))));
  auto mistyped =
      function({argument("y", DType::I32, {1}, true)}, Stmt::store(0, {Expr(0)}, Expr::real(DType::F32, 1)));
  for (const loop::Function& f : {large, unbound, reduction, mistyped}) {
    auto objects = emit_objects({&f, 1}, *target);
    ASSERT_FALSE(objects.ok());
    EXPECT_EQ(objects.error().code, "E-codegen");
  }
  EXPECT_FALSE(Jit::load(std::vector<Object>{{"broken.o", "no object"}}).ok());
}

TEST(Codegen, DumpsTextOfEveryFunction) {
  std::string folder = (std::filesystem::temp_directory_path() / "isomer-dump-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const auto f = function({argument("y", DType::F32, {8}, true)},
                          Stmt::loop(0, "i", 8, LoopKind::Vector, Stmt::store(0, {var(0)}, Expr::real(DType::F32, 1))));
  auto target = host_target();
  ASSERT_TRUE(target.ok());
  EXPECT_TRUE(emit_objects({&f, 1}, *target, {.dump_dir = folder}).ok());
  for (const char* name : {"/kernel.ll", "/kernel.s"}) {
    std::ifstream file(folder + name);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    EXPECT_NE(text.find("kernel.body"), std::string::npos) << name;
  }
  std::filesystem::remove_all(folder);
  auto nowhere = emit_objects({&f, 1}, *target, {.dump_dir = folder + "/missing"});
  ASSERT_FALSE(nowhere.ok());
  EXPECT_EQ(nowhere.error().code, "E-write");
}

TEST(Codegen, OtherMachinesGetObjects) {
  const auto f =
      function({argument("x", DType::F16, {50}), argument("y", DType::BF16, {50}, true)},
               Stmt::loop(0, "i", 50, LoopKind::Vector,
                          Stmt::store(1, {var(0)}, te::cast(DType::BF16, te::exp(read(0, DType::F16, {var(0)}))))));
  for (const std::string_view name : loop::target_names()) {
    auto target = loop::parse_target(name);
    ASSERT_TRUE(target.ok());
    auto objects = emit_objects({&f, 1}, *target);
    ASSERT_TRUE(objects.ok()) << objects.error().to_string();
    EXPECT_EQ((*objects)[0].bytes.substr(0, 4),
              "\x7f"
              "ELF");
    EXPECT_EQ((*objects)[0].bytes[18], target->arch == loop::Arch::X86_64 ? 62 : static_cast<char>(183));  // e_machine
  }
}

}  // namespace
}  // namespace isomer::codegen
