#include "tensor/dim.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "base/arithmetic.h"
#include "base/quote.h"

namespace isomer {

// An atom is a symbol, or a quotient, maximum or minimum of two Dims. Its key is its text: equal keys, equal atoms.
struct Dim::Atom {
  enum class Kind { Symbol, FloorDiv, Max, Min } kind;
  std::string name;
  Dim a, b;
  std::string key;
};

struct Dim::Term {
  std::vector<AtomRef> atoms;  // sorted by key
  int64_t coefficient;
};

// Terms in order of their atoms' keys; the constant term has no atoms and comes last; no zero coefficients.
struct Dim::Poly {
  std::vector<Term> terms;
  std::string text;
};

namespace {

bool is_identifier(std::string_view s) {
  if (s.empty() || !(std::isalpha(static_cast<unsigned char>(s[0])) || s[0] == '_')) return false;
  return std::all_of(s.begin(), s.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; }) &&
         s != "floordiv" && s != "max" && s != "min" && s != "invalid";
}

}  // namespace

Dim Dim::invalid() {
  Dim d;
  d.invalid_ = true;
  return d;
}

Dim Dim::of_atom(Atom atom) {
  switch (atom.kind) {
    case Atom::Kind::Symbol: atom.key = is_identifier(atom.name) ? atom.name : quote(atom.name); break;
    case Atom::Kind::FloorDiv: atom.key = fmt::format("floordiv({},{})", atom.a.to_string(), atom.b.to_string()); break;
    case Atom::Kind::Max: atom.key = fmt::format("max({},{})", atom.a.to_string(), atom.b.to_string()); break;
    case Atom::Kind::Min: atom.key = fmt::format("min({},{})", atom.a.to_string(), atom.b.to_string()); break;
  }
  // A runaway expression (a long chain of symbolic quotients) stops being tracked instead of growing without bound.
  if (atom.key.size() > 4096 && atom.kind != Atom::Kind::Symbol) return invalid();
  Poly p;
  p.terms.push_back({{std::make_shared<const Atom>(std::move(atom))}, 1});
  return from(std::move(p));
}

Dim Dim::symbol(std::string_view name) { return of_atom({Atom::Kind::Symbol, std::string(name), {}, {}, {}}); }

Dim Dim::from(Poly p) {
  const auto order = [](const Term& x, const Term& y) {
    if (x.atoms.empty() != y.atoms.empty()) return y.atoms.empty();
    return std::lexicographical_compare(x.atoms.begin(), x.atoms.end(), y.atoms.begin(), y.atoms.end(),
                                        [](const AtomRef& a, const AtomRef& b) { return a->key < b->key; });
  };
  std::stable_sort(p.terms.begin(), p.terms.end(), order);
  std::vector<Term> merged;
  for (Term& t : p.terms) {
    if (!merged.empty() && !order(merged.back(), t) && !order(t, merged.back())) {
      const auto sum = checked_add(merged.back().coefficient, t.coefficient);
      if (!sum) return invalid();
      merged.back().coefficient = *sum;
    } else {
      if (!merged.empty() && merged.back().coefficient == 0) merged.pop_back();
      merged.push_back(std::move(t));
    }
  }
  if (!merged.empty() && merged.back().coefficient == 0) merged.pop_back();
  if (merged.empty()) return Dim(0);
  if (merged.size() == 1 && merged[0].atoms.empty()) return Dim(merged[0].coefficient);
  if (merged.size() > 256) return invalid();
  p.terms = std::move(merged);
  for (const Term& t : p.terms) {
    std::string product;
    for (const AtomRef& a : t.atoms) product += (product.empty() ? "" : "*") + a->key;
    const bool negative = t.coefficient < 0;
    if (negative || !p.text.empty()) p.text += negative ? "-" : "+";
    const uint64_t magnitude =
        negative ? 0 - static_cast<uint64_t>(t.coefficient) : static_cast<uint64_t>(t.coefficient);
    if (product.empty())
      p.text += fmt::format("{}", magnitude);
    else
      p.text += magnitude == 1 ? product : fmt::format("{}*{}", product, magnitude);
  }
  Dim d;
  d.poly_ = std::make_shared<const Poly>(std::move(p));
  return d;
}

Dim::Poly Dim::poly() const {
  if (poly_) return {poly_->terms, {}};
  Poly p;
  if (value_ != 0) p.terms.push_back({{}, value_});
  return p;
}

std::optional<std::string> Dim::as_symbol() const {
  if (!poly_ || poly_->terms.size() != 1) return std::nullopt;
  const Term& t = poly_->terms[0];
  if (t.coefficient != 1 || t.atoms.size() != 1 || t.atoms[0]->kind != Atom::Kind::Symbol) return std::nullopt;
  return t.atoms[0]->name;
}

Dim operator+(const Dim& a, const Dim& b) {
  if (a.invalid_ || b.invalid_) return Dim::invalid();
  if (a.is_const() && b.is_const()) {
    const auto s = checked_add(a.value_, b.value_);
    return s ? Dim(*s) : Dim::invalid();
  }
  Dim::Poly p = a.poly();
  for (Dim::Term& t : b.poly().terms) p.terms.push_back(std::move(t));
  return Dim::from(std::move(p));
}

Dim operator*(const Dim& a, const Dim& b) {
  if (a.invalid_ || b.invalid_) return Dim::invalid();
  if (a.is_const() && b.is_const()) {
    const auto s = checked_mul(a.value_, b.value_);
    return s ? Dim(*s) : Dim::invalid();
  }
  Dim::Poly p;
  const Dim::Poly pa = a.poly(), pb = b.poly();
  if (pa.terms.size() * pb.terms.size() > 256) return Dim::invalid();
  for (const Dim::Term& x : pa.terms)
    for (const Dim::Term& y : pb.terms) {
      const auto c = checked_mul(x.coefficient, y.coefficient);
      if (!c || x.atoms.size() + y.atoms.size() > 16) return Dim::invalid();
      Dim::Term t{x.atoms, *c};
      t.atoms.insert(t.atoms.end(), y.atoms.begin(), y.atoms.end());
      std::stable_sort(t.atoms.begin(), t.atoms.end(),
                       [](const Dim::AtomRef& u, const Dim::AtomRef& v) { return u->key < v->key; });
      p.terms.push_back(std::move(t));
    }
  return Dim::from(std::move(p));
}

Dim operator-(const Dim& a, const Dim& b) { return a + b * Dim(-1); }

Dim floor_div(const Dim& a, const Dim& b) {
  if (a.invalid_ || b.invalid_ || b == Dim(0)) return Dim::invalid();
  if (a.is_const() && b.is_const()) return Dim(floor_div(a.value_, b.value_));
  if (b == Dim(1)) return a;
  if (a == Dim(0)) return a;
  // The quotient of the smallest number by -1 does not fit; products see that overflow.
  if (b == Dim(-1)) return a * b;
  // Terms that b divides leave the quotient: (N*6 + 5) / 2 = N*3 + 2 + ... only when the rest is a number or stays inside.
  if (b.is_const()) {
    Dim::Poly whole, rest;
    for (const Dim::Term& t : a.poly().terms) {
      if (!t.atoms.empty() && t.coefficient % b.value_ == 0)
        whole.terms.push_back({t.atoms, t.coefficient / b.value_});
      else
        rest.terms.push_back(t);
    }
    if (!whole.terms.empty()) {
      const Dim inner = Dim::from(std::move(rest));
      return Dim::from(std::move(whole)) + floor_div(inner, b);
    }
  } else {
    // a = q * b exactly, for the products that reshapes make: remove b's atoms from every term.
    const Dim::Poly pb = b.poly();
    if (pb.terms.size() == 1) {
      Dim::Poly q;
      for (const Dim::Term& t : a.poly().terms) {
        Dim::Term left = t;
        const int64_t c = pb.terms[0].coefficient;
        bool divides = c != -1 && t.coefficient % c == 0;
        for (const Dim::AtomRef& atom : pb.terms[0].atoms) {
          const auto it =
              std::find_if(left.atoms.begin(), left.atoms.end(), [&](const auto& x) { return x->key == atom->key; });
          if (it == left.atoms.end()) {
            divides = false;
            break;
          }
          left.atoms.erase(it);
        }
        if (!divides) break;
        left.coefficient /= pb.terms[0].coefficient;
        q.terms.push_back(std::move(left));
      }
      if (q.terms.size() == a.poly().terms.size()) return Dim::from(std::move(q));
    }
    if (a == b) return Dim(1);
  }
  return Dim::of_atom({Dim::Atom::Kind::FloorDiv, {}, a, b, {}});
}

Dim ceil_div(const Dim& a, const Dim& b) { return floor_div(a + b - Dim(1), b); }
Dim floor_mod(const Dim& a, const Dim& b) { return a - b * floor_div(a, b); }

Dim max(const Dim& a, const Dim& b) {
  if (a.invalid_ || b.invalid_) return Dim::invalid();
  const Dim difference = a - b;
  if (difference.is_const()) return difference.value_ >= 0 ? a : b;
  if (difference.at_least().value_or(-1) >= 0) return a;
  if ((b - a).at_least().value_or(-1) >= 0) return b;
  return a.to_string() <= b.to_string() ? Dim::of_atom({Dim::Atom::Kind::Max, {}, a, b, {}})
                                        : Dim::of_atom({Dim::Atom::Kind::Max, {}, b, a, {}});
}

Dim min(const Dim& a, const Dim& b) {
  if (a.invalid_ || b.invalid_) return Dim::invalid();
  const Dim difference = a - b;
  if (difference.is_const()) return difference.value_ >= 0 ? b : a;
  if (difference.at_least().value_or(-1) >= 0) return b;
  if ((b - a).at_least().value_or(-1) >= 0) return a;
  return a.to_string() <= b.to_string() ? Dim::of_atom({Dim::Atom::Kind::Min, {}, a, b, {}})
                                        : Dim::of_atom({Dim::Atom::Kind::Min, {}, b, a, {}});
}

bool operator==(const Dim& a, const Dim& b) {
  if (a.invalid_ || b.invalid_) return a.invalid_ == b.invalid_;
  if (!a.poly_ || !b.poly_) return !a.poly_ && !b.poly_ && a.value_ == b.value_;
  return a.poly_ == b.poly_ || a.poly_->text == b.poly_->text;
}

std::optional<int64_t> Dim::at_least() const {
  if (invalid_) return std::nullopt;
  if (!poly_) return value_;
  int64_t bound = 0;
  for (const Term& t : poly_->terms) {
    if (t.atoms.empty()) {
      const auto sum = checked_add(bound, t.coefficient);
      if (!sum) return std::nullopt;
      bound = *sum;
      continue;
    }
    if (t.coefficient < 0) return std::nullopt;
    int64_t product = t.coefficient;
    for (const AtomRef& atom : t.atoms) {
      const auto a = atom->kind == Atom::Kind::Symbol ? 0 : atom->a.at_least();
      const auto b = atom->kind == Atom::Kind::Symbol ? 0 : atom->b.at_least();
      int64_t least = 0;
      if (atom->kind == Atom::Kind::FloorDiv && !(a && b && *a >= 0 && *b >= 0)) return std::nullopt;
      if (atom->kind == Atom::Kind::Min && !(a && b)) return std::nullopt;
      if (atom->kind == Atom::Kind::Min) least = std::min(*a, *b);
      if (atom->kind == Atom::Kind::Max && !a && !b) return std::nullopt;
      if (atom->kind == Atom::Kind::Max) least = std::max(a.value_or(INT64_MIN), b.value_or(INT64_MIN));
      if (least < 0) return std::nullopt;
      const auto p = checked_mul(product, least);
      if (!p) return std::nullopt;
      product = *p;
    }
    const auto sum = checked_add(bound, product);
    if (!sum) return std::nullopt;
    bound = *sum;
  }
  return bound;
}

Dim Dim::substitute(const std::function<std::optional<Dim>(const std::string&)>& value_of) const {
  if (!poly_) return *this;
  Dim sum(0);
  for (const Term& t : poly_->terms) {
    Dim product(t.coefficient);
    for (const AtomRef& atom : t.atoms) {
      Dim factor;
      switch (atom->kind) {
        case Atom::Kind::Symbol: factor = value_of(atom->name).value_or(symbol(atom->name)); break;
        case Atom::Kind::FloorDiv:
          factor = floor_div(atom->a.substitute(value_of), atom->b.substitute(value_of));
          break;
        case Atom::Kind::Max: factor = max(atom->a.substitute(value_of), atom->b.substitute(value_of)); break;
        case Atom::Kind::Min: factor = min(atom->a.substitute(value_of), atom->b.substitute(value_of)); break;
      }
      product = product * factor;
    }
    sum = sum + product;
  }
  return sum;
}

void Dim::symbols(std::vector<std::string>& out) const {
  if (!poly_) return;
  for (const Term& t : poly_->terms)
    for (const AtomRef& atom : t.atoms) {
      if (atom->kind == Atom::Kind::Symbol) {
        if (std::find(out.begin(), out.end(), atom->name) == out.end()) out.push_back(atom->name);
      } else {
        atom->a.symbols(out);
        atom->b.symbols(out);
      }
    }
}

std::vector<Dim::Product> Dim::terms() const {
  std::vector<Product> out;
  if (is_const() && value_ != 0) out.push_back({value_, {}});
  if (!poly_) return out;
  for (const Term& t : poly_->terms) {
    Product p{t.coefficient, {}};
    for (const AtomRef& atom : t.atoms) {
      Factor f{Factor::Kind::Symbol, atom->name, atom->a, atom->b};
      switch (atom->kind) {
        case Atom::Kind::Symbol: break;
        case Atom::Kind::FloorDiv: f.kind = Factor::Kind::FloorDiv; break;
        case Atom::Kind::Max: f.kind = Factor::Kind::Max; break;
        case Atom::Kind::Min: f.kind = Factor::Kind::Min; break;
      }
      p.factors.push_back(std::move(f));
    }
    out.push_back(std::move(p));
  }
  return out;
}

std::string Dim::to_string() const {
  if (invalid_) return "invalid";
  return poly_ ? poly_->text : std::to_string(value_);
}

// Recursive descent over: sum = [-] product {(+|-) product}; product = factor {* factor};
// factor = number | name | "quoted" | floordiv(sum,sum) | max(sum,sum) | min(sum,sum) | (sum).
struct DimParser {
  std::string_view text;
  size_t at = 0;
  int depth = 0;

  Diagnostic fail(std::string_view expected) const {
    return Diagnostic("E-dim-syntax",
                      fmt::format("expected {} at character {} of dimension {}", expected, at + 1, quoted(text)));
  }
  bool eat(char c) {
    while (at < text.size() && text[at] == ' ') ++at;
    if (at >= text.size() || text[at] != c) return false;
    ++at;
    return true;
  }

  Expected<Dim> sum() {
    if (++depth > 64) return fail("fewer nested parentheses");
    Dim total;
    bool negative = eat('-');
    while (true) {
      ISOMER_TRY(Dim p, product());
      total = negative ? total - p : total + p;
      if (eat('+'))
        negative = false;
      else if (eat('-'))
        negative = true;
      else
        break;
    }
    --depth;
    return total;
  }
  Expected<Dim> product() {
    ISOMER_TRY(Dim total, factor());
    while (eat('*')) {
      ISOMER_TRY(Dim f, factor());
      total = total * f;
    }
    return total;
  }
  Expected<Dim> factor() {
    if (eat('(')) {
      ISOMER_TRY(Dim inner, sum());
      if (!eat(')')) return fail("')'");
      return inner;
    }
    if (eat('"')) return quoted_name();
    if (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at]))) {
      int64_t v = 0;
      const auto r = std::from_chars(text.data() + at, text.data() + text.size(), v);
      if (r.ec != std::errc()) return fail("a number that fits in 64 bits");
      at = static_cast<size_t>(r.ptr - text.data());
      return Dim(v);
    }
    const size_t start = at;
    while (at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) || text[at] == '_')) ++at;
    const std::string_view word = text.substr(start, at - start);
    if (word.empty()) return fail("a number or a name");
    if (word == "invalid") return Dim::invalid();
    if (word != "floordiv" && word != "max" && word != "min") return Dim::symbol(word);
    if (!eat('(')) return fail("'('");
    ISOMER_TRY(Dim a, sum());
    if (!eat(',')) return fail("','");
    ISOMER_TRY(Dim b, sum());
    if (!eat(')')) return fail("')'");
    return word == "floordiv" ? floor_div(a, b) : word == "max" ? max(a, b) : min(a, b);
  }
  Expected<Dim> quoted_name() {
    std::string symbol_name;
    while (at < text.size() && text[at] != '"') {
      char c = text[at++];
      if (c == '\\') {
        if (at >= text.size()) return fail("a character after '\\'");
        c = text[at++];
        if (c == 'x') {
          unsigned value = 0;
          const auto r = std::from_chars(text.data() + at, text.data() + std::min(at + 2, text.size()), value, 16);
          if (r.ec != std::errc() || r.ptr != text.data() + at + 2) return fail("two hexadecimal digits");
          at += 2;
          c = static_cast<char>(value);
        }
      }
      symbol_name += c;
    }
    if (!eat('"')) return fail("a closing '\"'");
    return Dim::symbol(symbol_name);
  }
};

Expected<Dim> Dim::parse(std::string_view text) {
  DimParser p{text};
  ISOMER_TRY(Dim d, p.sum());
  while (p.at < text.size() && text[p.at] == ' ') ++p.at;
  if (p.at != text.size()) return p.fail("the end");
  return d;
}

}  // namespace isomer
