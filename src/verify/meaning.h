// Meaning: a graph as functions from indices to forms. Every operator is read from its own record (composites are
// expanded), and composing operators is calling the producer's expression with the consumer's indices. There is no
// knowledge of single operators here. Every read, also of a value in between, must be seen to be in range.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "ir/graph.h"
#include "te/program.h"
#include "verify/simplifier.h"

namespace isomer::verify {

// Thrown for what has no expression that a proof can use.
struct Unsupported {
  std::string op, reason;
};
// Thrown when a size is the larger or smaller of two and the conditions do not tell which: the proof must be split.
struct NeedsCase {
  Poly difference;
};

struct Sizes {
  Atoms* atoms;
  Solver* solver;
  Guards side;                              // what is known of the sizes
  std::map<std::string, int64_t> at_least;  // of a symbol; 1 for the others
  Poly poly(const Dim& d) const;
};

class Meaning {
 public:
  Meaning(Sizes& sizes, Heads& heads) : sizes_(sizes), atoms_(*sizes.atoms), solver_(*sizes.solver), heads_(heads) {}

  // Composites are expanded and every node's program is built. A diagnostic: the graph is not well typed.
  Expected<void> load(const ir::Graph& graph, const ir::OpTable& table);
  const ir::Graph& graph() const { return builder_->graph(); }

  size_t outputs() const { return outputs_.size(); }
  std::vector<Poly> dims(size_t output) const;
  Form element(size_t output, const std::vector<Poly>& index, const Guards& context);
  // Every extent of every value in between.
  std::vector<Poly> all_extents() const;
  // The text of every program: what a proof rests on.
  std::string programs() const;

 private:
  using Env = std::map<int, Poly>;
  struct Case {
    Guards guards;
    Poly value;
  };
  struct Cells {
    std::vector<Guards> yes, no;
  };
  struct Frame {
    const te::Program* program;
    uint32_t node;
  };

  Form value_at(ir::Value v, const std::vector<Poly>& index, const Guards& context);
  Form slot_at(const Frame& frame, int slot, const std::vector<Poly>& index, const Guards& context);
  Form constant_at(const Tensor& t, const std::vector<Poly>& index);
  Form literal(double v);
  Form real(const te::Expr& e, const Frame& frame, const Env& env, const Guards& context);
  Form real_unary(const te::Expr& e, const Frame& frame, const Env& env, const Guards& context);
  Form real_binary(const te::Expr& e, const Frame& frame, const Env& env, const Guards& context);
  Form selected(const te::Expr& e, const Frame& frame, const Env& env, const Guards& context);
  Form real_cast(const te::Expr& e, const Frame& frame, const Env& env, const Guards& context);
  Form real_reduce(const te::Expr& e, const Frame& frame, const Env& env, const Guards& context);
  Form real_read(const te::Expr& e, const Frame& frame, const Env& env, const Guards& context);
  Form comparison(te::BinaryOp op, const Form& a, const Form& b);
  Form truth_value(const te::Expr& e, const Frame& frame, const Env& env, const Guards& context);
  Form truth_binary(const te::Expr& e, const Frame& frame, const Env& env, const Guards& context);
  Form power(const te::Expr& e, const Frame& frame, const Env& env, const Guards& context);
  Form apply(const std::string& name, std::vector<Form> args);
  Form largest(std::vector<Term> candidates);
  Form reciprocal(const Form& f);

  std::vector<Case> integer(const te::Expr& e, const Frame& frame, const Env& env, const Guards& context);
  std::vector<Case> integer_binary(const te::Expr& e, const Frame& frame, const Env& env, const Guards& context);
  std::vector<Case> chosen(const Case& c, te::BinaryOp op, const Poly& a, const Poly& b, const Guards& context);
  Poly known_integer(const te::Expr& e, const Frame& frame, const Env& env, const Guards& context);
  Cells truth(const te::Expr& e, const Frame& frame, const Env& env, const Guards& context);
  Cells compared(te::BinaryOp op, const Poly& difference) const;
  void check_range(const Frame& frame, const std::string& what, const std::vector<Poly>& index,
                   const std::vector<Poly>& extents, const Guards& context);
  [[noreturn]] void refuse(const Frame& frame, const std::string& reason) const;

  Sizes& sizes_;
  Atoms& atoms_;
  Solver& solver_;
  Heads& heads_;
  std::unique_ptr<ir::GraphBuilder> builder_;
  std::vector<ir::Value> outputs_;
  std::vector<std::optional<te::Program>> programs_;
  int depth_ = 0;
};

// The graph again through a builder, composites expanded where `expand` says so; what known contents need.
Expected<std::vector<ir::Value>> replay(const ir::Graph& graph, ir::GraphBuilder& builder, bool expand);
ir::OpContext context_of(const ir::GraphBuilder& builder, const ir::Node& node);

}  // namespace isomer::verify
