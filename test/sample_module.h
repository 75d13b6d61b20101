// A small compiled model for the tests of modules: t = x * w, y = max(t, 0), z = x[0, index], from loops through the code
// generator, for any target.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "codegen/codegen.h"
#include "compile/module.h"
#include "runtime/abi.h"

namespace isomer::compile {

inline constexpr int64_t kRows = 8, kColumns = 100, kPicks = 4;

struct Sample {
  Plan plan;
  std::vector<codegen::Object> objects;

  Variant variant() const {
    Variant v{plan, {}};
    for (const codegen::Object& object : objects) v.objects.push_back(object.bytes);
    return v;
  }
};

inline float sample_weight(size_t i) { return 1.0f + static_cast<float>(i % 5) / 4; }

inline std::vector<loop::Function> sample_functions(const std::string& prefix) {
  using loop::Buffer;
  using loop::LoopKind;
  using loop::Scope;
  using loop::Stmt;
  using te::Expr;
  const auto var = [](int id) { return Expr(te::Axis{id, "v" + std::to_string(id), Dim(0)}); };
  const auto buffer = [](const char* name, DType type, std::vector<int64_t> dims, bool written) {
    return Buffer{name, type, std::move(dims), Scope::Argument, written};
  };
  const auto rows = [&](Stmt body) {
    return Stmt::loop(0, "i", kRows, LoopKind::Parallel,
                      Stmt::loop(1, "j", kColumns, LoopKind::Vector, std::move(body)));
  };
  loop::Function scale{prefix + "scale", {}, 3, {}, {"Mul_0"}};
  scale.buffers = {buffer("x", DType::F32, {kRows, kColumns}, false), buffer("w", DType::F32, {kColumns}, false),
                   buffer("t", DType::F32, {kRows, kColumns}, true)};
  scale.body = rows(Stmt::store(2, {var(0), var(1)},
                                Expr::read(0, DType::F32, {var(0), var(1)}) * Expr::read(1, DType::F32, {var(1)})));
  loop::Function relu{prefix + "relu", {}, 2, {}, {"Relu_1"}};
  relu.buffers = {buffer("t", DType::F32, {kRows, kColumns}, false), buffer("y", DType::F32, {kRows, kColumns}, true)};
  relu.body = rows(Stmt::store(1, {var(0), var(1)},
                               te::max(Expr::read(0, DType::F32, {var(0), var(1)}), Expr::real(DType::F32, 0))));
  loop::Function pick{prefix + "pick", {}, 3, {}, {"Gather_2"}};
  pick.buffers = {buffer("x", DType::F32, {kRows, kColumns}, false), buffer("index", DType::I64, {kPicks}, false),
                  buffer("z", DType::F32, {kPicks}, true)};
  pick.body =
      Stmt::loop(0, "k", kPicks, LoopKind::Serial,
                 Stmt::store(2, {var(0)}, Expr::read(0, DType::F32, {Expr(0), Expr::read(1, DType::I64, {var(0)})})));
  return {scale, relu, pick};
}

// `extra` bytes of weights that nothing reads, to make it large.
inline Sample sample(const loop::Target& target, const std::string& prefix = "k_", size_t extra = 0) {
  Sample s;
  s.plan.model = "sample";
  s.plan.target = target;
  s.plan.inputs = {{"x", DType::F32, {kRows, kColumns}}, {"index", DType::I64, {kPicks}}};
  s.plan.outputs = {{"y", DType::F32, {kRows, kColumns}}, {"z", DType::F32, {kPicks}}};
  const std::vector<loop::Function> functions = sample_functions(prefix);
  const std::vector<std::vector<Place>> places = {{{Space::Input, 0, 0}, {Space::Weight, 1, 0}, {Space::Arena, 0, 0}},
                                                  {{Space::Arena, 0, 0}, {Space::Output, 0, 0}},
                                                  {{Space::Input, 0, 0}, {Space::Input, 1, 0}, {Space::Output, 1, 0}}};
  for (size_t i = 0; i < functions.size(); ++i) {
    Step step;
    step.function = functions[i].name;
    step.origin = functions[i].origin;
    step.arguments = places[i];
    step.tasks = functions[i].tasks();
    step.scratch_bytes = static_cast<uint64_t>(functions[i].scratch_bytes());
    s.plan.steps.push_back(step);
  }
  s.plan.steps[1].freed = {{0, kRows * kColumns * 4}};
  s.plan.arena_bytes = kRows * kColumns * 4;
  auto other = std::make_shared<std::vector<std::byte>>(extra + 100, std::byte{7});
  auto weights = std::make_shared<std::vector<float>>(kColumns);
  for (size_t i = 0; i < weights->size(); ++i) (*weights)[i] = sample_weight(i);
  s.plan.weights = {{{other, other->data()}, other->size(), false},
                    {{weights, reinterpret_cast<const std::byte*>(weights->data())}, kColumns * 4, false}};
  auto objects = codegen::emit_objects(functions, target);
  EXPECT_TRUE(objects.ok()) << (objects.ok() ? "" : objects.error().to_string());
  if (objects.ok()) s.objects = *std::move(objects);
  return s;
}

}  // namespace isomer::compile
