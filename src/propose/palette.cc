#include "propose/palette.h"

#include <fmt/format.h>

#include "base/quote.h"
#include "ir/literal.h"

namespace isomer::propose {
namespace {

using Kind = OperandSpec::Kind;
using Ints = std::vector<int64_t>;

Dim sym(std::string_view name) { return Dim::symbol(name); }
OperandSpec operand(uint32_t i) { return {Kind::Operand, i, 0, {}}; }
OperandSpec result(uint32_t i) { return {Kind::Call, i, 0, {}}; }
OperandSpec number(double v) { return {Kind::Number, 0, v, {}}; }
OperandSpec sizes(std::vector<Dim> s) { return {Kind::Sizes, 0, 0, std::move(s)}; }

Template op(std::string name, uint8_t operands, ir::Attrs attrs = {}, std::vector<int8_t> ranks = {}) {
  Template t;
  CallSpec c;
  c.op = std::move(name);
  for (uint32_t i = 0; i < operands; ++i) c.operands.push_back(operand(i));
  c.attrs = std::move(attrs);
  t.calls.push_back(std::move(c));
  t.operands = operands;
  t.ranks = std::move(ranks);
  return t;
}
Template same(Template t) {
  t.same_shape = true;
  return t;
}
// x - x and x / x are numbers, and a number made of any tensor says nothing of the tensor.
Template distinct(Template t) {
  t.distinct = true;
  return t;
}
Template calls(std::vector<CallSpec> list) {
  Template t;
  t.calls = std::move(list);
  return t;
}
Template sized(std::string name, std::vector<Dim> target, std::vector<int8_t> ranks) {
  Template t = op(std::move(name), 1, {}, std::move(ranks));
  t.calls[0].operands.push_back(sizes(std::move(target)));
  return t;
}

void concat_and_split(std::vector<Template>& out, const Ints& axes) {
  for (const int64_t axis : axes) out.push_back(op("concat", 2, {{"axis", axis}}));
  for (const int64_t axis : axes)
    for (uint8_t cut = 0; cut < 2; ++cut) {
      Template t = op("split", 1, {{"axis", axis}});
      t.calls[0].operands.push_back({Kind::Parts, static_cast<uint32_t>(axis), 0, {}});
      t.results = 2;
      t.cut = cut;
      out.push_back(std::move(t));
    }
}

const Tensor& filled(double v) {
  static const Tensor zero = Tensor::of<double>(DType::F32, {1}, {0}), one = Tensor::of<double>(DType::F32, {1}, {1});
  return v == 0 ? zero : one;
}
CallSpec fill(std::vector<Dim> shape, double v) {
  return {"constant_of_shape", {sizes(std::move(shape))}, {{"value", filled(v)}}};
}
const Ints kBorder = {0, 0, 1, 1, 0, 0, 1, 1};
OperandSpec border() { return sizes({kBorder.begin(), kBorder.end()}); }

// The constants of TASO: identities of matmul, of * and of conv, and the kernel of an average.
Template identity_matrix(const Dim& n) { return calls({fill({n, n}, 0), {"eye_like", {result(0)}, {}}}); }
Template identity_kernel(const Dim& c) {
  return calls({fill({c, c}, 0),
                {"eye_like", {result(0)}, {}},
                {"reshape", {result(1), sizes({c, c, 1, 1})}, {}},
                {"pad", {result(2), border()}, {}}});
}
Template pooling_kernel(const Dim& c) { return calls({fill({c, 1, 3, 3}, 1), {"div", {result(0), number(9)}, {}}}); }

struct ConvChoice {
  int64_t kernel, stride, pad, dilation;
  bool depthwise;
};
Template conv(const ConvChoice& c) {
  ir::Attrs attrs;
  const auto set = [&](const char* name, int64_t v, int64_t standard, size_t count) {
    if (v != standard) attrs.set(name, Ints(count, v));
  };
  set("strides", c.stride, 1, 2);
  set("pads", c.pad, 0, 4);
  set("dilations", c.dilation, 1, 2);
  Template t = op("conv", 2, std::move(attrs), {4, 4});
  t.extents = {{1, 2, Dim(c.kernel)}, {1, 3, Dim(c.kernel)}, {0, 2, sym("H")}};
  if (c.depthwise) {
    t.extents.push_back({1, 1, Dim(1)});
    t.calls[0].sizes = {{"group", Dim::symbol("$0.1")}};
  }
  return t;
}
Template pool(const std::string& name, int64_t stride, int64_t pad, bool counts_padding) {
  ir::Attrs attrs{{"kernel_shape", Ints{3, 3}}};
  if (stride != 1) attrs.set("strides", Ints{stride, stride});
  if (pad != 0) attrs.set("pads", Ints(4, pad));
  if (counts_padding) attrs.set("count_include_pad", int64_t{1});
  Template t = op(name, 1, std::move(attrs), {4});
  t.extents = {{0, 2, sym("H")}};
  return t;
}
Template enlarge() {
  Template t = op("pad", 1, {}, {4});
  t.calls[0].operands.push_back(border());
  t.extents = {{0, 2, Dim(1)}, {0, 3, Dim(1)}};
  t.inputs_only = true;
  return t;
}

Family taso_matrices() {
  const Dim m = sym("M"), k = sym("K");
  Family f{"matrix", {{"x", {m, k}, 3}, {"w", {k, k}, 3}, {"s", {}, 1}}, {}, {{"M", 2}, {"K", 3}}};
  f.templates = {same(op("add", 2, {}, {2, 2})), same(op("mul", 2, {}, {2, 2})),
                 op("mul", 2, {}, {2, 0}),       op("matmul", 2, {}, {2, 2}),
                 op("relu", 1, {}, {2}),         op("transpose", 1, {{"perm", Ints{1, 0}}}, {2})};
  concat_and_split(f.templates, {0, 1});
  f.templates.push_back(identity_matrix(k));
  f.templates.push_back(calls({fill({m, k}, 1)}));
  return f;
}

Family taso_convolutions() {
  const Dim n = sym("N"), c = sym("C"), h = sym("H"), w = sym("W");
  Family f{
      "conv",
      {{"x", {n, c, h, w}, 3}, {"w", {c, c, 3, 3}, 2}, {"v", {c, c, 1, 1}, 2}, {"d", {c, 1, 3, 3}, 1}, {"s", {}, 1}},
      {},
      {{"N", 1}, {"C", 2}, {"H", 3}, {"W", 2}}};
  f.templates = {same(op("add", 2, {}, {4, 4})), same(op("mul", 2, {}, {4, 4})),
                 op("mul", 2, {}, {4, 0}),       op("relu", 1, {}, {4}),
                 conv({3, 1, 1, 1, false}),      conv({1, 1, 0, 1, false}),
                 conv({3, 1, 1, 1, true}),       pool("average_pool", 1, 1, true),
                 pool("max_pool", 1, 1, false),  enlarge()};
  concat_and_split(f.templates, {0, 1});
  f.templates.push_back(identity_kernel(c));
  f.templates.push_back(pooling_kernel(c));
  return f;
}

Family full_matrices() {
  const Dim m = sym("M"), k = sym("K");
  Family f{"matrix", {{"x", {m, k}, 3}, {"w", {k, k}, 3}, {"b", {k}, 2}}, {}, {{"M", 2}, {"K", 3}}};
  f.templates = {op("add", 2),
                 distinct(op("sub", 2)),
                 op("mul", 2),
                 distinct(op("div", 2)),
                 op("matmul", 2, {}, {2, 2}),
                 op("relu", 1),
                 op("transpose", 1, {{"perm", Ints{1, 0}}}, {2})};
  concat_and_split(f.templates, {0, 1});
  f.templates.push_back(identity_matrix(k));
  return f;
}

// Softmax, normalisations and what they are made of.
Family full_reductions() {
  const Dim m = sym("M"), k = sym("K");
  Family f{"reduce", {{"x", {m, k}, 3}, {"b", {k}, 1}, {"r", {m, Dim(1)}, 1}}, {}, {{"M", 2}, {"K", 3}}};
  f.templates = {op("add", 2),
                 distinct(op("sub", 2)),
                 op("mul", 2),
                 distinct(op("div", 2)),
                 op("exp", 1),
                 op("relu", 1),
                 op("sqrt", 1),
                 op("neg", 1),
                 op("softmax", 1, {{"axis", int64_t{1}}}, {2}),
                 op("transpose", 1, {{"perm", Ints{1, 0}}}, {2})};
  for (const char* name : {"reduce_sum", "reduce_mean", "reduce_max"})
    for (const int64_t axis : {0, 1}) {
      Template t = sized(name, {Dim(axis)}, {2});
      f.templates.push_back(std::move(t));
    }
  return f;
}

Family full_batches() {
  const Dim b = sym("B"), m = sym("M"), k = sym("K");
  Family f{"batch",
           {{"x", {b, m, k}, 2}, {"y", {b, k, m}, 1}, {"w", {k, k}, 2}, {"v", {k}, 1}},
           {},
           {{"B", 2}, {"M", 4}, {"K", 3}}};
  f.templates = {op("add", 2),
                 op("mul", 2),
                 op("matmul", 2),
                 op("relu", 1),
                 op("transpose", 1, {{"perm", Ints{0, 2, 1}}}, {3}),
                 op("transpose", 1, {{"perm", Ints{1, 0, 2}}}, {3}),
                 op("transpose", 1, {{"perm", Ints{1, 0}}}, {2}),
                 sized("reshape", {Dim::symbol("$0.0") * Dim::symbol("$0.1"), Dim::symbol("$0.2")}, {3}),
                 sized("reshape", {Dim::symbol("$0.0"), Dim::symbol("$0.1") * Dim::symbol("$0.2")}, {3}),
                 sized("reshape", {b, m, Dim::symbol("$0.1")}, {2})};
  concat_and_split(f.templates, {0, 2});
  return f;
}

Family full_convolutions() {
  const Dim n = sym("N"), c = sym("C"), h = sym("H"), w = sym("W");
  Family f{"conv",
           {{"x", {n, c, h, w}, 3},
            {"w", {c, c, 3, 3}, 2},
            {"v", {c, c, 1, 1}, 2},
            {"d", {c, 1, 3, 3}, 1},
            {"b", {c, Dim(1), Dim(1)}, 1}},
           {},
           {{"N", 1}, {"C", 2}, {"H", 4}, {"W", 3}}};
  f.templates = {op("add", 2), op("mul", 2), op("relu", 1, {}, {4})};
  for (const ConvChoice& choice : {ConvChoice{3, 1, 1, 1, false},
                                   {3, 2, 1, 1, false},
                                   {3, 1, 0, 1, false},
                                   {3, 1, 2, 2, false},
                                   {1, 1, 0, 1, false},
                                   {1, 2, 0, 1, false},
                                   {3, 1, 1, 1, true},
                                   {3, 2, 1, 1, true}})
    f.templates.push_back(conv(choice));
  for (const int64_t stride : {1, 2}) {
    f.templates.push_back(pool("average_pool", stride, 1, true));
    f.templates.push_back(pool("average_pool", stride, 1, false));
    f.templates.push_back(pool("max_pool", stride, 1, false));
  }
  f.templates.push_back(enlarge());
  concat_and_split(f.templates, {0, 1});
  f.templates.push_back(identity_kernel(c));
  f.templates.push_back(pooling_kernel(c));
  return f;
}

Family full_normalisations() {
  const Dim n = sym("N"), c = sym("C"), h = sym("H"), w = sym("W");
  Family f{"norm",
           {{"x", {n, c, h, w}, 2}, {"w", {c, c, 1, 1}, 1}, {"g", {c}, 4}, {"b", {c, Dim(1), Dim(1)}, 2}},
           {},
           {{"N", 1}, {"C", 2}, {"H", 3}, {"W", 2}}};
  Template bn = distinct(op("batch_normalization", 5, {}, {4, 1, 1, 1, 1}));
  bn.extents = {{0, 2, h}};
  f.templates = {bn,
                 op("add", 2, {}, {4, 4}),
                 op("add", 2, {}, {4, 3}),
                 op("add", 2, {}, {1, 1}),
                 op("mul", 2, {}, {4, 3}),
                 op("mul", 2, {}, {1, 1}),
                 op("relu", 1, {}, {4}),
                 conv({1, 1, 0, 1, false}),
                 sized("reshape", {c, 1, 1}, {1}),
                 op("concat", 2, {{"axis", int64_t{0}}}, {4, 4}),
                 op("concat", 2, {{"axis", int64_t{1}}}, {4, 4}),
                 op("concat", 2, {{"axis", int64_t{0}}}, {1, 1})};
  return f;
}

}  // namespace

Expected<OperatorSet> operator_set(std::string_view name) {
  if (name == "taso") return OperatorSet{"taso", {taso_matrices(), taso_convolutions()}};
  if (name == "full")
    return OperatorSet{
        "full", {full_matrices(), full_reductions(), full_batches(), full_convolutions(), full_normalisations()}};
  return Diagnostic("E-usage", fmt::format("there is no operator set {}; there are taso and full",
                                           isomer::quoted(std::string(name))));
}

namespace {

std::string call_text(const Template& t, size_t which) {
  const CallSpec& c = t.calls[which];
  std::string s = c.op + "(";
  for (size_t i = 0; i < c.operands.size(); ++i) {
    const OperandSpec& o = c.operands[i];
    if (i) s += ", ";
    switch (o.kind) {
      case Kind::Operand: s += fmt::format("${}", o.index); break;
      case Kind::Call: s += call_text(t, o.index); break;
      case Kind::Number: s += fmt::format("{}", o.number); break;
      case Kind::Parts: s += fmt::format("cut {}", t.cut); break;
      case Kind::Sizes:
        for (size_t k = 0; k < o.sizes.size(); ++k) s += (k ? "," : "[") + o.sizes[k].to_string();
        s += "]";
    }
  }
  return s + ")";
}

}  // namespace

std::string to_string(const Template& t) { return call_text(t, t.calls.size() - 1); }

}  // namespace isomer::propose
