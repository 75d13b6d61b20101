#include <algorithm>
#include <cctype>
#include <map>

#include <fmt/format.h>

#include "ir/op.h"
#include "ops/elementwise.h"

namespace isomer::ops {
namespace {

// An axis of the equation: a letter, or one of the axes that an ellipsis stands for (from kEllipsis on, first to last).
using Label = int;
constexpr Label kEllipsis = 1000;

struct Equation {
  std::vector<std::vector<Label>> operands;
  std::vector<Label> output;
  std::map<Label, Dim> extents;
};

struct Term {
  std::string letters;
  std::optional<size_t> ellipsis;  // before which letter
};

Expected<Term> parse_term(const ir::OpContext& c, std::string_view text) {
  Term t;
  for (size_t i = 0; i < text.size(); ++i) {
    if (std::isalpha(static_cast<unsigned char>(text[i]))) {
      t.letters += text[i];
    } else if (text.substr(i, 3) == "..." && !t.ellipsis) {
      t.ellipsis = t.letters.size();
      i += 2;
    } else {
      return c.error(
          fmt::format("the term {} of the equation has something else than letters and one ellipsis", quoted(text)));
    }
  }
  return t;
}

// The labels of a term, whose ellipsis stands for `own` axes, the last of `all`.
std::vector<Label> labels(const Term& t, size_t own, size_t all) {
  std::vector<Label> out(t.letters.begin(), t.letters.end());
  std::vector<Label> dots;
  for (size_t i = all - own; i < all; ++i) dots.push_back(kEllipsis + static_cast<Label>(i));
  if (t.ellipsis) out.insert(out.begin() + static_cast<ptrdiff_t>(*t.ellipsis), dots.begin(), dots.end());
  return out;
}

// Without "->" the result has the ellipsis, then the letters that occur once, in alphabetical order.
Term implicit_output(const std::vector<Term>& terms) {
  std::map<char, int> count;
  Term t;
  for (const Term& term : terms) {
    for (char letter : term.letters) ++count[letter];
    if (term.ellipsis) t.ellipsis = 0;
  }
  for (const auto& [letter, n] : count)
    if (n == 1) t.letters += letter;
  return t;
}

Expected<void> bind_extents(const ir::OpContext& c, Equation& e) {
  for (size_t k = 0; k < e.operands.size(); ++k) {
    for (size_t i = 0; i < e.operands[k].size(); ++i) {
      const Dim& d = c.dim(k, i);
      const auto [it, fresh] = e.extents.emplace(e.operands[k][i], d);
      if (fresh || it->second == d || d == Dim(1)) continue;
      if (it->second == Dim(1) || (d.is_const() && !it->second.is_const())) {
        it->second = d;
      } else if (d.is_const()) {
        return c.error(fmt::format("axis {} of operand {} has extent {}, but the same label has extent {} before", i, k,
                                   d.value(), it->second.to_string()));
      }
    }
  }
  return {};
}

Expected<void> check_output(const ir::OpContext& c, const Term& output, const std::vector<Term>& terms) {
  for (size_t i = 0; i < output.letters.size(); ++i) {
    const char letter = output.letters[i];
    const bool known = std::any_of(terms.begin(), terms.end(),
                                   [&](const Term& t) { return t.letters.find(letter) != std::string::npos; });
    if (!known) return c.error(fmt::format("the result's letter '{}' occurs in no operand", letter));
    if (output.letters.find(letter, i + 1) != std::string::npos)
      return c.error(fmt::format("the result's letter '{}' occurs twice in it", letter));
  }
  return {};
}

Expected<Equation> parse_equation(const ir::OpContext& c) {
  std::string text;
  for (char ch : c.text("equation"))
    if (ch != ' ') text += ch;
  const size_t arrow = text.find("->");
  const std::string left = text.substr(0, arrow);
  std::vector<Term> terms;
  for (size_t from = 0; from <= left.size();) {
    const size_t to = std::min(left.find(',', from), left.size());
    ISOMER_TRY(Term t, parse_term(c, std::string_view(left).substr(from, to - from)));
    terms.push_back(std::move(t));
    from = to + 1;
  }
  if (terms.size() != c.input_count())
    return c.error(fmt::format("the equation has {} operands, {} are given", terms.size(), c.input_count()));
  size_t dots = 0;
  for (size_t k = 0; k < terms.size(); ++k) {
    if (!c.has(k)) return c.error(fmt::format("operand {} is missing", k));
    const size_t letters = terms[k].letters.size(), rank = c.rank(k);
    if (letters > rank || (letters < rank && !terms[k].ellipsis))
      return c.error(fmt::format("operand {} has rank {}, its term has {} letters", k, rank, letters));
    dots = std::max(dots, rank - letters);
  }
  Equation e;
  for (size_t k = 0; k < terms.size(); ++k)
    e.operands.push_back(labels(terms[k], c.rank(k) - terms[k].letters.size(), dots));
  Term output;
  if (arrow == std::string::npos) {
    output = implicit_output(terms);
  } else {
    ISOMER_TRY(output, parse_term(c, std::string_view(text).substr(arrow + 2)));
  }
  ISOMER_CHECK_OK(check_output(c, output, terms));
  e.output = labels(output, dots, dots);
  ISOMER_CHECK_OK(bind_extents(c, e));
  return e;
}

}  // namespace

ir::OpDef op_einsum() {
  ir::OpDef op;
  op.name = "einsum";
  op.doc = "The sum of products that an equation of index letters says, \"bij,bjk->bik\".";
  const DTypeSet types = kNumbers;
  op.inputs = {{"inputs", "T", types, ir::Arity::Variadic, 1}};
  op.outputs = {{"output", "T"}};
  op.attrs = {{.name = "equation", .kind = ir::AttrKind::String, .required = true}};
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    ISOMER_TRY(const Equation e, parse_equation(c));
    te::Builder b;
    const auto in = c.declare(b);
    std::map<Label, te::Expr> index;
    std::vector<te::Axis> axes, summed;
    for (Label l : e.output) {
      axes.push_back(b.axis(fmt::format("i{}", axes.size()), e.extents.at(l)));
      index.emplace(l, te::Expr(axes.back()));
    }
    for (const auto& [label, extent] : e.extents) {
      if (index.count(label)) continue;
      summed.push_back(b.axis(fmt::format("k{}", summed.size()), extent));
      index.emplace(label, te::Expr(summed.back()));
    }
    const DType work = accumulator(c.dtype(0));
    te::Expr product;
    for (size_t k = 0; k < in.size(); ++k) {
      std::vector<te::Expr> at;
      for (size_t i = 0; i < in[k].rank(); ++i)
        at.push_back(in[k].dim(i) == Dim(1) ? te::Expr(0) : index.at(e.operands[k][i]));
      const te::Expr factor = cast(work, in[k].at(std::move(at)));
      product = k == 0 ? factor : product * factor;
    }
    const te::Expr body = summed.empty() ? product : te::sum(summed, product);
    return b.finish({b.stage("output", c.dtype(0), axes, cast(c.dtype(0), body))});
  };
  op.samples = {"einsum(f32[2,3], f32[3,4]){equation=\"ij,jk->ik\"}",
                "einsum(f32[2,3,4], f32[2,4,5]){equation=\"...ij,...jk\"}", "einsum(f32[3,3]){equation=\"ii->i\"}",
                "einsum(f32[3,4]){equation=\"ij->\"}", "einsum(f32[2,3], f32[3], f32[2]){equation=\"ab,b,a->b\"}"};
  op.onnx = {{.type = "Einsum", .since = {12}, .stable = 12}};
  return op;
}

}  // namespace isomer::ops
