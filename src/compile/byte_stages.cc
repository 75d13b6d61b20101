#include "compile/byte_stages.h"

#include <algorithm>
#include <map>
#include <optional>

#include "compile/forms.h"
#include "te/substitute.h"

namespace isomer::compile {

using te::BinaryOp;
using te::Combiner;
using te::Expr;
using te::Kind;

namespace {

constexpr int64_t kMostSummed = (int64_t{1} << 24) / 255;  // bytes whose sum a float holds

// (held - zero) * scale, element by element: `held` are bytes, or floats that are such integers.
struct Dequantised {
  int held = -1;
  DType type = DType::U8;  // of the bytes
  Expr zero, scale;        // one element each; zero may be empty
  double zero_number = 0, scale_number = 0;

  bool same_scale(const Dequantised& o) const {
    return type == o.type && zero_number == o.zero_number && scale_number == o.scale_number;
  }
};

class ByteStages {
 public:
  explicit ByteStages(StageGraph& g) : g_(g) {}

  void run() {
    std::vector<ModelStage> old = std::move(g_.stages);
    for (ModelStage& s : old) {
      rename(s);
      if (!moved(s) && !reduced(s)) quantised(s);
      if (const auto d = dequantised(s)) known_.try_emplace(s.value, *d);
      add(std::move(s));
    }
    g_.prune();
  }

 private:
  const StageValue& value(int v) const { return g_.values[static_cast<size_t>(v)]; }
  void add(ModelStage s) {
    g_.values[static_cast<size_t>(s.value)].stage = static_cast<int>(g_.stages.size());
    g_.stages.push_back(std::move(s));
  }
  const Dequantised* known(const Expr& read) const {
    const auto it = read->kind == Kind::Read ? known_.find(read->tensor) : known_.end();
    return it == known_.end() ? nullptr : &it->second;
  }
  static std::vector<Expr> here(const ModelStage& s) { return {s.axes.begin(), s.axes.end()}; }
  static bool is_here(const Expr& read, const ModelStage& s) {
    if (read->args.size() != s.axes.size()) return false;
    for (size_t d = 0; d < read->args.size(); ++d) {
      const bool only = s.axes[d].extent.value() == 1 && read->args[d]->kind == Kind::Int;
      if (!only && plain_var(read->args[d]) != s.axes[d].id) return false;
    }
    return true;
  }

  std::optional<double> one_constant(const Expr& e) const {
    const Expr& read = e->kind == Kind::Cast ? e->args[0] : e;
    if (read->kind == Kind::Real) return read->real;
    if (read->kind == Kind::Int) return static_cast<double>(read->integer);
    if (read->kind != Kind::Read || !te::free_vars(read).empty()) return std::nullopt;
    const auto& t = value(read->tensor).constant;
    if (!t || t->size() != 1) return std::nullopt;
    return is_float(t->dtype()) ? t->real(0) : static_cast<double>(t->integer(0));
  }
  std::optional<Dequantised> dequantised(const ModelStage& s) const;
  void rename(ModelStage& s) const;
  int beside(const ModelStage& s, DType type, Expr body, int view_of = -1);
  void become(ModelStage& s, Dequantised d);
  std::optional<Expr> bytes_of(const Expr& e, const Dequantised** scale) const;
  bool moved(ModelStage& s);
  bool reduced(ModelStage& s);
  void quantised(ModelStage& s);

  StageGraph& g_;
  std::map<int, Dequantised> known_;  // by value
  std::map<int, int> same_;           // a value of bytes -> the same bytes
};

std::optional<Dequantised> ByteStages::dequantised(const ModelStage& s) const {
  if (s.view_of >= 0 || !is_binary(s.body, BinaryOp::Mul) || s.body.dtype() != DType::F32) return std::nullopt;
  const Expr &number = s.body->args[0], &scale = s.body->args[1];
  const auto by = one_constant(scale);
  if (!by || !(*by >= kSmallestScale && *by <= kLargestScale)) return std::nullopt;
  if (number->kind != Kind::Cast || number->args[0].dtype() != DType::I32) return std::nullopt;
  Dequantised out;
  out.scale = scale, out.scale_number = *by;
  Expr wide = number->args[0];
  if (is_binary(wide, BinaryOp::Sub)) {
    const auto zero = one_constant(wide->args[1]);
    if (!zero) return std::nullopt;
    out.zero = wide->args[1], out.zero_number = *zero;
    wide = Expr(wide->args[0]);
  }
  if (wide->kind != Kind::Cast || wide->args[0]->kind != Kind::Read) return std::nullopt;
  const Expr& read = wide->args[0];
  if (!is_byte(read.dtype()) || value(read->tensor).constant || !is_here(read, s)) return std::nullopt;
  out.held = read->tensor, out.type = read.dtype();
  return out;
}

void ByteStages::rename(ModelStage& s) const {
  te::Substitution names;
  names.reads([&](const te::Node& n, std::vector<Expr> at) {
    const auto it = same_.find(n.tensor);
    return it == same_.end() ? Expr() : Expr::read(it->second, n.dtype, std::move(at));
  });
  s.body = names(s.body);
  if (const auto it = same_.find(s.view_of); it != same_.end()) s.view_of = it->second;
}

// A stage of its own over the same axes.
int ByteStages::beside(const ModelStage& s, DType type, Expr body, int view_of) {
  StageValue v;
  v.name = value(s.value).name + ".bytes";
  v.dtype = type;
  v.dims = value(s.value).dims;
  g_.values.push_back(std::move(v));
  ModelStage made = s;
  made.value = static_cast<int>(g_.values.size()) - 1;
  made.body = std::move(body);
  made.view_of = view_of;
  const int out = made.value;
  add(std::move(made));
  return out;
}

// The stage dequantises what is held.
void ByteStages::become(ModelStage& s, Dequantised d) {
  const Expr held = Expr::read(d.held, value(d.held).dtype, here(s));
  const bool bytes = is_byte(held.dtype());
  Expr x = bytes ? te::cast(DType::I32, held) : held;
  if (!d.zero.empty()) x = x - (bytes ? d.zero : te::cast(DType::F32, d.zero));
  s.body = (bytes ? te::cast(DType::F32, x) : x) * d.scale;
  s.view_of = -1;
  known_[s.value] = std::move(d);
}

// Selections among dequantised elements of one scale, as selections among their bytes.
std::optional<Expr> ByteStages::bytes_of(const Expr& e, const Dequantised** scale) const {
  if (e->kind == Kind::Select) {
    if (!values_read(e->args[0]).empty()) return std::nullopt;
    const auto a = bytes_of(e->args[1], scale), b = a ? bytes_of(e->args[2], scale) : std::nullopt;
    return b ? std::optional(te::select(e->args[0], *a, *b)) : std::nullopt;
  }
  const Dequantised* d = known(e);
  if (!d || !is_byte(value(d->held).dtype) || (*scale && !d->same_scale(**scale))) return std::nullopt;
  *scale = d;
  return Expr::read(d->held, d->type, e->args);
}

bool ByteStages::moved(ModelStage& s) {
  const Dequantised* d = nullptr;
  const auto bytes = s.is_reduction() ? std::nullopt : bytes_of(s.body, &d);
  if (!bytes) return false;
  const auto viewed = known_.find(s.view_of);
  if (s.view_of >= 0 && viewed == known_.end()) return false;
  Dequantised own = *d;
  own.held = beside(s, d->type, *bytes, s.view_of >= 0 ? viewed->second.held : -1);
  become(s, std::move(own));
  return true;
}

bool ByteStages::reduced(ModelStage& s) {
  if (!s.is_reduction() || s.body.dtype() != DType::F32) return false;
  const Dequantised* d = known(s.body->args[0]);
  if (!d || !is_byte(value(d->held).dtype)) return false;
  const Combiner c = s.body->combiner;
  int64_t steps = 1;
  for (const te::Axis& a : s.body->axes) steps = std::min(steps * a.extent.value(), kMostSummed + 1);
  const bool sum = c == Combiner::Sum && steps <= kMostSummed;
  if (!sum && c != Combiner::Max && c != Combiner::Min) return false;
  Dequantised own = *d;
  Expr x = te::cast(DType::F32, Expr::read(d->held, d->type, s.body->args[0]->args));
  if (sum && !own.zero.empty()) x = x - Expr::real(DType::F32, own.zero_number);
  own.held = beside(s, DType::F32, te::reduce(c, s.body->axes, x, s.body->args[1]));
  if (sum) {
    s.body = Expr::read(own.held, DType::F32, here(s)) * own.scale;
    return true;
  }
  become(s, std::move(own));
  return true;
}

// What is quantised as it was dequantised is what was held.
void ByteStages::quantised(ModelStage& s) {
  if (s.view_of >= 0 || s.body->kind != Kind::Cast || !is_byte(s.body.dtype())) return;
  const Expr& sum = s.body->args[0];
  const bool offset = is_binary(sum, BinaryOp::Add);
  const auto zero = offset ? one_constant(sum->args[1]) : std::optional(0.0);
  Expr e = offset ? sum->args[0] : sum;
  if (!zero || e->kind != Kind::Unary || e->unary != te::UnaryOp::Round) return;
  e = Expr(e->args[0]);
  while (e->kind == Kind::Cast && is_float(e.dtype()) && is_float(e->args[0].dtype())) e = Expr(e->args[0]);
  if (!is_binary(e, BinaryOp::Div) || e.dtype() != DType::F32) return;
  const Dequantised* d = known(e->args[0]);
  const auto scale = one_constant(e->args[1]);
  if (!d || !scale || s.body.dtype() != d->type || *scale != d->scale_number || *zero != d->zero_number) return;
  const Expr held = Expr::read(d->held, value(d->held).dtype, e->args[0]->args);
  s.body = te::cast(d->type, held);
  const bool output = std::find(g_.outputs.begin(), g_.outputs.end(), s.value) != g_.outputs.end();
  if (is_byte(held.dtype()) && is_here(held, s) && !output) same_[s.value] = d->held;
}

}  // namespace

void byte_stages(StageGraph& graph) { ByteStages(graph).run(); }

}  // namespace isomer::compile
