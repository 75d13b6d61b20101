// The inlined functions of floats against libm in double, over all magnitudes, in units of the last place.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "test/run_kernel.h"

namespace isomer::codegen {
namespace {

using te::Expr;
using te::UnaryOp;

// Every float whose bits are a multiple of `stride`, both signs, and the ones that are special.
Tensor samples(uint32_t stride) {
  std::vector<float> x;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += stride)
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  for (int i = -4000; i <= 4000; ++i) x.push_back(static_cast<float>(i) * 0.00537f);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float v :
       {0.0f, -0.0f, 1.0f, -1.0f, kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(), 88.72283f, 88.72284f,
        -87.33655f, -103.97208f, -103.972081f, 0.625f, 4.0f, 3.9192059f, 9.010914f})
    x.push_back(v);
  Tensor t(DType::F32, {static_cast<int64_t>(x.size())});
  std::copy(x.begin(), x.end(), t.mutable_as<float>());
  return t;
}

using Function = std::function<Expr(const Expr&)>;

Tensor apply(const Function& function, const Tensor& x, loop::LoopKind kind,
             const std::optional<loop::Target>& target = {}) {
  constexpr int64_t kBlock = 1024;
  const Expr o(te::Axis{0, "o", Dim(0)}), i(te::Axis{1, "i", Dim(0)});
  const int64_t blocks = (x.size() + kBlock - 1) / kBlock;
  Tensor padded(DType::F32, {blocks, kBlock});
  std::copy_n(x.as<float>().data(), x.size(), padded.mutable_as<float>());
  loop::Function f;
  f.name = "apply";
  f.buffers = {argument("x", DType::F32, padded.dims()), argument("y", DType::F32, padded.dims(), true)};
  f.arguments = 2;
  const Expr value = function(Expr::read(0, DType::F32, {o, i}));
  f.body = loop::Stmt::loop(0, "o", Expr(blocks), loop::LoopKind::Parallel,
                            loop::Stmt::loop(1, "i", Expr(kBlock), kind, loop::Stmt::store(1, {o, i}, value)));
  return run_kernel(f, {padded, Tensor(DType::F32, padded.dims())}, {}, target).arguments[1];
}

// Distance in units of the last place of the exact result as a float (of the smallest normal one for the subnormal).
double distance(float have, double want) {
  if (std::isnan(want)) return std::isnan(have) ? 0 : 1e9;
  const auto nearest = static_cast<float>(want);
  if (have == nearest) return have == 0 && std::signbit(have) != std::signbit(nearest) ? 1e9 : 0;
  if (std::isinf(nearest)) return have == std::numeric_limits<float>::max() ? 1 : 1e9;
  int exponent;
  std::frexp(want, &exponent);
  return std::fabs(have - want) / std::ldexp(1.0, std::max(exponent, -125) - 24);
}

Function of(UnaryOp op) {
  return [op](const Expr& x) { return te::unary(op, x); };
}

void check(const std::string& name, const Function& function, double (*exact)(double), double bound) {
  const Tensor x = samples(2503);
  const Tensor y = apply(function, x, loop::LoopKind::Vector);
  double worst = 0;
  float where = 0;
  for (int64_t i = 0; i < x.size(); ++i) {
    const float v = x.as<float>()[static_cast<size_t>(i)];
    const double d = distance(y.as<float>()[static_cast<size_t>(i)], exact(v));
    if (d > worst) worst = d, where = v;
  }
  std::printf("%s: at most %.3f units of the last place, at %.9g\n", name.c_str(), worst, where);
  EXPECT_LE(worst, bound) << "at " << where;
}

TEST(Math, Exp) { check("exp", of(UnaryOp::Exp), std::exp, 1.1); }
TEST(Math, Log) { check("log", of(UnaryOp::Log), std::log, 1.0); }
TEST(Math, Tanh) { check("tanh", of(UnaryOp::Tanh), std::tanh, 1.5); }
TEST(Math, Sine) { check("sin", of(UnaryOp::Sin), std::sin, 0.6); }
TEST(Math, Cosine) { check("cos", of(UnaryOp::Cos), std::cos, 0.6); }
TEST(Math, Erf) { check("erf", of(UnaryOp::Erf), std::erf, 1.3); }

// The normal distribution's tail keeps its digits: what erf alone has lost where it comes near -1.
TEST(Math, ErfPlusOne) {
  const Function function = [](const Expr& x) { return te::unary(UnaryOp::Erf, x) + Expr(1); };
  const Tensor x = samples(2503), y = apply(function, x, loop::LoopKind::Vector);
  double worst = 0;
  for (int64_t i = 0; i < x.size(); ++i) {
    const float v = x.as<float>()[static_cast<size_t>(i)], have = y.as<float>()[static_cast<size_t>(i)];
    if (std::isnan(v)) {
      EXPECT_TRUE(std::isnan(have));
      continue;
    }
    const double want = std::erfc(-static_cast<double>(v));
    if (v > -4)
      worst = std::max(worst, std::fabs(have - want) / want);
    else
      EXPECT_LE(std::fabs(have - want), 1.6e-8) << "at " << v;
  }
  std::printf("1 + erf: at most %.3g of the result above -4\n", worst);
  EXPECT_LE(worst, 5e-4);  // next to -4, where the result is 1.5e-8
}

Expr logistic(const Expr& x) { return Expr(1) / (te::exp(-x) + Expr(1)); }

TEST(Math, Logistic) {
  const auto exact = [](double x) {
    const double y = 1 / (1 + std::exp(-x));
    return y < 0x1p-125 ? 0 : y;
  };
  check("logistic", logistic, exact, 2.5);
  const Tensor x = samples(1000003);
  EXPECT_EQ(apply(logistic, x, loop::LoopKind::Vector), apply(logistic, x, loop::LoopKind::Serial));
}

TEST(Math, DivisionByNumbersRoundsAsDivision) {
  const Tensor x = samples(2503);
  for (const float by : {9.0f, -3.0f, 1.41421356f, 768.0f, 0.1f, 1.99999988f, 3.14159274f, 0x1.8p70f, 4.0f}) {
    const Tensor y = apply([&](const Expr& e) { return e / Expr::real(DType::F32, by); }, x, loop::LoopKind::Vector);
    int64_t wrong = 0;
    for (int64_t i = 0; i < x.size(); ++i) {
      const float v = x.as<float>()[static_cast<size_t>(i)], have = y.as<float>()[static_cast<size_t>(i)];
      const float want = v / by;
      if (std::isnan(want) ? !std::isnan(have)
                           : (have != want && std::fabs(v) > 0x1p-60f) || std::signbit(have) != std::signbit(want))
        ++wrong;
    }
    EXPECT_EQ(wrong, 0) << by;
  }
}

TEST(Math, TheSameBitsWithAndWithoutLanes) {
  const Tensor x = samples(1000003);
  for (const UnaryOp op : {UnaryOp::Exp, UnaryOp::Log, UnaryOp::Tanh, UnaryOp::Erf})
    EXPECT_EQ(apply(of(op), x, loop::LoopKind::Vector), apply(of(op), x, loop::LoopKind::Serial)) << te::name(op);
}

}  // namespace
}  // namespace isomer::codegen
