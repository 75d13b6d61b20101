#include "compile/host_program.h"

#include <gtest/gtest.h>

#include <array>

namespace isomer::compile {
namespace {

int32_t add(void* const* a, int64_t begin, int64_t end, void*) {
  for (int64_t i = begin; i < end; ++i) {
    static_cast<float*>(a[2])[i] = static_cast<const float*>(a[0])[i] + static_cast<const float*>(a[1])[i];
  }
  return 0;
}

Plan adder() {
  Plan plan;
  plan.model = "adder";
  plan.target.name = "host";
  plan.inputs = {{"x", DType::F32, {4}, 4, 0}};
  plan.outputs = {{"y", DType::F32, {4}, 4, 0}};
  auto weights = std::make_shared<std::array<float, 8>>(std::array<float, 8>{1, 2, 3, 4, 5, 6, 7, 8});
  plan.weights = {{{weights, reinterpret_cast<const std::byte*>(weights->data())}, 32, false}};
  Step step;
  step.function = "add";
  step.origin = {"Add_0", "Add_1"};
  step.arguments = {{Space::Input, 0, 0}, {Space::Weight, 0, 8}, {Space::Output, 0, 0}};
  step.tasks = 4;
  plan.steps = {step};
  return plan;
}

iso_kernel find(std::string_view name) { return name == "add" ? add : nullptr; }

TEST(HostProgram, Runs) {
  auto program = HostProgram::make(adder(), find);
  ASSERT_TRUE(program.ok()) << program.error().to_string();
  iso_error error{};
  iso_model* model = iso_open_program((*program)->get(), &error);
  ASSERT_NE(model, nullptr) << error.message;
  iso_context* context = iso_new_context(model, 2, ISO_PROFILE, &error);
  ASSERT_NE(context, nullptr) << error.message;
  std::array<float, 4> x{10, 20, 30, 40}, y{};
  iso_buffer in{x.data(), 16, "x", nullptr, 0, ISO_F32}, out{y.data(), 16, "y", nullptr, 0, ISO_F32};
  ASSERT_EQ(iso_run(context, &in, 1, &out, 1, &error), ISO_OK) << error.message;
  EXPECT_EQ(y, (std::array<float, 4>{13, 24, 35, 46}));
  iso_profile profile{};
  iso_step_profile(context, 0, &profile, nullptr);
  EXPECT_STREQ(profile.origin, "Add_0, Add_1");
  iso_free_context(context, nullptr);
  iso_close(model, nullptr);
}

TEST(HostProgram, RefusesAPlanThatContradictsItself) {
  Plan plan = adder();
  plan.steps[0].function = "other";
  EXPECT_EQ(HostProgram::make(plan, find).error().code, "E-plan");
  plan = adder();
  plan.steps[0].arguments[1].offset = 33;
  EXPECT_EQ(HostProgram::make(plan, find).error().code, "E-plan");
  plan = adder();
  plan.steps[0].arguments[1].index = 1;
  EXPECT_EQ(HostProgram::make(plan, find).error().code, "E-plan");
}

}  // namespace
}  // namespace isomer::compile
