#include "compile/requantised.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "compile/forms.h"
#include "te/substitute.h"

namespace isomer::compile {

using te::BinaryOp;
using te::Expr;
using te::Kind;

namespace {

constexpr int kDeepestConstant = 6;            // factors of a constant in each other
constexpr int kMostTerms = 64;                 // that a division spreads over
constexpr int64_t kLargestConstant = 1 << 16;  // elements of a factor or a bias

// A number as it is stored in between, without the rounding to float.
Expr unstored(const Expr& e) {
  const bool stored = e->kind == Kind::Cast && e.dtype() == DType::F32 && e->args[0]->kind == Kind::Cast &&
                      e->args[0].dtype() == DType::F64 && e->args[0]->args[0].dtype() == DType::F32;
  return stored ? e->args[0]->args[0] : e;
}

class Requantised {
 public:
  explicit Requantised(StageGraph& g) : g_(g) {}

  void run() {
    for (ModelStage& s : g_.stages)
      if (s.runs() && !s.is_reduction()) rewrite(s);
  }

 private:
  using Point = std::map<int, int64_t>;
  const StageValue& value(int v) const { return g_.values[static_cast<size_t>(v)]; }

  // A number made of constants and of the stage's axes.
  bool is_constant(const Expr& e, int depth = 0) const {
    if (depth > kDeepestConstant) return false;
    if (e->kind == Kind::Real || e->kind == Kind::Int) return true;
    if (e->kind == Kind::Read)
      return value(e->tensor).constant &&
             std::all_of(e->args.begin(), e->args.end(), [](const Expr& i) { return linear(i).has_value(); });
    if (e->kind == Kind::Cast) return e.dtype() == DType::F32 && is_constant(e->args[0], depth + 1);
    return is_binary(e, BinaryOp::Mul) && is_float(e.dtype()) && is_constant(e->args[0], depth + 1) &&
           is_constant(e->args[1], depth + 1);
  }
  double number(const Expr& e, const Point& at) const {
    if (e->kind == Kind::Real) return e->real;
    if (e->kind == Kind::Int) return static_cast<double>(e->integer);
    if (e->kind == Kind::Cast) return number(e->args[0], at);
    if (e->kind == Kind::Binary) return number(e->args[0], at) * number(e->args[1], at);
    const Tensor& t = *value(e->tensor).constant;
    int64_t place = 0;
    for (size_t d = 0; d < e->args.size(); ++d) {
      const Linear index = *linear(e->args[d]);
      int64_t i = index.constant;
      for (const auto& [axis, by] : index.terms) i += by * at.at(axis);
      place = place * t.dims()[d] + i;
    }
    return is_float(t.dtype()) ? t.real(place) : static_cast<double>(t.integer(place));
  }
  // The one number that an expression of constants is.
  std::optional<double> one_number(const Expr& e) const {
    return is_constant(e) && te::free_vars(e).empty() ? std::optional(number(e, {})) : std::nullopt;
  }

  std::optional<Expr> divided_constant(const Expr& e) const;
  std::optional<Expr> divided(const Expr& e);
  Expr without_bounds(const Expr& e, double zero, DType stored) const;
  bool summed(const Expr& e, std::set<const void*>& seen) const;
  std::optional<Expr> without_division(const Expr& e);
  std::optional<Expr> same_bytes(const Expr& e, const Expr& ratio, const Expr& zero) const;
  Expr rewritten(const Expr& e);
  void rewrite(ModelStage& s);
  bool is_sound(const Expr& scale) const;

  StageGraph& g_;
  std::vector<te::Axis> axes_;        // of the stage at hand
  std::map<const void*, Expr> done_;  // by node of its body
  Expr scale_;
  int terms_ = 0;
};

bool Requantised::is_sound(const Expr& scale) const {
  if (scale->kind != Kind::Read || scale.dtype() != DType::F32 || !is_constant(scale)) return false;
  const auto all = value(scale->tensor).constant->as<float>();
  return std::all_of(all.begin(), all.end(), [](float x) { return x >= kSmallestScale && x <= kLargestScale; });
}

// A constant over the scale, as a constant of the axes that the two move along.
std::optional<Expr> Requantised::divided_constant(const Expr& e) const {
  const Expr both = e * scale_;
  const std::vector<int> used = te::free_vars(both);
  std::vector<te::Axis> along;
  for (const te::Axis& a : axes_)
    if (std::find(used.begin(), used.end(), a.id) != used.end()) along.push_back(a);
  if (along.size() != used.size()) return std::nullopt;
  if (along.empty() && e->kind == Kind::Real) return Expr::real(DType::F32, e->real / number(scale_, {}));
  std::vector<int64_t> dims;
  std::vector<Expr> here;
  int64_t elements = 1;
  for (const te::Axis& a : along) {
    dims.push_back(a.extent.value());
    here.emplace_back(a);
    elements *= dims.back();
    if (elements > kLargestConstant) return std::nullopt;
  }
  Tensor t(DType::F32, dims);
  for (int64_t i = 0; i < elements; ++i) {
    Point at;
    int64_t rest = i;
    for (size_t d = along.size(); d-- > 0; rest /= dims[d]) at[along[d].id] = rest % dims[d];
    const double x = number(e, at) / number(scale_, at);
    if (!(std::abs(x) <= kLargestScale)) return std::nullopt;
    t.set_real(i, x);
  }
  StageValue& v = g_.values.emplace_back();
  v.dtype = DType::F32;
  v.dims = std::move(dims);
  v.constant = std::move(t);
  return Expr::read(static_cast<int>(g_.values.size()) - 1, DType::F32, std::move(here));
}

// The expression over the scale; nothing where that takes a division.
std::optional<Expr> Requantised::divided(const Expr& e) {
  if (++terms_ > kMostTerms) return std::nullopt;
  if (is_constant(e)) return divided_constant(e);
  if (e->kind != Kind::Binary) return std::nullopt;
  if (e->binary == BinaryOp::Mul) {
    for (const size_t side : {0, 1}) {
      if (!is_constant(e->args[side])) continue;
      const auto factor = divided_constant(e->args[side]);
      return factor ? std::optional(e->args[1 - side] * *factor) : std::nullopt;
    }
    return std::nullopt;
  }
  const bool spreads = e->binary == BinaryOp::Add || e->binary == BinaryOp::Sub || e->binary == BinaryOp::Max ||
                       e->binary == BinaryOp::Min;
  if (!spreads) return std::nullopt;
  te::Node node = *e;
  for (Expr& a : node.args) {
    const bool bound = e->binary == BinaryOp::Max || e->binary == BinaryOp::Min;
    const auto known = bound ? one_number(a) : std::nullopt;
    const auto part = divided(known ? Expr::real(DType::F32, *known) : a);
    if (!part) return std::nullopt;
    a = *part;
  }
  return Expr::make(std::move(node));
}

// Less the bounds around it that lie at or beyond the ends of the bytes: what they change becomes the same byte.
Expr Requantised::without_bounds(const Expr& e, double zero, DType stored) const {
  if (!is_binary(e, BinaryOp::Max) && !is_binary(e, BinaryOp::Min)) return e;
  const size_t side = e->args[1]->kind == Kind::Real ? 1 : 0;
  if (e->args[side]->kind != Kind::Real) return e;
  const double bound = std::nearbyint(e->args[side]->real) + zero;
  const Expr inside = without_bounds(e->args[1 - side], zero, stored);
  if (e->binary == BinaryOp::Max && bound <= static_cast<double>(lowest_int(stored))) return inside;
  if (e->binary == BinaryOp::Min && bound >= static_cast<double>(highest_int(stored))) return inside;
  return te::binary(e->binary, inside, e->args[side]);
}

// Whether it depends on a sum otherwise than by bytes.
bool Requantised::summed(const Expr& e, std::set<const void*>& seen) const {
  if (!seen.insert(e.identity()).second) return false;
  if (e->kind == Kind::Read) {
    const int maker = value(e->tensor).stage;
    if (maker < 0 || !g_.stages[static_cast<size_t>(maker)].is_reduction()) return false;
    return g_.stages[static_cast<size_t>(maker)].body->combiner == te::Combiner::Sum;
  }
  if (e->kind == Kind::Cast && is_byte(e.dtype())) return false;
  return std::any_of(e->args.begin(), e->args.end(), [&](const Expr& a) { return summed(a, seen); });
}

// Bytes that are dequantised and quantised by the same scale and zero point: (b - z) s / s is within 2^-14 of b - z.
std::optional<Expr> Requantised::same_bytes(const Expr& e, const Expr& ratio, const Expr& zero) const {
  if (!is_binary(ratio, BinaryOp::Div) || !is_binary(ratio->args[0], BinaryOp::Mul)) return std::nullopt;
  const Expr &x = ratio->args[0]->args[0], &scale = ratio->args[0]->args[1];
  if (!is_sound(scale) || !is_sound(ratio->args[1]) || one_number(scale) != one_number(ratio->args[1]))
    return std::nullopt;
  if (!one_number(scale) || x->kind != Kind::Cast || x->args[0].dtype() != DType::I32) return std::nullopt;
  Expr wide = x->args[0];
  double off = 0;
  if (is_binary(wide, BinaryOp::Sub)) {
    const Expr& by = wide->args[1]->kind == Kind::Cast ? wide->args[1]->args[0] : wide->args[1];
    const auto number = one_number(by);
    if (!number) return std::nullopt;
    off = *number;
    wide = Expr(wide->args[0]);
  }
  if (wide->kind != Kind::Cast || wide->args[0].dtype() != e.dtype()) return std::nullopt;
  const auto back = zero.empty() ? std::optional(0.0) : one_number(zero);
  return back == off ? std::optional(wide->args[0]) : std::nullopt;
}

// Numbers that become bytes, of a sum and constants; nothing for any other.
std::optional<Expr> Requantised::without_division(const Expr& e) {
  if (e->kind != Kind::Cast || !is_byte(e.dtype())) return std::nullopt;
  const Expr sum = e->args[0];
  const bool moved = is_binary(sum, BinaryOp::Add);
  const Expr rounded = moved ? sum->args[0] : sum;
  if (rounded->kind != Kind::Unary || rounded->unary != te::UnaryOp::Round || rounded.dtype() != DType::F32)
    return std::nullopt;
  const Expr ratio = unstored(rounded->args[0]);
  if (const auto same = same_bytes(e, ratio, moved ? sum->args[1] : Expr())) return same;
  std::set<const void*> seen;
  if (!is_binary(ratio, BinaryOp::Div) || !is_sound(ratio->args[1]) || !summed(ratio->args[0], seen))
    return std::nullopt;
  const auto zero = moved ? one_number(sum->args[1]) : std::optional(0.0);
  if (!zero) return std::nullopt;
  scale_ = ratio->args[1];
  terms_ = 0;
  const auto quotient = divided(ratio->args[0]);
  if (!quotient) return std::nullopt;
  const Expr inside = te::round(without_bounds(*quotient, *zero, e.dtype()));
  return te::cast(e.dtype(), moved ? inside + sum->args[1] : inside);
}

Expr Requantised::rewritten(const Expr& e) {
  if (e->kind == Kind::Read || e->args.empty()) return e;
  if (const auto it = done_.find(e.identity()); it != done_.end()) return it->second;
  te::Node node = *e;
  bool changed = false;
  for (Expr& a : node.args) {
    const Expr before = a;
    a = rewritten(before);
    changed = changed || !a.same_node(before);
  }
  const Expr inside = changed ? Expr::make(std::move(node)) : e;
  return done_[e.identity()] = without_division(inside).value_or(inside);
}

void Requantised::rewrite(ModelStage& s) {
  axes_ = s.axes;
  done_.clear();
  s.body = rewritten(s.body);
}

}  // namespace

void requantised(StageGraph& graph) { Requantised(graph).run(); }

}  // namespace isomer::compile
