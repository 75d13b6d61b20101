// Evaluates programs element by element over any number type. A Domain says what a real and an integer are and how the
// scalar operations act on them: doubles, a prime field, sizes with symbols, solver terms. The plainest reader of te,
// and the one the others are tested against.
#pragma once

#include <cmath>
#include <concepts>
#include <optional>
#include <string>
#include <vector>

#include "base/arithmetic.h"
#include "base/expected.h"
#include "te/program.h"
#include "te/scalar.h"
#include "tensor/tensor.h"

namespace isomer::te {

// Machine numbers: the reference meaning.
struct DoubleDomain {
  using Real = double;
  using Int = int64_t;
  Real real(DType, double v) const { return v; }
  Int integer(int64_t v) const { return v; }
  std::optional<Int> size(const Dim& d) const { return d.constant(); }
  std::optional<int64_t> known(const Int& v) const { return v; }
  Real round(DType t, const Real& v) const { return round_to(t, v); }
  std::optional<Real> to_real(DType from, const Int& v) const { return real_from_int(from, v); }
  std::optional<Int> to_int(DType to, const Real& v) const { return int_from_real(to, v); }
  Int wrap(DType t, const Int& v) const { return wrap_to(t, v); }
  std::optional<Real> unary(UnaryOp op, const Real& x) const { return real_unary(op, x); }
  std::optional<Int> test(UnaryOp op, const Real& x) const { return Int(real_test(op, x)); }
  std::optional<Int> unary_int(UnaryOp op, DType t, const Int& x) const { return int_unary(op, t, x); }
  std::optional<Real> binary(BinaryOp op, const Real& a, const Real& b) const { return real_binary(op, a, b); }
  std::optional<Int> compare(BinaryOp op, const Real& a, const Real& b) const { return Int(real_compare(op, a, b)); }
  std::optional<Int> binary_int(BinaryOp op, DType t, const Int& a, const Int& b) const {
    return int_binary(op, t, a, b);
  }
};

// A tensor of domain numbers; one of the two vectors is used, by the type.
template <class D>
struct Array {
  DType dtype = DType::F32;
  std::vector<int64_t> dims;
  std::vector<typename D::Real> reals;
  std::vector<typename D::Int> ints;
};

template <class D>
class Evaluator {
 public:
  using Real = typename D::Real;
  using Int = typename D::Int;

  explicit Evaluator(const D& domain) : domain_(domain) {}

  // The program's outputs. Every extent must be known in the domain.
  Expected<std::vector<Array<D>>> run(const Program& program, std::vector<Array<D>> inputs) {
    slots_ = std::move(inputs);
    for (const Stage& stage : program.stages) {
      ISOMER_TRY(Array<D> result, run_stage(stage));
      slots_.push_back(std::move(result));
    }
    std::vector<Array<D>> out;
    for (int slot : program.outputs) out.push_back(slots_[static_cast<size_t>(slot)]);
    return out;
  }

  // One expression without reads of tensors, for the simplifier's tests; variables are numbered by axis id.
  std::optional<Int> eval_int(const Expr& e, const std::vector<int64_t>& variables) {
    vars_ = variables;
    return integer(e);
  }
  std::optional<Real> eval_real(const Expr& e, const std::vector<int64_t>& variables) {
    vars_ = variables;
    return real(e);
  }
  const std::string& why() const { return why_; }

 private:
  std::nullopt_t fail(std::string why) {
    if (why_.empty()) why_ = std::move(why);
    return std::nullopt;
  }
  int64_t& var(int id) {
    if (static_cast<size_t>(id) >= vars_.size()) vars_.resize(static_cast<size_t>(id) + 1);
    return vars_[static_cast<size_t>(id)];
  }
  std::optional<int64_t> known(const Expr& e) {
    const auto v = integer(e);
    if (!v) return std::nullopt;
    const auto k = domain_.known(*v);
    if (!k) return fail("a value that decides an index or a branch is not known");
    return k;
  }
  std::optional<int64_t> extent(const Dim& d) {
    const auto s = domain_.size(d);
    const auto k = s ? domain_.known(*s) : std::nullopt;
    if (!k) return fail("the extent " + d.to_string() + " is not known");
    return k;
  }

  Expected<Array<D>> run_stage(const Stage& stage) {
    Array<D> out;
    out.dtype = stage.dtype;
    for (const Axis& a : stage.axes) {
      const auto n = extent(a.extent);
      if (!n) return Diagnostic("E-eval", why_);
      out.dims.push_back(*n);
    }
    ISOMER_TRY(const int64_t count, checked_elements(stage.dtype, out.dims));
    for (int64_t i = 0; i < count; ++i) {
      int64_t rest = i;
      for (size_t k = stage.axes.size(); k-- > 0; rest /= out.dims[k]) var(stage.axes[k].id) = rest % out.dims[k];
      if (is_float(stage.dtype)) {
        const auto v = real(stage.body);
        if (!v) return Diagnostic("E-eval", why_);
        out.reals.push_back(domain_.round(stage.dtype, *v));
      } else {
        const auto v = integer(stage.body);
        if (!v) return Diagnostic("E-eval", why_);
        out.ints.push_back(domain_.wrap(stage.dtype, *v));
      }
    }
    return out;
  }

  // Position of a read in its tensor, or nothing when an index is out of range.
  std::optional<size_t> position(const Node& read) {
    const Array<D>& t = slots_[static_cast<size_t>(read.tensor)];
    int64_t p = 0;
    for (size_t k = 0; k < read.args.size(); ++k) {
      const auto i = known(read.args[k]);
      if (!i) return std::nullopt;
      if (*i < 0 || *i >= t.dims[k])
        return fail("index " + std::to_string(*i) + " is out of range for an axis of extent " +
                    std::to_string(t.dims[k]));
      p = p * t.dims[k] + *i;
    }
    return static_cast<size_t>(p);
  }

  // Calls `body` at every point of the reduction where its condition holds; false when something failed.
  template <class F>
  bool for_each(const Node& r, F body) {
    std::vector<int64_t> extents;
    int64_t count = 1;
    for (const Axis& a : r.axes) {
      const auto n = extent(a.extent);
      if (!n) return false;
      extents.push_back(*n);
      const auto product = checked_mul(count, *n);
      if (!product) return fail("a reduction has too many points"), false;
      count = *product;
    }
    for (int64_t i = 0; i < count; ++i) {
      int64_t rest = i;
      for (size_t k = r.axes.size(); k-- > 0; rest /= extents[k]) var(r.axes[k].id) = rest % extents[k];
      const auto holds = known(r.args[1]);
      if (!holds) return false;
      if (*holds && !body(i)) return false;
    }
    return true;
  }

  std::optional<Int> arg_reduce(const Node& r) {
    std::optional<Real> best;
    std::optional<int64_t> best_int;
    int64_t at = 0;
    const bool reals = is_float(r.args[0].dtype());
    const bool ok = for_each(r, [&](int64_t i) {
      if (reals) {
        const auto v = real(r.args[0]);
        if constexpr (std::same_as<Real, double>) {
          if (v && (!best || arg_better(r.combiner, *v, *best))) best = v, at = i;
          return v.has_value();
        } else {
          return false;
        }
      }
      const auto v = known(r.args[0]);
      if (v && (!best_int || arg_better_int(r.combiner, r.args[0].dtype(), *v, *best_int))) best_int = v, at = i;
      return v.has_value();
    });
    if (!ok) return fail("an arg reduction needs ordered numbers");
    return domain_.integer(at);
  }

  std::optional<Real> real(const Expr& e) {
    const Node& n = *e;
    switch (n.kind) {
      case Kind::Real: return domain_.real(n.dtype, n.real);
      case Kind::Read: {
        const auto p = position(n);
        return p ? std::optional<Real>(slots_[static_cast<size_t>(n.tensor)].reals[*p]) : std::nullopt;
      }
      case Kind::Unary: {
        const auto x = real(n.args[0]);
        return x ? checked(domain_.unary(n.unary, *x)) : std::nullopt;
      }
      case Kind::Binary: {
        const auto a = real(n.args[0]);
        const auto b = a ? real(n.args[1]) : std::nullopt;
        return b ? checked(domain_.binary(n.binary, *a, *b)) : std::nullopt;
      }
      case Kind::Select: {
        const auto c = known(n.args[0]);
        return c ? real(n.args[*c ? 1 : 2]) : std::nullopt;
      }
      case Kind::Cast: {
        if (is_float(n.args[0].dtype())) {
          const auto x = real(n.args[0]);
          return x ? std::optional<Real>(domain_.round(n.dtype, *x)) : std::nullopt;
        }
        const auto x = integer(n.args[0]);
        const auto r = x ? checked(domain_.to_real(n.args[0].dtype(), *x)) : std::nullopt;
        return r ? std::optional<Real>(domain_.round(n.dtype, *r)) : std::nullopt;
      }
      case Kind::Reduce: {
        Real total = domain_.real(n.dtype, real_identity(n.combiner));
        const bool ok = for_each(n, [&](int64_t) {
          const auto v = real(n.args[0]);
          const auto next = v ? checked(domain_.binary(combining_op(n.combiner), total, *v)) : std::nullopt;
          if (next) total = *next;
          return next.has_value();
        });
        return ok ? std::optional<Real>(total) : std::nullopt;
      }
      case Kind::Int:
      case Kind::Var:
      case Kind::Size: break;
    }
    return fail("an integer expression stands where a real one is expected");
  }

  std::optional<Int> integer(const Expr& e) {
    const Node& n = *e;
    switch (n.kind) {
      case Kind::Int: return domain_.integer(n.integer);
      case Kind::Var: return domain_.integer(var(n.var));
      case Kind::Size: {
        const auto s = domain_.size(n.size);
        return s ? s : fail("the size " + n.size.to_string() + " is not known");
      }
      case Kind::Read: {
        const auto p = position(n);
        return p ? std::optional<Int>(slots_[static_cast<size_t>(n.tensor)].ints[*p]) : std::nullopt;
      }
      case Kind::Unary: {
        if (is_float(n.args[0].dtype())) {
          const auto x = real(n.args[0]);
          return x ? checked(domain_.test(n.unary, *x)) : std::nullopt;
        }
        const auto x = integer(n.args[0]);
        return x ? checked(domain_.unary_int(n.unary, n.dtype, *x)) : std::nullopt;
      }
      case Kind::Binary: {
        if (is_float(n.args[0].dtype())) {
          const auto a = real(n.args[0]);
          const auto b = a ? real(n.args[1]) : std::nullopt;
          return b ? checked(domain_.compare(n.binary, *a, *b)) : std::nullopt;
        }
        const auto a = integer(n.args[0]);
        const auto b = a ? integer(n.args[1]) : std::nullopt;
        if (!b) return std::nullopt;
        const auto r = domain_.binary_int(n.binary, n.args[0].dtype(), *a, *b);
        return r ? r : fail("an integer operation has no result (a division by zero, or sizes that are not known)");
      }
      case Kind::Select: {
        const auto c = known(n.args[0]);
        return c ? integer(n.args[*c ? 1 : 2]) : std::nullopt;
      }
      case Kind::Cast: {
        if (is_float(n.args[0].dtype())) {
          const auto x = real(n.args[0]);
          return x ? checked(domain_.to_int(n.dtype, *x)) : std::nullopt;
        }
        const auto x = integer(n.args[0]);
        return x ? std::optional<Int>(domain_.wrap(n.dtype, *x)) : std::nullopt;
      }
      case Kind::Reduce: {
        if (is_arg(n.combiner)) return arg_reduce(n);
        Int total = domain_.integer(int_identity(n.combiner, n.dtype));
        const bool ok = for_each(n, [&](int64_t) {
          const auto v = integer(n.args[0]);
          const auto next = v ? domain_.binary_int(combining_op(n.combiner), n.dtype, total, *v) : std::nullopt;
          if (next) total = *next;
          return next.has_value();
        });
        return ok ? std::optional<Int>(total) : fail("a reduction has no result");
      }
      case Kind::Real: break;
    }
    return fail("a real expression stands where an integer one is expected");
  }

  template <class T>
  std::optional<T> checked(std::optional<T> v) {
    if (!v) return fail("the number type has no such operation");
    return v;
  }

  const D& domain_;
  std::vector<Array<D>> slots_;
  std::vector<int64_t> vars_;
  std::string why_;
};

}  // namespace isomer::te
