// Reads expressions of te's text form: the half of the grammar below a stage's `=`. Names are axes in scope, tensors of
// the program so far, or what the context gives; what comes out is well typed.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "te/parse.h"
#include "te/token_stream.h"
#include "te/words.h"

namespace isomer::te {

class ExprParser {
 public:
  // All must outlive the parser; `context` is null inside a program.
  ExprParser(TokenStream& in, const Program& program, const ExprContext* context)
      : in_(in), program_(program), context_(context) {}

  // With these axes in scope. A literal that stands alone takes the type `alone` when given.
  Expected<Expr> expression(std::vector<Axis> axes, std::optional<DType> alone);
  Expected<Axis> binder();      // NAME < SIZE
  Expected<int> tensor_slot();  // NAME or NAME@SLOT, of a tensor that is already there

 private:
  // An expression being built. `bare` is the text of a literal whose type is still open.
  struct Operand {
    Expr e;
    std::string bare = {};
    int depth = 1;
  };

  Expected<void> retype(Operand& x, DType type);
  Expected<void> unify(Operand& a, Operand& b);
  Expected<Operand> built(const Token& at, Expr e, int depth);
  Expected<Operand> make_binary(const Token& at, BinaryOp op, Operand a, Operand b);
  Expected<Operand> make_unary(const Token& at, UnaryOp op, const Operand& x);
  std::optional<std::pair<BinaryOp, bool>> infix(Strength at_least) const;
  Expected<Operand> binary_chain(Strength at_least);
  Expected<Operand> unary_operand();
  Expected<Operand> number(const std::string& sign);
  Expected<Operand> primary();
  Expected<Operand> variable();
  Expected<Operand> read_by_slot();
  Expected<Operand> read(const Token& at, int slot, DType type, std::optional<size_t> rank);
  std::optional<Combiner> reduction_start() const;
  Expected<Operand> call();
  Expected<Operand> apply(const Token& at, std::vector<Operand> args);
  Expected<Operand> reduction(const Token& at, Combiner c);

  TokenStream& in_;
  const Program& program_;
  const ExprContext* context_;
  int nesting_ = 0;
  int next_id_ = 0;
  std::vector<Axis> scope_;
};

}  // namespace isomer::te
