#include "rewrite/instantiate.h"

#include <fmt/format.h>

#include <algorithm>

#include "rewrite/side_builder.h"

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

// What SideBuilder puts into a GraphBuilder.
struct BuilderSink {
  ir::GraphBuilder& builder;

  DType dtype(ir::Value v) const { return builder.type(v).dtype; }
  ir::Value constant(Tensor t) { return builder.constant(std::move(t)); }
  Expected<ir::Value> sizes(std::vector<Dim> dims) { return builder.sizes(std::move(dims)); }
  Expected<std::vector<ir::Value>> add(const ir::OpDef& op, std::vector<ir::Value> inputs, ir::Attrs attrs,
                                       size_t outputs) {
    return builder.add(op, std::move(inputs), std::move(attrs), {}, outputs);
  }
};

Terms make_terms(const Rule& rule, const Bindings& b) {
  Terms terms;
  terms.sizes = dim_values(rule, b);
  for (const TypeVariable& t : rule.types) {
    DType chosen = DType::F32;
    for (const DType d : kAllDTypes)
      if (!t.types.contains(chosen) && t.types.contains(d)) chosen = d;
    const auto it = b.types.find(t.name);
    terms.types.push_back(it == b.types.end() ? chosen : it->second);
  }
  for (const AttrVariable& a : rule.attributes) {
    const auto it = b.attributes.find(a.name);
    terms.attributes.push_back(it == b.attributes.end() ? std::nullopt : std::optional(it->second));
  }
  return terms;
}

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
  // Numbers that a prover takes for values of their own, since they are no simple fractions; of both signs, so that no
  // proof can rest on the sign of one.
  size_t reals = 0;
  for (const AttrVariable& a : rule.attributes) {
    if (!a.domain.empty()) {
      each(a.domain.size(), [&](Bindings& b, size_t i) { b.attributes[a.name] = a.domain[i]; });
      continue;
    }
    const auto step = static_cast<float>(reals++);
    each(2, [&](Bindings& b, size_t i) {
      const float value = i == 0 ? 0.5371f + 0.0113f * step : -1.4093f - 0.0171f * step;
      b.attributes[a.name] = static_cast<double>(value);  // the same number as an attribute and as an f32 operand
    });
  }
  return all;
}

Expected<ir::Graph> instantiate_side(const Rule& rule, const Side& side, const Bindings& bindings,
                                     const ir::OpTable& table) {
  ir::GraphBuilder builder(table, rule.name);
  const Terms terms = make_terms(rule, bindings);
  std::vector<ir::Value> inputs;
  for (const Input& i : rule.inputs) {
    auto dims = evaluate(i.shape, terms.sizes);
    ISOMER_TRY(const ir::Value v, builder.input(i.name, Type{terms.dtype(i.type), Shape(*std::move(dims)), nullptr}));
    inputs.push_back(v);
  }
  BuilderSink sink{builder};
  ISOMER_TRY(const std::vector<ir::Value> outputs, SideBuilder<BuilderSink>(rule, terms, sink, inputs).build(side));
  for (size_t k = 0; k < outputs.size(); ++k) builder.output(fmt::format("y{}", k), outputs[k]);
  return std::move(builder).finish();
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
    if (!a || !b) return false;
    if ((is_open_size(*a) || is_open_size(*b)) && c.relation != Relation::Equal) return false;
    return holds(c.relation, *a, *b);
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
