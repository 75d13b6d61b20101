// Evaluation: a graph at known sizes as programs, run over any domain of numbers: doubles to refute, elements of a field,
// terms. Composites are expanded, so only tensor expressions are run.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "te/eval.h"
#include "te/program.h"

namespace isomer::verify {

class Evaluation {
 public:
  // A diagnostic when a shape is not known, an operator has no expression, or a stage takes more than `max_work`.
  Expected<void> load(const ir::Graph& graph, const ir::OpTable& table, int64_t max_work);
  const ir::Graph& graph() const { return builder_->graph(); }
  std::vector<int64_t> dims(size_t output) const { return builder_->type(outputs_[output]).shape.values(); }

  // Every float type that a value or an expression has. With more than one, numbers are rounded on the way.
  std::set<DType> float_types() const;

  template <class D>
  Expected<std::vector<te::Array<D>>> run(const D& domain, const std::map<std::string, te::Array<D>>& inputs) const {
    using Array = te::Array<D>;
    std::vector<std::vector<Array>> made;
    for (size_t id = 0; id < programs_.size(); ++id) {
      const ir::Node& n = builder_->graph().node(static_cast<uint32_t>(id));
      if (n.op == &ir::input_op()) {
        made.push_back({inputs.at(n.names[0])});
      } else if (n.op == &ir::const_op()) {
        const Tensor& t = *n.attrs.get<Tensor>("value");
        Array a;
        a.dtype = t.dtype();
        a.dims = t.dims();
        if (is_float(t.dtype()))
          for (const double v : t.to_reals()) a.reals.push_back(domain.real(t.dtype(), v));
        else
          for (const int64_t v : t.to_ints()) a.ints.push_back(domain.integer(v));
        made.push_back({std::move(a)});
      } else {
        std::vector<Array> in;
        for (const ir::Value& v : n.inputs) in.push_back(v.is_none() ? Array{} : made[v.node][v.index]);
        ISOMER_TRY(auto results, te::Evaluator<D>(domain).run(programs_[id], std::move(in)));
        made.push_back(std::move(results));
      }
    }
    std::vector<Array> out;
    for (const ir::Value& v : outputs_) out.push_back(made[v.node][v.index]);
    return out;
  }

 private:
  std::unique_ptr<ir::GraphBuilder> builder_;
  std::vector<ir::Value> outputs_;
  std::vector<te::Program> programs_;  // by node; empty for inputs and constants
};

}  // namespace isomer::verify
