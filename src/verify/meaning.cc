#include "verify/meaning.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "te/print.h"

namespace isomer::verify {

using te::BinaryOp;
using te::Kind;

namespace {

Term candidate(int wrapped, Form value) {
  Term t;
  t.factors.push_back(wrap(wrapped, std::move(value)));
  return t;
}

}  // namespace

Poly Sizes::poly(const Dim& d) const {
  if (d.is_invalid()) throw GiveUp{"an extent is not known"};
  Poly p;
  for (const Dim::Product& t : d.terms()) {
    Poly product(t.coefficient);
    for (const Dim::Factor& f : t.factors) {
      if (f.kind == Dim::Factor::Kind::Symbol) {
        const auto it = at_least.find(f.name);
        product = product * Poly::atom(atoms->size(f.name, it == at_least.end() ? 1 : it->second));
        continue;
      }
      const Poly a = poly(f.a), b = poly(f.b);
      if (f.kind == Dim::Factor::Kind::FloorDiv) {
        if (!solver->entails(side, b - Poly(1))) throw GiveUp{"a size is divided by one that may be 0"};
        product = product * atoms->quotient(a, b);
        continue;
      }
      const bool max = f.kind == Dim::Factor::Kind::Max;
      if (solver->entails(side, a - b))
        product = product * (max ? a : b);
      else if (solver->entails(side, b - a))
        product = product * (max ? b : a);
      else
        throw NeedsCase{a - b};
    }
    p = p + product;
  }
  return p;
}

std::vector<Poly> Meaning::dims(size_t output) const {
  std::vector<Poly> out;
  for (const Dim& d : builder_->type(outputs_[output]).shape.dims()) out.push_back(sizes_.poly(d));
  return out;
}

std::vector<Poly> Meaning::all_extents() const {
  std::vector<Poly> out;
  for (const ir::Node& n : builder_->graph().nodes())
    for (const Type& t : n.types)
      for (const Dim& d : t.shape.dims()) out.push_back(sizes_.poly(d));
  return out;
}

std::string Meaning::programs() const {
  std::string out;
  for (uint32_t id = 0; id < programs_.size(); ++id)
    if (programs_[id]) out += builder_->graph().node(id).op->name + "\n" + te::print(*programs_[id]) + "\n";
  return out;
}

void Meaning::refuse(const Frame& frame, const std::string& reason) const {
  throw Unsupported{builder_->graph().node(frame.node).op->name, reason};
}

Form Meaning::element(size_t output, const std::vector<Poly>& index, const Guards& context) {
  return value_at(outputs_[output], index, context);
}

Form Meaning::value_at(ir::Value v, const std::vector<Poly>& index, const Guards& context) {
  const ir::Node& n = builder_->graph().node(v.node);
  if (n.op == &ir::input_op()) {
    Term t;
    t.factors.push_back({Factor::Kind::Read, heads_.of(n.names[0]), index, {}});
    if (n.types[0].dtype == DType::Bool) heads_.set_truth(t.factors[0].head);
    return {t};
  }
  if (n.op == &ir::const_op()) {
    const auto* value = n.attrs.get<Tensor>("value");
    if (!value) throw Unsupported{"const", "its sizes are read as data"};
    return constant_at(*value, index);
  }
  const te::Program& p = *programs_[v.node];
  return slot_at({&p, v.node}, p.outputs[v.index], index, context);
}

Form Meaning::literal(double v) {
  if (std::isinf(v) && v < 0) return Form{Term{1, {}, {}, {{Factor::Kind::Read, heads_.of(kLowest), {}, {}}}}};
  // Small dyadic numbers are numbers; any other literal is a value of its own, of which only equality is known.
  const double scaled = v * 4096;
  if (std::abs(v) < 1e6 && scaled == std::floor(scaled))
    return number(Coef(Rational{static_cast<int64_t>(scaled), 1} * Rational{1, 4096}));
  // It is one value however exactly it is written: the literals of graphs and attributes are single floats.
  const double single = std::abs(v) < 1e30 ? static_cast<double>(static_cast<float>(v)) : v;
  Factor f{Factor::Kind::Read, heads_.of(fmt::format("#{}", std::abs(single))), {}, {}};
  if (std::isfinite(v)) heads_.set_not_negative(f.head);
  if (v < 0) return Form{Term{-1, {}, {}, {f}}};
  return Form{Term{1, {}, {}, {f}}};
}

Form Meaning::constant_at(const Tensor& t, const std::vector<Poly>& index) {
  if (!is_float(t.dtype())) {
    const std::vector<int64_t> ints = t.to_ints();
    for (int64_t v : ints)
      if (v != ints[0]) throw Unsupported{"const", "integers are read as data"};
    return ints.empty() ? Form{} : number(ints[0]);
  }
  const std::vector<double> all = t.to_reals();
  bool same = !all.empty();
  for (double v : all) same = same && std::bit_cast<uint64_t>(v) == std::bit_cast<uint64_t>(all[0]);
  if (same) return literal(all[0]);
  Term term;
  term.factors.push_back({Factor::Kind::Read, heads_.of("const " + t.content_hash().hex()), index, {}});
  return {term};
}

void Meaning::check_range(const Frame& frame, const std::string& what, const std::vector<Poly>& index,
                          const std::vector<Poly>& extents, const Guards& context) {
  for (size_t i = 0; i < index.size(); ++i) {
    if (solver_.entails_by_digits(context, index[i]) &&
        solver_.entails_by_digits(context, extents[i] - Poly(1) - index[i]))
      continue;
    // Only what can happen must be in range.
    if (solver_.infeasible(context)) return;
    throw GiveUp{fmt::format("{}: axis {} of {} is read at {}, which is not seen to be inside 0 .. {}",
                             builder_->graph().node(frame.node).op->name, i, what, atoms_.to_string(index[i]),
                             atoms_.to_string(extents[i]))};
  }
}

Form Meaning::slot_at(const Frame& frame, int slot, const std::vector<Poly>& index, const Guards& context) {
  const te::Program& p = *frame.program;
  const auto s = static_cast<size_t>(slot);
  if (s < p.inputs.size()) return value_at(builder_->graph().node(frame.node).inputs[s], index, context);
  const te::Stage& stage = p.stages[s - p.inputs.size()];
  const bool truth = stage.dtype == DType::Bool;
  if (!is_float(stage.dtype) && !truth) heads_.set_wrapping();
  Env env;
  for (size_t i = 0; i < stage.axes.size(); ++i) env[stage.axes[i].id] = index[i];
  if (++depth_ > 400) throw GiveUp{"the graph is too deep"};
  Form f = truth ? truth_value(stage.body, frame, env, context) : real(stage.body, frame, env, context);
  --depth_;
  return f;
}

Form Meaning::apply(const std::string& name, std::vector<Form> args) {
  Term t;
  t.factors.push_back({Factor::Kind::Apply, heads_.of(name), {}, std::move(args)});
  return {t};
}

Form Meaning::largest(std::vector<Term> candidates) {
  Term t;
  Factor f{Factor::Kind::Max, 0, {}, {}};
  f.args.push_back(std::move(candidates));
  t.factors.push_back(std::move(f));
  return {t};
}

Form Meaning::reciprocal(const Form& f) { return apply(kRecip, {f}); }

Form Meaning::real(const te::Expr& e, const Frame& frame, const Env& env, const Guards& context) {
  switch (e->kind) {
    case Kind::Real: return literal(e->real);
    case Kind::Read: return real_read(e, frame, env, context);
    case Kind::Unary: return real_unary(e, frame, env, context);
    case Kind::Binary: return real_binary(e, frame, env, context);
    case Kind::Select: return selected(e, frame, env, context);
    case Kind::Cast: return real_cast(e, frame, env, context);
    case Kind::Reduce: return real_reduce(e, frame, env, context);
    case Kind::Int: return number(e->integer);
    case Kind::Var:
    case Kind::Size: break;
  }
  refuse(frame, "an index is taken for data");
}

Form Meaning::real_read(const te::Expr& e, const Frame& frame, const Env& env, const Guards& context) {
  const std::vector<Dim> dims = frame.program->slot_dims(e->tensor);
  std::vector<Poly> extents;
  for (const Dim& d : dims) extents.push_back(sizes_.poly(d));
  struct Partial {
    Guards guards;
    std::vector<Poly> index;
  };
  std::vector<Partial> all = {{}};
  for (const te::Expr& i : e->args) {
    std::vector<Partial> next;
    for (const Partial& p : all)
      for (const Case& c : integer(i, frame, env, joined(context, p.guards))) {
        Partial q = p;
        q.guards = joined(q.guards, c.guards);
        q.index.push_back(c.value);
        next.push_back(std::move(q));
      }
    all = std::move(next);
    if (all.size() > 64) throw GiveUp{"an index has too many cases"};
  }
  Form out;
  for (const Partial& p : all) {
    const Guards inner = joined(context, p.guards);
    const auto slot = static_cast<size_t>(e->tensor);
    const std::string what = slot < frame.program->inputs.size()
                                 ? frame.program->inputs[slot].name
                                 : frame.program->stages[slot - frame.program->inputs.size()].name;
    check_range(frame, what, p.index, extents, inner);
    out = add(std::move(out), guarded(slot_at(frame, e->tensor, p.index, inner), p.guards));
  }
  return out;
}

Form Meaning::real_unary(const te::Expr& e, const Frame& frame, const Env& env, const Guards& context) {
  Form x = real(e->args[0], frame, env, context);
  if (e->unary == te::UnaryOp::Neg) return scale(std::move(x), -1);
  if (!is_float(e.dtype())) refuse(frame, "a function of integers has no laws here");
  return apply(std::string(te::name(e->unary)), {std::move(x)});
}

Form Meaning::power(const te::Expr& e, const Frame& frame, const Env& env, const Guards& context) {
  const Form x = real(e->args[0], frame, env, context), y = real(e->args[1], frame, env, context);
  const bool plain = y.size() == 1 && y[0].binders.empty() && y[0].guards.empty() && y[0].factors.empty();
  if (const auto exponent = plain ? y[0].coef.rational() : std::nullopt) {
    const double n = static_cast<double>(exponent->num) / static_cast<double>(exponent->den);
    if (n == 0.5) return apply("sqrt", {x});
    if (n >= 1 && n <= 4 && n == std::floor(n)) {
      Form p = x;
      for (int i = 1; i < static_cast<int>(n); ++i) p = multiply(atoms_, p, x);
      return p;
    }
    if (n == -1) return reciprocal(x);
  }
  return apply("pow", {x, y});
}

Form Meaning::real_binary(const te::Expr& e, const Frame& frame, const Env& env, const Guards& context) {
  const bool ring = e->binary == BinaryOp::Add || e->binary == BinaryOp::Sub || e->binary == BinaryOp::Mul;
  // Of integers that wrap only these have laws; a minimum is no maximum of negatives there.
  if (!is_float(e.dtype()) && !((ring && e.dtype() != DType::Bool) || e->binary == BinaryOp::Max))
    refuse(frame, "an operation on integers has no laws here");
  if (e->binary == BinaryOp::Pow) return power(e, frame, env, context);
  const Form a = real(e->args[0], frame, env, context), b = real(e->args[1], frame, env, context);
  const int wrapped = heads_.of(kWrap);
  switch (e->binary) {
    case BinaryOp::Add: return add(a, b);
    case BinaryOp::Sub: return add(a, scale(b, -1));
    case BinaryOp::Mul: return multiply(atoms_, a, b);
    case BinaryOp::Div: return multiply(atoms_, a, reciprocal(b));
    case BinaryOp::Max: return largest({candidate(wrapped, a), candidate(wrapped, b)});
    case BinaryOp::Min: return scale(largest({candidate(wrapped, scale(a, -1)), candidate(wrapped, scale(b, -1))}), -1);
    default: return apply(std::string(te::name(e->binary)), {a, b});
  }
}

Form Meaning::real_cast(const te::Expr& e, const Frame& frame, const Env& env, const Guards& context) {
  const te::Expr& x = e->args[0];
  if (e.dtype() == x.dtype()) return real(x, frame, env, context);
  if (!is_float(e.dtype())) refuse(frame, "a cast to integers has no laws here");
  if (is_float(x.dtype())) {
    // Widening keeps every number; narrowing rounds, and nothing is known of that.
    const bool narrows = size_of(e.dtype()) <= size_of(x.dtype());
    Form value = real(x, frame, env, context);
    return narrows ? apply("round_" + std::string(isomer::name(e.dtype())), {std::move(value)}) : value;
  }
  if (x.dtype() == DType::Bool) return truth_value(x, frame, env, context);
  Form out;
  for (const Case& c : integer(x, frame, env, context)) {
    Form v = number(Coef::of(c.value));
    if (!atoms_.sizes_only(c.value))
      v = Form{Term{1, {}, {}, {{Factor::Kind::Read, heads_.of("#int"), {c.value}, {}}}}};
    out = add(std::move(out), guarded(std::move(v), c.guards));
  }
  return out;
}

Form Meaning::real_reduce(const te::Expr& e, const Frame& frame, const Env& env, const Guards& context) {
  Env inner = env;
  std::vector<AtomId> binders;
  Guards ranges;
  for (const te::Axis& a : e->axes) {
    const AtomId k = atoms_.fresh(AtomKind::Bound, "k");
    binders.push_back(k);
    inner[a.id] = Poly::atom(k);
    ranges.push_back(Poly::atom(k));
    ranges.push_back(sizes_.poly(a.extent) - Poly(1) - Poly::atom(k));
  }
  std::vector<Guards> cells = {{}};
  if (!(e->args[1]->kind == Kind::Int && e->args[1]->integer != 0))
    cells = truth(e->args[1], frame, inner, joined(context, ranges)).yes;
  const bool sum = e->combiner == te::Combiner::Sum;
  const bool max = e->combiner == te::Combiner::Max, min = e->combiner == te::Combiner::Min;
  if (!is_float(e.dtype()) && (min || e.dtype() == DType::Bool))
    refuse(frame, "a reduction of integers has no laws here");
  if (!sum && !max && !min) refuse(frame, "it has a product or the position of an extremum");
  Form out;
  for (const Guards& cell : cells) {
    const Guards guards = joined(ranges, cell);
    const Guards all = joined(context, guards);
    if (solver_.infeasible(all)) continue;
    Form body = real(e->args[0], frame, inner, all);
    if (!sum) body = {candidate(heads_.of(kWrap), scale(std::move(body), max ? 1 : -1))};
    for (Term& t : body) {
      t.binders.insert(t.binders.end(), binders.begin(), binders.end());
      t.guards = joined(guards, t.guards);
      out.push_back(cells.size() > 1 ? renamed(atoms_, t) : std::move(t));
    }
  }
  // Several terms share the binders they were made with: each gets its own.
  if (out.size() > 1)
    for (Term& t : out) t = renamed(atoms_, t);
  if (sum) return out;
  return scale(largest(std::move(out)), max ? 1 : -1);
}

}  // namespace isomer::verify
