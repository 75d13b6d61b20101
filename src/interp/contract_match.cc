#include "interp/contract_match.h"

#include <algorithm>
#include <cmath>

namespace isomer::interp {
namespace {

using te::Expr;
using te::Kind;

template <class T>
bool all_finite_of(const Tensor& t) {
  for (T v : t.as<T>())
    if (!std::isfinite(v)) return false;
  return true;
}
bool all_finite(const Tensor& t) {
  return t.dtype() == DType::F32 ? all_finite_of<float>(t) : all_finite_of<double>(t);
}

struct Operand {
  const te::Node* read = nullptr;
  const Tensor* tensor = nullptr;
  std::vector<Affine> guards;  // outside of them the operand is zero
};

std::optional<Operand> match_operand(const Expr& e, const std::vector<const Tensor*>& tensors, AffineReader& affine) {
  Operand o;
  const Expr* read = &e;
  if (e->kind == Kind::Select) {
    if (e->args[2]->kind != Kind::Real || e->args[2]->real != 0) return std::nullopt;
    auto g = affine.guards(e->args[0]);
    if (!g) return std::nullopt;
    o.guards = *std::move(g);
    read = &e->args[1];
  }
  if ((*read)->kind != Kind::Read) return std::nullopt;
  o.read = &**read;
  const auto slot = static_cast<size_t>(o.read->tensor);
  o.tensor = slot < tensors.size() ? tensors[slot] : nullptr;
  if (!o.tensor || o.tensor->size() == 0 || o.tensor->rank() != o.read->args.size()) return std::nullopt;
  if (o.tensor->dtype() != DType::F32 && o.tensor->dtype() != DType::F64) return std::nullopt;
  return o;
}

// The read's address when every index is in range wherever the guards hold.
std::optional<Affine> proven_address(const Operand& o, const std::vector<Affine>& guards, AffineReader& affine,
                                     const Extents& extents, std::vector<Affine>& needs) {
  const auto guarded = [&](const std::optional<Affine>& f) {
    const bool found = f && std::find(guards.begin(), guards.end(), *f) != guards.end();
    if (found) needs.push_back(*f);
    return found;
  };
  Affine address;
  int64_t stride = 1;
  for (size_t i = o.read->args.size(); i-- > 0; stride *= o.tensor->dims()[i]) {
    const auto index = affine.read(o.read->args[i]);
    if (!index) return std::nullopt;
    const auto r = range_of(*index, extents);
    if (!r) return std::nullopt;
    if (r->low < 0 && !guarded(index)) return std::nullopt;
    const int64_t last = o.tensor->dims()[i] - 1;
    if (r->high > last && !guarded(subtract(Affine{last, {}}, *index))) return std::nullopt;
    const auto part = scale(*index, stride);
    const auto sum = part ? add(address, *part) : std::nullopt;
    if (!sum) return std::nullopt;
    address = *sum;
  }
  return range_of(address, extents) ? std::optional<Affine>(address) : std::nullopt;
}

}  // namespace

std::optional<ContractionMatch> match_contraction(const te::Node& n, const std::vector<const Tensor*>& tensors,
                                                  AffineReader& affine, const Extents& extents) {
  if (n.kind != Kind::Reduce || n.combiner != te::Combiner::Sum || !is_float(n.dtype)) return std::nullopt;
  const Expr& body = n.args[0];
  if (body->kind != Kind::Binary || body->binary != te::BinaryOp::Mul) return std::nullopt;
  ContractionMatch m;
  for (const te::Axis& x : n.axes) {
    if (!x.extent.is_const() || x.extent.value() < 1) return std::nullopt;
    if (x.extent.value() == 1)
      m.unit_axes.push_back(x.id);
    else
      m.axes.push_back(x);
  }
  auto guards = affine.guards(n.args[1]);
  if (!guards) return std::nullopt;
  m.guards = *std::move(guards);
  const auto a = match_operand(body->args[0], tensors, affine);
  const auto b = a ? match_operand(body->args[1], tensors, affine) : std::nullopt;
  if (!b) return std::nullopt;
  m.a = a->tensor;
  m.b = b->tensor;
  // A read is made wherever its own guards and those of the sum hold, whatever the other operand's say.
  const auto with = [&](const Operand& o) {
    std::vector<Affine> all = m.guards;
    all.insert(all.end(), o.guards.begin(), o.guards.end());
    return all;
  };
  const auto pa = proven_address(*a, with(*a), affine, extents, m.a_needs);
  const auto pb = pa ? proven_address(*b, with(*b), affine, extents, m.b_needs) : std::nullopt;
  if (!pb) return std::nullopt;
  m.a_address = *pa;
  m.b_address = *pb;
  for (const Operand* o : {&*a, &*b}) m.guards.insert(m.guards.end(), o->guards.begin(), o->guards.end());
  // Guards that always hold cost time and change nothing.
  std::erase_if(m.guards, [&](const Affine& g) {
    const auto r = range_of(g, extents);
    return r && r->low >= 0;
  });
  if (m.guards.empty()) return m;
  m.a_finite = all_finite(*m.a);
  m.b_finite = all_finite(*m.b);
  // Zero times a finite number adds a zero, which changes nothing; zero times infinity would.
  if ((!a->guards.empty() && !m.b_finite) || (!b->guards.empty() && !m.a_finite)) return std::nullopt;
  return m;
}

}  // namespace isomer::interp
