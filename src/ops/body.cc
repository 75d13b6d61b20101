#include "ops/body.h"

#include <fmt/format.h>

#include <cstring>

namespace isomer::ops {

ir::AttrDef captures_attr() {
  return {.name = "captures", .kind = ir::AttrKind::Int, .standard = ir::AttrValue(int64_t{0})};
}

Expected<size_t> capture_count(const ir::OpContext& c) {
  const int64_t n = c.integer("captures");
  if (n < 0 || static_cast<uint64_t>(n) > c.input_count())
    return c.error(fmt::format("'captures' is {}, expected a number of its {} inputs", n, c.input_count()));
  for (size_t i = c.input_count() - static_cast<size_t>(n); i < c.input_count(); ++i)
    if (!c.has(i)) return c.error("a captured value is missing");
  return static_cast<size_t>(n);
}

std::vector<Tensor> captured_values(const ir::OpContext& c, size_t captures) {
  std::vector<Tensor> out;
  for (size_t i = c.input_count() - captures; i < c.input_count(); ++i) out.push_back(*c.value(i));
  return out;
}

Expected<ir::GraphRef> body_of(const ir::OpContext& c, std::string_view attr, size_t own, size_t captures,
                               size_t results) {
  ir::GraphRef g = c.graph(attr);
  if (!g) return c.error(fmt::format("attribute '{}' holds no graph", attr));
  if (g->input_count() != own + captures)
    return c.error(fmt::format("graph '{}' has {} inputs, expected {}", attr, g->input_count(), own + captures));
  if (g->outputs().size() < results)
    return c.error(fmt::format("graph '{}' has {} outputs, expected at least {}", attr, g->outputs().size(), results));
  return g;
}

void BodySizes::bind(const Type& inner, const Type& outer) {
  if (!inner.shape.has_rank() || !outer.shape.has_rank() || inner.shape.rank() != outer.shape.rank()) return;
  for (size_t i = 0; i < inner.shape.rank(); ++i)
    if (const auto s = inner.shape[i].as_symbol()) sizes_.emplace(*s, outer.shape[i]);
}

void BodySizes::bind_captures(const ir::OpContext& c, const ir::Graph& body, size_t captures) {
  for (size_t k = 1; k <= captures; ++k)
    bind(body.inputs()[body.input_count() - k].types[0], c.type(c.input_count() - k));
}

Type BodySizes::outside(const Type& inner) const {
  Type t = inner;
  if (!t.shape.has_rank()) return t;
  std::vector<Dim> dims = t.shape.dims();
  for (Dim& d : dims) {
    std::vector<std::string> symbols;
    d.symbols(symbols);
    bool known = true;
    for (const std::string& s : symbols) known = known && sizes_.contains(s);
    d = !known ? Dim::invalid()
               : d.substitute([&](const std::string& s) -> std::optional<Dim> { return sizes_.at(s); });
  }
  t.shape = Shape(std::move(dims));
  return t;
}

Expected<void> check_passes(const ir::OpContext& c, const std::string& what, const Type& inner, const Type& outer) {
  bool fits = inner.dtype == outer.dtype;
  if (inner.shape.has_rank() && outer.shape.has_rank()) {
    fits = fits && inner.shape.rank() == outer.shape.rank();
    for (size_t i = 0; fits && i < inner.shape.rank(); ++i)
      fits = !inner.shape[i].is_const() || !outer.shape[i].is_const() || inner.shape[i] == outer.shape[i];
  }
  if (fits) return {};
  return c.error(
      fmt::format("{} is {} in the body, the value passed to it is {}", what, inner.to_string(), outer.to_string()));
}

Expected<Type> join(const ir::OpContext& c, const Type& a, const Type& b) {
  if (a.dtype != b.dtype)
    return c.error(fmt::format("one value would be both {} and {}", a.to_string(), b.to_string()));
  Type t = a;
  if (!a.shape.has_rank() || !b.shape.has_rank() || a.shape.rank() != b.shape.rank()) {
    t.shape = Shape::unknown();
    return t;
  }
  std::vector<Dim> dims = a.shape.dims();
  for (size_t i = 0; i < dims.size(); ++i)
    if (!(dims[i] == b.shape[i])) dims[i] = Dim::invalid();
  t.shape = Shape(std::move(dims));
  return t;
}

Shape with_axis(const Shape& shape, size_t axis, const Dim& extent) {
  if (!shape.has_rank()) return shape;
  std::vector<Dim> dims = shape.dims();
  dims.insert(dims.begin() + static_cast<ptrdiff_t>(axis), extent);
  return Shape(std::move(dims));
}

Expected<bool> truth_of(const ir::OpContext& c, const Tensor& t, const std::string& what) {
  if (t.dtype() != DType::Bool || t.size() != 1)
    return c.error(fmt::format("{} is {}, expected one bool", what, t.type().to_string()));
  return t.integer(0) != 0;
}

Tensor single(Tensor value, const Type& declared) {
  if (value.size() != 1 || !declared.shape.has_rank() || declared.shape.rank() == value.rank()) return value;
  return value.reshaped(std::vector<int64_t>(declared.shape.rank(), 1));
}

namespace {

// Element for element the same as its only input.
bool is_copy(const ir::Graph& g, const ir::Node& n, const ir::OpTable& table) {
  if (!n.op->compute || n.inputs.size() != 1 || n.inputs[0].is_none() || n.types.size() != 1) return false;
  const Type& type = g.type(n.inputs[0]);
  if (!type.shape.has_rank() || !(type == n.types[0])) return false;
  const ir::OpContext c(*n.op, {{true, type, nullptr, nullptr}}, n.attrs, 1, table);
  const auto p = n.op->compute(c);
  if (!p.ok() || p->stages.size() != 1 || p->outputs != std::vector<int>{1}) return false;
  const te::Stage& s = p->stages[0];
  if (s.body->kind != te::Kind::Read || s.body->tensor != 0 || s.body->args.size() != s.axes.size()) return false;
  for (size_t i = 0; i < s.axes.size(); ++i)
    if (s.body->args[i]->kind != te::Kind::Var || s.body->args[i]->var != s.axes[i].id) return false;
  return true;
}

}  // namespace

ir::Value source_of(const ir::Graph& g, ir::Value v, const ir::OpTable& table) {
  while (v.node >= g.input_count() && is_copy(g, g.node(v.node), table)) v = g.node(v.node).inputs[0];
  return v;
}

Expected<void> Stacker::push(const ir::OpContext& c, const Tensor& t) {
  if (count_ == 0) {
    dtype_ = t.dtype();
    dims_ = t.dims();
  } else if (t.dtype() != dtype_ || t.dims() != dims_) {
    return c.error(
        fmt::format("an iteration gives {} where an earlier one gave {}; results that are stacked keep one shape",
                    t.type().to_string(), Type{dtype_, Shape::of(dims_), nullptr}.to_string()));
  }
  ++count_;
  // The limit of one value holds for the sum, long before memory is short.
  std::vector<int64_t> dims = dims_;
  dims.insert(dims.begin(), count_);
  ISOMER_TRY(const int64_t elements, checked_elements(dtype_, dims));
  if (elements > (int64_t{1} << 34) / static_cast<int64_t>(std::max<size_t>(1, size_of(dtype_))))
    return c.error("the stacked results of the iterations exceed 16 GiB");
  bytes_.insert(bytes_.end(), t.bytes(), t.bytes() + t.byte_size());
  return {};
}

Expected<Tensor> Stacker::stack(const ir::OpContext& c, int64_t axis, bool reversed, const Type& element) const {
  std::vector<int64_t> dims = dims_;
  DType dtype = dtype_;
  if (count_ == 0) {
    dims.clear();
    dtype = element.dtype;
    if (element.shape.has_rank())
      for (const Dim& d : element.shape.dims()) dims.push_back(d.is_const() ? std::max<int64_t>(0, d.value()) : 0);
  }
  ISOMER_TRY(const size_t at, c.axis(axis, dims.size() + 1));
  int64_t outer = 1, inner = static_cast<int64_t>(size_of(dtype));
  for (size_t i = 0; i < dims.size(); ++i) (i < at ? outer : inner) *= dims[i];
  dims.insert(dims.begin() + static_cast<ptrdiff_t>(at), count_);
  ISOMER_CHECK_OK(checked_elements(dtype, dims));
  Tensor out(dtype, dims);
  if (out.byte_size() == 0) return out;
  std::byte* to = out.mutable_bytes();
  const auto run = static_cast<size_t>(inner);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t t = 0; t < count_; ++t) {
      const int64_t place = reversed ? count_ - 1 - t : t;
      std::memcpy(to + (o * count_ + place) * inner, bytes_.data() + (t * outer + o) * inner, run);
    }
  return out;
}

Tensor slice_at(const Tensor& t, size_t axis, int64_t index) {
  std::vector<int64_t> dims = t.dims();
  const int64_t extent = dims[axis];
  int64_t outer = 1, inner = static_cast<int64_t>(size_of(t.dtype()));
  for (size_t i = 0; i < dims.size(); ++i)
    if (i != axis) (i < axis ? outer : inner) *= dims[i];
  dims.erase(dims.begin() + static_cast<ptrdiff_t>(axis));
  Tensor out(t.dtype(), dims);
  if (out.byte_size() == 0) return out;
  std::byte* to = out.mutable_bytes();
  for (int64_t o = 0; o < outer; ++o)
    std::memcpy(to + o * inner, t.bytes() + (o * extent + index) * inner, static_cast<size_t>(inner));
  return out;
}

}  // namespace isomer::ops
