#include "te/parse.h"

#include <fmt/format.h>

#include "te/expr_parser.h"
#include "te/token_stream.h"

namespace isomer::te {
namespace {

class ProgramParser {
 public:
  explicit ProgramParser(TokenStream& in) : in_(in), expressions_(in, program_, nullptr) {}

  Expected<Program> program() {
    bool finished = false;
    for (in_.skip_newlines(); !in_.ends(); in_.skip_newlines()) {
      if (finished) return in_.fail("expected the end of the program after 'output'");
      if (in_.eat_word("input")) {
        if (!program_.stages.empty()) return in_.fail("expected inputs before the first stage");
        ISOMER_CHECK_OK(input());
      } else if (in_.eat_word("output")) {
        ISOMER_CHECK_OK(outputs());
        finished = true;
      } else {
        ISOMER_CHECK_OK(stage());
      }
      if (!in_.ends_line()) return in_.fail(fmt::format("expected the end of the line, found {}", in_.found()));
    }
    if (!finished) return in_.fail("expected a last line 'output NAME, ...'");
    return std::move(program_);
  }

 private:
  Expected<void> input() {
    Source s{.name = {}, .dtype = DType::F32, .dims = {}};
    ISOMER_TRY(s.name, in_.name("an input"));
    ISOMER_CHECK_OK(in_.expect(":"));
    ISOMER_TRY(s.dtype, in_.dtype());
    ISOMER_CHECK_OK(in_.expect("["));
    while (!in_.is("]")) {
      if (!s.dims.empty()) ISOMER_CHECK_OK(in_.expect(","));
      ISOMER_TRY(Dim d, in_.dim());
      s.dims.push_back(std::move(d));
    }
    in_.skip();
    program_.inputs.push_back(std::move(s));
    return {};
  }

  Expected<void> stage() {
    Stage s{.name = {}, .dtype = DType::F32, .axes = {}, .body = {}};
    ISOMER_TRY(s.name, in_.name("an input, a stage or an output"));
    ISOMER_CHECK_OK(in_.expect("["));
    while (!in_.is("]")) {
      if (!s.axes.empty()) ISOMER_CHECK_OK(in_.expect(","));
      ISOMER_TRY(Axis a, expressions_.binder());
      s.axes.push_back(std::move(a));
    }
    in_.skip();
    ISOMER_CHECK_OK(in_.expect(":"));
    ISOMER_TRY(s.dtype, in_.dtype());
    ISOMER_CHECK_OK(in_.expect("="));
    const Token start = in_.peek();
    ISOMER_TRY(s.body, expressions_.expression(s.axes, s.dtype));
    if (s.body.dtype() != s.dtype)
      return in_.fail_at(start, "E-te-type",
                         fmt::format("expected a body of the stage's type {}, found one of {}; write a cast",
                                     isomer::name(s.dtype), isomer::name(s.body.dtype())));
    program_.stages.push_back(std::move(s));
    return {};
  }

  Expected<void> outputs() {
    while (!in_.ends_line()) {
      if (!program_.outputs.empty()) ISOMER_CHECK_OK(in_.expect(","));
      ISOMER_TRY(const int slot, expressions_.tensor_slot());
      program_.outputs.push_back(slot);
    }
    return {};
  }

  TokenStream& in_;
  Program program_;
  ExprParser expressions_;  // of program_'s tensors
};

}  // namespace

Expected<Program> parse_program(std::string_view text, const std::string& file) {
  ISOMER_TRY(std::vector<Token> tokens, tokenize(text, file));
  TokenStream in(text, std::move(tokens), file);
  return ProgramParser(in).program();
}

Expected<Expr> parse_expr(std::string_view text, const ExprContext& context, const std::string& file) {
  ISOMER_TRY(std::vector<Token> tokens, tokenize(text, file));
  TokenStream in(text, std::move(tokens), file);
  const Program none;
  in.skip_newlines();
  ISOMER_TRY(Expr e, ExprParser(in, none, &context).expression({}, context.alone));
  in.skip_newlines();
  if (!in.ends()) return in.fail(fmt::format("expected the end of the expression, found {}", in.found()));
  return e;
}

}  // namespace isomer::te
