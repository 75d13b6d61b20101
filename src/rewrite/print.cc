#include <fmt/format.h>

#include "base/quote.h"
#include "ir/literal.h"
#include "rewrite/rule.h"

namespace isomer::rewrite {

std::string_view name(NumericClass c) { return c == NumericClass::Exact ? "exact" : "reassociating"; }

std::string_view name(Proof::Kind k) {
  switch (k) {
    case Proof::Kind::AllSizes: return "all-sizes";
    case Proof::Kind::Bounded: return "bounded";
    case Proof::Kind::Field: return "field";
  }
  return "";
}

std::string_view name(Content c) {
  switch (c) {
    case Content::Any: return "any";
    case Content::Constant: return "constant";
    case Content::Positive: return "positive";
    case Content::NonNegative: return "nonnegative";
    case Content::NonZero: return "nonzero";
  }
  return "";
}

std::string_view sign(Relation r) {
  switch (r) {
    case Relation::Equal: return "==";
    case Relation::NotEqual: return "!=";
    case Relation::Less: return "<";
    case Relation::LessEqual: return "<=";
  }
  return "";
}

Size::Names Rule::names() const {
  Size::Names n;
  for (const Symbol& s : symbols) n.symbols.push_back(s.name);
  for (const ListSymbol& l : lists) n.lists.push_back(l.name);
  return n;
}

std::optional<uint32_t> Rule::symbol(std::string_view wanted) const {
  for (uint32_t i = 0; i < symbols.size(); ++i)
    if (symbols[i].name == wanted) return i;
  return std::nullopt;
}

std::string to_string(const Condition& c, const Rule& rule) {
  const Size::Names n = rule.names();
  return fmt::format("{} {} {}", c.left.to_string(n), sign(c.relation), c.right.to_string(n));
}

std::string to_string(const Proof& p) {
  std::string out = fmt::format("proof {}", name(p.kind));
  if (p.kind == Proof::Kind::Bounded) out += fmt::format(" {}", p.bound);
  if (p.kind == Proof::Kind::Field) out += fmt::format(" {}", p.error);
  return out + fmt::format(" rule {} operators {} prover {}", p.rule, p.operators, p.prover);
}

namespace {

class Printer {
 public:
  explicit Printer(const Rule& rule) : rule_(rule), names_(rule.names()) {}

  std::string print(bool proofs) {
    out_ = fmt::format("rule {} : {}\n", rule_.name, name(rule_.numeric));
    for (const TypeVariable& t : rule_.types)
      if (!(t.types == kFloats)) out_ += fmt::format("  type {} in {}\n", t.name, type_set(t.types));
    for (uint32_t a = 0; a < rule_.attributes.size(); ++a)
      if (is_operand(a)) out_ += fmt::format("  real ?{}\n", rule_.attributes[a].name);
    for (const Input& i : rule_.inputs)
      out_ += fmt::format("  ?{} : {}[{}]\n", i.name, type(i.type), to_string(i.shape, names_));
    side(rule_.lhs);
    out_ += "  =>\n";
    side(rule_.rhs);
    conditions();
    if (proofs)
      for (const Proof& p : rule_.proofs) out_ += "  " + to_string(p) + "\n";
    return out_;
  }

 private:
  // Whether the pattern has the number as an operand, so that it needs a declaration.
  bool is_operand(uint32_t attribute) const {
    for (const Call& c : rule_.lhs.calls)
      for (const Operand& o : c.inputs)
        if (o.kind == Operand::Kind::Real && o.id == attribute) return true;
    return false;
  }

  static std::string type_set(DTypeSet set) {
    for (const auto& [word, types] : {std::pair{"int", kInts}, {"number", kNumbers}, {"any", kAllTypes}})
      if (set == types) return word;
    std::string s;
    for (const DType t : kAllDTypes)
      if (set.contains(t)) s += (s.empty() ? "{" : ", ") + std::string(isomer::name(t));
    return s + "}";
  }

  std::string type(const ElementType& t) const {
    return t.fixed ? std::string(isomer::name(*t.fixed)) : rule_.types[t.variable].name;
  }

  static std::string real(double v, bool marked) {
    std::string s;
    ir::append_real(s, v, marked);
    return s;
  }

  static std::string value(const ir::AttrValue& v) {
    if (const auto* d = std::get_if<double>(&v)) return real(*d, true);
    if (const auto* i = std::get_if<int64_t>(&v)) return fmt::format("{}", *i);
    if (const auto* s = std::get_if<std::string>(&v)) return quote(*s);
    if (const auto* t = std::get_if<DType>(&v)) return std::string(isomer::name(*t));
    std::string out = "[";
    if (const auto* l = std::get_if<std::vector<int64_t>>(&v))
      for (const int64_t x : *l) out += fmt::format("{}{}", out.size() > 1 ? ", " : "", x);
    return out + "]";
  }

  std::string attribute(const AttrTerm& t) const {
    if (const auto* v = std::get_if<ir::AttrValue>(&t)) return value(*v);
    if (const auto* s = std::get_if<Size>(&t)) return s->to_string(names_);
    if (const auto* l = std::get_if<SizeList>(&t)) return "[" + to_string(*l, names_) + "]";
    if (const auto* r = std::get_if<AttrRef>(&t)) return "?" + rule_.attributes[r->variable].name;
    if (const auto* c = std::get_if<Composed>(&t))
      return fmt::format("compose(?{}, ?{})", rule_.attributes[c->first].name, rule_.attributes[c->second].name);
    if (const auto* e = std::get_if<ElementType>(&t)) return type(*e);
    const auto& n = std::get<TypedNumber>(t);
    return type(n.type) + " " + real(n.value, false);
  }

  std::string operand(const Side& side, const Operand& o) const {
    switch (o.kind) {
      case Operand::Kind::Absent: return "_";
      case Operand::Kind::Input: return "?" + rule_.inputs[o.id].name;
      case Operand::Kind::Real: return "?" + rule_.attributes[o.id].name;
      case Operand::Kind::Number: return real(o.number, false);
      case Operand::Kind::Sizes: return "[" + to_string(o.sizes, names_) + "]";
      case Operand::Kind::Result: break;
    }
    const Call& c = side.calls[o.id];
    return c.names.empty() ? call(side, c) : "%" + c.names[o.index];
  }

  std::string call(const Side& side, const Call& c) const {
    std::string s = c.op->name + "(";
    for (size_t i = 0; i < c.inputs.size(); ++i) s += (i ? ", " : "") + operand(side, c.inputs[i]);
    s += ")";
    for (size_t i = 0; i < c.attrs.size(); ++i)
      s += fmt::format("{}{}={}", i ? ", " : "{", c.attrs[i].first, attribute(c.attrs[i].second));
    return c.attrs.empty() ? s : s + "}";
  }

  void side(const Side& side) {
    for (const Call& c : side.calls) {
      if (c.names.empty()) continue;
      out_ += "  ";
      for (size_t i = 0; i < c.names.size(); ++i)
        out_ += (i ? ", " : "") + (c.names[i].empty() ? std::string("_") : "%" + c.names[i]);
      out_ += " = " + call(side, c) + "\n";
    }
    const Operand& first = side.outputs[0];
    const bool lone =
        side.outputs.size() == 1 || (first.kind == Operand::Kind::Result && side.calls[first.id].names.empty() &&
                                     side.outputs[1].kind == Operand::Kind::Result && side.outputs[1].id == first.id);
    if (lone) {
      out_ += "  " + operand(side, first) + "\n";
      return;
    }
    out_ += "  [";
    for (size_t i = 0; i < side.outputs.size(); ++i) out_ += (i ? ", " : "") + operand(side, side.outputs[i]);
    out_ += "]\n";
  }

  void conditions() {
    std::vector<std::string> all;
    for (const Symbol& s : rule_.symbols) {
      std::string values;
      for (const int64_t v : s.domain) values += fmt::format("{}{}", values.empty() ? "" : ", ", v);
      if (!s.domain.empty())
        all.push_back(fmt::format("{} in {{{}}}", s.name, values));
      else if (s.at_least != 1)
        all.push_back(fmt::format("{} >= {}", s.name, s.at_least));
    }
    for (const ListSymbol& l : rule_.lists) {
      if (l.at_least != ListSymbol().at_least) all.push_back(fmt::format("len({}) >= {}", l.name, l.at_least));
      if (l.at_most != ListSymbol().at_most) all.push_back(fmt::format("len({}) <= {}", l.name, l.at_most));
    }
    for (const AttrVariable& a : rule_.attributes) {
      std::string values;
      for (const ir::AttrValue& v : a.domain) values += (values.empty() ? "" : ", ") + value(v);
      if (!a.domain.empty()) all.push_back(fmt::format("?{} in {{{}}}", a.name, values));
    }
    for (const Input& i : rule_.inputs)
      if (i.content != Content::Any) all.push_back(fmt::format("{}(?{})", name(i.content), i.name));
    for (const Condition& c : rule_.conditions) all.push_back(to_string(c, rule_));
    for (size_t i = 0; i < all.size(); ++i)
      out_ += fmt::format("{}{}{}", i ? "        " : "  where ", all[i], i + 1 < all.size() ? ",\n" : "\n");
  }

  const Rule& rule_;
  Size::Names names_;
  std::string out_;
};

}  // namespace

std::string print(const Rule& rule, bool proofs) { return Printer(rule).print(proofs); }

}  // namespace isomer::rewrite
