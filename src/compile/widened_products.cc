#include "compile/widened_products.h"

#include <map>

#include "compile/forms.h"

namespace isomer::compile {

using te::Expr;
using te::Kind;

namespace {

bool is_half(DType t) { return t == DType::F16 || t == DType::BF16; }

// The read of halves that a side of a product is, or is in float; nullptr: neither.
const te::Node* half_read(const Expr& side) {
  const Expr& e = side->kind == Kind::Cast && side.dtype() == DType::F32 ? side->args[0] : side;
  return e->kind == Kind::Read && is_half(e.dtype()) ? &*e : nullptr;
}

class Widening {
 public:
  explicit Widening(StageGraph& g) : g_(g) {}

  void run() {
    std::vector<ModelStage> old = std::move(g_.stages);
    g_.stages.clear();
    for (ModelStage& s : old)
      if (!rewrite(s)) put(std::move(s));
    g_.prune();
  }

 private:
  StageValue& value(int v) { return g_.values[static_cast<size_t>(v)]; }

  void put(ModelStage s) {
    value(s.value).stage = static_cast<int>(g_.stages.size());
    g_.stages.push_back(std::move(s));
  }

  int add_value(const std::string& name, const std::vector<int64_t>& dims) {
    StageValue v;
    v.name = name;
    v.dims = dims;
    g_.values.push_back(std::move(v));
    return static_cast<int>(g_.values.size()) - 1;
  }

  // The value in float.
  int widened(int v, const ModelStage& reader) {
    if (const auto known = wide_.find(v); known != wide_.end()) return known->second;
    ModelStage s;
    std::vector<Expr> at;
    for (size_t d = 0; d < value(v).dims.size(); ++d) {
      s.axes.push_back({static_cast<int>(d), "i" + std::to_string(d), Dim(value(v).dims[d])});
      at.emplace_back(s.axes.back());
    }
    s.body = te::cast(DType::F32, Expr::read(v, value(v).dtype, std::move(at)));
    s.origin = reader.origin;
    s.value = add_value(value(v).name + ".wide", value(v).dims);
    put(s);
    return wide_[v] = s.value;
  }

  bool rewrite(const ModelStage& s) {
    const Expr& r = s.body;
    const bool rounds = is_half(r.dtype());
    if (r->kind != Kind::Reduce || r->combiner != te::Combiner::Sum || !(rounds || r.dtype() == DType::F32))
      return false;
    const Expr& product = r->args[0];
    if (product->kind != Kind::Binary || product->binary != te::BinaryOp::Mul) return false;
    const te::Node *left = half_read(product->args[0]), *right = half_read(product->args[1]);
    if (!left || !right) return false;
    const auto body = [&](int a, int b) {
      return te::reduce(te::Combiner::Sum, r->axes,
                        Expr::read(a, DType::F32, left->args) * Expr::read(b, DType::F32, right->args), r->args[1]);
    };
    ModelStage sum = s;
    sum.body = body(left->tensor, right->tensor);
    if (!contraction(sum, g_.values)) return false;
    const int a = widened(left->tensor, s), b = widened(right->tensor, s);
    sum.body = body(a, b);
    sum.view_of = -1;
    if (!rounds) {
      put(std::move(sum));
      return true;
    }
    sum.value = add_value(value(s.value).name + ".sum", value(s.value).dims);
    std::vector<Expr> at;
    for (const te::Axis& axis : s.axes) at.emplace_back(axis);
    ModelStage rounded = s;
    rounded.body = te::cast(value(s.value).dtype, Expr::read(sum.value, DType::F32, std::move(at)));
    put(std::move(sum));
    put(std::move(rounded));
    return true;
  }

  StageGraph& g_;
  std::map<int, int> wide_;
};

}  // namespace

void widened_products(StageGraph& graph) { Widening(graph).run(); }

}  // namespace isomer::compile
