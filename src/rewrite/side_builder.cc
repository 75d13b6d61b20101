#include "rewrite/side_builder.h"

namespace isomer::rewrite {

DType number_type(const ir::OpDef& op, size_t place, std::span<const std::optional<DType>> types) {
  const auto def = [&](size_t i) -> const ir::InputDef& { return op.inputs[std::min(i, op.inputs.size() - 1)]; };
  std::optional<DType> first;
  for (size_t i = 0; i < types.size(); ++i) {
    if (i == place || !types[i]) continue;
    if (def(i).var == def(place).var) return *types[i];
    if (!first) first = types[i];
  }
  if (first && def(place).types.contains(*first)) return *first;
  for (const DType t : {DType::F32, DType::I64, DType::Bool})
    if (def(place).types.contains(t)) return t;
  return DType::F32;
}

Expected<std::optional<ir::AttrValue>> evaluate_attribute(const AttrTerm& term, const Terms& terms) {
  using Result = std::optional<ir::AttrValue>;
  if (const auto* v = std::get_if<ir::AttrValue>(&term)) return Result(*v);
  if (const auto* e = std::get_if<ElementType>(&term)) return Result(ir::AttrValue(terms.dtype(*e)));
  if (const auto* n = std::get_if<TypedNumber>(&term))
    return Result(ir::AttrValue(Tensor::of<double>(terms.dtype(n->type), {1}, {n->value})));
  if (const auto* r = std::get_if<AttrRef>(&term)) return terms.attributes[r->variable];
  if (const auto* c = std::get_if<Composed>(&term)) {
    const auto list = [&](uint32_t id) {
      return terms.attributes[id] ? std::get_if<std::vector<int64_t>>(&*terms.attributes[id]) : nullptr;
    };
    const auto *p = list(c->first), *q = list(c->second);
    std::vector<int64_t> out;
    for (size_t i = 0; p && q && i < q->size(); ++i) {
      if ((*q)[i] < 0 || (*q)[i] >= static_cast<int64_t>(p->size())) break;
      out.push_back((*p)[static_cast<size_t>((*q)[i])]);
    }
    if (!p || !q || out.size() != p->size() || out.size() != q->size())
      return Diagnostic("E-rule-attribute", "compose needs two permutations of one length");
    return Result(ir::AttrValue(std::move(out)));
  }
  const auto* single = std::get_if<Size>(&term);
  const SizeList list = single ? SizeList{{SizeItem::Kind::One, *single, {}, 0}} : std::get<SizeList>(term);
  const auto dims = evaluate(list, terms.sizes);
  if (!dims) return Diagnostic("E-rule-open", "an attribute is a list of no known length");
  const bool known = std::all_of(dims->begin(), dims->end(), [](const Dim& d) { return d.is_const(); });
  if (!known) return Result(ir::AttrValue(ir::Sizes(*dims)));
  std::vector<int64_t> numbers;
  for (const Dim& d : *dims) numbers.push_back(d.value());
  return Result(single ? ir::AttrValue(numbers[0]) : ir::AttrValue(std::move(numbers)));
}

}  // namespace isomer::rewrite
