#include "rewrite/instantiate.h"

#include <fmt/format.h>

#include <algorithm>

namespace isomer::rewrite {
namespace {

std::string dim_name(const ListSymbol& list, size_t i) { return fmt::format("{}_{}", list.name, i); }

DimValues dim_values(const Rule& rule, const Bindings& b) {
  DimValues v;
  const auto dim = [&](const std::string& name) {
    const auto it = b.sizes.find(name);
    return it == b.sizes.end() ? Dim::symbol(name) : Dim(it->second);
  };
  for (const Symbol& s : rule.symbols) v.symbols.push_back(dim(s.name));
  for (const ListSymbol& l : rule.lists) {
    const auto it = b.lengths.find(l.name);
    std::vector<Dim> dims;
    for (size_t i = 0; it != b.lengths.end() && i < static_cast<size_t>(it->second); ++i)
      dims.push_back(dim(dim_name(l, i)));
    v.lists.push_back(std::move(dims));
  }
  return v;
}

// Builds one side of a rule.
class SideBuilder {
 public:
  SideBuilder(const Rule& rule, const Bindings& b, const ir::OpTable& table)
      : rule_(rule), bindings_(b), values_(dim_values(rule, b)), builder_(table, rule.name) {}

  Expected<ir::Graph> build(const Side& side) && {
    for (const Input& i : rule_.inputs) {
      ISOMER_TRY(const ir::Value v,
                 builder_.input(i.name, Type{dtype(i.type), Shape(*evaluate(i.shape, values_)), nullptr}));
      inputs_.push_back(v);
    }
    for (const Call& c : side.calls) ISOMER_CHECK_OK(call(c));
    for (size_t k = 0; k < side.outputs.size(); ++k) {
      const Operand& o = side.outputs[k];
      builder_.output(fmt::format("y{}", k), o.kind == Operand::Kind::Input ? inputs_[o.id] : results_[o.id][o.index]);
    }
    return std::move(builder_).finish();
  }

 private:
  DType dtype(const ElementType& e) const {
    if (e.fixed) return *e.fixed;
    const TypeVariable& t = rule_.types[e.variable];
    if (const auto it = bindings_.types.find(t.name); it != bindings_.types.end()) return it->second;
    if (t.types.contains(DType::F32)) return DType::F32;
    for (const DType d : kAllDTypes)
      if (t.types.contains(d)) return d;
    return DType::F32;
  }

  // The element type of a number: that of an operand it shares a type variable with, else of the first one.
  DType number_type(const Call& c, size_t place, const std::vector<ir::Value>& operands) const {
    const auto def = [&](size_t i) -> const ir::InputDef& {
      return c.op->inputs[std::min(i, c.op->inputs.size() - 1)];
    };
    std::optional<DType> first;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (i == place || operands[i].is_none()) continue;
      const DType t = builder_.type(operands[i]).dtype;
      if (def(i).var == def(place).var) return t;
      if (!first) first = t;
    }
    if (first && def(place).types.contains(*first)) return *first;
    for (const DType t : {DType::F32, DType::I64, DType::Bool})
      if (def(place).types.contains(t)) return t;
    return DType::F32;
  }

  Expected<ir::AttrValue> attribute(const Call& c, const std::string& name, const AttrTerm& term) const {
    if (const auto* v = std::get_if<ir::AttrValue>(&term)) return *v;
    if (const auto* e = std::get_if<ElementType>(&term)) return ir::AttrValue(dtype(*e));
    if (const auto* n = std::get_if<TypedNumber>(&term))
      return ir::AttrValue(Tensor::of<double>(dtype(n->type), {1}, {n->value}));
    if (const auto* r = std::get_if<AttrRef>(&term)) {
      const auto it = bindings_.attributes.find(rule_.attributes[r->variable].name);
      if (it != bindings_.attributes.end()) return it->second;
      return Diagnostic("E-rule-unbound", fmt::format("?{} has no value", rule_.attributes[r->variable].name));
    }
    const auto* single = std::get_if<Size>(&term);
    const SizeList list = single ? SizeList{{SizeItem::Kind::One, *single, {}, 0}} : std::get<SizeList>(term);
    const auto dims = evaluate(list, values_);
    std::vector<int64_t> numbers;
    for (size_t i = 0; dims && i < dims->size(); ++i) {
      if (!(*dims)[i].is_const())
        return Diagnostic("E-rule-open", fmt::format("attribute {} of {} is {}, which has no number here", name,
                                                     c.op->name, (*dims)[i].to_string()));
      numbers.push_back((*dims)[i].value());
    }
    if (!dims) return Diagnostic("E-rule-open", fmt::format("attribute {} of {} is not known", name, c.op->name));
    return single ? ir::AttrValue(numbers[0]) : ir::AttrValue(std::move(numbers));
  }

  Expected<ir::Value> sizes(const SizeList& list) {
    const auto dims = evaluate(list, values_);
    std::vector<int64_t> numbers;
    for (size_t i = 0; dims && i < dims->size(); ++i) {
      if (!(*dims)[i].is_const())
        return Diagnostic("E-rule-open", fmt::format("size {} has no number here", (*dims)[i].to_string()));
      numbers.push_back((*dims)[i].value());
    }
    if (!dims) return Diagnostic("E-rule-open", "a list of sizes is not known");
    return builder_.constant(Tensor::ints(numbers));
  }

  Expected<void> call(const Call& c) {
    std::vector<ir::Value> operands(c.inputs.size());
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      const Operand& o = c.inputs[i];
      if (o.kind == Operand::Kind::Input) operands[i] = inputs_[o.id];
      if (o.kind == Operand::Kind::Result) operands[i] = results_[o.id][o.index];
      if (o.kind == Operand::Kind::Sizes) {
        ISOMER_TRY(operands[i], sizes(o.sizes));
      }
    }
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      const Operand& o = c.inputs[i];
      double number = o.number;
      if (o.kind == Operand::Kind::Real) {
        const auto it = bindings_.attributes.find(rule_.attributes[o.id].name);
        const double* real = it == bindings_.attributes.end() ? nullptr : std::get_if<double>(&it->second);
        if (!real) return Diagnostic("E-rule-unbound", fmt::format("?{} has no value", rule_.attributes[o.id].name));
        number = *real;
      }
      if (o.kind == Operand::Kind::Number || o.kind == Operand::Kind::Real)
        operands[i] = builder_.constant(Tensor::scalar(number_type(c, i, operands), number));
    }
    ir::Attrs attrs;
    for (const auto& [name, term] : c.attrs) {
      ISOMER_TRY(ir::AttrValue v, attribute(c, name, term));
      attrs.set(name, std::move(v));
    }
    auto results = builder_.add(*c.op, std::move(operands), std::move(attrs), {}, c.outputs);
    if (!results.ok()) return std::move(results).error().at(c.where);
    results_.push_back(*std::move(results));
    return {};
  }

  const Rule& rule_;
  const Bindings& bindings_;
  DimValues values_;
  ir::GraphBuilder builder_;
  std::vector<ir::Value> inputs_;
  std::vector<std::vector<ir::Value>> results_;
};

std::vector<Fact> facts(const Rule& rule, const Bindings& b) {
  const DimValues v = dim_values(rule, b);
  std::vector<Fact> out;
  for (size_t i = 0; i < rule.symbols.size(); ++i)
    if (!v.symbols[i].is_const()) out.push_back({Relation::LessEqual, Dim(rule.symbols[i].at_least), v.symbols[i]});
  for (const auto& list : v.lists)
    for (const Dim& d : list)
      if (!d.is_const()) out.push_back({Relation::LessEqual, Dim(1), d});
  for (const Condition& c : rule.conditions) out.push_back({c.relation, c.left.evaluate(v), c.right.evaluate(v)});
  return out;
}

bool holds(Relation r, int64_t a, int64_t b) {
  switch (r) {
    case Relation::Equal: return a == b;
    case Relation::NotEqual: return a != b;
    case Relation::Less: return a < b;
    case Relation::LessEqual: return a <= b;
  }
  return false;
}

}  // namespace

std::string Bindings::to_string() const {
  std::string out;
  const auto add = [&](const std::string& text) { out += (out.empty() ? "" : ", ") + text; };
  for (const auto& [name, value] : sizes) add(fmt::format("{}={}", name, value));
  for (const auto& [name, value] : lengths) add(fmt::format("len({})={}", name, value));
  for (const auto& [name, value] : attributes) {
    if (const auto* i = std::get_if<int64_t>(&value)) add(fmt::format("?{}={}", name, *i));
    if (const auto* d = std::get_if<double>(&value)) add(fmt::format("?{}={}", name, *d));
    if (const auto* s = std::get_if<std::string>(&value)) add(fmt::format("?{}={}", name, *s));
    if (const auto* l = std::get_if<std::vector<int64_t>>(&value)) {
      std::string list;
      for (const int64_t x : *l) list += fmt::format("{}{}", list.empty() ? "" : ",", x);
      add(fmt::format("?{}=[{}]", name, list));
    }
  }
  return out.empty() ? "no symbols" : out;
}

std::vector<Bindings> cases(const Rule& rule) {
  std::vector<Bindings> all(1);
  // Multiplies the cases by the values that `set` puts in place.
  const auto each = [&](size_t count, const auto& set) {
    std::vector<Bindings> next;
    for (const Bindings& b : all)
      for (size_t i = 0; i < count; ++i) {
        next.push_back(b);
        set(next.back(), i);
      }
    all = std::move(next);
  };
  for (const ListSymbol& l : rule.lists)
    each(static_cast<size_t>(l.at_most - l.at_least + 1),
         [&](Bindings& b, size_t i) { b.lengths[l.name] = l.at_least + static_cast<int64_t>(i); });
  for (const Symbol& s : rule.symbols)
    if (!s.domain.empty()) each(s.domain.size(), [&](Bindings& b, size_t i) { b.sizes[s.name] = s.domain[i]; });
  size_t reals = 0;
  for (const AttrVariable& a : rule.attributes) {
    if (a.domain.empty())
      for (Bindings& b : all) b.attributes[a.name] = 0.53125 + 0.03125 * static_cast<double>(reals);
    else
      each(a.domain.size(), [&](Bindings& b, size_t i) { b.attributes[a.name] = a.domain[i]; });
    reals += a.domain.empty();
  }
  return all;
}

Expected<ir::Graph> instantiate_side(const Rule& rule, const Side& side, const Bindings& bindings,
                                     const ir::OpTable& table) {
  return SideBuilder(rule, bindings, table).build(side);
}

Expected<Instance> instantiate(const Rule& rule, const Bindings& bindings, const ir::OpTable& table) {
  ISOMER_TRY(ir::Graph lhs, instantiate_side(rule, rule.lhs, bindings, table));
  ISOMER_TRY(ir::Graph rhs, instantiate_side(rule, rule.rhs, bindings, table));
  return Instance{std::move(lhs), std::move(rhs), facts(rule, bindings)};
}

bool admits(const Rule& rule, const SizeValues& v) {
  for (size_t i = 0; i < rule.symbols.size(); ++i) {
    const Symbol& s = rule.symbols[i];
    if (v.symbols[i] < s.at_least) return false;
    if (!s.domain.empty() && !std::binary_search(s.domain.begin(), s.domain.end(), v.symbols[i])) return false;
  }
  return std::all_of(rule.conditions.begin(), rule.conditions.end(), [&](const Condition& c) {
    const auto a = c.left.evaluate(v), b = c.right.evaluate(v);
    return a && b && holds(c.relation, *a, *b);
  });
}

namespace {

// Solves equations with one open symbol until there is none; false when one has no solution.
bool propagate(const Rule& rule, SizeValues& v) {
  for (bool changed = true; changed;) {
    changed = false;
    for (const Condition& c : rule.conditions) {
      if (c.relation != Relation::Equal) continue;
      std::vector<uint32_t> open;
      c.left.symbols(open);
      c.right.symbols(open);
      std::erase_if(open, [&](uint32_t s) { return v.symbols[s] != SizeValues::kOpen; });
      if (open.size() != 1) continue;
      const Size difference = Size::binary(Size::Kind::Sub, c.left, c.right);
      if (!solvable(difference, open[0], rule.symbols.size(), rule.lists.size())) continue;
      const auto value = solve(difference, open[0], 0, v);
      if (!value || *value < rule.symbols[open[0]].at_least) return false;
      v.symbols[open[0]] = *value;
      changed = true;
    }
  }
  return true;
}

bool draw(const Rule& rule, SizeValues& v, Random& random, int64_t spread) {
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < rule.symbols.size(); ++i)
    if (v.symbols[i] == SizeValues::kOpen) order.push_back(i);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  for (const uint32_t s : order) {
    if (!propagate(rule, v)) return false;
    if (v.symbols[s] != SizeValues::kOpen) continue;
    v.symbols[s] = rule.symbols[s].at_least + static_cast<int64_t>(random.below(static_cast<uint64_t>(spread)));
  }
  return propagate(rule, v) && admits(rule, v);
}

}  // namespace

std::optional<Bindings> sample(const Rule& rule, const Bindings& chosen, Random& random, int64_t spread) {
  for (int attempt = 0; attempt < 400; ++attempt) {
    SizeValues v;
    for (const Symbol& s : rule.symbols) {
      const auto it = chosen.sizes.find(s.name);
      v.symbols.push_back(it == chosen.sizes.end() ? SizeValues::kOpen : it->second);
    }
    Bindings b = chosen;
    for (const ListSymbol& l : rule.lists) {
      const auto it = chosen.lengths.find(l.name);
      std::vector<int64_t> dims;
      for (size_t i = 0; it != chosen.lengths.end() && i < static_cast<size_t>(it->second); ++i) {
        dims.push_back(random.between(1, std::min<int64_t>(3, spread)));
        b.sizes.emplace(dim_name(l, i), dims.back());
      }
      v.lists.emplace_back(std::move(dims));
    }
    // Mostly small numbers, sometimes wider ones, so that large lower bounds of one symbol against another are met.
    if (!draw(rule, v, random, attempt % 4 == 3 ? 2 * spread : spread)) continue;
    for (size_t i = 0; i < rule.symbols.size(); ++i) b.sizes[rule.symbols[i].name] = v.symbols[i];
    return b;
  }
  return std::nullopt;
}

namespace {

Diagnostic ill_typed(const Rule& rule, std::string message, const Location& where) {
  Diagnostic d("E-rule-type", fmt::format("rule {}: {}", isomer::quoted(rule.name), message));
  d.at(where.line == 0 ? rule.where : where);
  return d;
}

// One case: the first sizes for which the pattern is well-typed must make the replacement so, with the same types.
// False when there are no such sizes; `why` says what stands in the way.
Expected<bool> check_case(const Rule& rule, const Bindings& c, const ir::OpTable& table, Random& random,
                          Diagnostic& why) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    const auto b = sample(rule, c, random, 3 + attempt / 20);
    if (!b) break;
    const auto lhs = instantiate_side(rule, rule.lhs, *b, table);
    if (!lhs.ok()) {
      why = lhs.error();
      continue;
    }
    const auto rhs = instantiate_side(rule, rule.rhs, *b, table);
    if (!rhs.ok())
      return ill_typed(rule, fmt::format("for {} the replacement is wrong: {}", b->to_string(), rhs.error().message),
                       rhs.error().where);
    for (size_t k = 0; k < lhs->outputs().size(); ++k) {
      const Type &l = lhs->type(lhs->outputs()[k].value), &r = rhs->type(rhs->outputs()[k].value);
      if (!(l == r))
        return ill_typed(rule,
                         fmt::format("for {} output {} is {} in the pattern and {} in the replacement", b->to_string(),
                                     k, l.to_string(), r.to_string()),
                         {});
    }
    return true;
  }
  return false;
}

}  // namespace

Expected<void> check_types(const Rule& rule, const ir::OpTable& table) {
  Random random(rule.name.size() + 17);
  Diagnostic why("E-rule-type", "no sizes meet the conditions");
  bool any = false;
  for (const Bindings& c : cases(rule)) {
    ISOMER_TRY(const bool found, check_case(rule, c, table, random, why));
    any |= found;
  }
  if (any) return {};
  return ill_typed(rule, "the pattern is well-typed for no sizes: " + why.message, why.where);
}

}  // namespace isomer::rewrite
