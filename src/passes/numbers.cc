#include "passes/numbers.h"

#include <algorithm>
#include <cmath>

namespace isomer::passes {
namespace {

constexpr int kMaxTermDepth = 12;
constexpr size_t kMaxDegree = 3;

using Coefficients = std::vector<double>;

size_t rank_of(const Editor& e, Value v) { return e.shape(v).has_rank() ? e.shape(v).rank() : 0; }

void collect(const Editor& e, Value v, bool root, int depth, Product& out) {
  const ir::Node& n = e.node(v.node);
  const bool inner = v.index == 0 && depth > 0 && (root || e.uses(v) == 1);
  if (inner && n.op->name == "mul") {
    for (size_t i : {0, 1}) {
      if (const auto c = number(e, n.inputs[i], rank_of(e, n.inputs[1 - i])))
        out.constant *= *c;
      else
        collect(e, n.inputs[i], false, depth - 1, out);
    }
    return;
  }
  if (inner && n.op->name == "div")
    if (const auto c = number(e, n.inputs[1], rank_of(e, n.inputs[0]))) {
      out.constant /= *c;
      return collect(e, n.inputs[0], false, depth - 1, out);
    }
  out.factors.push_back(v);
}

std::optional<Coefficients> times(const Coefficients& a, const Coefficients& b) {
  if (a.empty() || b.empty()) return Coefficients{};
  if (a.size() + b.size() > kMaxDegree + 2) return std::nullopt;
  Coefficients out(a.size() + b.size() - 1, 0);
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t k = 0; k < b.size(); ++k) out[i + k] += a[i] * b[k];
  return out;
}

std::optional<Coefficients> power(const Coefficients& a, double exponent) {
  if (!(exponent == 1 || exponent == 2 || exponent == 3)) return std::nullopt;
  std::optional<Coefficients> out = a;
  for (double e = 1; e < exponent && out; ++e) out = times(*out, a);
  return out;
}

std::optional<Coefficients> walk(const Editor& e, Value v, Value x, int depth) {
  if (v == x) return Coefficients{0, 1};
  if (v.is_none() || v.index != 0 || depth == 0) return std::nullopt;
  if (const auto c = number(e, v, rank_of(e, x))) return Coefficients{*c};
  const ir::Node& n = e.node(v.node);
  const std::string& op = n.op->name;
  const bool sum = op == "add" || op == "sub";
  if (op == "neg") {
    auto a = walk(e, n.inputs[0], x, depth - 1);
    return a ? times(*a, {-1}) : std::nullopt;
  }
  if (!sum && op != "mul" && op != "div" && op != "pow") return std::nullopt;
  auto a = walk(e, n.inputs[0], x, depth - 1);
  auto b = a ? walk(e, n.inputs[1], x, depth - 1) : std::nullopt;
  if (!a || !b) return std::nullopt;
  if (op == "mul") return times(*a, *b);
  if (op == "div") return b->size() == 1 && (*b)[0] != 0 ? times(*a, {1 / (*b)[0]}) : std::nullopt;
  if (op == "pow") return b->size() == 1 ? power(*a, (*b)[0]) : std::nullopt;
  a->resize(std::max(a->size(), b->size()), 0);
  for (size_t i = 0; i < b->size(); ++i) (*a)[i] += op == "add" ? (*b)[i] : -(*b)[i];
  return a;
}

}  // namespace

std::optional<double> number(const Editor& e, Value v, size_t rank) {
  const Tensor* t = e.constant(v);
  if (!t || t->size() != 1 || t->rank() > rank || !is_float(t->dtype())) return std::nullopt;
  return t->real(0);
}

bool is_near(double a, double b, DType type) {
  const double unit = type == DType::BF16 ? 0x1p-8 : type == DType::F16 ? 0x1p-11 : 0x1p-22;
  return std::abs(a - b) <= 2 * unit * std::abs(b);
}

std::optional<Product> product(const Editor& e, Value v) {
  Product out;
  collect(e, v, true, kMaxTermDepth, out);
  if (out.factors.size() == 1 && out.factors[0] == v) return std::nullopt;
  return out;
}

std::optional<std::vector<double>> polynomial(const Editor& e, Value v, Value x) {
  auto c = walk(e, v, x, kMaxTermDepth);
  while (c && !c->empty() && c->back() == 0) c->pop_back();
  return c;
}

bool is_polynomial(const Editor& e, Value v, Value x, const std::vector<double>& wanted) {
  const auto found = polynomial(e, v, x);
  if (!found || found->size() != wanted.size()) return false;
  for (size_t i = 0; i < wanted.size(); ++i)
    if (!is_near((*found)[i], wanted[i], e.type(x).dtype)) return false;
  return true;
}

std::optional<Beside> beside_number(const Editor& e, Value v, std::string_view op) {
  const ir::Node* n = e.made_by(v, op);
  if (!n || n->inputs.size() != 2) return std::nullopt;
  for (size_t i : {1, 0})
    if (const auto c = number(e, n->inputs[i], rank_of(e, n->inputs[1 - i]))) return Beside{n->inputs[1 - i], *c};
  return std::nullopt;
}

}  // namespace isomer::passes
