// Matrices whose elements decide what is done next: determinants by elimination, probabilities of classes by rounds.
#include "compile/assembly.h"
#include "compile/function_writer.h"
#include "compile/procedures.h"

namespace isomer::compile {

using loop::LoopKind;
using loop::Stmt;
using te::Expr;

namespace {

constexpr int64_t kRounds = 100;  // of ml_couple, as its record says

Expr real(double v) { return Expr::real(DType::F64, v); }

// A loop over from .. to, whose body gets the variable.
template <class Body>
Stmt over(FunctionWriter& w, const Expr& from, const Expr& to, const Body& body) {
  const te::Axis i = w.axis(1);
  return Stmt::loop(i.id, i.name, to - from, LoopKind::Serial, body(from + Expr(i)));
}

// Elimination with row exchanges, as the reference kernel does it, in a scratch matrix of f64.
class Elimination {
 public:
  Elimination(FunctionWriter& w, int64_t size)
      : w_(w),
        n_(size),
        a_(w.scratch(DType::F64, {size, size})),
        det_(w.local(DType::F64)),
        pivot_(w.local(DType::I64)),
        kept_(w.local(DType::F64)) {}

  int matrix() const { return a_; }
  Expr result() const { return w_.number(det_); }

  Stmt write() {
    const auto column = [&](const Expr& k) {
      // A pivot of zero ends it: the product stays zero, and nothing is divided by it.
      const Stmt rest = Stmt::branch(te::ne(at(k, k), real(0)), eliminate(k));
      const Stmt all =
          Stmt::seq({find_pivot(k), exchange(k), FunctionWriter::set(det_, w_.number(det_) * at(k, k)), rest});
      return Stmt::branch(te::ne(w_.number(det_), real(0)), all);
    };
    return Stmt::seq({FunctionWriter::set(det_, real(1)), over(w_, Expr(0), Expr(n_), column)});
  }

 private:
  Expr at(const Expr& i, const Expr& j) const { return w_.read(a_, {i, j}); }

  Stmt find_pivot(const Expr& k) {
    const auto look = [&](const Expr& i) {
      return Stmt::branch(te::abs(at(i, k)) > te::abs(at(w_.number(pivot_), k)), FunctionWriter::set(pivot_, i));
    };
    return Stmt::seq({FunctionWriter::set(pivot_, k), over(w_, k + Expr(1), Expr(n_), look)});
  }

  Stmt exchange(const Expr& k) {
    const Expr p = w_.number(pivot_);
    const auto swap = [&](const Expr& j) {
      return Stmt::seq({FunctionWriter::set(kept_, at(p, j)), Stmt::store(a_, {p, j}, at(k, j)),
                        Stmt::store(a_, {k, j}, w_.number(kept_))});
    };
    return Stmt::branch(te::ne(p, k), Stmt::seq({over(w_, Expr(0), Expr(n_), swap),
                                                 FunctionWriter::set(det_, real(0) - w_.number(det_))}));
  }

  Stmt eliminate(const Expr& k) {
    const auto row = [&](const Expr& i) {
      const auto element = [&](const Expr& j) {
        return Stmt::store(a_, {i, j}, at(i, j) - w_.number(kept_) * at(k, j));
      };
      return Stmt::seq({FunctionWriter::set(kept_, at(i, k) / at(k, k)), over(w_, k, Expr(n_), element)});
    };
    return over(w_, k + Expr(1), Expr(n_), row);
  }

  FunctionWriter& w_;
  int64_t n_;
  int a_, det_, pivot_, kept_;
};

// The rounds of ml_couple on one matrix of pairs.
class Coupling {
 public:
  Coupling(FunctionWriter& w, int64_t k)
      : w_(w),
        k_(k),
        q_(w.scratch(DType::F64, {k, k})),
        p_(w.scratch(DType::F64, {k})),
        qp_(w.scratch(DType::F64, {k})),
        pqp_(w.local(DType::F64)),
        error_(w.local(DType::F64)),
        step_(w.local(DType::F64)),
        goes_(w.local(DType::Bool)) {}

  Expr result(const Expr& i) const { return p(i); }

  template <class Pairs>
  Stmt write(const Pairs& r) {
    const auto cell = [&](const Expr& i, const Expr& j) {
      const Stmt other = Stmt::seq(
          {Stmt::store(q_, {i, i}, q(i, i) + r(j, i) * r(j, i)), Stmt::store(q_, {i, j}, real(0) - r(j, i) * r(i, j))});
      return Stmt::branch(te::ne(i, j), other);
    };
    const auto row = [&](const Expr& i) {
      return Stmt::seq({Stmt::store(p_, {i}, real(1.0 / static_cast<double>(k_))), Stmt::store(q_, {i, i}, real(0)),
                        each([&](const Expr& j) { return cell(i, j); })});
    };
    const te::Axis round = w_.axis(kRounds);
    return Stmt::seq({each(row), FunctionWriter::set(goes_, te::truth(true)),
                      FunctionWriter::over(round, Stmt::branch(w_.number(goes_), one_round()))});
  }

 private:
  Expr p(const Expr& i) const { return w_.read(p_, {i}); }
  Expr qp(const Expr& i) const { return w_.read(qp_, {i}); }
  Expr q(const Expr& i, const Expr& j) const { return w_.read(q_, {i, j}); }
  template <class Body>
  Stmt each(const Body& body) {
    return over(w_, Expr(0), Expr(k_), body);
  }

  Stmt one_round() {
    const auto products = [&](const Expr& i) {
      const Stmt sum = each([&](const Expr& j) { return Stmt::store(qp_, {i}, qp(i) + q(i, j) * p(j)); });
      return Stmt::seq(
          {Stmt::store(qp_, {i}, real(0)), sum, FunctionWriter::set(pqp_, w_.number(pqp_) + p(i) * qp(i))});
    };
    const auto furthest = [&](const Expr& i) {
      const Expr far = te::abs(qp(i) - w_.number(pqp_));
      return Stmt::branch(w_.number(error_) < far, FunctionWriter::set(error_, far));
    };
    const Expr settled = w_.number(error_) < real(0.005 / static_cast<double>(k_));
    return Stmt::seq({FunctionWriter::set(pqp_, real(0)), FunctionWriter::set(error_, real(0)), each(products),
                      each(furthest),
                      Stmt::branch(settled, FunctionWriter::set(goes_, te::truth(false)),
                                   each([&](const Expr& i) { return move(i); }))});
  }

  Stmt move(const Expr& i) {
    const Expr s = w_.number(step_), more = real(1) + s, pqp = w_.number(pqp_);
    const auto scale = [&](const Expr& j) {
      return Stmt::seq({Stmt::store(qp_, {j}, (qp(j) + s * q(i, j)) / more), Stmt::store(p_, {j}, p(j) / more)});
    };
    return Stmt::seq({FunctionWriter::set(step_, (pqp - qp(i)) / q(i, i)), Stmt::store(p_, {i}, p(i) + s),
                      FunctionWriter::set(pqp_, (pqp + s * (s * q(i, i) + real(2) * qp(i))) / (more * more)),
                      each(scale)});
  }

  FunctionWriter& w_;
  int64_t k_;
  int q_, p_, qp_, pqp_, error_, step_, goes_;
};

}  // namespace

Expected<Lowered> determinants(const Composer& composer, const ir::Graph& g, const ir::Node& n) {
  Assembly a(n.names[0], composer.options.target);
  const Type& type = g.type(n.inputs[0]);
  const std::vector<int64_t> dims = type.shape.values();
  const int64_t size = dims.back();
  int64_t count = 1;
  for (const int64_t d : n.types[0].shape.values()) count *= d;
  if (count == 0) return std::move(a).finish();
  FunctionWriter w("det");
  // A matrix without elements is read nowhere, and has the determinant 1.
  const int x = w.argument(type.dtype, {count, size, size}, false), y = w.argument(type.dtype, {count}, true);
  const te::Axis m = w.axis(count), i = w.axis(size), j = w.axis(size);
  std::vector<Stmt> all;
  Expr result = real(1);
  if (size > 0) {
    Elimination e(w, size);
    const Expr from = te::cast(DType::F64, w.read(x, {Expr(m), Expr(i), Expr(j)}));
    all.push_back(FunctionWriter::over(i, FunctionWriter::over(j, Stmt::store(e.matrix(), {Expr(i), Expr(j)}, from))));
    all.push_back(e.write());
    result = e.result();
  }
  all.push_back(Stmt::store(y, {Expr(m)}, te::cast(type.dtype, result)));
  loop::Function f = std::move(w).finish(FunctionWriter::over(m, Stmt::seq(all), LoopKind::Parallel));
  f.origin = origin_of(n);
  a.add(std::move(f), {{Space::Input, 0, 0}, {Space::Output, 0, 0}});
  return std::move(a).finish();
}

Expected<Lowered> coupled(const Composer& composer, const ir::Graph& g, const ir::Node& n) {
  Assembly a(n.names[0], composer.options.target);
  const std::vector<int64_t> dims = g.type(n.inputs[0]).shape.values();
  if (dims[0] * dims[1] == 0) return std::move(a).finish();
  FunctionWriter w("couple");
  const int x = w.argument(DType::F64, dims, false), y = w.argument(DType::F64, {dims[0], dims[1]}, true);
  const te::Axis row = w.axis(dims[0]), k = w.axis(dims[1]);
  Coupling c(w, dims[1]);
  const Stmt rounds = c.write([&](const Expr& i, const Expr& j) { return w.read(x, {Expr(row), i, j}); });
  const Stmt store = FunctionWriter::over(k, Stmt::store(y, {Expr(row), Expr(k)}, c.result(Expr(k))));
  loop::Function f = std::move(w).finish(FunctionWriter::over(row, Stmt::seq({rounds, store}), LoopKind::Parallel));
  f.origin = origin_of(n);
  a.add(std::move(f), {{Space::Input, 0, 0}, {Space::Output, 0, 0}});
  return std::move(a).finish();
}

}  // namespace isomer::compile
