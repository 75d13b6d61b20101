// A rule as two graphs. Both have one input per rule input (in order, named as in the rule) and one output per mapped
// value ("y0", "y1", ...), so the interpreter, the field evaluator and the prover read the operators' own meaning.
//
//   for (const Bindings& c : cases(rule)) {              // list lengths, listed attributes: always chosen
//     auto symbolic = instantiate(rule, c, table);       // sizes left open stay Dim symbols of their names
//     auto numbers = sample(rule, c, random);            // or: small numbers that meet the conditions
//     auto concrete = instantiate(rule, *numbers, table);
//   }
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "ir/graph.h"
#include "rewrite/rule.h"

namespace isomer::rewrite {

struct Bindings {
  std::map<std::string, int64_t> sizes;    // symbols, and dims of lists as S_0, S_1, ...; what is left out stays open
  std::map<std::string, int64_t> lengths;  // of every list symbol
  std::map<std::string, ir::AttrValue> attributes;  // every attribute variable
  std::map<std::string, DType> types;               // type variables; left out: f32 where allowed, else the first
  std::string to_string() const;                    // "N=2, K=3, len(S)=1"
};

struct Fact {
  Relation relation;
  Dim left, right;
};

struct Instance {
  ir::Graph lhs, rhs;
  // What may be assumed of the open sizes: lower bounds of the symbols, then the rule's conditions.
  std::vector<Fact> facts;
};

// The rule's discrete choices: lengths of lists, values of symbols with a domain, attribute variables. A real
// attribute gets a number that occurs nowhere else, so that a prover may take it for a symbol, and in a case of its own
// a negative one. Never empty.
std::vector<Bindings> cases(const Rule& rule);

// A diagnostic when a number breaks an operator (a window larger than its input), or when an open size stands where an
// operator needs a number.
Expected<Instance> instantiate(const Rule& rule, const Bindings& bindings, const ir::OpTable& table);
Expected<ir::Graph> instantiate_side(const Rule& rule, const Side& side, const Bindings& bindings,
                                     const ir::OpTable& table);

// Small numbers for all open sizes of a case that meet every condition; nothing when none were found in some tries.
// The pattern may still be ill-typed for them: instantiate says so.
std::optional<Bindings> sample(const Rule& rule, const Bindings& chosen, Random& random, int64_t spread = 4);

// Whether numbers for all symbols meet the rule's bounds and conditions.
bool admits(const Rule& rule, const SizeValues& values);

// Refuses a rule with a case for which no sizes make the pattern well-typed, or some for which the pattern is and the
// replacement is not, or has other types.
Expected<void> check_types(const Rule& rule, const ir::OpTable& table);

}  // namespace isomer::rewrite
