// Elements written where data says. Lines along the axis do not meet each other, so they are tasks; elements of one line are
// written in their order.
#include <algorithm>

#include "compile/assembly.h"
#include "compile/function_writer.h"
#include "compile/procedures.h"
#include "compile/step_loops.h"

namespace isomer::compile {

using loop::LoopKind;
using loop::Stmt;
using te::Expr;

namespace {

Expr combined(const ir::Node& n, const Expr& old, const Expr& update) {
  const std::string* name = n.attrs.get<std::string>("reduction");
  const bool logical = old.dtype() == DType::Bool;
  if (!name || *name == "none") return update;
  if (*name == "add") return te::binary(logical ? te::BinaryOp::Or : te::BinaryOp::Add, old, update);
  if (*name == "mul") return te::binary(logical ? te::BinaryOp::And : te::BinaryOp::Mul, old, update);
  if (*name == "max") return te::binary(logical ? te::BinaryOp::Or : te::BinaryOp::Max, old, update);
  return te::binary(logical ? te::BinaryOp::And : te::BinaryOp::Min, old, update);
}

bool combines(const ir::Node& n) {
  const std::string* name = n.attrs.get<std::string>("reduction");
  return name && *name != "none";
}

// What is only moved keeps every bit.
DType moved_as(const ir::Node& n, DType type) { return combines(n) ? type : bits_of(type); }

Expr from_the_end(const Expr& index, int64_t extent) {
  const Expr i = te::cast(DType::I64, index);
  return te::select(i < Expr(0), i + Expr(extent), i);
}

class Scatter {
 public:
  Scatter(const Composer& composer, const ir::Graph& g, const ir::Node& n)
      : n_(n), data_(g.type(n.inputs[0])), a_(n.names[0], composer.options.target) {
    for (const ir::Value& v : n.inputs)
      if (!v.is_none()) types_.push_back(g.type(v));
    dims_ = data_.shape.values();
    if (elements_of(dims_) == 0) return;
    loop::Function copy = copy_loops(data_.dtype, elements_of(dims_));
    copy.origin = origin_of(n);
    a_.add(std::move(copy), {{Space::Input, 0, 0}, {Space::Output, 0, 0}},
           2.0 * static_cast<double>(elements_of(dims_)) * static_cast<double>(size_of(data_.dtype)));
  }

  std::vector<int64_t> dims(size_t input) const { return types_[input].shape.values(); }
  DType index_type() const { return types_[1].dtype; }
  DType element() const { return moved_as(n_, data_.dtype); }
  const std::vector<int64_t>& data() const { return dims_; }

  Expected<Lowered> finish(loop::Function f) && {
    f.origin = origin_of(n_);
    a_.add(std::move(f), {{Space::Input, 1, 0}, {Space::Input, 2, 0}, {Space::Output, 0, 0}});
    return std::move(a_).finish();
  }
  Expected<Lowered> unchanged() && { return std::move(a_).finish(); }

 private:
  const ir::Node& n_;
  const Type data_;
  std::vector<Type> types_;
  std::vector<int64_t> dims_;
  Assembly a_;
};

}  // namespace

Expected<Lowered> scatter_elements(const Composer& composer, const ir::Graph& g, const ir::Node& n) {
  Scatter s(composer, g, n);
  const std::vector<int64_t> where = s.dims(1);
  if (elements_of(where) == 0 || elements_of(s.data()) == 0) return std::move(s).unchanged();
  const auto rank = static_cast<int64_t>(where.size());
  const int64_t* given = n.attrs.get<int64_t>("axis");
  const auto axis = static_cast<size_t>(given ? *given < 0 ? *given + rank : *given : 0);
  FunctionWriter w("scatter");
  const int indices = w.argument(s.index_type(), where, false), updates = w.argument(s.element(), where, false),
            out = w.argument(s.element(), s.data(), true);
  std::vector<te::Axis> axes;
  std::vector<Expr> from, to;
  for (const int64_t d : where) from.emplace_back(axes.emplace_back(w.axis(d)));
  to = from;
  to[axis] = from_the_end(w.read(indices, from), s.data()[axis]);
  Stmt body = Stmt::store(out, to, combined(n, w.read(out, to), w.read(updates, from)));
  // The longest axis of lines is that of the tasks; the axis itself stays inside of it.
  size_t tasks = axis;
  for (size_t d = 0; d < axes.size(); ++d)
    if (d != axis && (tasks == axis || where[d] > where[tasks])) tasks = d;
  for (size_t d = axes.size(); d-- > 0;)
    if (d != tasks) body = FunctionWriter::over(axes[d], std::move(body));
  if (!axes.empty())
    body = FunctionWriter::over(axes[tasks], std::move(body), tasks == axis ? LoopKind::Serial : LoopKind::Parallel);
  return std::move(s).finish(std::move(w).finish(std::move(body)));
}

Expected<Lowered> scatter_nd(const Composer& composer, const ir::Graph& g, const ir::Node& n) {
  Scatter s(composer, g, n);
  std::vector<int64_t> where = s.dims(1);
  const auto depth = static_cast<size_t>(where.back());
  where.pop_back();
  const std::vector<int64_t>& data = s.data();
  const int64_t count = elements_of(where),
                slice = elements_of({data.begin() + static_cast<ptrdiff_t>(depth), data.end()});
  if (count * slice == 0) return std::move(s).unchanged();
  std::vector<int64_t> dims(data.begin(), data.begin() + static_cast<ptrdiff_t>(depth));
  dims.push_back(slice);
  FunctionWriter w("scatter");
  const int indices = w.argument(s.index_type(), {count, std::max<int64_t>(1, static_cast<int64_t>(depth))}, false),
            updates = w.argument(s.element(), {count, slice}, false), out = w.argument(s.element(), dims, true);
  const te::Axis p = w.axis(count), e = w.axis(slice);
  std::vector<Expr> to;
  for (size_t k = 0; k < depth; ++k)
    to.push_back(from_the_end(w.read(indices, {Expr(p), Expr(static_cast<int64_t>(k))}), data[k]));
  to.emplace_back(e);
  const Stmt body = Stmt::store(out, to, combined(n, w.read(out, to), w.read(updates, {Expr(p), Expr(e)})));
  return std::move(s).finish(std::move(w).finish(FunctionWriter::over(p, FunctionWriter::over(e, body))));
}

// An index counts in the shape that was pooled; what is outside of the result is left out, what is outside of that shape is an
// error.
Expected<Lowered> max_unpool(const Composer& composer, const ir::Graph& g, const ir::Node& n) {
  Assembly a(n.names[0], composer.options.target);
  const std::vector<int64_t> in = g.type(n.inputs[0]).shape.values(), to = n.types[0].shape.values();
  if (elements_of(to) == 0) return cannot_compile(n, "its result is empty");
  // Without the window's own shape here: the node without its third input has it as its type.
  ir::GraphBuilder b(composer.table, "natural");
  ISOMER_TRY(const ir::Value x, b.input("x", g.type(n.inputs[0])));
  ISOMER_TRY(const ir::Value i, b.input("i", g.type(n.inputs[1])));
  ISOMER_TRY(const std::vector<ir::Value> natural, b.add(*n.op, {x, i}, n.attrs));
  if (!b.type(natural[0]).shape.is_static()) return cannot_compile(n, "the shape that was pooled is not known");
  const std::vector<int64_t> from = b.type(natural[0]).shape.values();
  const DType type = n.types[0].dtype, bits = bits_of(type);
  FunctionWriter zero("zero");
  const int cleared = zero.argument(bits, {elements_of(to)}, true);
  const te::Axis z = zero.axis(elements_of(to));
  loop::Function clear =
      std::move(zero).finish(FunctionWriter::over(z, Stmt::store(cleared, {Expr(z)}, Expr::integer(bits, 0))));
  clear.origin = origin_of(n);
  a.add(std::move(clear), {{Space::Output, 0, 0}});
  if (elements_of(in) == 0) return std::move(a).finish();
  FunctionWriter w("unpool");
  const int values = w.argument(bits, {elements_of(in)}, false),
            indices = w.argument(DType::I64, {elements_of(in)}, false), out = w.argument(bits, to, true);
  const te::Axis p = w.axis(elements_of(in));
  const Expr at = w.read(indices, {Expr(p)});
  const Expr wrong = at < Expr(0) || at >= Expr(elements_of(from));
  std::vector<Expr> places;
  std::vector<Expr> inside;
  int64_t step = elements_of(from);
  for (size_t d = 0; d < from.size(); ++d) {
    step /= from[d];
    Expr place = te::floor_mod(te::floor_div(at, Expr(step)), Expr(from[d]));
    inside.push_back(place < Expr(to[d]));
    places.push_back(te::select(wrong, Expr(-1), place));
  }
  const Stmt put = Stmt::store(out, places, w.read(values, {Expr(p)}));
  loop::Function f = std::move(w).finish(FunctionWriter::over(p, Stmt::branch(wrong || te::all_of(inside), put)));
  f.origin = origin_of(n);
  a.add(std::move(f), {{Space::Input, 0, 0}, {Space::Input, 1, 0}, {Space::Output, 0, 0}});
  return std::move(a).finish();
}

}  // namespace isomer::compile
