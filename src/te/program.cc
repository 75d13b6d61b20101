#include "te/program.h"

#include <algorithm>

#include "base/check.h"

namespace isomer::te {

DType Program::slot_dtype(int slot) const {
  const auto s = static_cast<size_t>(slot);
  return s < inputs.size() ? inputs[s].dtype : stages[s - inputs.size()].dtype;
}

std::vector<Dim> Program::slot_dims(int slot) const {
  const auto s = static_cast<size_t>(slot);
  if (s < inputs.size()) return inputs[s].dims;
  std::vector<Dim> dims;
  for (const Axis& a : stages[s - inputs.size()].axes) dims.push_back(a.extent);
  return dims;
}

bool equal(const Program& a, const Program& b) {
  const auto same_axes = [](const std::vector<Axis>& x, const std::vector<Axis>& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](const Axis& i, const Axis& j) {
      return i.id == j.id && i.name == j.name && i.extent == j.extent;
    });
  };
  const auto same_source = [](const Source& x, const Source& y) {
    return x.name == y.name && x.dtype == y.dtype && x.dims == y.dims;
  };
  const auto same_stage = [&](const Stage& x, const Stage& y) {
    return x.name == y.name && x.dtype == y.dtype && same_axes(x.axes, y.axes) && equal(x.body, y.body);
  };
  return a.outputs == b.outputs &&
         std::equal(a.inputs.begin(), a.inputs.end(), b.inputs.begin(), b.inputs.end(), same_source) &&
         std::equal(a.stages.begin(), a.stages.end(), b.stages.begin(), b.stages.end(), same_stage);
}

Expr Handle::at(std::vector<Expr> indices) const {
  ISOMER_ASSERT(indices.size() == dims_.size(), "a read has one index per dimension");
  return Expr::read(slot_, dtype_, std::move(indices));
}

Expr Handle::broadcast(std::span<const Expr> indices) const {
  ISOMER_ASSERT(indices.size() >= dims_.size(), "broadcast to a shape of at least this rank");
  std::vector<Expr> own;
  for (size_t i = 0; i < dims_.size(); ++i)
    own.push_back(dims_[i] == Dim(1) ? Expr(0) : indices[indices.size() - dims_.size() + i]);
  return at(std::move(own));
}

Handle Builder::input(std::string name, DType dtype, std::vector<Dim> dims) {
  ISOMER_ASSERT(program_.stages.empty(), "inputs come before stages");
  program_.inputs.push_back({std::move(name), dtype, dims});
  return Handle(static_cast<int>(program_.inputs.size()) - 1, dtype, std::move(dims));
}

Axis Builder::axis(std::string name, const Dim& extent) { return {next_axis_++, std::move(name), extent}; }

std::vector<Axis> Builder::axes(std::string_view prefix, std::span<const Dim> extents) {
  std::vector<Axis> out;
  for (size_t i = 0; i < extents.size(); ++i) out.push_back(axis(std::string(prefix) + std::to_string(i), extents[i]));
  return out;
}

Handle Builder::stage(std::string name, DType dtype, std::vector<Axis> axes, Expr body) {
  ISOMER_ASSERT(body.dtype() == dtype, "a stage's body has the stage's type: " + name);
  std::vector<Dim> dims;
  for (const Axis& a : axes) dims.push_back(a.extent);
  program_.stages.push_back({std::move(name), dtype, std::move(axes), std::move(body)});
  return Handle(static_cast<int>(program_.inputs.size() + program_.stages.size()) - 1, dtype, std::move(dims));
}

Handle Builder::map(std::string name, DType dtype, std::span<const Dim> dims, const Body& body) {
  std::vector<Axis> own = axes("i", dims);
  const std::vector<Expr> indices = exprs(own);
  return stage(std::move(name), dtype, std::move(own), body(indices));
}

Program Builder::finish(std::vector<Handle> outputs) {
  for (const Handle& h : outputs) program_.outputs.push_back(h.slot());
  return std::move(program_);
}

std::vector<Expr> exprs(std::span<const Axis> axes) { return {axes.begin(), axes.end()}; }

Expr flatten(std::span<const Expr> indices, std::span<const Dim> dims) {
  Expr position(0);
  for (size_t i = 0; i < indices.size(); ++i) position = i == 0 ? indices[0] : position * Expr(dims[i]) + indices[i];
  return position;
}

std::vector<Expr> unflatten(Expr position, std::span<const Dim> dims) {
  std::vector<Expr> out(dims.size());
  for (size_t i = dims.size(); i-- > 0;) {
    out[i] = i == 0 ? position : floor_mod(position, Expr(dims[i]));
    if (i > 0) position = floor_div(position, Expr(dims[i]));
  }
  return out;
}

Expr lookup(const Expr& i, std::span<const Expr> table) {
  ISOMER_ASSERT(!table.empty(), "lookup in an empty table");
  // Balanced, so that the depth stays small however long the table is.
  const std::function<Expr(size_t, size_t)> pick = [&](size_t from, size_t to) -> Expr {
    if (to - from == 1) return table[from];
    const size_t middle = from + (to - from) / 2;
    return select(i < Expr(static_cast<int64_t>(middle)), pick(from, middle), pick(middle, to));
  };
  return pick(0, table.size());
}

}  // namespace isomer::te
