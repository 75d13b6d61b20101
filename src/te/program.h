// Program: the meaning of one operator at given types: tensors computed stage by stage, each element by an expression
// over its axes that reads inputs and earlier stages. Builder is how operator records write one.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "te/expr.h"
#include "tensor/type.h"

namespace isomer::te {

struct Source {  // a tensor that the program reads
  std::string name;
  DType dtype;
  std::vector<Dim> dims;
};

struct Stage {
  std::string name;
  DType dtype;             // elements are rounded or wrapped to it when stored
  std::vector<Axis> axes;  // one per dimension, in order
  Expr body;
};

// Slots number the tensors a Read may name: inputs first, then stages in order. A stage reads earlier slots only.
struct Program {
  std::vector<Source> inputs;
  std::vector<Stage> stages;
  std::vector<int> outputs;  // slots, one per operator output

  DType slot_dtype(int slot) const;
  std::vector<Dim> slot_dims(int slot) const;
};

// The same inputs, stages (names, axis ids and extents, bodies in structure) and outputs.
bool equal(const Program& a, const Program& b);

class Builder;

// A tensor that expressions may read: an input or a finished stage.
class Handle {
 public:
  Handle() = default;
  Handle(int slot, DType dtype, std::vector<Dim> dims) : slot_(slot), dtype_(dtype), dims_(std::move(dims)) {}
  int slot() const { return slot_; }
  DType dtype() const { return dtype_; }
  size_t rank() const { return dims_.size(); }
  const Dim& dim(size_t i) const { return dims_[i]; }
  const std::vector<Dim>& dims() const { return dims_; }

  Expr at(std::vector<Expr> indices) const;
  template <class... I>
  Expr operator()(const I&... indices) const {
    return at({Expr(indices)...});
  }
  // Reads with numpy broadcasting: `indices` belong to a shape of at least this rank; axes of extent 1 read at 0.
  Expr broadcast(std::span<const Expr> indices) const;

 private:
  int slot_ = -1;
  DType dtype_ = DType::F32;
  std::vector<Dim> dims_;
};

class Builder {
 public:
  Handle input(std::string name, DType dtype, std::vector<Dim> dims);  // all inputs before the first stage
  Axis axis(std::string name, const Dim& extent);
  std::vector<Axis> axes(std::string_view prefix, std::span<const Dim> extents);  // prefix0, prefix1, ...

  Handle stage(std::string name, DType dtype, std::vector<Axis> axes, Expr body);
  // A stage of the given shape whose body is written in terms of its indices.
  using Body = std::function<Expr(std::span<const Expr>)>;
  Handle map(std::string name, DType dtype, std::span<const Dim> dims, const Body& body);

  Program finish(std::vector<Handle> outputs);

 private:
  Program program_;
  int next_axis_ = 0;
};

std::vector<Expr> exprs(std::span<const Axis> axes);
// Position of `indices` in a row-major array of `dims`, and its inverse.
Expr flatten(std::span<const Expr> indices, std::span<const Dim> dims);
std::vector<Expr> unflatten(Expr position, std::span<const Dim> dims);
// table[i] for small constant tables, as nested selects.
Expr lookup(const Expr& i, std::span<const Expr> table);

}  // namespace isomer::te
