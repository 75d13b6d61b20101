// Pools: a window slides over the spatial axes and each of its positions gives one number.
#include <fmt/format.h>

#include "ir/graph.h"
#include "ir/op.h"
#include "ops/window.h"

namespace isomer::ops {
namespace {

using ir::AttrKind;
using te::Expr;

constexpr DTypeSet kMaxPoolTypes = kFloats | DType::I8 | DType::U8;

struct Pool {
  Window window;
  std::vector<Dim> out;  // [N, C, spatial...]
};

Expected<Pool> pool(const ir::OpContext& c) {
  ISOMER_TRY(const std::vector<Dim> input, spatial_dims(c, 0));
  ISOMER_TRY(const std::vector<Dim> kernel, pool_kernel(c, input.size()));
  Pool p;
  ISOMER_TRY(p.window, make_window(c, input, kernel));
  ISOMER_CHECK_OK(check_pool_pads(c, p.window));
  p.out = {c.dim(0, 0), c.dim(0, 1)};
  p.out.insert(p.out.end(), p.window.out.begin(), p.window.out.end());
  return p;
}

std::vector<ir::AttrDef> pool_attrs(std::vector<ir::AttrDef> more) {
  more.push_back({"auto_pad", AttrKind::String, std::string("NOTSET")});
  more.push_back({"ceil_mode", AttrKind::Int, int64_t{0}});
  more.push_back({.name = "dilations", .kind = AttrKind::Ints, .symbolic = true});
  more.push_back({.name = "kernel_shape", .kind = AttrKind::Ints, .required = true, .symbolic = true});
  more.push_back({.name = "pads", .kind = AttrKind::Ints, .symbolic = true});
  more.push_back({.name = "strides", .kind = AttrKind::Ints, .symbolic = true});
  return more;
}

// What a pool's expression is written with at output index i.
struct Taps {
  std::vector<te::Axis> axes;
  std::vector<Expr> k, position;
  Expr value;  // x under the tap
  Expr guard;  // empty when every tap is inside the input
};

Taps taps(te::Builder& b, const Pool& p, const te::Handle& x, std::span<const Expr> i) {
  Taps t;
  t.axes = b.axes("k", p.window.kernel);
  t.k = te::exprs(t.axes);
  t.position = p.window.positions(i.subspan(2), t.k);
  std::vector<Expr> at = {i[0], i[1]};
  at.insert(at.end(), t.position.begin(), t.position.end());
  t.value = x.at(at);
  t.guard = p.window.guard(i.subspan(2), t.k);
  return t;
}

// How many taps of the window count for a mean, as a number of type `dtype`.
Expr tap_count(te::Builder& b, const Window& w, DType dtype, std::span<const Expr> o, bool include_pad) {
  const std::vector<te::Axis> axes = b.axes("t", w.kernel);
  const std::vector<Expr> k = te::exprs(axes);
  const Expr guard = include_pad ? w.padded_guard(o, k) : w.guard(o, k);
  // Not `!guard`, which would be the expression's own negation.
  if (guard.empty()) {
    Dim all(1);
    for (const Dim& d : w.kernel) all = all * d;
    return all.is_const() ? Expr::real(dtype, static_cast<double>(all.value())) : cast(dtype, Expr(all));
  }
  const Expr count = te::sum(axes, Expr::real(dtype, 1), guard);
  bool holes = false;
  for (const Dim& d : w.dilation) holes |= !(d == Dim(1));
  // A dilated window may straddle a small input without touching it: its mean is 0, not 0 / 0.
  return holes ? max(count, Expr::real(dtype, 1)) : count;
}

// Row-major position of a tap's element in the input; storage_order 1 counts the spatial axes column-major.
Expr flat_index(const ir::OpContext& c, std::span<const Expr> i, std::span<const Expr> position) {
  std::vector<Expr> index = {i[0], i[1]};
  std::vector<Dim> dims = {c.dim(0, 0), c.dim(0, 1)};
  const size_t n = position.size();
  for (size_t a = 0; a < n; ++a) {
    const size_t axis = c.integer("storage_order") == 0 ? a : n - 1 - a;
    index.push_back(position[axis]);
    dims.push_back(c.dim(0, 2 + axis));
  }
  return te::flatten(index, dims);
}

}  // namespace

ir::OpDef op_max_pool() {
  ir::OpDef op;
  op.name = "max_pool";
  op.doc = "Largest element under each position of a sliding window, and where it was found.";
  op.inputs = {{"x", "T", kMaxPoolTypes}};
  op.outputs = {{"y", "T"}, {"indices", "i64", ir::Arity::Optional}};
  op.attrs = pool_attrs({{"storage_order", AttrKind::Int, int64_t{0}}});
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    te::Builder b;
    const auto in = c.declare(b);
    ISOMER_TRY(const Pool p, pool(c));
    if (const int64_t order = c.integer("storage_order"); order != 0 && order != 1)
      return c.error(fmt::format("storage_order is {}, expected 0 or 1", order));
    std::vector<te::Handle> out = {b.map("y", c.dtype(0), p.out, [&](auto i) {
      const Taps t = taps(b, p, in[0], i);
      return te::reduce(te::Combiner::Max, t.axes, t.value, t.guard);
    })};
    if (c.output_count() > 1) {
      const te::Handle which = b.map("tap", DType::I64, p.out, [&](auto i) {
        const Taps t = taps(b, p, in[0], i);
        return te::reduce(te::Combiner::ArgMax, t.axes, t.value, t.guard);
      });
      out.push_back(b.map("indices", DType::I64, p.out, [&](auto i) {
        const std::vector<Expr> k = te::unflatten(which.at({i.begin(), i.end()}), p.window.kernel);
        return flat_index(c, i, p.window.positions(i.subspan(2), k));
      }));
    }
    return b.finish(out);
  };
  op.samples = {"max_pool(f32[1,2,5,6]){kernel_shape=[2,3], strides=[2,1]}",
                "max_pool(f32[1,1,7]){kernel_shape=[3], pads=[1,1], dilations=[2], ceil_mode=1, strides=[2]}",
                "max_pool(i8[1,2,4,4]){kernel_shape=[3,3], auto_pad=\"SAME_UPPER\", strides=[2,2]}"};
  op.onnx = {{.type = "MaxPool", .since = {1, 8, 10, 11, 12, 22}, .stable = 12}};
  return op;
}

ir::OpDef op_average_pool() {
  ir::OpDef op;
  op.name = "average_pool";
  op.doc = "Mean of the elements under each position of a sliding window; count_include_pad also counts the padding.";
  op.inputs = {{"x", "T", kFloats}};
  op.outputs = {{"y", "T"}};
  op.attrs = pool_attrs({{"count_include_pad", AttrKind::Int, int64_t{0}}});
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    te::Builder b;
    const auto in = c.declare(b);
    ISOMER_TRY(const Pool p, pool(c));
    return b.finish({b.map("y", c.dtype(0), p.out, [&](auto i) {
      const Taps t = taps(b, p, in[0], i);
      return te::sum(t.axes, t.value, t.guard) /
             tap_count(b, p.window, c.dtype(0), i.subspan(2), c.flag("count_include_pad"));
    })});
  };
  op.samples = {"average_pool(f32[1,2,5,6]){kernel_shape=[2,3], strides=[2,1]}",
                "average_pool(f32[1,1,6,6]){kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2], ceil_mode=1}",
                "average_pool(f32[1,1,6]){kernel_shape=[3], pads=[1,1], count_include_pad=1, ceil_mode=1, strides=[2]}",
                "average_pool(f32[1,1,5,5]){kernel_shape=[2,2], auto_pad=\"SAME_LOWER\", dilations=[2,2]}"};
  op.onnx = {{.type = "AveragePool", .since = {1, 7, 10, 11, 19, 22}, .stable = 19}};
  return op;
}

namespace {

Expected<int64_t> norm_order(const ir::OpContext& c) {
  const int64_t p = c.integer("p");
  if (p < 1) return c.error(fmt::format("expected a positive norm order p, found {}", p));
  return p;
}

// The p-norm of `x` over `axes`.
Expr p_norm(const std::vector<te::Axis>& axes, const Expr& x, int64_t p, const Expr& guard) {
  if (p == 1) return te::sum(axes, abs(x), guard);
  if (p == 2) return sqrt(te::sum(axes, x * x, guard));
  const Expr order = Expr::real(x.dtype(), static_cast<double>(p));
  return pow(te::sum(axes, pow(abs(x), order), guard), Expr::real(x.dtype(), 1) / order);
}

// Opset 1 wrote the order as a real number; only whole ones have a newer form.
Expected<std::vector<ir::Value>> import_real_order(ir::ForeignNode& node, ir::GraphBuilder& b) {
  if (const double* p = node.attrs.get<double>("p")) {
    if (!(*p >= 1 && *p <= 1024) || *p != static_cast<double>(static_cast<int64_t>(*p)))
      return Diagnostic("E-op",
                        fmt::format("{}: norm order {} is not a whole number from 1 to 1024", node.op->name, *p));
    node.attrs.set("p", static_cast<int64_t>(*p));
  }
  return ir::add_as_is(node, b);
}

}  // namespace

ir::OpDef op_lp_pool() {
  ir::OpDef op;
  op.name = "lp_pool";
  op.doc = "The p-norm of the elements under each position of a sliding window.";
  op.inputs = {{"x", "T", kFloats}};
  op.outputs = {{"y", "T"}};
  op.attrs = pool_attrs({{"p", AttrKind::Int, int64_t{2}}});
  op.compute = [](const ir::OpContext& c) -> Expected<te::Program> {
    te::Builder b;
    const auto in = c.declare(b);
    ISOMER_TRY(const Pool p, pool(c));
    ISOMER_TRY(const int64_t order, norm_order(c));
    return b.finish({b.map("y", c.dtype(0), p.out, [&](auto i) {
      const Taps t = taps(b, p, in[0], i);
      return p_norm(t.axes, t.value, order, t.guard);
    })});
  };
  op.samples = {"lp_pool(f32[1,2,5,6]){kernel_shape=[2,3], strides=[2,1]}",
                "lp_pool(f32[1,1,6]){kernel_shape=[3], pads=[1,1], p=1, dilations=[2]}",
                "lp_pool(f32[1,1,6]){kernel_shape=[3], p=3, ceil_mode=1, strides=[2]}"};
  op.onnx = {{.type = "LpPool", .since = {1, 2, 11, 18, 22}, .stable = 18, .import = import_real_order}};
  return op;
}

namespace {

using GlobalBody = std::function<Expected<Expr>(const ir::OpContext&, const std::vector<te::Axis>&, const Expr& x)>;

// One number per channel, over all spatial axes, which keep extent 1.
ir::OpDef global_pool(std::string name, std::string doc, GlobalBody body) {
  ir::OpDef op;
  op.samples = {fmt::format("{}(f32[2,3,4,5])", name), fmt::format("{}(f32[1,2,7])", name)};
  op.name = std::move(name);
  op.doc = std::move(doc);
  op.inputs = {{"x", "T", kFloats}};
  op.outputs = {{"y", "T"}};
  op.compute = [body = std::move(body)](const ir::OpContext& c) -> Expected<te::Program> {
    te::Builder b;
    const auto in = c.declare(b);
    ISOMER_TRY(const std::vector<Dim> spatial, spatial_dims(c, 0));
    std::vector<Dim> out(c.rank(0), Dim(1));
    out[0] = c.dim(0, 0);
    out[1] = c.dim(0, 1);
    const std::vector<te::Axis> own = b.axes("i", out);
    const std::vector<te::Axis> axes = b.axes("s", spatial);
    std::vector<Expr> at = {Expr(own[0]), Expr(own[1])};
    for (const te::Axis& a : axes) at.emplace_back(a);
    ISOMER_TRY(const Expr y, body(c, axes, in[0].at(at)));
    return b.finish({b.stage("y", c.dtype(0), own, y)});
  };
  return op;
}

}  // namespace

ir::OpDef op_global_max_pool() {
  ir::OpDef op = global_pool("global_max_pool", "Largest element of each channel.",
                             [](const ir::OpContext&, const std::vector<te::Axis>& axes, const Expr& x) {
                               return Expected<Expr>(te::reduce(te::Combiner::Max, axes, x));
                             });
  op.onnx = {{.type = "GlobalMaxPool", .since = {1, 22}}};
  return op;
}

ir::OpDef op_global_average_pool() {
  ir::OpDef op = global_pool("global_average_pool", "Mean of each channel.",
                             [](const ir::OpContext& c, const std::vector<te::Axis>& axes, const Expr& x) {
                               Dim count(1);
                               for (const te::Axis& a : axes) count = count * a.extent;
                               return Expected<Expr>(te::sum(axes, x) / cast(c.dtype(0), Expr(count)));
                             });
  op.onnx = {{.type = "GlobalAveragePool", .since = {1, 22}}};
  return op;
}

ir::OpDef op_global_lp_pool() {
  ir::OpDef op =
      global_pool("global_lp_pool", "The p-norm of each channel.",
                  [](const ir::OpContext& c, const std::vector<te::Axis>& axes, const Expr& x) -> Expected<Expr> {
                    ISOMER_TRY(const int64_t p, norm_order(c));
                    return p_norm(axes, x, p, {});
                  });
  op.attrs = {{"p", AttrKind::Int, int64_t{2}}};
  op.samples.push_back("global_lp_pool(f32[1,2,7]){p=3}");
  op.onnx = {{.type = "GlobalLpPool", .since = {1, 2, 22}, .stable = 2, .import = import_real_order}};
  return op;
}

}  // namespace isomer::ops
