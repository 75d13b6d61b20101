// The block evaluator against the plain one: random programs, equal bits or an error in both.
#include "interp/evaluate.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/random.h"
#include "te/eval.h"

namespace isomer::interp {
namespace {

using te::Axis;
using te::Expr;

constexpr DType kFloatTypes[] = {DType::F32, DType::F64, DType::F16, DType::BF16};
constexpr DType kIntTypes[] = {DType::I64, DType::I32, DType::I8, DType::U8, DType::U64, DType::I16, DType::U32};

struct Case {
  te::Program program;
  std::vector<Tensor> inputs;
};

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  Case make() {
    Case c;
    const int inputs = static_cast<int>(random_.between(1, 3));
    for (int i = 0; i < inputs; ++i) {
      const DType type = i == 0 ? kFloatTypes[random_.below(4)] : any_type();
      std::vector<int64_t> dims(random_.below(4));
      for (int64_t& d : dims) d = small_extent();
      if (!dims.empty() && random_.flip(0.1)) dims.back() = random_.between(20, 40);
      c.inputs.push_back(random_tensor(type, dims));
      handles_.push_back(builder_.input("x", type, std::vector<Dim>(dims.begin(), dims.end())));
    }
    const int stages = static_cast<int>(random_.between(1, 2));
    for (int i = 0; i < stages; ++i) stage();
    c.program = builder_.finish({handles_.back()});
    return c;
  }

  // A sum of products with guards in all the ways that convolutions write them.
  Case make_contraction() {
    Case c;
    const DType ta = kFloatTypes[random_.below(random_.flip(0.1) ? 4 : 2)], type = ta;
    const int64_t channels = random_.between(1, 3),
                  out = random_.flip() ? random_.between(1, 3) : random_.between(4, 11);
    const int64_t h = random_.between(1, 5), w = random_.flip(0.2) ? random_.between(30, 60) : random_.between(1, 6);
    const int64_t kh = random_.between(1, 3), kw = random_.between(1, 4);
    const int64_t sh = random_.between(1, 2), sw = random_.between(1, 3), dh = random_.between(1, 2),
                  dw = random_.between(1, 2);
    const int64_t ph = random_.between(0, 2), pw = random_.between(0, 3);
    const int64_t oh = random_.between(1, 4), ow = random_.flip(0.2) ? random_.between(20, 70) : random_.between(1, 7);
    c.inputs = {random_tensor(type, {channels, h, w}), random_tensor(type, {out, channels, kh, kw})};
    const te::Handle x = builder_.input("x", type, {channels, h, w});
    const te::Handle f = builder_.input("w", type, {out, channels, kh, kw});
    const std::vector<Dim> dims = {out, oh, ow}, reduced = {channels, kh, kw};
    const int form = static_cast<int>(random_.below(5));
    const bool flip_width = random_.flip(0.3);
    const te::Handle y = builder_.map("y", type, dims, [&](auto i) {
      const std::vector<Axis> r = builder_.axes("r", reduced);
      const Expr ih = i[1] * Expr(sh) + Expr(r[1]) * Expr(dh) - Expr(ph);
      Expr iw = i[2] * Expr(sw) + Expr(r[2]) * Expr(dw) - Expr(pw);
      if (flip_width) iw = Expr(w - 1) - iw;
      const Expr inside = te::in_range(ih, Expr(h)) && te::in_range(iw, Expr(w));
      const Expr read = x(r[0], ih, iw), weight = f(i[0], r[0], r[1], r[2]);
      const Expr zero = Expr::real(type, 0);
      switch (form) {
        case 0: return te::sum(r, te::select(inside, read, zero) * weight);
        case 1: return te::sum(r, weight * te::select(inside, read, zero));
        case 2: return te::sum(r, read * weight, inside);
        case 3: return te::reduce(te::Combiner::Max, r, read, inside);
        default:
          return te::sum(r, read * weight,
                         te::in_range(iw, Expr(w)) && te::in_range(ih, Expr(h)) && Expr(r[0]) <= i[0]) +
                 weight0(f);
      }
    });
    c.program = builder_.finish({y});
    return c;
  }

 private:
  Expr weight0(const te::Handle& f) { return f(0, 0, 0, 0); }
  int64_t small_extent() { return random_.flip(0.02) ? 0 : random_.between(1, 5); }
  DType any_type() {
    if (random_.flip(0.15)) return DType::Bool;
    return random_.flip() ? kFloatTypes[random_.below(4)] : kIntTypes[random_.below(std::size(kIntTypes))];
  }
  double random_real() {
    const double rare = random_.uniform();
    if (rare < 0.01) return std::numeric_limits<double>::infinity();
    if (rare < 0.02) return std::numeric_limits<double>::quiet_NaN();
    if (rare < 0.06) return -0.0;
    if (rare < 0.2) return static_cast<double>(random_.between(-3, 3));
    return random_.uniform(-4, 4);
  }
  Tensor random_tensor(DType type, const std::vector<int64_t>& dims) {
    Tensor t(type, dims);
    const bool tame = random_.flip(0.6);
    for (int64_t i = 0; i < t.size(); ++i) {
      if (is_float(type))
        t.set_real(i, tame ? random_.uniform(-4, 4) : random_real());
      else
        t.set_integer(i, random_.flip(0.8) ? random_.between(-2, 5) : static_cast<int64_t>(random_.next()));
    }
    return t;
  }

  void stage() {
    std::vector<Dim> dims;
    const size_t rank = random_.below(4);
    for (size_t i = 0; i < rank; ++i) dims.emplace_back(small_extent());
    if (rank > 0 && random_.flip(0.15)) dims[random_.below(rank)] = random_.between(24, 40);
    if (rank == 1 && random_.flip(0.1)) dims[0] = random_.between(250, 600);
    axes_ = builder_.axes("i", dims);
    const std::vector<Axis> own = axes_;
    const DType type = any_type();
    budget_ = 25;
    points_ = 1;
    const Expr body = expr(type, 4);
    handles_.push_back(builder_.stage("s", type, own, body));
  }

  Expr expr(DType type, int depth) {
    if (type == DType::Bool) return boolean(depth);
    return is_float(type) ? real(type, depth) : integer(type, depth);
  }
  Expr read_of(DType type, int depth) {
    std::vector<size_t> fitting;
    for (size_t i = 0; i < handles_.size(); ++i)
      if (handles_[i].dtype() == type) fitting.push_back(i);
    const te::Handle& h =
        fitting.empty() ? handles_[random_.below(handles_.size())] : handles_[fitting[random_.below(fitting.size())]];
    if (h.rank() == 0) return te::cast(type, h.at({}));
    std::vector<Expr> indices, tests;
    for (const Dim& d : h.dims()) {
      const double how = random_.uniform();
      Expr i = Expr(random_.between(0, std::max<int64_t>(0, d.value() - 1)));
      if (how < 0.6 && !axes_.empty()) i = Expr(axes_[random_.below(axes_.size())]);
      if (how < 0.2) i = i * Expr(random_.between(-1, 2)) + Expr(random_.between(-2, 2));
      if (how > 0.85 && depth > 0) i = integer(DType::I64, depth - 1);
      tests.push_back(te::in_range(i, Expr(d)));
      indices.push_back(random_.flip(0.1) && d.value() > 0 ? te::floor_mod(i, Expr(d)) : i);
    }
    const Expr read = te::cast(type, h.at(indices));
    if (random_.flip(0.01)) return read;
    return te::select(te::all_of(tests), read, Expr::literal(type, random_.flip() ? 0 : 1));
  }
  template <class F>
  Expr reduced(te::Combiner c, F body, int depth) {
    std::vector<Axis> axes;
    const size_t count = random_.flip(0.05) ? 0 : random_.between(1, 2);
    const std::vector<Axis> saved = axes_;
    const int64_t points = points_;
    for (size_t i = 0; i < count; ++i) {
      const int64_t extent = random_.flip(0.03) ? 0 : random_.between(1, 4);
      if (points_ * extent > 40) break;
      points_ *= std::max<int64_t>(1, extent);
      // One axis may serve several reductions.
      const bool old = !spare_.empty() && random_.flip(0.3) && points_ * spare_.back().extent.value() <= 40;
      axes.push_back(old ? spare_.back() : builder_.axis("k", extent));
      if (!old) spare_.push_back(axes.back());
      const bool shadows =
          std::any_of(axes_.begin(), axes_.end(), [&](const Axis& a) { return a.id == axes.back().id; });
      if (shadows) {
        axes.pop_back();
        continue;
      }
      axes_.push_back(axes.back());
    }
    const Expr value = body();
    const Expr where = random_.flip(0.4) ? boolean(depth - 1) : Expr();
    axes_ = saved;
    points_ = points;
    return te::reduce(c, axes, value, where);
  }

  Expr real(DType type, int depth) {
    if (depth <= 0 || --budget_ < 0) return random_.flip(0.3) ? Expr::real(type, random_real()) : read_of(type, 0);
    switch (random_.below(8)) {
      case 0: return read_of(type, depth);
      case 1: {
        constexpr te::UnaryOp kOps[] = {te::UnaryOp::Neg, te::UnaryOp::Abs,   te::UnaryOp::Exp,   te::UnaryOp::Sqrt,
                                        te::UnaryOp::Erf, te::UnaryOp::Floor, te::UnaryOp::Round, te::UnaryOp::Tanh};
        return te::unary(kOps[random_.below(std::size(kOps))], real(type, depth - 1));
      }
      case 2:
      case 3: {
        const auto op = static_cast<te::BinaryOp>(random_.below(static_cast<uint64_t>(te::BinaryOp::Max) + 1));
        return te::binary(op, real(type, depth - 1), real(type, depth - 1));
      }
      case 4: return te::select(boolean(depth - 1), real(type, depth - 1), real(type, depth - 1));
      case 5: return te::cast(type, expr(any_type(), depth - 1));
      default:
        return reduced(static_cast<te::Combiner>(random_.below(4)), [&] { return real(type, depth - 1); }, depth);
    }
  }
  Expr integer(DType type, int depth) {
    if (depth <= 0 || --budget_ < 0) {
      if (!axes_.empty() && random_.flip()) return te::cast(type, Expr(axes_[random_.below(axes_.size())]));
      return random_.flip(0.3) ? Expr::integer(type, random_.between(-3, 9)) : read_of(type, 0);
    }
    switch (random_.below(8)) {
      case 0: return read_of(type, depth);
      case 1: {
        constexpr te::UnaryOp kOps[] = {te::UnaryOp::Neg, te::UnaryOp::Abs, te::UnaryOp::Not};
        return te::unary(kOps[random_.below(3)], integer(type, depth - 1));
      }
      case 2:
      case 3: {
        const auto op = static_cast<te::BinaryOp>(random_.below(static_cast<uint64_t>(te::BinaryOp::Shr) + 1));
        Expr b = integer(type, depth - 1);
        // Mostly no division by zero, so that most programs have a result.
        if (op >= te::BinaryOp::Div && op <= te::BinaryOp::FloorMod && random_.flip(0.9)) {
          const Expr a = integer(type, depth - 1);
          return te::select(te::ne(b, Expr::integer(type, 0)), te::binary(op, a, b), a);
        }
        return te::binary(op, integer(type, depth - 1), b);
      }
      case 4: return te::select(boolean(depth - 1), integer(type, depth - 1), integer(type, depth - 1));
      case 5: return te::cast(type, expr(any_type(), depth - 1));
      case 6:
        if (type == DType::I64) {
          const DType of = any_type() == DType::Bool ? DType::I32 : any_type();
          return reduced(static_cast<te::Combiner>(4 + random_.below(4)), [&] { return expr(of, depth - 1); }, depth);
        }
        [[fallthrough]];
      default:
        return reduced(static_cast<te::Combiner>(random_.below(4)), [&] { return integer(type, depth - 1); }, depth);
    }
  }
  Expr boolean(int depth) {
    if (depth <= 0 || --budget_ < 0) {
      if (!axes_.empty() && random_.flip(0.8))
        return Expr(axes_[random_.below(axes_.size())]) < Expr(random_.between(0, 4));
      return te::truth(random_.flip());
    }
    constexpr te::BinaryOp kLogic[] = {te::BinaryOp::And, te::BinaryOp::Or, te::BinaryOp::Xor};
    constexpr te::BinaryOp kCompare[] = {te::BinaryOp::Eq, te::BinaryOp::Ne, te::BinaryOp::Lt, te::BinaryOp::Le};
    switch (random_.below(5)) {
      case 0: return te::binary(kLogic[random_.below(3)], boolean(depth - 1), boolean(depth - 1));
      case 1: return !boolean(depth - 1);
      case 2: return te::unary(random_.flip() ? te::UnaryOp::IsNan : te::UnaryOp::IsInf, real(DType::F32, depth - 1));
      case 3: return te::cast(DType::Bool, expr(any_type(), depth - 1));
      default: {
        DType t = any_type();
        if (t == DType::Bool) t = DType::I64;
        return te::binary(kCompare[random_.below(4)], expr(t, depth - 1), expr(t, depth - 1));
      }
    }
  }

  Random random_;
  te::Builder builder_;
  std::vector<te::Handle> handles_;
  std::vector<Axis> axes_, spare_;
  int budget_ = 0;
  int64_t points_ = 1;
};

bool same_number(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

Expected<te::Array<te::DoubleDomain>> plain(const Case& c) {
  using Array = te::Array<te::DoubleDomain>;
  std::vector<Array> arrays;
  for (const Tensor& t : c.inputs) {
    Array a{t.dtype(), t.dims(), {}, {}};
    if (is_float(t.dtype()))
      a.reals = t.to_reals();
    else
      a.ints = t.to_ints();
    arrays.push_back(std::move(a));
  }
  te::DoubleDomain domain;
  ISOMER_TRY(auto results, te::Evaluator<te::DoubleDomain>(domain).run(c.program, std::move(arrays)));
  return std::move(results[0]);
}

// 0: both have the same result; 1: both fail. A difference is a test failure that names the seed.
int check(const Case& c, uint64_t seed, const Options& options) {
  std::vector<const Tensor*> inputs;
  for (const Tensor& t : c.inputs) inputs.push_back(&t);
  const auto expected = plain(c);
  const auto actual = evaluate(c.program, inputs, options);
  EXPECT_EQ(expected.ok(), actual.ok()) << "seed " << seed << ": "
                                        << (expected.ok() ? actual.error().to_string() : expected.error().to_string());
  if (!expected.ok() || !actual.ok()) return 1;
  const Tensor& t = (*actual)[0];
  EXPECT_EQ(expected->dims, t.dims()) << "seed " << seed;
  for (int64_t i = 0; i < t.size(); ++i) {
    const auto at = static_cast<size_t>(i);
    const bool same =
        is_float(t.dtype()) ? same_number(expected->reals[at], t.real(i)) : expected->ints[at] == t.integer(i);
    if (same) continue;
    ADD_FAILURE() << "seed " << seed << ", element " << i << " of " << t.type().to_string() << ": expected "
                  << (is_float(t.dtype()) ? expected->reals[at] : static_cast<double>(expected->ints[at])) << ", found "
                  << t.real(i);
    break;
  }
  return 0;
}

TEST(BlockEvaluator, RandomProgramsHaveTheBitsOfThePlainEvaluator) {
  Options options;
  options.threads = 1;
  int failing = 0;
  for (uint64_t seed = 1; seed <= 20000 && !::testing::Test::HasFailure(); ++seed)
    failing += check(Generator(seed).make(), seed, options);
  EXPECT_LT(failing, 10000);
}

TEST(BlockEvaluator, GuardedSumsOfProductsHaveTheBitsOfThePlainEvaluator) {
  Options options;
  options.threads = 1;
  for (uint64_t seed = 1; seed <= 3000 && !::testing::Test::HasFailure(); ++seed)
    EXPECT_EQ(check(Generator(seed).make_contraction(), seed, options), 0) << "seed " << seed;
}

TEST(BlockEvaluator, ThreadsDoNotChangeTheResult) {
  Options options;
  options.threads = 3;
  for (uint64_t seed = 50001; seed <= 50100 && !::testing::Test::HasFailure(); ++seed)
    check(Generator(seed).make(), seed, options);
}

}  // namespace
}  // namespace isomer::interp
