#include "compile/integer_products.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "compile/forms.h"
#include "loop/intrinsics.h"
#include "te/simplify.h"
#include "te/substitute.h"

namespace isomer::compile {

using te::BinaryOp;
using te::Expr;
using te::Kind;

namespace {

constexpr int kMostBetween = 8;        // stages between a product and its bytes
constexpr int64_t kMostSteps = 65000;  // of a sum whose products of bytes stay inside I32: 2^31 / (255 * 128)
constexpr int64_t kExactFloats = int64_t{1} << 24;  // integers up to here are floats

// (byte - zero) * scale; zero and scale may be empty.
struct Factor {
  Expr read, zero, scale;
};

// The right side of a product when the model is compiled: bytes less what could be taken off them.
struct Weights {
  int value = -1;  // I8
  Expr zero;       // what is left to take off, or empty
};

class IntegerProducts {
 public:
  IntegerProducts(StageGraph& g, const loop::Target& target) : g_(g) {
    constexpr const char* kInstructions[] = {"avx512vnni", "avxvnni", "amx-int8", "dotprod", "i8mm"};
    fast_ =
        std::any_of(std::begin(kInstructions), std::end(kInstructions), [&](const char* f) { return target.has(f); });
    for (const DType left : {DType::U8, DType::I8})
      if (!left_ && !loop::dot_products_for(target, left, DType::I8).empty()) left_ = left;
  }

  void run() {
    std::vector<ModelStage> old = std::move(g_.stages);
    for (ModelStage& s : old)
      if (!rewrite(s)) add_stage_of(std::move(s));
    g_.prune();
  }

 private:
  const StageValue& value(int v) const { return g_.values[static_cast<size_t>(v)]; }

  int add_value(const std::string& name, DType dtype, const std::vector<te::Axis>& axes) {
    StageValue& v = g_.values.emplace_back();
    v.name = name;
    v.dtype = dtype;
    for (const te::Axis& a : axes) v.dims.push_back(a.extent.value());
    return static_cast<int>(g_.values.size()) - 1;
  }
  int add_constant(Tensor t) {
    StageValue& v = g_.values.emplace_back();
    v.dtype = t.dtype();
    v.dims = t.dims();
    v.constant = std::move(t);
    return static_cast<int>(g_.values.size()) - 1;
  }
  int add_stage(const ModelStage& like, const char* what, std::vector<te::Axis> axes, Expr body) {
    const int made = add_value(value(like.value).name + what, body.dtype(), axes);
    ModelStage s;
    s.value = made;
    s.axes = std::move(axes);
    s.body = std::move(body);
    s.origin = like.origin;
    add_stage_of(std::move(s));
    return made;
  }
  void add_stage_of(ModelStage s) {
    g_.values[static_cast<size_t>(s.value)].stage = static_cast<int>(g_.stages.size());
    g_.stages.push_back(std::move(s));
  }

  // Whether the expression is the same at all points of the sum.
  bool still(const Expr& e) const {
    const std::vector<int> vars = te::free_vars(e);
    return std::none_of(vars.begin(), vars.end(), [&](int v) {
      return std::any_of(depth_.begin(), depth_.end(), [&](const te::Axis& a) { return a.id == v; });
    });
  }

  std::optional<Factor> factor(const Expr& e, int depth = 0) const {
    if (depth > kMostBetween) return std::nullopt;
    if (e->kind == Kind::Read) {
      const auto body = computed(e);
      return body ? factor(*body, depth + 1) : std::nullopt;
    }
    if (e->kind == Kind::Cast) {
      const Expr& x = e->args[0];
      if (e.dtype() == DType::I32 && x->kind == Kind::Read && is_byte(x.dtype())) return Factor{x, {}, {}};
      return e.dtype() == DType::F32 && x.dtype() == DType::I32 ? factor(x, depth + 1) : std::nullopt;
    }
    if (e->kind != Kind::Binary) return std::nullopt;
    if (e->binary == BinaryOp::Sub && e.dtype() == DType::I32 && still(e->args[1])) {
      auto f = factor(e->args[0], depth + 1);
      if (!f || !f->zero.empty()) return std::nullopt;
      f->zero = e->args[1];
      return f;
    }
    if (e->binary != BinaryOp::Mul || e.dtype() != DType::F32) return std::nullopt;
    for (const size_t side : {0, 1}) {
      if (!still(e->args[1 - side])) continue;
      auto f = factor(e->args[side], depth + 1);
      if (!f || !f->scale.empty()) continue;
      f->scale = e->args[1 - side];
      return f;
    }
    return std::nullopt;
  }

  // What stands behind a read of what a stage computes element by element.
  std::optional<Expr> computed(const Expr& read) const {
    const int maker = value(read->tensor).stage;
    if (maker < 0) return std::nullopt;
    const ModelStage& p = g_.stages[static_cast<size_t>(maker)];
    if (p.is_reduction() || p.in_parts) return std::nullopt;
    te::Substitution at;
    for (size_t i = 0; i < p.axes.size(); ++i) at.var(p.axes[i].id, read->args[i]);
    return te::simplify(at(p.body), scope_);
  }
  bool rewrite(const ModelStage& s);
  std::optional<Weights> weights(const Factor& b);
  std::optional<std::vector<int64_t>> zeros(const Factor& b) const;
  int as_left(const ModelStage& like, int v);
  Expr column_sums(const Expr& b, int64_t times);
  Expr settled(const Expr& zero) const;
  std::optional<std::vector<int64_t>> less_zeros(const Factor& b) const;
  bool as_products(const ModelStage& s, const Factor& a, const Factor& b, int64_t steps);
  bool as_floats(const ModelStage& s, const Factor& a, const Factor& b, int64_t steps);
  static Expr scaled(Expr total, const Factor& a, const Factor& b);
  bool scales_are_sound(const Factor& a, const Factor& b) const;

  StageGraph& g_;
  std::optional<DType> left_;
  bool fast_ = false;                    // the target sums products of bytes in one instruction
  std::vector<te::Axis> depth_, scope_;  // of the sum at hand: its own axes, and all
  std::map<std::pair<int, std::string>, Weights> weights_;
  std::map<int, int> turned_;  // a value of bytes -> the same in the type that the left side has
};

// The zero point of each element of the constant side, where it can be told; empty: none.
std::optional<std::vector<int64_t>> IntegerProducts::zeros(const Factor& b) const {
  const Tensor& bytes = *value(b.read->tensor).constant;
  if (b.zero.empty()) return std::vector<int64_t>{};
  if (b.zero->kind != Kind::Cast || b.zero->args[0]->kind != Kind::Read) return std::nullopt;
  const Expr& read = b.zero->args[0];
  const auto& zero = value(read->tensor).constant;
  if (!zero) return std::nullopt;
  // How far the zero point moves with each dim of the bytes.
  std::vector<int64_t> by(bytes.dims().size());
  int64_t first = 0, stride = 1;
  for (size_t d = read->args.size(); d-- > 0; stride *= zero->dims()[d]) {
    const auto at = linear(read->args[d]);
    if (!at) return std::nullopt;
    first += at->constant * stride;
    for (const auto& [axis, step] : at->terms) {
      const auto own =
          std::find_if(b.read->args.begin(), b.read->args.end(), [&](const Expr& i) { return plain_var(i) == axis; });
      if (own == b.read->args.end()) return std::nullopt;
      by[static_cast<size_t>(own - b.read->args.begin())] += step * stride;
    }
  }
  std::vector<int64_t> out, at(by.size());
  out.reserve(static_cast<size_t>(bytes.size()));
  int64_t place = first;
  for (int64_t i = 0; i < bytes.size(); ++i) {
    out.push_back(zero->integer(place));
    for (size_t d = by.size(); d-- > 0;) {
      place += by[d];
      if (++at[d] < bytes.dims()[d]) break;
      place -= by[d] * at[d];
      at[d] = 0;
    }
  }
  return out;
}

// The constant side less its zero points.
std::optional<std::vector<int64_t>> IntegerProducts::less_zeros(const Factor& b) const {
  const auto zero = zeros(b);
  if (!zero) return std::nullopt;
  const Tensor& bytes = *value(b.read->tensor).constant;
  std::vector<int64_t> out;
  for (int64_t i = 0; i < bytes.size(); ++i)
    out.push_back(bytes.integer(i) - (zero->empty() ? 0 : (*zero)[static_cast<size_t>(i)]));
  return out;
}

// Bytes less their zero points where those fit in I8; else bytes as they are, or 128 less.
std::optional<Weights> IntegerProducts::weights(const Factor& b) {
  const Expr zero = settled(b.zero);
  const std::pair key(b.read->tensor, zero.empty() ? std::string() : te::hash(zero).hex());
  if (const auto known = weights_.find(key); known != weights_.end()) return known->second;
  const auto less_zero = less_zeros(b);
  if (!less_zero) return std::nullopt;
  const Tensor bytes = *value(b.read->tensor).constant;
  const bool fits = std::all_of(less_zero->begin(), less_zero->end(), [](int64_t x) { return x >= -128 && x <= 127; });
  const int64_t less = bytes.dtype() == DType::U8 ? 128 : 0;
  Tensor out(DType::I8, bytes.dims());
  auto* to = out.mutable_as<int8_t>();
  for (int64_t i = 0; i < bytes.size(); ++i)
    to[i] = static_cast<int8_t>(fits ? (*less_zero)[static_cast<size_t>(i)] : bytes.integer(i) - less);
  Weights w;
  if (!fits) {
    const Expr offset = Expr::integer(DType::I32, less);
    w.zero = zero.empty() ? Expr::integer(DType::I32, -less) : te::simplify(zero - offset, scope_);
  }
  w.value = add_constant(std::move(out));
  return weights_[key] = w;
}

// The same bytes in the type that tiles want on their left side, 128 more or less.
int IntegerProducts::as_left(const ModelStage& like, int v) {
  if (value(v).dtype == *left_) return v;
  if (const auto known = turned_.find(v); known != turned_.end()) return known->second;
  std::vector<te::Axis> axes;
  std::vector<Expr> at;
  for (size_t d = 0; d < value(v).dims.size(); ++d) {
    axes.push_back({static_cast<int>(d), "i" + std::to_string(d), Dim(value(v).dims[d])});
    at.emplace_back(axes.back());
  }
  const Expr by = Expr::integer(DType::I32, *left_ == DType::U8 ? 128 : -128);
  const Expr body = te::cast(*left_, te::cast(DType::I32, Expr::read(v, value(v).dtype, at)) + by);
  return turned_[v] = add_stage(like, ".turned", std::move(axes), body);
}

// A zero point as the number that it is, where that is known; empty for 0.
Expr IntegerProducts::settled(const Expr& zero) const {
  if (zero.empty() || zero->kind != Kind::Cast || zero->args[0]->kind != Kind::Read) return zero;
  const auto& known = value(zero->args[0]->tensor).constant;
  if (!known || known->size() == 0) return zero;
  const int64_t number = known->integer(0);
  for (int64_t i = 1; i < known->size(); ++i)
    if (known->integer(i) != number) return zero;
  return number == 0 ? Expr() : Expr::integer(DType::I32, number);
}

// The sum of the constant side along the depth, as a constant of its other axes.
Expr IntegerProducts::column_sums(const Expr& b, int64_t times) {
  const Tensor bytes = *value(b->tensor).constant;
  std::vector<te::Axis> kept;
  std::vector<int64_t> dims, steps, deep, deep_steps;
  std::vector<Expr> at;
  Linear place;
  int64_t stride = 1;
  for (size_t d = b->args.size(); d-- > 0; stride *= bytes.dims()[d]) {
    const Linear index = *linear(b->args[d]);
    place.constant += index.constant * stride;
    for (const auto& [axis, by] : index.terms) place.terms[axis] += by * stride;
  }
  for (const te::Axis& a : scope_) {
    if (place.of(a.id) == 0) continue;
    const bool summed = std::any_of(depth_.begin(), depth_.end(), [&](const te::Axis& k) { return k.id == a.id; });
    (summed ? deep : dims).push_back(a.extent.value());
    (summed ? deep_steps : steps).push_back(place.of(a.id));
    if (!summed) at.emplace_back(a);
  }
  int64_t repeats = 1;  // axes of the sum along which the constant stays
  for (const te::Axis& a : depth_)
    if (place.of(a.id) == 0) repeats *= a.extent.value();
  const auto points = [](const std::vector<int64_t>& extents, const std::vector<int64_t>& by) {
    std::vector<int64_t> out = {0};
    for (size_t i = 0; i < extents.size(); ++i) {
      std::vector<int64_t> next;
      for (const int64_t o : out)
        for (int64_t x = 0; x < extents[i]; ++x) next.push_back(o + x * by[i]);
      out = std::move(next);
    }
    return out;
  };
  const std::vector<int64_t> inside = points(deep, deep_steps);
  Tensor sums(DType::I32, dims);
  auto* to = sums.mutable_as<int32_t>();
  const int8_t* from = bytes.as<int8_t>().data() + place.constant;
  for (const int64_t column : points(dims, steps)) {
    int64_t sum = 0;
    for (const int64_t k : inside) sum += from[column + k];
    *to++ = static_cast<int32_t>(static_cast<uint32_t>(sum * repeats * times));
  }
  return Expr::read(add_constant(std::move(sums)), DType::I32, std::move(at));
}

// Constants, finite, and far enough from the ends of a float that their product is too.
bool IntegerProducts::scales_are_sound(const Factor& a, const Factor& b) const {
  for (const Expr* scale : {&a.scale, &b.scale}) {
    if (scale->empty()) continue;
    const Expr& read = *scale;
    if (read->kind != Kind::Read || read.dtype() != DType::F32 || !value(read->tensor).constant) return false;
    for (const float x : value(read->tensor).constant->as<float>())
      if (!(std::abs(x) >= kSmallestScale && std::abs(x) <= kLargestScale)) return false;
  }
  return true;
}

bool IntegerProducts::rewrite(const ModelStage& s) {
  const Expr r = s.body;
  if (r->kind != Kind::Reduce || r->combiner != te::Combiner::Sum) return false;
  if ((r.dtype() != DType::I32 && r.dtype() != DType::F32) || r->args[0]->kind != Kind::Binary) return false;
  if (r->args[0]->binary != BinaryOp::Mul) return false;
  depth_ = r->axes;
  scope_ = s.axes;
  scope_.insert(scope_.end(), depth_.begin(), depth_.end());
  int64_t steps = 1;
  for (const te::Axis& a : depth_) steps *= a.extent.value();
  auto a = factor(r->args[0]->args[0]), b = a ? factor(r->args[0]->args[1]) : std::nullopt;
  if (!b || steps == 0) return false;
  if (value(a->read->tensor).constant) std::swap(a, b);
  if (value(a->read->tensor).constant || !value(b->read->tensor).constant) return false;
  const bool real = r.dtype() == DType::F32;
  if (real ? steps > kMostSteps || !scales_are_sound(*a, *b) : !a->scale.empty() || !b->scale.empty()) return false;
  return as_products(s, *a, *b, steps) || as_floats(s, *a, *b, steps);
}

// An exact sum of real factors, times their scales.
Expr IntegerProducts::scaled(Expr total, const Factor& a, const Factor& b) {
  if (a.scale.empty() && b.scale.empty()) return total;
  if (a.scale.empty() || b.scale.empty()) return total * (a.scale.empty() ? b.scale : a.scale);
  return total * (a.scale * b.scale);
}

// What no tile takes (windows that keep their channels apart): floats hold the bytes, their products and a sum of few of them without
// rounding, and every machine multiplies and adds floats in one operation.
bool IntegerProducts::as_floats(const ModelStage& s, const Factor& a, const Factor& b, int64_t steps) {
  const Expr& r = s.body;
  const auto taps = less_zeros(b);
  if (!taps || (r.dtype() == DType::F32 && contraction(s, g_.values))) return false;
  // A zero point that is computed would be read again for every tap, which costs more than integers do.
  const Expr zero = settled(a.zero);
  if (!zero.empty() && zero->kind != Kind::Int) return false;
  int64_t largest = 0;
  for (const int64_t x : *taps) largest = std::max(largest, std::abs(x));
  if (steps > kExactFloats / 255 || largest * 255 * steps > kExactFloats) return false;
  Tensor weights(DType::F32, value(b.read->tensor).dims);
  std::transform(taps->begin(), taps->end(), weights.mutable_as<float>(),
                 [](int64_t x) { return static_cast<float>(x); });
  Expr x = te::cast(DType::F32, a.read);
  if (!zero.empty()) x = x - Expr::real(DType::F32, static_cast<double>(zero->integer));
  const Expr sum = te::reduce(te::Combiner::Sum, depth_,
                              x * Expr::read(add_constant(std::move(weights)), DType::F32, b.read->args), r->args[1]);
  std::vector<Expr> here;
  for (const te::Axis& axis : s.axes) here.emplace_back(axis);
  const Expr total = Expr::read(add_stage(s, ".sum", s.axes, sum), DType::F32, here);
  ModelStage rest = s;
  rest.body = r.dtype() == DType::F32 ? scaled(total, a, b) : te::cast(DType::I32, total);
  add_stage_of(std::move(rest));
  return true;
}

bool IntegerProducts::as_products(const ModelStage& s, const Factor& a, const Factor& b, int64_t steps) {
  const Expr& r = s.body;
  // Without such an instruction floats are a little faster than bytes.
  if (!left_ || (!fast_ && r.dtype() == DType::F32 && contraction(s, g_.values))) return false;
  const auto right = weights(b);
  if (!right) return false;
  const Expr bytes = Expr::read(right->value, DType::I8, b.read->args);
  const bool turned = value(a.read->tensor).dtype != *left_;
  const Expr offset = Expr::integer(DType::I32, *left_ == DType::U8 ? 128 : -128);
  const bool always = r->args[1]->kind == Kind::Int && r->args[1]->integer != 0;
  Expr zero = settled(a.zero);
  if (turned) zero = zero.empty() ? offset : te::simplify(zero + offset, s.axes);
  // Whether it is a contraction is told before anything is added for good.
  ModelStage product = s;
  const auto body_of = [&](int left) {
    Expr x = te::cast(DType::I32, Expr::read(left, value(left).dtype, a.read->args));
    if (!always) x = te::select(r->args[1], x, zero.empty() ? Expr::integer(DType::I32, 0) : zero);
    return std::pair(x, te::reduce(te::Combiner::Sum, depth_, x * te::cast(DType::I32, bytes)));
  };
  if (!always && turned && zero->kind != Kind::Int) {
    if (!te::free_vars(zero).empty()) return false;
    zero = te::cast(DType::I32, Expr::read(add_stage(s, ".zero", {}, te::cast(*left_, zero)), *left_, {}));
  }
  product.body = body_of(a.read->tensor).second;
  if (!contraction(product, g_.values)) return false;
  const auto [x, sum] = body_of(as_left(s, a.read->tensor));
  const int made = add_stage(s, ".sum", s.axes, sum);
  std::vector<Expr> here;
  for (const te::Axis& axis : s.axes) here.emplace_back(axis);
  Expr total = Expr::read(made, DType::I32, here);
  if (!zero.empty()) {
    const bool known = zero->kind == Kind::Int;
    const Expr sums = column_sums(bytes, known ? zero->integer : 1);
    total = total - (known ? sums : zero * sums);
  }
  if (!right->zero.empty()) {
    std::vector<te::Axis> rows;
    std::vector<Expr> at;
    const std::vector<int> used = te::free_vars(x);
    for (const te::Axis& axis : s.axes)
      if (std::find(used.begin(), used.end(), axis.id) != used.end()) rows.push_back(axis), at.emplace_back(axis);
    const int sums = add_stage(s, ".rows", rows, te::reduce(te::Combiner::Sum, depth_, x));
    total = total - right->zero * Expr::read(sums, DType::I32, at);
    if (!zero.empty()) total = total + Expr::integer(DType::I32, steps) * zero * right->zero;
  }
  if (r.dtype() == DType::F32) total = scaled(te::cast(DType::F32, total), a, b);
  ModelStage rest = s;
  rest.body = te::simplify(total, s.axes);
  add_stage_of(std::move(rest));
  return true;
}

}  // namespace

void integer_products(StageGraph& graph, const loop::Target& target) { IntegerProducts(graph, target).run(); }

}  // namespace isomer::compile
