// The text form of expressions and programs; docs/te.md has the grammar. print and parse are exact inverses:
// parse(print(p)) equals p in structure, names and axis ids. Text is a tree: nodes that are shared are written each
// time they occur.
#pragma once

#include <string>

#include "te/program.h"

namespace isomer::te {

// One line a tensor: `input a : f32[M,K]`, `y[i<M,j<N] : f32 = sum(k<K) a[i,k]*b[k,j]`, `output y`.
std::string print(const Program& program);

// Without a program, reads are written by slot and type (`$0:f32[i@1]`) and axes that nothing binds by name and id.
std::string print(const Expr& e, const Program* program = nullptr);

}  // namespace isomer::te
