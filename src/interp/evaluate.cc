#include "interp/evaluate.h"

#include "te/eval.h"

namespace isomer::interp {

Expected<std::vector<Tensor>> evaluate(const te::Program& program, const std::vector<const Tensor*>& inputs,
                                       const Options&) {
  using Array = te::Array<te::DoubleDomain>;
  std::vector<Array> arrays;
  for (const Tensor* t : inputs) {
    Array a;
    if (t) {
      a.dtype = t->dtype();
      a.dims = t->dims();
      if (is_float(a.dtype))
        a.reals = t->to_reals();
      else
        a.ints = t->to_ints();
    }
    arrays.push_back(std::move(a));
  }
  te::DoubleDomain domain;
  ISOMER_TRY(const std::vector<Array> results, te::Evaluator<te::DoubleDomain>(domain).run(program, std::move(arrays)));
  std::vector<Tensor> out;
  for (const Array& a : results)
    out.push_back(is_float(a.dtype) ? Tensor::of(a.dtype, a.dims, a.reals) : Tensor::of(a.dtype, a.dims, a.ints));
  return out;
}

}  // namespace isomer::interp
