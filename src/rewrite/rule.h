// Rule: a graph rewrite as data. For all values of its symbols that meet its conditions and all contents of its inputs,
// the graph `lhs` and the graph `rhs` have the same outputs. docs/rules.md has the text; parse and print are inverses.
//
//   rule merge-matmul : exact
//     ?x : T[M, K]   ?a : T[K, A]   ?b : T[K, B]
//     [matmul(?x, ?a), matmul(?x, ?b)]
//     => split(matmul(?x, concat(?a, ?b){axis=1}), [A, B]){axis=1}
//
// Invariant of a parsed Rule: operators and attributes exist, every symbol is bound by the pattern (`binding` says in
// which order), the replacement uses nothing else, and both sides are well-typed wherever the conditions hold (as far
// as random instances show). instantiate.h makes two graphs of it; proof.h says when its proof lines count.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/expected.h"
#include "ir/op.h"
#include "rewrite/size.h"

namespace isomer::rewrite {

// Exact: every output element is computed by the same arithmetic on the same numbers (or copied); reassociating: equal
// as real numbers, but sums are ordered or factored in another way.
enum class NumericClass : uint8_t { Exact, Reassociating };

// A size: an integer of at least `at_least` (1 where no condition says otherwise), or one of `domain` where that is
// not empty. Symbols with a domain are tried value by value, so they may stand where no expression can (an axis).
struct Symbol {
  std::string name;
  int64_t at_least = 1;
  std::vector<int64_t> domain = {};
  Location where = {};
};

// S... stands for any number of dims within its bounds, each of at least 1.
inline constexpr int64_t kMaxListLength = 4;
struct ListSymbol {
  std::string name;
  int64_t at_least = 0, at_most = 3;
  Location where = {};
};

// An element type left open. A ring identity proved for one holds for all of the set.
struct TypeVariable {
  std::string name;
  DTypeSet types = kFloats;
};
struct ElementType {
  std::optional<DType> fixed;
  uint32_t variable = 0;  // in Rule::types when not fixed
  bool operator==(const ElementType&) const = default;
};

// What a rule asks of an input's contents. All but Any need a constant.
enum class Content : uint8_t { Any, Constant, Positive, NonNegative, NonZero };

struct Input {
  std::string name;  // without the '?'
  ElementType type;
  SizeList shape;
  Content content = Content::Any;
  Location where = {};
};

// ?name inside braces, or a number declared with "real ?name". Real ones may be any number; all other kinds need a domain (`?p in {..}`).
struct AttrVariable {
  std::string name;
  ir::AttrKind kind = ir::AttrKind::Real;
  std::vector<ir::AttrValue> domain = {};
};
struct AttrRef {
  uint32_t variable;
  bool operator==(const AttrRef&) const = default;
};
// compose(?p, ?q): the permutation that transposing by ?p and then by ?q makes, p[q[i]].
struct Composed {
  uint32_t first, second;
  bool operator==(const Composed&) const = default;
};
// "T 0.5": a tensor of one element, of the type that T stands for.
struct TypedNumber {
  ElementType type;
  double value;
  bool operator==(const TypedNumber&) const = default;
};

using AttrTerm = std::variant<ir::AttrValue, Size, SizeList, AttrRef, ElementType, TypedNumber, Composed>;

struct Operand {
  enum class Kind : uint8_t {
    Absent,  // _
    Input,   // ?x: Rule::inputs[id]
    Result,  // result `index` of calls[id] of the same side
    Number,  // a scalar constant of the type the operator's record gives it
    Real,    // attributes[id], a real number, as such a scalar; in a pattern the scalar constant gives it its value
    Sizes,   // [A, B*2]: an i64 vector
  };
  Kind kind = Kind::Absent;
  uint32_t id = 0, index = 0;
  double number = 0;
  SizeList sizes = {};
  bool operator==(const Operand&) const = default;
};

struct Call {
  const ir::OpDef* op = nullptr;
  std::vector<Operand> inputs;
  std::vector<std::pair<std::string, AttrTerm>> attrs;  // in order of their names
  uint32_t outputs = 1;
  std::vector<std::string> names = {};  // of a statement, one per output, "" for _; empty for a call inside a term
  Location where = {};
};

// Calls in topological order; every call is needed by an output.
struct Side {
  std::vector<Call> calls;
  std::vector<Operand> outputs;
};

enum class Relation : uint8_t { Equal, NotEqual, Less, LessEqual };
struct Condition {
  Relation relation = Relation::Equal;
  Size left, right;
  Location where = {};
};

// A line written by the prover. `rule` and `operators` are the hashes of what was proved (proof.h).
struct Proof {
  enum class Kind : uint8_t { AllSizes, Bounded, Field };
  Kind kind = Kind::AllSizes;
  int64_t bound = 0;  // Bounded: all sizes up to this
  double error = 0;   // Field: chance that a wrong rule passes
  std::string rule, operators, prover;
  Location where = {};
};

// How a match finds the values of symbols: equations in an order in which each has at most one open symbol.
struct Equation {
  enum class Source : uint8_t { Shape, Attribute, Sizes };
  Source source;
  uint32_t index;    // Shape: input; else: call of lhs
  uint32_t slot;     // Attribute: place in attrs; Sizes: place in inputs
  uint32_t element;  // place in the list
  Size expression;
  std::optional<uint32_t> solves;  // the symbol it gives; nothing: a check
};

struct Rule {
  std::string name;
  NumericClass numeric = NumericClass::Exact;
  std::string family;  // the file's name without its ending
  std::vector<Symbol> symbols;
  std::vector<ListSymbol> lists;
  std::vector<TypeVariable> types;
  std::vector<AttrVariable> attributes;
  std::vector<Input> inputs;
  Side lhs, rhs;
  std::vector<Condition> conditions;  // beside those in symbols, lists, attributes and inputs
  std::vector<Proof> proofs;
  std::vector<Equation> binding;
  Location where;

  Size::Names names() const;
  std::optional<uint32_t> symbol(std::string_view name) const;
};

std::string_view name(NumericClass c);
std::string_view name(Proof::Kind k);
std::string_view name(Content c);
std::string_view sign(Relation r);  // "==", "!=", "<", "<="
std::string to_string(const Condition& c, const Rule& rule);
std::string to_string(const Proof& p);  // the line, without indentation

// The rules of a text, each with its place. Proof lines are read, not judged. `family` is given to each rule. With
// `refused` a wrong rule is set aside there and reading goes on at the next one; otherwise the first ends it.
Expected<std::vector<Rule>> parse_rules(std::string_view text, const ir::OpTable& table, const std::string& file = "",
                                        const std::string& family = "", std::vector<Diagnostic>* refused = nullptr);
// The text of a rule; without proofs it is what the rule's hash covers.
std::string print(const Rule& rule, bool proofs = true);

}  // namespace isomer::rewrite
