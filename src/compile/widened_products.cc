#include "compile/widened_products.h"

#include <map>

#include "compile/forms.h"

namespace isomer::compile {

using te::Expr;
using te::Kind;

namespace {

bool is_half(DType t) { return t == DType::F16 || t == DType::BF16; }

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
    if (r->kind != Kind::Reduce || r->combiner != te::Combiner::Sum || !is_half(r.dtype())) return false;
    const Expr& product = r->args[0];
    if (product->kind != Kind::Binary || product->binary != te::BinaryOp::Mul) return false;
    for (const Expr& side : product->args)
      if (side->kind != Kind::Read || !is_half(side.dtype())) return false;
    const auto body = [&](int a, int b) {
      return te::reduce(
          te::Combiner::Sum, r->axes,
          Expr::read(a, DType::F32, product->args[0]->args) * Expr::read(b, DType::F32, product->args[1]->args),
          r->args[1]);
    };
    ModelStage sum = s;
    sum.body = body(product->args[0]->tensor, product->args[1]->tensor);
    if (!contraction(sum, g_.values)) return false;
    const int a = widened(product->args[0]->tensor, s), b = widened(product->args[1]->tensor, s);
    sum.body = body(a, b);
    sum.view_of = -1;
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
